"""What a file sink's log (`<table>/_spark_metadata`) says, and whether a next batch fits it.

Here and not in the sinks room, because an inspection compares the two and must not depend on that room.
Source: FileStreamSink.addBatch skips every batch id that is not above the newest one of this log.
"""

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from recovery.checkpoints import filelog
from recovery.checkpoints.file_listing import MAX_STREAM_BYTES
from recovery.checkpoints.filelog import SinkEntry
from recovery.checkpoints.findings import finding
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.report import Finding
from recovery.checkpoints.storage import MAX_FILES, Store, TooLarge

FOLDER = "_spark_metadata"
MAX_ENTRY_BYTES = 1 << 29
MAX_OWN_BYTES = 1 << 20  # of the entry of one batch, read to compare its age
SKEW_MS = 60_000  # by which the clocks of a driver and of a storage may differ where nothing measures it
MEASURED_SKEW_MS = 1_000  # and where it is measured: the coarsest time of a file
PLANNING_MS = 5_000  # the quickest batch of a checkpoint writes its offset file within this time


@dataclass(frozen=True)
class SinkLog:
    """`head`: newest batch id (None: no log). `batches`: batch id -> its data files, URL-encoded URIs.

    `older` are data files whose batch is no longer known: their own entries were compacted away.
    """

    present: bool
    head: int | None = None
    earliest: int | None = None
    batches: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    older: tuple[str, ...] = ()
    files: tuple[SinkEntry, ...] = ()
    findings: tuple[Finding, ...] = ()
    fingerprint: str = ""
    size_bytes: int = 0


def read_sink_log(table: Store) -> SinkLog:
    """Read a table's log. Raises OSError when the storage fails."""
    if not table.is_dir(FOLDER):
        return SinkLog(present=False)
    log = table.child(FOLDER)
    sizes = {e.name: e.size for e in log.entries() if not e.is_dir}
    log = log.prefetch_files(sizes)
    index = filelog.index_of(sizes)
    ids, missing = filelog.needed_entries(index)
    findings = [finding("SINK_LOG_HOLE", f"{FOLDER}/{i}", batch=i) for i in missing]
    findings += _find_orphaned_sidecars(sizes, max(index, default=-1)) if table.local else []
    parsed = {i: _read_entries(log, index[i], findings, must=i in ids) for i in sorted(index)}
    batches, older = _by_batch(index, parsed)
    return SinkLog(
        present=True,
        head=max(index, default=None),
        earliest=min(index, default=None),
        batches=batches,
        older=older,
        files=tuple(e for i in ids for e in parsed[i] or ()),
        findings=tuple(findings),
        fingerprint=_fingerprint_log(log, sizes),
        size_bytes=sum(sizes.values()),
    )


def began_after(table: Store, moment_ms: int) -> bool:
    """Whether the log of a table began after a moment, in ms since 1970: each file of its batch 0 was written later or,
    where that entry was compacted away or names none, each file of the log. False where that is not known.

    Spark noted these times as the storage's clock had them, and copying a table does not change them. Raises OSError.
    """
    if not table.is_dir(FOLDER):
        return False
    if written := _list_write_times(table.child(FOLDER), {0: "0"}, 0):
        return min(written) > moment_ms
    log = read_sink_log(table)
    return bool(log.files) and not log.findings and min(file.mtime_ms for file in log.files) > moment_ms


def read_log_head(table: Store) -> SinkLog:
    """A table's log judged without its entries: head, earliest, findings, size. Raises OSError."""
    if not table.is_dir(FOLDER):
        return SinkLog(present=False)
    log = table.child(FOLDER)
    sizes = {e.name: e.size for e in log.entries() if not e.is_dir}
    index = filelog.index_of(sizes)
    ids, missing = filelog.needed_entries(index)
    log = log.prefetch_files({index[i]: sizes[index[i]] for i in ids})
    findings = [finding("SINK_LOG_HOLE", f"{FOLDER}/{i}", batch=i) for i in missing]
    findings += _find_orphaned_sidecars(sizes, max(index, default=-1)) if table.local else []
    for name in (index[i] for i in ids):
        if sizes[name] > MAX_STREAM_BYTES:
            findings.append(_too_large(name, sizes[name], MAX_STREAM_BYTES))
            continue
        try:
            filelog.check_sink(log.chunks(name))
        except FileNotFoundError:
            continue  # expired between the listing and now
        except Malformed as problem:
            findings.append(finding("SINK_LOG_UNREADABLE", f"{FOLDER}/{name}", why=problem.why))
    return SinkLog(
        present=True,
        head=max(index, default=None),
        earliest=min(index, default=None),
        findings=tuple(findings),
        size_bytes=sum(sizes.values()),
    )


def _too_large(name: str, size: int, limit: int) -> Finding:
    return finding("TOO_LARGE", f"{FOLDER}/{name}", name=name, size=size, limit=limit)


