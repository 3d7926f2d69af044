"""`manage.py inspect PATH`: what a checkpoint is, its position, what is wrong, what to do. Reads only."""

from argparse import ArgumentParser
from dataclasses import replace

from recovery.checkpoints.absent import UNTOLD
from recovery.checkpoints.report import CheckpointReport
from recovery.cli import inspection
from recovery.cli.inspection import KnownFlow
from recovery.management.commands._base import CommandAnswer, Options, RepriseCommand
from recovery.models import Flow


class Command(RepriseCommand):
    """Exit 0: sound; 1: there is a blocker, or a file of the batch cannot be read; 2: the path cannot be read.

    The answer of `reprise inspect`, with what this instance knows of the code that runs on the checkpoint.
    """

    help = inspection.HELP

    def add_options(self, parser: ArgumentParser) -> None:
        inspection.add_options(parser)

    def answer(self, options: Options) -> CommandAnswer:
        return inspection.answer(inspection.request_of(options), find_flow)


def find_flow(report: CheckpointReport) -> KnownFlow | None:
    """The flow of the inventory whose checkpoint this is; None where there is none."""
    from recovery.workflow import verdicts  # late: with it comes what works on recoveries

    known = verdicts.known_flow(report)
    if known is None:
        return None
    flow, root = known
    return KnownFlow(flow.pipeline.name, flow.name, _with_code(flow, root, report))


def _with_code(flow: Flow, root: str, report: CheckpointReport) -> CheckpointReport:
    """The report with what the flow's code adds to it; whether that keeps state hangs on no file where it is known."""
    from recovery.workflow import verdicts
    from recovery.workflow.selectors import open_recovery_of

    recovery = open_recovery_of(flow.pk)
    found = verdicts.verdict_on(flow, report, recovery=recovery, root=root).findings
    if verdicts.code_operators(flow, recovery) is not None:
        found = tuple(f for f in found if f.code not in UNTOLD)
    return replace(report, findings=found)
