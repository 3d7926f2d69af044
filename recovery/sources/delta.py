"""A Delta table, or its change feed, as a source: positions are versions and, within one, files. Pure.

A position says what has been read. After the last file of a version Delta writes the next version's beginning
(buildOffsetFromIndexedFile), so that "version 13, from its beginning" means that 12 is done.
"""

from collections import Counter
from collections.abc import Mapping

from recovery.contracts.amounts import Amount, Bound
from recovery.errors import Refused
from recovery.sources.base import (
    Distance,
    PartChange,
    PartMove,
    PositionPart,
    Precision,
    StartCandidate,
    StartChoice,
    StartOption,
)
from recovery.sources.comparing import instead_of, require_one_wish
from recovery.sources.delta_facts import (
    BASE,
    DataFile,
    DeltaFacts,
    DeltaOffset,
    parse_offset,
    plus_seconds,
    sum_files,
)
from recovery.sources.delta_reach import find_empty_start, judge_reach

__all__ = [
    "CAN",
    "KIND",
    "UNIT",
    "compare_positions",
    "find_empty_start",
    "find_position",
    "find_start_option",
    "judge_reach",
    "label_position",
    "list_parts",
    "list_unread",
    "measure_distance",
]

KIND = "delta"
CAN = ("at_ms", "version", "file", "earliest", "latest", "by_hand")
UNIT = "row"
PLACE = "on the reader: spark.readStream.format('delta'), before .load() or .table()"


def list_parts(offset_json: str | None) -> tuple[PositionPart, ...]:
    """One part: the table, by its id; its value is `version:index`."""
    if offset_json is None:
        return ()
    offset = parse_offset(offset_json)
    return (PositionPart(offset.table_id, f"{offset.version}:{offset.index}", label_position(offset_json)),)


def label_position(offset_json: str | None, facts: DeltaFacts | None = None) -> str:
    """The position in people's words; with facts, how many files there are in all."""
    if offset_json is None:
        return "nothing read yet"
    offset = parse_offset(offset_json)
    if offset.initial:
        where = f"first snapshot (version {offset.version})"
        files = facts.snapshots.get(offset.version) if facts else None
    else:
        where = f"version {offset.version}"
        files = facts.commits[offset.version].files if facts and offset.version in facts.commits else None
    if not offset.read:
        schema = {-20: ", at its change of schema", -19: ", after its change of schema"}
        return where + schema.get(offset.index, ", from its beginning")
    return f"{where}, file {offset.read}" + (f" of {len(files)}" if files is not None else "")


def compare_positions(before: str | None, after: str | None) -> tuple[PartChange, ...]:
    """One change, or two where the table was made again: the old one is gone and another is there."""
    old, new = list_parts(before), list_parts(after)
    if before is None or after is None or old[0].name != new[0].name:
        gone = [PartChange(p.name, p, None, PartMove.GONE) for p in old]
        return (*gone, *(PartChange(p.name, None, p, PartMove.NEW) for p in new))
    return (
        PartChange(old[0].name, old[0], new[0], _compare_offsets(parse_offset(before), parse_offset(after))),
    )


def _compare_offsets(before: DeltaOffset, after: DeltaOffset) -> PartMove:
    """A snapshot comes before the changes that follow it; back into it from changes is no plain step."""
    if before == after:
        return PartMove.SAME
    if before.initial == after.initial:
        ahead = (after.version, after.index) > (before.version, before.index)
        unclear = before.initial and before.version != after.version
        return PartMove.UNCLEAR if unclear else PartMove.FORWARD if ahead else PartMove.BACK
    if before.initial and after.version > before.version:
        return PartMove.FORWARD
    if after.initial and before.version > after.version:
        return PartMove.BACK
    return PartMove.UNCLEAR


def list_unread(offset: DeltaOffset, facts: DeltaFacts) -> tuple[DataFile, ...] | None:
    """All that a stream reads after a position, up to the latest version. None: the facts do not hold it."""
    first = offset.version
    head: tuple[DataFile, ...] = ()
    if offset.initial:
        snapshot = facts.snapshots.get(offset.version)
        if snapshot is None:
            return None
        first, head = offset.version + 1, snapshot[offset.read :]
    if any(v not in facts.commits for v in range(first, facts.latest + 1)):
        return None
    rest = [
        f for v in range(first, facts.latest + 1) for f in facts.commits[v].files[_files_to_skip(offset, v) :]
    ]
    return (*head, *rest)


