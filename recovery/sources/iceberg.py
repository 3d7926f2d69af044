"""Iceberg: a snapshot, and how many of the files that it added were read. Pure.

Source: StreamingOffset and SparkMicroBatchStream (determineStartingOffset, validateCurrentSnapshotExists) of
apache/iceberg. `position` is the index of the next file. The snapshot itself must still be known, also when all of it
was read. A stream reads what `append` snapshots added, passes over `replace` (compaction), and fails at `overwrite` and
`delete` unless set to skip them. No start is computed here: a seed needs `sources/<i>/offsets/0` too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from recovery.checkpoints.formats import Malformed, number_of, object_of
from recovery.contracts.amounts import Amount, Bound
from recovery.contracts.readers import ReaderOptions
from recovery.sources.base import Distance, PartChange, PartMove, PositionPart, SourceRetention
from recovery.sources.comparing import NOTHING_READ, ZERO, compare_parts, count_noun, format_time, option_of
from recovery.sources.comparing import find_empty_start as find_empty_start

KIND = "iceberg"
UNIT = "row"
CAN: tuple[str, ...] = ()
START = -1  # StreamingOffset.START_OFFSET: before the first snapshot, of a table that had none
MAX_SNAPSHOT_AGE_MS = 5 * 24 * 3600 * 1000  # history.expire.max-snapshot-age-ms
FAILS = ("overwrite", "delete")


@dataclass(frozen=True)
class TableSnapshot:
    """One snapshot as the table's metadata tells it; None: its summary does not say."""

    snapshot_id: int
    at_ms: int
    operation: str = "append"
    files: int | None = None
    rows: int | None = None
    bytes: int | None = None


@dataclass(frozen=True)
class IcebergSourceFacts:
    """One table. `chain`: the current snapshot and its ancestors, oldest first.

    `others`: snapshots that are known and no ancestors (rolled back, other branches). `skips`: those of FAILS that the
    reader's options tell it to pass over.
    """

    chain: tuple[TableSnapshot, ...] = ()
    others: frozenset[int] = frozenset()
    max_age_ms: int = MAX_SNAPSHOT_AGE_MS
    skips: frozenset[str] = frozenset()


class IcebergPosition(NamedTuple):
    """The values of an offset line."""

    snapshot_id: int
    position: int
    scan_all: bool


def list_parts(offset_json: str | None) -> tuple[PositionPart, ...]:
    """One part, the table. Raises Malformed for another shape."""
    standing = _parse_line(offset_json)
    value = (
        None
        if standing is None
        else f"{standing.snapshot_id}:{standing.position}{':all' if standing.scan_all else ''}"
    )
    return (PositionPart("table", value, label_position(offset_json)),)


def label_position(offset_json: str | None) -> str:
    standing = _parse_line(offset_json)
    if standing is None:
        return NOTHING_READ
    if standing.snapshot_id == START:
        return "before the table's first snapshot"
    scope = "all files of the table as of" if standing.scan_all else "the files added by"
    return f"{count_noun(standing.position, 'file')} read of {scope} snapshot {standing.snapshot_id}"


def compare_positions(before: str | None, after: str | None) -> tuple[PartChange, ...]:
    """Positions within one snapshot are in order; between two snapshots only the table's metadata tells."""
    return compare_parts(
        list_parts(before),
        list_parts(after),
        lambda *_: _compare_positions(_parse_line(before), _parse_line(after)),
    )


def measure_waiting(offset_json: str | None, facts: IcebergSourceFacts) -> Distance:
    """What appends added after a position: files as the summaries count them, rows exactly where whole snapshots wait.

    Distance() where the position is not in the history, or is within a first reading of the whole table, whose files
    are others than those that its snapshot added; and where the newest snapshot does not record its files.
    """
    standing = _parse_line(offset_json)
    index = _snapshot_index(standing, facts)
    newest = facts.chain[-1] if facts.chain else None
    if newest is None or newest.files is None:
        return Distance()
    if standing == IcebergPosition(newest.snapshot_id, newest.files, False):
        return ZERO
    if index is None or (standing is not None and standing.scan_all and standing.snapshot_id != START):
        return Distance()
    read = 0 if standing is None or standing.snapshot_id == START else standing.position
    first = facts.chain[index]
    rest = None if first.files is None else first.files - read
    waiting = [(first, rest), *((s, s.files) for s in facts.chain[index + 1 :])]
    waiting = [(s, n) for s, n in waiting if s.operation == "append" and n != 0]
    return Distance(
        rows=_share_of_files([(s.rows, s.files, n) for s, n in waiting]),
        files=_sum_known([n for _, n in waiting]),
        bytes=_share_of_files([(s.bytes, s.files, n) for s, n in waiting]),
    )


