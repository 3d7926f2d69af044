"""Offset lines of sources other than files: distinguished by their shape, kept as they are, read into plain values.

Shapes: KafkaSourceOffset, DeltaSourceOffset (delta-io), StreamingOffset (Iceberg), RatePerMicroBatchStreamOffset,
LongOffset; Auto Loader, Pub/Sub and Kinesis as documents show them. A line that has another shape, or one more key,
is of a source that is not known here.
"""

from collections.abc import Mapping
from typing import Any

from recovery.checkpoints.formats import Malformed, json_of, object_of, text_of

DELTA = {"reservoirId": str, "reservoirVersion": int, "index": int, "isStartingVersion": bool}
ICEBERG = {"version": int, "snapshot_id": int, "position": int, "scan_all_files": bool}
RATE_PER_MICRO_BATCH = {"offset": int, "timestamp": int}
# Of Databricks' sources, from documents and published progress events alone.
AUTO_LOADER = {"seqNum": int, "sourceVersion": int}
AUTO_LOADER_MAY = {"lastBackfillStartTimeMs", "lastBackfillFinishTimeMs", "lastInputPath"}
PUBSUB = {"sourceVersion": int, "seqNum": int, "fetchEpoch": int}
KINESIS_SHARD = {
    "iteratorType": str,
    "iteratorPosition": str,
}  # KinesisSourceOffset of the open-source connector

EXACT = (("iceberg", ICEBERG), ("rate-micro-batch", RATE_PER_MICRO_BATCH), ("pubsub", PUBSUB))


def read_position(offset_json: str | None, first_entry: bytes | None) -> tuple[str, Mapping[str, Any] | None]:
    """(kind, position): "kafka", "delta", "iceberg", "rate", "rate-micro-batch", "auto-loader", "pubsub" or
    "kinesis"; else "unknown" and None.

    `first_entry`: content of entry 0 in the source's own log. A number alone is a rate source's only where that
    entry holds the start time that a rate source writes; a socket's offset is a number too.
    Positions: kafka {topic: {partition: next offset}}; rate {seconds, start_ms}; kinesis, where the line is a list,
    {shard: last sequence number}; the others the line's own keys.
    """
    if offset_json is None:
        return "unknown", None
    try:
        body = json_of(offset_json)
    except Malformed:
        return "unknown", None
    if type(body) is int:
        start = _rate_start(first_entry)
        return ("unknown", None) if start is None else ("rate", {"seconds": body, "start_ms": start})
    if isinstance(body, list) and (shards := kinesis_shards(body)):
        return "kinesis", shards
    if not isinstance(body, dict) or not body:
        return "unknown", None
    for kind, shape in EXACT:
        if _has_shape(body, shape) and set(body) == set(shape):
            return kind, body
    if _has_shape(body, AUTO_LOADER) and set(body) <= set(AUTO_LOADER) | AUTO_LOADER_MAY:
        return "auto-loader", body
    if _is_kinesis(body):
        return "kinesis", body
    if _has_shape(body, DELTA) and type(body.get("sourceVersion")) is int:
        return "delta", body
    return ("kafka", body) if is_kafka(body) else ("unknown", None)


def initial_offsets(data: bytes) -> Mapping[str, Any]:
    """What a Kafka source began at: a NUL byte, `v1`, JSON (KafkaSourceInitialOffsetWriter). Raises Malformed."""
    head, _, rest = data.partition(b"\n")
    if head != b"\0v1":
        raise Malformed("it is not the log of a Kafka source")
    body = object_of(text_of(rest))
    if not is_kafka(body):
        raise Malformed("it does not hold offsets by topic and partition")
    return body


def describe_position(kind: str, position: Mapping[str, Any]) -> str:
    """The position in a few words."""
    if kind == "kafka":
        parts = [f"{topic}[{p}] at {o}" for topic, held in position.items() for p, o in held.items()]
        return ", ".join(parts[:8]) + (f" and {len(parts) - 8} more" if len(parts) > 8 else "")
    return ", ".join(f"{key} {value}" for key, value in position.items())


def kinesis_shards(body: list[Any]) -> dict[str, str | None]:
    """Shard -> last sequence number (None: nothing was read), of Databricks' list of shards; empty for any other list.

    A shard of a second stream has that stream's name before its own, since shards of all streams are numbered alike.
    """
    shards: dict[str, str | None] = {}
    first = None
    for held in body:
        shard = held.get("shard") if isinstance(held, dict) else None
        if not isinstance(shard, dict) or not _has_shape(shard, {"shardId": str}) or "lastSeqNum" not in held:
            return {}
        stream, last = shard.get("stream"), held["lastSeqNum"]
        if not isinstance(stream, str | None) or not isinstance(last, str | None):
            return {}
        first = stream if first is None else first
        shards[shard["shardId"] if stream == first else f"{stream}/{shard['shardId']}"] = last or None
    return shards if len(shards) == len(body) else {}


def _has_shape(body: Mapping[str, Any], shape: Mapping[str, type]) -> bool:
    return all(type(body.get(key)) is kind for key, kind in shape.items())


def _is_kinesis(body: Mapping[str, Any]) -> bool:
    shards = [held for key, held in body.items() if key != "metadata"]
    known = all(isinstance(held, dict) and _has_shape(held, KINESIS_SHARD) for held in shards)
    return isinstance(body.get("metadata"), dict) and bool(shards) and known


def is_kafka(body: Mapping[str, Any]) -> bool:
    """Whether this is {topic: {partition: offset}} (KafkaSourceOffset)."""
    return all(
        isinstance(held, dict)
        and held
        and all(p.isascii() and p.isdigit() and type(o) is int for p, o in held.items())
        for held in body.values()
    )


def _rate_start(data: bytes | None) -> int | None:
    head, _, rest = (data or b"").partition(b"\n")
    known = head == b"v1" and rest.isdigit() and len(rest) < 19
    return int(rest) if known else None
