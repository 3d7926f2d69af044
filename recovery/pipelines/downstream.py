"""What is downstream of a flow, and whether it still shows what the flow wrote. Pure: no I/O, no database.

A dataset that is computed from others is right only as long as it was refreshed after them. An update refreshes what
it selects; the rest it leaves as it is (EXCLUDED), and what comes after a failure it does not reach (SKIPPED). Spark
empties every materialized view that an update selects before the first flow runs
(`DatasetManager.materializeDatasets`), so a view that was then not reached holds no row: our server says which ones
(`x_reprise_emptied`). Where no one says so, a view that was not reached is old, and not known to be empty.

A reader in another pipeline runs on a schedule of its own. That it lags behind new rows is no fault. It is stale once
what it reads is behind, or was emptied, written again in full or repaired since the reader's last good update began.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from recovery.contracts.updates import FlowInUpdate, FlowOutcome
from recovery.pipelines import events as log

VIEWS: Final = frozenset({"MATERIALIZED_VIEW", "COMPLETE"})
"""Types of flows that compute their whole dataset again from scratch."""
VIRTUAL: Final = "VIEW"
"""The type of a flow that defines a view without rows of its own: whoever reads it reads what it reads."""
SKIPPED: Final = "SKIPPED"
"""The status of a flow that an update selected and did not come to."""


class BehindState(StrEnum):
    """Of a dataset that is behind. `EMPTY`: it holds no row; `STALE`: older than what it is computed from."""

    EMPTY = "empty"
    STALE = "stale"


class BehindReason(StrEnum):
    """How a dataset came to be behind."""

    EMPTIED = "emptied"  # an update emptied it at set-up and did not come to its flow
    NOT_REACHED = "not_reached"  # what it is computed from failed before its turn
    LEFT_OUT = "left_out"  # what it is computed from was written by an update that did not select it
    OF_BEHIND = "of_behind"  # it is computed from a dataset that is behind itself
    RENEWED = (
        "renewed"  # another pipeline emptied, wrote anew or mended what it is computed from, after its update
    )


@dataclass(frozen=True)
class BehindSince:
    """Since when a dataset is behind. `update`: the one that left it so, "" where a dataset before it is the cause."""

    since: datetime | None
    why: BehindReason
    update: str = ""

    @property
    def state(self) -> BehindState:
        return BehindState.EMPTY if self.why is BehindReason.EMPTIED else BehindState.STALE


@dataclass(frozen=True)
class DatasetFreshness:
    """How current a dataset is. None: not known to have been.

    `good_at`: when the last update began that completed its flow. `renewed_at`: when its rows were last emptied,
    written again in full or brought up to date after it was behind: who ran before that shows rows that it no longer
    has. `rewritten_at`: when an update last emptied it and wrote it from scratch, so that nothing of before is in it.
    """

    behind: BehindSince | None = None
    good_at: datetime | None = None
    renewed_at: datetime | None = None
    rewritten_at: datetime | None = None


UNKNOWN: Final = DatasetFreshness()


@dataclass(frozen=True)
class Node:
    """One flow of a pipeline: `dataset` is what it writes, `inputs` what it reads, all by full name; a temporary view
    has its bare name, which its own pipeline alone knows. `pipeline`: its key, as two pipelines may share a name."""

    name: str
    dataset: str
    inputs: tuple[str, ...] = ()
    flow_type: str = ""
    pipeline: int = 0

    @property
    def view(self) -> bool:
        return self.flow_type in VIEWS

    @property
    def virtual(self) -> bool:
        return self.flow_type == VIRTUAL


def _through_views(nodes: Iterable[Node]) -> list[Node]:
    """Every node with the tables that it reads as its inputs, straight or through views without rows of their own."""
    every = list(nodes)
    own = {(n.pipeline, n.dataset): n for n in every if n.virtual}
    shared = {n.dataset: n for n in every if n.virtual and "." in n.dataset}

    def view_of(reader: Node, name: str) -> Node | None:
        return own.get((reader.pipeline, name)) or shared.get(name)

    return [replace(n, inputs=_tables_of(n, view_of)) for n in every]


def _tables_of(node: Node, view_of: Callable[[Node, str], Node | None]) -> tuple[str, ...]:
    tables: dict[str, None] = {}
    seen, left = {node}, [node]
    while left:
        reader = left.pop(0)
        for name in reader.inputs:
            view = view_of(reader, name)
            if view is None:
                tables[name] = None
            elif view not in seen:
                seen.add(view)
                left.append(view)
    return tuple(tables)


def standings(
    updates: Sequence[Mapping[str, Any]],
    nodes: Iterable[Node],
    known: Mapping[str, DatasetFreshness],
    elsewhere: Mapping[str, DatasetFreshness] = MappingProxyType({}),
) -> dict[str, DatasetFreshness]:
    """How the datasets of one pipeline stand, by the flow's name.

    `updates`: as `folding.remembered` keeps them, newest first. `known`: what was so before the oldest of them.
    `elsewhere`: how those stand that other pipelines write, by the dataset's name.
    """
    every = _through_views(nodes)
    freshness = {
        n.name: replace(k, behind=_own(k.behind)) for n in every for k in (known.get(n.name, UNKNOWN),)
    }
    tables = [n for n in every if not n.virtual]
    freshness |= {n.name: DatasetFreshness() for n in every if n.virtual}
    for update in reversed(updates):
        if update.get("read") and not update.get("validate_only"):
            freshness |= {n.name: _after(update, n, every, freshness[n.name]) for n in tables}
    freshness = _with_inputs(every, freshness, elsewhere)
    ended = {n.name: _last_good_end(updates, n.name) for n in tables}
    freshness |= {
        n.name: _mended(known.get(n.name, UNKNOWN), freshness[n.name], ended[n.name]) for n in tables
    }
    return freshness | {n.name: _of_virtual(n, every, freshness, elsewhere) for n in every if n.virtual}


def _own(behind: BehindSince | None) -> BehindSince | None:
    """Without what only a dataset before it brought about: that is judged again each time."""
    return None if behind is None or behind.why in (BehindReason.OF_BEHIND, BehindReason.RENEWED) else behind


def _after(
    update: Mapping[str, Any], node: Node, every: Sequence[Node], before: DatasetFreshness
) -> DatasetFreshness:
    """How current a dataset is after one update that is over, as far as that update alone tells."""
    flow = FlowInUpdate.read(update, node.name)
    behind = _behind_after(update, node, every, before.behind)
    good_at = before.good_at
    if flow.outcome is FlowOutcome.OK:
        good_at = _last(good_at, log.when(update.get("creation_time")) or log.when(flow.at))
    renewed, rewritten_at = [before.renewed_at], before.rewritten_at
    if not node.view and refreshed_in_full(update, node.name, node.dataset):
        emptied_at = (update.get("emptied") or {}).get(node.dataset)
        renewed += [log.when(emptied_at), log.when(flow.at)]
        if flow.outcome is FlowOutcome.OK:
            rewritten_at = _last(rewritten_at, log.when(flow.at))
    if before.behind is not None and behind is None:
        renewed.append(log.when(flow.at))
    return DatasetFreshness(behind, good_at, _last(*renewed), rewritten_at)


def refreshed_in_full(update: Mapping[str, Any], flow: str, dataset: str) -> bool:
    """Did the update empty the flow's table, and with it the numbers that the table keeps?"""
    if dataset in (update.get("emptied") or {}):
        return True
    return FlowInUpdate.read(update, flow).outcome is FlowOutcome.OK and asks_full_refresh(update, dataset)