def _read_entries(log: Store, name: str, findings: list[Finding], *, must: bool) -> list[SinkEntry] | None:
    """None: not readable; a finding only where Spark needs this file."""
    try:
        return filelog.parse_sink(log.read(name, MAX_ENTRY_BYTES))
    except FileNotFoundError:
        return None  # expired between the listing and now
    except Malformed as problem:
        if must:
            findings.append(finding("SINK_LOG_UNREADABLE", f"{FOLDER}/{name}", why=problem.why))
    except TooLarge as problem:
        if must:
            findings.append(_too_large(name, problem.size, problem.limit))
    return None


def _find_orphaned_sidecars(names: Iterable[str], head: int) -> list[Finding]:
    """Checksum sidecars in the way of the next entry: Hadoop's local file system then refuses the rename."""
    findings = []
    for name in sorted(names):
        entry = filelog.parse_name(name[1:-4]) if name.startswith(".") and name.endswith(".crc") else None
        if entry and entry[0] > head:
            findings.append(finding("SINK_ORPHAN_CRC", f"{FOLDER}/{name}", name=name))
    return findings


def _by_batch(
    index: Mapping[int, str], parsed: Mapping[int, list[SinkEntry] | None]
) -> tuple[dict[int, tuple[str, ...]], tuple[str, ...]]:
    """A compacted entry has its own batch's files and all earlier ones: what is new in it is its own.

    That holds only while every batch since the last compacted entry is known one by one; what cannot be
    distinguished is given back as the second value.
    """
    batches: dict[int, tuple[str, ...]] = {}
    older: list[str] = []
    known: set[str] = set()
    expected, whole = 0, True
    for batch in sorted(index):
        paths = [e.path for e in parsed[batch] or () if e.action == "add"]
        fresh = tuple(p for p in paths if p not in known)
        compacted = index[batch].endswith(".compact")
        whole = whole and batch == expected
        if compacted and not whole:
            older.extend(fresh)
        else:
            batches[batch] = fresh
        whole = whole or compacted
        known.update(paths)
        expected = batch + 1
    return batches, tuple(older)


def _fingerprint_log(log: Store, sizes: Mapping[str, int]) -> str:
    digest = hashlib.sha256()
    for name in sorted(n for n in sizes if filelog.parse_name(n)):
        digest.update(f"{name}\0{sizes[name]}\n".encode())
        try:
            for piece in log.chunks(name):
                digest.update(piece)
        except FileNotFoundError:
            digest.update(b"gone")
    return digest.hexdigest()


def explain_batch_misfit(head: int | None, next_batch: int) -> Finding | None:
    """What will go wrong when `next_batch` is written to a file table whose log ends at `head`; None: nothing."""
    if head is None:
        return None if next_batch == 0 else finding("SINK_LOG_MISSING", FOLDER, next=next_batch)
    if head == next_batch - 1:
        return None
    code = "SINK_SWALLOWS" if head >= next_batch else "SINK_LOG_BEHIND"
    return finding(code, FOLDER, head=head, next=next_batch, wanted=head + 1)


def judge_sink_log(
    log: SinkLog, committed: int | None, planned: int | None, *, unique_state: bool = False
) -> list[Finding]:
    """Findings of a table's log beside a checkpoint that has committed and planned these batches.

    `unique_state`: the names of state files carry ids (state format 2). The table then skips the planned batch
    before its tasks have reported these ids, and the commit that needs them fails.
    """
    findings = list(log.findings)
    next_batch = following_batch(committed, planned)
    if log.head is not None and log.head == next_batch == planned:
        code = "SINK_SKIPS_STATE" if unique_state else "SINK_UNCOMMITTED_BATCH"
        findings.append(finding(code, FOLDER, head=log.head))
    elif problem := explain_batch_misfit(log.head, next_batch):
        findings.append(problem)
    return findings


@dataclass(frozen=True)
class PlanTimes:
    """When batches were planned, in ms since 1970. `planned_at`: as their offset files name it; `written_at`: when the
    storage got these files, as far as it tells. `skew_ms`: by how much a file of the table may seem older than it is
    beside `planned_at`."""

    planned_at: Mapping[int, int]
    written_at: Mapping[int, int]
    skew_ms: int = SKEW_MS

    def can_be(self, batch: int) -> bool:
        """Whether the moment is one at which the batch can have been planned: no file is older than what it names, and
        two batches of one moment share a header, as after a repair."""
        planned = self.planned_at[batch]
        is_before = planned > self.written_at.get(batch, planned) + SKEW_MS
        return not is_before and list(self.planned_at.values()).count(planned) == 1


def read_plan_times(checkpoint: Store, table: Store, planned_at: Mapping[int, int]) -> PlanTimes:
    """The clocks of driver and storage agree where offset files were written as soon as they were planned. A checkpoint
    that was copied tells nothing, nor does one on another device than the table. Raises OSError."""
    if not planned_at:
        return PlanTimes({}, {})
    entries = {e.name: e.mtime_ms for e in checkpoint.entries("offsets") if e.mtime_ms is not None}
    written_at = {batch: entries[str(batch)] for batch in planned_at if str(batch) in entries}
    waits = [written - planned_at[batch] for batch, written in written_at.items()]
    places = checkpoint.identity(""), table.identity("")
    is_one_clock = None not in places and len({place[0] for place in places if place}) == 1
    if is_one_clock and 0 <= min(waits, default=-1) <= PLANNING_MS:
        return PlanTimes(planned_at, written_at, MEASURED_SKEW_MS)
    return PlanTimes(planned_at, written_at)


