"""The file source: which files it has read, which wait, and in which order Spark will take them. Pure.

Source: FileStreamSource (SeenFilesMap, fetchMaxOffset). A file is known by its path alone: one that is written
again under the same name is not new. New files are taken by mtime, and in listing order where it is equal.
"""

from collections.abc import Iterable, Sequence

from recovery.checkpoints.report import SourceEntry, SourceProgress
from recovery.sources import unknown
from recovery.sources.base import InputFile, Position, Precision, SourceFacts
from recovery.sources.uris import decoded

MAX_FILE_AGE_MS = 7 * 24 * 3600 * 1000  # option maxFileAge, relative to the newest file seen


def source_facts(
    progress: SourceProgress,
    listing: Sequence[InputFile],
    *,
    location: str,
    max_files_per_trigger: int | None,
    max_file_age_ms: int = MAX_FILE_AGE_MS,
) -> SourceFacts:
    """Facts of one source from its progress and what lies there now (in listing order).

    `processed` is in the order in which Spark did read, `waiting` in the order in which it will. Files older
    than the newest one seen by more than `max_file_age_ms` are `ignored`: Spark never takes them.
    """
    if progress.kind != "files":
        return unknown.source_facts(progress, location=location, max_files_per_trigger=max_files_per_trigger)
    there = {f.path: f for f in listing}
    committed = _in_order(progress.committed)
    read = list(dict.fromkeys(decoded(e.path) for e in committed))
    seen = set(read)
    oldest = max((e.timestamp_ms for e in committed), default=0) - max_file_age_ms
    unread = sorted((f for f in listing if f.path not in seen), key=lambda f: f.mtime_ms)
    waiting = tuple(f for f in unread if not seen or f.mtime_ms >= oldest)
    by_time = sorted(listing, key=lambda f: f.mtime_ms)
    return SourceFacts(
        position=Position(
            source=progress.name or progress.index,
            kind="files",
            offset_json=progress.offset_json,
            label=_label(read, len(read) + len(waiting)),
            precision=Precision.EXACT,
            reachable=True,
            earliest=_name(by_time[0].path) if by_time else None,
            latest=_name(by_time[-1].path) if by_time else None,
        ),
        location=location,
        processed=tuple(there[path] for path in read if path in there),
        waiting=waiting,
        gone=tuple(path for path in read if path not in there),
        max_files_per_trigger=max_files_per_trigger,
        ignored=tuple(f for f in unread if seen and f.mtime_ms < oldest),
    )


def _in_order(entries: Iterable[SourceEntry]) -> list[SourceEntry]:
    return sorted(entries, key=lambda e: e.batch_id)


def _label(read: Sequence[str], total: int) -> str:
    if not read:
        return "nothing read yet"
    return f"file {len(read)} of {total}, {_name(read[-1])}"


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]
