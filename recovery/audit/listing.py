"""Which entries someone asked for, newest first, a page at a time: the list page, its exports, the commands.

Every page is found by its place in the log (the entry before or after it), so a page deep in a million entries costs
as much as the first. A search for text reads a limited stretch of the log and says how far it came.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Final

from django.db.models import Q, QuerySet
from django.utils.dateparse import parse_date, parse_datetime

from recovery.audit.tags import ACTIONS, OUTCOMES
from recovery.models import AuditEntry
from recovery.people import visible
from recovery.people.roles import Actor

SEARCHED: Final = 20_000
"""So many entries a search for text reads before it asks whether to go on."""

SLACK: Final = 5_000
"""Entries around a time's place in the log that are looked at too, for clocks that were set back."""

FIRST: Final = datetime.min.replace(tzinfo=UTC)
LAST: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class EntryFilter:
    """The filters, as they are in an address. `who` acted, or someone acted on their behalf."""

    recovery: str = ""
    who: str = ""
    outcome: str = ""
    act: str = ""
    env: str = ""
    since: str = ""
    until: str = ""
    q: str = ""

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> "EntryFilter":
        """From an address; what is no filter, or no value of one, is left out."""
        recovery = query.get("recovery", "").strip().upper()[:20]
        return cls(
            recovery=f"R-{recovery}" if recovery.isdecimal() else recovery,
            who=query.get("who", "").strip()[:150],
            outcome=query.get("outcome", "") if query.get("outcome") in OUTCOMES else "",
            act=query.get("act", "") if query.get("act") in ACTIONS else "",
            env=query.get("env", "").strip()[:20],
            since=query.get("from", "").strip()[:25],
            until=query.get("to", "").strip()[:25],
            q=query.get("q", "").strip()[:200],
        )

    def query(self) -> dict[str, str]:
        """Back into an address: only what is set."""
        names = {"since": "from", "until": "to"}
        values = {names.get(f.name, f.name): getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in values.items() if value}


@dataclass(frozen=True)
class EntryPage:
    """One page. `before` and `after`: the place from which the next page of older or newer entries is asked, or 0.

    `searched`: the lowest entry that a search for text has read, where there is more to read; else 0.
    """

    entries: list[AuditEntry]
    before: int = 0
    after: int = 0
    searched: int = 0


def matching_entries(wanted: EntryFilter, by: Actor) -> list[QuerySet[AuditEntry]]:
    """The entries that `by` sees, as sets whose union they are: a person acts, or a task does on their behalf; and one
    an environment where few are seen. Each set is read along an index of its own, and no two hold the same entry.
    """
    sets = _restrict_to_visible(_filter_entries(wanted), wanted, by)
    if not wanted.who:
        return sets
    return [
        part
        for s in sets
        for part in (s.filter(actor=wanted.who), s.filter(behalf=wanted.who).exclude(actor=wanted.who))
    ]


def _filter_entries(wanted: EntryFilter) -> QuerySet[AuditEntry]:
    """By every filter but who."""
    entries = AuditEntry.objects.all()
    given = {
        "recovery": wanted.recovery,
        "outcome": wanted.outcome,
        "action": wanted.act,
        "environment": wanted.env,
    }
    entries = entries.filter(**{name: value for name, value in given.items() if value})
    entries = _in_period(entries, parse_moment(wanted.since), _parse_end(wanted.until))
    if wanted.q:
        text = Q(says__icontains=wanted.q) | Q(target__icontains=wanted.q) | Q(reason__icontains=wanted.q)
        entries = entries.filter(text | Q(actor__icontains=wanted.q) | Q(request_id=wanted.q))
    return entries


def _restrict_to_visible(
    entries: QuerySet[AuditEntry], wanted: EntryFilter, by: Actor
) -> list[QuerySet[AuditEntry]]:
    seen = visible.visible_environments(by)
    if wanted.env or "production" in seen:  # where production is seen, words that no one described are, too
        return [entries.filter(visible.filter_entries(by))]
    return [entries.filter(environment=name) for name in (*seen, "")]


