"""Whether everything after a position in a Delta table can still be read, and until when. Pure.

Sources: DeltaLog.getChangeLogFiles and DeltaSource.validateCommitAndDecideSkipping (what stops a stream),
MetadataCleanup (a commit file goes at the first midnight UTC after mtime + logRetentionDuration, and only up to a
checkpoint that has expired as well: BufferingLogDeletionIterator), VacuumCommand (a removed file goes
deletedFileRetentionDuration after its removal).
"""

import json
from collections.abc import Iterator

from recovery.contracts.readers import ReaderOptions
from recovery.sources.base import Distance, EmptyStart, SourceRetention
from recovery.sources.delta_facts import (
    DataFile,
    DeltaFacts,
    DeltaOffset,
    StreamedCommit,
    parse_offset,
    sum_files,
)

DAY_MS = 24 * 3600 * 1000


def judge_reach(offset_json: str | None, facts: DeltaFacts) -> SourceRetention:
    """Whether a stream that goes on from here would read all that is there, by what is known of the table."""
    offset = facts.fresh() if offset_json is None else parse_offset(offset_json)
    if offset is None:
        return SourceRetention(None, "Where the stream would begin does not follow from its options.")
    blocked = _other_table(offset, facts) or _log_gone(offset, facts) or _files_gone(offset, facts)
    blocked = blocked or _find_stop(offset, facts)
    if blocked:
        return blocked
    if offset.version > facts.latest:
        return SourceRetention(True, "Everything has been read; nothing waits.")
    if any(v not in facts.commits for v in _unread_versions(offset, facts)):
        return SourceRetention(None, "Not all commits after the position were looked at.")
    until = _retention_end(offset, facts)
    seen = "all commits and their files are there" if facts.looked else "all commits are in the log"
    return SourceRetention(
        True if facts.looked else None, _describe_reach(seen, until, facts), until_ms=until
    )


def _describe_reach(seen: str, until: int | None, facts: DeltaFacts) -> str:
    due = "" if until is None else " Retention will take the first of it."
    if until is not None and until <= facts.asked_ms:
        due = " Retention may take the first of it at any time."
    return f"After this position {seen}.{due}"


def _other_table(offset: DeltaOffset, facts: DeltaFacts) -> SourceRetention | None:
    if offset.table_id == facts.table_id:
        return None
    return SourceRetention(
        False,
        f"The table was recreated: the position is in table {offset.table_id}, the one there now is {facts.table_id}. "
        "Spark stops with DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE; choose a position in the new table.",
        parts=(offset.table_id,),
    )


def _log_gone(offset: DeltaOffset, facts: DeltaFacts) -> SourceRetention | None:
    """Commits that the stream needs and the log no longer has."""
    if offset.version > facts.latest + 1:
        why = (
            f"The table ends at version {facts.latest}, before the position: its log was put back or cut. "
            f"A stream would wait for version {offset.version} and miss what comes before it."
        )
        return SourceRetention(False, why, parts=(facts.table_id,))
    if offset.initial and offset.version not in facts.snapshots:
        why = f"The first snapshot (version {offset.version}) can no longer be made from the log."
        return SourceRetention(False, f"{why} Choose a later position.", parts=(facts.table_id,))
    needed = offset.version + 1 if offset.initial else offset.version
    if needed >= facts.earliest or needed > facts.latest:
        return None
    count = facts.earliest - needed
    why = (
        f"{count} versions from {needed} on are no longer in the log, which begins at version {facts.earliest}. Spark "
        "stops with DELTA_MISSING_FILES_UNEXPECTED_VERSION; backfill them and go on at the first that is there."
    )
    return SourceRetention(False, why, lost=Distance(), parts=(facts.table_id,))


def _unread_versions(offset: DeltaOffset, facts: DeltaFacts) -> range:
    return range(offset.version + 1 if offset.initial else offset.version, facts.latest + 1)


def _iterate_waiting_files(offset: DeltaOffset, facts: DeltaFacts) -> Iterator[DataFile]:
    """Files after the position, as far as the facts hold them."""
    if offset.initial:
        yield from facts.snapshots.get(offset.version, ())[offset.read :]
    for version in _unread_versions(offset, facts):
        files = facts.commits[version].files if version in facts.commits else ()
        yield from files[offset.read if version == offset.version else 0 :]


def _files_gone(offset: DeltaOffset, facts: DeltaFacts) -> SourceRetention | None:
    lost = [f for f in _iterate_waiting_files(offset, facts) if f.path in facts.gone]
    if not lost:
        return None
    why = (
        f"{len(lost)} data files that are still to be read were deleted, as VACUUM does after a table's rows were "
        "rewritten. Spark stops at the first of them; their rows are in the table as it is now, where they still live."
    )
    return SourceRetention(False, why, lost=sum_files(lost), parts=(facts.table_id,))


