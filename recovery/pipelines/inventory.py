"""Keeps the inventory: asks a workspace what pipelines it has, and what their last updates did.

Cheap enough to run every few seconds: the list tells which pipelines moved, and only those are asked for, with the
events of an update until it is over, and a few of the others. Robust: a workspace that does not answer keeps its rows,
with the reason beside them.
"""

import json
import logging
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from recovery.contracts.updates import CHECKPOINT_GONE
from recovery.errors import NotFound, RepriseError, Unreachable
from recovery.models import Flow, Pipeline, Recovery, Workspace
from recovery.names import shown
from recovery.notify.actions import announce_event
from recovery.pipelines import across, behind, folding, listing, losses, retagging, twins
from recovery.pipelines.asking import ClientPool, OlderUpdates, PipelineReply, PolledPipeline
from recovery.pipelines.client import ApiDenied
from recovery.pipelines.errors import ApiBusy
from recovery.pipelines.events import CHECKPOINT_IS_GONE, ENDED
from recovery.pipelines.failing import NOTHING, is_gone, memory_of, read_memory
from recovery.pipelines.failures import (
    FailurePhase,
    PipelineHealth,
    PipelineState,
    UpdateFailure,
    failure_from,
    judge_pipeline,
    say_failure,
)
from recovery.pipelines.flow_values import FlowValues
from recovery.pipelines.led import reruns_of
from recovery.workflow.doubting import keep_table_doubts

log = logging.getLogger(__name__)

BATCH: Final = 64
"""So many are asked for before what they answered is written."""
AGAIN: Final = 10
AGAIN_PART: Final = 40
"""Of the pipelines that have not moved, each poll asks for this many, or for this part of all, once more."""


def refresh(*, workspace_id: int, only: str | None = None) -> None:
    """Bring the rows of one workspace up to date; a failure is kept as the workspace's `poll_error`.

    `only`: an id or a name. All pipelines are listed, so that twins and removals are seen, but the details of the
    others are left to the next poll: somebody waits for this one. `polled_at`, the age of all rows, stays then.
    """
    workspace = Workspace.objects.get(pk=workspace_id)
    if not workspace.active:
        return
    began, pause = timezone.now(), 0.0
    try:
        clients = ClientPool(workspace)
    except RepriseError as error:
        _end(workspace, None, error.sentence, None)
        return
    try:
        problem = _refresh(workspace, clients, only)
        polled_at = timezone.now() if only is None else None
    except RepriseError as error:
        polled_at, problem = None, error.sentence
        pause = error.seconds if isinstance(error, ApiBusy) else 0.0
    finally:
        clients.close()
    _end(workspace, polled_at, problem, _next_poll(began, timezone.now(), pause))


def _next_poll(began: datetime, ended: datetime, pause: float) -> datetime | None:
    """When the next poll may begin: not before the service wants it, and after a rest as long as this one took; None
    where the usual period gives it that rest."""
    took = ended - began
    rested = ended + max(timedelta(seconds=pause), took)
    usual = began + timedelta(seconds=settings.REPRISE_POLL_SECONDS)
    return None if rested <= usual else rested


def due_workspaces(now: datetime) -> list[int]:
    """Workspaces that may be polled now."""
    rested = Q(next_poll_at=None) | Q(next_poll_at__lte=now)
    return list(Workspace.objects.active().filter(rested).order_by("pk").values_list("pk", flat=True))


def _end(workspace: Workspace, polled_at: datetime | None, problem: str, next_poll: datetime | None) -> None:
    """`polled_at` stays at the last good poll of all pipelines, so that everybody sees how old the rows are."""
    changes: dict[str, Any] = {"next_poll_at": next_poll}
    if polled_at:
        changes["polled_at"] = polled_at
    if problem != workspace.poll_error:
        if problem:
            log.warning("Workspace %s: %s", workspace.name, problem)
        changes["poll_error"] = problem
    Workspace.objects.active().filter(pk=workspace.pk).update(**changes)


