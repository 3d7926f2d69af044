"""All strategies side by side, in the order in which people weigh them."""

from collections.abc import Callable, Mapping

from recovery.checkpoints.report import Finding
from recovery.contracts.names import Strategy
from recovery.contracts.option import BlockerCode, Option, SettledBy
from recovery.strategies import (
    backfill,
    continue_,
    deduplicate,
    empty,
    full_refresh,
    prime,
    rebuild,
    repair,
    replay,
    revert,
    rewind,
    top_up,
)
from recovery.strategies.base import Facts
from recovery.strategies.deciding import NOT_ASKED, decide
from recovery.strategies.defaults import list_defaults_taken
from recovery.strategies.downstream import with_downstream
from recovery.strategies.effort import with_time
from recovery.strategies.misfit import with_misfit

# those that a plan can be sealed for
EXECUTABLE = (
    Strategy.REPAIR,
    Strategy.CONTINUE,
    Strategy.REVERT,
    Strategy.REBUILD,
    Strategy.PRIME,
    Strategy.REWIND,
    Strategy.REPLAY,
    Strategy.TOP_UP,
    Strategy.DEDUPLICATE,
    Strategy.FULL_REFRESH,
    Strategy.BACKFILL,
    Strategy.EMPTY,
)


POSITIONED = (Strategy.CONTINUE, Strategy.REWIND)
"""Strategies that go on from a position, so that another one can be chosen."""
NEEDS_START = (Strategy.REWIND,)
"""Those of POSITIONED that need another one: from the committed position they would leave something out."""

FOR_HEALTHY = (Strategy.TOP_UP, Strategy.DEDUPLICATE, Strategy.REPLAY, Strategy.FULL_REFRESH)
"""Strategies that have something to do for a flow that does not fail: its rows are wrong, or its input was."""

JUDGES: Mapping[str, Callable[[Facts], Option]] = {
    Strategy.CONTINUE: continue_.judge,
    Strategy.REVERT: revert.judge,
    Strategy.REPAIR: repair.judge,
    Strategy.REBUILD: rebuild.judge,
    Strategy.PRIME: prime.judge_prime,
    Strategy.REWIND: rewind.judge,
    Strategy.REPLAY: replay.judge,
    Strategy.TOP_UP: top_up.judge,
    Strategy.DEDUPLICATE: deduplicate.judge,
    Strategy.FULL_REFRESH: full_refresh.judge,
    Strategy.BACKFILL: backfill.judge,
    Strategy.EMPTY: empty.judge,
}


def judge_all(facts: Facts) -> tuple[Option, ...]:
    """Every strategy judged; the one that the decision table names is marked as recommended."""
    options = tuple(
        with_time(facts, with_downstream(facts, with_misfit(facts, judge(facts))))
        for judge in JUDGES.values()
    )
    best = decide(options, NOT_ASKED).strategy
    return tuple(
        o.weighed(recommended=o.strategy == best, findings=_findings_on_code(facts, o.strategy))
        for o in options
    )


def _findings_on_code(facts: Facts, strategy: Strategy) -> tuple[Finding, ...]:
    """What the study of the code that a strategy runs could not settle."""
    return (*facts.not_counted, *list_defaults_taken(facts, strategy))


def needs_start(option: Option) -> bool:
    """Whether it only waits for somebody to say where the sources start."""
    return option.blocker is not None and option.blocker.code is BlockerCode.START_NEEDED


def needs_target(option: Option) -> bool:
    """Whether it only waits for somebody to say what it goes back to."""
    return option.blocker is not None and option.blocker.code is BlockerCode.TARGET_NEEDED


def settled_later(option: Option) -> bool:
    """Whether a blocked option can be chosen all the same: a later step says of the code, of which source is which,
    or of where they start, what blocks it. A start is asked only for strategies that take one.
    """
    settled_by = option.blocker.settled_by if option.blocker else None
    if settled_by in (SettledBy.START, SettledBy.SOURCES):
        return option.strategy in POSITIONED
    if settled_by is SettledBy.TARGET:
        return option.strategy is Strategy.REPLAY
    return settled_by is not None
