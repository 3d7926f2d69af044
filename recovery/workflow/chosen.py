"""What a person has chosen about the sources of a recovery, as the facts are gathered with it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recovery.contracts.codec import seal
from recovery.errors import Refused
from recovery.models import Recovery
from recovery.sources import wishes
from recovery.sources.base import Wanted

BASIS = ("strategy", "key", "patch", "positions", "confirmed", "accepted", "below")
"""What of `recovery.choices` a plan is made of."""
LEFT = "left"
"""`choices["below"]` where a person leaves out of the plan what is downstream."""


@dataclass(frozen=True)
class Chosen:
    """`wishes`: where sources shall start, by their index as text. `confirmed`: which source goes on as which.
    `refresh_below`: whether the plan refreshes what is downstream."""

    wishes: dict[str, Wanted]
    confirmed: tuple[str, ...]
    refresh_below: bool = True


def chosen(recovery: Recovery) -> Chosen:
    """From `recovery.choices`. Raises WrongUse for a wish that nobody could have written."""
    told: dict[str, Any] = recovery.choices.get("positions") or {}
    return Chosen(
        {source: wishes.of(body) for source, body in told.items()},
        tuple(recovery.choices.get("confirmed") or ()),
        recovery.choices.get("below") != LEFT,
    )


def without_acceptance(choices: Mapping[str, Any]) -> dict[str, Any]:
    """These choices after another one was made: what was accepted, and what a refused plan asked to accept, were of a
    plan that is no longer the one to seal."""
    kept = {name: value for name, value in choices.items() if name != "accepted"}
    if (kept.get("sealing") or {}).get("costs"):
        kept["sealing"] = {**kept["sealing"], "costs": []}
    return kept


def basis(recovery: Recovery) -> str:
    """A digest of what a plan is made of. It changes when somebody chooses anything else."""
    return seal({name: recovery.choices.get(name) or None for name in BASIS})


def refuse_other(recovery: Recovery, asked: str) -> None:
    """Raise Refused where the choices are no longer those of which a plan was asked for (`basis`): it would be sealed
    in the name of somebody who chose something else."""
    if basis(recovery) != asked:
        raise Refused(
            f"The choices of {recovery.label} were changed while its plan was being sealed, so no plan was sealed. "
            "Look at them, then seal again.",
            code="choices_changed",
        )
