"""What a Delta table's log (`_delta_log`) holds: commits, checkpoints, transactions of streams. Read, never written.

Here and not in the sources or sinks room, because an inspection compares a checkpoint with its table. Through our own
Store, so that one set of credentials and limits holds for local paths and object stores. Facts: the Delta protocol
(PROTOCOL.md: commit files, classic, multi-part and v2 checkpoints), DeltaHistoryManager (commit times).
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import unquote

from recovery.bounded import TooMany, require_values
from recovery.checkpoints.access import carry_access
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.storage import READERS, Store, TooLarge

FOLDER = "_delta_log"
COMMIT = re.compile(r"([0-9]{20})\.json")
CHECKPOINT = re.compile(
    r"([0-9]{20})\.checkpoint(?:\.[0-9]{10}\.([0-9]{10})|\.[0-9a-f-]{36})?\.(?:parquet|json)"
)
STAGED = re.compile(r"([0-9]{20})\.[0-9a-f-]{36}\.json")
MAX_COMMIT_BYTES = 1 << 29
ROWS_AT_ONCE = 512
LARGEST_ROWS = 1 << 26
"""Bytes of `ROWS_AT_ONCE` rows of a checkpoint: a few kB of text, packed well, may be gigabytes."""
LONGEST_STATISTICS = 1 << 18
MAX_STATE_FILES = 2_000_000
WINDOW = 256  # commits read ahead of a store far away
NUM_RECORDS = re.compile(r'\s*\{\s*"numRecords"\s*:\s*([0-9]+)\s*[,}]')  # first, as Spark writes it
UNIT_MS = {
    "millisecond": 1, "second": 1000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000, "week": 604_800_000,
}  # fmt: skip
INTERVAL = re.compile(r"(?<![0-9])([0-9]+)\s+(millisecond|second|minute|hour|day|week)s?")
Action = Mapping[str, Any]


class DeltaLogGone(Exception):
    """The log no longer holds what this version is made of. `version`: the first commit that is missing."""

    def __init__(self, version: int) -> None:
        super().__init__(f"commit {version} is not in the log")
        self.version = version


@dataclass(frozen=True)
class DeltaLog:
    """Names in a log, listed once. `commits`: version -> mtime of its file in ms; `checkpoints`: whole ones only.

    `staged`: the newest version that is in `_staged_commits` alone, as a catalog that owns the table leaves it.
    """

    store: Store
    commits: Mapping[int, int]
    checkpoints: Mapping[int, tuple[str, ...]]
    staged: int | None = None

    @cached_property
    def latest(self) -> int:
        return max((*self.commits, *self.checkpoints))

    @cached_property
    def earliest(self) -> int:
        """The first version from which every commit up to the latest is there; latest + 1 where none is."""
        first = self.latest + 1
        while first - 1 in self.commits:
            first -= 1
        return first


@dataclass(frozen=True, slots=True)
class AddedFile:
    """A data file as an `add` action has it. `path` as written (URL-encoded); `rows` None: not recorded."""

    path: str
    size: int
    modified_ms: int
    rows: int | None
    #: it has a deletion vector
    vector: bool = False
    #: its rows are just those of the file, and its folders say its partition
    plain: bool = False


@dataclass(frozen=True)
class Txn:
    """The newest batch that the table remembers of one application (SetTransaction)."""

    version: int
    updated_ms: int | None = None


@dataclass(frozen=True)
class TableState:
    """A table at one version. `files` in no order, empty unless they were asked for."""

    version: int
    metadata: Mapping[str, Any]
    protocol: Mapping[str, Any]
    txns: Mapping[str, Txn]
    files: Mapping[tuple[str, str], AddedFile] = field(default_factory=dict)

    @property
    def table_id(self) -> str:
        return str(self.metadata.get("id"))

    @property
    def properties(self) -> Mapping[str, str]:
        return dict(self.metadata.get("configuration") or {})

    @property
    def schema(self) -> str:
        return str(self.metadata.get("schemaString"))


def list_log(table: Store) -> DeltaLog | None:
    """The log of a table; None where there is none. Raises OSError when the storage fails."""
    if not table.is_dir(FOLDER):
        return None
    store = table.child(FOLDER)
    commits: dict[int, int] = {}
    parts: dict[tuple[int, str], list[str]] = {}
    staged = False
    for entry in store.entries():
        if match := COMMIT.fullmatch(entry.name):
            commits[int(match[1])] = entry.mtime_ms or 0
        elif match := CHECKPOINT.fullmatch(entry.name):
            parts.setdefault((int(match[1]), match[2] or ""), []).append(entry.name)
        staged = staged or (entry.is_dir and entry.name in ("_staged_commits", "_commits"))
    whole = {
        v: tuple(sorted(names))
        for (v, count), names in parts.items()
        if not count or len(names) == int(count)
    }
    if not commits and not whole:
        return None
    newest = _find_staged_version(store) if staged else None
    above = newest if newest is not None and newest > max((*commits, *whole)) else None
    return DeltaLog(store, dict(sorted(commits.items())), whole, above)


def _find_staged_version(store: Store) -> int | None:
    versions = []
    for folder in ("_staged_commits", "_commits"):
        names = [e.name for e in store.entries(folder)] if store.is_dir(folder) else []
        versions += [int(match[1]) for match in map(STAGED.fullmatch, names) if match]
    return max(versions, default=None)


def name_of(version: int) -> str:
    """The file of a commit, in its log."""
    return f"{version:020}.json"


@contextmanager
def require_actions(name: str) -> Iterator[None]:
    """Raise Malformed, with the file's name, for what is JSON and yet no action as the protocol has it."""
    try:
        yield
    except (KeyError, AttributeError, TypeError, ValueError, OverflowError, RecursionError) as problem:
        raise Malformed(f"{name} holds an action that is not one of Delta's") from problem


