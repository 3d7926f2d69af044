"""A diagnosis as text: what is so, what to do, what not to do, and the error itself last."""

from collections.abc import Iterable, Iterator, Mapping
from textwrap import fill
from typing import Any

from recovery.management.commands._base import plain
from recovery.names import shown

SHOWN_ERROR = 1500  # characters


def body(found: Mapping[str, Any]) -> Iterator[str]:
    """All that stands below the head."""
    if found["says"]:
        yield from ("", fill(plain(found["says"]), 100))
    if found["do"]:
        yield from ("", "Do", *points(found["do"]))
    if found["dont"]:
        yield from ("", "Do not", *points(t.removeprefix("Do not ") for t in found["dont"]))
    if found["causes"]:
        yield from ("", "Spark says", fill(shown(found["causes"][-1]["message"][:SHOWN_ERROR]), 100))


def points(texts: Iterable[str]) -> list[str]:
    """Sentences as a list."""
    return [fill(plain(t), 100, initial_indent="  - ", subsequent_indent="    ") for t in texts]