def _find_stop(offset: DeltaOffset, facts: DeltaFacts) -> SourceRetention | None:
    """The first commit at which Spark stops the stream."""
    schema = facts.schemas.get(offset.version)
    for version in _unread_versions(offset, facts):
        commit = facts.commits.get(version)
        if commit is None:
            return None
        why = _explain_rewrite(commit, facts)
        if not why and commit.schema and version > offset.version:
            why = _explain_schema_change(schema, version, facts)
        if why:
            return SourceRetention(False, why, parts=(facts.table_id,))
        schema = commit.schema or schema
    return None


def _explain_rewrite(commit: StreamedCommit, facts: DeltaFacts) -> str:
    """DELETE, UPDATE, MERGE and the like: only a change feed reads them as they are."""
    reading = facts.reading
    if reading.change_feed or not commit.removes or reading.skip_change_commits or reading.ignore_changes:
        return ""
    what = f"Version {commit.version} ({commit.operation or 'no name'})"
    if commit.adds:
        return (
            f"{what} rewrites rows that were there. Spark stops with DELTA_SOURCE_TABLE_IGNORE_CHANGES; set "
            "skipChangeCommits, which leaves that version out, or read the change feed."
        )
    if reading.ignore_deletes:
        return ""
    return (
        f"{what} deletes rows. Spark stops with DELTA_SOURCE_IGNORE_DELETE; set skipChangeCommits, which leaves "
        "that version out, or read the change feed."
    )


def _explain_schema_change(before: str | None, version: int, facts: DeltaFacts) -> str:
    """A schema that the newest one cannot read; one that only gains columns asks for a restart at most."""
    if before is None or not facts.schema or _can_read_schema(before, facts.schema):
        return ""
    cure = (
        "give the reader a schemaTrackingLocation"
        if facts.column_mapping
        else "let the old code finish before the change, or choose a position after it"
    )
    return (
        f"The schema before version {version} cannot be read with today's: columns were renamed, dropped or "
        f"changed in type. Spark stops with DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE or DELTA_SCHEMA_CHANGED; {cure}."
    )


def _can_read_schema(old: str, new: str) -> bool:
    """Every column of the old schema is in the new one with its type, and none has become required."""
    now = {f["name"].lower(): f for f in json.loads(new).get("fields", ())}
    for column in json.loads(old).get("fields", ()):
        column_now = now.get(column["name"].lower())
        if (
            column_now is None
            or column_now["type"] != column["type"]
            or (column["nullable"] and not column_now["nullable"])
        ):
            return False
    return True


def _retention_end(offset: DeltaOffset, facts: DeltaFacts) -> int | None:
    """When the first of what waits may be taken: its commit by the log's cleaning, a removed file by VACUUM."""
    ends = []
    first = min(_unread_versions(offset, facts), default=None)
    committed_ms = facts.times.get(first) if first is not None else None
    if facts.log_retention_ms is not None and committed_ms is not None:
        due = committed_ms + facts.log_retention_ms
        ends.append(-(-due // DAY_MS) * DAY_MS)
    waiting = {f.path for f in _iterate_waiting_files(offset, facts)}
    if facts.file_retention_ms is not None:
        removed = [
            ms
            for v in _unread_versions(offset, facts)
            for path, ms in facts.commits[v].removed
            if path in waiting
        ]
        ends += [ms + facts.file_retention_ms for ms in removed]
    return min(ends, default=None)


def find_empty_start(options: ReaderOptions, facts: DeltaFacts | None) -> EmptyStart:
    """By `startingVersion`; without one the table as it is now, and what is committed after."""
    if facts is None:
        return EmptyStart(None, None, "The table was not asked, so it is not known what it still has.")
    begins = facts.fresh()
    if begins is None:
        return EmptyStart(None, None, "The reader begins at a time or a version that is not known here.")
    if begins.initial:
        return EmptyStart(
            True, True, f"An empty checkpoint begins with the table as it is now, at version {facts.latest}."
        )
    if begins.version > facts.latest:
        return EmptyStart(
            False,
            None,
            "The reader's startingVersion is latest: an empty checkpoint begins behind all that is there.",
        )
    if begins.version < facts.earliest:
        why = (
            f"The reader's startingVersion is {begins.version}, and the log begins at version {facts.earliest}: "
            "Delta refuses it."
        )
        return EmptyStart(None, False, why, fails=True)
    return EmptyStart(
        True, True, f"An empty checkpoint begins at version {begins.version}, as the reader's options say."
    )
