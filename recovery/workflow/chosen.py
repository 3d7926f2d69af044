"""What a person has chosen about the sources of a recovery, as the facts are gathered with it."""

from dataclasses import dataclass
from typing import Any

from recovery.models import Recovery
from recovery.sources import wishes
from recovery.sources.base import Wanted


@dataclass(frozen=True)
class Chosen:
    """`wishes`: where sources shall start, by their index as text. `confirmed`: which source goes on as which."""

    wishes: dict[str, Wanted]
    confirmed: tuple[str, ...]


def chosen(recovery: Recovery) -> Chosen:
    """From `recovery.choices`. Raises WrongUse for a wish that nobody could have written."""
    told: dict[str, Any] = recovery.choices.get("positions") or {}
    return Chosen(
        {source: wishes.of(body) for source, body in told.items()},
        tuple(recovery.choices.get("confirmed") or ()),
    )
