"""Keeps the inventory: asks a workspace what pipelines it has, and what their last updates did.

Cheap enough to run every few seconds: one request a pipeline, and the events of an update only until it
is over. Robust: a workspace that does not answer keeps its rows, with the reason beside them.
"""

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from recovery.errors import NotFound, RepriseError, Unreachable
from recovery.models import Flow, Pipeline, Recovery, Workspace
from recovery.names import shown
from recovery.notify.actions import announce
from recovery.pipelines import across, behind, folding, losses, retagging
from recovery.pipelines.client import ApiDenied, PipelinesClient
from recovery.pipelines.events import when
from recovery.pipelines.failures import (
    FailurePhase,
    PipelineHealth,
    PipelineState,
    UpdateFailure,
    failure_from,
    judge_pipeline,
    say_failure,
)
from recovery.pipelines.workspaces import client_for

log = logging.getLogger(__name__)

UPDATES: Final = 15
EVENTS: Final = 2000
TIMEOUT: Final = 15.0


def refresh(*, workspace_id: int, only: str | None = None) -> None:
    """Bring the rows of one workspace up to date; a failure is kept as the workspace's `poll_error`.

    `only`: an id or a name. All pipelines are listed, so that twins and removals are seen, but the details of the
    others are left to the next poll: somebody waits for this one. `polled_at`, the age of all rows, stays then.
    """
    workspace = Workspace.objects.get(pk=workspace_id)
    if not workspace.active:
        return
    try:
        client = client_for(workspace, timeout=TIMEOUT)
    except RepriseError as error:
        _end(workspace, None, error.sentence)
        return
    try:
        problem = _refresh(workspace, client, only)
    except RepriseError as error:
        _end(workspace, None, error.sentence)
    else:
        _end(workspace, timezone.now() if only is None else None, problem)
    finally:
        client.close()


def _end(workspace: Workspace, polled_at: datetime | None, problem: str) -> None:
    """`polled_at` stays at the last good poll of all pipelines, so that everybody sees how old the rows are."""
    if problem and problem != workspace.poll_error:
        log.warning("Workspace %s: %s", workspace.name, problem)
    changes: dict[str, Any] = {"poll_error": problem}
    if polled_at:
        changes["polled_at"] = polled_at
    Workspace.objects.active().filter(pk=workspace.pk).update(**changes)


def _refresh(workspace: Workspace, client: PipelinesClient, only: str | None) -> str:
    """Poll every pipeline, or those of one id or name.

    Answers the problem of the first one that could not be read, or "".
    """
    listed = client.list_pipelines()
    rows = {p.pipeline_id: p for p in Pipeline.objects.filter(workspace=workspace)}
    seen: list[str] = []
    problem = ""
    for entry in listed:
        pipeline_id = str(entry.get("pipeline_id") or "")
        if only is not None and only not in (pipeline_id, shown(str(entry.get("name")))):
            seen.append(pipeline_id)
            continue
        try:
            if _poll(workspace, client, entry, rows.get(pipeline_id)):
                seen.append(pipeline_id)
        except NotFound:
            continue  # deleted since it was listed
        except (Unreachable, ApiDenied):
            raise
        except RepriseError as error:
            problem = problem or f"Pipeline {entry.get('name') or pipeline_id}: {error.sentence}"
            seen.append(pipeline_id)
    # one that was switched off or removed meanwhile keeps its flows out of the lists
    mine = Pipeline.objects.filter(workspace__in=Workspace.objects.active().filter(pk=workspace.pk))
    mine.filter(pipeline_id__in=seen).update(seen_at=timezone.now(), gone=False)
    mine.filter(gone=False).exclude(pipeline_id__in=seen).update(gone=True)
    return problem


