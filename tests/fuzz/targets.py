"""What is fuzzed: every parser of bytes, with examples in Spark's own bytes and the words that lead into it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from recovery.checkpoints import filelog, formats, logscan, positions
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.state.metadata import parse_metadata as parse_operator_metadata
from recovery.checkpoints.state.schema import parse_schema
from tests.checkpoint_builder import Built, dumps, state_schema

FOUND = Path(__file__).resolve().parents[1] / "fixtures" / "fuzz"
BUILT = Built(Path("/nowhere"))
V2 = Built(Path("/nowhere"), version=2)
SINK = {
    "path": "file:///t/part-0.parquet",
    "size": 700,
    "isDir": False,
    "modificationTime": 1,
    "blockReplication": 1,
    "blockSize": 33554432,
    "action": "add",
}
OPERATOR = {
    "operatorInfo": {"operatorId": 0, "operatorName": "dedupe"},
    "stateStoreInfo": [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 2}],
}
CONTROL = {
    "batchWatermarkMs": 0,
    "batchTimestampMs": 1,
    "conf": {"a": "b"},
    "sourceMetadataInfo": {},
    "controlBatchInfo": {"operationType": "repartition"},
}
SINKS = {"nextBatchWatermarkMs": 0, "stateUniqueIds": {}, "sinkMetadataMap": {"s": {"isActive": True}}}
KAFKA = b'{"orders":{"0":123,"1":45}}'
ICEBERG = b'{"version":1,"snapshot_id":77,"position":2,"scan_all_files":false}'


@dataclass(frozen=True)
class Target:
    """`act` takes any bytes: it returns or raises Malformed, and does nothing else."""

    name: str
    act: Callable[[bytes], object]
    examples: tuple[bytes, ...]


def position(data: bytes) -> object:
    """The line and the source's first log entry, parted by a NUL byte."""
    line, _, first = data.partition(b"\0")
    return positions.read_position(formats.text_of(line), first or None)


def both_readers_agree(data: bytes) -> object:
    """Counted piece by piece or parsed as a whole: the same entries, or Malformed from both."""
    pieces = [data[at : at + 37] for at in range(0, len(data), 37)]
    try:
        whole = filelog.parse_source(data)
    except Malformed:
        whole = None
    try:
        before, after = logscan.tally_entries(pieces, 5)
    except Malformed:
        assert whole is None, "the counting reader refuses what the other takes"
        raise
    assert whole is not None, "the counting reader takes what the other refuses"
    early = [e for e in whole if e.batch_id <= 5]
    late = [e for e in whole if e.batch_id > 5]
    assert (before.count, before.first) == (len(early), early[:100])
    assert (after.count, after.first) == (len(late), late[:100])
    return before


TARGETS = (
    Target("metadata", formats.parse_metadata, (b'{"id":"5b1c6c1e-92a5-4f0a-9d54-3a8f2f0c7a11"}',)),
    Target(
        "offsets",
        formats.parse_offsets,
        (BUILT.offsets(3).encode(), V2.offsets(3).encode(), f"v2\n{dumps(CONTROL)}\nname:-".encode()),
    ),
    Target(
        "commits",
        formats.parse_commit,
        (BUILT.commit(2).encode(), V2.commit(2).encode(), f"v3\n{dumps(SINKS)}".encode()),
    ),
    Target("operator", parse_operator_metadata, (f"v1\n{dumps(OPERATOR)}".encode(),)),
    Target("schema", parse_schema, (state_schema(["customer_id"]),)),
    Target(
        "source-log",
        both_readers_agree,
        ("\n".join(["v1", *BUILT.entries(0, 1), *BUILT.entries(0, 9)]).encode(), b"v1\n"),
    ),
    Target("sink-log", filelog.parse_sink, (f"v1\n{dumps(SINK)}\n{dumps(SINK)}".encode(),)),
    Target("sink-check", lambda d: filelog.check_sink([d]), (f"v1\n{dumps(SINK)}\n{dumps(SINK)}".encode(),)),
    Target("position", position, (KAFKA, ICEBERG, b"7\0v1\n1790000000000", b'{"offset":3,"timestamp":1}')),
    Target("kafka-start", positions.initial_offsets, (b"\0v1\n" + KAFKA,)),
)
