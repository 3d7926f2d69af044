"""Flows whose updates completed while their file table passed rows over. Pure: no I/O, no database.

A file table keeps the numbers of batches, not the query that wrote them: a batch whose number is not above the newest
one is skipped without an error (`FileStreamSink.addBatch`). The rows stay lost until the table is refreshed in full.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from itertools import takewhile
from types import MappingProxyType
from typing import Any, Final

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


@dataclass(frozen=True)
class SinkMemory:
    """What a flow's row keeps of its file table, so that it outlives the updates that the pipeline's row keeps.

    `newest`: the highest number of a batch with rows, by the table's place; up to `update`, the newest that was
    counted. `loss`: rows that the table has passed over since it was last emptied.
    """

    newest: Mapping[str, int] = field(default_factory=dict)
    update: str = ""
    loss: Loss | None = None

    def as_json(self) -> dict[str, Any]:
        """{} where there is nothing to remember."""
        if not self.newest and self.loss is None:
            return {}
        loss = self.loss
        kept = loss and {
            "condition": loss.condition.value,
            "since": loss.since.isoformat() if loss.since else "",
            "update": loss.update,
        }
        return {"newest": dict(self.newest), "update": self.update, "loss": kept}

    @classmethod
    def from_row(cls, row: Flow | None) -> "SinkMemory":
        """Of a row from before this was kept: what its condition says."""
        kept = row.sink_memory if row else {}
        if row is not None and not kept and row.condition in tuple(LostRows):
            return cls(loss=Loss(LostRows(row.condition), row.failing_since, row.failed_update))
        loss = kept.get("loss")
        known = loss and Loss(LostRows(loss["condition"]), log.when(loss["since"]), loss["update"])
        return cls(kept.get("newest") or {}, kept.get("update") or "", known or None)


def over(
    folded: Mapping[str, dict[str, Any]],
    rows: Mapping[str, Flow],
    updates: Sequence[Mapping[str, Any]],
    *,
    led: Collection[str] = (),
    elsewhere: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> dict[str, dict[str, Any]]:
    """`folded`: new values of each flow's row, by name; with the loss, and the state that follows.

    `led`: updates that ran during a recovery of the flow's pipeline, which may have moved a table's log lawfully.
    `elsewhere`: streaming flows of other pipelines, by the dataset that they write too.
    """
    found = dict(folded)
    for name, values in folded.items():
        row = rows.get(name)
        dataset = str(values.get("dataset", row.dataset if row else ""))
        memory = _counted(updates, name, dataset, SinkMemory.from_row(row), led)
        if shared := _of_shared(name, dataset, folded, rows, updates, elsewhere.get(dataset, ())):
            known = memory.loss
            again = known is not None and known.condition is LostRows.SHARED
            memory = replace(memory, loss=known if again else shared)
        found[name] = values | {"sink_memory": memory.as_json()}
        if memory.loss is not None and values["state"] != "failed":
            found[name] |= _fields(values["state"], memory.loss)
    return found


def _fields(state: str, loss: Loss) -> dict[str, Any]:
    return {
        "state": "failed" if state in GIVES_WAY else state,
        "failing_since": loss.since,
        "failed_update": loss.update[:80],
        "condition": loss.condition.value,
        "error": [],
    }


def _counted(
    updates: Sequence[Mapping[str, Any]], flow: str, dataset: str, known: SinkMemory, led: Collection[str]
) -> SinkMemory:
    """`known` with the updates that were not counted yet; numbers that began again are a loss."""
    loss, newest, counted = known.loss, dict(known.newest), known.update
    for update in _not_counted(updates, known.update):
        if update.get("validate_only"):
            continue
        name = str(update.get("update_id") or "")
        if refreshed_in_full(update, flow, dataset):
            loss, newest = None, {}
        if name in led:
            newest = {}
        kept = (update.get("file_batches") or {}).get(flow)
        if kept is not None:
            ran = FileBatches(**kept)
            if ran.first <= newest.get(ran.sink, -1) and loss is None:
                loss = Loss(LostRows.PASSED_OVER, _time(update, flow), name)
            newest[ran.sink] = max(ran.last, newest.get(ran.sink, -1))
        counted = name
    return SinkMemory(newest, counted, loss)


def _not_counted(updates: Sequence[Mapping[str, Any]], counted: str) -> list[Mapping[str, Any]]:
    """Those after the update that was counted last, oldest first, up to one whose events are not all there."""
    oldest_first = list(reversed(updates))
    at = next((n for n, u in enumerate(oldest_first) if counted and u.get("update_id") == counted), -1)
    return list(takewhile(lambda u: u.get("read") or u.get("validate_only"), oldest_first[at + 1 :]))


def _of_shared(
    flow: str,
    dataset: str,
    folded: Mapping[str, dict[str, Any]],
    rows: Mapping[str, Flow],
    updates: Sequence[Mapping[str, Any]],
    elsewhere: Collection[str],
) -> Loss | None:
    """What it says that another flow writes the same file table; `elsewhere`: such flows of other pipelines."""
    from recovery.checkpoints.sinklog import several_writers  # late: with it come the readers of storage

    defined = set((updates[0].get("flows") or {}) if updates else {}) or set(folded)
    writers = {
        name: str(_value("dataset", values, rows.get(name), ""))
        for name, values in folded.items()
        if _value("streaming", values, rows.get(name), False) and (name in defined or name == flow)
    }
    files = [n for n in writers if writers[n] == dataset and is_of_files(_progress(folded[n], rows.get(n)))]
    writers |= {f"{name} of another pipeline": dataset for name in elsewhere}
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
