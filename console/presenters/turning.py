"""What would change the recommendation, and the decision table that it comes from, as pages show them. Pure."""

from dataclasses import dataclass
from typing import Final

from recovery.contracts.names import ChangeIntent
from recovery.contracts.ways import WaitKind, Ways
from recovery.strategies.deciding import NOT_ASKED, RULES


@dataclass(frozen=True)
class TurnRow:
    """One thing that would change the recommendation. `code`: its condition; `then`: "" where no way out is right."""

    code: str
    says: str
    then: str
    because: str


def turn_rows(ways: Ways) -> list[TurnRow]:
    """What would change what is recommended."""
    return [
        TurnRow(change.condition.value, change.says, (change.then or "").replace("-", " "), change.because)
        if change.then in tuple(WaitKind)
        else TurnRow(change.condition.value, change.says, change.then or "", change.because)
        for change in ways.would_change
    ]


@dataclass(frozen=True)
class RuleRow:
    """A row of the decision table; `when`: the answers under which it counts."""

    number: int
    strategy: str
    when: str
    because: str
    decides: bool


WHEN: Final = {NOT_ASKED: "not asked", ChangeIntent.YES: "meant", ChangeIntent.NO: "a mistake"}


def rule_rows(decided: int) -> list[RuleRow]:
    """The whole decision table. `decided`: the number of the row that has decided; 0: none."""
    return [
        RuleRow(
            number,
            rule.strategy.value,
            ", ".join(WHEN[answer] for answer in rule.answers),
            rule.because,
            number == decided,
        )
        for number, rule in enumerate(RULES, 1)
    ]
