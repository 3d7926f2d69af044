"""The inventory's rows: what is wrong first, how long, the next act. Pure over rows already read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from console.presenters import below, pipelines, status, unread, words
from recovery.models import Flow, Recovery
from recovery.pipelines import retention
from recovery.pipelines.behind import NOT_OK, since_of
from recovery.pipelines.downstream import State
from recovery.pipelines.failures import say_causes
from recovery.workflow import verdicts

SHOWS: Final = (
    ("attention", "Needs attention"),
    ("recovering", "Recovering"),
    ("at-risk", "Input at risk"),
    ("not-running", "Not running"),
    ("all", "All"),
)
SORTS: Final = ("urgent", "name", "since", "commit", "until")


@dataclass(frozen=True)
class Wanted:
    """What the address asks for. `words` are all looked for, in names, errors and recoveries."""

    show: str = "attention"
    env: str = ""
    condition: str = ""
    q: str = ""
    sort: str = "urgent"

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "Wanted":
        """From a query string; a value that is not known counts as not given."""
        show, sort = query.get("show", ""), query.get("sort", "")
        return cls(
            show=show if show in dict(SHOWS) else "attention",
            env=query.get("env", ""),
            condition=query.get("class", ""),
            q=query.get("q", "").strip()[:200],
            sort=sort if sort in SORTS else "urgent",
        )

    def query(self, **changes: str) -> dict[str, str]:
        """The query string's values, defaults left out."""
        full = {"show": self.show, "env": self.env, "class": self.condition, "q": self.q, "sort": self.sort}
        full |= changes
        defaults = {"show": "attention", "sort": "urgent"}
        return {k: v for k, v in full.items() if v and v != defaults.get(k)}


@dataclass(frozen=True)
class Row:
    flow: Flow
    recovery: Recovery | None
    badge: status.Badge
    since: str
    wrong: str
    condition: str
    commit: str
    commit_age: str
    waiting: str  # what the open recovery counted; "" where nobody did
    dots: status.Dots
    kind: str  # "", or what it is when it is no streaming flow
    readable: unread.Cell | None = None  # how long unread input can be read

    @property
    def needs_attention(self) -> bool:
        stuck = self.recovery is not None and self.recovery.state == "needs_attention"
        return stuck or self.at_risk or self.flow.state in NOT_OK

    @property
    def at_risk(self) -> bool:
        return self.readable is not None and self.readable.retention.standing.at_risk


def rows(flows: Iterable[Flow], recoveries: Mapping[int, Recovery], now: datetime) -> list[Row]:
    """One row a flow, whose sources were read along; `recoveries` are the open ones by flow."""
    return [row(flow, recoveries.get(flow.pk), now) for flow in flows]


def row(flow: Flow, recovery: Recovery | None, now: datetime) -> Row:
    found = retention.of(flow, flow.sources.all(), now)
    return Row(
        flow=flow,
        recovery=recovery,
        badge=_badge(flow, recovery),
        since=_since(flow, now),
        wrong=what_is_wrong(flow, recovery) or _at_risk(found, now),
        condition=_condition(flow),
        commit="" if flow.last_batch is None else f"batch {flow.last_batch:,}",
        commit_age=_age(flow, now),
        waiting=_waiting(recovery, now),
        dots=status.dots(flow.history),
        kind="" if flow.streaming else "materialized view",
        readable=unread.cell(found),
    )


def _at_risk(found: retention.Retention | None, now: datetime) -> str:
    return unread.sentence(found, now) if found and found.standing.at_risk else ""


def _badge(flow: Flow, recovery: Recovery | None) -> status.Badge:
    if recovery is not None and recovery.state in ("running", "verifying"):
        return status.Badge("running", "Recovering", spin=True)
    return status.badge(status.FLOW, flow.state)


def _since(flow: Flow, now: datetime) -> str:
    since = since_of(flow)
    if since is None:
        return ""
    gone = words.ago(since, now).removesuffix(" ago")
    return f"since {words.clock(since, now, zone=False)}, {gone}"


def _condition(flow: Flow) -> str:
    """The code of what is wrong."""
    if flow.state == "failed":
        return flow.condition
    return f"{flow.state}_{flow.behind_why}".upper() if flow.state in tuple(State) else ""


def _age(flow: Flow, now: datetime) -> str:
    at = words.moment((flow.last_progress or {}).get("timestamp"))
    return "" if at is None else f"{words.ago(at, now).removesuffix(' ago')} old"


def _waiting(recovery: Recovery | None, now: datetime) -> str:
    if recovery is None or recovery.facts.get("status") != "ready":
        return ""
    elsewhere, at = waiting_elsewhere(recovery.facts), recovery.facts.get("at")
    rows = recovery.facts.get("waiting_rows") if elsewhere is None else elsewhere
    return f"{words.count(rows, 'row')} waited at {words.clock(at, now)}"


def waiting_elsewhere(gathered: Mapping[str, Any]) -> int | None:
    """Rows that the sources say wait, where files are not all that is read; None for files alone, or nobody knows."""
    option: Mapping[str, Any] = next(iter(gathered.get("options") or []), {})
    places = option.get("positions") or []
    rows = [(p.get("next") or {}).get("rows") for p in places]
    told = [row for row in rows if row is not None]
    only_files = all(p.get("kind", "files") == "files" for p in places)
    return None if only_files or len(told) < len(rows) else sum(told)


