"""What is known of one file source: its log, its directory, and what both say of a set of files. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from recovery.checkpoints import formats
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.report import SourceEntry, SourceProgress
from recovery.checkpoints.uris import decoded
from recovery.sources.base import Amount, Distance, InputFile
from recovery.sources.comparing import count

DIRECTORY = "directory"  # the one part of such a source
MAX_FILE_AGE_MS = 7 * 24 * 3600 * 1000  # option maxFileAge, relative to the newest file seen
NO_AGE_MS = 2**63 - 1
AGE = re.compile(r"(\d{1,18})\s*(us|ms|s|m|min|h|d)?")
AGE_MS = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True)
class Facts:
    """One file source at `asked_ms` (ms since the epoch).

    `log`: entries of its log, in log order, committed and planned. `listing`: what lies there now, in listing order
    (None: it could not be listed). `rows`: rows by decoded URI, as far as they are known.
    """

    log: tuple[SourceEntry, ...] = ()
    listing: tuple[InputFile, ...] | None = None
    rows: Mapping[str, int] = field(default_factory=dict)
    max_file_age_ms: int = MAX_FILE_AGE_MS
    asked_ms: int = 0

    @cached_property
    def there(self) -> dict[str, InputFile]:
        """Listed files by decoded URI."""
        return {f.path: f for f in self.listing or ()}

    @cached_property
    def entries(self) -> dict[str, SourceEntry]:
        """Log entries by decoded URI, in the order in which Spark read them; the first of two of one name."""
        found: dict[str, SourceEntry] = {}
        for entry in in_order(self.log):
            found.setdefault(decoded(entry.path), entry)
        return found

    @property
    def newest_entry(self) -> int:
        """The newest log id; -1: the log is empty."""
        return max((e.batch_id for e in self.log), default=-1)

    def read_at(self, log_offset: int) -> dict[str, SourceEntry]:
        """What was read at an offset, by decoded URI."""
        return {path: e for path, e in self.entries.items() if e.batch_id <= log_offset}


def facts_of(
    progress: SourceProgress,
    listing: Sequence[InputFile] | None,
    *,
    asked_ms: int,
    rows: Mapping[str, int] | None = None,
    max_file_age_ms: int = MAX_FILE_AGE_MS,
) -> Facts:
    """Facts from a source's progress (its log is read again here) and what lies there now. Raises Unreachable."""
    log = (*progress.committed, *progress.planned)
    there = None if listing is None else tuple(listing)
    return Facts(log, there, rows or {}, max_file_age_ms, asked_ms)


def max_age_ms(options: Mapping[str, Any]) -> int:
    """How much older than the newest file a file may be and still be read, by the reader's options.

    Source: FileStreamOptions (maxFileAge), JavaUtils.timeStringAs (its units; ms without one), FileStreamSource (with
    latestFirst and a limit of files or bytes it does not hold).
    """
    told = {name.lower(): str(value).strip().lower() for name, value in options.items()}
    limited = "maxfilespertrigger" in told or "maxbytespertrigger" in told
    if told.get("latestfirst") == "true" and limited:
        return NO_AGE_MS
    found = AGE.fullmatch(told.get("maxfileage", ""))
    return int(int(found[1]) * AGE_MS[found[2] or "ms"]) if found else MAX_FILE_AGE_MS


def entry(offset_json: str | None) -> int | None:
    """The log id of an offset; -1 says that nothing was read."""
    if offset_json is None:
        return None
    found = formats.log_offset(offset_json)
    if found is None or not -1 <= found < 2**63:
        raise Malformed("it is not the offset of a file source")
    return found


def unread(read: Mapping[str, SourceEntry], facts: Facts) -> tuple[list[InputFile], list[InputFile]]:
    """Listed files that were not read, in the order in which Spark would take them: (new enough, too old).

    Too old are those that are older than the newest one read by more than maxFileAge: Spark never takes them.
    """
    found = by_time([f for f in facts.listing or () if f.path not in read])
    seen = newest(read)
    oldest = None if seen is None else seen - facts.max_file_age_ms
    new = [f for f in found if oldest is None or f.mtime_ms >= oldest]
    return new, [f for f in found if oldest is not None and f.mtime_ms < oldest]


def measured(paths: Sequence[str], facts: Facts, seconds: Amount | None = None) -> Distance:
    there = [facts.there[p].size for p in paths if p in facts.there]
    missing = len(paths) - len(there)
    size = Amount(
        sum(there), not missing, f"{count(missing, 'file')} not there to be measured" if missing else ""
    )
    known = all(p in facts.rows for p in paths)
    rows = Amount(sum(facts.rows[p] for p in paths)) if known else None
    return Distance(rows=rows, files=Amount(len(paths)), bytes=size, seconds=seconds)


def in_order(entries: Iterable[SourceEntry]) -> list[SourceEntry]:
    return sorted(entries, key=lambda e: e.batch_id)


def by_time(files: Sequence[InputFile]) -> list[InputFile]:
    return sorted(files, key=lambda f: f.mtime_ms)


def newest(read: Mapping[str, SourceEntry]) -> int | None:
    return max((e.timestamp_ms for e in read.values()), default=None)


def name(path: str) -> str:
    return path.rsplit("/", 1)[-1]
