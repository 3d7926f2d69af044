"""Kinds of source that Reprise does not ask: what their offset lines show, compared part by part. Pure.

Their lines can be seeded or are blocked (`checkpoints.starts`); no other start is computed for them. Sources: Spark's
RateStreamMicroBatchStream (a number of seconds), RatePerMicroBatchStream (`{"offset":rows so far,"timestamp":ms}`),
PythonMicroBatchStream (the author's own JSON, which Spark compares as text). Known from documents alone, never run:
Auto Loader, Kinesis, Pub/Sub.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from recovery.checkpoints.formats import Malformed, json_of, number_of, object_of
from recovery.checkpoints.positions import kinesis_shards
from recovery.contracts.readers import ReaderOptions
from recovery.sources import comparing
from recovery.sources.base import EmptyStart, PartChange, PartMove, PositionPart, SourceRetention
from recovery.sources.comparing import (
    NOTHING_READ,
    by_equality,
    by_number,
    compare_parts,
    count_noun,
    format_time,
)

LONG: Final = 2**62  # of a Java long
SHOWN_PARTS: Final = 4
SHOWN: Final = 200  # characters of a line in a label
MAX_SEQUENCE_NUMBER: Final = 256  # characters, longer than any that Kinesis gives
AUTO_LOADER: Final = {"seqNum", "sourceVersion"}
AUTO_LOADER_MAY: Final = {"lastBackfillStartTimeMs", "lastBackfillFinishTimeMs", "lastInputPath"}


@dataclass(frozen=True)
class UnaskedSource:
    """A kind whose lines are read and compared, and no more."""

    KIND: str
    UNIT: str
    #: what is known without asking
    reach: SourceRetention
    #: the parts of a line; raises Malformed for another shape
    read_parts: Callable[[str], tuple[PositionPart, ...]]
    #: which of two values of one part is ahead
    order: Callable[[str | None, str | None], PartMove] = by_equality
    #: name of the part where nothing was read yet; "": none
    part: str = "source"
    CAN: Sequence[str] = ()

    def list_parts(self, offset_json: str | None) -> tuple[PositionPart, ...]:
        if offset_json is None:
            return (PositionPart(self.part, None, NOTHING_READ),) if self.part else ()
        return self.read_parts(offset_json)

    def label_position(self, offset_json: str | None) -> str:
        """The position for people: the first parts, and how many more there are."""
        labels = [part.label for part in self.list_parts(offset_json)]
        more = f" and {len(labels) - SHOWN_PARTS} more shards" if len(labels) > SHOWN_PARTS else ""
        return ", ".join(labels[:SHOWN_PARTS]) + more or NOTHING_READ

    def compare_positions(self, before: str | None, after: str | None) -> tuple[PartChange, ...]:
        return compare_parts(self.list_parts(before), self.list_parts(after), self.order)

    def judge_reach(self, offset_json: str | None) -> SourceRetention:
        """The same for every line that can be read."""
        self.list_parts(offset_json)
        return self.reach

    def find_empty_start(self, options: ReaderOptions, facts: object) -> EmptyStart:
        return comparing.find_empty_start(options, facts)


def _read_verbatim(line: str) -> tuple[PositionPart, ...]:
    """The line as it is, its end cut where it is long."""
    text = line if line.strip() else f"an offset of {len(line)} blank characters"
    return (PositionPart("source", line, text if len(text) <= SHOWN else f"{text[:SHOWN]}…"),)


def _read_authors_json(line: str) -> tuple[PositionPart, ...]:
    json_of(line)
    return _read_verbatim(line)


def _read_seconds(line: str) -> tuple[PositionPart, ...]:
    seconds = json_of(line)
    if type(seconds) is not int or not 0 <= seconds < LONG:
        raise Malformed("it is not a number of seconds")
    return (PositionPart("seconds", str(seconds), f"{count_noun(seconds, 'second')} after its start"),)


def _read_rows_and_time(line: str) -> tuple[PositionPart, ...]:
    body = object_of(line)
    if set(body) != {"offset", "timestamp"}:
        raise Malformed("it is not the offset of a rate-micro-batch source")
    rows, at_ms = number_of(body, "offset"), number_of(body, "timestamp")
    if not 0 <= rows < LONG or not -LONG < at_ms < LONG:
        raise Malformed("its numbers are outside of what Spark counts")
    label = f"{count_noun(rows, 'row')}, its time at {format_time(at_ms)}"
    return (PositionPart("rows", str(rows), label),)


def _read_ledger_number(line: str) -> tuple[PositionPart, ...]:
    body = object_of(line)
    if not AUTO_LOADER <= set(body) <= AUTO_LOADER | AUTO_LOADER_MAY:
        raise Malformed("it is not the offset of an Auto Loader source")
    _, number = (number_of(body, key) for key in ("sourceVersion", "seqNum"))
    return (PositionPart("ledger", str(number), f"number {number:,} of the files discovered"),)


def _read_subscription(line: str) -> tuple[PositionPart, ...]:
    body = object_of(line)
    if set(body) != {"sourceVersion", "seqNum", "fetchEpoch"}:
        raise Malformed("it is not the offset of a Pub/Sub source")
    _, _, number = (number_of(body, key) for key in ("sourceVersion", "fetchEpoch", "seqNum"))
    return (PositionPart("subscription", str(number), f"sequence number {number:,} of this stream"),)


def _read_shards(line: str) -> tuple[PositionPart, ...]:
    """A part for every shard, sorted by name; its value is the sequence number, or the word that represents one."""
    body = json_of(line)
    shards = kinesis_shards(body) if isinstance(body, list) else _read_iterators(body)
    if not shards:
        raise Malformed("it is not the offset of a Kinesis source, or names no shard")
    if any(len(value or "") > MAX_SEQUENCE_NUMBER for value in shards.values()):
        raise Malformed("a sequence number is longer than any that Kinesis gives")
    return tuple(
        PositionPart(name, value, f"{name} after {value or 'no record'}")
        for name, value in sorted(shards.items())
    )


def _read_iterators(body: Any) -> dict[str, str | None]:
    if not isinstance(body, dict) or not isinstance(body.get("metadata"), dict):
        raise Malformed("it is not the offset of a Kinesis source")
    shards: dict[str, str | None] = {}
    for name, held in body.items():
        if name == "metadata":
            continue
        kind, position = (
            (held.get("iteratorType"), held.get("iteratorPosition"))
            if isinstance(held, dict)
            else (None, None)
        )
        if not isinstance(kind, str) or not isinstance(position, str):
            raise Malformed("a shard has no iterator of a Kinesis source")
        shards[name] = position or kind
    return shards


def _compare_sequence_numbers(before: str | None, after: str | None) -> PartMove:
    """Numbers are in order within a shard; TRIM_HORIZON and LATEST next to one are unclear."""
    numbers = all(v is not None and v.isascii() and v.isdigit() for v in (before, after))
    return by_number(before, after) if numbers else by_equality(before, after)


UNKNOWN: Final = UnaskedSource(
    "unknown",
    "row",
    SourceRetention(None, "This source is not known here, so what it still holds was not read."),
    _read_verbatim,
)
KINDS: Final = (
    UnaskedSource(
        "rate",
        "row",
        SourceRetention(True, "A rate source makes its rows by counting; any second can be made again."),
        _read_seconds,
        by_number,
        "seconds",
    ),
    UnaskedSource(
        "rate-micro-batch",
        "row",
        SourceRetention(True, "This source makes its rows by counting; any of them can be made again."),
        _read_rows_and_time,
        by_number,
        "rows",
    ),
    UnaskedSource(
        "python",
        "row",
        SourceRetention(None, "Only the reader in the pipeline's code knows what this source still holds."),
        _read_authors_json,
    ),
    UnaskedSource(
        "auto-loader",
        "file",
        SourceRetention(
            None,
            "The checkpoint holds which files were read: ask cloud_files_state, and list the directory.",
        ),
        _read_ledger_number,
        by_number,
        "ledger",
    ),
    UnaskedSource(
        "kinesis",
        "record",
        SourceRetention(
            None,
            "Kinesis keeps records for the stream's retention (24 hours by default, up to 365 days); the stream was "
            "not asked.",
        ),
        _read_shards,
        _compare_sequence_numbers,
        "",
    ),
    UnaskedSource(
        "pubsub",
        "message",
        SourceRetention(
            None,
            "Pub/Sub drops a message once it is acknowledged and keeps the others for the subscription's retention "
            "(7 days by default); the subscription was not asked.",
        ),
        _read_subscription,
        by_number,
        "subscription",
    ),
    UNKNOWN,
)
