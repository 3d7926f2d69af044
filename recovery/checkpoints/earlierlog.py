"""A file table put back to what it held after an earlier batch: its log as it was then, as a new folder in its place.

Facts (FileStreamSinkLog): readers take the data files that `_spark_metadata` names and no other, so a log that ends at
batch b shows the table as it was after b. The data files of later batches stay in the table's folder, and no log names
them: the way back is to put the old log into place again. A compacted entry does not say which batch brought a file,
so a batch within one can be gone back to only while the entries up to it are kept one by one.

Order of writes, all in the table's folder, under names that Spark's listing passes over:

1. `.reprise-<id>.log.json`    the record: which batch, which entries. Before: nothing.
2. `.reprise-<id>-log/`        the entries up to the batch, copied; put on disk and read back.
3. `_spark_metadata` is renamed to `.reprise-<id>-log-before`, then the prepared one to `_spark_metadata`.
   A crash between the two leaves no log: a reader would then take every data file. `find_state` calls that half, and
   both putting back and undoing complete it.
"""

import json
from dataclasses import dataclass
from enum import StrEnum

from recovery.checkpoints import filelog, sinklog
from recovery.checkpoints.storage import Store, reaching
from recovery.checkpoints.undo_record import MAX_RECORD_BYTES, Guard, safe_label
from recovery.errors import Refused

NOT_KEPT = "batch_not_kept"
"""Code of a refusal: the table's log no longer tells what it held after the batch."""


class LogState(StrEnum):
    """How far a log has come: untouched, prepared beside, half swapped, in place, undone."""

    NOTHING = "nothing"
    PREPARED = "prepared"
    HALF = "half"
    IN_PLACE = "in-place"
    UNDONE = "undone"


@dataclass(frozen=True)
class EarlierLog:
    """The log of `table` after `batch`. `names`: its entry files. `kept` and `removed`: data files that it names, and
    that it no longer names, as the log writes them. `fingerprint`: of the log as it is now."""

    table: str
    batch: int
    head: int
    names: tuple[str, ...]
    kept: tuple[str, ...]
    removed: tuple[str, ...]
    fingerprint: str


def plan_earlier_log(location: str, batch: int) -> EarlierLog:
    """What the log would hold after `batch`. Reads only. Raises Refused (`batch_not_kept`) where its entries no longer
    tell, and for a table that is not on a file system with one rename; Unreachable."""
    with reaching(location):
        table = Store.open(location)
        if not table.local:
            raise Refused(
                f"{location} is on a store that cannot rename a folder in one act, so the log of the table is not "
                "changed there.",
                code="sink_not_put_back",
            )
        log = sinklog.read_sink_log(table)
        names = [e.name for e in table.entries(sinklog.FOLDER)] if log.present else []
        index = {n: name for n, name in filelog.index_of(names).items() if n <= batch}
        needed, missing = filelog.needed_entries(index)
        if log.head is None or missing or max(index, default=-1) != batch:
            raise Refused(
                f"What the table held after batch {batch} cannot be read from its log: the entries up to it are not "
                "kept one by one.",
                code=NOT_KEPT,
            )
        store = table.child(sinklog.FOLDER)
        entries = [
            e for n in needed for e in filelog.parse_sink(store.read(index[n], sinklog.MAX_ENTRY_BYTES))
        ]
    gone = {e.path for e in entries if e.action == "delete"}
    kept = dict.fromkeys(e.path for e in entries if e.path not in gone)
    now = dict.fromkeys(e.path for e in log.files if e.action == "add")
    return EarlierLog(
        table=location,
        batch=batch,
        head=log.head,
        names=tuple(index[n] for n in sorted(index)),
        kept=tuple(kept),
        removed=tuple(path for path in now if path not in kept),
        fingerprint=log.fingerprint,
    )


def find_state(location: str, *, recovery: str) -> LogState:
    """How far the log of this recovery has come, decided from disk. Reads only."""
    label = safe_label(recovery)
    with reaching(location):
        table = Store.open(location)
        if _read_record(table, label) is None:
            return LogState.NOTHING
        now, before = table.is_dir(sinklog.FOLDER), table.is_dir(_log_before_name(label))
        if before:
            return LogState.IN_PLACE if now else LogState.HALF
        if table.is_dir(_undone_log_name(label)):
            return LogState.UNDONE
        return LogState.PREPARED if table.is_dir(_prepared_name(label)) else LogState.NOTHING


