"""What a Delta table remembers of the streams that write it, and whether a next batch fits. Beside `sinklog`.

Each batch is committed with `txn {appId: query id, version: batch id}`. Source: DeltaSink.addBatch skips, without a
word, every batch whose id is not above the newest that the table has of the same query id; a batch under another id
is always written. With foreachBatch the ids are those of the options txnAppId and txnVersion.
"""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from recovery.checkpoints import deltalog
from recovery.checkpoints.findings import finding
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.report import Finding
from recovery.checkpoints.storage import Store
from recovery.errors import Unreachable

SHOWN_COMMITS = 100  # newest commits that are opened to tell which files a batch has added
QUERY_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # an option txnAppId is seldom one
RETENTION = "delta.setTransactionRetentionDuration"


@dataclass(frozen=True)
class DeltaSink:
    """What a Delta table's log holds of its streams."""

    table_id: str
    version: int
    #: application (query) id -> newest batch
    heads: Mapping[str, int] = field(default_factory=dict)
    #: of one application: batch -> files that it added
    batches: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    #: of these batches; None: the statistics do not show it
    rows: Mapping[int, int | None] = field(default_factory=dict)
    #: newest batch of applications that the table no longer counts: their batches are there, and a batch that
    #: comes again is written again
    forgotten: Mapping[str, int] = field(default_factory=dict)
    #: when each application wrote last, in ms since 1970, as far as the table keeps it
    updated_ms: Mapping[str, int] = field(default_factory=dict)
    #: the table forgets applications; what a checkpoint of the log left out is no longer known
    forgets: bool = False


def read_delta_sink(
    table: Store, app_id: str | None = None, *, now_ms: int | None = None
) -> DeltaSink | None:
    """What the table remembers; None: it is no Delta table. Raises OSError, Unreachable, Malformed.

    `app_id`: whose batches are listed one by one, as far as the newest commits name them.
    """
    log = deltalog.list_log(table)
    if log is None:
        return None
    try:
        state = deltalog.table_state(log, log.latest)
    except deltalog.DeltaLogGone as gap:
        raise Unreachable(f"{table.location} cannot be read: {gap}. Put its log back.") from gap
    now = round(time.time() * 1000) if now_ms is None else now_ms
    forgotten = {name: txn.version for name, txn in state.txns.items() if _may_be_forgotten(state, txn, now)}
    heads = {name: txn.version for name, txn in state.txns.items() if name not in forgotten}
    batches: dict[int, tuple[str, ...]] = {}
    rows: dict[int, int | None] = {}
    if app_id is not None and app_id in heads:
        newest = range(max(log.earliest, log.latest - SHOWN_COMMITS + 1), log.latest + 1)
        for _, actions in deltalog.read_commits(log, newest):
            _add_batch(actions, app_id, batches, rows)
    return DeltaSink(
        state.table_id,
        log.latest,
        heads,
        batches,
        rows,
        forgotten,
        {name: txn.updated_ms for name, txn in state.txns.items() if txn.updated_ms is not None},
        forgets=RETENTION in state.properties,
    )


def was_emptied(table: Store, after_ms: int, until_ms: int) -> bool:
    """Whether a Delta table had no row at a moment, in ms since 1970, or was made after it and after an earlier one.
    False where it is not known: a log drops its oldest commits. Raises OSError."""
    log = deltalog.list_log(table)
    if log is None:
        return False
    try:
        then = max((version for version, at_ms in log.commits.items() if at_ms <= until_ms), default=None)
        if then is not None:
            return not deltalog.table_state(log, then, files=True).files
        return 0 in log.commits and _made_ms(log) > after_ms
    except (Malformed, deltalog.DeltaLogGone):
        return False


def _made_ms(log: deltalog.DeltaLog) -> int:
    """When the first commit was written, as it says itself: a table that was copied has later files."""
    [(_, actions)] = deltalog.read_commits(log, [0])
    infos = (action.get("commitInfo") for action in actions)
    stamp = next((info.get("timestamp") for info in infos if isinstance(info, Mapping)), None)
    return stamp if isinstance(stamp, int) else log.commits[0]


