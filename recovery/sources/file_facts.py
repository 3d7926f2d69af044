"""What is known of one file source: its log, its directory, and what both say of a set of files. Pure."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from recovery.checkpoints import formats
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.report import SourceEntry, SourceProgress
from recovery.checkpoints.uris import decode_uri
from recovery.contracts.amounts import Amount, Bound
from recovery.contracts.readers import ReaderOptions
from recovery.sources.base import Distance, InputFile
from recovery.sources.comparing import count_noun

DIRECTORY = "directory"  # the one part of such a source
MAX_FILE_AGE_MS = 7 * 24 * 3600 * 1000  # option maxFileAge, relative to the newest file seen
NO_AGE_MS = 2**63 - 1
AGE = re.compile(r"(\d{1,18})\s*(us|ms|s|m|min|h|d)?")
AGE_MS = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True)
class FileSourceFacts:
    """One file source at `asked_ms` (ms since the epoch)."""

    #: entries of its log, in log order, committed and planned
    log: tuple[SourceEntry, ...] = ()
    #: what is there now, in listing order; None: it could not be listed
    listing: tuple[InputFile, ...] | None = None
    #: rows by decoded URI, as far as they are known
    rows: Mapping[str, int] = field(default_factory=dict)
    max_file_age_ms: int = MAX_FILE_AGE_MS
    asked_ms: int = 0
    latest_first: bool = False
    #: fileNameOnly: a file is known by its last name alone
    name_only: bool = False
    #: a batch takes at most so many files or bytes
    limited: bool = False

    @cached_property
    def there(self) -> dict[str, InputFile]:
        """Listed files by decoded URI."""
        return {f.path: f for f in self.listing or ()}

    @cached_property
    def entries(self) -> dict[str, SourceEntry]:
        """Log entries by decoded URI, in the order in which Spark read them first; of two of one name the later one,
        whose time is what Spark holds of it."""
        return {decode_uri(e.path): e for e in in_order(self.log)}

    @property
    def newest_entry(self) -> int:
        """The newest log id; -1: the log is empty."""
        return max((e.batch_id for e in self.log), default=-1)

    def read_at(self, log_offset: int) -> dict[str, SourceEntry]:
        """What was read at an offset, by decoded URI."""
        return {decode_uri(e.path): e for e in in_order(self.log) if e.batch_id <= log_offset}

    def between(self, low: int, high: int) -> list[str]:
        """What was read after one offset, up to another."""
        return list(dict.fromkeys(decode_uri(e.path) for e in in_order(self.log) if low < e.batch_id <= high))

    def key(self, path: str) -> str:
        """By what Spark knows a file again."""
        return file_name(path) if self.name_only else path

    def in_turn(self, files: Sequence[InputFile]) -> list[InputFile]:
        """Listed files in the order in which Spark takes them: by mtime, and in listing order where it is equal."""
        return sorted(files, key=lambda f: f.mtime_ms, reverse=self.latest_first)


def facts_of(
    progress: SourceProgress,
    listing: Sequence[InputFile] | None,
    *,
    asked_ms: int = 0,
    rows: Mapping[str, int] | None = None,
    options: ReaderOptions | None = None,
) -> FileSourceFacts:
    """Facts from a source's progress (its log is read again here) and what is there now. Raises Unreachable."""
    lower = _lower_options(options or {})
    return FileSourceFacts(
        log=(*progress.committed, *progress.planned),
        listing=None if listing is None else tuple(listing),
        rows=rows or {},
        max_file_age_ms=max_age_ms(lower),
        asked_ms=asked_ms,
        latest_first=latest_first(lower),
        name_only=lower.get("filenameonly") == "true",
        limited=_has_batch_limit(lower),
    )


def max_age_ms(options: ReaderOptions) -> int:
    """How much older than the newest file a file may be and still be read, by the reader's options.

    Source: FileStreamOptions (maxFileAge), JavaUtils.timeStringAs (its units; ms without one), FileStreamSource (with
    latestFirst and a limit of files or bytes it does not hold).
    """
    lower = _lower_options(options)
    if latest_first(lower) and _has_batch_limit(lower):
        return NO_AGE_MS
    match = AGE.fullmatch(lower.get("maxfileage", ""))
    return int(int(match[1]) * AGE_MS[match[2] or "ms"]) if match else MAX_FILE_AGE_MS


def latest_first(options: ReaderOptions) -> bool:
    """Whether the reader takes the newest files first."""
    return _lower_options(options).get("latestfirst") == "true"


def _lower_options(options: ReaderOptions) -> dict[str, str]:
    return {name.lower(): str(value).strip().lower() for name, value in options.items()}


def _has_batch_limit(lower: Mapping[str, str]) -> bool:
    return "maxfilespertrigger" in lower or "maxbytespertrigger" in lower


def log_entry_of(offset_json: str | None) -> int | None:
    """The log id of an offset; -1 says that nothing was read."""
    if offset_json is None:
        return None
    log_id = formats.log_offset(offset_json)
    if log_id is None or not -1 <= log_id < 2**63:
        raise Malformed("it is not the offset of a file source")
    return log_id