def put_back(plan: EarlierLog, *, recovery: str, guard: Guard) -> None:
    """Put the planned log into place. Done again after a crash it completes what was begun.

    Raises Refused where the log has moved since the plan, or where this recovery has put another batch back."""
    label = safe_label(recovery)
    state = find_state(plan.table, recovery=recovery)
    with reaching(plan.table):
        table = Store.open(plan.table)
        batch = _read_record(table, label)
        if state is not LogState.NOTHING and batch is not None and batch != plan.batch:
            raise Refused(f"{label} has put the table back to batch {batch} before; undo that first.")
        if state is LogState.IN_PLACE:
            return
        if state is LogState.HALF:
            _complete_exchange(table, label, guard)
            return
        if sinklog.read_sink_log(table).fingerprint != plan.fingerprint:
            raise Refused("The table's log has moved since the plan; nothing was changed.", code="stale")
        guard()
        _write_record(table, label, plan)
        _prepare_log(table, label, plan, guard)
        guard()
        table.rename(sinklog.FOLDER, _log_before_name(label))
        _complete_exchange(table, label, guard)


def _prepare_log(table: Store, label: str, plan: EarlierLog, guard: Guard) -> None:
    name = _prepared_name(label)
    table.remove(name)
    table.make_dirs(name)
    old, new = table.child(sinklog.FOLDER), table.child(name)
    for entry in plan.names:
        guard()
        new.copy(old, entry, entry)
    table.settle(name)
    table.sync()
    sizes = {e.name: e.size for e in new.entries()}
    if sizes != {e.name: e.size for e in old.entries() if e.name in plan.names}:
        table.remove(name)
        raise Refused(
            "The prepared log does not read back as planned; it was removed and nothing was changed."
        )


def _complete_exchange(table: Store, label: str, guard: Guard) -> None:
    """The second rename. Raises Refused where the prepared log is gone, as after an undo that died midway."""
    if not table.is_dir(_prepared_name(label)):
        raise Refused(
            f"The table has no log: {_log_before_name(label)} holds it. Roll {label} back, which puts it back.",
            code="half_undone",
        )
    guard()
    table.rename(_prepared_name(label), sinklog.FOLDER)
    table.sync()


def undo_refusal(location: str, *, recovery: str) -> str | None:
    """Why the old log can no longer be put into place again; None when it can, or is. Reads only."""
    label = safe_label(recovery)
    if find_state(location, recovery=recovery) is not LogState.IN_PLACE:
        return None
    with reaching(location):
        table = Store.open(location)
        batch, head = _read_record(table, label), sinklog.read_log_head(table).head
    if batch is not None and head != batch:
        return f"The table has batch {head} by now; putting its old log back would lose or double rows."
    return None


def undo_put_back(location: str, *, recovery: str, guard: Guard) -> None:
    """Put the old log into place again; nothing where it is. Raises Refused once a batch was written since."""
    label = safe_label(recovery)
    if reason := undo_refusal(location, recovery=recovery):
        raise Refused(reason, code="cannot_undo")
    state = find_state(location, recovery=recovery)
    if state not in (LogState.IN_PLACE, LogState.HALF):
        return
    with reaching(location):
        table = Store.open(location)
        guard()
        if state is LogState.IN_PLACE:
            table.remove(_undone_log_name(label))
            table.rename(sinklog.FOLDER, _undone_log_name(label))
        table.rename(_log_before_name(label), sinklog.FOLDER)
        table.sync()


def _write_record(table: Store, label: str, plan: EarlierLog) -> None:
    name = _record_name(label)
    record = {
        "batch": plan.batch,
        "head": plan.head,
        "names": list(plan.names),
        "fingerprint": plan.fingerprint,
    }
    table.remove(f"{name}.new")
    table.write(f"{name}.new", json.dumps(record).encode())
    table.replace(f"{name}.new", name)
    table.sync()


def _read_record(table: Store, label: str) -> int | None:
    """The batch of this recovery's record; None: there is no record."""
    try:
        record = json.loads(table.read(_record_name(label), MAX_RECORD_BYTES))
    except FileNotFoundError:
        return None
    except ValueError:
        record = None
    if not isinstance(record, dict) or not isinstance(record.get("batch"), int):
        raise Refused(f"The record {_record_name(label)} is not ours; look at the table's folder by hand.")
    return int(record["batch"])


def _record_name(label: str) -> str:
    return f".reprise-{label}.log.json"


def _prepared_name(label: str) -> str:
    return f".reprise-{label}-log"


def _log_before_name(label: str) -> str:
    return f".reprise-{label}-log-before"


def _undone_log_name(label: str) -> str:
    return f".reprise-{label}-log-undone"
