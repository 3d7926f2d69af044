"""Looks, again and again, at what waits behind the position of each flow, and tells people when it is about to go.

A look reads: the checkpoint, and the system behind each source. What cannot be asked is kept as a sentence beside what
was seen last; nothing here raises, and nothing here writes down an option of a reader.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Min, Q
from django.utils import timezone

from recovery import reach
from recovery.audit import cleansing
from recovery.checkpoints import inspect_checkpoint
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.report import CheckpointReport, SourceProgress
from recovery.checkpoints.table_progress import reconcile_report
from recovery.contracts import codec
from recovery.errors import RepriseError
from recovery.models import Flow, FlowInput, Workspace
from recovery.notify.actions import announce_event
from recovery.pipelines import inputs, retention
from recovery.pipelines.events import when
from recovery.pipelines.retention import RetentionState
from recovery.sources import labels
from recovery.sources.base import Distance
from recovery.sources.live import unread
from recovery.sources.live.unread import Ids
from recovery.workflow.places import checkpoint_of

ROUNDS: Final = 10
"""Looks are spread: of a workspace's flows a tenth, every tenth of REPRISE_RETENTION_SECONDS."""
AT_ONCE: Final = 20  # flows of a round that nobody has looked at since their code was studied


def workspaces() -> list[int]:
    """Workspaces that have a flow whose sources are known."""
    noted = FlowInput.objects.filter(flow__pipeline__gone=False).values("flow__pipeline__workspace")
    return list(Workspace.objects.active().filter(pk__in=noted).order_by("pk").values_list("pk", flat=True))


