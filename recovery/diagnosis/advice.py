"""What to do about a failure, and which way is recommended once it is known whether a change was meant."""

from collections.abc import Sequence

from recovery.contracts.diagnosis import Advice
from recovery.contracts.names import ChangeIntent


def meant_of(stored: object) -> ChangeIntent | None:
    """As it is stored with a recovery; None where no one was asked yet."""
    return next((meant for meant in ChangeIntent if meant.value == stored), None)


def asks_meant(advice: Sequence[Advice]) -> bool:
    """Whether what is right hangs on whether the change was meant, so that a person has to say it."""
    return any(item.right_if in (ChangeIntent.YES, ChangeIntent.NO) for item in advice)


def recommend_advice(advice: Sequence[Advice], meant: ChangeIntent | None) -> Advice | None:
    """The one that is recommended; None where it hangs on an answer that no one has given."""
    if any(item.right_if is not None for item in advice):
        fitting = (
            item for item in advice if item.right_if is meant and meant in (ChangeIntent.YES, ChangeIntent.NO)
        )
        return next(fitting, None)
    return next(iter(advice), None)