def judge_reach(offset_json: str | None, facts: IcebergSourceFacts) -> SourceRetention:
    """Whether the snapshot is known, and whether all that follows can be streamed."""
    standing = _parse_line(offset_json)
    if not facts.chain:
        return SourceRetention(None, "The table's metadata was not read, or it has no snapshot.")
    index = _snapshot_index(standing, facts)
    if index is None:
        assert standing is not None
        return _missing_reach(standing, facts)
    refused = [s for s in facts.chain[index + 1 :] if s.operation in FAILS and s.operation not in facts.skips]
    if refused:
        return SourceRetention(
            False,
            f"{count_noun(len(refused), 'snapshot')} that follow overwrite or delete rows, the first at "
            f"{format_time(refused[0].at_ms)}. Spark fails there unless streaming-skip-overwrite-snapshots or "
            "streaming-skip-delete-snapshots is set; rows that such a snapshot added are then not read.",
            parts=("table",),
        )
    return _present_reach(facts, index)


def _missing_reach(standing: IcebergPosition, facts: IcebergSourceFacts) -> SourceRetention:
    oldest = facts.chain[0]
    if standing.snapshot_id in facts.others:
        why = (
            f"Snapshot {standing.snapshot_id} is no longer in the current history: the table was rolled back or "
            "branched."
        )
    else:
        why = (
            f"Snapshot {standing.snapshot_id} was expired or removed: Spark cannot load the position. The oldest "
            f"that is known is {oldest.snapshot_id}, of {format_time(oldest.at_ms)}; earlier ones are not in "
            "the history."
        )
    return SourceRetention(False, why, lost=Distance(), parts=("table",))


def _present_reach(facts: IcebergSourceFacts, index: int) -> SourceRetention:
    at, newest = facts.chain[index], facts.chain[-1]
    if at is newest:
        return SourceRetention(True, "The position's snapshot is the current one, which is never expired.")
    passed = sum(s.operation in FAILS for s in facts.chain[index + 1 :])
    more = (
        f" {count_noun(passed, 'snapshot')} that follow overwrite or delete rows; the reader's options skip "
        "them, and the rows that they added."
        if passed
        else ""
    )
    until = at.at_ms + facts.max_age_ms
    return SourceRetention(
        True,
        f"The position's snapshot is known. Expiry, which someone has to run, may take it from {format_time(until)} on."
        f"{more}",
        until_ms=until,
    )


def list_skipped_kinds(options: ReaderOptions) -> frozenset[str]:
    """The kinds of snapshots that a reader with these options passes over instead of failing (`Facts.skips`)."""
    values = {name: option_of(options, f"streaming-skip-{name}-snapshots") or "" for name in FAILS}
    return frozenset(name for name, value in values.items() if value.strip().lower() == "true")


def _snapshot_index(standing: IcebergPosition | None, facts: IcebergSourceFacts) -> int | None:
    """Which snapshot of the chain it is in, the first where nothing was read; None: that is not there."""
    if standing is None or standing.snapshot_id == START:
        return 0 if facts.chain else None
    return next((i for i, s in enumerate(facts.chain) if s.snapshot_id == standing.snapshot_id), None)


def _sum_known(numbers: Sequence[int | None]) -> Amount | None:
    return None if any(n is None for n in numbers) else Amount(value=sum(n or 0 for n in numbers))


def _share_of_files(snapshots: Sequence[tuple[int | None, int | None, int | None]]) -> Amount | None:
    """(total, files, files taken) of each snapshot: exact where all or none were taken."""
    if any(total is None or n is None or not files for total, files, n in snapshots):
        return None
    exact = all(n == files for _, files, n in snapshots)
    value = sum(round((total or 0) * (n or 0) / (files or 1)) for total, files, n in snapshots)
    return Amount(
        value=value,
        bound=Bound.ESTIMATE.unless(exact),
        why="" if exact else "the files of one snapshot are taken as equally large",
    )


def _compare_positions(before: IcebergPosition | None, after: IcebergPosition | None) -> PartMove:
    if before is None or after is None:
        return PartMove.FORWARD if before is None else PartMove.BACK
    if before[::2] != after[::2]:
        return PartMove.UNCLEAR
    return PartMove.FORWARD if before.position < after.position else PartMove.BACK


def _parse_line(offset_json: str | None) -> IcebergPosition | None:
    if offset_json is None:
        return None
    body = object_of(offset_json)
    if set(body) != {"version", "snapshot_id", "position", "scan_all_files"}:
        raise Malformed("it is not the offset of an Iceberg table")
    if number_of(body, "version") != 1 or type(body["scan_all_files"]) is not bool:
        raise Malformed("it is not the offset of an Iceberg table in version 1")
    standing = IcebergPosition(
        number_of(body, "snapshot_id"), number_of(body, "position"), body["scan_all_files"]
    )
    if standing.position < (START if standing.snapshot_id == START else 0):
        raise Malformed("its position is negative")
    return standing
