"""What would change the recommendation: the decision table asked again, with one thing otherwise. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from recovery.contracts.diagnosis import Diagnosis
from recovery.contracts.names import Meant, name_strategy
from recovery.contracts.option import Option
from recovery.contracts.ways import Condition, Wait, WouldChange
from recovery.diagnosis.advice import asks_meant
from recovery.plans.accepted import costs_of
from recovery.strategies.deciding import GROUNDS, NOT_ASKED, OLD_ROWS, RULES, Ground, decide, is_found
from recovery.strategies.recommending import decision

SAYS: Final[Mapping[Condition, str]] = {
    Condition.MEANT: "The change was meant",
    Condition.MISTAKE: "The change was a mistake",
    Condition.NOT_SURE: "You are not sure",
    Condition.READ_INPUT_GONE: "Input that was read before is gone",
    Condition.UNREAD_INPUT_GONE: "Input that waits is gone",
    Condition.OLD_ROWS_FOLLOW: "Rows already in the table must follow the new code",
}
ANSWERS: Final = {
    Condition.MEANT: Meant.YES,
    Condition.MISTAKE: Meant.NO,
    Condition.NOT_SURE: Meant.UNKNOWN,
}
GONE: Final = {Condition.READ_INPUT_GONE: Ground.READ, Condition.UNREAD_INPUT_GONE: Ground.UNREAD}
ASK_FIRST: Final = "Nothing is recommended before it is known. Ask, as long as what waits can be read."
NO_WAY: Final = "No way out brings back input that was never read."
NONE_FITS: Final = "No strategy that can run here does that."


@dataclass(frozen=True)
class Turn:
    """What is right then, and why. `then` None: no way out is."""

    then: str | None
    because: str


def list_changes(
    options: Sequence[Option], diagnosis: Diagnosis, meant: Meant | None
) -> tuple[WouldChange, ...]:
    """Each condition that leads elsewhere than the recommendation of now, in the order of `Condition`."""
    now = decision(options, diagnosis, meant).strategy
    found = [(condition, _turn(condition, options, diagnosis, meant, now)) for condition in Condition]
    return tuple(
        WouldChange(condition=condition, says=SAYS[condition], then=turn.then, because=turn.because)
        for condition, turn in found
        if turn is not None and turn.then != (now or None)
    )


def _turn(
    condition: Condition, options: Sequence[Option], diagnosis: Diagnosis, meant: Meant | None, now: str
) -> Turn | None:
    """None: it is so already, or it changes nothing here."""
    asked = asks_meant(diagnosis.advice)
    if condition in ANSWERS:
        answer = ANSWERS[condition]
        return _answered(options, answer) if asked and answer is not meant else None
    if not now:
        return None
    answer_now = meant if asked else NOT_ASKED
    if condition in GONE:
        return _without_input(options, answer_now, now, GONE[condition])
    is_other_code = asked and meant is not Meant.NO
    return _among(options, answer_now, lambda name: name in OLD_ROWS) if is_other_code else None


def _answered(options: Sequence[Option], answer: Meant) -> Turn:
    if answer is Meant.UNKNOWN:
        return Turn(Wait.CALL_OWNER, ASK_FIRST)
    return _among(options, answer, lambda name: True)


def _without_input(options: Sequence[Option], answer: Meant | None, now: str, ground: Ground) -> Turn | None:
    """None: what is recommended does not rest on it."""
    if ground not in grounds_of(now):
        return None
    if ground is Ground.UNREAD:
        return Turn(None, NO_WAY)
    return _among(options, answer, lambda name: ground not in grounds_of(name))


def grounds_of(strategy: str) -> tuple[Ground, ...]:
    """What this strategy rests on."""
    return GROUNDS.get(strategy, tuple(Ground))


def _among(options: Sequence[Option], answer: Meant | None, fits: Callable[[str], bool]) -> Turn:
    """The first row that counts of those that fit; else the first that could run with a cost to accept; else none, and
    why the first of them cannot run."""
    fitting = {option.strategy: option for option in options if fits(option.strategy)}
    decided = decide(list(fitting.values()), answer)
    if decided.strategy:
        return Turn(decided.strategy, decided.because)
    rules = [
        rule
        for rule in RULES
        if answer in rule.answers and rule.strategy in fitting and is_found(rule, fitting[rule.strategy])
    ]
    for rule in rules:
        option = fitting[rule.strategy]
        if option.blocker is None:
            costs = "; ".join(cost.says for cost in costs_of(option.forecast))
            # the rule's own reason holds only where it costs nothing
            return Turn(
                option.strategy, f"{name_strategy(option.strategy)} can run at a cost to accept: {costs}."
            )
    if not rules:
        return Turn(None, NONE_FITS)
    first = fitting[rules[0].strategy]
    return Turn(None, f"{name_strategy(first.strategy)} cannot run: {first.blocked}")
