"""What would change the recommendation: the decision table asked again, with one thing otherwise. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from recovery.contracts.diagnosis import Diagnosis
from recovery.contracts.names import ChangeIntent, name_strategy
from recovery.contracts.option import Option
from recovery.contracts.ways import AdviceCondition, WaitKind, WouldChange
from recovery.diagnosis.advice import asks_meant
from recovery.plans.accepted import costs_of
from recovery.strategies.deciding import GROUNDS, NOT_ASKED, OLD_ROWS, RULES, NeededInput, decide, is_found
from recovery.strategies.recommending import decision

SAYS: Final[Mapping[AdviceCondition, str]] = {
    AdviceCondition.MEANT: "The change was meant",
    AdviceCondition.MISTAKE: "The change was a mistake",
    AdviceCondition.NOT_SURE: "You are not sure",
    AdviceCondition.READ_INPUT_GONE: "Input that was read before is gone",
    AdviceCondition.UNREAD_INPUT_GONE: "Input that waits is gone",
    AdviceCondition.OLD_ROWS_FOLLOW: "Rows already in the table must follow the new code",
}
ANSWERS: Final = {
    AdviceCondition.MEANT: ChangeIntent.YES,
    AdviceCondition.MISTAKE: ChangeIntent.NO,
    AdviceCondition.NOT_SURE: ChangeIntent.UNKNOWN,
}
GONE: Final = {
    AdviceCondition.READ_INPUT_GONE: NeededInput.READ,
    AdviceCondition.UNREAD_INPUT_GONE: NeededInput.UNREAD,
}
ASK_FIRST: Final = "Nothing is recommended before it is known. Ask, as long as what waits can be read."
NO_WAY: Final = "No way out brings back input that was never read."
NONE_FITS: Final = "No strategy that can run here does that."


@dataclass(frozen=True)
class TurnedRecommendation:
    """What is right then, and why. `then` None: no way out is."""

    then: str | None
    because: str


def list_changes(
    options: Sequence[Option], diagnosis: Diagnosis, meant: ChangeIntent | None
) -> tuple[WouldChange, ...]:
    """Each condition that leads elsewhere than the recommendation of now, in the order of `AdviceCondition`."""
    now = decision(options, diagnosis, meant).strategy
    turns = [(condition, _turn(condition, options, diagnosis, meant, now)) for condition in AdviceCondition]
    return tuple(
        WouldChange(condition=condition, says=SAYS[condition], then=turn.then, because=turn.because)
        for condition, turn in turns
        if turn is not None and turn.then != (now or None)
    )


def _turn(
    condition: AdviceCondition,
    options: Sequence[Option],
    diagnosis: Diagnosis,
    meant: ChangeIntent | None,
    now: str,
) -> TurnedRecommendation | None:
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
    is_other_code = asked and meant is not ChangeIntent.NO
    return _among(options, answer_now, lambda name: name in OLD_ROWS) if is_other_code else None


def _answered(options: Sequence[Option], answer: ChangeIntent) -> TurnedRecommendation:
    if answer is ChangeIntent.UNKNOWN:
        return TurnedRecommendation(WaitKind.CALL_OWNER, ASK_FIRST)
    return _among(options, answer, lambda name: True)


def _without_input(
    options: Sequence[Option], answer: ChangeIntent | None, now: str, ground: NeededInput
) -> TurnedRecommendation | None:
    """None: what is recommended does not rest on it."""
    if ground not in grounds_of(now):
        return None
    if ground is NeededInput.UNREAD:
        return TurnedRecommendation(None, NO_WAY)
    return _among(options, answer, lambda name: ground not in grounds_of(name))


def grounds_of(strategy: str) -> tuple[NeededInput, ...]:
    """What this strategy rests on."""
    return GROUNDS.get(strategy, tuple(NeededInput))


def _among(
    options: Sequence[Option], answer: ChangeIntent | None, fits: Callable[[str], bool]
) -> TurnedRecommendation:
    """The first row that counts of those that fit; else the first that could run with a cost to accept; else none, and
    why the first of them cannot run."""
    fitting = {option.strategy: option for option in options if fits(option.strategy)}
    decided = decide(list(fitting.values()), answer)
    if decided.strategy:
        return TurnedRecommendation(decided.strategy, decided.because)
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
            return TurnedRecommendation(
                option.strategy, f"{name_strategy(option.strategy)} can run at a cost to accept: {costs}."
            )
    if not rules:
        return TurnedRecommendation(None, NONE_FITS)
    first = fitting[rules[0].strategy]
    return TurnedRecommendation(None, f"{name_strategy(first.strategy)} cannot run: {first.blocked}")
