"""Single parts of a position changed by hand, the others left as they stand: a wish by hand is a whole line. Pure."""

from collections.abc import Mapping

from recovery.errors import WrongUse
from recovery.sources.kafka_facts import EARLIEST, LATEST, Key, parse, written

KINDS = ("kafka",)
"""Kinds whose parts have positions of their own that a person can write."""
NAMED = {"earliest": EARLIEST, "latest": LATEST}


def edited(kind: str, offset_json: str | None, parts: Mapping[str, str]) -> str:
    """The offset line with some parts changed: `{"orders-3": "1200"}`, or `earliest`, `latest` in place of a number.

    Whether an offset is within bounds, and whether the partition is there, the source says (`registry.of(kind).at`).
    Raises WrongUse for a kind without such parts, and for what is no partition or no offset.
    """
    if kind not in KINDS:
        raise WrongUse(f"A source of kind {kind} has no parts that can be set one by one.")
    told: dict[Key, int] = parse(offset_json)
    for name, value in parts.items():
        told[_key(name)] = _offset(name, value.strip())
    return written(told)


def from_lines(text: str) -> dict[str, str]:
    """`orders-3 = 1200`, a part a line, as `{part: value}`. Raises WrongUse for a line without `=`."""
    found = {}
    for line in filter(None, (line.strip() for line in text.splitlines())):
        name, separator, value = line.rpartition("=")
        if not separator or not name.strip() or not value.strip():
            raise WrongUse(f"{line!r} sets no part. Write one a line, as orders-3 = 1200.")
        found[name.strip()] = value.strip()
    return found


def _key(name: str) -> Key:
    topic, _, number = name.rpartition("-")
    if not topic or not (number.isascii() and number.isdigit()) or len(number) > 9:
        raise WrongUse(f"{name!r} names no partition. Write it as orders-3: topic, hyphen, number.")
    return topic, int(number)


def _offset(name: str, value: str) -> int:
    if value in NAMED:
        return NAMED[value]
    if not (value.isascii() and value.isdigit()) or len(value) > 18:
        raise WrongUse(
            f"{value!r} is no offset for {name}. Write the next offset to read, earliest or latest."
        )
    return int(value)
