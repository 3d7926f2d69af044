"""What a position in a Delta table is, and what a stream reads of a commit. Pure.

Sources: DeltaSourceOffset, DeltaSource (validateCommitAndDecideSkipping, filterAndGetIndexedFiles),
DeltaSourceCDCSupport (filterCDCActions), CDCReader.shouldSkipFileActionsInCommit, DeltaSourceSnapshot.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from recovery.checkpoints.deltalog import Action, added_file
from recovery.checkpoints.formats import Malformed, number_of, object_of
from recovery.contracts.amounts import Amount, Bound
from recovery.contracts.readers import ReaderOptions
from recovery.numbers import whole
from recovery.sources.base import Distance

BASE = -100  # before everything of a version; format 1 writes it as -1
BASE_V1 = -1
METADATA_CHANGES = (-20, -19)  # at a change of the schema, and just after it (format 3 only)
END = (1 << 63) - 1 - 100  # never written


@dataclass(frozen=True)
class DeltaOffset:
    """What has been read: all before `version`, and of that version the files up to `index`.

    `initial`: the version is the snapshot that a new stream reads first, not the changes that were committed as it.
    """

    table_id: str
    version: int
    index: int = BASE
    initial: bool = False

    @property
    def read(self) -> int:
        """How many files of the version have been read."""
        return self.index + 1 if self.index >= 0 else 0

    def as_json(self) -> str:
        """The line as Delta writes it: format 1 wherever that can say it."""
        body = {
            "sourceVersion": 3 if self.index in METADATA_CHANGES else 1,
            "reservoirId": self.table_id,
            "reservoirVersion": self.version,
            "index": BASE_V1 if self.index == BASE else self.index,
            "isStartingVersion": self.initial,
        }
        return json.dumps(body, separators=(",", ":"))


def parse_offset(offset_json: str) -> DeltaOffset:
    """An offset line. Raises Malformed for what Delta refuses too; `newer` is set where it is a later format's."""
    body = object_of(offset_json)
    source_version = number_of(body, "sourceVersion")
    if source_version > 3:
        raise Malformed(f"it is in format {source_version}", newer=str(source_version))
    if source_version < 1 or source_version == 2:
        raise Malformed(f"sourceVersion {source_version} is none that Delta writes")
    table_id, initial = body.get("reservoirId"), body.get("isStartingVersion")
    if not isinstance(table_id, str) or not table_id:
        raise Malformed("reservoirId is missing")
    if not isinstance(initial, bool):
        raise Malformed("isStartingVersion is missing or is not true or false")
    version, index = number_of(body, "reservoirVersion"), number_of(body, "index")
    if index == BASE_V1 and source_version < 3:
        index = BASE
    special = (BASE, *(METADATA_CHANGES if source_version == 3 else ()))
    if version < 0 or index >= END or (index < 0 and index not in special):
        raise Malformed(f"version {version}, index {index} is no position")
    return DeltaOffset(table_id, version, index, initial)


