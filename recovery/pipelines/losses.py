"""Flows whose updates completed while their file table passed rows over. Pure: no I/O, no database.

A file table keeps the numbers of batches, not the query that wrote them: a batch whose number is not above the newest
one is skipped without an error (`FileStreamSink.addBatch`). The rows stay lost until the table is refreshed in full.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import takewhile
from types import MappingProxyType
from typing import Any, Final

from recovery.contracts import codec
from recovery.contracts.updates import (
    CHECKPOINT_GONE,
    CONDITIONS_WITHOUT_ERROR,
    FileBatches,
    FlowInUpdate,
    LostRows,
    QueryBatches,
    ReadAgain,
    SinkMemory,
    TableHistory,
    TableLoss,
)
from recovery.models import Flow
from recovery.pipelines import events as log
from recovery.pipelines import requeried
from recovery.pipelines.downstream import asks_full_refresh, refreshed_in_full
from recovery.pipelines.failures import failure_in
from recovery.pipelines.flow_values import FlowValues
from recovery.pipelines.sink_descriptions import SinkClass, identify_sink, read_sink

NO_HISTORY: Final = TableHistory()
MOST_SINKS: Final = 10
"""Sinks of one flow that are remembered, above the newest."""
GIVES_WAY: Final = ("ok", "stopped")
"""States over which lost rows show; a failure and a run say their own."""


def is_in_doubt(flow: Flow) -> bool:
    """Is it not known how a flow is, for a reason that a condition names? The code still has it then."""
    return flow.state == "unknown" and flow.condition in CONDITIONS_WITHOUT_ERROR


@dataclass(frozen=True)
class Rerun:
    """An update that a step of a recovery has started for its flow, by that recovery's sealed plan.

    `next_batch`: the number with which the plan lets the flow go on; from there on a number is as planned, though the
    table may have it. `heads`: of the plan's first update, the newest number that the table's own log had at the seal
    (None: no number); empty where that is not known, and for later updates.
    """

    next_batch: int
    heads: tuple[int | None, ...] = ()


@dataclass(frozen=True)
class Reruns:
    """Of the recoveries of one pipeline. `by_update`: what their steps have started, by update and flow: plans that run
    together share an update. `unnoted`: flows of which a step may have started an update that it has not noted yet,
    each with the newest update before it (None: none)."""

    by_update: Mapping[tuple[str, str], Rerun] = field(default_factory=dict)
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
        pending = _pending(updates, name, dataset, known, missed, reruns)
        memory = _counted(pending.whole, name, dataset, known, reruns, out_of_sight=pending.out_of_sight)
        # counted once they are over; until then, what they have done is seen
        seen = _counted(pending.running, name, dataset, memory, reruns)
        memory = codec.change(memory, loss=seen.loss, read_again=seen.read_again, left=seen.left)
        if shared := _of_shared(name, dataset, folded, rows, updates, elsewhere.get(dataset, ())):
            before = memory.loss
            again = before is not None and before.condition is LostRows.SHARED
            memory = codec.change(memory, loss=before if again else shared)
        found[name] = {**values, "sink_memory": {} if memory.is_empty else codec.to_json(memory)}
        loss = memory.open_loss
        if loss is None and pending.hidden is not None and memory.newest:
            loss = _not_read(pending.hidden, name)
        if loss is not None and not values.get("failure_memory"):
            found[name] = {**found[name], **_fields(values["state"], loss)}
    return found


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


def note_gone_checkpoint(values: FlowValues) -> FlowValues:
    """New values of the row of a plain stream without its checkpoint. A failure, lost rows and a run say their own."""
    if values["state"] not in GIVES_WAY or values.get("condition"):
        return values
    gone: FlowValues = {"state": "unknown", "failing_since": None, "failed_update": "", "error": []}
    return {**values, **gone, "condition": CHECKPOINT_GONE}


WELL_AGAIN: Final[FlowValues] = {
    "state": "ok",
    "failing_since": None,
    "failed_update": "",
    "condition": "",
    "error": [],
}
"""Of a flow that nothing but lost rows made fail, once they are counted."""


def _not_read(update: log.ApiUpdate, flow: str) -> TableLoss:
    return _note_loss(LostRows.NOT_READ, update, flow)


def _counted(
    pending: Sequence[log.ApiUpdate],
    flow: str,
    dataset: str,
    known: SinkMemory,
    reruns: Reruns,
    *,
    out_of_sight: bool = False,
) -> SinkMemory:
    """`known` with these updates, oldest first; numbers that began again are a loss."""
    memory = known
    if out_of_sight and memory.newest and memory.open_loss is None:
        memory = codec.change(memory, loss=_not_read(pending[0] if pending else {}, flow))
    for update in pending:
        if update.get("validate_only"):
            continue
        update_id, created = str(update.get("update_id") or ""), log.when(update.get("creation_time"))
        memory = codec.change(memory, update=update_id, at=created.isoformat() if created else "")
        if emptied := _finds_empty(update, flow, dataset):
            memory = codec.change(memory, loss=None, newest={}, inputs={}, queries={}, read_again=None)
        memory = _turn_to_table(update, flow, memory, is_emptied=emptied)
        rerun = reruns.by_update.get((update_id, flow))
        memory = _count_query(update, flow, rerun, memory)
        memory = _count_files(update, flow, rerun, memory, emptied=emptied)
    return memory


def _finds_empty(update: log.ApiUpdate, flow: str, dataset: str) -> bool:
    """Did a refresh empty the table for the flow, though it may not have ended well?"""
    ran = any(flow in (update.get(key) or {}) for key in ("query_batches", "file_batches"))
    return refreshed_in_full(update, flow, dataset) or (ran and asks_full_refresh(update, dataset))


def _turn_to_table(update: log.ApiUpdate, flow: str, memory: SinkMemory, *, is_emptied: bool) -> SinkMemory:
    """With the history of the table that the flow writes now: a new or emptied one has none, and one that it had left
    for a new one has its own. A function may write any."""
    kept = [(update.get(key) or {}).get(flow) for key in ("query_batches", "file_batches")]
    ran = [batches for batches in kept if batches is not None]
    if not ran:
        return memory
    sinks = {str(batches.get("sink") or codec.read(QueryBatches, batches).sink) for batches in ran}
    names = {identify_sink(sink) for sink in sinks}
    before = next(reversed(list(memory.queries)), "")
    is_new = is_emptied or any(batches.get("began_table") for batches in ran)
    back = next(
        (sink for sink in reversed(list(memory.left)) if sink in names or SinkClass.FUNCTION in names), ""
    )
    if not is_new and (not back or before in names):
        return memory
    history = TableHistory(loss=memory.loss, read_again=memory.read_again)
    left = {sink: had for sink, had in memory.left.items() if sink not in {*names, back}}
    if before and before not in names and history != NO_HISTORY:
        left = dict([*left.items()][-MOST_SINKS:]) | {before: history}
    now = NO_HISTORY if is_new else memory.left[back]
    memory = codec.change(memory, loss=now.loss, read_again=now.read_again, left=left)
    if not is_new:
        return memory
    return codec.change(
        memory,
        newest={sink: number for sink, number in memory.newest.items() if sink not in sinks},
        inputs={sink: digest for sink, digest in memory.inputs.items() if sink not in sinks},
        queries={sink: batches for sink, batches in memory.queries.items() if sink not in names},
    )


def _count_query(update: log.ApiUpdate, flow: str, rerun: Rerun | None, memory: SinkMemory) -> SinkMemory:
    """With the query that ran. Where it began again over rows of before, a file table has passed its batches over, and
    another sink has taken them; not where a recovery had planned it: then its proof says what came of it."""
    kept = (update.get("query_batches") or {}).get(flow)
    if kept is None:  # a recovery's own update that had no input leaves the plan's query to the next one
        return memory if rerun is None else codec.change(memory, queries={})
    ran = codec.read(QueryBatches, kept)
    before = requeried.find_before(memory.queries, ran)
    newest, is_elsewhere = requeried.find_newest(ran, before), requeried.begins_elsewhere(ran, memory.queries)
    others = {sink: batches for sink, batches in memory.queries.items() if sink != ran.sink}
    memory = codec.change(memory, queries={**dict([*others.items()][-MOST_SINKS:]), ran.sink: newest})
    if before is None:
        return _note_read_again(memory, update, flow) if is_elsewhere and rerun is None else memory
    is_planned = rerun is not None and ran.first >= rerun.next_batch
    if requeried.skips_batches(ran, before) and not is_planned:
        return codec.change(memory, loss=_note_passed_over(memory.loss, update, flow))
    if rerun is not None or not requeried.reads_again(ran, before):
        return memory
    is_straight = requeried.goes_straight_on(ran, before)
    if ran.is_file and before.is_file and not is_straight:
        return codec.change(memory, loss=_note_passed_over(memory.loss, update, flow))
    return _note_read_again(memory, update, flow, is_straight=is_straight)


def _note_read_again(
    memory: SinkMemory, update: log.ApiUpdate, flow: str, *, is_straight: bool = False
) -> SinkMemory:
    at = _time(update, flow)
    since = at.isoformat() if at else ""
    read_again = ReadAgain(since=since, update=memory.update, is_straight=is_straight)
    return codec.change(memory, read_again=read_again)


def _count_files(
    update: log.ApiUpdate, flow: str, rerun: Rerun | None, memory: SinkMemory, *, emptied: bool
) -> SinkMemory:
    """With the numbers that a table of files has."""
    kept = (update.get("file_batches") or {}).get(flow)
    if kept is None:
        for head in () if rerun is None or emptied else rerun.heads:
            newest = dict.fromkeys(memory.newest, -1 if head is None else head)
            memory = codec.change(memory, newest=newest, inputs={})
        return memory
    ran, planned = codec.read(FileBatches, kept), False
    newest, inputs = dict(memory.newest), dict(memory.inputs)
    if rerun is not None:
        planned = ran.first >= rerun.next_batch
        for head in () if emptied else rerun.heads:  # the table's own log says more than what was seen of it
            newest[ran.sink] = -1 if head is None else head
            inputs.pop(ran.sink, None)
    before = newest.get(ran.sink, -1)
    if not planned and requeried.begins_again(ran.first, ran.first_input, before, inputs.get(ran.sink, "")):
        memory = codec.change(memory, loss=_note_passed_over(memory.loss, update, flow))
    if ran.last >= before:
        newest[ran.sink], inputs[ran.sink] = ran.last, ran.last_input
    return codec.change(memory, newest=newest, inputs=inputs)


def _note_passed_over(known: TableLoss | None, update: log.ApiUpdate, flow: str) -> TableLoss:
    """The first loss that is known counts, and one that is settled stays so: an update without an end is counted again
    and again."""
    is_same = known is not None and known.update == str(update.get("update_id") or "")
    if (
        known is not None
        and known.condition is not LostRows.NOT_READ
        and (known.settled_by is None or is_same)
    ):
        return known
    return _note_loss(LostRows.PASSED_OVER, update, flow)


def moves_doubt(row: Flow, values: Mapping[str, Any]) -> bool:
    """Whether these new values of the row change what its updates have done to its table."""
    if "sink_memory" not in values:
        return False
    before, after = read_table_memory(row), codec.read(SinkMemory, values["sink_memory"])
    is_unseen = not row.table_doubt and (after.open_loss is not None or after.read_again is not None)
    return is_unseen or (before.loss, before.read_again) != (after.loss, after.read_again)


@dataclass(frozen=True)
class _Pending:
    """Updates after the one that was counted last. `whole`: oldest first, those that can be counted now. `hidden`: one
    that cannot be, though it is over and later ones are read. `out_of_sight`: the one that was counted last is not
    among the updates, so what ran in between is not known. `running`: those after these, as far as one still runs or
    may: a run that was killed says no end. None from a full refresh on: it has not emptied the table yet, for all that
    is known."""

    whole: Sequence[log.ApiUpdate]
    hidden: log.ApiUpdate | None = None
    out_of_sight: bool = False
    running: Sequence[log.ApiUpdate] = ()


def _pending(
    updates: Sequence[log.ApiUpdate],
    flow: str,
    dataset: str,
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
    end = next(
        (
            n
            for n in range(at, len(ids))
            if n >= upto or not is_whole(oldest_first[n]) or _may_go_on(oldest_first[n:])
        ),
        len(ids),
    )
    left = oldest_first[end:]
    is_unread = bool(left) and not _may_go_on(left) and (is_whole(left[0]) or _is_hidden(left))
    hidden = left[0] if is_unread else None
    running = takewhile(
        lambda u: "file_batches" in u and not asks_full_refresh(u, dataset), oldest_first[end:upto]
    )
    return _Pending(oldest_first[at:end], hidden, lost, tuple(running))


def _may_go_on(left: Sequence[log.ApiUpdate]) -> bool:
    """Is only the newest run left, whose log has no end? A batch that takes long looks like that too."""
    failure = failure_in(left[0]) if len(left) == 1 else None
    return failure is not None and failure.cancelled_by == log.NO_END


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


def is_of_files(progress: object) -> bool:
    """Does a query's progress name a table of files as its sink (`FileSink[...]`)?"""
    return read_sink(progress).kind is SinkClass.FILES


def file_batches(
    events: Sequence[log.ApiEvent], progress: Mapping[str, log.FlowProgress]
) -> dict[str, FileBatches]:
    """What one update's events say of each flow whose sink is a table of files, and that had input."""
    batches_by_flow = {}
    for name, newest in progress.items():
        if is_of_files(newest.body) and (ends := requeried.find_ends(events, name)):
            first, last = ends
            batches_by_flow[name] = FileBatches(
                sink=read_sink(newest.body).description,
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
