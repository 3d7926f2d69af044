"""Kinesis: a sequence number for every shard. Pure.

K: shapes known from documents alone, never run here. The open-source connector (KinesisSourceOffset) writes
`{"metadata":{"streamName":…,"batchId":…},"shardId-…":{"iteratorType":…,"iteratorPosition":…}}`; Databricks' progress
events show a list of `{"shard":{"stream":…,"shardId":…},"lastSeqNum":…}`. Sequence numbers rise within a shard and
say nothing of how many records lie between; a resharded stream continues in shards that are new. A fresh start is
by `initialPosition` (latest, trim_horizon, a time), which doubles or misses rows: at-least-once.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from recovery.checkpoints.formats import Malformed, json_of
from recovery.checkpoints.positions import kinesis_shards
from recovery.sources import unparsed_offsets
from recovery.sources.base import (
    Distance,
    PartChange,
    PartMove,
    PositionPart,
    Precision,
    SourceRetention,
    StartCandidate,
    StartChoice,
    StartOption,
)
from recovery.sources.comparing import NOTHING_READ, by_equality, by_number, compare_parts
from recovery.sources.comparing import find_empty_start as find_empty_start

KIND = "kinesis"
CAN = unparsed_offsets.CAN
UNIT = "record"
SHOWN_SHARDS = 4


@dataclass(frozen=True)
class KinesisFacts:
    """The service is not asked. `last_read_ms`: when the last committed batch was planned, ms since the epoch."""

    asked_ms: int = 0
    last_read_ms: int | None = None


def list_parts(offset_json: str | None) -> tuple[PositionPart, ...]:
    """A part for every shard, sorted by name; its value is the sequence number, or the word that represents one."""
    shards = {} if offset_json is None else _parse_shards(json_of(offset_json))
    return tuple(
        PositionPart(name, at, f"{name} after {at or 'no record'}") for name, at in sorted(shards.items())
    )


def label_position(offset_json: str | None) -> str:
    """The first shards by name."""
    parts = list_parts(offset_json)
    if not parts:
        return NOTHING_READ
    more = f" and {len(parts) - SHOWN_SHARDS} more shards" if len(parts) > SHOWN_SHARDS else ""
    return ", ".join(p.label for p in parts[:SHOWN_SHARDS]) + more


def compare_positions(before: str | None, after: str | None) -> tuple[PartChange, ...]:
    """Sequence numbers are in order within a shard; TRIM_HORIZON and LATEST beside one are unclear."""
    return compare_parts(list_parts(before), list_parts(after), _compare_sequence_numbers)


def measure_distance(start: str | None, end: str | None, facts: KinesisFacts) -> Distance:
    """Zero between equal positions: sequence numbers do not count records."""
    same = all(c.moved is PartMove.SAME for c in compare_positions(start, end))
    return unparsed_offsets.measure_distance(None, None) if same else Distance()


def judge_reach(offset_json: str | None, facts: KinesisFacts) -> SourceRetention:
    """Not known."""
    list_parts(offset_json)
    return SourceRetention(
        None,
        "Kinesis keeps records for the stream's retention (24 hours by default, up to 365 days); the stream was not "
        "asked.",
    )


def find_start_option(offset_json: str | None, facts: KinesisFacts) -> StartOption:
    """Databricks' `initialPosition` at the time of the last committed batch: at-least-once."""
    parts = list_parts(offset_json)
    if not parts or facts.last_read_ms is None:
        return StartOption(
            bool(not parts),
            Precision.AT_LEAST_ONCE,
            options={} if parts else {"initialPosition": "trim_horizon"},
            note="Start at the oldest record that is kept."
            if not parts
            else "The time of the last committed batch is not known, so no start option can be computed. Seed the "
            "checkpoint.",
        )
    at_text = datetime.fromtimestamp(facts.last_read_ms // 1000, UTC).strftime("%m/%d/%Y %H:%M:%S UTC")
    text = json.dumps({"at_timestamp": at_text, "format": "MM/dd/yyyy HH:mm:ss ZZZ"})
    return StartOption(
        True,
        Precision.AT_LEAST_ONCE,
        options={"initialPosition": text},
        code=f".option(\"initialPosition\", '{text}')",
        place="on the reader (spark.readStream), before load()",
        note="Known from documents, not run here. The time is that at which the last batch was planned, to the second: "
        "records that it read and that arrived in that second or later come twice; how many is not known. Take an "
        "earlier time where clocks differ, and let the target absorb the repeats.",
    )


def find_position(wanted: StartChoice, committed: str | None, facts: KinesisFacts) -> StartCandidate:
    """By hand only. Raises Refused for any other wish."""
    list_parts(committed)
    if wanted.by_hand is not None:
        list_parts(wanted.by_hand)
    return unparsed_offsets.by_hand(wanted, committed, "a Kinesis source")


def _compare_sequence_numbers(before: str | None, after: str | None) -> PartMove:
    numbers = all(v is not None and v.isascii() and v.isdigit() for v in (before, after))
    return by_number(before, after) if numbers else by_equality(before, after)


def _parse_shards(body: Any) -> dict[str, str | None]:
    shards = _parse_listed_shards(body) if isinstance(body, list) else _parse_mapped_shards(body)
    if not shards:
        raise Malformed("it names no shard of a Kinesis stream")
    return shards


def _parse_mapped_shards(body: Any) -> dict[str, str | None]:
    if not isinstance(body, dict) or not isinstance(body.get("metadata"), dict):
        raise Malformed("it is not the offset of a Kinesis source")
    shards = {name: held for name, held in body.items() if name != "metadata"}
    if not all(
        isinstance(held, dict)
        and isinstance(held.get("iteratorType"), str)
        and isinstance(held.get("iteratorPosition"), str)
        for held in shards.values()
    ):
        raise Malformed("a shard has no iterator of a Kinesis source")
    return {
        name: _require_short(held["iteratorPosition"] or held["iteratorType"])
        for name, held in shards.items()
    }


def _parse_listed_shards(body: list[Any]) -> dict[str, str | None]:
    shards = kinesis_shards(body)
    if not shards:
        raise Malformed("it is not the offset of a Kinesis source")
    return {name: _require_short(last) if last else None for name, last in shards.items()}


def _require_short(text: str) -> str:
    if len(text) > 256:
        raise Malformed("a sequence number is longer than any that Kinesis gives")
    return text
