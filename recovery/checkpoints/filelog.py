"""Spark's compactible logs: a file source's `sources/<i>` and a file sink's `_spark_metadata`. No I/O.

Source: CompactibleFileStreamLog, FileStreamSourceLog, FileStreamSinkLog. Every entry file is `<id>` or, when
`(id + 1) % interval == 0`, `<id>.compact`, which holds every entry up to that id. A reader needs the newest
compacted file and all later ones.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from recovery.checkpoints import logscan
from recovery.checkpoints.formats import Malformed, json_of, number_of, text_of
from recovery.checkpoints.report import SourceEntry

NAME = re.compile(r"([0-9]{1,18})(\.compact)?")
MAX_INTERVAL = 1_000_000
DEFAULT_INTERVAL = 10  # spark.sql.streaming.fileSource.log.compactInterval


@dataclass(frozen=True)
class SinkEntry:
    """One data file in a sink's log: URL-encoded URI, bytes, mtime in ms, "add" or "delete"."""

    path: str
    size: int
    mtime_ms: int
    action: str


def parse_name(name: str) -> tuple[int, bool] | None:
    """(id, is compacted) of an entry file's name; None for any other file."""
    match = NAME.fullmatch(name)
    return (int(match[1]), bool(match[2])) if match else None


def index_of(names: Iterable[str]) -> dict[int, str]:
    """Entry id -> file name. Where both `9` and `9.compact` are there, the compacted one counts."""
    index: dict[int, str] = {}
    for name in names:
        parsed = parse_name(name)
        if parsed and (parsed[1] or parsed[0] not in index):
            index[parsed[0]] = name
    return index


def compacted_ids(index: Mapping[int, str]) -> list[int]:
    """Ids of compacted entries, ascending."""
    return sorted(i for i, name in index.items() if name.endswith(".compact"))


def compact_interval(index: Mapping[int, str], default: int = DEFAULT_INTERVAL) -> int:
    """The compact interval as Spark derives it at a start (CompactibleFileStreamLog.compactInterval)."""
    ids = compacted_ids(index)
    if len(ids) >= 2:
        return ids[-1] - ids[-2]
    return derive_interval(default, ids[0]) if ids else default


def derive_interval(default: int, latest: int) -> int:
    """The interval from one compacted id (CompactibleFileStreamLog.deriveCompactInterval)."""
    count = latest + 1
    if count <= default or default >= count // 2:
        return count
    # Spark looks on to count / 2; no interval is beyond a million, and a stray name may have 18 digits.
    return next((i for i in range(default, min(count // 2, MAX_INTERVAL) + 1) if count % i == 0), count)


def needed_entries(index: Mapping[int, str]) -> tuple[list[int], list[int]]:
    """(ids to read, ids that are missing): the newest compacted entry and all after it, else all from 0.

    An id whose turn it is to be compacted is missing too where only the plain entry is there: Spark asks for
    `<id>.compact`. The ids that are missing are at most the first thousand.
    """
    if not index:
        return [], []
    newest, start = max(index), (compacted_ids(index) or [0])[-1]
    present = sorted(i for i in index if i >= start)
    missing: list[int] = []
    expected = start
    for entry in present:
        missing.extend(range(expected, min(entry, expected + 1000 - len(missing))))
        expected = entry + 1
        if len(missing) >= 1000 or entry == newest:
            break
    if start and (every := compact_interval(index)) > 0:
        due = range(start + every - (start + 1) % every, newest + 1, every)
        missing.extend(i for i in due if index.get(i) == str(i))
    return present, sorted(missing[:1000])


def is_log_readable(index: Mapping[int, str], default: int) -> bool:
    """Would Spark find every file it asks for, if its configured interval were `default`?"""
    if not index:
        return True
    newest, every = max(index), compact_interval(index, default)
    if every <= 0:
        return False
    start = max(0, (newest + 1) // every * every - 1)
    if newest - start > len(index):
        return False
    return all(
        index.get(i) == (f"{i}.compact" if (i + 1) % every == 0 else str(i)) for i in range(start, newest + 1)
    )


def parse_source(data: bytes) -> list[SourceEntry]:
    """Entries of one file of a file source's log. Empty list: only the version line is there."""
    return [entry for block in logscan.iterate_blocks([data]) for entry in logscan.parse_entries(block)]


def parse_sink(data: bytes) -> list[SinkEntry]:
    """Entries of one file of a file sink's log."""
    return [_parse_sink_entry(body) for body in _parse_objects(data)]


def check_sink(pieces: Iterable[bytes]) -> None:
    """Is a file of a file sink's log whole? Raises Malformed, as `parse_sink` does; holds no entry."""
    for block in logscan.iterate_blocks(pieces):
        if not logscan.count_usual_lines(block, logscan.SINK_LINES, b'"action":'):
            for text in text_of(block).split("\n")[:-1]:
                _parse_sink_entry(json_of(text))


def source_lines(entries: Iterable[SourceEntry]) -> bytes:
    """A log file with these entries, in the bytes that Spark writes (json4s: no spaces, no escaped slash)."""
    lines = ["v1"]
    for e in entries:
        body = {"path": e.path, "timestamp": e.timestamp_ms, "batchId": e.batch_id}
        lines.append(json.dumps(body, separators=(",", ":"), ensure_ascii=False))
    return "\n".join(lines).encode()


def _parse_objects(data: bytes) -> list[Any]:
    return [json_of(t) for block in logscan.iterate_blocks([data]) for t in text_of(block).split("\n")[:-1]]


def _parse_sink_entry(body: Any) -> SinkEntry:
    if not isinstance(body, dict) or not isinstance(body.get("path"), str):
        raise Malformed("an entry has no path")
    return SinkEntry(
        body["path"], number_of(body, "size"), number_of(body, "modificationTime"), str(body.get("action"))
    )