def read_actions(log: DeltaLog, version: int) -> list[Action]:
    """The actions of one commit, in order. Raises DeltaLogGone, Malformed, OSError."""
    name = name_of(version)
    try:
        data = log.store.read(name, MAX_COMMIT_BYTES)
    except FileNotFoundError as missing:
        raise DeltaLogGone(version) from missing
    except TooLarge as problem:
        raise Malformed(f"{name} has {problem.size} bytes, the limit is {problem.limit}") from problem
    return _parse_actions(data, name)


def _parse_actions(data: bytes, name: str) -> list[Action]:
    try:
        require_values(data)
        actions = [json.loads(line) for line in data.splitlines() if line.strip()]
    except TooMany as problem:
        raise Malformed(f"{name} holds {problem}") from problem
    except (ValueError, RecursionError) as problem:
        raise Malformed(f"{name} is cut short or is not JSON") from problem
    if not all(isinstance(action, dict) for action in actions):
        raise Malformed(f"{name} holds a line that is no action")
    return actions


def read_commits(log: DeltaLog, versions: Sequence[int]) -> Iterator[tuple[int, list[Action]]]:
    """(version, actions) of these commits, in order; far away, several are read at a time, a window at once."""
    if log.store.local:
        yield from ((version, read_actions(log, version)) for version in versions)
        return
    with ThreadPoolExecutor(READERS) as pool:
        for start in range(0, len(versions), WINDOW):
            window = versions[start : start + WINDOW]
            yield from zip(
                window, pool.map(carry_access(lambda v: read_actions(log, v)), window), strict=True
            )


def table_state(log: DeltaLog, version: int, *, files: bool = False) -> TableState:
    """The table at `version`: the newest checkpoint up to it and the commits since.

    Raises DeltaLogGone, Malformed, OSError.
    """
    base = max((v for v in log.checkpoints if v <= version), default=-1)
    missing = next((v for v in range(base + 1, version + 1) if v not in log.commits), None)
    if missing is not None:
        raise DeltaLogGone(missing)
    building = _Building(files)
    if base >= 0:
        with require_actions(f"the checkpoint of version {base}"):
            for action in _read_checkpoint_actions(log, base, files):
                building.take(action)
    for number, actions in read_commits(log, range(base + 1, version + 1)):
        with require_actions(name_of(number)):
            for action in actions:
                building.take(action)
    return TableState(version, building.metadata, building.protocol, building.txns, building.files)


class _Building:
    """Replays actions, the later ones over the earlier."""

    def __init__(self, files: bool) -> None:
        self.with_files = files
        self.metadata: Mapping[str, Any] = {}
        self.protocol: Mapping[str, Any] = {}
        self.txns: dict[str, Txn] = {}
        self.files: dict[tuple[str, str], AddedFile] = {}

    def take(self, action: Action) -> None:
        if metadata := action.get("metaData"):
            self.metadata = _normalize_metadata(metadata)
        elif protocol := action.get("protocol"):
            self.protocol = protocol
        elif txn := action.get("txn"):
            self.txns[str(txn["appId"])] = Txn(int(txn["version"]), txn.get("lastUpdated"))
        elif self.with_files and (add := action.get("add")):
            self.files[file_key(add)] = added_file(add)
            if len(self.files) > MAX_STATE_FILES:
                raise Malformed(f"the table has more than {MAX_STATE_FILES} files")
        elif self.with_files and (remove := action.get("remove")):
            self.files.pop(file_key(remove), None)