def asks_full_refresh(update: log.ApiUpdate, dataset: str) -> bool:
    """Was the update started to write this table from scratch?"""
    chosen = update.get("full_refresh_selection") or ()
    return bool(update.get("full_refresh")) or dataset in chosen or dataset.rsplit(".", 1)[-1] in chosen


def _last(*moments: datetime | None) -> datetime | None:
    return max((m for m in moments if m is not None), default=None)


def _last_good_end(updates: Sequence[Mapping[str, Any]], flow: str) -> datetime | None:
    ran = (FlowInUpdate.read(u, flow) for u in updates if u.get("read") and not u.get("validate_only"))
    return next((log.when(t.at) for t in ran if t.outcome is FlowOutcome.OK), None)


def _mended(known: DatasetFreshness, now: DatasetFreshness, ended: datetime | None) -> DatasetFreshness:
    """With the update as its renewal that repaired what was behind by a dataset before it."""
    was = known.behind
    if was is None or now.behind is not None or ended is None or (was.since and ended <= was.since):
        return now
    return replace(now, renewed_at=_last(now.renewed_at, ended))


def _of_virtual(
    view: Node,
    every: Sequence[Node],
    found: Mapping[str, DatasetFreshness],
    elsewhere: Mapping[str, DatasetFreshness],
) -> DatasetFreshness:
    """A view without rows of its own is renewed with what it reads."""
    own = [found[p.name].renewed_at for p in _producers(view, every)]
    return replace(
        found[view.name], renewed_at=_last(*own, *(s.renewed_at for s in _outside(view, every, elsewhere)))
    )


