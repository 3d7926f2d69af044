"""Readers in other pipelines of a workspace: who reads a dataset there, and how they stand once it changed.

A pipeline's own updates say nothing of what another one did to the tables that it reads, so its rows are judged once
more when that happens, without a question to the workspace.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from django.db import transaction
from django.db.models import Count, Q, QuerySet, TextField
from django.db.models.functions import Cast
from django.utils import timezone

from recovery.contracts.updates import QUERY_ID_SHARED
from recovery.models import Flow, Pipeline
from recovery.models.listed import hold_pipelines
from recovery.people.roles import Actor
from recovery.people.visible import filter_visible
from recovery.pipelines import behind
from recovery.pipelines.downstream import DatasetFreshness, Node, below
from recovery.pipelines.flow_values import FlowValues

NAMES: Final = 50
"""So many names at once are looked for by the database; of more, all flows are read."""


def flows_of(workspace_id: int) -> QuerySet[Flow]:
    """Flows with a dataset, of the pipelines that the workspace still has."""
    listed = Flow.objects.filter(pipeline__workspace_id=workspace_id, pipeline__gone=False)
    return listed.exclude(dataset="")


def standings_elsewhere(pipeline: Pipeline, nodes: Iterable[Node]) -> dict[str, DatasetFreshness]:
    """How the datasets stand that these flows read and other pipelines of the workspace write, by name."""
    every = list(nodes)
    read = {name for node in every for name in node.inputs if "." in name} - {n.dataset for n in every}
    if not read:
        return {}
    rows = flows_of(pipeline.workspace_id).exclude(pipeline=pipeline).filter(dataset__in=read)
    standings_by_name: dict[str, DatasetFreshness] = {}
    for row in rows.order_by("pk"):
        one, before = behind.standing_of(row), standings_by_name.get(row.dataset)
        standings_by_name[row.dataset] = one if before is None or _says_more(one, before) else before
    return standings_by_name


def _says_more(one: DatasetFreshness, other: DatasetFreshness) -> bool:
    """Of two flows that write one dataset, the one that is behind, or that renewed it last."""
    if (one.behind is None) != (other.behind is None):
        return one.behind is not None
    return other.renewed_at is None or (one.renewed_at is not None and one.renewed_at > other.renewed_at)


def written_elsewhere(pipeline: Pipeline, nodes: Iterable[Node]) -> dict[str, list[str]]:
    """Streaming flows of other pipelines that write what these flows write, by the dataset's name."""
    written = {n.dataset for n in nodes if "." in n.dataset and not n.view and not n.virtual}
    if not written:
        return {}
    rows = flows_of(pipeline.workspace_id).exclude(pipeline=pipeline)
    found: dict[str, list[str]] = {}
    for dataset, name in rows.filter(dataset__in=written, streaming=True).values_list("dataset", "name"):
        found.setdefault(dataset, []).append(name)
    return found


def query_ids_elsewhere(pipeline: Pipeline, ids: Collection[str]) -> set[str]:
    """Which of these query ids flows of other pipelines of the workspace have too."""
    if not ids:
        return set()
    rows = _queries_of(pipeline.workspace_id).exclude(pipeline=pipeline).filter(query_id__in=ids)
    return set(rows.values_list("query_id", flat=True))


def twins_of(flow: Flow, by: Actor) -> list[Flow]:
    """The other flows of the workspace that have the query id of one whose condition is that it shares it, as far as
    `by` may see them."""
    if flow.condition != QUERY_ID_SHARED or not flow.query_id:
        return []
    rows = _queries_of(flow.pipeline.workspace_id).filter(query_id=flow.query_id).exclude(pk=flow.pk)
    seen = rows.filter(filter_visible(by, "pipeline__"))
    return list(seen.select_related("pipeline").order_by("pipeline__name", "name"))


def find_misjudged_twins(workspace_id: int) -> list[int]:
    """Pipelines with a flow whose row does not show that a flow of another pipeline has its query id, or no longer has.
    Those of which something is still to be read are judged when that is read."""
    queries = _queries_of(workspace_id)
    users = queries.order_by().values("query_id").annotate(pipelines=Count("pipeline", distinct=True))
    shared = list(users.filter(pipelines__gt=1).values_list("query_id", flat=True))
    shows = Q(condition=QUERY_ID_SHARED)
    should_show = Q(condition="", failure_memory={}, query_id__in=shared)
    wrong = should_show | (shows & Q(state="unknown") & ~Q(query_id__in=shared))
    rows = Flow.objects.filter(wrong, pipeline__workspace_id=workspace_id, pipeline__gone=False)
    rows = rows.exclude(pipeline__heads="").order_by("pipeline")
    return list(rows.values_list("pipeline_id", flat=True).distinct())


def _queries_of(workspace_id: int) -> QuerySet[Flow]:
    listed = Flow.objects.filter(pipeline__workspace_id=workspace_id, pipeline__gone=False, streaming=True)
    return listed.exclude(query_id="")


