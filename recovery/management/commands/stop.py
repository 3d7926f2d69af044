"""`manage.py stop PIPELINE`: the early stop of a failing flow's pipeline, as a step of its recovery."""

from argparse import ArgumentParser
from typing import Any

from recovery.management.commands import _acting
from recovery.management.commands._base import Answer, RepriseCommand
from recovery.people.roles import Right
from recovery.workflow import by_hand


class Command(RepriseCommand):
    """Exit 0: nothing runs (it says whether something did); 1: refused; 2: something is away."""

    help = "Stops the pipeline of a failing flow and proves that nothing runs. Opens its recovery."
    right = Right.RECOVER

    def add_options(self, parser: ArgumentParser) -> None:
        _acting.flow_options(parser)

    def answer(self, options: dict[str, Any]) -> Answer:
        flow = _acting.flow_of(options)
        running = by_hand.is_running(flow)
        recovery = by_hand.open_or_go_on(flow, by=self.actor)
        if running:
            by_hand.stop_first(flow=flow, recovery_id=recovery.pk, by=self.actor, say=_acting.say)
        says = "It is stopped now." if running else "Nothing was running."
        return Answer(
            {"recovery": recovery.label, "pipeline": flow.pipeline.pipeline_id, "was_running": running},
            f"{says} {recovery.label} is open for {flow.name}.",
        )
