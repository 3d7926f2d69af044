"""The file source: which files it has read, which wait, and in which order Spark will take them. Pure.

Source: FileStreamSource (SeenFilesMap, fetchMaxOffset). A file is known by its path alone (by its last name with
fileNameOnly), as long as it is no older than the newest one by more than maxFileAge: one that is written again under
the same name is not new before that, and new after it (`file_facts.list_unread`). New files are taken by mtime, and in
listing order where it is equal; with latestFirst the newest come first.

An offset, `{"logOffset":n}`, names entry n of the source's own log, and the files read are those of entries 0 to n.
So a position between two files of one entry, or beyond the log, is one only together with the log that a seed writes:
`file_positions.FileCandidate.read`. `{"logOffset":-1}`: nothing read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from recovery.checkpoints.report import Entries, SourceEntry, SourceProgress
from recovery.checkpoints.uris import decode_uri
from recovery.contracts.amounts import Amount, Bound
from recovery.contracts.readers import ReaderOptions
from recovery.sources.base import (
    Distance,
    EmptyStart,
    InputFile,
    PartChange,
    Position,
    PositionPart,
    Precision,
    SourceFacts,
    SourceRetention,
    StartChoice,
    StartOption,
)
from recovery.sources.comparing import NOTHING_READ, ZERO, by_number, compare_parts, count_noun
from recovery.sources.file_facts import (
    DIRECTORY,
    FileSourceFacts,
    by_time,
    facts_of,
    file_name,
    list_rewritten,
    list_unread,
    log_entry_of,
    measure_files,
    newest_time,
)
from recovery.sources.file_positions import CAN as CAN
from recovery.sources.file_positions import FileCandidate, find_file_position

KIND = "files"
UNIT = "file"


def list_parts(offset_json: str | None) -> tuple[PositionPart, ...]:
    """One part, the directory, whose value is the log id. Raises Malformed for another shape."""
    at_entry = log_entry_of(offset_json)
    return (
        PositionPart(DIRECTORY, None if at_entry is None else str(at_entry), label_position(offset_json)),
    )


def label_position(offset_json: str | None) -> str:
    """The log entry; how many files that is, only the log says (`describe_progress`)."""
    at_entry = log_entry_of(offset_json)
    return NOTHING_READ if at_entry is None or at_entry < 0 else f"log entry {at_entry}"


def compare_positions(before: str | None, after: str | None) -> tuple[PartChange, ...]:
    return compare_parts(list_parts(before), list_parts(after), by_number)


def measure_distance(start: str | None, end: str | None, facts: FileSourceFacts) -> Distance:
    """Files exactly, bytes of those that are still there, rows where all are known, seconds between newest mtimes."""
    low, high = sorted(-1 if n is None else n for n in (log_entry_of(start), log_entry_of(end)))
    if low == high:
        return ZERO
    if high > facts.newest_entry:
        return Distance()
    return measure_files(facts.between(low, high), facts, _seconds_between(low, high, facts))


def judge_reach(offset_json: str | None, facts: FileSourceFacts, *, planned: bool = False) -> SourceRetention:
    """Files after the position that are gone, or too old for Spark to take; what was written again is said.

    `planned`: as `file_facts.list_unread`.
    """
    at_entry = log_entry_of(offset_json)
    if facts.listing is None:
        return SourceRetention(None, "The directory could not be listed, so what waits there is not known.")
    at = -1 if at_entry is None else at_entry
    read = facts.read_at(at)
    unread = list_unread(read, facts, planned=planned)
    gone = [path for path in facts.between(at, facts.newest_entry) if path not in facts.there]
    said = [
        *_said_gone(gone),
        *_said_late(unread.late, facts),
        *_said_namesakes(unread.namesakes),
        *_said_rewritten(read, unread.new, facts),
    ]
    if gone or unread.passed_over:
        lost = measure_files([*gone, *(f.path for f in unread.passed_over)], facts)
        return SourceRetention(False, " ".join(said), lost=lost, parts=(DIRECTORY,), stops=bool(gone))
    if unread.unsure:
        return SourceRetention(None, unread.unsure)
    return SourceRetention(
        True, " ".join(said) or "Every file after this position is there and new enough to be read."
    )


def reach_from(start: FileCandidate | None, committed: str | None, facts: FileSourceFacts) -> SourceRetention:
    """Whether everything after the place where the stream begins can be read.

    A start before the committed position reads again what is there, and what is gone of it is in its `fallbacks`: what
    follows is as readable as from there. One behind it may leave behind what is gone.
    """
    reach = judge_reach(committed, facts)
    at_entry, stood = log_entry_of(start.offset_json) if start else None, log_entry_of(committed)
    if start is None or reach.readable is not False or at_entry is None:
        return reach
    behind = at_entry > (-1 if stood is None else stood)
    return judge_reach(start.offset_json, facts) if behind else reach


def find_start_option(offset_json: str | None, facts: FileSourceFacts) -> StartOption:
    """None: Spark's file stream refuses modifiedAfter and modifiedBefore (ModifiedDateFilter, seen on 4.2 and 4.3)."""
    log_entry_of(offset_json)
    return StartOption(
        False,
        Precision.UNKNOWN,
        note="Spark's file streams have no start position: modifiedAfter and modifiedBefore are refused (option "
        "'modifiedafter' is not allowed in file stream sources). Seed the checkpoint: the source's log then names the "
        "files that were read, which is exact, also for files that share a modification time.",
    )


def find_position(wanted: StartChoice, committed: str | None, facts: FileSourceFacts) -> FileCandidate:
    """Just after a named file in reading order, at a modification time, the earliest, the latest, or a log id by hand.

    Raises Refused for a file that is not known, a time in the future, a log id that the log does not have.
    """
    return find_file_position(wanted, committed, facts)


