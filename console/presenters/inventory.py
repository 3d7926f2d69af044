"""The inventory's rows: what is wrong first, how long, the next act. Pure over rows already read."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from console.presenters import below, pipelines, status, unread
from console.presenters.doubting import doubt_badge
from recovery.contracts.diagnosis import ChainedError
from recovery.contracts.positions import PositionChange
from recovery.models import FlowInput, Listed
from recovery.pipelines.downstream import BehindReason, BehindState
from recovery.pipelines.failures import PipelineFault, say_causes
from recovery.pipelines.lists import PAGE, Filters, ListCounts, ListOrder, Phrase, QuickFilter, unread_of
from recovery.workflow.doubting import Doubt

SHOWS: Final = (
    (QuickFilter.ATTENTION, "Needs attention"),
    (QuickFilter.RECOVERING, "Recovering"),
    (QuickFilter.AT_RISK, "Input at risk"),
    (QuickFilter.NOT_RUNNING, "Not running"),
    (QuickFilter.ALL, "All"),
)
UNKNOWN: Final = "How it is, is not known."
MOST_WORDS: Final = 8
_MOST_PAGES: Final = 10_000


@dataclass(frozen=True)
class FlowFilter:
    """What the address asks for. `q`: words that are all looked for, in names, errors and recoveries; `page` from 1."""

    show: str = "attention"
    env: str = ""
    condition: str = ""
    q: str = ""
    sort: str = "urgent"
    page: int = 1

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> "FlowFilter":
        """From a query string; a value that is not known counts as not given."""
        show, sort, page = query.get("show", ""), query.get("sort", ""), query.get("page", "")
        return cls(
            show=show if show in tuple(QuickFilter) else "attention",
            env=query.get("env", ""),
            condition=query.get("class", ""),
            q=query.get("q", "").strip()[:200],
            sort=sort if sort in tuple(ListOrder) else "urgent",
            page=min(max(int(page), 1), _MOST_PAGES) if page.isdecimal() and len(page) < 9 else 1,
        )

    def query(self, **changes: object) -> dict[str, str]:
        """The query string's values, defaults left out; another filter begins at the first page."""
        page: dict[str, object] = {"page": self.page} if not changes or "page" in changes else {}
        full: dict[str, object] = {
            "show": self.show,
            "env": self.env,
            "class": self.condition,
            "q": self.q,
            "sort": self.sort,
        }
        full |= page | changes
        defaults = {"show": "attention", "sort": "urgent", "page": 1}
        return {k: str(v) for k, v in full.items() if v and v != defaults.get(k)}

    @property
    def filters(self) -> Filters:
        """For the database."""
        return Filters(
            QuickFilter(self.show),
            self.env,
            self.condition,
            tuple(self.q.split()[:MOST_WORDS]),
            ListOrder(self.sort),
            PHRASES,
        )


PHRASES: Final = (
    Phrase(UNKNOWN, state="unknown"),
    *(
        Phrase(below.say_behind(state, why), state=state.value, why=why.value)
        for state in BehindState
        for why in below.WHY
    ),
    Phrase(unread.AT_RISK_WORDS, at_risk=True),
)


@dataclass(frozen=True)
class OpenRecovery:
    """The recovery of a row: its state, why it waits for a person, its diagnosis in a sentence, and what was counted
    (`counting`: how far that is; `positions`: of the first option)."""

    pk: int
    state: str
    reason: str
    title: str
    counting: str
    counted_at: str
    waiting_rows: int | None
    positions: Sequence[PositionChange] = ()

    @property
    def label(self) -> str:
        return f"R-{self.pk}"


@dataclass(frozen=True)
class WaitingRows:
    """How many rows waited for a recovery, None for not known, and when they were counted."""

    rows: int | None
    at: str


@dataclass(frozen=True)
class FlowRow:
    """`since`: of its state, None where that is as it should be; `waits`: rows that the open recovery counted, None
    where no one did."""

    listed: Listed
    recovery: OpenRecovery | None
    badge: status.Badge
    since: datetime | None
    wrong: str
    condition: str
    waits: WaitingRows | None
    dots: status.Dots | None
    #: "", or what it is when it is no streaming flow
    kind: str
    #: how long unread input can be read
    readable: unread.UnreadCell | None = None
    #: what contradicts a flow that is ok or runs
    doubt: Doubt | None = None

    @property
    def is_pipeline(self) -> bool:
        return self.listed.flow_id is None

    @property
    def needs_attention(self) -> bool:
        return bool(self.listed.urgent)  # type: ignore[attr-defined]  # of `lists.page_of_rows`


def flow_row(
    listed: Listed,
    sources: Sequence[FlowInput],
    recovery: OpenRecovery | None,
    now: datetime,
    doubt: Doubt | None = None,
) -> FlowRow:
    """One row as the page shows it. `doubt`: what contradicts a flow that is ok or runs."""
    if listed.flow_id is None:
        return _pipeline_row(listed)
    unread_input = unread_of(listed, sources, now)
    risky = unread_input is not None and unread_input.standing.at_risk
    at_risk = unread.describe_risk(unread_input, now) if unread_input and risky else ""
    wrong = _say_wrong(listed, recovery)
    return FlowRow(
        listed=listed,
        recovery=recovery,
        badge=_flow_badge(listed, recovery, doubt),
        since=listed.since if listed.state == "failed" or listed.state in tuple(BehindState) else None,
        wrong=wrong or at_risk or (doubt.title if doubt else ""),
        condition=_condition_of(listed),
        waits=_waiting_rows(recovery),
        dots=status.update_dots(listed.history.split(",") if listed.history else []),
        kind="" if listed.streaming else "materialized view",
        readable=unread.unread_cell(unread_input),
        doubt=doubt,
    )


