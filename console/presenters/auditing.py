"""Audit entries as rows, and before/after as changes. Pure over rows already read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.utils.dateparse import parse_date

from console.presenters import status
from console.presenters.reviewing import plain
from recovery.audit.tags import ACTIONS, OUTCOMES


@dataclass(frozen=True)
class Wanted:
    recovery: str = ""
    who: str = ""
    outcome: str = ""
    act: str = ""
    day: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "Wanted":
        recovery = query.get("recovery", "").strip().upper()[:20]
        return cls(
            recovery=f"R-{recovery}" if recovery.isdigit() else recovery,
            who=query.get("who", "")[:150],
            outcome=query.get("outcome", "") if query.get("outcome") in OUTCOMES else "",
            act=query.get("act", "") if query.get("act") in ACTIONS else "",
            day=query.get("from", "")[:10],
        )

    @property
    def since(self) -> datetime | None:
        try:
            day = parse_date(self.day)
        except ValueError:
            return None
        return datetime(day.year, day.month, day.day, tzinfo=UTC) if day else None

    def query(self) -> dict[str, str]:
        full = {
            "recovery": self.recovery,
            "who": self.who,
            "outcome": self.outcome,
            "act": self.act,
            "from": self.day,
        }
        return {k: v for k, v in full.items() if v}


@dataclass(frozen=True)
class Row:
    entry: Any
    words: str
    badge: status.Badge


def row(entry: Any) -> Row:
    return Row(entry, ACTIONS.get(entry.action, entry.action), status.badge(status.OUTCOME, entry.outcome))


def rows(entries: Iterable[Any]) -> list[Row]:
    return [row(e) for e in entries]


@dataclass(frozen=True)
class Change:
    name: str
    before: str
    after: str
    same: bool


def changes(before: Any, after: Any) -> list[Change]:
    """One line a value; where one side says nothing, that is said."""
    old = before if isinstance(before, Mapping) else {} if before is None else {"value": before}
    new = after if isinstance(after, Mapping) else {} if after is None else {"value": after}
    found = []
    for key in dict.fromkeys([*old, *new]):
        was = plain(old[key]) if key in old else "–"
        now = plain(new[key]) if key in new else "–"
        found.append(Change(str(key).replace("_", " "), was, now, was == now))
    return found