def _normalize_metadata(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Metadata as a commit has it: Parquet tells a map as pairs."""
    configuration = dict(metadata.get("configuration") or {})
    return {**metadata, "configuration": {str(key): str(value) for key, value in configuration.items()}}


def file_key(action: Action) -> tuple[str, str]:
    """A file is known by its path and its deletion vector (protocol, "action reconciliation")."""
    vector = action.get("deletionVector") or {}
    return str(action["path"]), f"{vector.get('pathOrInlineDv', '')}@{vector.get('offset') or ''}"


def added_file(add: Action) -> AddedFile:
    """An `add` (or a `remove`, `cdc` that carries the same) with its rows: statistics less what is deleted in it."""
    vector = add.get("deletionVector") or {}
    path = str(add["path"])
    return AddedFile(
        path,
        int(add.get("size") or 0),
        int(add.get("modificationTime") or 0),
        rows_of(add.get("stats"), vector),
        bool(vector),
        not vector and _says_partition(path, dict(add.get("partitionValues") or ())),
    )


NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def _says_partition(path: str, partition: Mapping[str, str | None]) -> bool:
    """Whether a batch reader of Parquet takes this file below its table, and finds the log's partition in its folders.

    Source: PartitioningUtils.parsePartition, ExternalCatalogUtils.unescapePathName (one byte a character),
    HadoopFSUtils.shouldFilterOutPathName. NULL and the empty string are one value, to Delta and in a folder's name.
    """
    *folders, name = unquote(path).split("/")
    if name.startswith(("_", ".")) or len(folders) != len(partition) or NO_VALUE in partition.values():
        return False
    values = dict([unquote(part, encoding="latin-1") for part in f.partition("=")][::2] for f in folders)
    return values == {key: value or NO_VALUE for key, value in partition.items()}


def rows_of(stats: str | None, vector: Mapping[str, Any] | None = None) -> int | None:
    """Rows of a file by its statistics, those marked as deleted left out; None: the statistics do not tell.

    They are parsed only where Spark did not write them: a table may have a million files, and a column any name.
    """
    if not stats:
        return None
    first = NUM_RECORDS.match(stats)
    rows = first[1] if first else _parse_statistics(stats).get("numRecords")
    return None if rows is None else int(rows) - int((vector or {}).get("cardinality") or 0)


def _parse_statistics(stats: str) -> Mapping[str, Any]:
    """Spark takes statistics that it cannot parse for none; so are those that are longer than any that it writes."""
    if len(stats) > LONGEST_STATISTICS:
        return {}
    try:
        statistics = json.loads(stats)
    except (ValueError, RecursionError):
        return {}
    return statistics if isinstance(statistics, dict) else {}


def _read_checkpoint_actions(log: DeltaLog, version: int, files: bool) -> Iterator[Action]:
    """Actions of a checkpoint; of `add` only what is needed, and none where no files are asked for."""
    kinds = ["metaData", "protocol", "txn"]
    kinds += ["add", "remove", "sidecar"] if files else []
    for name in log.checkpoints[version]:
        for action in _read_stored_actions(log.store, name, kinds):
            if sidecar := action.get("sidecar"):
                path = str(sidecar["path"])
                yield from _read_stored_actions(
                    log.store, path if "/" in path else f"_sidecars/{path}", ["add"]
                )
            elif "remove" not in action:  # a tombstone: the file is not in the table
                yield action


def _read_stored_actions(store: Store, name: str, kinds: Sequence[str]) -> Iterator[Action]:
    if name.endswith(".json"):
        try:
            yield from _parse_actions(store.read(name, MAX_COMMIT_BYTES), name)
        except TooLarge as problem:
            raise Malformed(f"{name} has {problem.size} bytes, the limit is {problem.limit}") from problem
        return
    import pyarrow.parquet as pq  # late: a command that reads no such file starts without it

    fields = ("path", "size", "modificationTime", "stats", "deletionVector", "partitionValues")
    try:
        with store.stream(name) as stream:
            file = pq.ParquetFile(stream)
            present = set(file.schema_arrow.names)
            columns = [c for kind in kinds if kind in present for c in _list_columns(kind, fields)]
            for batch in file.iter_batches(batch_size=ROWS_AT_ONCE, columns=columns):
                if batch.nbytes > LARGEST_ROWS:
                    raise Malformed(f"{name} holds rows of more than {LARGEST_ROWS // ROWS_AT_ONCE:,} bytes")
                for row in batch.to_pylist():
                    yield from ({kind: body} for kind, body in row.items() if body)
    except (ValueError, KeyError) as problem:  # pyarrow's ArrowInvalid is a ValueError
        raise Malformed(f"{name} is not a checkpoint that can be read ({problem})") from problem


def _list_columns(kind: str, fields: Sequence[str]) -> list[str]:
    return [f"add.{name}" for name in fields] if kind == "add" else [kind]


def commit_times(log: DeltaLog) -> dict[int, int]:
    """Version -> commit time in ms: the mtime of its file, and never before the commit ahead of it.

    Source: DeltaHistoryManager.monotonizeCommitTimestamps. Not for tables with in-commit timestamps.
    """
    times: dict[int, int] = {}
    last = None
    for version in range(log.earliest, log.latest + 1):
        time_ms = log.commits[version]
        last = time_ms if last is None or time_ms > last else last + 1
        times[version] = last
    return times


def interval_ms(text: str) -> int | None:
    """`interval 1 week 2 days` in ms. None: it has a unit of no fixed length, which Delta refuses as well."""
    plain = text.lower().removeprefix("interval").strip()
    intervals = INTERVAL.findall(plain)
    if not intervals or INTERVAL.sub("", plain).strip():
        return None
    return sum(int(count) * UNIT_MS[unit] for count, unit in intervals)
