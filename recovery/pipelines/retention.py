"""How long a flow's unread input can still be read: one rule for pages, commands, metrics and messages.

A stream that goes on reads before retention takes anything, however short retention is. So a deadline that is near
counts only where a flow stands still: it failed or was stopped, or nothing was committed for as long as is left.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from django.conf import settings
from django.db.models import Prefetch, QuerySet

from recovery.models import Flow, FlowInput

GOING_ON = ("ok", "running")
FILES = "files"  # `sources.files.KIND`, without the readers of checkpoints that come with it


class RetentionState(StrEnum):
    """The worst comes first."""

    GONE = "gone"  # what follows the position can no longer be read
    DUE = "due"  # retention may take the first of it at any time
    SOON = "soon"  # within REPRISE_RETENTION_WARN_HOURS
    PASSED = "passed"  # files that are too old for it, of a stream that goes on without them
    UNKNOWN = "unknown"
    KEPT = "kept"  # there is a deadline, and it is far
    SAFE = "safe"  # nothing waits, or nothing takes it

    @property
    def at_risk(self) -> bool:
        return self in (RetentionState.GONE, RetentionState.DUE, RetentionState.SOON)


ORDER = list(RetentionState)


@dataclass(frozen=True)
class Retention:
    """The unread input of a flow: its worst source, by standing and then by deadline.

    `source` is None where no one knows which sources there are; `why` says then why not.
    """

    standing: RetentionState
    source: FlowInput | None
    why: str = ""

    @property
    def until(self) -> datetime | None:
        """When retention may take the first of it; None where it has already, or no one knows."""
        return None if self.standing is RetentionState.GONE or self.source is None else self.source.until

    def seconds(self, now: datetime) -> float | None:
        """What is left; 0 where it is over, None where there is no deadline."""
        if self.standing is RetentionState.GONE:
            return 0.0
        return None if self.until is None else max(0.0, (self.until - now).total_seconds())


def of(flow: Flow, sources: Iterable[FlowInput], now: datetime) -> Retention | None:
    """None for a flow that does not stream: it reads its input again.

    Not known where no one has learned yet which sources there are, and where the code was changed since and could not
    be studied: other sources may be there, so that what is known of the old ones promises nothing.
    """
    if not flow.streaming:
        return None
    retentions = [Retention(standing(row, flow.state, now), row) for row in sources]
    if flow.code_problem or not retentions:
        retentions.append(Retention(RetentionState.UNKNOWN, None, not_learned(flow)))
    return min(retentions, key=lambda r: (ORDER.index(r.standing), r.seconds(now) or 0.0), default=None)


def not_learned(flow: Flow) -> str:
    """Why it is not known where a flow reads from, one sentence for people."""
    if flow.code_problem:
        return f"Its code names its sources and could not be studied: {flow.code_problem}"
    if not settings.REPRISE_STUDY_SECONDS:
        return "Its code names its sources; only a recovery studies code here, and none has yet."
    return "Its code names its sources. It is studied once nothing runs."


def standing(row: FlowInput, state: str, now: datetime) -> RetentionState:
    """Of one source, by the last look that saw it. `state` is that of its flow."""
    if row.seen_at is None:
        return RetentionState.UNKNOWN
    if row.readable is False:
        return RetentionState.PASSED if row.kind == FILES and state in GOING_ON else RetentionState.GONE
    if row.until is None:
        return RetentionState.SAFE if row.readable else RetentionState.UNKNOWN
    left = row.until - now
    if left <= timedelta():
        return RetentionState.DUE
    still = state not in GOING_ON or (row.stands_since is not None and now - row.stands_since >= left)
    near = left < timedelta(hours=settings.REPRISE_RETENTION_WARN_HOURS)
    return RetentionState.SOON if near and still else RetentionState.KEPT


def at_risk_from(row: FlowInput, state: str) -> datetime | None:
    """From when on `standing` calls a source at risk, as long as neither it nor its flow moves; None: never."""
    if row.seen_at is None:
        return None
    if row.readable is False:
        return None if row.kind == FILES and state in GOING_ON else row.seen_at
    if row.until is None:
        return None
    near = row.until - timedelta(hours=settings.REPRISE_RETENTION_WARN_HOURS)
    if state not in GOING_ON:
        return min(row.until, near)
    if row.stands_since is None:
        return row.until
    still = row.stands_since + (row.until - row.stands_since) / 2
    return min(row.until, max(near, still))


def with_sources(flows: QuerySet[Flow]) -> QuerySet[Flow]:
    """Flows whose `sources` are read along, in one query for all of them, without what is encrypted."""
    return flows.prefetch_related(Prefetch("sources", FlowInput.objects.defer("reader", "table")))


def as_dict(flow: Flow, now: datetime) -> dict[str, Any] | None:
    """The unread input of a flow as commands print it; None for a flow that does not stream."""
    retained = of(flow, flow.sources.all(), now)
    if retained is None:
        return None
    left = retained.seconds(now)
    return {
        "standing": retained.standing.value,
        "until": retained.until.isoformat() if retained.until else None,
        "seconds_left": None if left is None else round(left),
        "problem": retained.why or None,
        "code_seen_at": flow.code_seen_at.isoformat() if flow.code_seen_at else None,
        "sources": [_source(row, flow, now) for row in flow.sources.all()],
    }


def _source(row: FlowInput, flow: Flow, now: datetime) -> dict[str, Any]:
    return {
        "index": row.index,
        "kind": row.kind,
        "place": row.place,
        "standing": standing(row, flow.state, now).value,
        "position": row.position,
        "stands_since": row.stands_since.isoformat() if row.stands_since else None,
        "readable": row.readable,
        "until": row.until.isoformat() if row.until else None,
        "unread": row.unread,
        "lost": row.lost,
        "says": row.why or None,
        "problem": row.problem or None,
        "seen_at": row.seen_at.isoformat() if row.seen_at else None,
    }
