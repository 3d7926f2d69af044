"""Which strategy is recommended: by what it does to rows, and by whether the change of the code was meant."""

from collections.abc import Mapping, Sequence
from typing import Any

from recovery.contracts.names import Strategy
from recovery.contracts.option import Option
from recovery.diagnosis.advice import Meant, asks_meant, recommend_advice, stored_advice
from recovery.strategies.catalogue import EXECUTABLE, is_harmless


def recommended_strategy(options: Sequence[Option], diagnosis: Mapping[str, Any], meant: Meant | None) -> str:
    """The strategy to recommend; "" where each loses or doubles rows, or may, or where it hangs on an answer that
    nobody has given. `diagnosis`: as stored with the recovery, whose pages show the same recommendation."""
    advice = stored_advice(diagnosis)
    if not asks_meant(advice):
        return next((o.strategy.value for o in options if o.recommended), "")
    one = recommend_advice(advice, meant)
    if one is None:
        return ""
    harmless = {o.strategy.value for o in options if is_harmless(o)}
    if meant is Meant.NO:  # anything else would bring a mistake into production
        return one.strategy if one.strategy in harmless else ""
    if one.strategy in harmless:
        return one.strategy
    return next((name for name in EXECUTABLE if name in harmless and name is not Strategy.REVERT), "")


def default_strategy(meant: Meant | None) -> str:
    """The one that a program or a command takes where none is named or was chosen: a mistake is put back."""
    return "revert" if meant is Meant.NO else "continue"


def may_be_preselected(option: Option) -> bool:
    """Whether it can be undone: what cannot is chosen by a person, and by nothing else."""
    return option.undoable
