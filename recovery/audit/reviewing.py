"""Which acts someone else has to look at afterwards, and who that may be. Pure."""

from collections.abc import Collection
from typing import Final

from recovery.people.roles import rules_of

PRODUCTION: Final = "production"

DESTRUCTIVE: Final = frozenset({"recovery.execute", "recovery.resume", "recovery.rollback", "backup.remove"})
"""Acts that change checkpoints, code or tables once they are taken."""

GIVEN_UP: Final = frozenset({"recovery.skip", "step.statement"})
"""Acts by which someone's word takes the place of a step, its proof, or what a probe could not read."""

BREAK_GLASS: Final = "recovery.break_glass"

OF_THE_LOG: Final = frozenset({"audit.archive", "audit.key"})
"""Acts on the audit log itself."""


RETAG: Final = "pipeline.retag"


def why_reviewed(action: str, outcome: str, environment: str) -> str:
    """Why the act is put into the review queue: "break-glass", "production", "environment", "audit log"; "" for one
    that is not.

    An environment that no one described is held as production, as everywhere. A denied or refused act changed
    nothing and needs no review; a try at break-glass does, however it ended.
    """
    if action == BREAK_GLASS:
        return "break-glass"
    if outcome not in ("done", "unknown"):
        return ""
    if action in DESTRUCTIVE | GIVEN_UP and environment and rules_of(environment) == PRODUCTION:
        return "production"
    if action == RETAG:
        return "environment"
    return "audit log" if action in OF_THE_LOG else ""


def refusal_of_reviewer(by: str, took_part: Collection[str]) -> str:
    """Why `by` may not sign off an act in which these people took part; "" for who may."""
    if by in took_part:
        return f"{by} took part in this. It is reviewed by someone who did not."
    return ""
