"""Event logs as Spark writes them, small, for tests: the lines, and the codecs that Spark may pack them with."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

LISTENER = "org.apache.spark.sql.streaming.StreamingQueryListener$"
QUERY, RUN = "3c8f6a10-52de-4b7e-9d41-a7c0e2b95f18", "0d9d2f6e-8a3b-4a55-9c1c-5f0b7c2f9a01"
FAILURE = (
    "org.apache.spark.sql.streaming.StreamingQueryException: [STREAM_FAILED] Query [id = "
    + QUERY
    + ", runId = "
    + RUN
    + "] terminated with exception: [STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA] Streaming "
    "stateful operator name does not match with the operator in state metadata. SQLSTATE: 42K03\n"
    "\tat org.apache.spark.sql.execution.streaming.StreamExecution.run(StreamExecution.scala:1)\n"
)


def line(event: dict[str, Any]) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


def started(
    app: str = "local-1",
    *,
    version: str = "4.2.0",
    at: int = 1_000,
    attempt: str | None = None,
    settings: Mapping[str, str] | None = None,
    system: Mapping[str, str] | None = None,
) -> list[bytes]:
    tried = {"App Attempt ID": attempt} if attempt else {}
    return [
        line({"Event": "SparkListenerLogStart", "Spark Version": version}),
        line({"Event": "SparkListenerEnvironmentUpdate",
              "Spark Properties": {"spark.master": "local[2]", "k": "s3cret", **(settings or {})},
              "System Properties": {"user.name": "etl", **(system or {})}}),
        line({"Event": "SparkListenerApplicationStart", "App Name": "orders", "App ID": app, "Timestamp": at,
              "User": "etl", **tried}),
    ]  # fmt: skip


def query_started(query: str = QUERY, run: str = RUN, name: str | None = "orders") -> bytes:
    return line({"Event": LISTENER + "QueryStartedEvent", "id": query, "runId": run, "name": name,
                 "timestamp": "2026-11-22T20:31:00.000Z", "jobTags": []})  # fmt: skip


def progress(batch: int, *, rows: int = 3, query: str = QUERY, run: str = RUN, ran: bool = True) -> bytes:
    took = {"triggerExecution": 900, **({"addBatch": 700} if ran else {})}
    return line({"Event": LISTENER + "QueryProgressEvent", "progress": {
        "id": query, "runId": run, "name": "orders", "timestamp": f"2026-11-22T20:31:{batch % 60:02d}.000Z",
        "batchId": batch, "numInputRows": rows, "durationMs": took, "stateOperators": [{"numRowsTotal": batch}],
        "sources": [{"description": "FileStreamSource[file:/in]", "startOffset": None,
                     "endOffset": {"logOffset": batch}}],
        "sink": {"description": "FileSink[file:/out]", "numOutputRows": -1},
    }})  # fmt: skip


def terminated(failure: str | None, *, query: str = QUERY, run: str = RUN) -> bytes:
    return line({"Event": LISTENER + "QueryTerminatedEvent", "id": query, "runId": run, "exception": failure,
                 "errorClassOnException": "STREAM_FAILED" if failure else None,
                 "timestamp": "2026-11-22T20:33:18.000Z"})  # fmt: skip


def ended(at: int = 9_000) -> bytes:
    return line({"Event": "SparkListenerApplicationEnd", "Timestamp": at})


def batch_plan(
    run: str = RUN,
    place: str = "file:/ck/orders",
    set_later: Mapping[str, str] | None = None,
    *,
    has_state: bool = True,
    inside_of: int | None = None,
) -> bytes:
    text = (
        "== Physical Plan ==\n* Project (3)\n+- StreamingDeduplicate (2)\n   +- Scan (1)\n\n\n(1) Scan json \n"
        "Output [2]: [id#5L, v#6]\n\n(2) StreamingDeduplicate\nInput [2]: [id#5L, v#6]\n"
        f"Arguments: [id#5L], state info [ checkpoint = {place}/state, runId = {run}, opId = 0, ver = 0, "
        "numPartitions = 2] stateStoreCkptIds = None\n\n(3) Project\nOutput [1]: [id#5L]\n"
    )
    text = text if has_state else "== Physical Plan ==\n* Project (1)\n"
    description = f"orders\nid = {QUERY}\nrunId = {run}\nbatch = 1"
    return line({"Event": "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart", "executionId": 1,
                 "rootExecutionId": 1 if inside_of is None else inside_of,
                 "description": description, "time": 1_763_843_460_500, "physicalPlanDescription": text,
                 "modifiedConfigs": dict(set_later or {})})  # fmt: skip


def zstd(pieces: Sequence[bytes]) -> bytes:
    """A frame for each piece, as Spark closes one at each flush."""
    return b"".join(pa.compress(piece, "zstd", asbytes=True) for piece in pieces)


def lz4(pieces: Sequence[bytes]) -> bytes:
    """Blocks of lz4-java; its checksums are not looked at in a log."""
    out = b""
    for piece in pieces:
        packed = pa.compress(piece, "lz4_raw", asbytes=True)
        out += b"LZ4Block" + bytes([0x25]) + _little(len(packed)) + _little(len(piece)) + b"\0\0\0\0" + packed
    return out + b"LZ4Block" + bytes([0x15]) + b"\0" * 12


def snappy(pieces: Sequence[bytes]) -> bytes:
    """A stream of snappy-java."""
    out = b"\x82SNAPPY\x00" + b"\0\0\0\1" * 2
    for piece in pieces:
        packed = pa.compress(piece, "snappy", asbytes=True)
        out += len(packed).to_bytes(4, "big") + packed
    return out


def lzf(pieces: Sequence[bytes]) -> bytes:
    """Chunks of Compress-LZF: the first as it is, the others packed (each byte run as literals of at most 32)."""
    out = b""
    for n, piece in enumerate(pieces):
        if n == 0:
            out += b"ZV\0" + len(piece).to_bytes(2, "big") + piece
            continue
        packed = b"".join(
            bytes([len(p) - 1]) + p for p in (piece[i : i + 32] for i in range(0, len(piece), 32))
        )
        out += b"ZV\1" + len(packed).to_bytes(2, "big") + len(piece).to_bytes(2, "big") + packed
    return out


def _little(number: int) -> bytes:
    return number.to_bytes(4, "little")