@dataclass(frozen=True)
class DeltaReadOptions:
    """The options of a reader that decide what it reads of a commit."""

    change_feed: bool = False
    skip_change_commits: bool = False
    ignore_changes: bool = False
    ignore_deletes: bool = False
    starting_version: str | None = None
    starting_timestamp: bool = False
    #: excludeRegex is set: fewer files are read than are counted here
    exclude: bool = False

    @property
    def starting(self) -> tuple[str, ...]:
        """The options by which the code says where an empty checkpoint begins."""
        given = {
            "startingVersion": self.starting_version is not None,
            "startingTimestamp": self.starting_timestamp,
        }
        return tuple(name for name, is_set in given.items() if is_set)

    @classmethod
    def from_options(cls, options: ReaderOptions) -> "DeltaReadOptions":
        """Options as the code gives them, in any case."""
        lower = {k.lower(): str(v) for k, v in options.items()}

        def on(*names: str) -> bool:
            return any(lower.get(name, "").lower() == "true" for name in names)

        return cls(
            change_feed=on("readchangefeed", "readchangedata"),
            skip_change_commits=on("skipchangecommits"),
            ignore_changes=on("ignorechanges", "ignorefiledeletion"),
            ignore_deletes=on("ignoredeletes"),
            starting_version=lower.get("startingversion"),
            starting_timestamp="startingtimestamp" in lower,
            exclude="excluderegex" in lower,
        )


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file that a stream reads."""

    #: as the log writes it
    path: str
    size: int
    #: None: not recorded
    rows: int | None
    #: rows in it are marked as deleted (or it represents such marks), so its footer counts too many
    vector: bool = False
    #: read as Parquet below the table's folder it yields what the table does (`deltalog.AddedFile`)
    plain: bool = False


@dataclass(frozen=True, slots=True)
class StreamedCommit:
    """One version as a stream sees it."""

    version: int
    time_ms: int
    #: in the order of their indexes
    files: tuple[DataFile, ...] = ()
    operation: str = ""
    #: it adds data, not only by compaction
    adds: bool = False
    #: it removes data, not only by compaction
    removes: bool = False
    #: the schema that it sets (schemaString)
    schema: str | None = None
    #: files that it takes from the table, and when (ms): VACUUM may delete them some time later
    removed: tuple[tuple[str, int], ...] = ()
    #: bytes of files added less those taken, as far as the log shows them
    grew: int = 0


@dataclass(frozen=True)
class DeltaFacts:
    """A Delta table as it was at `asked_ms`."""

    asked_ms: int
    location: str
    table_id: str
    #: the first version from which the log has all commits
    earliest: int
    latest: int
    #: those that were read, from the earliest position in question to the latest
    commits: Mapping[int, StreamedCommit] = field(default_factory=dict)
    #: version -> commit time in ms, as far as known
    times: Mapping[int, int] = field(default_factory=dict)
    #: from which version on commits hold their own time, and when that one was made; earlier times are those of
    #: the log's files, which copying the log changes. None: all of them are
    in_commit: tuple[int, int] | None = None
    #: version -> files in the order in which a new stream reads them
    snapshots: Mapping[int, tuple[DataFile, ...]] = field(default_factory=dict)
    #: version -> schemaString
    schemas: Mapping[int, str] = field(default_factory=dict)
    schema: str = ""
    column_mapping: bool = False
    reading: DeltaReadOptions = field(default_factory=DeltaReadOptions)
    #: None: the log is not cleaned
    log_retention_ms: int | None = None
    file_retention_ms: int | None = None
    #: paths that the log names and that are missing
    gone: frozenset[str] = frozenset()
    #: whether anyone looked for missing files
    looked: bool = False
    #: nothing in the table's metadata keeps its files from being read as Parquet
    plain: bool = False
    #: bytes of all files of the latest version; None: not asked
    size: int | None = None

    def size_of(self, version: int) -> int | None:
        """Bytes of all files of a version; None: not known."""
        since = range(version + 1, self.latest + 1)
        if self.size is None or any(v not in self.commits for v in since):
            return None
        return max(0, self.size - sum(self.commits[v].grew for v in since))

    def time_of(self, version: int) -> int | None:
        """When a version was committed; of one that is still to come, when it was asked."""
        return self.asked_ms if version > self.latest else self.times.get(version)

    def one_clock(self, versions: Iterable[int]) -> bool:
        """Whether the times of these versions can be taken from each other."""
        return self.in_commit is None or len({v >= self.in_commit[0] for v in versions}) == 1

    def fresh(self) -> DeltaOffset | None:
        """Where a stream with an empty checkpoint would begin. None: its options do not show it."""
        version = self.reading.starting_version
        if self.reading.starting_timestamp:
            return None  # a time in the session's zone
        if version is None:
            return DeltaOffset(self.table_id, self.latest, BASE, True)
        if version.lower() == "latest":
            return DeltaOffset(self.table_id, self.latest + 1)
        number = whole(version)
        return None if number is None else DeltaOffset(self.table_id, number)


# What a reader has to know (protocol, "readerFeatures") and what changes nothing in a file without deletion vector.
HARMLESS = {"columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
# Written in a folder's name as in the log, whatever zone or setting the writer had.
SAME_IN_A_NAME = {"string", "byte", "short", "integer", "long", "date", "boolean"}


def is_plain_table(metadata: Mapping[str, Any], protocol: Mapping[str, Any], schema: str) -> bool:
    """Whether a table's data files, read as Parquet with its schema, are what Spark reads of the table.

    Not by column mapping (other names and ids), types that were widened, a padded CHAR, a feature that is not known
    here, nor where folders may tell a partition in another way than the log. Deletion vectors are a file's own.
    """
    features = protocol.get("readerFeatures") or ()
    mode = (metadata.get("configuration") or {}).get("delta.columnMapping.mode", "none")
    if mode != "none" or not set(features) <= HARMLESS or "__CHAR_VARCHAR_TYPE_STRING" in schema:
        return False
    types = {f["name"]: f["type"] for f in object_of(schema).get("fields") or ()}
    partition = metadata.get("partitionColumns") or ()
    return all(isinstance(types.get(name), str) and types[name] in SAME_IN_A_NAME for name in partition)


def commit_of(
    version: int, time_ms: int, actions: Iterable[Action], reading: DeltaReadOptions
) -> StreamedCommit:
    """What a stream with these options reads of a commit, by the actions of its file.

    Raises whatever reading such a value raises where they are none of Delta's (`deltalog.require_actions`).
    """
    held = list(actions)
    came, went = ([a[kind] for a in held if a.get(kind)] for kind in ("add", "remove"))
    adds, removes = ([body for body in bodies if body.get("dataChange", True)] for bodies in (came, went))
    info: Mapping[str, Any] = next((a["commitInfo"] for a in held if a.get("commitInfo")), {})
    plain = [] if removes and reading.skip_change_commits else adds
    files = _list_changed_files(held, info) if reading.change_feed else [_data_file(f) for f in plain]
    return StreamedCommit(
        version=version,
        time_ms=time_ms,
        files=tuple(files),
        operation=str(info.get("operation") or ""),
        adds=bool(adds),
        removes=bool(removes),
        schema=_schema_of(held),
        removed=tuple((str(body["path"]), int(body.get("deletionTimestamp") or 0)) for body in went),
        grew=sum(int(body.get("size") or 0) for body in came)
        - sum(int(body.get("size") or 0) for body in went),
    )


def _schema_of(held: list[Action]) -> str | None:
    """The schema that a commit sets, with all that is compared of it later."""
    schema = next((a["metaData"].get("schemaString") for a in held if a.get("metaData")), None)
    if schema and not all(
        {"name", "type", "nullable"} <= column.keys() for column in json.loads(schema)["fields"]
    ):
        raise Malformed("a column of its schema has no name or type")
    return schema


def _list_changed_files(held: list[Action], info: Mapping[str, Any]) -> list[DataFile]:
    """The files of which a change feed is made: its own, else those that came and went with data."""
    feed = [a["cdc"] for a in held if a.get("cdc")]
    if feed:
        return [_data_file(f) for f in feed]
    metrics = info.get("operationMetrics") or {}
    names = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")
    if info.get("operation") == "MERGE" and all(metrics.get(name) == "0" for name in names):
        return []
    bodies = [(kind, a[kind]) for a in held for kind in ("add", "remove") if a.get(kind)]
    moved = [(kind, b) for kind, b in bodies if b.get("dataChange", True)]
    came = {b["path"]: b for kind, b in moved if kind == "add"}
    went = {b["path"]: b for kind, b in moved if kind == "remove"}
    return [
        _marked_file(kind, went[b["path"]], came[b["path"]])
        if b["path"] in came.keys() & went.keys()
        else _data_file(b)
        for kind, b in moved
    ]


def _marked_file(kind: str, went: Action, came: Action) -> DataFile:
    """One of the two actions by which marks are set in a file, or taken away: the feed has the marked rows alone.

    Their number is recorded with the added file. How two sets of marks differ is not known without reading them.
    Source: CDCReader.generateFileActionsWithInlineDv.
    """
    old, new = (body.get("deletionVector") or {} for body in (went, came))
    file = added_file(came if kind == "add" else went)
    rows = None
    if bool(old) != bool(new):
        rows = int((old or new).get("cardinality") or 0) if kind == "add" else 0
    return DataFile(file.path, file.size, rows, vector=True)


def _data_file(body: Mapping[str, Any]) -> DataFile:
    """A removed file with a deletion vector represents some of its rows: how many, the log does not tell."""
    file = added_file(body)
    rows = None if file.vector and "deletionTimestamp" in body else file.rows
    return DataFile(file.path, file.size, rows, file.vector, file.plain)


def in_reading_order(files: Iterable[Any]) -> tuple[DataFile, ...]:
    """Files of a snapshot (deltalog.AddedFile) as a new stream reads them: by modificationTime, then by path."""
    ordered = sorted(files, key=lambda f: (f.modified_ms, f.path.encode()))
    return tuple(DataFile(f.path, f.size, f.rows, f.vector, f.plain) for f in ordered)


def sum_files(files: Iterable[DataFile], *, exact: bool = True, why: str = "") -> Distance:
    """Rows, files and bytes of these files. Rows that are not recorded are estimated by size and marked so."""
    held = list(files)
    counted = [f for f in held if f.rows is not None]
    rows, size = sum(f.rows or 0 for f in counted), sum(f.size for f in counted)
    reason = why
    estimate: int | None = rows
    if len(counted) < len(held):
        rest = sum(f.size for f in held if f.rows is None)
        estimate = rows + round(rest * rows / size) if size and rows else None
        reason = (
            f"{len(held) - len(counted)} of {len(held)} files have no row count; these are estimated by size"
        )
    exactly = exact and not reason
    return Distance(
        rows=None
        if estimate is None
        else Amount(value=estimate, bound=Bound.ESTIMATE.unless(exactly), why=reason),
        files=Amount(value=len(held), bound=Bound.ESTIMATE.unless(exact), why=why),
        bytes=Amount(value=sum(f.size for f in held), bound=Bound.ESTIMATE.unless(exact), why=why),
    )


def plus_seconds(distance: Distance, start: int | None, end: int | None) -> Distance:
    """The distance with the time between two commits."""
    if start is None or end is None:
        return distance
    return replace(distance, seconds=Amount(value=abs(end - start) // 1000))
