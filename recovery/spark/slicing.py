"""Batch frames over slices of sources that are no files: Kafka offsets, files of a Delta table (child process only).

A slice is `sources.input_ranges.InputRange.as_dict()`. What a slice names is read, whole, and nothing else.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from recovery.spark.paths import literal, plain

Slice = Mapping[str, Any]
Held = dict[str, dict[str, int]]  # topic -> partition -> offset
KAFKA_CHOICE = ("subscribe", "subscribepattern", "assign")
CHANGE = "_change_type"  # a column that a change feed has beside the table's
# Options of `KafkaSourceProvider` that say where a stream starts and stops and how much it takes at a time.
KAFKA_STREAM_ONLY = (
    "startingoffsets",
    "endingoffsets",
    "startingtimestamp",
    "endingtimestamp",
    "maxoffsetspertrigger",
    "minoffsetspertrigger",
    "maxtriggerdelay",
    "failondataloss",
)


def merge_slices(slices: Iterable[Slice]) -> list[Slice]:
    """The same content, nothing of it twice: ranges of a partition that meet are one, a Delta file is read once."""
    given = list(slices)
    return [*_kafka_rounds([s for s in given if s["kind"] == "kafka"]), *_delta_once(given)]


def _kafka_rounds(slices: Sequence[Slice]) -> list[Slice]:
    """One slice for the first range of every partition, one for the second of those that have one, and so on."""
    spans: dict[tuple[str, str], list[list[int]]] = {}
    for part in slices:
        for topic, held in part["start"].items():
            for number, start in held.items():
                spans.setdefault((topic, number), []).append([start, part["end"][topic][number]])
    rounds: list[tuple[Held, Held]] = []
    for (topic, number), ranges in sorted(spans.items()):
        for i, (start, end) in enumerate(_joined(ranges)):
            if i == len(rounds):
                rounds.append(({}, {}))
            rounds[i][0].setdefault(topic, {})[number] = start
            rounds[i][1].setdefault(topic, {})[number] = end
    return [{"kind": "kafka", "start": start, "end": end} for start, end in rounds]


def _joined(ranges: list[list[int]]) -> list[list[int]]:
    """Ranges [start, end) in order; those that overlap or touch are one, empty ones are left out."""
    joined: list[list[int]] = []
    for start, end in sorted(r for r in ranges if r[1] > r[0]):
        if joined and start <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([start, end])
    return joined


def _delta_once(slices: Sequence[Slice]) -> list[Slice]:
    """One slice with each file once; and, of a change feed, one for each run of versions."""
    seen: set[str] = set()
    by_version: dict[int, list[str]] = {}
    for part in slices:
        for version, paths in part.get("versions") or ():
            by_version.setdefault(version, []).extend(path for path in paths if path not in seen)
            seen.update(paths)
    versions = [[version, paths] for version, paths in sorted(by_version.items()) if paths]
    direct = all(part.get("direct") for part in slices if part.get("versions"))
    moments = [part["snapshot_ms"] for part in slices if part.get("snapshot_ms") is not None]
    spans = _joined([[part["changes"][0], part["changes"][1] + 1] for part in slices if part.get("changes")])
    once = {
        "kind": "delta",
        "versions": versions,
        "direct": direct,
        "snapshot_ms": max(moments, default=None),
    }
    feeds = [{"kind": "delta", "versions": [], "changes": [first, end - 1]} for first, end in spans]
    return [*([once] if versions else []), *feeds]


def kafka(spark: Any, plan: Any, stream: Any, slices: Sequence[Slice]) -> Any:
    """Records of the slices, as the reader of the stream would give them; none where they name none."""
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.plan import DataSource

    frames = [
        DataFrame(DataSource(format=plan._format, options=kafka_options(plan._options or {}, part)), spark)
        for part in slices
        if part["kind"] == "kafka"
    ]
    return _union(frames) or _nothing(stream)


def kafka_options(options: Mapping[str, str], part: Slice) -> dict[str, str]:
    """The reader's options for exactly the partitions and offsets of a slice.

    A batch reader demands that the offsets name every partition of its topics, so these are assigned by number.
    `failOnDataLoss` is left out: records that are gone must stop the count, not shorten it.
    """
    kept = {k: v for k, v in options.items() if not k.lower().startswith(KAFKA_STREAM_ONLY)}
    kept = {k: v for k, v in kept.items() if k.lower() not in KAFKA_CHOICE}
    numbers = {topic: sorted(int(n) for n in held) for topic, held in part["start"].items()}
    return {
        **kept,
        "assign": json.dumps(numbers),
        "startingOffsets": json.dumps(part["start"]),
        "endingOffsets": json.dumps(part["end"]),
    }


def delta(read: Any, parquet: Any, location: str, stream: Any, slices: Sequence[Slice]) -> Any:
    """Rows of the files that the slices name, each in the state of its version; none where they name none.

    `read(options)` reads the table, `parquet(schema, paths)` files below it. Where the slice does not say that its
    files stand for themselves (`sources.input_ranges.InputRange.direct`) the table is read and not its files, so that
    deletion vectors, column mapping and partition columns come out as they do in the stream; `_metadata.file_path`
    picks the files, and Spark reads all of the version for it. A change feed is read as one, by its versions.
    """
    frames = []
    for part in slices:
        for version, paths in part.get("versions") or ():
            if part.get("direct"):
                frames.append(parquet(bare(stream.schema), below(location, paths)))
                continue
            frame = _files_of(read({"versionAsOf": str(version)}), location, paths)
            at_ms = part.get("snapshot_ms")
            frames.append(frame if at_ms is None else _inserted(frame, version, at_ms))
        if changes := part.get("changes"):
            frames.append(read(changes_of(*changes)))
    if not frames:
        return _nothing(stream) if CHANGE in stream.schema.names else read({}).where("false")
    return _union([align_columns(f, stream.schema) for f in frames])


def changes_of(first: int, last: int) -> dict[str, str]:
    """Options of a batch reader for the change feed of these versions, both included."""
    return {"readChangeFeed": "true", "startingVersion": str(first), "endingVersion": str(last)}


def _inserted(frame: Any, version: int, at_ms: int) -> Any:
    """A snapshot as a change feed begins with it: every row was inserted by that version (CDCReader)."""
    from pyspark.sql import functions as F

    columns = {CHANGE: F.lit("insert"), "_commit_version": F.lit(version).cast("long")}
    return frame.withColumns({**columns, "_commit_timestamp": F.timestamp_millis(F.lit(at_ms))})


def _nothing(stream: Any) -> Any:
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.plan import LocalRelation

    return DataFrame(LocalRelation(None, schema=stream.schema.json()), stream._session)


def _files_of(frame: Any, location: str, paths: Sequence[str]) -> Any:
    from pyspark.sql import functions as F

    return frame.where(_path_of(F.col("_metadata.file_path")).isin(absolute(location, paths)))


def _path_of(column: Any) -> Any:
    """Decoded, without scheme and authority."""
    from pyspark.sql import functions as F

    whole = F.url_decode(F.replace(column, F.lit("+"), F.lit("%2B")))
    return F.regexp_replace(whole, _BEFORE_PATH, "/")


_BEFORE_PATH = "^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?/+"


def absolute(location: str, paths: Sequence[str]) -> list[str]:
    """Decoded paths without scheme and authority of files as a Delta log names them: relative to the table or whole."""
    root = plain(location).rstrip("/")
    decoded = [unquote(path) for path in paths]
    whole = [p if p.startswith("/") or re.match(_BEFORE_PATH, p) else f"{root}/{p}" for p in decoded]
    return [re.sub(_BEFORE_PATH, "/", plain(p)) for p in whole]


def below(location: str, paths: Sequence[str]) -> list[str]:
    """Relative paths of a log as a batch reader takes them: whole, decoded, and no pattern."""
    root = plain(location).rstrip("/")
    return [literal(f"{root}/{unquote(path)}") for path in paths]


def bare(schema: Any) -> Any:
    """Names and types alone: of what is noted at a column, a default value would be read into files without it."""
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(f.name, f.dataType, True) for f in schema.fields])


def align_columns(frame: Any, schema: Any) -> Any:
    """With the columns of a later schema: those that came after this version are NULL, as Delta reads them."""
    if frame.schema == schema:
        return frame
    return frame.to(_nullable(schema))


def _nullable(schema: Any) -> Any:
    """`DataFrame.to` refuses to put a column that may be NULL where the schema says it never is."""
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(f.name, f.dataType, True, f.metadata) for f in schema.fields])


def _union(frames: Sequence[Any]) -> Any | None:
    union = None
    for frame in frames:
        union = frame if union is None else union.unionAll(frame)
    return union
