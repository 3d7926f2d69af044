"""Which strategy is recommended: by what it does to rows, and by whether the change of the code was meant."""

from collections.abc import Mapping, Sequence
from typing import Any

from recovery.diagnosis.advice import Meant, asks_meant, recommend_advice, stored_advice
from recovery.strategies.catalogue import EXECUTABLE, is_harmless

Stored = Mapping[str, Any]
"""An option as it is stored (`Option.as_dict`)."""


def recommended_strategy(options: Sequence[Stored], diagnosis: Stored, meant: Meant | None) -> str:
    """The strategy to recommend; "" where each loses or doubles rows, or may, or where it hangs on an answer that
    nobody has given. `diagnosis`: as stored with the recovery, whose pages show the same recommendation."""
    advice = stored_advice(diagnosis)
    if not asks_meant(advice):
        return next((str(o["strategy"]) for o in options if o.get("recommended")), "")
    one = recommend_advice(advice, meant)
    if one is None:
        return ""
    harmless = {str(o["strategy"]): o for o in options if is_harmless(o)}
    if meant is Meant.NO:  # anything else would bring a mistake into production
        return one.strategy if one.strategy in harmless else ""
    if one.strategy in harmless:
        return one.strategy
    return next((name for name in EXECUTABLE if name in harmless and name != "revert"), "")


def default_strategy(meant: Meant | None) -> str:
    """The one that a program or a command takes where none is named or was chosen: a mistake is put back."""
    return "revert" if meant is Meant.NO else "continue"


def may_be_preselected(option: Stored) -> bool:
    """Whether it can be undone: what cannot is chosen by a person, and by nothing else."""
    return bool(option.get("undoable", option["strategy"] != "full-refresh"))
