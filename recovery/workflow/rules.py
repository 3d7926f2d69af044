"""What an environment asks for before a plan may run. An unknown environment is treated as production."""

from typing import Final

APPROVALS: Final[dict[str, int]] = {"development": 0, "staging": 1, "production": 2}


def approvals_needed(environment: str) -> int:
    """How many votes of other people a plan needs there."""
    return APPROVALS.get(environment, APPROVALS["production"])


def refusal(environment: str) -> str | None:
    """Why a plan may not run there yet; None where it may."""
    needed = approvals_needed(environment)
    if not needed:
        return None
    return (
        f"Environment {environment} asks for {needed} {'approval' if needed == 1 else 'approvals'} by other people, "
        "and this version cannot collect them yet. The plan was not run; take it to a development pipeline, or "
        "carry it out by hand under your own change procedure."
    )
