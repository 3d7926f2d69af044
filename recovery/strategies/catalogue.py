"""All strategies side by side, in the order in which people weigh them."""

from collections.abc import Callable, Mapping

from recovery.contracts.names import Strategy
from recovery.contracts.option import BlockerCode, Option, SettledBy
from recovery.plans.accepted import costs_of
from recovery.strategies import continue_, empty, full_refresh, repair, revert, rewind
from recovery.strategies.base import Facts
from recovery.strategies.downstream import with_downstream

# in the order in which one is recommended: mending needs no reset, so it comes first where it suffices
EXECUTABLE = (
    Strategy.REPAIR,
    Strategy.CONTINUE,
    Strategy.REVERT,
    Strategy.REWIND,
    Strategy.FULL_REFRESH,
)

POSITIONED = (Strategy.CONTINUE, Strategy.REWIND)
"""Strategies that go on from a position, so that another one can be chosen."""
GO_BACK = (Strategy.REWIND,)
"""Those of them that need another one: from the committed position they would leave something out."""

JUDGES: Mapping[str, Callable[[Facts], Option]] = {
    Strategy.CONTINUE: continue_.judge,
    Strategy.REVERT: revert.judge,
    Strategy.REPAIR: repair.judge,
    Strategy.REWIND: rewind.judge,
    Strategy.FULL_REFRESH: full_refresh.judge,
    Strategy.EMPTY: empty.judge,
}

NOT_HERE = {
    "backfill": "A backup and a backfill are not part of this version; full-refresh says what can be read again.",
}


def judge_all(facts: Facts) -> tuple[Option, ...]:
    """Every strategy judged; the gentlest that can run and loses and doubles nothing is marked as recommended."""
    options = tuple(with_downstream(facts, judge(facts)) for judge in JUDGES.values())
    best = _recommended({o.strategy: o for o in options})
    return tuple(o.weighed(recommended=o.strategy == best, findings=facts.bounded) for o in options)


def _recommended(options: Mapping[str, Option]) -> str | None:
    """One whose repeats are exact before one with a bound; None where each loses or doubles rows, or may."""
    safe = [name for name in EXECUTABLE if name in options and is_harmless(options[name])]
    return next((name for name in safe if options[name].forecast.doubled.exact), next(iter(safe), None))


def is_harmless(option: Option) -> bool:
    """Whether it can run and has a forecast without any row to accept."""
    return option.blocker is None and not costs_of(option.forecast)


def needs_start(option: Option) -> bool:
    """Whether it only waits for somebody to say where the sources start."""
    return option.blocker is not None and option.blocker.code is BlockerCode.START_NEEDED


def settled_later(option: Option) -> bool:
    """Whether a blocked option can be chosen all the same: a later step says of the code, of which source is which,
    or of where they start, what blocks it. A start is asked only for strategies that take one.
    """
    settled_by = option.blocker.settled_by if option.blocker else None
    if settled_by in (SettledBy.START, SettledBy.SOURCES):
        return option.strategy in POSITIONED
    return settled_by is not None


def not_applicable() -> list[dict[str, str]]:
    """Strategies that this flow cannot take at all, and why."""
    return [{"strategy": name, "why": why} for name, why in NOT_HERE.items()]
