"""Events of the Pipelines API as rows: level, type, update, what happened, and the cause chain. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from console.presenters import status
from console.presenters.flow import Cause, list_causes
from console.presenters.words import shorten_hash
from recovery.pipelines.events import causes

LEVELS: Final = (("", "All"), ("ERROR", "Errors"), ("WARN", "Warnings"))


@dataclass(frozen=True)
class EventFilter:
    level: str = ""
    type: str = ""
    update: str = ""
    text: str = ""

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> "EventFilter":
        level = query.get("level", "")
        return cls(
            level if level in dict(LEVELS) else "",
            query.get("type", "")[:60],
            query.get("update", "")[:80],
            query.get("text", "")[:200],
        )


@dataclass(frozen=True)
class EventRow:
    id: str
    at: str
    badge: status.Badge
    level: str
    type: str
    update: str
    says: str
    causes: list[Cause] = field(default_factory=list)
    raw: str = ""

    @property
    def update_short(self) -> str:
        return shorten_hash(self.update) if self.update else "–"


def of_flow(events: Iterable[Mapping[str, Any]], flow_name: str) -> list[EventRow]:
    """Events about this flow, and those about a whole update; other flows' are left out."""
    rows = []
    for event in events:
        origin = event.get("origin") or {}
        if origin.get("flow_name") not in (None, "", flow_name):
            continue
        rows.append(_event_row(event, origin))
    return rows


def _event_row(event: Mapping[str, Any], origin: Mapping[str, Any]) -> EventRow:
    errors = causes(event)
    level = str(event.get("level") or "INFO")
    return EventRow(
        id=str(event.get("id") or ""),
        at=str(event.get("timestamp") or ""),
        badge=status.state_badge(status.LEVEL, level),
        level=level,
        type=str(event.get("event_type") or ""),
        update=str(origin.get("update_id") or ""),
        says=str(event.get("message") or ""),
        causes=list_causes(errors),
        raw="\n\nCaused by: ".join(error.message for error in errors),
    )


def filter_events(rows: Iterable[EventRow], wanted: EventFilter) -> list[EventRow]:
    text = wanted.text.lower()
    return [
        r
        for r in rows
        if (not wanted.level or r.level == wanted.level)
        and (not wanted.type or r.type == wanted.type)
        and (not wanted.update or r.update == wanted.update)
        and (not text or text in r.says.lower() or text in r.raw.lower())
    ]


def opened_event(rows: list[EventRow], asked: str) -> str:
    """The event whose causes stand open: the one asked for, else the newest that has causes."""
    if any(r.id == asked for r in rows):
        return asked
    return next((r.id for r in rows if r.causes), "")
