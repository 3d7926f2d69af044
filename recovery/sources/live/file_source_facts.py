"""What every look at a source asks first: where it is, how it is read, what its folder holds, where it ends.

`described` is one of `Study.sources`: {format, path, options, location}, of a table by name `table` too.
"""

import time
from collections.abc import Mapping
from typing import Any, Final

from recovery.checkpoints.report import SourceProgress
from recovery.errors import Unreachable
from recovery.sources import file_facts
from recovery.sources.base import InputFile, PositionedSource, StartChoice
from recovery.sources.live import files as live_files

NO_PLACE: Final = "The code does not show where this source reads from, so it was not looked up."


def options_of(described: Mapping[str, Any]) -> dict[str, Any]:
    """The reader's options, which may hold passwords."""
    return dict(described.get("options") or {})


def place_of(described: Mapping[str, Any]) -> str:
    """Where the files lie; "" where it is not known.

    `location` says it of every reader (`recovery.spark.replay`). `path` is what the code says: of a table by name that
    is its name, which is the place of nothing.
    """
    by_name = bool(described.get("table")) or described.get("format") == "table"
    return str(described.get("location") or ("" if by_name else described.get("path")) or "")


def known_place(described: Mapping[str, Any]) -> str:
    """As `place_of`. Raises Unreachable where it is not known."""
    place = place_of(described)
    if not place:
        raise Unreachable(NO_PLACE)
    return place


def list_source_files(described: Mapping[str, Any]) -> tuple[InputFile, ...] | None:
    """The files of a file source as Spark would list them now; None where its place is not known.

    Raises Unreachable where they cannot be listed.
    """
    place = place_of(described)
    return live_files.list_files(place, options=options_of(described)) if place else None


def facts_of_files(
    progress: SourceProgress, described: Mapping[str, Any], listed: tuple[InputFile, ...] | None
) -> file_facts.FileSourceFacts:
    """The facts that positions of a file source are judged by, with what its listing showed."""
    return file_facts.facts_of(progress, listed, asked_ms=now_ms(), options=options_of(described))


def end_of(kind: PositionedSource[Any], position: str | None, facts: Any) -> str | None:
    """The position behind everything that the facts show. Raises Refused where there is none."""
    return kind.find_position(StartChoice(latest=True), position, facts).offset_json


def now_ms() -> int:
    return round(time.time() * 1000)
