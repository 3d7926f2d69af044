"""Audit entries as rows, and before/after as changes. Pure over rows already read."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from console.presenters import diff, status
from console.presenters.reviewing import plain_value
from recovery.audit import reviewing, tags
from recovery.audit.reviews import QueuedReview
from recovery.audit.tags import ACTIONS
from recovery.models import AskedCheck, AuditCheck, AuditEntry, ReviewItem, SignOff


@dataclass(frozen=True)
class EntryRow:
    """`archived` has no entry any more: only its number is known."""

    entry: AuditEntry
    words: str
    badge: status.Badge
    code: str


def entry_row(entry: AuditEntry) -> EntryRow:
    words = ACTIONS.get(entry.action, entry.action)
    if (
        entry.outcome in ("denied", "failed")
        and entry.action not in tags.ONLY
        and not entry.action.startswith("step.")
    ):
        words = f"tried: {words}"  # so that no one reads that it was done
    return EntryRow(
        entry, words, status.state_badge(status.OUTCOME, entry.outcome),
        tags.code_of_action(entry.action, entry.outcome),
    )  # fmt: skip


def entry_rows(entries: Iterable[AuditEntry]) -> list[EntryRow]:
    return [entry_row(e) for e in entries]


@dataclass(frozen=True)
class ValueChange:
    name: str
    before: str
    after: str
    same: bool


LONG = 120
"""A value of more characters, or of several lines, is shown as a diff of lines instead."""


def list_changes(before: object, after: object) -> list[ValueChange]:
    """One line a value; where one side says nothing, that is said. Long values are left to `diffs`."""
    old, new = _as_mapping(before), _as_mapping(after)
    changes = []
    for key in dict.fromkeys([*old, *new]):
        if _is_long(old.get(key), new.get(key)):
            continue
        was = plain_value(old[key]) if key in old else "–"
        now = plain_value(new[key]) if key in new else "–"
        changes.append(ValueChange(str(key).replace("_", " "), was, now, was == now))
    return changes


def long_diffs(before: object, after: object) -> list[diff.Diff]:
    """Each long value as lines, before and after."""
    old, new = _as_mapping(before), _as_mapping(after)
    long = [k for k in dict.fromkeys([*old, *new]) if _is_long(old.get(k), new.get(k))]
    return [
        diff.compare_texts(str(k).replace("_", " "), _format_value(old.get(k)), _format_value(new.get(k)))
        for k in long
    ]


def _as_mapping(side: object) -> Mapping[str, Any]:
    return side if isinstance(side, Mapping) else {} if side is None else {"value": side}


def _is_long(*sides: object) -> bool:
    return any(len(text := _format_value(s)) > LONG or (isinstance(s, str) and "\n" in text) for s in sides)


def _format_value(value: object) -> str:
    if value is None:
        return ""
    return (
        value if isinstance(value, str) else json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
    )


WHY = {
    "production": "Changed something in production",
    "break-glass": "Went on without the approvals that the rule asks for",
    "environment": "A pipeline is to move to an environment with weaker rules",
    "audit log": "Changed how the audit log is kept",
}


@dataclass(frozen=True)
class ReviewRow:
    """`why_not`: why this person may not sign it; None for who may."""

    item: ReviewItem
    row: EntryRow | None
    why: str
    why_not: str | None
    took_part: str

    @property
    def signed(self) -> SignOff | None:
        return getattr(self.item, "sign_off", None)


def review_item(queued: QueuedReview, *, name: str, missing_right: str | None) -> ReviewRow:
    """One item of the queue, as this person sees it."""
    return ReviewRow(
        item=queued.item,
        row=entry_row(queued.entry) if queued.entry is not None else None,
        why=WHY.get(queued.item.why, queued.item.why),
        why_not=missing_right or reviewing.refusal_of_reviewer(name, queued.took_part) or None,
        took_part=", ".join(sorted(queued.took_part)),
    )


@dataclass(frozen=True)
class ChainStanding:
    """What the newest check of the chain found. `broken` makes the red banner, `late` a word. `unchecked`: how many
    entries came after it."""

    check: AuditCheck | None
    badge: status.Badge
    broken: bool
    late: bool
    unchecked: int = 0


def chain_standing(check: AuditCheck | None, *, hours_since: float | None, newest: int = 0) -> ChainStanding:
    """From the newest check, or None before the first; `late` after two days without one. `newest`: the last entry."""
    late = hours_since is not None and hours_since > 48
    if check is None:
        return ChainStanding(None, status.Badge("unknown", "Not checked yet"), broken=False, late=False)
    unchecked = max(0, newest - check.last)
    if not check.ok:
        return ChainStanding(
            check, status.Badge("failed", "Chain broken"), broken=True, late=late, unchecked=unchecked
        )
    word = status.Badge("attention", "Check is late") if late else status.Badge("ok", "Chain unbroken")
    return ChainStanding(check, word, broken=False, late=late, unchecked=unchecked)


@dataclass(frozen=True)
class CheckProgress:
    """The check that someone asked for. `version` changes with what is shown."""

    badge: status.Badge
    says: str
    version: str


def check_progress(check: AskedCheck | None, *, open: bool, lost: str) -> CheckProgress | None:
    """Its state; None where no one asked, and where it ended well: the table of checks says that."""
    if check is None or not check.number or (check.ended_at is not None and not check.problem):
        return None
    version = f"{check.number}.{check.read}.{check.alive_at is None}"
    if open and check.alive_at is None:
        says = f"{check.by} asked for it. A worker takes it as soon as one is free."
        return CheckProgress(status.Badge("pending", "Waiting for a worker"), says, version)
    if open:
        says = f"{check.read:,} of {check.total:,} entries read. {check.by} asked for it."
        return CheckProgress(status.Badge("running", "Reading the log"), says, version)
    return CheckProgress(status.Badge("unknown", "Not finished"), check.problem or lost, version)
