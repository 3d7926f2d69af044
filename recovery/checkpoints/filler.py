"""Filler entries for the log of a file table: an entry with nothing but `v1` for a batch that wrote nothing.

Facts (FileStreamSinkLog, seen on Spark 4.2 and 4.3): a table whose log lacks a number cannot be read; a batch that
never reaches the sink (the state repartition API makes one) leaves such a hole, and a checkpoint that goes on with
a higher number than the log's next would. An entry of the version line alone fills it.

A filler says that a batch wrote nothing, so it is planned only where that is known. The undo record is written
first (`.reprise-<id>.filler.json` beside the log, which no reader of the table lists); an undo removes the fillers
while Spark has compacted none of them. A crash leaves the record and some of the fillers: filling again completes
them, an undo removes them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recovery.checkpoints import filelog, sinklog
from recovery.checkpoints.report import CheckpointReport
from recovery.checkpoints.storage import Store, reaching
from recovery.checkpoints.undo_record import MAX_RECORD_BYTES, Guard, safe_label
from recovery.errors import Refused

FILLER = b"v1"
MAX_FILLERS = 1000


@dataclass(frozen=True)
class FillerPlan:
    """`names`: entry files to be written in the log of `table`, which ends at `end` (-1: empty); `why`, by batch."""

    table: str
    names: tuple[str, ...]
    why: Mapping[int, str]
    end: int
    fingerprint: str


def plan_filler(table: str, report: CheckpointReport, *, next_batch: int | None = None) -> FillerPlan:
    """Which numbers lack an entry, and why nothing was written under them. Reads only.

    A hole is filled only where the checkpoint's offsets of that batch equal those of the batch before: it read
    nothing. Numbers from the log's end up to `next_batch` are skipped ones that no batch ever had. Raises
    Refused where a hole may hide rows, where a compacted entry is missing, or where nothing is missing.
    """
    with reaching(table):
        log = sinklog.read_sink_log(Store.open(table))
        names = [e.name for e in Store.open(table).entries(sinklog.FOLDER)] if log.present else []
    index = filelog.index_of(names)
    end = -1 if log.head is None else log.head
    if end < 0 and next_batch:
        why = dict.fromkeys(
            _list_fresh_numbers(next_batch), "a new table, whose numbers go on with the checkpoint's"
        )
    else:
        why = {batch: _why_empty(report, batch) for batch in filelog.needed_entries(index)[1]}
        skipped = range(end + 1, min(next_batch or 0, end + 2 + MAX_FILLERS))
        why |= dict.fromkeys(skipped, "no batch had this number")
    if not why:
        raise Refused("The table's log lacks no number; nothing was planned.")
    if len(why) > MAX_FILLERS:
        raise Refused(f"More than {MAX_FILLERS} numbers are missing: that is no hole. Choose another start.")
    every = filelog.compact_interval(index)
    if end >= 0 and (compacted := [n for n in why if (n + 1) % every == 0]):
        raise Refused(
            f"Entry {compacted[0]} would be a compacted one, which holds every entry before it; a filler cannot."
        )
    named = tuple(f"{n}.compact" if (n + 1) % every == 0 else str(n) for n in sorted(why))
    return FillerPlan(table, named, why, end, log.fingerprint)


def _list_fresh_numbers(next_batch: int) -> range:
    """Numbers that a log without any entry needs before `next_batch`: its newest compacted one, and all after."""
    compacted = next_batch // filelog.DEFAULT_INTERVAL * filelog.DEFAULT_INTERVAL - 1
    return range(max(compacted, 0), next_batch)


def _why_empty(report: CheckpointReport, batch: int) -> str:
    known = {b["batch"]: b["offsets"] for b in report.batches if b["planned"]}
    if known.get(batch) and known.get(batch) == known.get(batch - 1):
        return f"offsets/{batch} equals offsets/{batch - 1}: the batch read nothing"
    raise Refused(
        f"Whether batch {batch} wrote rows is not known: its offsets are gone, or it read something. Put the entry "
        "back from a backup."
    )


def fill_log(plan: FillerPlan, *, recovery: str, guard: Guard) -> None:
    """Write the fillers. Done again after a crash it completes them; raises Refused when the log has moved."""
    label = safe_label(recovery)
    with reaching(plan.table):
        table = Store.open(plan.table)
        log = table.child(sinklog.FOLDER)
        record = _read_record(table, label)
        if record is None:
            if sinklog.read_sink_log(table).fingerprint != plan.fingerprint:
                raise Refused("The table's log has moved since the plan; nothing was written.", code="stale")
            guard()
            table.remove(f"{_record_name(label)}.new")
            table.write(
                f"{_record_name(label)}.new",
                json.dumps({"names": list(plan.names), "end": plan.end}).encode(),
            )
            table.replace(f"{_record_name(label)}.new", _record_name(label))
            table.sync()
        elif record["names"] != list(plan.names):
            raise Refused(f"{label} has filled other numbers before; undo that first.")
        log.make_dirs()
        for name in plan.names:
            guard()
            half = f".reprise-{label}-{name}"
            log.remove(half)
            if not log.exists(name):
                log.write(half, FILLER)
                log.rename(half, name)
        log.sync()


def undo_fill(table_location: str, *, recovery: str, guard: Guard) -> None:
    """Remove the fillers of this recovery. Raises Refused once Spark has written on top of one or compacted it."""
    label = safe_label(recovery)
    with reaching(table_location):
        table = Store.open(table_location)
        log = table.child(sinklog.FOLDER)
        record = _read_record(table, label)
        if record is None:
            raise Refused(f"{label} has filled nothing in this table.")
        names = [str(n) for n in record["names"]]
        last = max(int(n.removesuffix(".compact")) for n in names)
        head = sinklog.read_sink_log(table).head
        if head is not None and last > record["end"] and head > last:
            raise Refused(
                f"The table has batch {head} after them already; without the fillers it cannot be read."
            )
        for name in names:
            if log.exists(name) and log.read(name, MAX_RECORD_BYTES) != FILLER:
                raise Refused(f"Entry {name} is no longer the filler; it was left alone.")
        for name in reversed(names):
            guard()
            log.remove(name)
            log.remove(f".{name}.crc")
            log.remove(f".reprise-{label}-{name}")
        table.remove(_record_name(label))
        table.sync()


def _record_name(label: str) -> str:
    return f".reprise-{label}.filler.json"


def _read_record(table: Store, label: str) -> dict[str, Any] | None:
    try:
        record = json.loads(table.read(_record_name(label), MAX_RECORD_BYTES))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise Refused(
            f"The record {_record_name(label)} cannot be read; look at the table's directory by hand."
        ) from error
    if not isinstance(record, dict) or not isinstance(record.get("names"), list) or "end" not in record:
        raise Refused(f"The record {_record_name(label)} is not ours; look at the table's directory by hand.")
    return record
