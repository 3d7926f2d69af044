"""A run that somebody stops: the step that watches an update stops it, once, and watches it to its end."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from recovery.contracts.results import BeforeFurther, VerifyResult
from recovery.contracts.step_notes import StepNotes, UpdateWatch
from recovery.errors import Refused
from recovery.workflow.fingerprints import of_code
from recovery.workflow.steps import rerun, verify
from recovery.workflow.steps.base import Context
from tests.factories.plans import plan_contents
from tests.refusals import refused
from tests.unit.workflow.steps_in_memory import StepInMemory

CONTENTS = plan_contents(dataset="t", preconditions={"code": of_code({"/p/q.py": ""})})


class World:
    """An update that runs until it is stopped; `who` stops the run after the first look."""

    def __init__(self, who: str = "") -> None:
        self.who, self.stops, self.said = who, 0, list[str]()
        self._states = self._run()

    def _run(self) -> Iterator[str]:
        yield "RUNNING"
        yield "STOPPING" if self.who else "RUNNING"
        yield "CANCELED" if self.stops else "COMPLETED"

    def context(self) -> Any:
        client = SimpleNamespace(
            get_update=lambda pipeline, update: {"state": next(self._states)},
            stop=lambda pipeline: setattr(self, "stops", self.stops + 1),
        )
        step = StepInMemory()
        step.keep(StepNotes(watched=UpdateWatch(began="2026-11-23T00:00:00+00:00")))
        return SimpleNamespace(
            client=client, pipeline_id="p", held_by=self.who, step=step, run_noun="update",
            watch=step, log=self.said.append, contents=CONTENTS, flow=SimpleNamespace(name="f"),
        )  # fmt: skip

    def ends(self) -> str:
        """Looks, one after the other, until the update has ended."""
        context = self.context()
        while (ended := rerun.find_end_of(context, "u-1")) is None:
            pass
        return ended


def test_nobody_stops_it_so_it_runs_to_its_end() -> None:
    world = World()
    assert (world.ends(), world.stops) == ("COMPLETED", 0)


def test_the_update_is_stopped_once_and_looked_at_until_that_is_read_back() -> None:
    world = World("ada")
    assert (world.ends(), world.stops) == ("CANCELED", 1)
    assert "ada stops the recovery" in world.said[1]


def test_a_stopped_rerun_names_who_did_it_and_how_to_go_on() -> None:
    context: Context = World("ada").context()
    assert rerun._why(context, "u-1", "CANCELED").startswith("Update u-1 was stopped by ada")


def test_a_stopped_verification_is_no_verdict() -> None:
    context = World("ada").context()
    before = BeforeFurther(
        verdict={"verified": False, "criteria": []},
        outcome={},
        below={},
        rows=20,
        listed={},
        version=None,
        files=(),
        ends=None,
        strange=None,
    )
    context.step.keep(VerifyResult(further="u-1", before_further=before))
    with refused("refused", Refused, names=("ada",)):
        verify.go_on(context, "CANCELED")
    assert context.step.result["further"] is None