def _refresh(workspace: Workspace, clients: ClientPool, only: str | None) -> str:
    """Poll the pipelines that moved and some of the others, or those of one id or name.

    Answers the problem of the first one that could not be read, or "".
    """
    listed = {str(entry.get("pipeline_id") or ""): entry for entry in clients.first.list_pipelines()}
    rows = {p.pipeline_id: p for p in _known(workspace)}
    if only is None:
        chosen = _due(listed, rows)
    else:
        chosen = [key for key, entry in listed.items() if only in (key, shown(str(entry.get("name"))))]
    seen, problem = set(listed) - set(chosen), ""
    for start in range(0, len(chosen), BATCH):
        some = chosen[start : start + BATCH]
        for asked, reply in clients.answers(_asked(some, listed, rows)):
            if isinstance(reply, NotFound):
                continue  # deleted since it was listed
            if isinstance(reply, Unreachable | ApiDenied):
                raise reply
            if isinstance(reply, RepriseError):
                problem = problem or f"Pipeline {asked.entry.get('name') or asked.id}: {reply.sentence}"
                seen.add(asked.id)
            elif not reply.passing:
                _keep(workspace, asked, reply)
                seen.add(asked.id)
    # one that was switched off or removed meanwhile keeps its flows out of the lists
    mine = Pipeline.objects.filter(workspace__in=Workspace.objects.active().filter(pk=workspace.pk))
    mine.filter(gone=True, pipeline_id__in=seen).update(gone=False)
    mine.filter(gone=False).exclude(pipeline_id__in=seen).update(gone=True)
    for key in across.find_misjudged_twins(workspace.pk):
        _judge_again(key)
    return problem


def _judge_again(key: int) -> None:
    """Write how a pipeline and its flows are by what is stored, as a flow of another pipeline has changed."""

    def write(locked: frozenset[int]) -> None:
        with listing.together():
            pipeline = Pipeline.objects.get(pk=key)
            known = PipelineReply({}, older=OlderUpdates(pipeline.updates))
            _write_flows(pipeline, pipeline.updates, known, pipeline.updates, locked, again=True)
            _write_health(pipeline, judge_pipeline(folding.real(pipeline.updates)), pipeline.updates)
            listing.derive_again([pipeline.pk])

    across.write_in_order([key], write)


def _known(workspace: Workspace) -> QuerySet[Pipeline]:
    """Every row, as far as the list of pipelines is compared with it."""
    rows = Pipeline.objects.filter(workspace=workspace)
    return rows.only("pipeline_id", "name", "state", "heads", "gone", "seen_at")