def _files_to_skip(offset: DeltaOffset, version: int) -> int:
    return offset.read if version == offset.version and not offset.initial else 0


def left_out(start: DeltaOffset, end: DeltaOffset, facts: DeltaFacts) -> tuple[DataFile, ...] | None:
    """What a stream would read after `start` and not after `end`. None: the facts do not hold it."""
    if not start.initial and not end.initial:
        if (start.version, start.index) >= (end.version, end.index):
            return ()
        return _files_between(start, end, facts)
    ahead, left = list_unread(start, facts), list_unread(end, facts)
    if ahead is None or left is None:
        return None
    kept = Counter(f.path for f in left)
    files = []
    for file in reversed(
        ahead
    ):  # a path can come twice, as a change feed tells it; the later ones are the kept ones
        if kept[file.path]:
            kept[file.path] -= 1
        else:
            files.append(file)
    return tuple(reversed(files))


def _files_between(start: DeltaOffset, end: DeltaOffset, facts: DeltaFacts) -> tuple[DataFile, ...] | None:
    last = end.version if end.read else end.version - 1
    versions = range(start.version, min(last, facts.latest) + 1)
    if any(v not in facts.commits for v in versions):
        return None
    between: list[DataFile] = []
    for v in versions:
        files = facts.commits[v].files
        between += files[_files_to_skip(start, v) : end.read if v == end.version else len(files)]
    return tuple(between)


def measure_distance(start: str | None, end: str | None, facts: DeltaFacts) -> Distance:
    """What is between two positions, whichever is ahead. None is where an empty checkpoint would begin."""
    before, after = _position_of(start, facts), _position_of(end, facts)
    if before is None or after is None or {before.table_id, after.table_id} != {facts.table_id}:
        return Distance()
    forward, back = left_out(before, after, facts), left_out(after, before, facts)
    if forward is None or back is None:
        return Distance()
    return _measure_distance(forward + back, facts, before, after)


def _position_of(offset_json: str | None, facts: DeltaFacts) -> DeltaOffset | None:
    return facts.fresh() if offset_json is None else parse_offset(offset_json)


def _measure_distance(
    files: tuple[DataFile, ...], facts: DeltaFacts, before: DeltaOffset, after: DeltaOffset
) -> Distance:
    why = "the reader has excludeRegex, which leaves files out" if facts.reading.exclude else ""
    distance = sum_files(files, exact=not why, why=why)
    if not facts.one_clock((before.version, after.version)):
        return distance
    return plus_seconds(distance, facts.time_of(before.version), facts.time_of(after.version))


def _count_rows(files: tuple[DataFile, ...] | None, facts: DeltaFacts) -> Amount | None:
    exact = not facts.reading.exclude
    return None if files is None else sum_files(files, exact=exact).rows


def find_start_option(offset_json: str | None, facts: DeltaFacts) -> StartOption:
    """`startingVersion`: whole versions only, whose commits are in the log (DeltaSource.getStartingVersion)."""
    if offset_json is None:
        own = facts.reading.starting
        begins = f"where the reader's own {' and '.join(own)} says" if own else "with the table as it is"
        return StartOption(True, Precision.EXACT, place=PLACE, note=f"No option: it begins {begins}.")
    offset = _stepped_on(parse_offset(offset_json), facts)
    if offset.table_id != facts.table_id:
        return _unsupported_start("The position is in another table, which this one has replaced.")
    if offset.initial:
        return _within_snapshot(offset, facts)
    if offset.version < facts.earliest:
        return _unsupported_start(
            f"Delta refuses it: the log begins at version {facts.earliest}, not at {offset.version}."
        )
    if offset.version > facts.latest:
        return _at_the_end(offset, facts)
    return _whole_version(offset, facts)


def _stepped_on(offset: DeltaOffset, facts: DeltaFacts) -> DeltaOffset:
    """The beginning of the next version, where all of this one is read: a change feed stays at its last file."""
    commit = facts.commits.get(offset.version)
    if offset.initial or commit is None or not offset.read or offset.read < len(commit.files):
        return offset
    return DeltaOffset(offset.table_id, offset.version + 1)


