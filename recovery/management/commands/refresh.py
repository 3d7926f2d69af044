"""`manage.py refresh PIPELINE`: start an update of what stands below a flow and is stale or empty."""

from argparse import ArgumentParser

from recovery.management.commands._base import CommandAnswer, Options, RepriseCommand
from recovery.names import shown
from recovery.people.roles import Right
from recovery.pipelines.find import find_fresh
from recovery.workflow import refreshing
from recovery.workflow.refreshing import PATIENCE, RefreshPhase


class Command(RepriseCommand):
    """Exit 0: the update was started; 1: it was refused, or whether it started is not known; 2: something is away."""

    help = (
        "Refreshes stale or empty datasets below a flow, outside of any recovery. Skips tables that "
        "would read rows twice, and datasets of other pipelines."
    )
    right = Right.RECOVER

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("pipeline", help="Id or unique name of the pipeline.")
        parser.add_argument(
            "--flow",
            help="Name, last part of the name, or target table of the flow above them. Default: the only "
            "flow with a late dataset below it.",
        )
        parser.add_argument(
            "--wait-seconds",
            type=float,
            default=PATIENCE.total_seconds(),
            help="Seconds to wait for the update to start. Default: %(default)s.",
        )

    def answer(self, options: Options) -> CommandAnswer:
        flow = refreshing.find_flow_above(find_fresh(options["pipeline"], self.actor), options["flow"])
        asked = refreshing.request_refresh(flow_id=flow.pk, by=self.actor)
        found = refreshing.wait_taken(flow.pk, asked, seconds=options["wait_seconds"])
        data = refreshing.described(flow, found)
        names = ", ".join(shown(name.rsplit(".", 1)[-1]) for name in found.datasets)
        if found.phase is RefreshPhase.STARTED:
            return CommandAnswer(data, f"Update {shown(found.update_id)} was started: it refreshes {names}.")
        return CommandAnswer(
            data, found.problem or "Whether the update was started is not known.", exit_code=1
        )
