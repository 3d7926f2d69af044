"""Asks a Delta table: its log from the positions in question on, its snapshots, and which data files are there.

Everything goes through Store, with the credentials of every other read. Only commits from the earliest position to
the latest are opened; of the others the listing tells the times. Facts: see recovery/checkpoints/deltalog.py.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from recovery.checkpoints import deltalog
from recovery.checkpoints.access import carry_access
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.storage import READERS, Store, reaching
from recovery.contracts.readers import ReaderOptions
from recovery.errors import InputMissing, Refused, RepriseError, Unreachable
from recovery.numbers import read_whole
from recovery.sources.delta_facts import (
    DataFile,
    DeltaFacts,
    DeltaOffset,
    DeltaReadOptions,
    StreamedCommit,
    commit_of,
    in_reading_order,
    is_plain_table,
    parse_offset,
)

MAX_ACTIONS = 2_000_000  # data files in the commits between; some 300 bytes each
MAX_FOOTERS = 1000  # Parquet files opened because no statistics tell their rows
FEW_FILES = 2000  # up to so many are looked at one by one; more are compared with one listing
LOG_RETENTION = "interval 30 days"
FILE_RETENTION = "interval 1 week"


def read_table(
    location: str,
    *,
    offsets: Sequence[str | None],
    options: ReaderOptions,
    now_ms: int | None = None,
    known: DeltaFacts | None = None,
    look: bool = True,
    since: int | None = None,
) -> DeltaFacts:
    """The facts that positions `offsets` of the table at `location` are judged by.

    `options`: the reader's. `known`: facts of an earlier look, whose commits are not opened again. `look`: whether
    the files that are still to be read are looked for. `since`: a version from which commits are opened, where that
    is before all positions, for one that may be chosen. Raises Unreachable, Refused beyond MAX_ACTIONS files,
    Malformed for an offset line that is none.
    """
    with reaching(location):
        table = Store.open(location)
        log = _open_log(table, location)
        try:
            return _read_facts(table, log, offsets, options, now_ms, known, look, since)
        except Malformed as problem:
            raise Unreachable(
                f"The log of {location} cannot be read: {problem.why}. Repair the table."
            ) from problem


def table_id(location: str) -> str | None:
    """The id of the table that is there now; None where not known. Only its newest metadata is looked for."""
    try:
        with reaching(location):
            log = _open_log(Store.open(location), location)
            return deltalog.table_state(log, log.latest).table_id
    except (RepriseError, Malformed, deltalog.DeltaLogGone):
        return None


def measure_table(facts: DeltaFacts) -> DeltaFacts:
    """The same, with the size of the whole table. Every file of its latest version is looked up in the log.

    Where that cannot be done there is no size.
    """
    try:
        with reaching(facts.location):
            log = _open_log(Store.open(facts.location), facts.location)
            held = deltalog.table_state(log, facts.latest, files=True)
    except (Unreachable, Malformed, deltalog.DeltaLogGone):
        return facts
    return replace(facts, size=sum(f.size for f in held.files.values()))


def _open_log(table: Store, location: str) -> deltalog.DeltaLog:
    log = deltalog.list_log(table)
    if log is None:
        raise InputMissing(
            f"{location} holds no Delta table. Check the path; Spark would refuse it too.",
            code="no_delta_table",
        )
    if log.staged is not None:
        raise Unreachable(
            f"The newest commits of {location} (up to {log.staged}) are with its catalog and not in its log. Read "
            "the table through the catalog."
        )
    return log


def _read_facts(
    table: Store,
    log: deltalog.DeltaLog,
    offsets: Sequence[str | None],
    options: ReaderOptions,
    now_ms: int | None,
    known: DeltaFacts | None,
    look: bool,
    since: int | None,
) -> DeltaFacts:
    reading = DeltaReadOptions.from_options(options)
    try:
        newest = deltalog.table_state(log, log.latest)
    except deltalog.DeltaLogGone as gap:
        raise Unreachable(
            f"{table.location} cannot be read: {gap}. Put its log back; Spark would refuse it too.",
            code="log_gap",
        ) from gap
    properties = newest.properties
    with deltalog.require_actions("its newest metadata"):
        as_parquet = is_plain_table(newest.metadata, newest.protocol, newest.schema)
    facts = DeltaFacts(
        asked_ms=round(time.time() * 1000) if now_ms is None else now_ms,
        location=table.location,
        table_id=newest.table_id,
        earliest=log.earliest,
        latest=log.latest,
        times=deltalog.commit_times(log),
        schema=newest.schema,
        column_mapping=properties.get("delta.columnMapping.mode", "none") != "none",
        reading=reading,
        plain=as_parquet,
        log_retention_ms=_log_retention(properties),
        file_retention_ms=deltalog.interval_ms(
            properties.get("delta.deletedFileRetentionDuration", FILE_RETENTION)
        ),
    )
    asked = [facts.fresh() if line is None else parse_offset(line) for line in offsets]
    wanted = [o for o in asked if o is not None and o.table_id == facts.table_id]
    facts = _with_commits(facts, log, wanted, known, since)
    facts = _with_own_times(facts, properties)
    facts = _with_snapshots(facts, log, wanted)
    facts = _with_footers(facts, table)
    return _with_gone(facts, table, wanted) if look else facts


def _with_own_times(facts: DeltaFacts, properties: Mapping[str, str]) -> DeltaFacts:
    """In-commit timestamps, where the table has them: of the commits that were opened, from their enablement on."""
    if properties.get("delta.enableInCommitTimestamps", "").lower() != "true":
        return facts
    since, since_ms = (
        read_whole(properties.get(f"delta.inCommitTimestampEnablement{name}", "0"))
        for name in ("Version", "Timestamp")
    )
    if since is None or since_ms is None:
        raise Malformed("its metadata does not say since when commits have times of their own")
    before = {v: ms for v, ms in facts.times.items() if v < since}
    own = {v: c.time_ms for v, c in sorted(facts.commits.items()) if v >= since}
    return replace(facts, times=before | own, in_commit=(since, since_ms))


def _log_retention(properties: Mapping[str, str]) -> int | None:
    if properties.get("delta.enableExpiredLogCleanup", "true").lower() == "false":
        return None
    return deltalog.interval_ms(properties.get("delta.logRetentionDuration", LOG_RETENTION))


def _with_commits(
    facts: DeltaFacts,
    log: deltalog.DeltaLog,
    wanted: Sequence[DeltaOffset],
    known: DeltaFacts | None,
    since: int | None,
) -> DeltaFacts:
    """Commits from the earliest position on (of those that the log still has)."""
    asked = [o.version for o in wanted] + ([] if since is None else [since])
    first = max(facts.earliest, min(asked, default=facts.latest + 1))
    held: dict[int, StreamedCommit] = {}
    if known is not None and known.table_id == facts.table_id and known.reading == facts.reading:
        held = {v: c for v, c in known.commits.items() if first <= v <= facts.latest}
    missing = [v for v in range(first, facts.latest + 1) if v not in held]
    count = sum(len(c.files) + len(c.removed) for c in held.values())
    try:
        for version, actions in deltalog.read_commits(log, missing):
            with deltalog.require_actions(deltalog.name_of(version)):
                time_ms = _commit_time(actions, facts.times[version])
                commit = held[version] = commit_of(version, time_ms, actions, facts.reading)
            count += len(commit.files) + len(commit.removed)
            if count > MAX_ACTIONS:
                raise Refused(
                    f"More than {MAX_ACTIONS} data files lie after version {first} of {facts.location}. Ask about "
                    "a later position.",
                    code="too_large",
                )
    except deltalog.DeltaLogGone as gap:
        raise Unreachable(f"{facts.location}: {gap}; it was cleaned just now. Ask again.") from gap
    commits = dict(sorted(held.items()))
    return replace(facts, commits=commits, schemas=_schemas_at_positions(facts, log, wanted, commits))


def _commit_time(actions: Iterable[deltalog.Action], file_time_ms: int) -> int:
    info: Mapping[str, Any] = next((a["commitInfo"] for a in actions if a.get("commitInfo")), {})
    return int(info.get("inCommitTimestamp") or file_time_ms)


def _schemas_at_positions(
    facts: DeltaFacts,
    log: deltalog.DeltaLog,
    wanted: Sequence[DeltaOffset],
    commits: Mapping[int, StreamedCommit],
) -> dict[int, str]:
    """The schema at each position, where it changes later at all and the log can still tell it."""
    schemas = {}
    for version in {o.version for o in wanted if o.version <= facts.latest}:
        if not any(c.schema for v, c in commits.items() if v >= version):
            schemas[version] = facts.schema
            continue
        try:
            schemas[version] = deltalog.table_state(log, version).schema
        except deltalog.DeltaLogGone:
            continue
    return schemas


def _with_snapshots(facts: DeltaFacts, log: deltalog.DeltaLog, wanted: Sequence[DeltaOffset]) -> DeltaFacts:
    """Snapshots that a position is in, and the newest beside them: an empty checkpoint would begin there."""
    versions = {o.version for o in wanted if o.initial and o.version <= facts.latest}
    snapshots = {}
    for version in sorted(versions | {facts.latest} if versions else versions):
        try:
            state = deltalog.table_state(log, version, files=True)
        except deltalog.DeltaLogGone:
            continue
        snapshots[version] = in_reading_order(state.files.values())
    return replace(facts, snapshots=snapshots)


def _with_footers(facts: DeltaFacts, table: Store) -> DeltaFacts:
    """Rows of files without statistics, as a change feed's are, from the files' own footers."""
    unknown = {f.path: f for c in facts.commits.values() for f in c.files if _needs_row_count(f)}
    unknown |= {f.path: f for files in facts.snapshots.values() for f in files if _needs_row_count(f)}
    if not unknown or len(unknown) > MAX_FOOTERS:
        return facts
    with ThreadPoolExecutor(READERS) as pool:
        counts = dict(
            zip(unknown, pool.map(carry_access(lambda path: _footer_rows(table, path)), unknown), strict=True)
        )

    def filled(files: tuple[DataFile, ...]) -> tuple[DataFile, ...]:
        return tuple(replace(f, rows=counts[f.path]) if _needs_row_count(f) else f for f in files)

    return replace(
        facts,
        commits={v: replace(c, files=filled(c.files)) for v, c in facts.commits.items()},
        snapshots={v: filled(files) for v, files in facts.snapshots.items()},
    )


def _needs_row_count(file: DataFile) -> bool:
    return file.rows is None and not file.vector and not _is_of_other_table(file.path)


def _footer_rows(table: Store, path: str) -> int | None:
    """None: the file is gone or cannot be read; it is looked for later."""
    import pyarrow.parquet as pq  # late, as in checkpoints/deltalog.py

    try:
        with table.stream(unquote(path)) as stream:
            return int(pq.ParquetFile(stream).metadata.num_rows)
    except (OSError, ValueError):
        return None


def _is_of_other_table(path: str) -> bool:
    """An absolute path: the file is another table's, of which this one is a shallow clone."""
    return "://" in path or path.startswith(("/", "file:"))


def _with_gone(facts: DeltaFacts, table: Store, wanted: Sequence[DeltaOffset]) -> DeltaFacts:
    """Which of the files after the earliest position are not there any more."""
    paths = {f.path for v, c in facts.commits.items() for f in c.files[_count_read_files(v, wanted) :]}
    paths |= {f.path for o in wanted if o.initial for f in facts.snapshots.get(o.version, ())[o.read :]}
    near = [p for p in paths if not _is_of_other_table(p)]
    if len(near) <= FEW_FILES:
        with ThreadPoolExecutor(READERS) as pool:
            exist = pool.map(carry_access(lambda p: table.exists(unquote(p))), near)
            gone = {p for p, is_there in zip(near, exist, strict=True) if not is_there}
    else:
        files, _, whole = table.walk()
        if not whole:
            return facts
        gone = {p for p in near if unquote(p) not in files}
    return replace(facts, gone=frozenset(gone), looked=len(near) == len(paths))


def _count_read_files(version: int, wanted: Sequence[DeltaOffset]) -> int:
    """Files of a version that every position has behind it."""
    return min((o.read if o.version == version and not o.initial else 0 for o in wanted), default=0)
