"""Positions: where a source stands, in its own words and in people's.

A source adapter answers about one kind of source. Pure: it gets values that `live/` fetched.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Precision(StrEnum):
    EXACT = "exact"
    AT_LEAST_ONCE = "at_least_once"
    AT_MOST_ONCE = "at_most_once"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class InputFile:
    """One file that the source lists now: decoded URI, size in bytes, mtime in ms since the epoch."""

    path: str
    size: int
    mtime_ms: int


@dataclass(frozen=True)
class Position:
    """Where one source stands. `offset_json` is Spark's offset line, byte for byte (None: nothing read yet)."""

    source: int | str
    kind: str
    offset_json: str | None
    label: str
    precision: Precision
    reachable: bool | None  # can what comes next still be read? None: not known
    earliest: str | None = None
    latest: str | None = None


@dataclass(frozen=True)
class SourceFacts:
    """One source of a flow: its position, what it has read, what waits.

    `processed` are the files of committed batches, `waiting` the listed files in none of them, both
    in the order in which Spark would read them; `gone` are processed files that no longer exist.
    """

    position: Position
    location: str
    processed: tuple[InputFile, ...]
    waiting: tuple[InputFile, ...]
    gone: tuple[str, ...] = ()
    max_files_per_trigger: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # reader options that decide the listing
    ignored: tuple[InputFile, ...] = ()  # unread, but too old for Spark to take (maxFileAge)
