"""The inputs of a plan beside the sources of a checkpoint: which is which."""

from recovery.checkpoints.report import CheckpointReport, SourceProgress
from recovery.contracts.plan import PlannedInput


def held_of(report: CheckpointReport, n: int, source: PlannedInput) -> SourceProgress | None:
    """The source of a checkpoint that is the plan's `n`th input: by its name, where the checkpoint knows names (they
    may be in another order there), else by its index."""
    if source.is_named:
        return next((s for s in report.sources if s.name == source.source), None)
    return next((s for s in report.sources if s.index == n), None)