def _whole_version(offset: DeltaOffset, facts: DeltaFacts) -> StartOption:
    commit = facts.commits.get(offset.version)
    files = commit.files if commit else None
    done = () if not offset.read else files[: offset.read] if files is not None else None
    doubled, rest = (
        _count_rows(done, facts),
        _count_rows(files[offset.read :] if files is not None else None, facts),
    )
    note = "The version's own commit is read, not the table before it."
    if offset.read:
        rest_of = "a number of rows that is not known" if rest is None else f"{rest.value} rows"
        note = (
            f"Files 1 to {offset.read} of version {offset.version} are read again, for the option takes whole "
            f"versions only. startingVersion {offset.version + 1} would miss {rest_of} instead."
        )
    return StartOption(
        supported=True,
        precision=Precision.AT_LEAST_ONCE if offset.read else Precision.EXACT,
        options=_start_options(facts, str(offset.version)),
        code=_option_code(_start_options(facts, str(offset.version))),
        place=_place_of_option(facts),
        doubled=doubled,
        missed=Amount(value=0),
        note=note,
    )


def _at_the_end(offset: DeltaOffset, facts: DeltaFacts) -> StartOption:
    """Delta refuses a version that is not committed yet; `latest` means the one after the newest at the start."""
    if offset.version > facts.latest + 1:
        return _unsupported_start(
            f"Version {offset.version} is beyond the table, which ends at {facts.latest}."
        )
    options = _start_options(facts, "latest")
    return StartOption(
        supported=True,
        precision=Precision.AT_MOST_ONCE,
        options=options,
        code=_option_code(options),
        place=_place_of_option(facts),
        doubled=Amount(value=0),
        missed=Amount(
            value=0, bound=Bound.ESTIMATE, why="what is committed before the stream has started is missed"
        ),
        note=(
            f"Version {offset.version} is not committed yet, and Delta refuses its number as a start. Exact only "
            "while nothing is written to the table before the stream has started."
        ),
    )


def _within_snapshot(offset: DeltaOffset, facts: DeltaFacts) -> StartOption:
    files = facts.snapshots.get(offset.version)
    doubled = None
    newest = facts.snapshots.get(facts.latest)
    if files is not None and newest is not None:
        again = {f.path for f in newest}
        doubled = _count_rows(tuple(f for f in files[: offset.read] if f.path in again), facts)
    return StartOption(
        supported=False,
        precision=Precision.AT_LEAST_ONCE,
        place=PLACE,
        doubled=doubled,
        missed=Amount(value=0),
        note=(
            "No option begins within a snapshot. Without one the table is read from its beginning as it is now; "
            "only a seeded checkpoint goes on here."
        ),
    )


def _unsupported_start(note: str) -> StartOption:
    return StartOption(False, Precision.UNKNOWN, place=PLACE, note=note)


def _place_of_option(facts: DeltaFacts) -> str:
    """Delta refuses startingVersion beside startingTimestamp, and of two startingVersions the later one wins."""
    return f"{instead_of(facts.reading.starting)}{PLACE}"


def _start_options(facts: DeltaFacts, version: str) -> Mapping[str, str]:
    feed = {"readChangeFeed": "true"} if facts.reading.change_feed else {}
    return {**feed, "startingVersion": version}


def _option_code(options: Mapping[str, str]) -> str:
    return "".join(f'.option("{name}", "{value}")' for name, value in options.items())


def find_position(wanted: StartChoice, committed: str | None, facts: DeltaFacts) -> StartCandidate:
    """A position that a person names. Raises Refused with the bounds, Malformed for a line that is none."""
    require_one_wish(wanted, of="a Delta table", can=CAN)
    fallbacks: dict[str, str] = {}
    if wanted.by_hand is not None:
        offset = _by_hand(wanted.by_hand, facts)
    elif wanted.at_ms is not None:
        offset = _at_time(wanted.at_ms, facts)
    elif wanted.version is not None:
        offset = _at_version(wanted.version, facts)
    elif wanted.file is not None:
        offset = _after_file(wanted.file, facts)
    elif wanted.earliest:
        offset = DeltaOffset(facts.table_id, facts.earliest)
        if facts.earliest:
            fallbacks[facts.table_id] = (
                f"Versions before {facts.earliest} are no longer in the log; rows that came with them are not read."
            )
    else:
        offset = DeltaOffset(facts.table_id, facts.latest + 1)
    line = wanted.by_hand if wanted.by_hand is not None else offset.as_json()
    return _build_candidate(offset, line, committed, facts, fallbacks)