def _poll(
    workspace: Workspace, client: PipelinesClient, entry: Mapping[str, Any], row: Pipeline | None
) -> bool:
    """Read one pipeline and write what changed. False for a passing copy that a validation made."""
    pipeline_id = str(entry.get("pipeline_id") or "")
    answer = client.get_pipeline(pipeline_id)
    spec = answer.get("spec") or {}
    tags = spec.get("tags") or {}
    if tags.get("reprise") == "validation":
        return False
    kept: list[dict[str, Any]] = row.updates if row else []
    updates = _updates(client, pipeline_id, answer.get("latest_updates"), kept)
    readings = [
        _read(client, pipeline_id, u) for u in reversed(folding.real(updates)) if not folding.whole(u)
    ]
    read = {r.id: folding.remembered(r) for r in readings}
    remembered = [read.get(u["update_id"], u) for u in updates]
    told = str(tags.get("environment") or workspace.environment)[:20]
    values = {
        "name": shown(str(answer.get("name") or entry.get("name") or pipeline_id))[:300],
        "environment": told,
        "state": str(answer.get("state") or entry.get("state") or "")[:20],
        "spec": spec,
        "updates": remembered,
    }
    with transaction.atomic():
        held = Pipeline.objects.select_for_update().filter(pk=row.pk).first() if row else None
        move = retagging.judge(held, told, timezone.now()) if held else None
        pipeline = _write_pipeline(workspace, pipeline_id, held, values | (move.values() if move else {}))
        _write_flows(pipeline, remembered, readings)
        _write_health(pipeline, judge_pipeline(folding.real(remembered)))
        if held and move:
            retagging.note(held, move)
    return True


