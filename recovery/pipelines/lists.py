"""Reads lists of flows and pipelines: what needs attention, filters, counts, pages and versions, all asked in SQL."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from django.db.models import Case, Count, F, IntegerField, Q, QuerySet, Value, When
from django.db.models.fields.json import KT

from recovery.contracts.names import DoubtCode
from recovery.models import Listed, ListVersion, Recovery, Workspace
from recovery.numbers import whole
from recovery.people.roles import Actor
from recovery.people.visible import filter_visible, visible_environments
from recovery.pipelines import retention

PAGE: Final = 50
"""Rows of a page."""
LONGEST_UNSEEN: Final = timedelta(minutes=5)
"""A version is good for so long at most: should a change ever go uncounted, every open page sees it after that."""
URGENCY: Final = ("production", "staging", "development")


class QuickFilter(StrEnum):
    """The quick filters."""

    ATTENTION = "attention"
    RECOVERING = "recovering"
    AT_RISK = "at-risk"
    NOT_RUNNING = "not-running"
    ALL = "all"


class ListOrder(StrEnum):
    """What needs attention is first in each of them."""

    URGENT = "urgent"
    NAME = "name"
    SINCE = "since"
    COMMIT = "commit"
    UNTIL = "until"


@dataclass(frozen=True)
class Phrase:
    """A sentence that rows of a `state`, and of a `why` of being behind where that is given, show to people. `at_risk`:
    all rows whose input is at risk show it."""

    text: str
    state: str = ""
    why: str = ""
    at_risk: bool = False


@dataclass(frozen=True)
class Filters:
    """`words`: all of them are looked for; "" and () mean every row."""

    show: QuickFilter = QuickFilter.ATTENTION
    environment: str = ""
    condition: str = ""
    words: tuple[str, ...] = ()
    sort: ListOrder = ListOrder.URGENT
    phrases: tuple[Phrase, ...] = ()


@dataclass(frozen=True)
class ListCounts:
    """Rows that the actor sees. `by_show`: of those that fit the other filters; `urgent`: of the present quick filter,
    those that need attention. `in_production` of `attention`."""

    total: int
    attention: int
    in_production: int
    by_show: Mapping[QuickFilter, int]
    urgent: int


def listed_rows(by: Actor) -> QuerySet[Listed]:
    """Every row that `by` sees."""
    return Listed.objects.filter(filter_visible(by))


def needs_attention(now: datetime) -> Q:
    """Rows that someone has to look at: broken, with input at risk, with a table that is not proven or is proven to
    differ, or with a recovery that waits for a person."""
    stuck = Recovery.objects.filter(active=True, state="needs_attention").values("flow")
    doubted = Q(doubt__in=[code for code in DoubtCode if code.needs_attention])
    return Q(broken=True) | at_risk(now) | doubted | Q(flow__in=stuck)


def at_risk(now: datetime) -> Q:
    """Rows whose unread input is at risk, by the rule of `retention.standing`."""
    return Q(at_risk_from__lte=now)


def count_attention(by: Actor, now: datetime) -> int:
    """How many rows need attention."""
    return listed_rows(by).filter(needs_attention(now)).count()


def count_rows(by: Actor, filters: Filters, now: datetime) -> ListCounts:
    """All counts of the list's page, in one query."""
    fits, attention = fitting(filters, now), needs_attention(now)
    shows = {show: _shown(show, now) for show in QuickFilter}
    counts = listed_rows(by).aggregate(
        total=Count("pk"),
        attention=Count("pk", filter=attention),
        in_production=Count("pk", filter=attention & Q(environment="production")),
        urgent=Count("pk", filter=fits & shows[filters.show] & attention),
        **{show.name: Count("pk", filter=fits & shown) for show, shown in shows.items()},
    )
    by_show = {show: counts[show.name] for show in QuickFilter}
    return ListCounts(
        counts["total"], counts["attention"], counts["in_production"], by_show, counts["urgent"]
    )


def page_of_rows(by: Actor, filters: Filters, now: datetime, *, start: int) -> list[Listed]:
    """At most PAGE rows from the `start`-th on, those that need attention first; `urgent` is 1 on each of those.

    The flow is there as far as `retention.of` asks.
    """
    rows = listed_rows(by).filter(fitting(filters, now), _shown(filters.show, now))
    ordered = rows.annotate(urgent=_number(needs_attention(now))).order_by(
        "-urgent", *_order(filters.sort, now)
    )
    # the keys alone are put in order: a database that sorts whole rows carries them all through its sorter
    keys = dict(ordered.values_list("pk", "urgent")[start : start + PAGE])
    held = {row.pk: row for row in Listed.objects.filter(pk__in=keys).select_related("flow").only(*_SHOWN)}
    for pk, row in held.items():
        row.urgent = keys[pk]  # type: ignore[attr-defined]
    return [held[pk] for pk in keys if pk in held]


_SHOWN: Final = (
    *(f.name for f in Listed._meta.concrete_fields if f.name != "searched"),
    *(f"flow__{name}" for name in ("state", "streaming", "code_problem", "code_digest", "pipeline")),
)