def what_is_wrong(flow: Flow, recovery: Recovery | None) -> str:
    """The diagnosis' sentence where there is one, else the first sentence of the innermost error."""
    if recovery is not None and recovery.state == "needs_attention":
        return recovery.reason or "The recovery needs a person."
    if flow.state == "unknown":
        return "How it is, is not known."
    if says := below.wrong(flow):
        return says
    if flow.state != "failed":
        return ""
    return verdicts.title_of(flow, recovery) or first_sentence(flow.error)


def first_sentence(error: list[dict[str, Any]]) -> str:
    """Of people's code exception, file and line; else the innermost cause's first sentence without its class."""
    says = say_causes(error)
    return says if says.endswith("…") else f"{says}."


def matches(row: Row, wanted: Wanted) -> bool:
    """Every filter but `show`, so that the counts of the quick filters stay true."""
    flow = row.flow
    if wanted.env and flow.pipeline.environment != wanted.env:
        return False
    if wanted.condition and flow.condition != wanted.condition:
        return False
    said = " ".join(str(e.get("message", "")) for e in flow.error)
    label = row.recovery.label if row.recovery else ""
    pipeline = f"{flow.pipeline.name} {flow.pipeline.workspace.name}"
    text = f"{flow.name} {flow.dataset} {pipeline} {row.wrong} {flow.condition} {label} {said}"
    return all(word in text.lower() for word in wanted.q.lower().split())


def shown_in(row: Row, show: str) -> bool:
    return {
        "attention": row.needs_attention,
        "recovering": row.recovery is not None,
        "at-risk": row.at_risk,
        "not-running": row.flow.state == "stopped",
        "all": True,
    }[show]


ENVIRONMENTS: Final = {"production": 0, "staging": 1, "development": 2}


def order(found: list[Row], sort: str) -> list[Row]:
    """Most urgent first: production before the rest, then what fails longest."""
    if sort == "name":
        return sorted(found, key=lambda r: (r.flow.short, r.flow.pipeline.environment))
    if sort == "commit":
        return sorted(
            found, key=lambda r: str((r.flow.last_progress or {}).get("timestamp", "")), reverse=True
        )
    if sort == "until":
        return sorted(found, key=_deadline)
    stamp = [
        (since.timestamp() if (since := r.flow.failing_since or since_of(r.flow)) else 9e12, r) for r in found
    ]
    if sort == "since":
        return [r for _, r in sorted(stamp, key=lambda p: p[0])]
    return [
        r
        for _, r in sorted(
            stamp, key=lambda p: (ENVIRONMENTS.get(p[1].flow.pipeline.environment, 9), p[0], p[1].flow.name)
        )
    ]


def _deadline(row: Row) -> float:
    """What is gone comes first, then what goes first, then what nothing takes."""
    if row.readable is None or not (row.at_risk or row.readable.until):
        return float("inf")
    return row.readable.until.timestamp() if row.readable.until else 0.0


@dataclass(frozen=True)
class Group:
    title: str
    rows: list[Row]
    #: which group this is, for `data-code` of the page
    code: str
    alone: list[pipelines.PipelineRow] = field(default_factory=list)

    @property
    def size(self) -> int:
        return len(self.rows) + len(self.alone)


@dataclass(frozen=True)
class Inventory:
    """The whole list as a page shows it. `counts` belong to the quick filters."""

    groups: list[Group]
    counts: dict[str, int]
    total: int
    attention: int
    in_production: int

    @property
    def empty(self) -> bool:
        return not any(g.size for g in self.groups)


def arrange(every: list[Row], wanted: Wanted, alone: list[pipelines.PipelineRow] | None = None) -> Inventory:
    """Filter, count, order and group. `alone`: pipelines for which no flow speaks."""
    lone = alone or []
    fitting = [r for r in every if matches(r, wanted)]
    fits = [
        r for r in lone if pipelines.matches(r, env=wanted.env, condition=wanted.condition, said=wanted.q)
    ]
    failing = pipelines.in_order([r for r in fits if r.needs_attention])
    calm = pipelines.in_order([r for r in fits if not r.needs_attention])
    shown = order([r for r in fitting if shown_in(r, wanted.show)], wanted.sort)
    urgent = [r for r in shown if r.needs_attention]
    rest = [r for r in shown if not r.needs_attention]
    first = failing if wanted.show in ("attention", "all") else []
    last = calm if wanted.show == "all" else []
    urgent_size, size = len(urgent) + len(first), len(rest) + len(last)
    groups = [
        Group(f"Needs attention ({urgent_size}), most urgent first", urgent, "attention", first),
        Group(f"Everything else ({size})" if urgent_size else f"Flows ({size})", rest, "rest", last),
    ]
    attention = [r for r in every if r.needs_attention]
    return Inventory(
        groups=[g for g in groups if g.size],
        counts={
            show: sum(shown_in(r, show) for r in fitting)
            + {"attention": len(failing), "all": len(fits)}.get(show, 0)
            for show, _ in SHOWS
        },
        total=len(every) + len(lone),
        attention=len(attention) + sum(r.needs_attention for r in lone),
        in_production=sum(r.flow.pipeline.environment == "production" for r in attention)
        + sum(r.needs_attention and r.pipeline.environment == "production" for r in lone),
    )
