"""Where a channel's secrets are: `env:` and `file:` references, held to names that are meant for this.

An admin of the console enters the reference, and the console sends what it finds (or signs with it). Any name
would let that admin send away a secret of the instance itself, so the name must say that it is for notifications.
"""

import os
import re
from pathlib import Path
from typing import Final

from recovery.errors import WrongUse

ENV: Final = re.compile(r"env:REPRISE_NOTIFY_[A-Z0-9_]{1,80}")
FILE: Final = re.compile(r"file:/(?:[^\x00-\x1f]{1,200}/)?notify[A-Za-z0-9._-]{0,80}")
LARGEST: Final = 16 * 1024
RULE: Final = "A reference is env:REPRISE_NOTIFY_… or file:/folder/notify…"


def is_reference(text: str) -> bool:
    return text.startswith(("env:", "file:"))


def check(ref: str) -> str:
    """The reference, when its name is one for notifications. Asks nothing. Raises WrongUse."""
    parts = ref.partition(":")[2].split("/")
    if (ENV.fullmatch(ref) or FILE.fullmatch(ref)) and ".." not in parts:
        return ref
    raise WrongUse(f"{RULE}: the name must say that it is meant for notifications.")


def read(ref: str) -> str:
    """The value behind a reference. Raises WrongUse naming the reference, never a value."""
    kind, _, rest = check(ref).partition(":")
    if kind == "env":
        found = os.environ.get(rest, "").strip()
    else:
        try:
            with Path(rest).open(encoding="utf-8") as file:
                found = file.read(LARGEST).strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            raise WrongUse(f"The worker cannot read {ref} ({why}).") from error
    if not found:
        raise WrongUse(f"The worker finds nothing under {ref}. Set it, then try again.")
    return found
