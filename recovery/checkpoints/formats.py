"""Parsers of Spark's small checkpoint files: bytes in, frozen values or Malformed out. No I/O.

Sources: OffsetSeqLog (v1, v2), CommitLog (v1, v2, v3), StreamMetadata.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from recovery.bounded import TooMany, require_values

LINE_END = re.compile(r"\r\n|\r|\n")
UUID = re.compile(r"[0-9a-fA-F]+(-[0-9a-fA-F]+){4}")
KNOWN = {"offsets": (1, 2), "commits": (1, 2, 3), "sources": (1,)}
MAX_SOURCES = 1000  # of one query


class Malformed(Exception):
    """These bytes are not what Spark writes. `why` is for people; `newer` the version, if that is the reason."""

    def __init__(self, why: str, newer: str | None = None) -> None:
        super().__init__(why)
        self.why, self.newer = why, newer


@dataclass(frozen=True)
class OffsetLine:
    """One source's line: key (index, or name in v2) and the exact offset text (None for `-`)."""

    key: str
    offset_json: str | None


@dataclass(frozen=True)
class OffsetFile:
    """One file of offsets/. Times are epoch milliseconds."""

    version: int
    watermark_ms: int
    timestamp_ms: int
    conf: dict[str, str]
    sources: tuple[OffsetLine, ...]
    #: v2: the operation of a batch that Spark put in by itself (a repartition), else None
    control: str | None = None
    #: the header has a conf at all, as it has since Spark 2.2
    settings: bool = True


@dataclass(frozen=True)
class CommitFile:
    """One file of commits/. `operators` are the ids named in stateUniqueIds (v2, v3), else empty.

    `sinks` (v3): names in sinkMetadataMap, the active ones first.
    """

    version: int
    watermark_ms: int
    operators: tuple[str, ...] = ()
    body: dict[str, Any] = field(default_factory=dict)
    sinks: tuple[str, ...] = ()


def text_of(data: bytes) -> str:
    """UTF-8 text, or Malformed."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed("it is not UTF-8 text") from error


def lines_of(data: bytes) -> list[str]:
    """Lines as Java's readers end them, also where a person's editor wrote the file."""
    return LINE_END.split(text_of(data))


def json_of(text: str) -> Any:
    """JSON, or Malformed: also for nesting and numbers beyond reason, and for what readers take differently.

    Which of two equal keys counts depends on the reader; half a surrogate pair cannot be written anywhere.
    """
    try:
        require_values(text.encode())
        value = json.loads(text, object_pairs_hook=_refuse_repeated_keys)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError as error:
        raise Malformed("it holds half of a character") from error
    except TooMany as error:
        raise Malformed(f"it holds {error}") from error
    except (ValueError, RecursionError) as error:
        raise Malformed("it is cut short or is not JSON") from error


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    body = dict(pairs)
    if len(body) < len(pairs):
        raise Malformed("it has a key twice")
    return body


def object_of(text: str) -> dict[str, Any]:
    value = json_of(text)
    if not isinstance(value, dict):
        raise Malformed("it does not hold a JSON object")
    return value


def number_of(body: dict[str, Any], name: str) -> int:
    value = body.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Malformed(f"{name} is missing or is not a whole number")
    return value


def version_of(line: str, log: str) -> int:
    """`v1` -> 1. Malformed for anything else; `newer` set for a version that is not known here."""
    if not line.startswith("v") or not line[1:].isascii() or not line[1:].isdigit() or len(line) > 9:
        raise Malformed("it does not begin with a version line")
    version = int(line[1:])
    if version not in KNOWN[log]:
        raise Malformed(f"it is in format {line}", newer=line)
    return version


def parse_metadata(data: bytes) -> str:
    """The query id."""
    if not data:
        raise Malformed("it is empty")
    query_id = object_of(text_of(data)).get("id")
    if not isinstance(query_id, str) or not query_id:
        raise Malformed("it has no id")
    if not UUID.fullmatch(query_id) or len(query_id) > 36:
        raise Malformed("its id is not a UUID")
    return query_id


def parse_offsets(data: bytes) -> OffsetFile:
    """v1: a line per source in plan order. v2: `<source>:<offset>` lines."""
    if not data:
        raise Malformed("it is empty")
    lines = lines_of(data)
    version = version_of(lines[0], "offsets")
    if len(lines) < 2:
        raise Malformed("it is cut short after the version line")
    header = object_of(lines[1])
    conf = header.get("conf", {})
    if not isinstance(conf, dict):
        raise Malformed("its conf is not a JSON object")
    _object_in(header, "sourceMetadataInfo")  # an object wherever Spark writes it
    body = lines[2:-1] if lines[-1] == "" else lines[2:]
    if len(body) > MAX_SOURCES:
        raise Malformed(f"it has {len(body)} source lines, more than the {MAX_SOURCES} read here")
    return OffsetFile(
        version,
        number_of(header, "batchWatermarkMs"),
        number_of(header, "batchTimestampMs"),
        {str(k): str(v) for k, v in conf.items()},
        tuple(_parse_offset_line(version, index, line) for index, line in enumerate(body)),
        _read_control_batch(header),
        "conf" in header,
    )


def _read_control_batch(header: dict[str, Any]) -> str | None:
    """OffsetSeqControlBatchInfo: operationType and perhaps operationInfo."""
    info = _object_in(header, "controlBatchInfo")
    return str(info.get("operationType", "unknown")) if info else None


def _object_in(body: dict[str, Any], name: str) -> dict[str, Any]:
    value = body.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Malformed(f"its {name} is not a JSON object")
    return value


def _parse_offset_line(version: int, index: int, line: str) -> OffsetLine:
    if version == 1:
        return OffsetLine(str(index), _parse_offset(line))
    key, colon, offset = line.partition(":")
    if not colon or not key:
        raise Malformed("a source line has no source before its colon")
    if key in (".", "..") or "/" in key or "\0" in key:
        raise Malformed("a source line names a source that cannot be a directory's name")
    return OffsetLine(key, _parse_offset(offset))


def _parse_offset(text: str) -> str | None:
    """A source's own text; what begins as a JSON object must be a whole one, as no source writes half of it."""
    if text.startswith("{"):
        json_of(text)
    return None if text == "-" else text


def parse_commit(data: bytes) -> CommitFile:
    """v1, v2 (with ids of the state files), v3 (and with named sinks).

    What is not there has Spark's default: watermark 0, no ids.
    """
    if not data:
        raise Malformed("it is empty")
    lines = lines_of(data)
    version = version_of(lines[0], "commits")
    body = object_of(lines[1]) if len(lines) > 1 else {}
    ids = body.get("stateUniqueIds") or {}
    if not isinstance(ids, dict):
        raise Malformed("its stateUniqueIds is not a JSON object")
    sink_metadata = _object_in(body, "sinkMetadataMap")
    sinks = sorted(
        sink_metadata,
        key=lambda name: not (isinstance(sink_metadata[name], dict) and sink_metadata[name].get("isActive")),
    )
    return CommitFile(
        version,
        number_of({"nextBatchWatermarkMs": 0, **body}, "nextBatchWatermarkMs"),
        tuple(ids),
        body,
        tuple(sinks),
    )


def log_offset(offset_json: str | None) -> int | None:
    """The log id of a file source's offset (`{"logOffset":12}`), None for any other source's offset."""
    if offset_json is None:
        return None
    try:
        body = json_of(offset_json)
    except Malformed:
        return None
    if not isinstance(body, dict) or set(body) != {"logOffset"}:
        return None
    value = body["logOffset"]
    return value if isinstance(value, int) and not isinstance(value, bool) else None
