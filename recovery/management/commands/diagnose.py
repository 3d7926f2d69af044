"""`manage.py diagnose PIPELINE`: why a flow fails, what is damaged, what to do and what not to do."""

from argparse import ArgumentParser
from collections.abc import Iterable
from textwrap import fill
from typing import Any

from recovery.diagnosis.row import SEVERITIES
from recovery.management.commands._base import Answer, RepriseCommand, ago, plain, shown
from recovery.models import Flow
from recovery.people.roles import Right
from recovery.pipelines.find import find_flow, find_fresh


class Command(RepriseCommand):
    """Exit 0: the flow is not failing; 1: it is; 2: no such pipeline or flow, or the workspace is away."""

    help = "Explains why a flow fails."
    right = Right.VIEW

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("pipeline", help="Id or unique name of the pipeline.")
        parser.add_argument(
            "--flow", help="Name, last part of the name, or target table; default: the failing one."
        )

    def answer(self, options: dict[str, Any]) -> Answer:
        pipeline = find_fresh(options["pipeline"], self.actor)
        flow = find_flow(pipeline, options["flow"])
        about = {
            "pipeline": {"id": pipeline.pipeline_id, "name": pipeline.name},
            "environment": pipeline.environment,
            "flow": flow.name,
            "dataset": flow.dataset,
            "state": flow.state,
            "failing_since": flow.failing_since.isoformat() if flow.failing_since else None,
            "problem": pipeline.workspace.poll_error or None,
        }
        if flow.state != "failed" and not flow.error:
            says = f"{flow.name} is not failing: its state is {flow.state}, its last runs {runs(flow)}."
            return Answer({**about, "diagnosis": None, "says": says}, says)
        from recovery.workflow.diagnosing import diagnose_flow

        found = diagnose_flow(flow)
        return Answer({**about, "diagnosis": found}, text(flow, found), exit_code=1)


def runs(flow: Flow) -> str:
    """The history in words."""
    return ", ".join(flow.history) or "are none yet"


def text(flow: Flow, found: dict[str, Any]) -> str:
    """What happened, how bad it is, what to do, what not to do, and the error itself last."""
    lines = [plain(found["title"]), ""]
    lines += [
        f"Flow       {shown(flow.name)} of pipeline {shown(flow.pipeline.name)} ({flow.pipeline.environment})",
        f"Failing    for {ago(flow.failing_since)}, last in update {flow.failed_update}",
        f"Condition  {shown(found['condition'] or 'none that Spark names')}",
        f"Damaged    {plain(found['damaged'])}",
        f"Severity   {found['severity']} of 5, {SEVERITIES[found['severity']]}",
    ]
    if found["says"]:
        lines += ["", fill(plain(found["says"]), 100)]
    lines += ["", "Do", *_points(found["do"])]
    if found["dont"]:
        lines += ["", "Do not"]
        lines += _points(t.removeprefix("Do not ") for t in found["dont"])
    if found["causes"]:
        lines += ["", "Spark says", fill(shown(found["causes"][-1]["message"][:1500]), 100)]
    plan = f"bin/manage plan {flow.pipeline.pipeline_id} --flow {flow.name} --strategy {_first(found['do'])}"
    return "\n".join([*lines, "", f"Next: {plan}"])


def _first(do: Iterable[str]) -> str:
    """The strategy to begin with: continue, but where the advice is not to drop the state."""
    told = " ".join(do)
    return "revert" if "put the old code back" in told and "continue" not in told else "continue"


def _points(texts: Iterable[str]) -> list[str]:
    return [fill(plain(t), 100, initial_indent="  - ", subsequent_indent="    ") for t in texts]
