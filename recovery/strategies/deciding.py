"""The decision table: which strategy is recommended, and which one next. Pure.

A row counts where its strategy can run without a cost to accept, and where the change of the code was meant as in the
row. The first row that counts is the recommendation, the next one the runner-up; those whose repeats are known exactly
come before those that have a bound. `empty` has no row: it writes again what is there, where others keep the position.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from recovery.contracts.names import ChangeIntent, Strategy
from recovery.contracts.option import Option
from recovery.plans.accepted import costs_of
from recovery.strategies.deduplicate import REPEATED_BY_PROOF
from recovery.strategies.top_up import MISSING_BY_PROOF

NOT_ASKED: Final = None
"""The answer where nothing hangs on whether a change was meant."""


@dataclass(frozen=True)
class DecisionRule:
    """One row. `answers`: those under which it counts; `because`: why this one, for people; `found`: the code of a
    finding without which it does not count, "": it counts without any."""

    strategy: Strategy
    answers: tuple[ChangeIntent | None, ...]
    because: str
    found: str = ""


RULES: Final = (
    DecisionRule(
        Strategy.TOP_UP,
        (NOT_ASKED, ChangeIntent.YES, ChangeIntent.NO),
        "A proof found rows missing, and all of them can be read: they are added once, nothing else is touched.",
        found=MISSING_BY_PROOF,
    ),
    DecisionRule(
        Strategy.DEDUPLICATE,
        (NOT_ASKED, ChangeIntent.YES, ChangeIntent.NO),
        "A proof found rows there too often, each equal to one that stays: they are deleted, nothing else is touched.",
        found=REPEATED_BY_PROOF,
    ),
    DecisionRule(
        Strategy.REPAIR,
        (NOT_ASKED,),
        "Damaged files are repaired; position and state stay, nothing is reset.",
    ),
    DecisionRule(
        Strategy.CONTINUE,
        (NOT_ASKED, ChangeIntent.YES),
        "The code needs no earlier state: position and rows stay, the old state goes.",
    ),
    DecisionRule(Strategy.REVERT, (NOT_ASKED, ChangeIntent.NO), "The checkpoint fits the old code as it is."),
    DecisionRule(
        Strategy.REBUILD,
        (NOT_ASKED, ChangeIntent.YES),
        "All that was processed is there: its replay gives the new code the state that it needs.",
    ),
    DecisionRule(
        Strategy.PRIME,
        (NOT_ASKED, ChangeIntent.YES),
        "By count, no row that waits needs the old state: the new state can start empty.",
    ),
    DecisionRule(
        Strategy.REWIND,
        (NOT_ASKED, ChangeIntent.YES),
        "The watermark keeps written windows; the others are counted again from a start that you choose.",
    ),
    DecisionRule(
        Strategy.FULL_REFRESH,
        (NOT_ASKED, ChangeIntent.YES),
        "All input is there: the table is emptied and computed again.",
    ),
    DecisionRule(
        Strategy.BACKFILL,
        (NOT_ASKED, ChangeIntent.YES),
        "Not all input is there: what is left is computed again, the rest of the table is filled back.",
    ),
)


class NeededInput(StrEnum):
    """What has to be there, or a strategy loses rows."""

    UNREAD = "unread"  # input that waits
    READ = "read"  # input that was read before


GROUNDS: Final[Mapping[str, tuple[NeededInput, ...]]] = {
    "repair": (NeededInput.UNREAD,),
    "continue": (NeededInput.UNREAD,),
    "revert": (NeededInput.UNREAD,),
    "prime": (NeededInput.UNREAD,),
    "backfill": (NeededInput.UNREAD,),
    "top-up": (NeededInput.READ,),
    "deduplicate": (NeededInput.READ,),
    "rebuild": (NeededInput.UNREAD, NeededInput.READ),
    "rewind": (NeededInput.UNREAD, NeededInput.READ),
    "replay": (NeededInput.UNREAD, NeededInput.READ),
    "full-refresh": (NeededInput.UNREAD, NeededInput.READ),
}
"""On what each strategy rests. One that is not here is taken to rest on all."""

OLD_ROWS: Final = ("backfill", "full-refresh")
"""Strategies that write the rows of the table again, as the new code makes them."""


@dataclass(frozen=True)
class Decision:
    """`strategy` "": none is recommended. `rule` and `because`: of the row; 0 and "" then. `runner_up` "": there is no
    other that costs nothing. `of`: how many rules there are."""

    strategy: str = ""
    rule: int = 0
    because: str = ""
    runner_up: str = ""
    of: int = len(RULES)


def decide(options: Sequence[Option], answer: ChangeIntent | None) -> Decision:
    """What is recommended of these options. `answer`: None where the change is not asked for."""
    harmless = {o.strategy: o for o in options if is_harmless(o)}
    rows = [
        (n, r)
        for n, r in enumerate(RULES, 1)
        if answer in r.answers and r.strategy in harmless and is_found(r, harmless[r.strategy])
    ]
    rows.sort(key=lambda row: not harmless[row[1].strategy].forecast.doubled.exact)
    if not rows:
        return Decision()
    number, first = rows[0]
    return Decision(
        first.strategy.value, number, first.because, rows[1][1].strategy.value if rows[1:] else ""
    )


def is_harmless(option: Option) -> bool:
    """Whether it can run and has a forecast without any row to accept."""
    return option.blocker is None and not costs_of(option.forecast)


def is_found(rule: DecisionRule, option: Option) -> bool:
    """Whether the option has the finding that its row asks for."""
    return not rule.found or any(finding.code == rule.found for finding in option.findings)
