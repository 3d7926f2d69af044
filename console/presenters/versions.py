"""A short fingerprint of what a polled part shows: the same fingerprint, nothing to send. Pure."""

import hashlib
from collections.abc import Iterable
from datetime import datetime

from console.presenters.unread import Panel
from recovery.models import Recovery, Step


def list_digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def clock_tick(now: datetime, seconds: int) -> int:
    """Changes every so many seconds, so that relative times do not grow old."""
    return int(now.timestamp()) // seconds


def of_unread(panel: Panel, now: datetime) -> str:
    """Of a flow's unread input: what was seen of each source, and the clock by quarter minutes."""
    shown = [(s.row.asked_at, s.row.noted_at, s.badge.word) for s in panel.sources]
    return list_digest([*shown, panel.why, panel.code_seen_at], clock_tick(now, 15))


def of_recovery(recovery: Recovery, steps: Iterable[Step], now: datetime, *, seconds: int = 5) -> str:
    """Of a recovery's page: its row, its steps with their logs, and a slow clock."""
    shown = [(s.pk, s.state, s.attempt, len(s.log), len(s.evidence), s.problem) for s in steps]
    row = (
        recovery.state,
        recovery.version,
        recovery.owner,
        recovery.choices,
        recovery.gathering.status,
        recovery.gathering.at,
    )
    return list_digest(row, shown, bool(recovery.measured), clock_tick(now, seconds))