def _outside(
    node: Node, every: Iterable[Node], elsewhere: Mapping[str, DatasetFreshness]
) -> list[DatasetFreshness]:
    """How those stand that a flow reads and no flow of its own pipeline writes."""
    own = {n.dataset for n in every}
    return [elsewhere[name] for name in node.inputs if name in elsewhere and name not in own]


def _behind_after(
    update: Mapping[str, Any], node: Node, every: Sequence[Node], before: BehindSince | None
) -> BehindSince | None:
    flow = FlowInUpdate.read(update, node.name)
    if flow.outcome is FlowOutcome.OK:
        return None
    name = str(update.get("update_id") or "")
    if (emptied := (update.get("emptied") or {}).get(node.dataset)) is not None:
        known = before.since if before and before.state is BehindState.EMPTY else None
        return BehindSince(known or log.when(emptied), BehindReason.EMPTIED, name)
    if before is not None or flow.outcome is not FlowOutcome.NONE:
        return before
    sources = [FlowInUpdate.read(update, p.name) for p in _producers(node, every)]
    moved = [s for s in sources if s.outcome is FlowOutcome.FAILED or s.wrote]
    if moved:
        why = BehindReason.NOT_REACHED if flow.status == SKIPPED else BehindReason.LEFT_OUT
        return BehindSince(_first(log.when(s.at) for s in moved), why, name)
    if flow.status == SKIPPED and (node.view or sources):
        return BehindSince(log.when(flow.at), BehindReason.NOT_REACHED, name)
    return None


def _first(moments: Iterable[datetime | None]) -> datetime | None:
    return min((m for m in moments if m is not None), default=None)


def _producers(node: Node, every: Iterable[Node]) -> list[Node]:
    """The flows that write what a flow reads."""
    return [p for p in every if p.dataset in node.inputs and p.name != node.name]


def _with_inputs(
    every: Sequence[Node], found: Mapping[str, DatasetFreshness], elsewhere: Mapping[str, DatasetFreshness]
) -> dict[str, DatasetFreshness]:
    """What is computed from a dataset that is behind is stale too, however lately it was refreshed."""
    result = dict(found)
    for node in every:
        stale = [
            b
            for s in _outside(node, every, elsewhere)
            if (b := _by_outside(s, result[node.name])) is not None
        ]
        if stale and result[node.name].behind is None and not node.virtual:
            result[node.name] = replace(result[node.name], behind=min(stale, key=_since))
        elif node.virtual and (late := [b for b in stale if b.why is BehindReason.OF_BEHIND]):
            result[node.name] = replace(result[node.name], behind=min(late, key=_since))
    for _ in every:  # the longest way through the graph has no more steps
        before = dict(result)
        for node in every:
            causes = [b for p in _producers(node, every) if (b := result[p.name].behind) is not None]
            if result[node.name].behind is None and causes:
                behind = BehindSince(_first(b.since for b in causes), BehindReason.OF_BEHIND)
                result[node.name] = replace(result[node.name], behind=behind)
        if result == before:
            break
    return result


def _by_outside(source: DatasetFreshness, reader: DatasetFreshness) -> BehindSince | None:
    """How a dataset of another pipeline makes its reader stale; None where it does not."""
    if source.behind is not None:
        return BehindSince(source.behind.since, BehindReason.OF_BEHIND)
    if source.renewed_at and (reader.good_at is None or reader.good_at < source.renewed_at):
        return BehindSince(source.renewed_at, BehindReason.RENEWED)
    return None


def _since(behind: BehindSince) -> datetime:
    return behind.since or datetime.max.replace(tzinfo=UTC)


def below(dataset: str, nodes: Iterable[Node]) -> tuple[Node, ...]:
    """The flows that read `dataset`, and those that read what they write, in an order in which they can run. A view
    without rows of its own is not among them; what reads it is."""
    every, reached = [n for n in _through_views(nodes) if not n.virtual], {dataset}
    for _ in every:
        reached |= {n.dataset for n in every if reached & set(n.inputs)}
    left = [n for n in every if n.dataset != dataset and reached & set(n.inputs)]
    nodes_below: list[Node] = []
    while left:
        waits = {n.dataset for n in left}
        ready = [n for n in left if not (set(n.inputs) & waits) - {n.dataset}] or left[
            :1
        ]  # a circle: Spark forbids it
        nodes_below += ready
        left = [n for n in left if n not in ready]
    return tuple(nodes_below)
