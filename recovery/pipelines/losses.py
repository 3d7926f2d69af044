"""Flows whose updates completed while their file table passed rows over. Pure: no I/O, no database.

A file table keeps the numbers of batches, not the query that wrote them: a batch whose number is not above the newest
one is skipped without an error (`FileStreamSink.addBatch`). The rows stay lost until the table is refreshed in full.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from recovery.checkpoints.sinklog import several_writers
from recovery.models import Flow
from recovery.pipelines import events as log
from recovery.pipelines.downstream import refreshed_in_full


class LostRows(StrEnum):
    """The condition of a flow that lost rows in updates that completed; a row each in the table of diagnosis."""

    PASSED_OVER = "SINK_PASSED_OVER"  # its batch numbers began again below those that its table has
    SHARED = "SINK_SHARED"  # another flow writes the same file table


GIVES_WAY: Final = ("ok", "stopped")
"""States over which lost rows show; a failure and a run say their own."""


@dataclass(frozen=True)
class FileBatches:
    """Batches of one update that read rows, into a table of files. `sink`: as Spark's progress describes it, with the
    table's place; `first`, `last`: the lowest and the highest number."""

    sink: str
    first: int
    last: int


@dataclass(frozen=True)
class Loss:
    """Rows that a file table passed over. `update`: in which, "" where it is out of sight."""

    condition: LostRows
    since: datetime | None
    update: str = ""


def over(
    folded: Mapping[str, dict[str, Any]],
    rows: Mapping[str, Flow],
    updates: Sequence[Mapping[str, Any]],
    *,
    led: Collection[str] = (),
) -> dict[str, dict[str, Any]]:
    """`folded`: new values of each flow's row, by name; with the loss, and the state that follows.

    `led`: updates that ran during a recovery of the flow's pipeline, which may have moved a table's log lawfully.
    """
    found = dict(folded)
    for name, values in folded.items():
        row = rows.get(name)
        dataset = str(values.get("dataset", row.dataset if row else ""))
        known = _known(row)
        loss = _of_shared(name, dataset, folded, rows, updates) or _of_numbers(
            updates, name, dataset, known, led
        )
        if loss is not None and values["state"] != "failed":
            found[name] = values | _fields(values["state"], loss, row)
    return found


def _known(row: Flow | None) -> Loss | None:
    if row is None or row.condition not in tuple(LostRows):
        return None
    return Loss(LostRows(row.condition), row.failing_since, row.failed_update)


def _fields(state: str, loss: Loss, row: Flow | None) -> dict[str, Any]:
    since = row.failing_since if row and row.failing_since else loss.since
    return {
        "state": "failed" if state in GIVES_WAY else state,
        "failing_since": since,
        "failed_update": loss.update[:80],
        "condition": loss.condition.value,
        "error": [],
    }


def _of_numbers(
    updates: Sequence[Mapping[str, Any]], flow: str, dataset: str, known: Loss | None, led: Collection[str]
) -> Loss | None:
    """What batch numbers say that began again; `known`: what was so before the oldest of these updates."""
    loss = known
    newest: dict[str, int] = {}  # by the place of the table
    for update in reversed(updates):
        if update.get("validate_only"):
            continue
        name = str(update.get("update_id") or "")
        if refreshed_in_full(update, flow, dataset):
            loss, newest = None, {}
        if name in led:
            newest = {}
        kept = (update.get("file_batches") or {}).get(flow)
        if kept is None:
            continue
        ran = FileBatches(**kept)
        if ran.first <= newest.get(ran.sink, -1) and loss is None:
            loss = Loss(LostRows.PASSED_OVER, _time(update, flow), name)
        newest[ran.sink] = max(ran.last, newest.get(ran.sink, -1))
    return loss


def _of_shared(
    flow: str,
    dataset: str,
    folded: Mapping[str, dict[str, Any]],
    rows: Mapping[str, Flow],
    updates: Sequence[Mapping[str, Any]],
) -> Loss | None:
    """What it says that another flow of the pipeline writes the same file table."""
    defined = set((updates[0].get("flows") or {}) if updates else {}) or set(folded)
    writers = {
        name: str(_value("dataset", values, rows.get(name), ""))
        for name, values in folded.items()
        if _value("streaming", values, rows.get(name), False) and (name in defined or name == flow)
    }
    files = [n for n in writers if writers[n] == dataset and is_of_files(_progress(folded[n], rows.get(n)))]
    if not dataset or flow not in writers or not files or not several_writers(dataset, writers):
        return None
    ran = next((u for u in updates if flow in (u.get("flows") or {})), {})
    return Loss(LostRows.SHARED, _time(ran, flow), str(ran.get("update_id") or ""))


def _value(field: str, values: Mapping[str, Any], row: Flow | None, absent: Any) -> Any:
    return values.get(field, getattr(row, field) if row else absent)


def _progress(values: Mapping[str, Any], row: Flow | None) -> Any:
    return _value("last_progress", values, row, {})


def is_of_files(progress: Any) -> bool:
    """Does a query's progress name a table of files as its sink (`FileSink[...]`)?"""
    return bool(_file_sink(progress))


def _file_sink(progress: Any) -> str:
    sink = progress.get("sink") if isinstance(progress, Mapping) else None
    says = str(sink.get("description") or "") if isinstance(sink, Mapping) else ""
    return says if says.startswith("FileSink") else ""


def file_batches(
    events: Sequence[Mapping[str, Any]], progress: Mapping[str, log.Progress]
) -> dict[str, FileBatches]:
    """What one update's events say of each flow whose sink is a table of files, and that read rows."""
    found = {}
    for name, newest in progress.items():
        if sink := _file_sink(newest.body):
            numbers = [b.number for b in log.batches(events, name) if b.rows_in]
            if numbers:
                found[name] = FileBatches(sink, min(numbers), max(numbers))
    return found


def _time(update: Mapping[str, Any], flow: str) -> datetime | None:
    own = (update.get("flows") or {}).get(flow) or {}
    return log.when(own.get("at") or update.get("ended_at")) or log.when(update.get("creation_time"))
