"""Reads what a Delta table remembers of the streams that write it."""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recovery.checkpoints import deltalog, deltasink
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.storage import Store, reaching
from recovery.errors import Unreachable
from recovery.numbers import read_whole
from recovery.sinks.base import SinkReport
from recovery.sources.delta_facts import is_plain_table
from recovery.sources.input_ranges import MOST_DIRECT, InputRange


def read_table_report(location: str, *, query_id: str | None, now_ms: int | None = None) -> SinkReport:
    """The table's report, for the query `query_id`: `head` is the newest batch that it has of that one.

    Raises Unreachable when there is no Delta table or the storage fails.
    """
    with reaching(location):
        try:
            sink = deltasink.read_delta_sink(Store.open(location), query_id, now_ms=now_ms)
        except Malformed as problem:
            raise Unreachable(
                f"The log of {location} cannot be read: {problem.why}. Repair the table."
            ) from problem
    if sink is None:
        raise Unreachable(
            f"{location} holds no Delta table. Check the path and the storage.", code="no_delta_table"
        )
    marks = sorted(f"{name}\0{batch}" for name, batch in sink.heads.items())
    fingerprint_text = "\n".join([sink.table_id, str(sink.version), *marks])
    return SinkReport(
        kind="delta",
        location=location,
        head=sink.heads.get(query_id) if query_id else None,
        earliest=min(sink.batches, default=None),
        batches=dict(sink.batches),
        fingerprint=hashlib.sha256(fingerprint_text.encode()).hexdigest(),
        heads=dict(sink.heads),
        forgotten=sink.forgotten.get(query_id) if query_id else None,
        forgets=sink.forgets,
        version=sink.version,
    )


def data_files_since(location: str, version: int) -> tuple[str, ...]:
    """Data files that came or went with data in the commits after `version`, as the log writes their paths.

    What only moves rows to other files (OPTIMIZE) is left out. Raises Unreachable where the log no longer has them.
    """
    with reaching(location):
        since = _commits_after(location, version)
        moved = [body for _, actions in since for action in actions if (body := _moved_file_action(action))]
    return tuple(str(body["path"]) for body in moved if body.get("dataChange", True))


@dataclass(frozen=True)
class RemovedFiles:
    """Data files of a table at one version that later commits took away: `touched` with their rows, `rewritten` where
    the commit says that it changed none. `latest`: the last of these commits."""

    touched: tuple[str, ...]
    rewritten: int
    latest: int


def taken_since(location: str, version: int) -> RemovedFiles:
    """What the commits after `version` took away of the files that the table had then.

    Raises Unreachable where the log no longer has these commits, or cannot be read.
    """
    added: set[tuple[str, str]] = set()
    touched, rewritten, latest = [], 0, version
    with reaching(location):
        for number, actions in _commits_after(location, version):
            latest = number
            for action in actions:
                if add := action.get("add"):
                    added.add(deltalog.file_key(add))
                elif (remove := action.get("remove")) and deltalog.file_key(remove) not in added:
                    moved = not remove.get("dataChange", True)
                    rewritten += moved
                    touched += [] if moved else [str(remove["path"])]
    return RemovedFiles(tuple(touched), rewritten, latest)


@dataclass(frozen=True)
class RewrittenFiles:
    """Data files that a commit put in the place of others, and says that it changed no row. `size`: bytes of all."""

    gone: InputRange
    came: InputRange
    size: int


@dataclass(frozen=True)
class ArrivedFiles:
    """What came after a version of which no row was taken away: data files with new rows, and what was rewritten."""

    written: InputRange
    rewritten: tuple[RewrittenFiles, ...]


def came_since(location: str, version: int) -> ArrivedFiles | None:
    """By the commits after `version`. None where one took rows away, or gave a column that was there another name: the
    rows that came are then not those of the files that came.

    Raises Unreachable where the log no longer has these commits, or cannot be read.
    """
    with reaching(location):
        moves = [_move_of_version(number, actions) for number, actions in _commits_after(location, version)]
        if any(move.taken for move in moves) or (
            any(m.schema for m in moves) and _has_renamed_column(location, version)
        ):
            return None
        as_parquet = _as_parquet(location)
    latest = version + len(moves)
    live = not any(move.gone for move in moves)
    written = tuple((m.version, m.came) for m in moves if m.came)
    if live and written:  # one read of the table has them all
        written = ((latest, tuple(a for _, came in written for a in came)),)
    return ArrivedFiles(
        _range_of_files(written, as_parquet),
        tuple(
            RewrittenFiles(
                _range_of_files(((m.version - 1, m.gone),), as_parquet),
                _range_of_files(((m.version, m.moved),), as_parquet),
                sum(a.size for a in (*m.gone, *m.moved)),
            )
            for m in moves
            if m.gone or m.moved
        ),
    )


