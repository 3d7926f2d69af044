"""What every look at a source asks first: where it is, what its folder holds, where it ends."""

import time
from typing import Any, Final

from recovery.checkpoints.report import SourceProgress
from recovery.contracts.readers import SourceReader
from recovery.errors import Unreachable
from recovery.sources import file_facts
from recovery.sources.base import InputFile, PositionedSource, StartChoice
from recovery.sources.live import files as live_files

NO_PLACE: Final = "The code does not show where this source reads from, so it was not looked up."


def require_place(reader: SourceReader) -> str:
    """Where a source is. Raises Unreachable where that is not known."""
    if not reader.place:
        raise Unreachable(NO_PLACE)
    return reader.place


def list_source_files(reader: SourceReader) -> tuple[InputFile, ...] | None:
    """The files of a file source as Spark would list them now; None where its place is not known.

    Raises Unreachable where they cannot be listed.
    """
    return live_files.list_files(reader.place, options=reader.options) if reader.place else None


def facts_of_files(
    progress: SourceProgress, reader: SourceReader, listed: tuple[InputFile, ...] | None
) -> file_facts.FileSourceFacts:
    """The facts that positions of a file source are judged by, with what its listing showed."""
    return file_facts.facts_of(progress, listed, asked_ms=now_ms(), options=reader.options)


def end_of(kind: PositionedSource[Any], position: str | None, facts: Any) -> str | None:
    """The position behind everything that the facts show. Raises Refused where there is none."""
    return kind.find_position(StartChoice(latest=True), position, facts).offset_json


def now_ms() -> int:
    return round(time.time() * 1000)