def _build_candidate(
    offset: DeltaOffset, line: str, committed: str | None, facts: DeltaFacts, fallbacks: Mapping[str, str]
) -> StartCandidate:
    before = _position_of(committed, facts)
    lost, reread = Distance(), Distance()
    if before is not None and before.table_id == facts.table_id:
        skipped, again = left_out(before, offset, facts), left_out(offset, before, facts)
        lost = Distance() if skipped is None else _measure_distance(skipped, facts, before, offset)
        reread = Distance() if again is None else _measure_distance(again, facts, before, offset)
    return StartCandidate(
        offset_json=line,
        label=label_position(line, facts),
        precision=Precision.EXACT,
        lost=lost,
        reread=reread,
        changes=compare_positions(committed, line),
        fallbacks=fallbacks,
    )


def _at_time(at_ms: int, facts: DeltaFacts) -> DeltaOffset:
    """Before the first commit at or after a time, as `startingTimestamp` counts; never a time still to come."""
    if at_ms > facts.asked_ms:
        raise Refused("That time is still to come. Name one up to now, or take the latest position.")
    begins, ends = _timed_alike(at_ms, facts)
    times = {v: facts.times[v] for v in sorted(facts.times) if begins <= v < ends}
    first = min(times, default=None)
    if first is None or (first > begins and at_ms <= times[first]):
        known = "no commit time is known" if first is None else f"times are known from version {first} on"
        raise Refused(
            f"The log cannot resolve that time: {known}, which is later. Name a later time or a version.",
            code="time_not_in_log",
        )
    return DeltaOffset(facts.table_id, next((v for v, time_ms in times.items() if time_ms >= at_ms), ends))


def _timed_alike(at_ms: int, facts: DeltaFacts) -> tuple[int, int]:
    """The versions among which Delta looks for a time: those with a time of their own, or those before them.

    Source: DeltaHistoryManager.getActiveCommitAtTime, the protocol on in-commit timestamps.
    """
    since, made_ms = facts.in_commit or (facts.latest + 1, at_ms + 1)
    if facts.in_commit and (at_ms >= made_ms or since <= facts.earliest):
        return since, facts.latest + 1
    return 0, since


def _at_version(version: int, facts: DeltaFacts) -> DeltaOffset:
    if not facts.earliest <= version <= facts.latest + 1:
        raise Refused(
            f"Version {version} is out of bounds: the log holds {facts.earliest} to {facts.latest}, and "
            f"{facts.latest + 1} would be read next."
        )
    return DeltaOffset(facts.table_id, version)


def _after_file(path: str, facts: DeltaFacts) -> DeltaOffset:
    for version in sorted(facts.commits):
        for index, file in enumerate(facts.commits[version].files):
            if file.path == path:
                return _normalize_offset(
                    DeltaOffset(facts.table_id, version, index), len(facts.commits[version].files)
                )
    first = min(facts.commits, default=facts.latest + 1)
    raise Refused(f"No commit of versions {first} to {facts.latest} that is read has the file {path}.")


def _normalize_offset(offset: DeltaOffset, files: int) -> DeltaOffset:
    """After the last file of a version Delta itself writes the beginning of the next."""
    if offset.read < files:
        return offset
    return DeltaOffset(offset.table_id, offset.version + 1)


def _by_hand(line: str, facts: DeltaFacts) -> DeltaOffset:
    offset = parse_offset(line)
    if offset.table_id != facts.table_id:
        raise Refused(
            f"The line names table {offset.table_id}, and the table at {facts.location} is {facts.table_id}."
        )
    if offset.initial:
        files = facts.snapshots.get(offset.version)
        if files is None:
            raise Refused(
                f"The snapshot of version {offset.version} does not follow from the log; name changes instead."
            )
    else:
        _at_version(offset.version, facts)
        commit = facts.commits.get(offset.version)
        if commit is None and offset.index != BASE:
            raise Refused(
                f"How many files version {offset.version} has was not looked at; name its beginning."
            )
        files = commit.files if commit else ()
    if offset.read > len(files):
        raise Refused(
            f"Version {offset.version} has {len(files)} files to read, so index {offset.index} is out of bounds."
        )
    return offset
