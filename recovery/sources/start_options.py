"""Options of readers that start an empty checkpoint at a position, as changes of code leave them in. Pure.

They must not stay: the next empty checkpoint would begin there again.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from recovery.sources import kafka_facts

NAMES: Final = (
    *kafka_facts.STARTING,  # of Kafka; a Delta table has startingTimestamp too
    "startingVersion",
    "modifiedAfter",
    "initialPosition",
    "stream-from-timestamp",
)
"""As the sources of this room propose them. Spark compares names of options without case."""
_ADDED: Final = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, NAMES))})(?![\w-])", re.IGNORECASE)


@dataclass(frozen=True)
class CodeStartOption:
    """A line that sets a start option."""

    #: as this module spells it
    name: str
    path: str
    #: without the space around it
    line: str


def list_left_in_code(changes: Iterable[tuple[str, str]]) -> tuple[CodeStartOption, ...]:
    """What changes of code, (path, unified diff) in the order in which they were made, put into it and did not take out
    again. A line that was only moved was there before; a comment sets nothing."""
    left: dict[tuple[str, str], None] = {}
    for path, diff in changes:
        removed = [line for sign, line in _list_lines(diff) if sign == "-"]
        added = [line for sign, line in _list_lines(diff) if sign == "+"]
        for line in removed:
            if line not in added:
                left.pop((path, line), None)
        left.update(dict.fromkeys((path, line) for line in added if line not in removed))
    options = ((_name_of(line), path, line) for path, line in left)
    return tuple(CodeStartOption(name, path, line) for name, path, line in options if name)


def _list_lines(diff: str) -> Iterator[tuple[str, str]]:
    """Sign and text of each line of the hunks."""
    _, at, hunks = diff.partition("\n@@")
    for line in f"{at}{hunks}".splitlines() if at else ():
        yield line[:1], line[1:].strip()


def _name_of(line: str) -> str:
    """The start option that a line sets, "" for none."""
    match = None if line.startswith(("#", "--")) else _ADDED.search(line)
    return "" if match is None else next(n for n in NAMES if n.lower() == match[1].lower())