def _due(listed: Mapping[str, Mapping[str, Any]], rows: Mapping[str, Pipeline]) -> list[str]:
    """Pipelines of which something moved by the list, and of the others those that were asked for longest ago: the
    list tells of states and updates, and not of a changed setting, tag or path."""
    idle = {key for key, entry in listed.items() if _is_idle(entry, rows.get(key))}
    oldest = sorted(idle, key=lambda key: rows[key].seen_at)
    again = set(oldest[: max(AGAIN, len(listed) // AGAIN_PART)])
    return [key for key in listed if key not in idle or key in again]


def _is_idle(entry: Mapping[str, Any], row: Pipeline | None) -> bool:
    """Does the list say of a pipeline what its row has, with nothing left to read?"""
    latest = entry.get("latest_updates")
    if row is None or row.gone or not row.heads or not isinstance(latest, list):
        return False
    states = [[u.get("update_id"), u.get("state")] for u in latest if isinstance(u, dict)]
    kept = json.loads(row.heads)
    same = shown(str(entry.get("name")))[:300] == row.name and str(entry.get("state"))[:20] == row.state
    return same and states == kept[: len(states)] and bool(states) == bool(kept)


def _heads(updates: Sequence[Mapping[str, Any]]) -> str:
    """Ids and states of the updates, newest first; "" while one of them is still to be read."""
    if not all(folding.whole(u) for u in folding.real(updates)):
        return ""
    return json.dumps([[u.get("update_id"), u.get("state")] for u in updates])


def _asked(
    keys: Sequence[str], listed: Mapping[str, Mapping[str, Any]], rows: Mapping[str, Pipeline]
) -> list[PolledPipeline]:
    held = {key: rows[key].pk for key in keys if key in rows}
    updates = dict(Pipeline.objects.filter(pk__in=held.values()).values_list("pk", "updates"))
    counted: dict[int, set[str]] = defaultdict(set)
    memories = Flow.objects.filter(pipeline__in=held.values()).exclude(sink_memory={})
    for flow in memories.only("pipeline_id", "sink_memory"):
        counted[flow.pipeline_id].add(str(flow.sink_memory.get("update") or ""))
    unknown: dict[int, set[str]] = defaultdict(set)
    for pk, name in _unknown_flows(held.values()):
        unknown[pk].add(name)
    return [_asked_for(listed[key], held.get(key), updates, counted, unknown) for key in keys]


def _unknown_flows(pipelines: Collection[int]) -> QuerySet[Flow, tuple[int, str]]:
    """Flows of these pipelines of which it is not known how they are: the pipeline's key, and the flow's name."""
    rows = Flow.objects.filter(pipeline__in=pipelines, state="unknown")
    return rows.values_list("pipeline_id", "name")


def _asked_for(
    entry: Mapping[str, Any],
    row: int | None,
    updates: Mapping[int, Sequence[Mapping[str, Any]]],
    counted: Mapping[int, set[str]],
    unknown: Mapping[int, set[str]],
) -> PolledPipeline:
    key = row or 0
    names = frozenset(unknown.get(key, ()))
    return PolledPipeline(entry, row, updates.get(key, []), frozenset(counted.get(key, ())) - {""}, names)


def _keep(workspace: Workspace, asked: PolledPipeline, reply: PipelineReply) -> None:
    """Write what changed of one pipeline."""
    answer, spec = reply.answer, reply.answer.get("spec") or {}
    readings, continuous = (*reply.older.readings, *reply.readings), bool(spec.get("continuous"))
    read = {r.id: folding.remembered(r, continuous=continuous) for r in readings}
    remembered = [read.get(str(u["update_id"]), u) for u in reply.updates]
    environment = str((spec.get("tags") or {}).get("environment") or workspace.environment)[:20]
    values = {
        "name": shown(str(answer.get("name") or asked.entry.get("name") or asked.id))[:300],
        "environment": environment,
        "state": str(answer.get("state") or asked.entry.get("state") or "")[:20],
        "spec": spec,
        "updates": remembered,
        "heads": "" if reply.older.left else _heads(remembered),
    }
    back = [read.get(str(u["update_id"]), u) for u in reply.older.updates]

    def write(locked: frozenset[int]) -> None:
        with listing.together():
            held = Pipeline.objects.filter(pk=asked.row).first() if asked.row else None
            move = retagging.judge(held, environment, timezone.now()) if held else None
            pipeline = _write_pipeline(workspace, asked.id, held, values | (move.values() if move else {}))
            _write_flows(
                pipeline,
                remembered,
                reply,
                back,
                locked,
                again=_moved_without_update(pipeline, remembered, reply),
            )
            _write_health(pipeline, judge_pipeline(folding.real(remembered)), remembered)
            if held and move:
                retagging.note(held, move)
            listing.derive_again([pipeline.pk])

    across.write_in_order([asked.row] if asked.row else [], write)


def _moved_without_update(
    pipeline: Pipeline, updates: Sequence[Mapping[str, object]], reply: PipelineReply
) -> bool:
    """Has a flow changed of which no update tells? A plain stream counts as running where its running command alone
    showed that, and no longer does; and its checkpoint goes, or comes back."""
    active = any(update.get("state") not in ENDED for update in updates)
    if not active and pipeline.flows.filter(state="running").exists():
        return True
    was_gone = pipeline.flows.filter(condition=CHECKPOINT_GONE).exists()
    return was_gone is not _has_lost_checkpoint(pipeline, reply)


def _has_lost_checkpoint(pipeline: Pipeline, reply: PipelineReply) -> bool:
    """Is the checkpoint of a plain stream gone, and no recovery open, which may be about to put another one there?"""
    is_gone = bool(reply.answer.get(CHECKPOINT_IS_GONE))
    return is_gone and not Recovery.objects.filter(flow__pipeline=pipeline, active=True).exists()


def _write_pipeline(
    workspace: Workspace, pipeline_id: str, row: Pipeline | None, values: Mapping[str, Any]
) -> Pipeline:
    if row is None:
        return Pipeline.objects.update_or_create(
            workspace=workspace, pipeline_id=pipeline_id, defaults={**values, "seen_at": timezone.now()}
        )[0]
    changes = {k: v for k, v in values.items() if getattr(row, k) != v}
    Pipeline.objects.filter(pk=row.pk).update(**changes, seen_at=timezone.now())
    return row


def _write_flows(
    pipeline: Pipeline,
    updates: Sequence[Mapping[str, Any]],
    reply: PipelineReply,
    back: Sequence[Mapping[str, Any]],
    held: Collection[int],
    *,
    again: bool = False,
) -> None:
    """Write the flows that changed: an update that was read can change them, and for a pipeline that was never judged
    what is known of its updates. What changed for readers in other pipelines, quiet ones too, is written with it.

    `back`: the updates as far back as batches into file tables have to be counted. `held`: pipelines whose rows this
    transaction holds. `again`: judge them though nothing was read. Raises `NotHeld`."""
    readings, older = reply.readings, reply.older
    if not again and not readings and not older.readings and pipeline.judged:
        return
    rows = {f.name: f for f in Flow.objects.filter(pipeline=pipeline)}
    names = dict.fromkeys([*rows, *(n for r in readings for n in (*r.definitions, *r.statuses))])
    folded = {name: _folded(name, rows.get(name), updates, readings) for name in names}
    written = across.written_elsewhere(pipeline, behind.nodes_of(folded, rows))
    folded = losses.over(
        folded, rows, back, missed=older.missed, reruns=reruns_of(pipeline, back), elsewhere=written
    )
    ids = twins.query_ids(folded, rows).values()
    folded = twins.over(folded, rows, updates, across.query_ids_elsewhere(pipeline, set(ids)))
    if _has_lost_checkpoint(pipeline, reply):
        folded = {name: losses.note_gone_checkpoint(values) for name, values in folded.items()}
    elsewhere = across.standings_elsewhere(pipeline, behind.nodes_of(folded, rows))
    moved: set[str] = set()
    for name, values in behind.over(folded, rows, updates, elsewhere).items():
        row = rows.get(name)
        announced = row is not None and (row.failing_since is not None or bool(row.failure_memory))
        if row is None:
            row = Flow.objects.update_or_create(
                pipeline=pipeline, name=name[:400], defaults={**values, "updated_at": timezone.now()}
            )[0]
            moved.add(row.dataset)
            if row.sink_memory:
                keep_table_doubts([row.pk])
        elif changes := across.changes_of(row, values):
            Flow.objects.filter(pk=row.pk).update(**changes, updated_at=timezone.now())
            if "rewritten_at" in changes or losses.moves_doubt(row, values):
                keep_table_doubts([row.pk])
            if across.moves_readers(changes):
                moved |= {row.dataset, str(values.get("dataset", row.dataset))}
        whole = read_memory(values["failure_memory"]).is_whole  # the pipeline's message tells it then, once
        if values["state"] == "failed" and not whole and not announced:
            _announce_failure(row.pk)
    if readings:
        _drop_removed(pipeline, readings)
    if moved - {""}:
        across.judge_readers(pipeline, moved - {""}, held=held)


def _write_health(pipeline: Pipeline, judged: PipelineHealth, updates: Sequence[Mapping[str, Any]]) -> None:
    """Keep how the pipeline is, and tell people once when it has begun to fail.

    No update of one flow alone makes a pipeline well in which another flow fails.
    """
    health = _with_unknown(_with_flows(_with_known(judged, pipeline), pipeline), pipeline, updates)
    since, known = health.since, pipeline.judged_since
    if health.state is PipelineState.FAILED:
        since = health.failing_since
    elif pipeline.judged == health.state and not health.is_exact and known:
        since = min(known, since or known)
    values = {
        "judged": str(health.state),
        "judged_since": since,
        "failure": health.failure.as_json() if health.failure else {},
        "failing_since": health.failing_since,
    }
    changes = {k: v for k, v in values.items() if getattr(pipeline, k) != v}
    if changes:
        Pipeline.objects.filter(pk=pipeline.pk).update(**changes)
    known_failure = failure_from(pipeline.failure)
    if health.failure and health.failure.is_whole and not (known_failure and known_failure.is_whole):
        _announce_whole_failure(pipeline, health.failure, since)


def _with_known(judged: PipelineHealth, pipeline: Pipeline) -> PipelineHealth:
    """With what the row keeps of a row of failures that began before the updates that were judged: that only cancelled
    updates are left of it in sight makes it neither younger nor another."""
    if not judged.is_unbroken or judged.state not in (PipelineState.FAILED, PipelineState.RUNNING):
        return judged
    began = pipeline.failing_since or (
        pipeline.judged_since if pipeline.judged == PipelineState.FAILED else None
    )
    known, failure = failure_from(pipeline.failure), judged.failure
    if known and not known.is_cancelled and (failure is None or failure.is_cancelled):
        failure = known
    return replace(judged, failure=failure, failing_since=_first(began, judged.failing_since))


def _with_flows(judged: PipelineHealth, pipeline: Pipeline) -> PipelineHealth:
    """With the flow that has failed longest, where the newest updates say nothing of why."""
    flows = pipeline.flows.filter(Q(state="failed") | ~Q(failure_memory={}))
    failing = flows.order_by(F("failing_since").asc(nulls_last=True)).first()
    if failing is None or judged.state is PipelineState.UNKNOWN:
        return judged
    newest = memory_of(failing).newest
    failure = newest.failure if newest else UpdateFailure(
        failing.failed_update, FailurePhase.FLOW, flow=failing.name, condition=failing.condition,
        causes=failing.causes,
    )  # fmt: skip
    since = _first(judged.failing_since, failing.failing_since)
    if judged.state is PipelineState.OK:
        return PipelineHealth(PipelineState.FAILED, since, failure, failing_since=since)
    unread = judged.failure is None and judged.state is PipelineState.FAILED
    if not unread and (judged.failure is None or judged.failure.is_cancelled):
        judged = replace(judged, failure=failure)
    return replace(judged, failing_since=since)


def _with_unknown(
    judged: PipelineHealth, pipeline: Pipeline, updates: Sequence[Mapping[str, Any]]
) -> PipelineHealth:
    """No pipeline is well while no one knows how one of the flows is that its code has."""
    if judged.state is not PipelineState.OK:
        return judged
    for _, name in _unknown_flows([pipeline.pk]):
        if not any(is_gone(update, name) for update in updates):
            return replace(judged, state=PipelineState.UNKNOWN)
    return judged


def _first(*moments: datetime | None) -> datetime | None:
    return min((m for m in moments if m is not None), default=None)


def _announce_whole_failure(pipeline: Pipeline, failure: UpdateFailure, since: datetime | None) -> None:
    """Once for each row of failures; not of what a recovery cancelled, whose people know."""
    if failure.is_cancelled and Recovery.objects.filter(flow__pipeline=pipeline, active=True).exists():
        return
    moment = f"{since:%Y-%m-%d %H:%M:%S} UTC" if since else None
    cause = say_failure(failure, pipeline.workspace.run_noun)
    announce_event(
        event="pipeline.failed",
        pipeline=pipeline,
        facts={"condition": failure.condition, "cause": cause, "failing_since": moment},
        dedupe=f"{pipeline.pk}:{moment or failure.update_id}",
    )


def _folded(
    name: str,
    row: Flow | None,
    updates: Sequence[Mapping[str, Any]],
    readings: Sequence[folding.FoldedUpdate],
) -> FlowValues:
    return folding.flow_fields(name, updates=updates, readings=readings, known=memory_of(row, updates))


def _announce_failure(flow_id: int) -> None:
    """Once for each row of failures: two polls that see it at the same time write one message."""
    flow = Flow.objects.select_related("pipeline__workspace").get(pk=flow_id)
    since = flow.failing_since
    moment = f"{since:%Y-%m-%d %H:%M:%S} UTC" if since else None
    name = f"{flow_id}:{moment or flow.failed_update}"
    announce_event(event="flow.failed", flow=flow, facts={"failing_since": moment}, dedupe=name)


def _drop_removed(pipeline: Pipeline, readings: Sequence[folding.FoldedUpdate]) -> None:
    """Forget flows that the code no longer has: a whole, completed update did not define them.

    A flow with recoveries is history and stays, as unknown.
    """
    whole = [r for r in readings if r.update.get("state") == "COMPLETED" and r.definitions]
    selections = ("refresh_selection", "full_refresh_selection")
    whole = [r for r in whole if not any(r.update.get(s) for s in selections)]
    if not whole or any(r.id != whole[-1].id for r in readings[readings.index(whole[-1]) :]):
        return
    removed = Flow.objects.filter(pipeline=pipeline).exclude(name__in=list(whole[-1].definitions))
    used = Recovery.objects.filter(flow__in=removed).values("flow")
    gone: FlowValues = {"state": "unknown", "query_id": "", **NOTHING.fields(), **behind.NOT_BEHIND}
    removed.filter(pk__in=used).update(**dict(gone))
    removed.exclude(pk__in=used).delete()
