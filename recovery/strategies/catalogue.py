"""All strategies side by side, in the order in which people weigh them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from recovery.strategies import continue_, empty, full_refresh, repair, revert, rewind
from recovery.strategies.base import Facts, Option

# in the order in which one is recommended: mending needs no reset, so it comes first where it suffices
EXECUTABLE = ("repair", "continue", "revert", "rewind", "full-refresh")

POSITIONED = ("continue", "rewind")
"""Strategies that go on from a position, so that another one can be chosen."""
GO_BACK = ("rewind",)
"""Those of them that need another one: from the committed position they would leave something out."""

JUDGES = {
    "continue": continue_.judge,
    "revert": revert.judge,
    "repair": repair.judge,
    "rewind": rewind.judge,
    "full-refresh": full_refresh.judge,
    "empty": empty.judge,
}

NOT_HERE = {
    "backfill": "A backup and a backfill are not part of this version; full-refresh says what can be read again.",
}


def judge_all(facts: Facts) -> tuple[Option, ...]:
    """Every strategy judged; the gentlest that can run and loses and doubles nothing is marked as recommended."""
    options = tuple(judge(facts) for judge in JUDGES.values())
    best = _recommended({o.strategy: o for o in options})
    return tuple(replace(o, recommended=o.strategy == best) for o in options)


def _recommended(options: Mapping[str, Option]) -> str | None:
    """One that is exact before one that is at-least-once; None where each loses or doubles rows, or may."""
    safe = [name for name in EXECUTABLE if name in options and _harmless(options[name])]
    return next((name for name in safe if options[name].forecast.doubled.exact), next(iter(safe), None))


def _harmless(option: Option) -> bool:
    lost, doubled = option.forecast.lost, option.forecast.doubled
    return option.blocked is None and lost.rows == 0 and lost.exact and doubled.rows == 0


def needs_start(option: Mapping[str, Any]) -> bool:
    """Whether this option, as a dict, only waits for somebody to say where the sources start."""
    return str(option.get("blocked") or "").startswith(rewind.START_FIRST)


def settled_later(option: Mapping[str, Any]) -> bool:
    """Whether a blocked option can be chosen all the same: a later step says of the code, of which source is which,
    or of where they start, what blocks it.
    """
    reason = str(option.get("blocked") or "").lower()
    by_code = any(word in reason for word in ("code", "not known", "nothing needs a reset"))
    return by_code or needs_start(option) or bool(option.get("mapping"))


def not_applicable() -> list[dict[str, str]]:
    """Strategies that this flow cannot take at all, and why."""
    return [{"strategy": name, "why": why} for name, why in NOT_HERE.items()]
