"""A diagnosis as text: what is so, what to do, what not to do, and the error itself last."""

from collections.abc import Iterable, Iterator
from textwrap import fill

from recovery.cli.answer import plain
from recovery.contracts.diagnosis import Diagnosis
from recovery.names import shown

SHOWN_ERROR = 1500  # characters


def write_body(found: Diagnosis) -> Iterator[str]:
    """Everything below the head."""
    if found.says:
        yield from ("", fill(plain(found.says), 100))
    if found.do:
        yield from ("", "Do", *write_points(found.do))
    if found.dont:
        yield from ("", "Do not", *write_points(t.removeprefix("Do not ") for t in found.dont))
    if found.causes:
        yield from ("", "Spark says", fill(shown(found.causes[-1].message[:SHOWN_ERROR]), 100))


def write_points(texts: Iterable[str]) -> list[str]:
    """Sentences as a list."""
    return [fill(plain(t), 100, initial_indent="  - ", subsequent_indent="    ") for t in texts]
