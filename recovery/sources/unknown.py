"""A source that no one here can position: its offset is kept verbatim, and nothing is promised about it. Pure.

It can be seeded where it stood: Spark hands the line back to the source that wrote it.
"""

from dataclasses import dataclass

from recovery.checkpoints.report import SourceProgress
from recovery.sources import unparsed_offsets
from recovery.sources.base import (
    Distance,
    PartChange,
    Position,
    PositionPart,
    Precision,
    SourceFacts,
    SourceRetention,
    StartCandidate,
    StartChoice,
    StartOption,
)
from recovery.sources.comparing import find_empty_start as find_empty_start

KIND = "unknown"
CAN = unparsed_offsets.CAN
UNIT = "row"
OF = "a source that is not known here"


@dataclass(frozen=True)
class UnknownSourceFacts:
    """Nothing is asked of such a source. `asked_ms`: when the position was read, ms since the epoch."""

    asked_ms: int = 0


def list_parts(offset_json: str | None) -> tuple[PositionPart, ...]:
    """One part: the line itself, whatever it holds. Never raises Malformed."""
    return unparsed_offsets.list_parts(offset_json)


def label_position(offset_json: str | None) -> str:
    """The line unchanged."""
    return unparsed_offsets.label_position(offset_json)


def compare_positions(before: str | None, after: str | None) -> tuple[PartChange, ...]:
    """Equal or unclear."""
    return unparsed_offsets.compare_positions(before, after)


def measure_distance(start: str | None, end: str | None, facts: UnknownSourceFacts) -> Distance:
    """Zero between equal lines; else not known."""
    return unparsed_offsets.measure_distance(start, end)


def judge_reach(offset_json: str | None, facts: UnknownSourceFacts) -> SourceRetention:
    """Not known: the source was not asked."""
    return SourceRetention(None, "This source is not known here, so what it still holds was not read.")


def find_start_option(offset_json: str | None, facts: UnknownSourceFacts) -> StartOption:
    """None: which options such a source has is not known."""
    return StartOption(
        False,
        Precision.UNKNOWN,
        note="Which start options this source has is not known here. Keep its offset: seed the checkpoint, which "
        "hands the line back to the source as it wrote it.",
    )


def find_position(wanted: StartChoice, committed: str | None, facts: UnknownSourceFacts) -> StartCandidate:
    """By hand only; what that costs is not known. Raises Refused for any other wish."""
    return unparsed_offsets.by_hand(wanted, committed, OF)


def source_facts(
    progress: SourceProgress, *, location: str, max_files_per_trigger: int | None = None
) -> SourceFacts:
    """Facts that say that nothing is known beyond the offset line itself."""
    return SourceFacts(
        position=Position(
            source=progress.name or progress.index,
            kind="unknown",
            offset_json=progress.offset_json,
            label=label_position(progress.offset_json),
            precision=Precision.UNKNOWN,
            reachable=None,
        ),
        location=location,
        processed=(),
        waiting=(),
        max_files_per_trigger=max_files_per_trigger,
    )