def _updates(
    client: PipelinesClient, pipeline_id: str, latest: Any, kept: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The newest updates, newest first, with what is known of each; asked for only when something moved."""
    if isinstance(latest, list) and kept:
        told = [(u.get("update_id"), u.get("state")) for u in latest]
        if told == [(u.get("update_id"), u.get("state")) for u in kept[: len(told)]]:
            return kept
    elif latest == [] and not kept:
        return []
    known = {u["update_id"]: u for u in kept if u.get("read")}
    found = [u for u in client.list_updates(pipeline_id, limit=UPDATES) if u.get("update_id")]
    return [known.get(u["update_id"], u) for u in found]


def _read(client: PipelinesClient, pipeline_id: str, update: Mapping[str, Any]) -> folding.Reading:
    """What the events of one update say. Definitions come first in an update, so a long one is read from
    both ends."""
    chosen = f"update_id = '{update['update_id']}'"
    events = list(client.events(pipeline_id, filter=chosen, limit=EVENTS))
    if len(events) >= EVENTS:
        events += client.events(pipeline_id, filter=chosen, order_by="timestamp asc", limit=250)
    return folding.read(update, events, now=timezone.now())


def _write_pipeline(
    workspace: Workspace, pipeline_id: str, row: Pipeline | None, values: Mapping[str, Any]
) -> Pipeline:
    if row is None:
        return Pipeline.objects.update_or_create(
            workspace=workspace, pipeline_id=pipeline_id, defaults={**values, "seen_at": timezone.now()}
        )[0]
    changes = {k: v for k, v in values.items() if getattr(row, k) != v}
    if changes:
        Pipeline.objects.filter(pk=row.pk).update(**changes)
    return row


def _write_flows(
    pipeline: Pipeline, updates: Sequence[Mapping[str, Any]], readings: Sequence[folding.Reading]
) -> None:
    """Write the flows that changed: an update that was read can change them, and for a pipeline that was never judged
    what is known of its updates. What changed for readers in other pipelines, quiet ones too, is written with it."""
    if not readings and pipeline.judged:
        return
    rows = {f.name: f for f in Flow.objects.filter(pipeline=pipeline)}
    names = dict.fromkeys([*rows, *(n for r in readings for n in (*r.definitions, *r.statuses))])
    folded = {name: _folded(name, rows.get(name), updates, readings) for name in names}
    folded = losses.over(folded, rows, updates, led=_led_by_recoveries(pipeline, updates))
    elsewhere = across.standings_elsewhere(pipeline, behind.nodes_of(folded, rows))
    moved: set[str] = set()
    for name, values in behind.over(folded, rows, updates, elsewhere).items():
        row = rows.get(name)
        known_since = row.failing_since if row else None
        if row is None:
            row = Flow.objects.update_or_create(
                pipeline=pipeline, name=name[:400], defaults={**values, "updated_at": timezone.now()}
            )[0]
            moved.add(row.dataset)
        elif changes := across.changes_of(row, values):
            Flow.objects.filter(pk=row.pk).update(**changes, updated_at=timezone.now())
            if across.moves_readers(changes):
                moved |= {row.dataset, str(values.get("dataset", row.dataset))}
        own = folding.whole_failure(updates, name) is None  # else the pipeline's message tells it, once
        if values["state"] == "failed" and own and not known_since:
            _announce_failure(row.pk)
    if readings:
        _drop_removed(pipeline, readings)
    if moved - {""}:
        across.judge_readers(pipeline, moved - {""})


def _led_by_recoveries(pipeline: Pipeline, updates: Sequence[Mapping[str, Any]]) -> set[str]:
    """Updates that began while a recovery of one of the pipeline's flows was open."""
    periods = Recovery.objects.filter(flow__pipeline=pipeline).values_list("created_at", "ended_at")
    spans = list(periods)
    found = set()
    for update in updates if spans else ():
        began = when(update.get("creation_time"))
        if began and any(start <= began and (end is None or began <= end) for start, end in spans):
            found.add(str(update.get("update_id")))
    return found


def _write_health(pipeline: Pipeline, judged: PipelineHealth) -> None:
    """Keep how the pipeline is, and tell people once when it has begun to fail.

    No update of one flow alone makes a pipeline well in which another flow fails.
    """
    health = judged
    failing = pipeline.flows.filter(state="failed").order_by("failing_since").first()
    if judged.state is PipelineState.OK and failing:
        failure = UpdateFailure(
            failing.failed_update, FailurePhase.FLOW, flow=failing.name, condition=failing.condition,
            causes=tuple(failing.error),
        )  # fmt: skip
        health = PipelineHealth(PipelineState.FAILED, failing.failing_since, failure)
    since, known = health.since, pipeline.judged_since
    if pipeline.judged == health.state and not health.is_exact and known:
        since = min(known, since or known)
    values = {
        "judged": str(health.state),
        "judged_since": since,
        "failure": health.failure.as_json() if health.failure else {},
    }
    changes = {k: v for k, v in values.items() if getattr(pipeline, k) != v}
    if changes:
        Pipeline.objects.filter(pk=pipeline.pk).update(**changes)
    known_failure = failure_from(pipeline.failure)
    if health.failure and health.failure.is_whole and not (known_failure and known_failure.is_whole):
        _announce_whole_failure(pipeline, health.failure, since)


def _announce_whole_failure(pipeline: Pipeline, failure: UpdateFailure, since: datetime | None) -> None:
    """Once for each row of failures; not of what a recovery cancelled, whose people know."""
    if failure.is_cancelled and Recovery.objects.filter(flow__pipeline=pipeline, active=True).exists():
        return
    moment = f"{since:%Y-%m-%d %H:%M:%S} UTC" if since else None
    announce(
        event="pipeline.failed",
        pipeline=pipeline,
        facts={"condition": failure.condition, "cause": say_failure(failure), "failing_since": moment},
        dedupe=f"{pipeline.pk}:{moment or failure.update_id}",
    )


def _folded(
    name: str, row: Flow | None, updates: Sequence[Mapping[str, Any]], readings: Sequence[folding.Reading]
) -> dict[str, Any]:
    known = {"failing_since": row.failing_since} if row else {}
    return folding.flow_fields(name, updates=updates, readings=readings, known=known)


def _announce_failure(flow_id: int) -> None:
    """Once for each row of failures: two polls that see it at the same time write one message."""
    flow = Flow.objects.select_related("pipeline__workspace").get(pk=flow_id)
    since = flow.failing_since
    moment = f"{since:%Y-%m-%d %H:%M:%S} UTC" if since else None
    name = f"{flow_id}:{moment or flow.failed_update}"
    announce(event="flow.failed", flow=flow, facts={"failing_since": moment}, dedupe=name)


def _drop_removed(pipeline: Pipeline, readings: Sequence[folding.Reading]) -> None:
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
    removed.filter(pk__in=used).update(
        state="unknown", failing_since=None, condition="", error=[], **behind.NOT_BEHIND
    )
    removed.exclude(pk__in=used).delete()
