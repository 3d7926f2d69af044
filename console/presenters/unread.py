"""Unread input: what waits behind each source's position, and how long it can still be read. Pure over rows read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from console.presenters import words
from console.presenters.status import Badge
from recovery.contracts import codec
from recovery.contracts.amounts import Amount
from recovery.models import Flow, FlowInput
from recovery.pipelines import retention
from recovery.pipelines.retention import Retention, RetentionState
from recovery.workflow.waiting import WaitingFiles

BADGES: Final = {
    RetentionState.GONE: Badge("failed", "Not readable"),
    RetentionState.DUE: Badge("failed", "May go any time"),
    RetentionState.SOON: Badge("attention", "Not for long"),
    RetentionState.PASSED: Badge("attention", "Passed over"),
    RetentionState.UNKNOWN: Badge("unknown", "Not known"),
    RetentionState.KEPT: Badge("ok", "Readable"),
    RetentionState.SAFE: Badge("ok", "Readable"),
}
KINDS: Final = {"files": "files", "kafka": "Kafka", "delta": "Delta", "iceberg": "Iceberg"}
NOUNS: Final = {"rows": "row", "files": "file"}
NOT_ASKED: Final = "It was not read yet."
AT_RISK_WORDS: Final = (
    "Unread input of can no longer be read until Retention may take unread input at any time since"
)
"""The words of `sentence`, whatever the place and the time are."""


@dataclass(frozen=True)
class WaitingText:
    """`at most 120 rows`, and why it is no exact number."""

    text: str
    why: str = ""


@dataclass(frozen=True)
class UnreadSource:
    """One line of the panel. `gone`: how much can no longer be read, "" where that is not known or nothing is."""

    row: FlowInput
    badge: Badge
    kind: str
    waits: tuple[WaitingText, ...]
    gone: str
    until: datetime | None
    why: str
    #: whether a listing of the flow's files, later than this look, counted something else
    counted_later: bool = False

    @property
    def nothing_waits(self) -> bool:
        values = [a.get("value") for name, a in self.row.unread.items() if name != "bytes"]
        return bool(values) and not any(values)


@dataclass(frozen=True)
class Panel:
    """What the flow page shows. `alarm`: the sentence of input that is at risk, "" where none is. `why`: why no one
    knows which sources there are now, "" where that is known; `code_seen_at`: when the code was looked at for them."""

    sources: tuple[UnreadSource, ...]
    badge: Badge | None
    alarm: str
    why: str = ""
    code_seen_at: datetime | None = None
    #: of the source that is read for the shortest; None where nothing is known of any
    standing: RetentionState | None = None

    #: a batch that was committed after the sources were read; None where none was seen
    batch_since: int | None = None

    #: of the later listing that counted something else; None: there is none
    overruled_at: datetime | None = None

    @property
    def seen_at(self) -> datetime | None:
        """When the source that was not looked at for longest was looked at."""
        return min((s.row.asked_at for s in self.sources if s.row.asked_at), default=None)


def unread_panel(flow: Flow, rows: Iterable[FlowInput], now: datetime) -> Panel:
    held = list(rows)
    retained = retention.of(flow, held, now)
    risky = retained is not None and retained.standing.at_risk
    shown = Panel(
        tuple(_unread_source(row, retention.standing(row, flow.state, now)) for row in held),
        BADGES[retained.standing] if retained else None,
        describe_risk(retained, now) if retained and risky else "",
        retention.not_learned(flow) if flow.code_problem or not held else "",
        flow.code_seen_at,
        retained.standing if retained else None,
    )
    committed = words.parse_moment((flow.last_progress or {}).get("timestamp"))
    late = committed is not None and shown.seen_at is not None and committed > shown.seen_at
    return replace(shown, batch_since=flow.last_batch) if late else shown


def mark_counted_later(panel: Panel, at: datetime | None) -> Panel:
    """The panel without what looks before `at` counted: a listing counted something else then."""
    if at is None:
        return panel
    sources = tuple(
        replace(s, counted_later=s.row.seen_at is not None and s.row.seen_at < at) for s in panel.sources
    )
    overruled = any(s.counted_later for s in sources)
    return replace(panel, sources=sources, overruled_at=at if overruled else None)


def find_later_count(panel: Panel, listed: WaitingFiles) -> datetime | None:
    """When the files that wait were counted, where that is another number than the looks at the sources saw; None: it
    is the same, or they count another thing."""
    counted = [s.row.unread.get("files", {}).get("value") for s in panel.sources if s.row.kind == "files"]
    known = [files for files in counted if isinstance(files, int)]
    comparable = listed.filtered and len(known) == len(panel.sources) > 0
    return listed.at if comparable and listed.files not in (None, sum(known)) else None


def describe_risk(retained: Retention, now: datetime) -> str:
    """What is at risk, and by when."""
    assert retained.source is not None, "what is at risk is a source"
    place = f"of {retained.source.place}"
    if retained.standing is RetentionState.GONE:
        gone = _lost_text(retained.source.lost)
        return f"Unread input {place} can no longer be read{f': {gone}' if gone else ''}."
    until, kept = words.format_clock(retained.until, now), words.format_ago(retained.until, now)
    if retained.standing is RetentionState.DUE:
        return f"Retention may take unread input {place} at any time, since {until} ({kept})."
    return f"Unread input {place} can be read until {until}, {kept}."


def _unread_source(row: FlowInput, stands: RetentionState) -> UnreadSource:
    return UnreadSource(
        row=row,
        badge=BADGES[stands],
        kind=KINDS.get(row.kind, row.kind),
        waits=_waiting_amounts(row.unread),
        gone=_lost_text(row.lost) if row.readable is False else "",
        until=None if stands is RetentionState.GONE else row.until,
        why=row.why or ("" if row.problem else NOT_ASKED),
    )


def _waiting_amounts(amounts: Mapping[str, Any]) -> tuple[WaitingText, ...]:
    shown = [
        _waiting_amount(words.format_count(amounts[n]["value"], NOUNS[n]), amounts[n])
        for n in NOUNS
        if n in amounts
    ]
    if "bytes" in amounts:
        shown.append(_waiting_amount(words.format_size(amounts["bytes"]["value"]), amounts["bytes"]))
    return tuple(shown)


def _waiting_amount(text: str, stored: Mapping[str, Any]) -> WaitingText:
    amount = codec.read(Amount, stored)
    return WaitingText(f"{amount.bound.before_number}{text}", amount.why)


def _lost_text(lost: Mapping[str, Any]) -> str:
    """`4 rows, 2 files`; "" where no one can count them."""
    return ", ".join(amount.text for amount in _waiting_amounts({n: lost[n] for n in NOUNS if n in lost}))


@dataclass(frozen=True)
class UnreadCell:
    """The inventory's cell: a badge where something is at risk, a time where there is one."""

    retention: Retention
    badge: Badge | None
    until: datetime | None
    says: str = ""


def unread_cell(retained: Retention | None) -> UnreadCell | None:
    """None: nothing to say of this flow."""
    if retained is None or retained.standing is RetentionState.SAFE:
        return None
    if retained.standing is RetentionState.UNKNOWN or retained.source is None:
        return UnreadCell(retained, None, None, "not known")
    badge = BADGES[retained.standing] if retained.standing.at_risk else None
    says = _lost_text(retained.source.lost) if retained.source.readable is False else ""
    says = f"{says} passed over" if retained.standing is RetentionState.PASSED else says
    return UnreadCell(retained, badge, retained.until, says)
