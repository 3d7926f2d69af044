"""Progress as checkpoint and table together have it: a batch that only the table has finished counts as done.

Spark writes the table's log before `commits/N`; a crash between the two leaves batch N planned in the checkpoint and
held by the table. Its range is that of `offsets/N`, which is on disk: N is never planned twice.
"""

from dataclasses import replace
from itertools import chain

from recovery.checkpoints import formats
from recovery.checkpoints.report import SHOWN_ENTRIES, CheckpointReport, Entries, SourceProgress

# What says that the table holds the planned batch. With state of format 2 Spark itself cannot finish that batch, for
# the table skips it and no task tells the ids of its state files; a checkpoint without state is not held up by that.
# One that the table has forgotten Spark would write a second time.
HELD_BY_THE_TABLE = {"SINK_UNCOMMITTED_BATCH", "SINK_SKIPS_STATE", "SINK_FORGOT_BATCH"}


def reconcile_report(report: CheckpointReport) -> CheckpointReport:
    """The report with a planned batch counted as committed, where its findings say that the table holds it."""
    held = any(f.code in HELD_BY_THE_TABLE for f in report.findings)
    return count_batch_committed(report, report.last_planned) if held else report


def count_batch_committed(report: CheckpointReport, batch: int | None) -> CheckpointReport:
    """The report as it will be once the planned `batch` is committed; unchanged where `batch` is not the next."""
    last = -1 if report.last_committed is None else report.last_committed  # the very first may have crashed
    if batch is None or batch != last + 1:
        return report
    ends = next((b["offsets"] for b in report.batches if b["batch"] == batch and b["planned"]), None)
    if ends is None or len(ends) != len(report.sources):
        return report
    sources = tuple(_move_to_table_end(s, end) for s, end in zip(report.sources, ends, strict=True))
    # the planned batch began at the watermark that the commit before it had set
    return replace(report, last_committed=batch, sources=sources, closed_ms=report.watermark_ms)


def is_first_batch_open(report: CheckpointReport) -> bool:
    """Whether batch 0 was planned and is finished neither here nor, for all that the report's findings say, in the
    table: nothing was processed yet."""
    standing = reconcile_report(report)
    return standing.last_committed is None and standing.last_planned == 0 and bool(standing.sources)


def stand_at_beginning(report: CheckpointReport) -> CheckpointReport:
    """The report with each source where it began, as far as it keeps that; unchanged where something was committed."""
    if not is_first_batch_open(report):
        return report
    sources = (s if s.first_json is None else replace(s, offset_json=s.first_json) for s in report.sources)
    return replace(report, sources=tuple(sources))


def _move_to_table_end(source: SourceProgress, end: str | None) -> SourceProgress:
    reached = formats.log_offset(end)
    planned = tuple(source.planned)  # the files of one batch, or of a few
    taken = Entries.from_entries(e for e in planned if reached is not None and e.batch_id <= reached)
    return replace(
        source,
        offset_json=end,
        log_offset=reached,
        committed=_join_entries(source.committed, taken),
        planned=Entries.from_entries(e for e in planned if reached is None or e.batch_id > reached),
        lost=None,
    )


def _join_entries(first: Entries, second: Entries) -> Entries:
    return Entries(
        len(first) + len(second),
        (*first.first, *second.first)[:SHOWN_ENTRIES],
        second.newest or first.newest,
        lambda: chain(first, second),
    )