def page_of_entries(
    wanted: EntryFilter, *, by: Actor, before: int = 0, after: int = 0, size: int = 50
) -> EntryPage:
    """Newest first: those below `before`, or the ones just above `after`, else the newest."""
    sets = matching_entries(wanted, by)
    floor = 0
    if wanted.q and not wanted.recovery:
        top = before or (_newest_seq() + 1)
        floor = max(0, top - 1 - SEARCHED) if not after else 0
        if after:
            sets = [s.filter(seq__lte=after + SEARCHED) for s in sets]
        sets = [s.filter(seq__gt=floor) for s in sets]
    if after and not before:
        rows = _merge_rows([s.filter(seq__gt=after).order_by("seq") for s in sets], size + 1)
        more, rows = len(rows) > size, rows[:size][::-1]
        return EntryPage(rows, rows[-1].seq if rows else after + 1, rows[0].seq if more else 0)
    sets = [s.filter(seq__lt=before) for s in sets] if before else sets
    rows = _merge_rows([s.order_by("-seq") for s in sets], size + 1)
    more, rows = len(rows) > size, rows[:size]
    newer = (rows[0].seq if rows else before - 1) if before else 0
    return EntryPage(rows, rows[-1].seq if more else 0, newer, floor + 1 if floor and not more else 0)


def _merge_rows(sets: list[QuerySet[AuditEntry]], most: int) -> list[AuditEntry]:
    rows = [row for entries in sets for row in entries.defer("before", "after")[:most]]
    if len(sets) > 1:
        rows.sort(key=lambda e: e.seq, reverse=sets[0].query.order_by == ("-seq",))
    return rows[:most]


def stream_entries(wanted: EntryFilter, *, by: Actor, last: int) -> QuerySet[AuditEntry]:
    """Everything that fits and that `by` sees, oldest first, up to entry `last`: for exports."""
    entries = _filter_entries(wanted).filter(visible.filter_entries(by), seq__lte=last)
    if wanted.who:
        entries = entries.filter(Q(actor=wanted.who) | Q(behalf=wanted.who))
    return entries.order_by("seq")


def _newest_seq() -> int:
    return AuditEntry.objects.order_by("-seq").values_list("seq", flat=True).first() or 0


def _in_period(
    entries: QuerySet[AuditEntry], since: datetime | None, until: datetime | None
) -> QuerySet[AuditEntry]:
    """Times and, so that the log is not read from its end, the stretch of the log in which they lie."""
    by_time = AuditEntry.objects.order_by("at", "seq").values_list("seq", flat=True)
    if since:
        first = by_time.filter(at__gte=since).first()
        entries = entries.filter(at__gte=since, seq__gte=(first or 0) - SLACK)
    if until:
        last = by_time.filter(at__lt=until).last()
        entries = entries.filter(at__lt=until, seq__lte=(last or 0) + SLACK)
    return entries


def parse_moment(text: str) -> datetime | None:
    """A day (its beginning) or a time, UTC unless it names its zone; None for nothing or nonsense."""
    try:
        at = parse_datetime(text)
        day = parse_date(text) if at is None else None
    except ValueError:
        return None
    if at is None and day is not None:
        at = datetime(day.year, day.month, day.day)
    return _to_utc(at.replace(tzinfo=at.tzinfo or UTC)) if at else None


def _parse_end(text: str) -> datetime | None:
    """A day is meant whole: up to the beginning of the next."""
    at = parse_moment(text)
    if at is None or len(text) > 10:
        return at
    return at + timedelta(days=1) if at < LAST - timedelta(days=1) else LAST


def _to_utc(at: datetime) -> datetime:
    """In UTC; what has no date there is the first or last moment that has one, so that the period stays the same."""
    try:
        return at.astimezone(UTC)
    except OverflowError:
        return FIRST if at.year == 1 else LAST
