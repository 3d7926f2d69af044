"""The rate source: seconds since the query was created. Made-up rows, so nothing is ever lost for good. Pure.

Source: RateStreamProvider.valueAtSecond, RateStreamMicroBatchStream; the offset is a number alone (LongOffset), and
entry 0 of the source's own log holds the creation time. It has no start option: seed the offset and that entry.
"""

from dataclasses import dataclass

from recovery.checkpoints.formats import Malformed, json_of
from recovery.contracts.amounts import Amount
from recovery.errors import Refused
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
from recovery.sources.comparing import (
    NOTHING_READ,
    ZERO,
    build_candidate,
    by_number,
    compare_parts,
    count_noun,
    format_time,
    require_one_wish,
)
from recovery.sources.comparing import find_empty_start as find_empty_start

KIND = "rate"
UNIT = "row"
OF = "a rate source"
CAN = ("at_ms", "earliest", "latest", "by_hand")
MAX_SECONDS = 2**62  # of a Java long


@dataclass(frozen=True)
class RateFacts:
    """Options of the reader (None: not known) and the creation time in entry 0 of its log; times in ms."""

    rows_per_second: int | None = None
    ramp_up_seconds: int = 0
    start_ms: int | None = None
    asked_ms: int = 0


def list_parts(offset_json: str | None) -> tuple[PositionPart, ...]:
    """One part, in seconds. Raises Malformed for anything but a whole number."""
    seconds = _parse_seconds(offset_json)
    return (PositionPart("seconds", None if seconds is None else str(seconds), label_position(offset_json)),)


def label_position(offset_json: str | None) -> str:
    seconds = _parse_seconds(offset_json)
    return NOTHING_READ if seconds is None else f"{count_noun(seconds, 'second')} after its start"


def compare_positions(before: str | None, after: str | None) -> tuple[PartChange, ...]:
    return compare_parts(list_parts(before), list_parts(after), by_number)


def measure_distance(start: str | None, end: str | None, facts: RateFacts) -> Distance:
    """Rows and seconds; rows are exact where the options are known (rowsPerSecond, rampUpTime)."""
    low, high = sorted((_parse_seconds(start) or 0, _parse_seconds(end) or 0))
    if low == high:
        return ZERO
    rows = None
    if facts.rows_per_second is not None:
        rows = Amount(
            value=_rows_made_after(high, facts.rows_per_second, facts)
            - _rows_made_after(low, facts.rows_per_second, facts)
        )
    return Distance(rows=rows, seconds=Amount(value=high - low))


def judge_reach(offset_json: str | None, facts: RateFacts) -> SourceRetention:
    """Always: the rows are computed again."""
    _parse_seconds(offset_json)
    return SourceRetention(True, "A rate source makes its rows by counting; any second can be made again.")


def find_start_option(offset_json: str | None, facts: RateFacts) -> StartOption:
    """None: a new query begins at its own creation time."""
    _parse_seconds(offset_json)
    return StartOption(
        False,
        Precision.UNKNOWN,
        note="A rate source has no start option: a new query counts from its own creation time. Seed the checkpoint, "
        "the source's log with it; rowsPerSecond and rampUpTime must stay as they are.",
    )


def find_position(wanted: StartChoice, committed: str | None, facts: RateFacts) -> StartCandidate:
    """A time, the earliest (second 0), the latest (now), or a number of seconds by hand."""
    _parse_seconds(committed)
    named = require_one_wish(wanted, of=OF, can=CAN)
    if named == "by_hand":
        seconds = _parse_seconds(wanted.by_hand) or 0
    elif named == "earliest":
        seconds = 0
    else:
        seconds = _second_at(wanted.at_ms if wanted.at_ms is not None else facts.asked_ms, facts)
    line = str(seconds)
    return build_candidate(
        line,
        label_position(line),
        compare_positions(committed, line),
        measure_distance(committed, line, facts),
    )


def _second_at(at_ms: int, facts: RateFacts) -> int:
    if facts.start_ms is None:
        raise Refused(
            "When this rate source was created is not known, so a time names no second of it. "
            "Give the number of seconds by hand."
        )
    if not facts.start_ms <= at_ms <= facts.asked_ms:
        raise Refused(
            f"{format_time(at_ms)} is outside of what this source has made: "
            f"{format_time(facts.start_ms)} to {format_time(facts.asked_ms)}.",
            code="time_outside",
        )
    return (at_ms - facts.start_ms) // 1000


def _rows_made_after(seconds: int, rows_per_second: int, facts: RateFacts) -> int:
    """Rows made in the first `seconds` seconds, in whole numbers as Spark's Longs count them."""
    speed = rows_per_second // (facts.ramp_up_seconds + 1)
    ramp = min(seconds, facts.ramp_up_seconds)
    return speed * ramp * (ramp + 1) // 2 + (seconds - ramp) * rows_per_second


def _parse_seconds(offset_json: str | None) -> int | None:
    if offset_json is None:
        return None
    body = json_of(offset_json)
    if type(body) is not int or not 0 <= body < MAX_SECONDS:
        raise Malformed("it is not a number of seconds")
    return body