@dataclass(frozen=True)
class _Move:
    """Data files of one commit: `came` with rows; `moved` in the place of those that are `gone`. `taken`: rows went."""

    version: int
    came: tuple[deltalog.AddedFile, ...]
    moved: tuple[deltalog.AddedFile, ...]
    gone: tuple[deltalog.AddedFile, ...]
    taken: bool
    schema: bool


def _move_of_version(version: int, actions: list[deltalog.Action]) -> _Move:
    adds = [a["add"] for a in actions if a.get("add")]
    removes = [a["remove"] for a in actions if a.get("remove")]
    kept = [r for r in removes if not r.get("dataChange", True)]
    return _Move(
        version,
        tuple(deltalog.added_file(a) for a in adds if a.get("dataChange", True)),
        tuple(deltalog.added_file(a) for a in adds if not a.get("dataChange", True)),
        tuple(deltalog.added_file(r) for r in kept),
        taken=len(kept) < len(removes),
        schema=any(a.get("metaData") for a in actions),
    )


Files = tuple[tuple[int, tuple[deltalog.AddedFile, ...]], ...]


def _range_of_files(files: Files, as_parquet: bool) -> InputRange:
    every = [f for _, added in files for f in added]
    direct = as_parquet and len(every) <= MOST_DIRECT and all(f.plain for f in every)
    versions = tuple((version, tuple(f.path for f in added)) for version, added in files if added)
    return InputRange("delta", versions=versions, direct=direct)


def _as_parquet(location: str) -> bool:
    """Whether data files of the table can be read by themselves."""
    state = _read_table_state(location, None)
    return is_plain_table(state.metadata, state.protocol, state.schema)


def _has_renamed_column(location: str, version: int) -> bool:
    """Whether a column that the table had at `version` has another name now, or is made of others."""
    before, now = (columns_of(_read_table_state(location, v).schema) for v in (version, None))
    shared = before.keys() & now.keys()
    names = {column["name"]: physical for physical, column in now.items()}
    moved = any(names.get(column["name"], physical) != physical for physical, column in before.items())
    return moved or any(
        before[p]["name"] != now[p]["name"] or _have_nested_changes(before[p], now[p]) for p in shared
    )


def _have_nested_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether the parts of a column changed, which may have been renamed as well."""
    inner = [schema["type"] for schema in (before, now) if not isinstance(schema["type"], str)]
    return bool(inner) and before["type"] != now["type"]


def columns_of(schema: str) -> dict[str, Mapping[str, Any]]:
    """Columns of a table's schema as its log has it, by their names in data files."""
    fields = json.loads(schema)["fields"]
    return {(f.get("metadata") or {}).get("delta.columnMapping.physicalName", f["name"]): f for f in fields}


def _read_table_state(location: str, version: int | None) -> deltalog.TableState:
    """The table at a version; None: as it is now. Raises Unreachable."""
    log = deltalog.list_log(Store.open(location))
    if log is None:
        raise Unreachable(
            f"{location} holds no Delta table. Check the path and the storage.", code="no_delta_table"
        )
    try:
        return deltalog.table_state(log, log.latest if version is None else version)
    except (Malformed, deltalog.DeltaLogGone) as problem:
        raise Unreachable(f"The log of {location} cannot be read at version {version}.") from problem


def bytes_of(location: str) -> int | None:
    """Bytes of the data files of the newest version; None: the log does not tell. Raises Unreachable."""
    with reaching(location):
        log = deltalog.list_log(Store.open(location))
        try:
            files = deltalog.table_state(log, log.latest, files=True).files if log else None
        except (Malformed, deltalog.DeltaLogGone):
            return None
    return None if files is None else sum(f.size for f in files.values())


def file_sizes(location: str) -> dict[str, int]:
    """Bytes of each data file of the newest version, by its path as the log writes it. Raises Unreachable."""
    with reaching(location):
        log = deltalog.list_log(Store.open(location))
        try:
            files = deltalog.table_state(log, log.latest, files=True).files if log else {}
        except (Malformed, deltalog.DeltaLogGone) as problem:
            raise Unreachable(f"The log of {location} cannot be read.") from problem
    return {f.path: f.size for f in files.values()}