def fitting(filters: Filters, now: datetime) -> Q:
    """Every filter but the quick one."""
    fits = Q()
    if filters.environment:
        fits &= Q(environment=filters.environment)
    if filters.condition:
        fits &= Q(condition=filters.condition)
    if filters.words:
        workspaces = {pk: name.lower() for pk, name in Workspace.objects.values_list("pk", "name")}
        recoveries = _texts_of_recoveries()
        for word in filters.words:
            fits &= _holds(word.lower(), filters.phrases, workspaces, recoveries, now)
    return fits


def _holds(
    word: str,
    phrases: Sequence[Phrase],
    workspaces: Mapping[int, str],
    recoveries: Mapping[int, str],
    now: datetime,
) -> Q:
    condition = Q(searched__contains=word)
    if named := [pk for pk, name in workspaces.items() if word in name]:
        condition |= Q(pipeline__workspace__in=named)
    if flows := [flow for flow, text in recoveries.items() if word in text]:
        condition |= Q(flow__in=flows)
    for phrase in phrases:
        if word not in phrase.text.lower():
            continue
        if phrase.at_risk:
            condition |= at_risk(now)
        else:
            condition |= Q(
                flow__isnull=False, state=phrase.state, **({"behind_why": phrase.why} if phrase.why else {})
            )
    return condition


def _texts_of_recoveries() -> dict[int, str]:
    """What a search looks in of each open recovery, in lower case, by its flow."""
    recoveries = Recovery.objects.filter(active=True).annotate(title=KT("diagnosis__title"))
    rows = recoveries.values_list("pk", "flow", "state", "reason", "title")
    return {
        flow: f"r-{pk} {reason if state == 'needs_attention' else ''} {title or ''}".lower()
        for pk, flow, state, reason, title in rows
    }


def _shown(show: QuickFilter, now: datetime) -> Q:
    if show is QuickFilter.ATTENTION:
        return needs_attention(now)
    if show is QuickFilter.RECOVERING:
        return Q(flow__in=Recovery.objects.filter(active=True).values("flow"))
    if show is QuickFilter.AT_RISK:
        return at_risk(now)
    return Q(state="stopped", flow__isnull=False) if show is QuickFilter.NOT_RUNNING else Q()


def _number(condition: Q) -> Case:
    return Case(When(condition, then=Value(1)), default=Value(0), output_field=IntegerField())


def _order(sort: ListOrder, now: datetime) -> tuple[Any, ...]:
    """Most urgent first: production before the rest, then what fails longest."""
    if sort is ListOrder.NAME:
        return ("short", "environment", "pk")
    if sort is ListOrder.COMMIT:
        return (F("committed_at").desc(nulls_last=True), "pk")
    if sort is ListOrder.SINCE:
        return (F("since").asc(nulls_last=True), "name", "pk")
    if sort is ListOrder.UNTIL:  # what is gone, what goes first, what nothing takes
        gone = _number(at_risk(now) & Q(readable_until=None))
        return (gone.desc(), F("readable_until").asc(nulls_last=True), "name", "pk")
    rank = Case(
        *(When(environment=name, then=Value(n)) for n, name in enumerate(URGENCY)),
        default=Value(len(URGENCY)),
        output_field=IntegerField(),
    )
    return (rank, F("since").asc(nulls_last=True), "name", "pk")


def list_environments(by: Actor) -> list[str]:
    """Environments of all rows that `by` sees, by name."""
    return list(listed_rows(by).order_by("environment").values_list("environment", flat=True).distinct())


def list_conditions(by: Actor) -> list[str]:
    """Classes of failure of all rows that `by` sees, by name."""
    named = listed_rows(by).exclude(condition="").order_by("condition")
    return list(named.values_list("condition", flat=True).distinct())


@dataclass(frozen=True)
class Version:
    """What a page of the list showed: `number` of changes until then, the environments in it, and until which second
    nothing on it changes by the clock alone."""

    number: int
    places: str
    until: int

    def __str__(self) -> str:
        return f"{self.number}-{self.places}-{self.until}"


def current_version(by: Actor, now: datetime) -> Version:
    """Read it before the rows: what changes in between is then asked for again. The rows' next deadline ends it."""
    number = _changes()
    turns = [_next(by, column, now) for column in ("at_risk_from", "readable_until")]
    end = min(t for t in (*turns, now + LONGEST_UNSEEN) if t is not None)
    return Version(number, _places(by), int(end.timestamp()))


def _next(by: Actor, column: str, now: datetime) -> datetime | None:
    later = listed_rows(by).filter(**{f"{column}__gt": now})
    return later.order_by(column).values_list(column, flat=True).first()


def is_current(version: str, by: Actor, now: datetime) -> bool:
    """Would a page still show what it showed as `version`? One short query."""
    number, _, rest = version.partition("-")
    places, _, until = rest.partition("-")
    changes, end = whole(number), whole(until)
    if changes is None or end is None:
        return False
    return now.timestamp() < end and places == _places(by) and changes == _changes()


def _places(by: Actor) -> str:
    return "".join(name[0] for name in visible_environments(by))


def _changes() -> int:
    return ListVersion.objects.filter(pk=1).values_list("number", flat=True).first() or 0


def unread_of(row: Listed, sources: Sequence[Any], now: datetime) -> retention.Retention | None:
    """How long a row's unread input can be read; None for a pipeline, and for a flow that does not stream."""
    return None if row.flow is None else retention.of(row.flow, sources, now)
