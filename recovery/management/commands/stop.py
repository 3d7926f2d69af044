"""`manage.py stop PIPELINE`: the early stop of a failing flow's pipeline, or of its recovery's run."""

from argparse import ArgumentParser
from typing import Any

from recovery.management.commands import _acting
from recovery.management.commands._base import CommandAnswer, Options, RepriseCommand
from recovery.models import Recovery
from recovery.people.roles import Right
from recovery.workflow import actions, by_hand
from recovery.workflow.moves import state_label
from recovery.workflow.selectors import open_recovery_of

STOP_SECONDS = 180.0


class Command(RepriseCommand):
    """Exit 0: nothing runs (it says whether something did); 1: refused; 2: something is away."""

    help = (
        "Stops the pipeline of a failing flow, proves that nothing runs, and opens a recovery. If "
        "that recovery already runs, stops its update and begins no other step; execute resumes it."
    )
    right = Right.RECOVER

    def add_options(self, parser: ArgumentParser) -> None:
        _acting.flow_options(parser)
        parser.add_argument(
            "--healthy",
            action="store_true",
            help="Also stop a flow that does not fail, to go back to an earlier position.",
        )

    def answer(self, options: Options) -> CommandAnswer:
        flow = _acting.flow_of(options, self.actor)
        opened = open_recovery_of(flow.pk)
        if opened is not None and opened.state in by_hand.MOVING:
            return self._run(opened)
        running = by_hand.is_running(flow)
        recovery = opened or actions.open_recovery(flow_id=flow.pk, by=self.actor, healthy=options["healthy"])
        by_hand.stop_first(flow=flow, recovery_id=recovery.pk, by=self.actor, say=_acting.say)
        says = "It is stopped now." if running else "Nothing was running."
        return CommandAnswer(
            _data(recovery, was_running=running), f"{says} {recovery.label} is open for {flow.name}."
        )

    def _run(self, opened: Recovery) -> CommandAnswer:
        """Its own steps obey the stop, so that no update of the run is left behind."""
        actions.stop_run(recovery_id=opened.pk, by=self.actor)
        recovery = by_hand.wait(opened, say=_acting.say, timeout=STOP_SECONDS)
        says = f"{recovery.label} is {state_label(recovery.state)}. {recovery.reason}"
        return CommandAnswer(_data(recovery, was_running=True), says)


def _data(recovery: Recovery, *, was_running: bool) -> dict[str, Any]:
    pipeline = recovery.flow.pipeline.pipeline_id
    return {
        "recovery": recovery.label,
        "state": recovery.state,
        "pipeline": pipeline,
        "was_running": was_running,
    }
