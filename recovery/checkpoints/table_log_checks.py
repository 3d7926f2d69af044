"""The table beside a checkpoint: what its log says against the batches that are planned and committed."""

from collections.abc import Mapping, Sequence

from recovery.checkpoints import deltasink, sinklog, tablekind
from recovery.checkpoints.deltalog import FOLDER
from recovery.checkpoints.findings import finding
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.report import Finding, StateOperator
from recovery.checkpoints.storage import Store
from recovery.checkpoints.tablekind import TableKind
from recovery.errors import Unreachable


def beside_table(
    table: Store,
    query_id: str | None,
    committed: int | None,
    planned: int | None,
    operators: Sequence[StateOperator],
    *,
    deep: bool,
    planned_at: Mapping[int, int],
    checkpoint: Store,
) -> list[Finding]:
    """Findings of a file table's or a Delta table's log. Raises Unreachable, OSError.

    `deep`: look for the data files of a file table, too. `planned_at`: when batches were planned, in ms since 1970.
    """
    if not table.exists():
        raise Unreachable(f"Table {table.location} does not exist. Check the path.")
    unique_state = any(o.state_format == 2 for o in operators)
    if not table.is_dir(FOLDER):
        log = sinklog.read_sink_log(table) if deep else sinklog.read_log_head(table)
        if not log.present and (other := _without_log(table, sinklog.following_batch(committed, planned))):
            return [other]
        findings = sinklog.judge_sink_log(log, committed, planned, unique_state=unique_state)
        if log.present:
            plans = sinklog.read_plan_times(checkpoint, table, planned_at)
            findings += sinklog.find_skipped(table, plans, committed)
        return findings + (sinklog.judge_files(table, log) if deep else [])
    try:  # a table that was converted to Delta keeps the log that it had as a file table: no one writes it any more
        sink = deltasink.read_delta_sink(table)
        if sink is None:
            return []
        findings = deltasink.judge_delta_sink(sink, query_id, committed, planned, unique_state=unique_state)
        return findings + deltasink.find_rows_of_before(table, sink, query_id, planned_at)
    except Malformed as problem:
        raise Unreachable(
            f"The log of {table.location} cannot be read: {problem.why}. Repair it."
        ) from problem


def _without_log(table: Store, following: int) -> Finding | None:
    """What is said of a table that needs no file sink's log; None: a file sink's, as far as its names tell."""
    kind = tablekind.kind_of(table)
    if kind is TableKind.FILES:
        return None
    if kind is TableKind.BATCH:
        return finding("SINK_WITHOUT_LOG", next=following)
    return finding("SINK_NOT_COMPARED", kind=kind.value)
