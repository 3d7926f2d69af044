"""What a plan is made of, and what another choice takes back."""

from recovery.contracts.choices import Choices
from recovery.contracts.codec import seal
from recovery.errors import Refused
from recovery.models import Recovery

BASIS = ("strategy", "key", "patch", "positions", "confirmed", "accepted", "below", "target")
"""What of `recovery.choices` a plan is made of."""


def without_acceptance(choices: Choices) -> Choices:
    """These choices after another one was made: what was accepted, and what a refused plan asked to accept, were of a
    plan that is no longer the one to seal."""
    kept = choices.forget("accepted")
    if kept.sealing.costs:
        kept = kept.replace(sealing=kept.sealing.model_copy(update={"costs": ()}))
    return kept


def digest_basis(recovery: Recovery) -> str:
    """A digest of what a plan is made of. It changes when somebody chooses anything else."""
    return seal({name: recovery.choices.get(name) or None for name in BASIS})


def refuse_changed_basis(recovery: Recovery, asked: str) -> None:
    """Raise Refused where the choices are no longer those of which a plan was asked for (`digest_basis`): it would be
    sealed in the name of somebody who chose something else."""
    if digest_basis(recovery) != asked:
        raise Refused(
            f"The choices of {recovery.label} were changed while its plan was being sealed, so no plan was sealed. "
            "Look at them, then seal again.",
            code="choices_changed",
        )
