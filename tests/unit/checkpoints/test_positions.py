"""Offset lines of sources that are not files: known by their shape or not at all, and kept as they are."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.checkpoints import inspect_checkpoint
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.positions import initial_offsets, read_position
from tests.checkpoint_builder import CONF, Built, dumps, put

KAFKA = {"orders": {"0": 123, "1": 45}, "payments": {"0": 9}}
DELTA = {
    "sourceVersion": 1,
    "reservoirId": "7b1e",
    "reservoirVersion": 4,
    "index": -1,
    "isStartingVersion": False,
}
ICEBERG = {"version": 1, "snapshot_id": 77, "position": 2, "scan_all_files": False}
MICRO = {"offset": 3, "timestamp": 1000}
AUTO_LOADER = {"seqNum": 9, "sourceVersion": 1, "lastBackfillStartTimeMs": 1, "lastBackfillFinishTimeMs": 2}
PUBSUB = {"sourceVersion": 1, "seqNum": 4, "fetchEpoch": 2}
KINESIS = {
    "metadata": {"streamName": "s", "batchId": "0"},
    "shardId-000000000000": {"iteratorType": "AFTER_SEQUENCE_NUMBER", "iteratorPosition": "496"},
}


def shard(number: int, last: Any, stream: str = "s") -> dict[str, Any]:
    """One shard as Databricks' progress events list it."""
    named = {"stream": stream, "shardId": f"shardId-{number}"}
    return {"shard": named, "firstSeqNum": None, "lastSeqNum": last, "closed": False}


START = b"v1\n1790000000000"


@pytest.mark.parametrize(
    ("line", "first", "kind", "position"),
    [
        (dumps(KAFKA), b"\0v1\n{}", "kafka", KAFKA),
        (dumps(KAFKA), None, "kafka", KAFKA),
        (dumps(DELTA), None, "delta", DELTA),
        (dumps({**DELTA, "eventTimeMillis": 5}), None, "delta", {**DELTA, "eventTimeMillis": 5}),
        (dumps(ICEBERG), None, "iceberg", ICEBERG),
        (dumps(MICRO), None, "rate-micro-batch", MICRO),
        ("7", START, "rate", {"seconds": 7, "start_ms": 1790000000000}),
        ("7", None, "unknown", None),
        ("7", b"v1\n", "unknown", None),
        ("-1", None, "unknown", None),
        ('{"offset": 5, "x": "y"}', None, "unknown", None),
        (dumps({**ICEBERG, "more": 1}), None, "unknown", None),
        (dumps(AUTO_LOADER), None, "auto-loader", AUTO_LOADER),
        (
            dumps({**AUTO_LOADER, "lastInputPath": "s3://b"}),
            None,
            "auto-loader",
            {**AUTO_LOADER, "lastInputPath": "s3://b"},
        ),
        (dumps({**AUTO_LOADER, "more": 1}), None, "unknown", None),
        (dumps(PUBSUB), None, "pubsub", PUBSUB),
        (dumps(KINESIS), None, "kinesis", KINESIS),
        (dumps([shard(0, "496"), shard(1, None)]), None, "kinesis", {"shardId-0": "496", "shardId-1": None}),
        (dumps([shard(0, "4"), shard(0, "5", "b")]), None, "kinesis", {"shardId-0": "4", "b/shardId-0": "5"}),
        (dumps([shard(0, "4"), shard(0, "5")]), None, "unknown", None),
        (dumps([shard(0, 4)]), None, "unknown", None),
        (dumps([shard(0, "4"), 7]), None, "unknown", None),
        ('[{"shard":{"stream":"s","shardId":"a"}}]', None, "unknown", None),
        ("[]", None, "unknown", None),
        ('{"metadata":{}}', None, "unknown", None),
        ('{"orders":{"0":1.5}}', None, "unknown", None),
        ('{"orders":{}}', None, "unknown", None),
        ('{"orders":{"zero":1}}', None, "unknown", None),
        ("{}", None, "unknown", None),
        ("not json", None, "unknown", None),
        (None, None, "unknown", None),
    ],
)
def test_a_line_is_known_by_its_shape(
    line: str | None, first: bytes | None, kind: str, position: Any
) -> None:
    assert read_position(line, first) == (kind, position)


@given(st.one_of(st.none(), st.text()), st.one_of(st.none(), st.binary(max_size=40)))
def test_any_line_has_an_answer(line: str | None, first: bytes | None) -> None:
    kind, position = read_position(line, first)
    assert (kind == "unknown") == (position is None)


def test_what_a_kafka_source_began_at_is_read() -> None:
    assert initial_offsets(b"\0v1\n" + dumps(KAFKA).encode()) == KAFKA


@pytest.mark.parametrize("data", [b"", b"v1\n{}", b"\0v2\n{}", b"\0v1\n[]", b'\0v1\n{"a":1}', b"\0v1\n\xff"])
def test_anything_else_is_not_a_kafka_source_s_log(data: bytes) -> None:
    with pytest.raises(Malformed):
        initial_offsets(data)


def one_source(where: Path, line: str) -> Path:
    """A checkpoint with two committed batches of one source that stands at `line`."""
    header = dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1790000000000, "conf": CONF})
    put(where / "metadata", dumps({"id": "5b1c6c1e-92a5-4f0a-9d54-3a8f2f0c7a11"}))
    for batch in (0, 1):
        put(where / f"offsets/{batch}", f"v1\n{header}\n{line}")
        put(where / f"commits/{batch}", Built(where).commit(batch))
    return where


@pytest.mark.parametrize(
    ("line", "log", "kind", "codes"),
    [
        (dumps(KAFKA), {"0": "\0v1\n" + dumps(KAFKA)}, "kafka", {"SOURCE_KEPT"}),
        (dumps(KAFKA), {"0": "v1\nbroken"}, "kafka", {"SOURCE_KEPT", "KAFKA_START_UNREADABLE"}),
        (dumps(ICEBERG), {"offsets/0": dumps(ICEBERG)}, "iceberg", {"SOURCE_KEPT"}),
        (dumps(DELTA), {}, "delta", {"SOURCE_KEPT"}),
        ("12", {"0": START.decode()}, "rate", {"SOURCE_KEPT"}),
        ('{"offset": 5, "x": "y"}', {}, "unknown", {"SOURCE_UNKNOWN"}),
    ],
)
def test_the_line_is_kept_to_the_byte_beside_its_values(
    tmp_path: Path, line: str, log: dict[str, str], kind: str, codes: set[str]
) -> None:
    where = one_source(tmp_path / "ck", line)
    for name, text in log.items():
        put(where / "sources/0" / name, text)
    report = inspect_checkpoint(str(where))
    source = report.sources[0]
    assert (source.kind, source.offset_json) == (kind, line)
    assert {f.code for f in report.findings} == codes
    assert source.position is None or source.position == (
        {"seconds": 12, "start_ms": 1790000000000} if kind == "rate" else json.loads(line)
    )
    json.dumps(report.as_dict())
