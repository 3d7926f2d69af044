"""What stands downstream of a flow, and whether it still shows what the flow wrote. Pure: no I/O, no database.

A dataset that is computed from others is right only as long as it was refreshed after them. An update refreshes what
it selects; the rest it leaves as it is (EXCLUDED), and what comes after a failure it does not reach (SKIPPED). Spark
empties every materialized view that an update selects before the first flow runs
(`DatasetManager.materializeDatasets`), so a view that was then not reached holds no row: our server says which ones
(`x_reprise_emptied`). Where nobody says so, a view that was not reached is old, and not known to be empty.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from recovery.pipelines import events as log

VIEWS: Final = frozenset({"MATERIALIZED_VIEW", "COMPLETE"})
"""Types of flows that compute their whole dataset anew."""
VIRTUAL: Final = "VIEW"
"""The type of a flow that defines a view without rows of its own: whoever reads it reads what it reads."""


class State(StrEnum):
    """Of a dataset that is behind. `EMPTY`: it holds no row; `STALE`: older than what it is computed from."""

    EMPTY = "empty"
    STALE = "stale"


class Why(StrEnum):
    """How a dataset came to be behind."""

    EMPTIED = "emptied"  # an update emptied it at set-up and did not come to its flow
    NOT_REACHED = "not_reached"  # what it is computed from failed before its turn
    LEFT_OUT = "left_out"  # what it is computed from was written by an update that did not select it
    OF_BEHIND = "of_behind"  # it is computed from a dataset that is behind itself


@dataclass(frozen=True)
class Behind:
    """Since when a dataset is behind. `update`: the one that left it so, "" where a dataset before it is the cause."""

    since: datetime | None
    why: Why
    update: str = ""

    @property
    def state(self) -> State:
        return State.EMPTY if self.why is Why.EMPTIED else State.STALE


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
    updates: Sequence[Mapping[str, Any]], nodes: Iterable[Node], known: Mapping[str, Behind | None]
) -> dict[str, Behind | None]:
    """Which flows' datasets are behind, by the flow's name; None: not known to be.

    `updates`: as `folding.remembered` keeps them, newest first. `known`: what was so before the oldest of them.
    """
    every = _through_views(nodes)
    found = {n.name: None if n.virtual else _own(known.get(n.name)) for n in every}
    for update in reversed(updates):
        if update.get("read") and not update.get("validate_only"):
            tables = (n for n in every if not n.virtual)
            found |= {n.name: _after(update, n, every, found[n.name]) for n in tables}
    return _with_inputs(every, found)


def _own(behind: Behind | None) -> Behind | None:
    """Without what only a dataset before it brought about: that is judged anew each time."""
    return None if behind is None or behind.why is Why.OF_BEHIND else behind


def _after(
    update: Mapping[str, Any], node: Node, every: Sequence[Node], before: Behind | None
) -> Behind | None:
    """How a dataset stands after one update that is over."""
    told = _told(update, node.name)
    if told.get("outcome") == "ok":
        return None
    name = str(update.get("update_id") or "")
    if (emptied := (update.get("emptied") or {}).get(node.dataset)) is not None:
        known = before.since if before and before.state is State.EMPTY else None
        return Behind(known or log.when(emptied), Why.EMPTIED, name)
    if before is not None or told.get("outcome") not in (None, "none"):
        return before
    sources = [_told(update, p.name) for p in _producers(node, every)]
    moved = [s for s in sources if s.get("outcome") == "failed" or _wrote(s)]
    if moved:
        why = Why.NOT_REACHED if _skipped(told) else Why.LEFT_OUT
        return Behind(_first(log.when(s.get("at")) for s in moved), why, name)
    if _skipped(told) and (node.view or sources):
        return Behind(log.when(told.get("at")), Why.NOT_REACHED, name)
    return None


def _told(update: Mapping[str, Any], flow: str) -> Mapping[str, Any]:
    told: Mapping[str, Any] = (update.get("flows") or {}).get(flow) or {}
    return told


def _skipped(told: Mapping[str, Any]) -> bool:
    return told.get("status") == "SKIPPED"


def _wrote(told: Mapping[str, Any]) -> bool:
    return bool(told.get("wrote"))


def _first(moments: Iterable[datetime | None]) -> datetime | None:
    return min((m for m in moments if m is not None), default=None)


def _producers(node: Node, every: Iterable[Node]) -> list[Node]:
    """The flows that write what a flow reads."""
    return [p for p in every if p.dataset in node.inputs and p.name != node.name]


def _with_inputs(every: Sequence[Node], found: dict[str, Behind | None]) -> dict[str, Behind | None]:
    """What is computed from a dataset that is behind is stale too, however lately it was refreshed."""
    for _ in every:  # the longest way through the graph has no more steps
        before = dict(found)
        for node in every:
            causes = [b for p in _producers(node, every) if (b := found[p.name]) is not None]
            if found[node.name] is None and causes:
                found[node.name] = Behind(_first(b.since for b in causes), Why.OF_BEHIND)
        if found == before:
            break
    return found


def below(dataset: str, nodes: Iterable[Node]) -> tuple[Node, ...]:
    """The flows that read `dataset`, and those that read what they write, in an order in which they can run. A view
    without rows of its own is not among them; what reads it is."""
    every, reached = [n for n in _through_views(nodes) if not n.virtual], {dataset}
    for _ in every:
        reached |= {n.dataset for n in every if reached & set(n.inputs)}
    left = [n for n in every if n.dataset != dataset and reached & set(n.inputs)]
    found: list[Node] = []
    while left:
        waits = {n.dataset for n in left}
        ready = [n for n in left if not (set(n.inputs) & waits) - {n.dataset}] or left[
            :1
        ]  # a circle: Spark forbids it
        found += ready
        left = [n for n in left if n not in ready]
    return tuple(found)