def readers_of(workspace_id: int, datasets: Collection[str]) -> QuerySet[Flow]:
    """Flows that may read one of these datasets, in any pipeline; who really does, `Flow.inputs` tells."""
    rows = flows_of(workspace_id).exclude(inputs=[])
    if len(datasets) > NAMES:
        return rows
    wanted = Q(pk__in=())
    for name in datasets:
        for text in {json.dumps(name), json.dumps(name, ensure_ascii=False)}:  # as the databases keep it
            wanted |= Q(inputs_text__contains=text)
    return rows.annotate(inputs_text=Cast("inputs", TextField())).filter(wanted)


def flows_below(flow: Flow) -> list[tuple[Node, Flow]]:
    """Every flow downstream of a flow's table, in any pipeline of its workspace, in an order in which they can run.
    One that its own pipeline writes too stands for what another pipeline writes under the same name."""
    if not flow.dataset:
        return []
    reached, wanted = {flow.dataset}, {flow.dataset}
    rows: dict[tuple[int, str], Flow] = {}
    while wanted:
        read = readers_of(flow.pipeline.workspace_id, wanted).select_related("pipeline").order_by("pk")
        new = [r for r in read if wanted & set(behind.node_of(r).inputs)]
        rows |= {(r.pipeline_id, r.name): r for r in new}
        wanted = {r.dataset for r in new} - reached
        reached |= wanted
    nodes = below(flow.dataset, map(behind.node_of, rows.values()))
    own = {node.dataset for node in nodes if node.pipeline == flow.pipeline_id}
    kept = (n for n in nodes if n.pipeline == flow.pipeline_id or n.dataset not in own)
    return [(n, rows[n.pipeline, n.name]) for n in kept]


class NotHeld(Exception):
    """A transaction has to judge pipelines whose rows it does not hold."""

    def __init__(self, pipelines: Iterable[int]) -> None:
        super().__init__(*pipelines)
        self.pipelines = frozenset(pipelines)


def write_in_order(pipelines: Iterable[int], write: Callable[[frozenset[int]], None]) -> None:
    """Run `write` in a transaction that holds the rows of these pipelines, which it is given.

    Rows of pipelines are locked by their keys, lowest first, or two transactions end each other. Which readers there
    are shows only in the course of one: where one raises `NotHeld`, all that it wrote is undone, and it is run again
    with those held from the beginning.
    """
    held = frozenset(pipelines)
    while True:
        try:
            with transaction.atomic():
                hold_pipelines(held)
                write(held)
            return
        except NotHeld as missing:
            held |= missing.pipelines


def judge_readers(pipeline: Pipeline, datasets: Collection[str], *, held: Collection[int]) -> None:
    """Judge the pipelines once more that read these datasets of `pipeline`, and those that read theirs, until nothing
    changes. Belongs into the transaction that writes what changed, which holds `held` beside `pipeline`
    (`write_in_order`). Raises `NotHeld`."""
    mine = {pipeline.pk, *held}
    left = {pipeline.pk: set(datasets)}
    for _ in range(Pipeline.objects.filter(workspace_id=pipeline.workspace_id).count() + 1):
        if not left:
            return
        changed = left
        left = {}
        for writer, names in changed.items():
            readers = _pipelines_that_read(pipeline.workspace_id, writer, names)
            if missing := set(readers) - mine:
                raise NotHeld(missing)
            for reader in readers:
                if moved := _judge(reader):
                    left.setdefault(reader, set()).update(moved)


def _pipelines_that_read(workspace_id: int, writer: int, datasets: Collection[str]) -> list[int]:
    rows = readers_of(workspace_id, datasets).exclude(pipeline_id=writer)
    wanted = set(datasets)
    return sorted({row.pipeline_id for row in rows if wanted & set(behind.node_of(row).inputs)})


def _judge(pipeline_id: int) -> set[str]:
    """Write how the flows of a pipeline stand by what is stored; answers the datasets of which that changed."""
    pipeline = Pipeline.objects.get(pk=pipeline_id)
    rows = {f.name: f for f in pipeline.flows.all()}
    folded: dict[str, FlowValues] = {
        name: {"state": behind.without_overlay(row.state)} for name, row in rows.items()
    }
    elsewhere = standings_elsewhere(pipeline, behind.nodes_of(folded, rows))
    moved = set()
    for name, values in behind.over(folded, rows, pipeline.updates, elsewhere).items():
        if changes := changes_of(rows[name], values):
            Flow.objects.filter(pk=rows[name].pk).update(**changes, updated_at=timezone.now())
            moved |= {rows[name].dataset} if moves_readers(changes) else set()
    return moved - {""}


def changes_of(row: Flow, values: Mapping[str, Any]) -> dict[str, Any]:
    """What of these values the row does not have yet."""
    return {field: value for field, value in values.items() if getattr(row, field) != value}


def moves_readers(changes: Mapping[str, Any]) -> bool:
    """Do these changes of a row concern who reads its dataset in another pipeline?"""
    return bool(changes.keys() & {"dataset", "behind_since", "behind_why", "renewed_at"})
