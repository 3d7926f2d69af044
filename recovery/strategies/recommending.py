"""Which strategy is recommended: by what it does to rows, and by whether the change of the code was meant."""

from collections.abc import Sequence

from recovery.contracts.diagnosis import Diagnosis
from recovery.contracts.names import ChangeIntent
from recovery.contracts.option import Option
from recovery.diagnosis.advice import asks_meant, recommend_advice
from recovery.strategies.deciding import NOT_ASKED, Decision, decide


def decision(options: Sequence[Option], diagnosis: Diagnosis, meant: ChangeIntent | None) -> Decision:
    """What the decision table says; nothing where it hangs on an answer that is not given yet."""
    if not asks_meant(diagnosis.advice):
        return decide(options, NOT_ASKED)
    if recommend_advice(diagnosis.advice, meant) is None:
        return Decision()
    return decide(options, meant)


def recommended_strategy(options: Sequence[Option], diagnosis: Diagnosis, meant: ChangeIntent | None) -> str:
    """The strategy to recommend; "" where each loses or doubles rows, or may, or where it hangs on an answer that
    no one has given."""
    return decision(options, diagnosis, meant).strategy


def default_strategy(meant: ChangeIntent | None) -> str:
    """The one that a program or a command takes where none is named or was chosen: a mistake is put back."""
    return "revert" if meant is ChangeIntent.NO else "continue"


def may_be_preselected(option: Option) -> bool:
    """Whether it can be undone: what cannot is chosen by a person, and by nothing else."""
    return option.undoable
