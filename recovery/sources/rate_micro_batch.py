"""The rate-micro-batch source: so many rows for every batch, with a timestamp that moves on evenly. Pure.

Source: RatePerMicroBatchStream.latestOffset: `{"offset":rows so far,"timestamp":ms}`; each batch adds `rowsPerBatch`
and `advanceMillisPerBatch`, from (0, `startTimestamp`). A start time later than a stored one is refused with
MALFORMED_STATE_IN_RATE_PER_MICRO_BATCH_SOURCE.INVALID_TIMESTAMP.
"""

from dataclasses import dataclass
from typing import NamedTuple

from recovery.checkpoints.formats import Malformed, number_of, object_of
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

KIND = "rate-micro-batch"
UNIT = "row"
OF = "a rate-micro-batch source"
CAN = ("at_ms", "earliest", "by_hand")
LIMIT = 2**62  # of a Java long


@dataclass(frozen=True)
class RateMicroBatchFacts:
    """Options of the reader; None: not known. Times in ms."""

    rows_per_batch: int | None = None
    start_ms: int = 0
    advance_ms: int = 1000
    asked_ms: int = 0


class RatePosition(NamedTuple):
    """Rows so far, and the timestamp that the next batch begins with, in ms."""

    rows: int
    at_ms: int


def list_parts(offset_json: str | None) -> tuple[PositionPart, ...]:
    """One part, in rows. Raises Malformed for another shape."""
    at = _parse_position(offset_json)
    return (PositionPart("rows", None if at is None else str(at.rows), label_position(offset_json)),)


def label_position(offset_json: str | None) -> str:
    at = _parse_position(offset_json)
    return (
        NOTHING_READ if at is None else f"{count_noun(at.rows, 'row')}, its time at {format_time(at.at_ms)}"
    )


def compare_positions(before: str | None, after: str | None) -> tuple[PartChange, ...]:
    return compare_parts(list_parts(before), list_parts(after), by_number)


def measure_distance(start: str | None, end: str | None, facts: RateMicroBatchFacts) -> Distance:
    """Rows, exact: they are what the offset counts."""
    old, new = (_parse_position(line) or RatePosition(0, facts.start_ms) for line in (start, end))
    if old == new:
        return ZERO
    return Distance(rows=Amount(value=abs(new.rows - old.rows)))


def judge_reach(offset_json: str | None, facts: RateMicroBatchFacts) -> SourceRetention:
    """Always: the rows are computed again."""
    _parse_position(offset_json)
    return SourceRetention(True, "This source makes its rows by counting; any of them can be made again.")


def find_start_option(offset_json: str | None, facts: RateMicroBatchFacts) -> StartOption:
    """None: `startTimestamp` moves the time of the rows, not their number."""
    _parse_position(offset_json)
    return StartOption(
        False,
        Precision.UNKNOWN,
        note="startTimestamp changes the time that rows carry, not which row comes first. Seed the checkpoint; "
        "rowsPerBatch, startTimestamp and advanceMillisPerBatch must stay as they are.",
    )


def find_position(wanted: StartChoice, committed: str | None, facts: RateMicroBatchFacts) -> StartCandidate:
    """The earliest, an offset by hand, or the batch whose rows carry a time."""
    _parse_position(committed)
    named = require_one_wish(wanted, of=OF, can=CAN)
    if named == "by_hand":
        standing = _parse_position(wanted.by_hand) or RatePosition(0, facts.start_ms)
    elif named == "earliest":
        standing = RatePosition(0, facts.start_ms)
    else:
        standing = _standing_at(wanted.at_ms or 0, facts)
    line = wanted.by_hand or f'{{"offset":{standing.rows},"timestamp":{standing.at_ms}}}'
    return build_candidate(
        line,
        label_position(line),
        compare_positions(committed, line),
        measure_distance(committed, line, facts),
    )


def _standing_at(at_ms: int, facts: RateMicroBatchFacts) -> RatePosition:
    """Before the first batch whose time is at or after `at_ms`."""
    if facts.rows_per_batch is None:
        raise Refused("How many rows a batch has is not known (rowsPerBatch). Give the offset by hand.")
    if at_ms < facts.start_ms or facts.advance_ms <= 0:
        raise Refused(
            f"{format_time(at_ms)} is before this source begins, at {format_time(facts.start_ms)}.",
            code="time_outside",
        )
    batches = -(-(at_ms - facts.start_ms) // facts.advance_ms)
    return RatePosition(batches * facts.rows_per_batch, facts.start_ms + batches * facts.advance_ms)


def _parse_position(offset_json: str | None) -> RatePosition | None:
    if offset_json is None:
        return None
    body = object_of(offset_json)
    if set(body) != {"offset", "timestamp"}:
        raise Malformed("it is not the offset of a rate-micro-batch source")
    standing = RatePosition(number_of(body, "offset"), number_of(body, "timestamp"))
    if not 0 <= standing.rows < LIMIT or not -LIMIT < standing.at_ms < LIMIT:
        raise Malformed("its numbers are outside of what Spark counts")
    return standing