def find_empty_start(options: ReaderOptions, facts: FileSourceFacts | None) -> EmptyStart:
    """Every file that is there is read, whatever its age; those that were read and are gone are not."""
    if facts is None or facts.listing is None:
        return EmptyStart(
            True, None, "The directory was not listed, so whether every file is still there is not known."
        )
    said = []
    if gone := [path for path in facts.entries if path not in facts.there]:
        said.append(
            f"{count_noun(len(gone), 'file')} that the log names {_is_are(gone)} gone, such as {file_name(gone[0])}."
        )
    if again := [f.path for f in list_rewritten(facts)]:
        said.append(
            f"{count_noun(len(again), 'file')} {_was_were(again)} written again after being read, such as "
            f"{file_name(again[0])}: what was read then may be gone."
        )
    if said:
        return EmptyStart(True, False, " ".join(said))
    if why := list_unread({}, facts).unsure:
        return EmptyStart(True, None, why)
    return EmptyStart(True, True, "Every file that was read is still there.")


def describe_progress(progress: SourceProgress) -> str:
    """How much a source has read, and the newest file."""
    if progress.committed.newest is None:
        return NOTHING_READ
    newest = file_name(decode_uri(progress.committed.newest.path))
    planned = f"; {len(progress.planned):,} planned, not committed" if progress.planned else ""
    return f"{len(progress.committed):,} read, newest {newest} (log entry {progress.log_offset}){planned}"


def _seconds_between(low: int, high: int, facts: FileSourceFacts) -> Amount | None:
    old, new = (newest_time(facts.read_at(n)) for n in (low, high))
    if old is None or new is None:
        return None
    return Amount(
        value=max(0, new - old) // 1000, bound=Bound.ESTIMATE, why="by the newest modification times"
    )


def _said_gone(gone: Sequence[str]) -> list[str]:
    if not gone:
        return []
    return [
        f"{count_noun(len(gone), 'file')} after this position {_is_are(gone)} gone, such as {file_name(gone[0])}."
    ]


def _said_late(late: Sequence[InputFile], facts: FileSourceFacts) -> list[str]:
    if not late:
        return []
    days = facts.max_file_age_ms / 86_400_000
    return [
        f"{count_noun(len(late), 'file')} {_is_are(late)} older than the newest one read by more than maxFileAge "
        f"({days:g} days), such as {file_name(late[0].path)}: Spark never reads {'it' if len(late) == 1 else 'them'}."
    ]


def _said_namesakes(namesakes: Sequence[InputFile]) -> list[str]:
    if not namesakes:
        return []
    such = "/".join(namesakes[0].path.split("/")[-2:])
    return [
        f"{count_noun(len(namesakes), 'file')} {'has' if len(namesakes) == 1 else 'have'} the name of a file that "
        f"was read (fileNameOnly), such as {such}: Spark never reads {'it' if len(namesakes) == 1 else 'them'}."
    ]


def _said_rewritten(
    read: Mapping[str, SourceEntry], new: Sequence[InputFile], facts: FileSourceFacts
) -> list[str]:
    taken = {f.path for f in new}
    said = []
    if twice := [path for path in read if path in taken]:
        said.append(said_twice(twice))
    changed = [p for p, e in read.items() if p in facts.there and facts.there[p].mtime_ms != e.timestamp_ms]
    if again := [path for path in changed if path not in taken]:
        said.append(
            f"{count_noun(len(again), 'file')} {_was_were(again)} written again after being read, such as "
            f"{file_name(again[0])}: Spark knows a file by its name and does not read it a second time."
        )
    return said


def said_twice(twice: Sequence[str]) -> str:
    """Of files that were read and come again: not by a wish, but as Spark has forgotten them."""
    return (
        f"{count_noun(len(twice), 'file')} {_was_were(twice)} written again after being read, such as "
        f"{file_name(twice[0])}, and the newest file read is younger than that reading by more than maxFileAge: "
        f"Spark reads {'it' if len(twice) == 1 else 'them'} a second time, and rows that were in it before come twice."
    )


def source_facts(
    progress: SourceProgress,
    listing: Sequence[InputFile],
    *,
    location: str,
    max_files_per_trigger: int | None,
    options: ReaderOptions | None = None,
) -> SourceFacts:
    """Facts of one source from its progress and what is there now (in listing order).

    `processed` is in the order in which Spark did read, `waiting` in the order in which it will; a file that it will
    read a second time is in both. What it never takes is `ignored`.
    """
    listed = {f.path: f for f in listing}
    done = facts_of(replace(progress, planned=Entries()), listing, options=options)
    read = list(done.entries)
    unread = list_unread(done.entries, done)
    total = len({*read, *(f.path for f in unread.new)})
    ordered = by_time(listing)
    return SourceFacts(
        position=Position(
            source=progress.name or progress.index,
            kind="files",
            offset_json=progress.offset_json,
            label=_position_label(read, total),
            precision=Precision.EXACT,
            reachable=True,
            earliest=file_name(ordered[0].path) if ordered else None,
            latest=file_name(ordered[-1].path) if ordered else None,
        ),
        location=location,
        processed=tuple(listed[path] for path in read if path in listed),
        waiting=unread.new,
        gone=tuple(path for path in read if path not in listed),
        max_files_per_trigger=max_files_per_trigger,
        ignored=unread.passed_over,
    )


def _was_were(paths: Sequence[str]) -> str:
    return "was" if len(paths) == 1 else "were"


def _is_are(files: Sequence[str | InputFile]) -> str:
    return "is" if len(files) == 1 else "are"


def _position_label(read: Sequence[str], total: int) -> str:
    if not read:
        return "nothing read yet"
    return f"file {len(read)} of {total}, {file_name(read[-1])}"
