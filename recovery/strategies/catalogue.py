"""All strategies side by side, in the order in which people weigh them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from recovery.contracts import codec
from recovery.contracts.forecast import Forecast
from recovery.plans.accepted import costs_of
from recovery.strategies import continue_, empty, full_refresh, repair, revert, rewind
from recovery.strategies.base import Facts, Option
from recovery.strategies.blockers import BlockerCode, SettledBy, stored_blocker
from recovery.strategies.downstream import with_downstream

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
    options = tuple(with_downstream(facts, judge(facts)) for judge in JUDGES.values())
    best = _recommended({o.strategy: o for o in options})
    return tuple(
        replace(o, recommended=o.strategy == best, findings=(*o.findings, *facts.bounded)) for o in options
    )


def _recommended(options: Mapping[str, Option]) -> str | None:
    """One whose repeats are exact before one with a bound; None where each loses or doubles rows, or may."""
    safe = [
        name
        for name in EXECUTABLE
        if name in options and _is_harmless(options[name].blocked, options[name].forecast)
    ]
    return next((name for name in safe if options[name].forecast.doubled.exact), next(iter(safe), None))


def is_harmless(option: Mapping[str, Any]) -> bool:
    """Whether this option, as it is stored, can run and has a forecast without any row to accept."""
    return _is_harmless(option.get("blocked"), codec.read(Forecast, option["forecast"]))


def _is_harmless(blocked: str | None, forecast: Forecast) -> bool:
    return not blocked and not costs_of(forecast)


def needs_start(option: Mapping[str, Any]) -> bool:
    """Whether this option, as it is stored, only waits for somebody to say where the sources start."""
    blocker = stored_blocker(option)
    return blocker is not None and blocker.code is BlockerCode.START_NEEDED


def settled_later(option: Mapping[str, Any]) -> bool:
    """Whether a blocked option can be chosen all the same: a later step says of the code, of which source is which,
    or of where they start, what blocks it. A start is asked only for strategies that take one.
    """
    blocker = stored_blocker(option)
    settled_by = blocker.settled_by if blocker else None
    if settled_by in (SettledBy.START, SettledBy.SOURCES):
        return option.get("strategy") in POSITIONED
    return settled_by is not None


def not_applicable() -> list[dict[str, str]]:
    """Strategies that this flow cannot take at all, and why."""
    return [{"strategy": name, "why": why} for name, why in NOT_HERE.items()]
