"""Pages and their opaque tokens.

The service refuses a page token together with a filter or an order, yet the official SDK sends both
again with every token: so a token carries the filter and the order of its first page, and whatever
comes beside it is ignored.
"""

import base64
import json
from dataclasses import dataclass

from recovery.server.fields import check_texts
from recovery.server.problems import invalid_request

LARGEST = 2**63 - 1  # what a database takes as a whole number


@dataclass(frozen=True)
class Page:
    """What one page asks for. `after` is the sort key of the last row of the page before, or None."""

    size: int
    filter: str = ""
    order: str = ""
    after: tuple[str | int, ...] | None = None

    def token(self, last: tuple[str | int, ...]) -> str:
        """The token of the page that follows a row with sort key `last`."""
        raw = json.dumps({"f": self.filter, "o": self.order, "a": list(last)}, separators=(",", ":"))
        return base64.urlsafe_b64encode(raw.encode()).decode().rstrip("=")


def page_size(text: str | None, *, default: int, most: int) -> int:
    """`max_results` as a number of 1..most. Raises ApiProblem 400 outside of it."""
    if text is None or text == "":
        return default
    try:
        size = int(text)
    except ValueError as error:
        raise invalid_request(f"max_results must be a number, not {text!r}.") from error
    if not 0 <= size <= most:
        raise invalid_request(f"max_results must be between 1 and {most}, not {size}.")
    return size or default


def read_page(
    *,
    size: int,
    token: str | None,
    filter_text: str,
    order: str,
    keys: tuple[type[str | int], ...] = (int, int),
) -> Page:
    """The page that a request asks for. Raises ApiProblem 400 for a token that we never gave.

    `keys`: of what kind the parts of a row's sort key are, so that a token which was made up asks for no others.
    """
    if not token:
        return Page(size, filter_text, order)
    try:
        raw = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        after = tuple(raw["a"])
        if tuple(map(type, after)) != keys or any(
            isinstance(key, int) and abs(key) > LARGEST for key in after
        ):
            raise ValueError("another sort key")
        check_texts(raw)
        return Page(size, str(raw["f"]), str(raw["o"]), after)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise invalid_request("The page token is not one that this server gave.") from error