def look_round(workspace_id: int) -> None:
    """Look at the flows of one round: those that were not looked at yet, and those that were longest ago."""
    before = timezone.now() - timedelta(seconds=settings.REPRISE_RETENTION_SECONDS)
    noted = Flow.objects.filter(
        pipeline__workspace=workspace_id, pipeline__gone=False, streaming=True, sources__isnull=False
    ).annotate(oldest=Min("sources__asked_at"), never=Count("sources", filter=Q(sources__asked_at=None)))
    share = -(-noted.count() // ROUNDS)
    new = noted.filter(never__gt=0).order_by("pk")
    old = noted.filter(never=0, oldest__lte=before).order_by("oldest", "pk")
    whole = [q.select_related("pipeline__workspace")[:most] for q, most in ((new, AT_ONCE), (old, share))]
    for flow in [flow for flows in whole for flow in flows]:
        look(flow)


@reach.of_flow
def look(flow: Flow) -> None:
    """Look at every source of a flow now, keep what was seen, and announce what is about to go."""
    rows = list(FlowInput.objects.filter(flow=flow).order_by("index"))
    now = timezone.now()
    known = {row.index for row in rows if retention.standing(row, flow.state, now) is RetentionState.GONE}
    seen = [(row, _seen(flow, row, told, now)) for row, told in _progress(flow, rows)]
    with transaction.atomic():
        for row, values in seen:  # not where the code was studied anew meanwhile
            FlowInput.objects.filter(pk=row.pk, noted_at=row.noted_at).update(**values)
        _tell(flow, known, now)


def _progress(flow: Flow, rows: Sequence[FlowInput]) -> list[tuple[FlowInput, SourceProgress | str]]:
    """Each row with where its source is, or with the sentence that says why no one knows."""
    progress: list[tuple[FlowInput, SourceProgress | str]] = []
    try:
        report = _report(flow, rows[0].table if rows else "")
        progress = [(row, _matching(row, report, len(rows))) for row in rows]
    except RepriseError as problem:
        progress = [(row, cleansing.cleanse_text(problem.sentence)) for row in rows]
    except Exception as bug:
        progress = [(row, _fault(bug)) for row in rows]
    return progress


def _report(flow: Flow, table: str) -> CheckpointReport:
    """With the table beside it, where that can be read: a batch that only the table has finished counts as read."""
    place = checkpoint_of(flow)
    if table:
        try:
            return reconcile_report(inspect_checkpoint(place, sink=table))
        except RepriseError:
            pass  # the position without it is at most one batch behind
    return inspect_checkpoint(place)


def _matching(row: FlowInput, report: CheckpointReport, noted: int) -> SourceProgress | str:
    if not report.sources:
        return "No batch has been committed, so it is not known what was read."
    if len(report.sources) != noted:
        return (
            f"The checkpoint has {len(report.sources)} sources, the code that was studied last has {noted}; a recovery "
            "studies it again."
        )
    progress = report.sources[row.index]
    if progress.kind == "unknown":
        return replace(progress, kind=row.kind)
    if row.kind not in ("unknown", progress.kind):
        return (
            f"Source {row.index} of the checkpoint is of kind {progress.kind}, in the code that was studied last it is "
            f"of kind {row.kind}; a recovery studies it again."
        )
    return progress


def _seen(flow: Flow, row: FlowInput, told: SourceProgress | str, now: datetime) -> dict[str, Any]:
    """The columns that a look at one source changes."""
    if isinstance(told, str):
        return {"asked_at": now, "problem": told}
    values: dict[str, Any] = {
        "asked_at": now,
        "problem": "",
        "kind": told.kind,
        **_stands(flow, row, told, now),
    }
    ids = Topics(row, told.offset_json)
    try:
        input_after = unread.count_unread(told, inputs.read_reader(row), noted=ids.noted)
    except RepriseError as problem:
        return {**values, "problem": cleansing.cleanse_text(problem.sentence)}
    except Malformed as problem:
        return {**values, "problem": f"The position of source {row.index} cannot be read: {problem.why}."}
    except Exception as bug:
        return {**values, "problem": _fault(bug)}
    return {
        **values,
        "seen_at": now,
        "topic_ids": ids.ids,
        "other_ids": ids.others,
        "readable": input_after.reach.readable,
        "why": cleansing.cleanse_text(input_after.reach.why),
        "until": _moment(input_after.reach.until_ms),
        "unread": _amounts(input_after.waits),
        "lost": _amounts(input_after.reach.lost or Distance()),
    }


def _stands(flow: Flow, row: FlowInput, told: SourceProgress, now: datetime) -> dict[str, Any]:
    """Position, and since when it is there: at first sight since the last batch that the poller saw."""
    since = row.stands_since
    if since is None:
        since = when((flow.last_progress or {}).get("timestamp")) or now
    elif told.offset_json != row.position:
        since = now
    label = labels.describe_progress(told)[:500]
    kept = (
        {} if told.offset_json == row.position else dict(inputs.NOT_SEEN)
    )  # it was said of another position
    return {**kept, "position": told.offset_json, "label": label, "stands_since": min(since, now)}


class Topics:
    """Ids of a source's topics: as they were first seen, and others that stand in their place since.

    A topic that was made again keeps the id that was noted, so that it is told from the one that was read. It takes
    the new one once the position in it has moved on while that was there already: somebody chose to read the new one.
    """

    def __init__(self, row: FlowInput, position: str | None) -> None:
        self.ids: dict[str, str] = dict(row.topic_ids)
        self.others: dict[str, str] = dict(row.other_ids)
        self._before, self._after = _by_topic(row.position), _by_topic(position)

    def noted(self, now: Ids) -> Ids:
        for topic, found in now.items():
            if self.ids.setdefault(topic, found) == found:
                self.others.pop(topic, None)
            elif self.others.get(topic) == found and self._before.get(topic) != self._after.get(topic):
                self.ids[topic] = self.others.pop(topic)
            else:
                self.others[topic] = found
        return self.ids


def _by_topic(position: str | None) -> Mapping[str, Any]:
    """The offsets of each topic; nothing for a position of another kind."""
    try:
        offsets = json.loads(position or "{}")
    except ValueError:
        return {}
    return offsets if isinstance(offsets, dict) else {}


def _tell(flow: Flow, known: Collection[int], now: datetime) -> None:
    """At most once for each deadline; of what is gone when it was not gone at the look before (`known`: sources)."""
    rows = FlowInput.objects.filter(flow=flow).defer("reader")
    retained = retention.of(flow, rows, now)
    if retained is None or not retained.standing.at_risk:
        return
    row, until = retained.source, retained.until
    assert row is not None, "what is at risk is a source"
    if retained.standing is RetentionState.GONE and row.index in known:
        return
    deadline = f"{until:%Y-%m-%d %H:%M} UTC" if until else None
    which = until.isoformat() if until else "gone:" + sha256((row.position or "").encode()).hexdigest()[:16]
    says = f"can be read until {deadline}" if deadline else "can no longer be read"
    facts = {"unread": says, "source": row.place, "position": row.label, "reason": row.why}
    announce_event(event="flow.retention", flow=flow, facts=facts, dedupe=f"{flow.pk}:{row.index}:{which}")


def _amounts(distance: Distance) -> dict[str, Any]:
    """{rows, files, bytes: {value, exact, why}} as far as they are known."""
    amounts = {"rows": distance.rows, "files": distance.files, "bytes": distance.bytes}
    return {name: codec.to_json(amount) for name, amount in amounts.items() if amount is not None}


def _moment(ms: int | None) -> datetime | None:
    """None too for a time beyond the calendar: a retention of that length takes nothing."""
    try:
        return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _fault(bug: Exception) -> str:
    return inputs.fault(bug, "looked at")