def _commits_after(location: str, version: int) -> Iterator[tuple[int, list[deltalog.Action]]]:
    log = deltalog.list_log(Store.open(location))
    if log is None:
        raise Unreachable(
            f"{location} holds no Delta table. Check the path and the storage.", code="no_delta_table"
        )
    if log.earliest > version + 1:
        raise Unreachable(f"The log of {location} begins at version {log.earliest}, after {version}.")
    try:
        yield from deltalog.read_commits(log, range(version + 1, log.latest + 1))
    except (Malformed, deltalog.DeltaLogGone) as problem:
        raise Unreachable(f"The log of {location} cannot be read after version {version}.") from problem


def _moved_file_action(action: deltalog.Action) -> deltalog.Action | None:
    """What an action says of a data file that came or went."""
    moved: deltalog.Action | None = action.get("add") or action.get("remove")
    return moved


@dataclass(frozen=True)
class TableCommit:
    """One commit of a table. `apps`: ids under which it was written; `adds` and `removes`: whether it brought data
    files, or took some away, with their rows; `note`: what its writer noted (`userMetadata`); `operation`: by Delta's
    name."""

    version: int
    apps: tuple[str, ...] = ()
    adds: bool = False
    removes: bool = False
    note: str = ""
    operation: str = ""

    @property
    def empties(self) -> bool:
        """Whether it did nothing but empty the table, as a full refresh does first."""
        return self.operation == "TRUNCATE" and not self.adds

    @property
    def moves(self) -> bool:
        """Whether it changed rows."""
        return self.adds or self.removes


def commits_since(location: str, version: int) -> tuple[TableCommit, ...]:
    """The commits after `version`, in their order. Raises Unreachable where the log no longer has them."""
    with reaching(location):
        return tuple(_parse_commit(number, actions) for number, actions in _commits_after(location, version))


def _parse_commit(number: int, actions: list[deltalog.Action]) -> TableCommit:
    with deltalog.require_actions(deltalog.name_of(number)):
        info: deltalog.Action = next((a["commitInfo"] for a in actions if a.get("commitInfo")), {})
        return TableCommit(
            number,
            tuple(str(a["txn"]["appId"]) for a in actions if a.get("txn")),
            any(a["add"].get("dataChange", True) for a in actions if a.get("add")),
            any(a["remove"].get("dataChange", True) for a in actions if a.get("remove")),
            str(info.get("userMetadata") or ""),
            str(info.get("operation") or ""),
        )


def written_by_others(commits: Sequence[TableCommit], apps: Collection[str]) -> tuple[int, ...]:
    """Versions in which something other than `apps` changed rows, but for emptying the table.

    What a stream wrote between two times that it was emptied is an earlier attempt's: each has a query of its own.
    """
    emptied = [c.version for c in commits if c.empties]

    def is_attempt(c: TableCommit) -> bool:
        return bool(c.apps and emptied) and not c.removes and emptied[0] < c.version < emptied[-1]

    strange = (c for c in commits if c.moves and not c.empties and not {*c.apps} & {*apps})
    return tuple(c.version for c in strange if not is_attempt(c))


def rows_added(location: str, version: int) -> int | None:
    """Rows of the data files that a commit brought; None where its statistics do not tell. Raises Unreachable."""
    with reaching(location):
        _, actions = next(_commits_after(location, version - 1))
    added = [deltalog.added_file(a["add"]).rows for a in actions if a.get("add")]
    return None if None in added else sum(rows for rows in added if rows is not None)


def rows_deleted(location: str, version: int) -> int | None:
    """Rows by which a MERGE made a table smaller, by what its commit says of itself; None where it does not, or changed
    some. Raises Unreachable."""
    with reaching(location):
        _, actions = next(_commits_after(location, version - 1))
    info: deltalog.Action = next((a["commitInfo"] for a in actions if a.get("commitInfo")), {})
    metrics = info.get("operationMetrics") or {}
    deleted, inserted, updated = (
        read_whole(metrics.get(f"numTargetRows{done}")) for done in ("Deleted", "Inserted", "Updated")
    )
    if deleted is None or inserted is None or updated is None:
        return None
    return None if updated or inserted > deleted else deleted - inserted