def _pipeline_row(listed: Listed) -> FlowRow:
    cancelled = listed.state == "failed" and listed.condition == PipelineFault.CANCELLED
    return FlowRow(
        listed=listed,
        recovery=None,
        badge=pipelines.CANCELLED if cancelled else status.state_badge(status.FLOW, listed.state),
        since=listed.since if listed.broken else None,
        wrong=listed.says,
        condition=listed.condition,
        waits=None,
        dots=None,
        kind="pipeline" if listed.has_flows else "pipeline, no flow yet",
    )


def _flow_badge(listed: Listed, recovery: OpenRecovery | None, doubt: Doubt | None) -> status.Badge:
    if recovery is not None and recovery.state in ("running", "verifying"):
        return status.Badge("running", "Recovering", spin=True)
    if doubt is not None:
        return doubt_badge(doubt)
    return status.state_badge(status.FLOW, listed.state)


def _condition_of(listed: Listed) -> str:
    """The code of what is wrong."""
    if listed.state in ("failed", "unknown"):
        return listed.condition
    return f"{listed.state}_{listed.behind_why}".upper() if listed.state in tuple(BehindState) else ""


def _waiting_rows(recovery: OpenRecovery | None) -> WaitingRows | None:
    if recovery is None or recovery.counting != "ready":
        return None
    elsewhere = waiting_elsewhere(recovery.positions)
    return WaitingRows(recovery.waiting_rows if elsewhere is None else elsewhere, recovery.counted_at)


def waiting_elsewhere(places: Sequence[PositionChange]) -> int | None:
    """Rows that the sources say wait, where files are not all that is read; None for files alone, or if not known."""
    rows = [place.next.rows for place in places]
    known = [row for row in rows if row is not None]
    only_files = all(place.is_files for place in places)
    return None if only_files or len(known) < len(rows) else sum(known)


def _say_wrong(listed: Listed, recovery: OpenRecovery | None) -> str:
    """What is wrong with a flow: its recovery's reason or diagnosis, else its own; "" where nothing is."""
    if recovery is not None and recovery.state == "needs_attention":
        return recovery.reason or "The recovery needs a person."
    if listed.state == "unknown":
        return listed.says or UNKNOWN
    if listed.behind_why and listed.state in tuple(BehindState):
        return below.say_behind(BehindState(listed.state), BehindReason(listed.behind_why))
    if listed.state != "failed":
        return ""
    return (recovery.title if recovery else "") or listed.says


def first_sentence(causes: Sequence[ChainedError]) -> str:
    """Of people's code exception, file and line; else the innermost cause's first sentence without its class."""
    says = say_causes(causes)
    return says if says.endswith("…") else f"{says}."


@dataclass(frozen=True)
class RowGroup:
    """Rows under one heading. `code`: which group it is, for `data-code`; `size`: how many there are on all pages."""

    title: str
    rows: list[FlowRow]
    code: str
    size: int


@dataclass(frozen=True)
class Pager:
    """Where a page is: its `first` and `last` row of `total`, counted from 1, and the numbers of other pages, None
    where there is none."""

    first: int
    last: int
    total: int
    previous: int | None
    next: int | None
    end: int | None


@dataclass(frozen=True)
class Inventory:
    """One page of the list. `counts` belong to the quick filters."""

    groups: list[RowGroup]
    counts: Mapping[QuickFilter, int]
    total: int
    attention: int
    in_production: int
    pager: Pager | None

    @property
    def empty(self) -> bool:
        return not self.groups


def arrange_groups(rows: Iterable[FlowRow], counts: ListCounts, wanted: FlowFilter) -> Inventory:
    """Group the rows of one page. `counts` are of all pages."""
    on_page, shown = list(rows), counts.by_show[QuickFilter(wanted.show)]
    urgent = [r for r in on_page if r.needs_attention]
    rest = [r for r in on_page if not r.needs_attention]
    others = shown - counts.urgent
    title = f"Everything else ({others:,})" if counts.urgent else f"Flows ({others:,})"
    groups = [
        RowGroup(
            f"Needs attention ({counts.urgent:,}), most urgent first", urgent, "attention", counts.urgent
        ),
        RowGroup(title, rest, "rest", others),
    ]
    return Inventory(
        groups=[g for g in groups if g.rows],
        counts=counts.by_show,
        total=counts.total,
        attention=counts.attention,
        in_production=counts.in_production,
        pager=_make_pager(wanted.page, len(on_page), shown),
    )


def last_page(counts: ListCounts, wanted: FlowFilter) -> FlowFilter:
    """What was wanted, at the last page where the list has become shorter than that."""
    pages = max(-(-counts.by_show[QuickFilter(wanted.show)] // PAGE), 1)
    return replace(wanted, page=min(wanted.page, pages))


def _make_pager(page: int, rows: int, total: int) -> Pager | None:
    if total <= PAGE:
        return None
    first, pages = (page - 1) * PAGE + 1, -(-total // PAGE)
    return Pager(
        first=first,
        last=first + rows - 1,
        total=total,
        previous=page - 1 if page > 1 else None,
        next=page + 1 if page < pages else None,
        end=pages if page < pages else None,
    )
