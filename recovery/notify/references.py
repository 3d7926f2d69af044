"""Where a channel's secrets are: references whose names say that they are meant for notifications."""

from typing import Final

from recovery import references
from recovery.errors import WrongUse
from recovery.references import is_reference

__all__ = ["RULE", "check_reference", "is_reference", "read_reference"]
RULE: Final = references.NOTIFICATIONS.rule


def check_reference(ref: str) -> str:
    """The reference, when its name is one for notifications. Asks nothing. Raises WrongUse."""
    return references.NOTIFICATIONS.check(ref)


def read_reference(ref: str) -> str:
    """The value behind a reference. Raises WrongUse naming the reference, never a value."""
    kind, _, rest = check_reference(ref).partition(":")
    try:
        value = references.from_environment(rest) if kind == "env" else references.from_file(rest)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise WrongUse(f"The worker cannot read {ref} ({why}).") from error
    if not value:
        raise WrongUse(f"The worker finds nothing under {ref}. Set it, then try again.")
    return value
