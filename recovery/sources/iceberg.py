"""Iceberg: a snapshot, and how many of the files that it added were read. Pure.

Source: StreamingOffset, SparkMicroBatchStream (determineStartingOffset, validateCurrentSnapshotExists) and
SnapshotUtil.oldestAncestorAfter of apache/iceberg: the option takes whole snapshots, and of snapshots with one
timestamp the newest. `position` is the index of the next file. The snapshot itself must still be known, also when all
of it was read. A stream reads what `append` snapshots added, passes over `replace` (compaction), and fails at
`overwrite` and `delete` unless set to skip them. A seed needs `sources/<i>/offsets/0` too, which is else made again.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from recovery.checkpoints.formats import Malformed, number_of, object_of
from recovery.contracts.amounts import Amount, Bound
from recovery.errors import Refused
from recovery.sources.base import (
    Distance,
    PartChange,
    PartMove,
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
    compare_parts,
    count_noun,
    format_time,
    option_of,
    require_one_wish,
)
from recovery.sources.comparing import find_empty_start as find_empty_start

KIND = "iceberg"
UNIT = "row"
OF = "an Iceberg table"
CAN = ("at_ms", "version", "earliest", "latest", "by_hand")
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
    """One table at `asked_ms`. `chain`: the current snapshot and its ancestors, oldest first.

    `others`: snapshots that are known and no ancestors (rolled back, other branches). `skips`: those of FAILS that the
    reader's options tell it to pass over.
    """

    chain: tuple[TableSnapshot, ...] = ()
    others: frozenset[int] = frozenset()
    max_age_ms: int = MAX_SNAPSHOT_AGE_MS
    asked_ms: int = 0
    table_uuid: str | None = None
    skips: frozenset[str] = frozenset()


class IcebergPosition(NamedTuple):
    """The values of an offset line."""

    snapshot_id: int
    position: int
    scan_all: bool


class ChainPlace(NamedTuple):
    """Where a position is in the chain: index of its snapshot there, and files of that snapshot that were read."""

    snapshot: int
    position: int


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


def measure_distance(start: str | None, end: str | None, facts: IcebergSourceFacts) -> Distance:
    """Files exactly where the summaries count them, rows where whole snapshots lie between; Distance() if unknown."""
    if _parse_line(start) == _parse_line(end):
        return ZERO
    low, high = _place_of(_parse_line(start), facts), _place_of(_parse_line(end), facts)
    if low is None or high is None:
        return Distance()
    return _distance_between(min(low, high), max(low, high), facts)


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


def find_start_option(offset_json: str | None, facts: IcebergSourceFacts) -> StartOption:
    """`stream-from-timestamp` that starts at the snapshot of the position: whole snapshots only."""
    standing = _parse_line(offset_json)
    place = _place_of(standing, facts)
    if place is None or not facts.chain:
        return StartOption(
            False,
            Precision.UNKNOWN,
            note="The position's snapshot is not among those of the table's metadata, so its time is not known.",
        )
    if standing is not None and standing.scan_all:
        return StartOption(
            False,
            Precision.UNKNOWN,
            note="The position is within a first reading of the whole table, which no option expresses. Seed it.",
        )
    size = facts.chain[place.snapshot].files
    whole = size is not None and place.position >= size
    first = place.snapshot + 1 if whole else place.snapshot
    return _start_before(first, 0 if whole else place.position, facts)


def find_position(wanted: StartChoice, committed: str | None, facts: IcebergSourceFacts) -> StartCandidate:
    """A time, a version (snapshot id, to be read next), the earliest, the latest (all read), or by hand."""
    old = _parse_line(committed)
    named = require_one_wish(wanted, of=OF, can=CAN)
    if not facts.chain:
        raise Refused(
            "The table's metadata was not read, or the table has no snapshot: nothing can be checked."
        )
    standing, said = _resolve_request(named, wanted, facts)
    place, was = _place_of(standing, facts), _place_of(old, facts)
    line = wanted.by_hand or _encode_line(standing)
    known = place is not None and was is not None
    between = measure_distance(committed, line, facts) if known else Distance()
    moved = PartMove.UNCLEAR if place is None or was is None else _compare_places(was, place)
    return StartCandidate(
        offset_json=line,
        label=label_position(line),
        precision=Precision.EXACT,
        lost=between if moved is PartMove.FORWARD else ZERO if known else Distance(),
        reread=between if moved is PartMove.BACK else ZERO if known else Distance(),
        changes=(PartChange("table", list_parts(committed)[0], list_parts(line)[0], moved),),
        fallbacks=said,
    )


def _resolve_request(
    named: str, wanted: StartChoice, facts: IcebergSourceFacts
) -> tuple[IcebergPosition, dict[str, str]]:
    oldest, newest = facts.chain[0], facts.chain[-1]
    if named == "earliest":
        return IcebergPosition(oldest.snapshot_id, 0, False), {}
    if named == "latest":
        if newest.files is None:
            raise Refused(
                "The newest snapshot does not say how many files it added, so its end cannot be named."
            )
        return IcebergPosition(newest.snapshot_id, newest.files, False), {}
    if named == "by_hand":
        return _require_loadable(wanted.by_hand, facts), {}
    if named == "version":
        snapshot = next((s for s in facts.chain if s.snapshot_id == wanted.version), None)
        if snapshot is None:
            raise Refused(
                f"Snapshot {wanted.version} is none of the {len(facts.chain)} in the table's history, which goes "
                f"from {oldest.snapshot_id} ({format_time(oldest.at_ms)}) to {newest.snapshot_id} "
                f"({format_time(newest.at_ms)})."
            )
        return IcebergPosition(snapshot.snapshot_id, 0, False), {}
    return _told_at(wanted.at_ms or 0, facts)


def _told_at(at_ms: int, facts: IcebergSourceFacts) -> tuple[IcebergPosition, dict[str, str]]:
    """The first snapshot that was made at or after the time."""
    oldest, newest = facts.chain[0], facts.chain[-1]
    snapshot = next((s for s in facts.chain if s.at_ms >= at_ms), None)
    if snapshot is None:
        raise Refused(
            f"No snapshot was made at or after {format_time(at_ms)}; the newest is of {format_time(newest.at_ms)}. "
            "Take the latest position, or a time up to then."
        )
    said = {}
    if snapshot is oldest and at_ms < oldest.at_ms:
        said["table"] = (
            f"{format_time(at_ms)} is before the oldest snapshot that is known, of {format_time(oldest.at_ms)}: "
            "reading begins there, and what was expired before it is not read."
        )
    return IcebergPosition(snapshot.snapshot_id, 0, False), said


def _require_loadable(line: str | None, facts: IcebergSourceFacts) -> IcebergPosition:
    standing = _parse_line(line)
    place = _place_of(standing, facts)
    if standing is None or place is None:
        raise Refused("That offset's snapshot is not in the table's history: Spark could not load it.")
    size = _count_files(facts, place.snapshot, standing.scan_all)
    if size is not None and place.position > size:
        raise Refused(f"That snapshot has {count_noun(size, 'file')}; the offset names {place.position}.")
    return standing


def _start_before(first: int, read: int, facts: IcebergSourceFacts) -> StartOption:
    """Start before chain[first], of which `read` files were read already. `first` beyond the end: what comes next."""
    chain = facts.chain
    after = first >= len(chain)
    at_ms = chain[-1].at_ms + 1 if after else chain[first].at_ms
    tries = [at_ms] if after else [at_ms, at_ms - 1, *([chain[first - 1].at_ms] if first else [])]
    starts = {t: _oldest_after(t, chain) for t in tries}
    time, index = next(((t, i) for t, i in starts.items() if i == first), (tries[-1], starts[tries[-1]]))
    doubled = (
        _distance_between(ChainPlace(index, 0), ChainPlace(first, read), facts).rows
        if (index, read) != (first, 0)
        else Amount(value=0)
    )
    missed = (
        _distance_between(ChainPlace(first, read), ChainPlace(index, 0), facts).rows
        if index > first
        else Amount(value=0)
    )
    note = "The option takes whole snapshots. " if read else ""
    return StartOption(
        True,
        Precision.EXACT if index == first and not read else Precision.AT_LEAST_ONCE,
        options={"stream-from-timestamp": str(time)},
        code=f'.option("stream-from-timestamp", "{time}")',
        place="on the reader (spark.readStream), before load(); take it out once the first batch is committed",
        doubled=doubled if index <= first else Amount(value=0),
        missed=missed,
        note=f"{note}The first snapshot made at {format_time(time)} or later is read first"
        + (": there is none yet, and the stream waits for it." if after else "."),
    )


def _oldest_after(at_ms: int, chain: Sequence[TableSnapshot]) -> int:
    """Index that SnapshotUtil.oldestAncestorAfter finds, going back from the newest; len(chain): none yet."""
    last = len(chain)
    for index in range(len(chain) - 1, -1, -1):
        if chain[index].at_ms < at_ms:
            return last
        if chain[index].at_ms == at_ms:
            return index
        last = index
    return last


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
        f" {count_noun(passed, 'snapshot')} that follow overwrite or delete rows; the reader's options pass over "
        "them, and over rows that they added."
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


def list_skipped_kinds(options: Mapping[str, Any]) -> frozenset[str]:
    """The kinds of snapshots that a reader with these options passes over instead of failing (`Facts.skips`)."""
    values = {name: option_of(options, f"streaming-skip-{name}-snapshots") or "" for name in FAILS}
    return frozenset(name for name, value in values.items() if value.strip().lower() == "true")


def _snapshot_index(standing: IcebergPosition | None, facts: IcebergSourceFacts) -> int | None:
    """Which snapshot of the chain it is in, the first where nothing was read; None: that is not there."""
    if standing is None or standing.snapshot_id == START:
        return 0 if facts.chain else None
    return next((i for i, s in enumerate(facts.chain) if s.snapshot_id == standing.snapshot_id), None)


def _place_of(standing: IcebergPosition | None, facts: IcebergSourceFacts) -> ChainPlace | None:
    """None: its snapshot is not in the chain. Nothing read, or no snapshot then: before the first."""
    index = _snapshot_index(standing, facts)
    if index is None or standing is None or standing.snapshot_id == START:
        return None if index is None else ChainPlace(0, 0)
    # The whole of a snapshot counts other files than those it added: only its end is a place in the history.
    return None if standing.scan_all else ChainPlace(index, standing.position)


def _count_files(facts: IcebergSourceFacts, index: int, scan_all: bool) -> int | None:
    return None if scan_all or not 0 <= index < len(facts.chain) else facts.chain[index].files


def _distance_between(low: ChainPlace, high: ChainPlace, facts: IcebergSourceFacts) -> Distance:
    """Files, rows, bytes that appends added from one place to a later one."""
    taken: list[tuple[TableSnapshot, int | None]]
    if low.snapshot == high.snapshot:
        taken = (
            [(facts.chain[low.snapshot], high.position - low.position)]
            if low.snapshot < len(facts.chain)
            else []
        )
    else:
        first, inner = facts.chain[low.snapshot], facts.chain[low.snapshot + 1 : high.snapshot]
        rest = (first.files or 0) - low.position if first.files is not None else None
        taken = [(first, rest), *((s, s.files) for s in inner)]
        if high.snapshot < len(facts.chain):
            taken.append((facts.chain[high.snapshot], high.position))
    taken = [(s, n) for s, n in taken if s.operation == "append" and n != 0]
    files = _sum_known([n for _, n in taken])
    rows = _share_of_files([(s.rows, s.files, n) for s, n in taken])
    size = _share_of_files([(s.bytes, s.files, n) for s, n in taken])
    return Distance(rows=rows, files=files, bytes=size)


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


def _compare_places(before: ChainPlace, after: ChainPlace) -> PartMove:
    return PartMove.SAME if before == after else PartMove.FORWARD if before < after else PartMove.BACK


def _encode_line(standing: IcebergPosition) -> str:
    body = {
        "version": 1,
        "snapshot_id": standing.snapshot_id,
        "position": standing.position,
        "scan_all_files": standing.scan_all,
    }
    return json.dumps(body, separators=(",", ":"))


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