MOST_NAMED: Final = 5
"""So many batches are named in a sentence."""


def find_skipped(table: Store, plans: PlanTimes, committed: int | None) -> list[Finding]:
    """The finding for batches that the table did not take: every file of their entry is older than the batch.

    A file sink takes no batch whose number its log has, so a checkpoint that was reset, or lost its newest batches,
    beside a table loses the batches that it plans again without an error, all up to the one that the log ended with.
    The two oldest batches of a checkpoint that does not begin at 0 tell nothing: a seed may have written their files.
    """
    first, log = min(plans.planned_at, default=0), table.child(FOLDER)
    index = filelog.index_of(e.name for e in log.entries() if not e.is_dir)
    done = (b for b in sorted(plans.planned_at) if committed is not None and b <= committed)
    asked = (b for b in done if (first == 0 or b > first + 1) and plans.can_be(b))
    written = {b: _list_write_times(log, index, b) for b in asked}
    skipped = [b for b, at in written.items() if at and max(at) < plans.planned_at[b] - plans.skew_ms]
    if not skipped:
        return []
    empty = [b for b, at in written.items() if b > skipped[0] and b in index and not at]
    also = (
        f" Whether it took {_say_batches(empty)} is not known: its log names no file of theirs."
        if empty
        else ""
    )
    count = len(skipped)
    return [finding("SINK_SWALLOWED", FOLDER, first=skipped[0], last=skipped[-1], count=count, also=also)]


def _say_batches(batches: Sequence[int]) -> str:
    """`batch 3`; `batches 3, 4, 5 and 9 more`."""
    named = ", ".join(str(batch) for batch in batches[:MOST_NAMED])
    more = len(batches) - MOST_NAMED
    return f"batch{'es' if len(batches) > 1 else ''} {named}" + (f" and {more} more" if more > 0 else "")


def _list_write_times(log: Store, index: Mapping[int, str], batch: int) -> list[int]:
    """When the files of a batch's own entry were written, in ms since 1970; [] where no entry tells."""
    try:
        entries = _read_own_entries(log, index, batch)
    except (FileNotFoundError, Malformed, TooLarge):
        return []
    return [e.mtime_ms for e in entries if e.action == "add"]


def _read_own_entries(log: Store, index: Mapping[int, str], batch: int) -> list[SinkEntry]:
    """Those that the batch wrote; none where a compacted entry has them among those of batches that are no longer known
    one by one. Raises FileNotFoundError, Malformed, TooLarge, OSError."""
    name = index.get(batch)
    if name is None:
        return []
    entries = filelog.parse_sink(log.read(name, MAX_OWN_BYTES))
    if name == str(batch):
        return entries
    before = next((b for b in range(batch - 1, -1, -1) if index.get(b, "").endswith(".compact")), -1)
    singles = range(max(before, 0), batch)
    if any(b not in index for b in singles):
        return []
    known = {e.path for b in singles for e in filelog.parse_sink(log.read(index[b], MAX_OWN_BYTES))}
    return [e for e in entries if e.path not in known]


def following_batch(committed: int | None, planned: int | None) -> int:
    """The batch that runs next. Spark runs a planned batch first, over its own range."""
    after = 0 if committed is None else committed + 1
    return planned if planned is not None and planned >= after else after


def judge_files(table: Store, log: SinkLog) -> list[Finding]:
    """Data files that the log names and that are not in the table any more. Lists the table once."""
    files, _, whole = table.walk()
    if not whole:
        return [finding("TOO_MANY_FILES", limit=MAX_FILES)]
    deleted = {e.path for e in log.files if e.action == "delete"}
    gone = [
        e.path for e in log.files if e.path not in deleted and _name_below_table(table, e.path) not in files
    ]
    if not gone:
        return []
    name = unquote(gone[0]).rsplit("/", 1)[-1]
    return [finding("SINK_FILE_GONE", name, name=name, count=len(gone))]


def _name_below_table(table: Store, path: str) -> str:
    """The name below the table of a file in its log; "" for one that is elsewhere."""
    where = unquote(urlsplit(path).path) if table.local else unquote(path).split("://", 1)[-1]
    root = os.path.abspath(table.root) if table.local else table.root  # noqa: PTH100
    return where[len(root) + 1 :] if where.startswith(f"{root}/") else ""


def several_writers(table: str, flows: Mapping[str, str]) -> Finding | None:
    """The finding for a file table that more than one flow writes. `flows`: flow name -> its table."""
    writers = sorted(name for name, target in flows.items() if target == table)
    return finding("SINK_SHARED", None, flows=", ".join(writers)) if len(writers) > 1 else None
