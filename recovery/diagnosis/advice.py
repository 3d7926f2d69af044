"""What to do about a failure, and which way is recommended once it is known whether a change was meant."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recovery.contracts.names import Meant as Meant


def meant_of(stored: object) -> Meant | None:
    """As it is stored with a recovery; None where nobody was asked yet."""
    return next((meant for meant in Meant if meant.value == stored), None)


@dataclass(frozen=True)
class Advice:
    """One way on, for people, and what decides on it."""

    #: what to do, for people
    says: str
    #: the strategy that does it; "": none of ours
    strategy: str = ""
    #: the answer that makes it the right one; None: it does not hang on that
    right_if: Meant | None = None
    #: whether it can be undone; None: that is not told
    undoable: bool | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON, as diagnoses are stored."""
        return {
            "says": self.says,
            "strategy": self.strategy,
            "right_if": self.right_if.value if self.right_if else None,
            "undoable": self.undoable,
        }


def stored_advice(diagnosis: Mapping[str, Any]) -> tuple[Advice, ...]:
    """The advice of a stored diagnosis, safest first. One that was stored as sentences alone recommends nothing."""
    if "advice" not in diagnosis:
        return tuple(Advice(str(says), right_if=Meant.UNKNOWN) for says in diagnosis.get("do") or [])
    return tuple(
        Advice(
            says=str(one.get("says") or ""),
            strategy=str(one.get("strategy") or ""),
            right_if=meant_of(one.get("right_if")),
            undoable=one.get("undoable"),
        )
        for one in diagnosis["advice"]
    )


def asks_meant(advice: Sequence[Advice]) -> bool:
    """Whether what is right hangs on whether the change was meant, so that a person has to say it."""
    return any(one.right_if in (Meant.YES, Meant.NO) for one in advice)


def recommend_advice(advice: Sequence[Advice], meant: Meant | None) -> Advice | None:
    """The one that is recommended; None where it hangs on an answer that nobody has given."""
    if any(one.right_if is not None for one in advice):
        fitting = (one for one in advice if one.right_if is meant and meant in (Meant.YES, Meant.NO))
        return next(fitting, None)
    return next(iter(advice), None)
