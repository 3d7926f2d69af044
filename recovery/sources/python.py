"""A Python data source: its offset is the author's own JSON, which only the author's reader understands. Pure.

Source: PythonMicroBatchStream and PythonStreamingSourceOffset (json.dumps of what `latestOffset()` returned, with
its spaces); DataSourceStreamReader.initialOffset, which Spark asks where a checkpoint holds no offset yet. Spark
compares offsets as text, so the bytes are kept. A simple reader's prefetched rows are in memory alone.
"""

from dataclasses import dataclass

from recovery.checkpoints.formats import json_of
from recovery.sources import unparsed_offsets
from recovery.sources.base import (
    Distance,
    PartChange,
    PositionPart,
    Precision,
    SourceRetention,
    StartCandidate,
    StartChoice,
    StartOption,
)
from recovery.sources.comparing import find_empty_start as find_empty_start

KIND = "python"
CAN = unparsed_offsets.CAN
UNIT = "row"
OF = "a Python data source"


@dataclass(frozen=True)
class PythonSourceFacts:
    """Nothing is asked of a reader that only the pipeline's code can run."""

    asked_ms: int = 0


def list_parts(offset_json: str | None) -> tuple[PositionPart, ...]:
    """One part, the author's JSON verbatim. Raises Malformed for what is no JSON."""
    return unparsed_offsets.list_parts(_require_json(offset_json))


def label_position(offset_json: str | None) -> str:
    """The author's JSON as it is."""
    return unparsed_offsets.label_position(_require_json(offset_json))


def compare_positions(before: str | None, after: str | None) -> tuple[PartChange, ...]:
    """Equal or unclear: the order of such offsets is the author's."""
    return unparsed_offsets.compare_positions(_require_json(before), _require_json(after))


def measure_distance(start: str | None, end: str | None, facts: PythonSourceFacts) -> Distance:
    """Zero between equal offsets; else only the author's reader could count."""
    return unparsed_offsets.measure_distance(_require_json(start), _require_json(end))


def judge_reach(offset_json: str | None, facts: PythonSourceFacts) -> SourceRetention:
    """Not known."""
    _require_json(offset_json)
    return SourceRetention(None, "Only the reader in the pipeline's code knows what this source still holds.")


def find_start_option(offset_json: str | None, facts: PythonSourceFacts) -> StartOption:
    """None of Spark's: a new query starts where the author's `initialOffset()` says."""
    line = _require_json(offset_json)
    return StartOption(
        False,
        Precision.UNKNOWN,
        place="the reader's initialOffset(), in the data source's code",
        code="" if line is None else f"return json.loads({line!r})",
        note="A Python data source has no start option of Spark's. Seed the checkpoint, or let the reader's "
        "initialOffset() return this position until the first batch is committed.",
    )


def find_position(wanted: StartChoice, committed: str | None, facts: PythonSourceFacts) -> StartCandidate:
    """By hand only. Raises Refused for any other wish, Malformed for what is no JSON."""
    _require_json(committed)
    if wanted.by_hand is not None:
        _require_json(wanted.by_hand)
    return unparsed_offsets.by_hand(wanted, committed, OF)


def _require_json(offset_json: str | None) -> str | None:
    if offset_json is not None:
        json_of(offset_json)
    return offset_json