def _may_be_forgotten(state: deltalog.TableState, txn: deltalog.Txn, now_ms: int) -> bool:
    """A table may forget applications that were not heard of for long (InMemoryLogReplay)."""
    retention = state.properties.get(RETENTION)
    kept = deltalog.interval_ms(retention) if retention else None
    return kept is not None and txn.updated_ms is not None and txn.updated_ms <= now_ms - kept


def _add_batch(
    actions: list[deltalog.Action],
    app_id: str,
    batches: dict[int, tuple[str, ...]],
    rows: dict[int, int | None],
) -> None:
    txn = next((a["txn"] for a in actions if "txn" in a and a["txn"]["appId"] == app_id), None)
    if txn is None:
        return
    files = [deltalog.added_file(a["add"]) for a in actions if "add" in a]
    known_rows = [f.rows for f in files if f.rows is not None]
    batches[int(txn["version"])] = tuple(f.path for f in files)
    rows[int(txn["version"])] = sum(known_rows) if len(known_rows) == len(files) else None


def explain_misfit(head: int | None, next_batch: int) -> Finding | None:
    """What goes wrong when `next_batch` is written under an id of which the table has `head`; None: nothing.

    Numbers may be left out, so a head that is far behind does no harm.
    """
    if head is None or head < next_batch:
        return None
    return finding("SINK_SWALLOWS", deltalog.FOLDER, head=head, next=next_batch, wanted=head + 1)


def judge_delta_sink(
    sink: DeltaSink, query_id: str | None, committed: int | None, planned: int | None, *, unique_state: bool
) -> list[Finding]:
    """Findings of a Delta table beside a checkpoint of this query that has committed and planned these batches."""
    head = sink.heads.get(query_id) if query_id else None
    following = 0 if committed is None else committed + 1
    if planned is not None and planned >= following:
        following = planned
    if head is not None and head == following == planned:
        code = "SINK_SKIPS_STATE" if unique_state else "SINK_UNCOMMITTED_BATCH"
        return [finding(code, deltalog.FOLDER, head=head)]
    if head is None and (
        uncounted := _find_uncounted_batch(sink.forgotten.get(query_id or ""), following, planned)
    ):
        return [uncounted]
    problem = explain_misfit(head, following)
    return [problem] if problem else []


def find_rows_of_before(
    table: Store, sink: DeltaSink, query_id: str | None, planned_at: Mapping[int, int]
) -> list[Finding]:
    """The finding for rows of a query that wrote a Delta table last before this one began, as after a reset. A
    checkpoint that no longer has its first batch tells nothing. Raises OSError, Malformed.

    `planned_at`: when batches were planned (their offset file), in ms since 1970; none were of one that is empty.
    """
    began_ms, heads = planned_at.get(0), {**sink.heads, **sink.forgotten}
    if planned_at and began_ms is None:
        return []
    ended = [
        app
        for app in heads
        if app != query_id
        and QUERY_ID.fullmatch(app)
        and (began_ms is None or sink.updated_ms.get(app, began_ms) < began_ms)
    ]
    log = deltalog.list_log(table) if ended else None
    if log is None:
        return []
    files = deltalog.table_state(log, sink.version, files=True).files.values()
    if not any(began_ms is None or file.modified_ms < began_ms for file in files):
        return []  # it was emptied between
    app = max(ended, key=lambda app: sink.updated_ms.get(app, 0))
    return [finding("SINK_HAS_ROWS_OF_BEFORE", deltalog.FOLDER, query=app, head=heads[app])]


def _find_uncounted_batch(forgotten: int | None, following: int, planned: int | None) -> Finding | None:
    """A batch that the table has and no longer counts, where the checkpoint would write it again; None: no such."""
    if forgotten is None or forgotten < following:
        return None
    code = "SINK_FORGOT_BATCH" if forgotten == following == planned else "SINK_FORGOT"
    return finding(code, deltalog.FOLDER, head=forgotten, next=following, setting=RETENTION)
