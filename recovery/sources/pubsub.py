"""Google Pub/Sub as Databricks reads it: a sequence number beside message ids that the checkpoint holds. Pure.

K: known from documents alone (progress events: `sourceVersion`, `seqNum`, `fetchEpoch`; the connector's page), never
run here. The offset counts what this very stream has fetched; which messages those were is in the checkpoint's own
store, and a message that was acknowledged is gone from the subscription. So a position means nothing without its
checkpoint, and every new start is at-least-once at best.
"""

from dataclasses import dataclass

from recovery.checkpoints.formats import Malformed, number_of, object_of
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
from recovery.sources.comparing import NOTHING_READ, by_number, compare_parts
from recovery.sources.comparing import find_empty_start as find_empty_start

KIND = "pubsub"
CAN = unparsed_offsets.CAN
UNIT = "message"
KEYS = {"sourceVersion", "seqNum", "fetchEpoch"}


@dataclass(frozen=True)
class PubSubFacts:
    """The service is not asked: the console holds no credentials of it."""

    asked_ms: int = 0


def list_parts(offset_json: str | None) -> tuple[PositionPart, ...]:
    """The subscription, with the sequence number. Raises Malformed for another shape."""
    at_number = _parse_position(offset_json)
    return (
        PositionPart(
            "subscription", None if at_number is None else str(at_number), label_position(offset_json)
        ),
    )


def label_position(offset_json: str | None) -> str:
    at_number = _parse_position(offset_json)
    return NOTHING_READ if at_number is None else f"sequence number {at_number:,} of this stream"


def compare_positions(before: str | None, after: str | None) -> tuple[PartChange, ...]:
    return compare_parts(list_parts(before), list_parts(after), by_number)


def measure_distance(start: str | None, end: str | None, facts: PubSubFacts) -> Distance:
    """Zero between equal offsets: a sequence number does not count rows."""
    for line in (start, end):
        _parse_position(line)
    return unparsed_offsets.measure_distance(start, end)


def judge_reach(offset_json: str | None, facts: PubSubFacts) -> SourceRetention:
    """Not known."""
    _parse_position(offset_json)
    return SourceRetention(
        None,
        "Pub/Sub drops a message once it is acknowledged and keeps the others for the subscription's retention "
        "(7 days by default); the subscription was not asked.",
    )


def find_start_option(offset_json: str | None, facts: PubSubFacts) -> StartOption:
    """None: a subscription is moved by a seek outside of Spark."""
    _parse_position(offset_json)
    return StartOption(
        False,
        Precision.AT_LEAST_ONCE,
        place="gcloud pubsub subscriptions seek <subscription> --time=<time>, while the stream is stopped",
        note="The reader has no start option. Seek the subscription to a time before the last committed batch, and "
        "let the target absorb the repeats: which rows come twice is not known beforehand. A seek goes back only "
        "as far as the subscription retains acknowledged messages.",
    )


def find_position(wanted: StartChoice, committed: str | None, facts: PubSubFacts) -> StartCandidate:
    """By hand only, and only as the position that was committed. Raises Refused for anything else."""
    _parse_position(committed)
    if wanted.by_hand is not None:
        _parse_position(wanted.by_hand)
    return unparsed_offsets.by_hand(wanted, committed, "a Pub/Sub source")


def _parse_position(offset_json: str | None) -> int | None:
    if offset_json is None:
        return None
    body = object_of(offset_json)
    if set(body) != KEYS:
        raise Malformed("it is not the offset of a Pub/Sub source")
    _, _, at_number = (number_of(body, key) for key in ("sourceVersion", "fetchEpoch", "seqNum"))
    return at_number
