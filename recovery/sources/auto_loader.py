"""Databricks Auto Loader (`cloudFiles`): a number in a ledger of files that is in the checkpoint. Pure.

K: known from documents and published progress events, never run here: `{"seqNum","sourceVersion",
"lastBackfillStartTimeMs","lastBackfillFinishTimeMs","lastInputPath"}`, the last three not in every version. `seqNum`
counts files in the order in which they were discovered; which files those are is in `sources/<i>/rocksdb` of the
checkpoint, and can be asked by SQL: `cloud_files_state(<checkpoint>)`. So no offset can be made up: a new start has an
empty checkpoint and `modifiedAfter`, compared with each file's modification time.

Whether a file of exactly that time is read, the documents do not say ("after"; Spark's batch reader, which has an
option of the same name, takes strictly later ones). So a time is chosen that means the same either way, where there is
one; else it errs on the side of reading twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from recovery.checkpoints.formats import Malformed, number_of, object_of
from recovery.contracts.amounts import Amount, Bound
from recovery.errors import Refused
from recovery.sources.base import (
    Distance,
    InputFile,
    PartChange,
    PositionPart,
    Precision,
    SourceRetention,
    StartCandidate,
    StartChoice,
    StartOption,
)
from recovery.sources.comparing import (
    NOTHING_READ,
    ZERO,
    build_candidate,
    by_number,
    compare_parts,
    count_noun,
    format_time,
    require_one_wish,
)
from recovery.sources.comparing import find_empty_start as find_empty_start

KIND = "auto-loader"
CAN = ("by_hand",)
UNIT = "file"
OF = "an Auto Loader source"
KEYS = {"seqNum", "sourceVersion"}
MAY = {"lastBackfillStartTimeMs", "lastBackfillFinishTimeMs", "lastInputPath"}
PLACE = "on the reader (spark.readStream), before load(); take it out once the first batch is committed"


@dataclass(frozen=True)
class AutoLoaderFacts:
    """What the ledger and the directory say; None: not asked, or no answer. Times in ms since the epoch.

    `read`: decoded URIs of the files that cloud_files_state calls committed. `listing`: what is there now.
    """

    read: frozenset[str] | None = None
    listing: tuple[InputFile, ...] | None = None
    asked_ms: int = 0


def list_parts(offset_json: str | None) -> tuple[PositionPart, ...]:
    """One part, the ledger with its number. Raises Malformed for another shape."""
    at_number = _parse_position(offset_json)
    return (
        PositionPart("ledger", None if at_number is None else str(at_number), label_position(offset_json)),
    )


def label_position(offset_json: str | None) -> str:
    at_number = _parse_position(offset_json)
    return NOTHING_READ if at_number is None else f"number {at_number:,} of the files discovered"


def compare_positions(before: str | None, after: str | None) -> tuple[PartChange, ...]:
    return compare_parts(list_parts(before), list_parts(after), by_number)


def measure_distance(start: str | None, end: str | None, facts: AutoLoaderFacts) -> Distance:
    """Files by their numbers; an estimate, as numbers that a retry skipped would count too."""
    old, new = (_parse_position(line) or 0 for line in (start, end))
    if old == new:
        return ZERO
    return Distance(
        files=Amount(value=abs(new - old), bound=Bound.ESTIMATE, why="by the numbers of discovered files")
    )


def judge_reach(offset_json: str | None, facts: AutoLoaderFacts) -> SourceRetention:
    """The number does not show whether uncommitted files are still there; unread ones are counted."""
    _parse_position(offset_json)
    if facts.read is None or facts.listing is None:
        return SourceRetention(
            None,
            "The checkpoint holds which files were read: ask cloud_files_state, and list the directory.",
        )
    unread = [f for f in facts.listing if f.path not in facts.read]
    return SourceRetention(
        None,
        f"{count_noun(len(unread), 'unread file')} can be read now. Files that were discovered and deleted before "
        "they were read are not known here.",
    )


def find_start_option(offset_json: str | None, facts: AutoLoaderFacts) -> StartOption:
    """`modifiedAfter` between what was read and what was not; what it doubles where no time parts the two."""
    if _parse_position(offset_json) is None:
        return _start_with_everything()
    if facts.read is None or facts.listing is None:
        return StartOption(
            True,
            Precision.UNKNOWN,
            place=PLACE,
            note="To compute modifiedAfter, the files that were read are needed: ask cloud_files_state(<checkpoint>) "
            "for them, and list the directory.",
        )
    done = [f.mtime_ms for f in facts.listing if f.path in facts.read]
    waiting = [f.mtime_ms for f in facts.listing if f.path not in facts.read]
    if not done:
        return _start_with_everything()
    return _start_after(min(waiting) - 1 if waiting else max(done) - 1, done, waiting)


def started_at(at_ms: int, facts: AutoLoaderFacts) -> StartOption:
    """`modifiedAfter` at a time that a person names, with what it doubles and misses. Raises Refused where unknown."""
    if facts.read is None or facts.listing is None:
        raise Refused(
            "What such a start reads twice or never is not known before cloud_files_state and the "
            "directory have been asked."
        )
    if at_ms > facts.asked_ms:
        raise Refused(
            f"{format_time(at_ms)} is in the future; the directory was listed at {format_time(facts.asked_ms)}."
        )
    done = [f.mtime_ms for f in facts.listing if f.path in facts.read]
    waiting = [f.mtime_ms for f in facts.listing if f.path not in facts.read]
    return _start_after(at_ms, done, waiting)


def find_position(wanted: StartChoice, committed: str | None, facts: AutoLoaderFacts) -> StartCandidate:
    """The committed number by hand, nothing else: no other number has a ledger. Raises Refused."""
    _parse_position(committed)
    require_one_wish(wanted, of=OF, can=CAN)
    line = wanted.by_hand or ""
    if _parse_position(line) != _parse_position(committed):
        raise Refused(
            "A number means nothing without the ledger in its checkpoint, which is at the committed one. Start "
            "with an empty checkpoint and modifiedAfter."
        )
    return build_candidate(line, label_position(line), compare_positions(committed, line), ZERO)


def _start_with_everything() -> StartOption:
    return StartOption(
        True,
        Precision.EXACT,
        options={"cloudFiles.includeExistingFiles": "true"},
        code='.option("cloudFiles.includeExistingFiles", "true")',
        place=PLACE,
        doubled=Amount(value=0),
        missed=Amount(value=0),
        note="Nothing was read: a new start reads every file. includeExistingFiles counts only in an empty checkpoint.",
    )


def _start_after(at_ms: int, done: Sequence[int], waiting: Sequence[int]) -> StartOption:
    """`done`, `waiting`: modification times of files that lie there, read and unread."""
    twice, never = sum(m >= at_ms for m in done), sum(m <= at_ms for m in waiting)
    parted = not twice and not never and bool(waiting)
    text = f"{datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%d %H:%M:%S}.{at_ms % 1000:03d}000 UTC+0"
    said = (
        "The time parts what was read from what was not; that a file of exactly this time would count changes nothing."
        if parted
        else f"Files on the boundary: {count_noun(twice, 'file')} that were read come again, "
        f"{count_noun(never, 'file')} that wait are never read. Files that arrive later with an older modification "
        "time are never read either."
    )
    return StartOption(
        True,
        Precision.EXACT if parted else Precision.AT_MOST_ONCE if never else Precision.AT_LEAST_ONCE,
        options={"modifiedAfter": text, "cloudFiles.includeExistingFiles": "true"},
        code=f'.option("modifiedAfter", "{text}")\n.option("cloudFiles.includeExistingFiles", "true")',
        place=PLACE,
        doubled=None if twice else Amount(value=0),
        missed=None if never else Amount(value=0),
        note=f"Known from documents, not run here; to the millisecond, in UTC. {said} includeExistingFiles counts "
        "only in an empty checkpoint: with false, files that lie there already are skipped.",
    )


def _parse_position(offset_json: str | None) -> int | None:
    if offset_json is None:
        return None
    body = object_of(offset_json)
    if not KEYS <= set(body) <= KEYS | MAY:
        raise Malformed("it is not the offset of an Auto Loader source")
    _, at_number = (number_of(body, key) for key in ("sourceVersion", "seqNum"))
    return at_number
