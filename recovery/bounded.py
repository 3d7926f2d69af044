"""JSON that others wrote, read within bounds: 64 MB of `{}` would be 1.6 GB of Python's dicts.

Bytes are for the caller to bound; values are counted here before any of them is made.
"""

import json
import re
from typing import Any, Final

MOST_VALUES: Final = 2_000_000
_TEXTS: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


class TooMany(ValueError):
    """A text holds more values than are read."""


def read_json(text: bytes, *, most: int | None = None, **hooks: Any) -> Any:
    """The value in a text of JSON that holds `most` values at the most (None: MOST_VALUES). `hooks`: as `json.loads`.

    Raises TooMany; ValueError for what is no JSON, or nested too deep.
    """
    require_values(text, MOST_VALUES if most is None else most)
    try:
        return json.loads(text, **hooks)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def require_values(text: bytes, most: int = MOST_VALUES) -> None:
    """Raises TooMany for a text of JSON that may hold more values than `most`."""
    if values_at_most(text) > most and values_at_most(_TEXTS.sub(b"", text)) > most:
        raise TooMany(f"more than {most} values")


def values_at_most(text: bytes) -> int:
    """No more values than this are in it: each but the first comes after one of these marks. Those in texts count."""
    return 1 + sum(text.count(mark) for mark in (b",", b"[", b"{", b":"))