@dataclass(frozen=True)
class UnreadFiles:
    """Listed files that Spark does not hold as read, in the order in which it would take them."""

    #: Spark takes them, also those written again after being read
    new: tuple[InputFile, ...]
    #: older than the newest one read by more than maxFileAge: never taken
    late: tuple[InputFile, ...]
    #: a file of their name was read (fileNameOnly): never taken
    namesakes: tuple[InputFile, ...]
    #: why Spark may take others; "": it takes these
    unsure: str = ""

    @property
    def passed_over(self) -> tuple[InputFile, ...]:
        return (*self.late, *self.namesakes)


def list_unread(
    read: Mapping[str, SourceEntry], facts: FileSourceFacts, *, planned: bool = False
) -> UnreadFiles:
    """What follows, where the log names `read`. `planned`: what it names beyond that stays in it, as in a checkpoint
    that goes on; a seed leaves it out.

    Source: FileStreamSource (SeenFilesMap). After its start and after each batch Spark forgets what is older than the
    newest file by more than maxFileAge, and asks again until nothing is new: so a file that was forgotten and written
    again since is new, under its old name.
    """
    logged = {path: e for path, e in facts.entries.items() if path not in read} if planned else {}
    seen = {facts.key(path): e.timestamp_ms for path, e in (*read.items(), *logged.items())}
    first = _oldest_accepted_ms(seen, facts)
    new = [facts.there[path] for path in logged if path in facts.there]
    left, bound = facts.in_turn([f for f in facts.listing or () if f.path not in logged]), first
    while True:
        seen = {key: ms for key, ms in seen.items() if ms >= bound}
        taken = [f for f in left if f.mtime_ms >= bound and facts.key(f.path) not in seen]
        if not taken:
            break
        new += taken
        seen.update((facts.key(f.path), f.mtime_ms) for f in taken)
        gone = {f.path for f in taken}
        left, bound = [f for f in left if f.path not in gone], _oldest_accepted_ms(seen, facts)
    never = [f for f in left if f.path not in read]
    late = tuple(f for f in never if f.mtime_ms < first)
    namesakes = tuple(f for f in never if f.mtime_ms >= first)
    return UnreadFiles(tuple(new), late, namesakes, _explain_doubt(read, new, left, bound, facts))


def _oldest_accepted_ms(seen: Mapping[str, int], facts: FileSourceFacts) -> int:
    """What is older is forgotten, and not taken. With an empty log Spark counts from 0."""
    return max(seen.values(), default=0) - facts.max_file_age_ms


def _explain_doubt(
    read: Mapping[str, SourceEntry],
    new: Sequence[InputFile],
    left: Sequence[InputFile],
    bound: int,
    facts: FileSourceFacts,
) -> str:
    """Where batches are limited, how they are cut decides about files of one name, and about one written again that
    is forgotten in between, but too old in the end."""
    if not facts.limited:
        return ""
    held = Counter(facts.key(f.path) for f in new)
    if twice := next((key for key, n in held.items() if n > 1), None):
        return f"More than one unread file is called {twice}: which of them Spark reads is decided by its batches."
    between = [f for f in left if f.path in read and f.mtime_ms != read[f.path].timestamp_ms]
    if some := next((f for f in between if read[f.path].timestamp_ms < bound), None):
        return (
            f"{file_name(some.path)} was written again after being read: whether Spark reads it a second time is "
            "decided by its batches."
        )
    return ""


def list_rewritten(facts: FileSourceFacts) -> list[InputFile]:
    """Listed files that the log names with another time: what they held when they were read may be gone."""
    times = {path: e.timestamp_ms for path, e in facts.entries.items()}
    return [f for f in facts.listing or () if times.get(f.path, f.mtime_ms) != f.mtime_ms]


def measure_files(paths: Sequence[str], facts: FileSourceFacts, seconds: Amount | None = None) -> Distance:
    sizes = [facts.there[p].size for p in paths if p in facts.there]
    missing = len(paths) - len(sizes)
    size = Amount(
        value=sum(sizes),
        bound=Bound.ESTIMATE.unless(not missing),
        why=f"{count_noun(missing, 'file')} not there to be measured" if missing else "",
    )
    known = all(p in facts.rows for p in paths)
    rows = Amount(value=sum(facts.rows[p] for p in paths)) if known else None
    return Distance(rows=rows, files=Amount(value=len(paths)), bytes=size, seconds=seconds)


def in_order(entries: Iterable[SourceEntry]) -> list[SourceEntry]:
    return sorted(entries, key=lambda e: e.batch_id)


def by_time(files: Sequence[InputFile]) -> list[InputFile]:
    return sorted(files, key=lambda f: f.mtime_ms)


def newest_time(read: Mapping[str, SourceEntry]) -> int | None:
    return max((e.timestamp_ms for e in read.values()), default=None)


def file_name(path: str) -> str:
    return path.rsplit("/", 1)[-1]
