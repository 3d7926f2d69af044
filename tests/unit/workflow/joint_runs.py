"""Runs of plans that run together, of steps that do nothing: what ran, in which order."""

from types import SimpleNamespace
from typing import Any

import pytest

from recovery.contracts.results import StepResult, VerifyResult
from recovery.models import JointPlan, Recovery, Step
from recovery.workflow import broker, engine, joint_actions, tasks
from recovery.workflow.steps.base import Context, ProbeOutcome, saw
from tests.factories.joint import step_of
from tests.unit.workflow.rows import RESPONDER

Acts = list[tuple[str, str]]


class Run:
    """Steps that do nothing but say that they ran, in the order in which they are woken; what a test names fails."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.acts: Acts = []
        self.fails: dict[tuple[str, str], Exception] = {}
        self.queue: list[tuple[int, int]] = []
        fakes = {kind: self._fake(kind) for kind in engine.KINDS}
        patch.setattr(engine, "KINDS", fakes)
        patch.setattr(broker, "check", lambda: None)
        patch.setattr(broker, "send_on_commit", self._sent)

    def _sent(self, task: Any, *args: Any) -> None:
        if task is tasks.run_step:
            self.queue.append((args[0], args[1]))

    def _fake(self, kind: str) -> SimpleNamespace:
        def run(context: Context) -> StepResult:
            at = (context.recovery.label, kind)
            self.acts.append(at)
            if at in self.fails:
                raise self.fails[at]
            return VerifyResult(measured=None) if kind == "verify" else StepResult()

        probe = lambda step: ProbeOutcome("not_done", [saw(True, "Nothing was done.")])  # noqa: E731
        return SimpleNamespace(SECONDS=60, run=run, probe=probe)

    def to_rest(self) -> Acts:
        """Run what is woken until nothing is; what ran."""
        before = len(self.acts)
        while self.queue:
            engine.run_step(*self.queue.pop(0))
        return self.acts[before:]


def names(rows: list[Recovery], *kinds: str) -> Acts:
    return [(row.label, kind) for kind in kinds for row in rows]


def execute(joint: JointPlan) -> None:
    joint_actions.execute_joint(joint_id=joint.pk, by=RESPONDER)


class Updates:
    """A context of a rerun, without an API."""

    def __init__(self, step: Step) -> None:
        self.step, self.plan, self.recovery = step, step.plan, step.recovery
        self.run_noun, self.logged = "update", list[str]()

    def log(self, text: str) -> None:
        self.logged.append(text)


def rerun_of(row: Recovery) -> Any:
    return Updates(step_of(row, "rerun"))
