"""Flows whose updates completed while their file table passed rows over. Pure: no I/O, no database.

A file table keeps the numbers of batches, not the query that wrote them: a batch whose number is not above the newest
one is skipped without an error (`FileStreamSink.addBatch`). The rows stay lost until the table is refreshed in full.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from recovery.contracts import codec
from recovery.contracts.updates import (
    FileBatches,
    FlowInUpdate,
    LostRows,
    QueryBatches,
    ReadAgain,
    SinkMemory,
    TableLoss,
)
from recovery.models import Flow
from recovery.pipelines import events as log
from recovery.pipelines import requeried
from recovery.pipelines.downstream import asks_full_refresh, refreshed_in_full
from recovery.pipelines.flow_values import FlowValues

QUERY_ID_SHARED: Final = "QUERY_ID_SHARED"
"""The condition of a flow that another one with the same query id ends without an error (`twins`)."""
SILENT: Final[tuple[str, ...]] = (*(one.value for one in LostRows), QUERY_ID_SHARED)
"""Conditions of which no error tells: they show in what the updates did."""
GIVES_WAY: Final = ("ok", "stopped")
"""States over which lost rows show; a failure and a run say their own."""


def is_in_doubt(flow: Flow) -> bool:
    """Is it not known how a flow is, for a reason that a condition names? The code still has it then."""
    return flow.state == "unknown" and flow.condition in SILENT


@dataclass(frozen=True)
class Rerun:
    """An update that a step of a recovery has started for its `flow`, by that recovery's sealed plan.

    `next_batch`: the number with which the plan lets the flow go on; from there on a number is as planned, though the
    table may have it. `heads`: of the plan's first update, the newest number that the table's own log had at the seal
    (None: no number); empty where that is not known, and for later updates.
    """

    flow: str
    next_batch: int
    heads: tuple[int | None, ...] = ()


@dataclass(frozen=True)
class Reruns:
    """Of the recoveries of one pipeline. `by_update`: what their steps have started. `unnoted`: flows of which a step
    may have started an update that it has not noted yet, each with the newest update before it (None: none)."""

    by_update: Mapping[str, Rerun] = field(default_factory=dict)
    unnoted: Mapping[str, str | None] = field(default_factory=dict)


NO_RERUNS: Final = Reruns()


def read_table_memory(row: Flow | None) -> SinkMemory:
    """What the row keeps. Of a row from before this was kept: what its condition says."""
    if row is None:
        return SinkMemory()
    if not row.sink_memory and row.condition in tuple(LostRows):
        since = row.failing_since.isoformat() if row.failing_since else ""
        loss = TableLoss(condition=LostRows(row.condition), since=since, update=row.failed_update)
        return SinkMemory(loss=loss)
    return codec.read(SinkMemory, row.sink_memory)


def over(
    folded: Mapping[str, FlowValues],
    rows: Mapping[str, Flow],
    updates: Sequence[log.ApiUpdate],
    *,
    missed: Collection[str] = (),
    reruns: Reruns = NO_RERUNS,
    elsewhere: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> dict[str, FlowValues]:
    """`folded`: new values of each flow's row, by name; with the loss, and the state that follows.

    `updates`: newest first, back to the one that was counted last, those that are still to be read among them.
    `missed`: updates that were counted last and are not among those that the API still tells of. `reruns`: what
    recoveries of the pipeline have started. `elsewhere`: streaming flows of other pipelines, by the dataset that they
    write too.
    """
    found = dict(folded)
    for name, values in folded.items():
        row = rows.get(name)
        dataset = str(values.get("dataset", row.dataset if row else ""))
        known = read_table_memory(row)
        pending = _pending(updates, name, known, missed, reruns)
        memory = _counted(pending.whole, name, dataset, known, pending.out_of_sight, reruns)
        if pending.running is not None and not asks_full_refresh(pending.running, dataset):
            # it is counted once it is over; until then, what it has done is seen
            seen = _counted((pending.running,), name, dataset, memory, False, reruns)
            memory = memory.model_copy(update={"loss": seen.loss, "read_again": seen.read_again})
        if shared := _of_shared(name, dataset, folded, rows, updates, elsewhere.get(dataset, ())):
            before = memory.loss
            again = before is not None and before.condition is LostRows.SHARED
            memory = memory.model_copy(update={"loss": before if again else shared})
        if memory.loss is None and (skipped := _find_skipped(updates, name, dataset, reruns)):
            memory = memory.model_copy(update={"loss": skipped})
        found[name] = {**values, "sink_memory": {} if memory.is_empty else codec.to_json(memory)}
        loss = memory.loss
        if loss is None and pending.hidden is not None and memory.newest:
            loss = _not_read(pending.hidden, name)
        if loss is not None and not values.get("failure_memory"):
            found[name] = {**found[name], **_fields(values["state"], loss)}
    return found


def _find_skipped(
    updates: Sequence[log.ApiUpdate], flow: str, dataset: str, reruns: Reruns
) -> TableLoss | None:
    """Rows that a Delta table skipped, as it had taken batches of these numbers from the same query."""

    def planned(update: str, first: int) -> bool:
        rerun = reruns.by_update.get(update)
        return rerun is not None and rerun.flow == flow and first >= rerun.next_batch

    skipped = requeried.find_skipped(updates, flow, dataset, planned)
    if skipped is None:
        return None
    return _note_loss(LostRows.PASSED_OVER, skipped, flow)


def _note_loss(condition: LostRows, update: log.ApiUpdate, flow: str) -> TableLoss:
    """In this update; {}: in one that is out of sight."""
    at = _time(update, flow)
    since = at.isoformat() if at else ""
    return TableLoss(condition=condition, since=since, update=str(update.get("update_id") or ""))


def _fields(state: str, loss: TableLoss) -> FlowValues:
    known = loss.condition is not LostRows.NOT_READ  # else nobody knows that it fails, nor since when
    return {
        "state": ("failed" if known else "unknown") if state in GIVES_WAY else state,
        "failing_since": log.when(loss.since) if known else None,
        "failed_update": loss.update[:80],
        "condition": loss.condition.value,
        "error": [],
    }


def _not_read(update: log.ApiUpdate, flow: str) -> TableLoss:
    return _note_loss(LostRows.NOT_READ, update, flow)


def _counted(
    pending: Sequence[log.ApiUpdate],
    flow: str,
    dataset: str,
    known: SinkMemory,
    out_of_sight: bool,
    reruns: Reruns,
) -> SinkMemory:
    """`known` with these updates, oldest first; numbers that began again are a loss."""
    loss, newest, inputs = known.loss, dict(known.newest), dict(known.inputs)
    query, read_again = known.query, known.read_again
    counted, counted_at = known.update, known.at
    if out_of_sight and newest and loss is None:
        loss = _not_read(pending[0] if pending else {}, flow)
    for update in pending:
        if update.get("validate_only"):
            continue
        counted = str(update.get("update_id") or "")
        created = log.when(update.get("creation_time"))
        counted_at = created.isoformat() if created else ""
        rerun = reruns.by_update.get(counted)
        emptied = refreshed_in_full(update, flow, dataset)
        if emptied:
            loss, newest, inputs = None, {}, {}
        query, read_again = (None, None) if emptied else (query, read_again)
        query, read_again = _note_query(update, flow, rerun, query, read_again)
        kept = (update.get("file_batches") or {}).get(flow)
        if kept is None:
            continue
        ran, planned = codec.read(FileBatches, kept), False
        if ran.began_table:
            loss, newest, inputs = None, {}, {}
        if rerun is not None and rerun.flow == flow:
            planned = ran.first >= rerun.next_batch
            for head in (
                () if emptied else rerun.heads
            ):  # the table's own log says more than what was seen of it
                newest[ran.sink] = -1 if head is None else head
                inputs.pop(ran.sink, None)
        before = newest.get(ran.sink, -1)
        again = requeried.begins_again(ran.first, ran.first_input, before, inputs.get(ran.sink, ""))
        if again and not planned and (loss is None or loss.condition is LostRows.NOT_READ):
            loss = _note_loss(LostRows.PASSED_OVER, update, flow)
        if ran.last >= before:
            newest[ran.sink], inputs[ran.sink] = ran.last, ran.last_input
    return SinkMemory(
        newest=newest,
        update=counted,
        at=counted_at,
        loss=loss,
        inputs=inputs,
        query=query,
        read_again=read_again,
    )


def _note_query(
    update: log.ApiUpdate,
    flow: str,
    rerun: Rerun | None,
    before: QueryBatches | None,
    read_again: ReadAgain | None,
) -> tuple[QueryBatches | None, ReadAgain | None]:
    """`query` and `read_again` of the memory with this update. What a recovery's own update reads again is as planned,
    and its proof says what came of it."""
    kept = (update.get("query_batches") or {}).get(flow)
    if kept is None:
        return before, read_again
    ran = codec.read(QueryBatches, kept)
    if ran.began_table:
        return ran, None
    is_planned = rerun is not None and rerun.flow == flow
    if requeried.reads_again(ran, before) and not is_planned:
        at = _time(update, flow)
        since = at.isoformat() if at else ""
        read_again = ReadAgain(since=since, update=str(update.get("update_id") or ""))
    return ran, read_again


def moves_doubt(row: Flow, values: Mapping[str, Any]) -> bool:
    """Whether these new values of the row change what its updates have done to its table."""
    if "sink_memory" not in values:
        return False
    before, after = read_table_memory(row), codec.read(SinkMemory, values["sink_memory"])
    return (before.loss, before.read_again) != (after.loss, after.read_again)


@dataclass(frozen=True)
class _Pending:
    """Updates after the one that was counted last. `whole`: oldest first, those that can be counted now. `hidden`: one
    that cannot be, though it is over and later ones are read. `out_of_sight`: the one that was counted last is not
    among the updates, so what ran in between is not known. `running`: the one after these, where it still runs."""

    whole: Sequence[log.ApiUpdate]
    hidden: log.ApiUpdate | None = None
    out_of_sight: bool = False
    running: log.ApiUpdate | None = None


def _pending(
    updates: Sequence[log.ApiUpdate],
    flow: str,
    known: SinkMemory,
    missed: Collection[str],
    reruns: Reruns,
) -> _Pending:
    oldest_first = list(reversed(updates))
    if known.update in missed and (counted_at := log.when(known.at)):  # what is older was counted before it
        oldest_first = [
            u for u in oldest_first if (log.when(u.get("creation_time")) or counted_at) > counted_at
        ]
    ids = [str(u.get("update_id") or "") for u in oldest_first]
    lost = known.update in missed
    if known.update in ids:
        at = ids.index(known.update) + 1
    elif known.update and not lost:  # another poll has counted more than this one has seen
        return _Pending(())
    else:  # the watch begins after the newest one that was never read
        at = max((n + 1 for n in range(len(ids)) if _is_hidden(oldest_first[n:])), default=0)
    upto = len(ids)
    if flow in reruns.unnoted:
        before = reruns.unnoted[flow]
        upto = ids.index(before) + 1 if before in ids else 0
    end = next((n for n in range(at, len(ids)) if n >= upto or not is_whole(oldest_first[n])), len(ids))
    left = oldest_first[end:]
    hidden = left[0] if left and (is_whole(left[0]) or _is_hidden(left)) else None
    runs = end < upto and "file_batches" in oldest_first[end] and not oldest_first[end].get("read")
    return _Pending(oldest_first[at:end], hidden, lost, oldest_first[end] if runs else None)


def _is_hidden(oldest_first: Sequence[log.ApiUpdate]) -> bool:
    """Is the first one not read, though a later one is?"""
    first, *later = oldest_first
    return not is_whole(first) and any(is_whole(u) and not u.get("validate_only") for u in later)


def is_whole(update: log.ApiUpdate) -> bool:
    """Is all there of an update that counting it needs?"""
    return bool(update.get("validate_only") or (update.get("read") and "file_batches" in update))


def _of_shared(
    flow: str,
    dataset: str,
    folded: Mapping[str, FlowValues],
    rows: Mapping[str, Flow],
    updates: Sequence[log.ApiUpdate],
    elsewhere: Collection[str],
) -> TableLoss | None:
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
    return _note_loss(LostRows.SHARED, ran, flow)


def _value(field: str, values: Mapping[str, object], row: Flow | None, absent: Any) -> Any:
    return values.get(field, getattr(row, field) if row else absent)


def _progress(values: Mapping[str, object], row: Flow | None) -> Any:
    return _value("last_progress", values, row, {})


def is_of_files(progress: Any) -> bool:
    """Does a query's progress name a table of files as its sink (`FileSink[...]`)?"""
    return bool(_file_sink(progress))


def _file_sink(progress: Any) -> str:
    sink = progress.get("sink") if isinstance(progress, Mapping) else None
    says = str(sink.get("description") or "") if isinstance(sink, Mapping) else ""
    return says if says.startswith("FileSink") else ""


def file_batches(
    events: Sequence[log.ApiEvent], progress: Mapping[str, log.FlowProgress]
) -> dict[str, FileBatches]:
    """What one update's events say of each flow whose sink is a table of files, and that had input."""
    batches_by_flow = {}
    for name, newest in progress.items():
        if (sink := _file_sink(newest.body)) and (ends := requeried.find_ends(events, name)):
            first, last = ends
            batches_by_flow[name] = FileBatches(
                sink=sink,
                first=first.number,
                last=last.number,
                first_input=first.input,
                last_input=last.input,
                began_table=log.makes_new_table(events, name),
            )
    return batches_by_flow


def _time(update: log.ApiUpdate, flow: str) -> datetime | None:
    own = FlowInUpdate.read(update, flow)
    return log.when(own.at or update.get("ended_at")) or log.when(update.get("creation_time"))
