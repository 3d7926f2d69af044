"""A diagnosis as text: what is so, what to do, what not to do, and the error itself last."""

from collections.abc import Iterable, Iterator
from textwrap import fill

from recovery.cli.answer import plain
from recovery.contracts.diagnosis import Diagnosis
from recovery.names import shown

SHOWN_ERROR = 1500  # characters
QUERY_BELOW = "=== Streaming Query ==="
"""Where Spark goes on with offsets and the whole plan of the query (StreamingQueryException)."""


def write_body(found: Diagnosis) -> Iterator[str]:
    """Everything below the head."""
    if found.says:
        yield from ("", fill(plain(found.says), 100))
    if found.do:
        yield from ("", "Do", *write_points(found.do))
    if found.dont:
        yield from ("", "Do not", *write_points(t.removeprefix("Do not ") for t in found.dont))
    if found.causes:
        yield from ("", "Spark says", write_error(found.causes[-1].message))


def write_error(message: str) -> str:
    """The error in Spark's words, without the query that it prints below them."""
    words = message[:SHOWN_ERROR].partition(QUERY_BELOW)[0]
    return fill(" ".join(shown(line) for line in words.split("\n")), 100)


def write_points(texts: Iterable[str]) -> list[str]:
    """Sentences as a list."""
    return [fill(plain(t), 100, initial_indent="  - ", subsequent_indent="    ") for t in texts]
