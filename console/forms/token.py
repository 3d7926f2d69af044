"""For how long a token was asked to be good."""

from typing import Final

from django.http import QueryDict

from recovery.errors import WrongUse
from recovery.numbers import whole

CHOICES: Final = (("1", "1 day"), ("30", "30 days"), ("90", "90 days"), ("365", "365 days"))
USUAL: Final = "30"


def read_days(post: QueryDict) -> int | None:
    """Days; None: as long as a token may be. Raises WrongUse for what is no number."""
    typed = str(post.get("days", "")).strip()
    days = whole(typed)
    if typed and days is None:
        raise WrongUse(f"A token is good for a number of days, not for {typed[:40]!r}. No token was made.")
    return days
