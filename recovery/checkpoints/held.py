"""How many entries the state of a checkpoint holds at one batch: what is in no table until the code writes it.

Deltas, snapshots and changelogs are replayed key by key; of RocksDB's zips the number of keys that they tell is taken,
and the keys of their SST files where changelogs follow, or where several column families share one store. Nothing is
changed, and no more than `limit` bytes are read.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from recovery.checkpoints.file_listing import Tree
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.inspection import open_checkpoint, tree_of
from recovery.checkpoints.report import CheckpointReport, StateOperator, StateSchema
from recovery.checkpoints.state.blocks import UnknownCodec, plain_blocks
from recovery.checkpoints.state.chain import Chain, chain_of_version
from recovery.checkpoints.state.history import History
from recovery.checkpoints.state.ids import ids_of_store
from recovery.checkpoints.state.judge import JOIN_ROWS
from recovery.checkpoints.state.names import StateFile, StoreFiles, stores_of
from recovery.checkpoints.state.needed import read_snapshot, store_ids
from recovery.checkpoints.state.records import read_records
from recovery.checkpoints.state.rocksdb import RocksDbSnapshot
from recovery.checkpoints.state.rows import read_fields
from recovery.checkpoints.state.sst import Unchecked, read_entries
from recovery.checkpoints.state.windows import first_groups, has_windows, is_window, windows_in
from recovery.checkpoints.storage import reaching
from recovery.contracts.amounts import OpenGroup, OpenWindow, ReadField

MAX_KEYS = 2_000_000  # of one store, held while its files are replayed
FIRST_GROUPS = 20  # groups of open windows of which key and values are read


class Uncounted(StrEnum):
    """Why the entries of an operator's state could not be counted."""

    DAMAGED = "damaged"
    NOT_KEPT = "not kept"  # no whole version of it, or its ids are in no commit
    TOO_LARGE = "too large"
    UNKNOWN_FORM = "unknown form"


@dataclass(frozen=True)
class HeldState:
    """The state of one operator at one state version."""

    operator_id: int
    #: Spark's name of the operator
    name: str
    version: int
    #: its keys; of a join whose sides have their own stores, its buffered rows. None: not counted, see `problem`
    entries: int | None
    problem: Uncounted | None = None
    #: the first windows of an aggregation's groups; (): its keys show none
    windows: tuple[OpenWindow, ...] = ()


class _Stop(Exception):
    """The entries of a store cannot be counted."""

    def __init__(self, problem: Uncounted) -> None:
        super().__init__(problem.value)
        self.problem = problem


def held_states(
    location: str, operators: Sequence[StateOperator], *, batch: int | None, limit: int
) -> tuple[HeldState, ...]:
    """What the state of each of these operators holds after `batch` (None: nothing has run, so it holds nothing).

    `location` as for `inspect`; `limit`: bytes that are read of one operator. Raises Unreachable when the storage
    fails.
    """
    if not operators:
        return ()
    if batch is None:
        return tuple(HeldState(o.operator_id, o.name, 0, 0) for o in operators)
    store, _ = open_checkpoint(location)
    with reaching(location):
        tree = tree_of(store)
        history, stores = History(tree, None, None), stores_of(tree)
        return tuple(
            _read_held_state(tree, o, batch + 1, stores.get(o.operator_id, {}), history, limit)
            for o in operators
        )


def find_dedupe(report: CheckpointReport) -> StateOperator | None:
    """The dropDuplicates that alone keeps state, and forgets no key; None: there is none, or a watermark lets it."""
    operators = report.state_operators
    return operators[0] if [o.name for o in operators] == ["dedupe"] and not report.closed_ms else None


def read_known_keys(location: str, report: CheckpointReport, *, limit: int) -> tuple[HeldState, ...]:
    """The keys that such a dropDuplicates holds where a restart loads its state, if its files do not show their number
    by themselves. None of a state that is damaged. As `held_states`."""
    operator, last = find_dedupe(report), report.last_committed
    is_damaged = any(f.code.startswith("STATE_") for f in report.blockers)
    if operator is None or operator.rows is not None or last is None or is_damaged:
        return ()
    return held_states(location, [operator], batch=last, limit=limit)


def _read_held_state(
    tree: Tree,
    operator: StateOperator,
    version: int,
    stores: dict[tuple[int, str], StoreFiles],
    history: History,
    limit: int,
) -> HeldState:
    number, name = operator.operator_id, operator.name
    try:
        chains = list(_iterate_chains(tree, operator, version, stores, history))
        _refuse_larger(chains, limit)
        schema = next(iter(operator.schemas), None)
        if schema and has_windows(schema.key) and (keys := _all_keys(tree, chains)) is not None:
            windows = _list_windows(tree, chains, keys, schema)
            return HeldState(number, name, version, len(keys), windows=windows)
        return HeldState(number, name, version, sum(_count_keys(tree, *each) for each in chains))
    except _Stop as stop:
        return HeldState(number, name, version, None, stop.problem)
    except (UnknownCodec, Unchecked):
        return HeldState(number, name, version, None, Uncounted.UNKNOWN_FORM)
    except Malformed as problem:
        reason = Uncounted.UNKNOWN_FORM if problem.newer else Uncounted.DAMAGED
        return HeldState(number, name, version, None, reason)
    except FileNotFoundError:  # Spark's maintenance has removed it meanwhile
        return HeldState(number, name, version, None, Uncounted.NOT_KEPT)


def _list_windows(
    tree: Tree, chains: Sequence[tuple[StoreFiles, Chain]], keys: Sequence[bytes], schema: StateSchema
) -> tuple[OpenWindow, ...]:
    """The first windows of these keys, with the first groups of theirs."""
    groups = first_groups(keys, schema.key, FIRST_GROUPS)
    values = _read_values(tree, chains, frozenset(key for _, _, key in groups))
    first: dict[tuple[int, int | None], list[OpenGroup]] = {}
    for start, end, key in groups:
        first.setdefault((start, end), []).append(_read_group(key, values.get(key), schema))
    return tuple(
        window.model_copy(update={"first": tuple(first.get((window.start_ms, window.end_ms), ()))})
        for window in windows_in(keys, schema.key)
    )


def _read_group(key: bytes, value: bytes | None, schema: StateSchema) -> OpenGroup:
    windows = {column.name for column in schema.key if is_window(column)}
    names = {
        column.name for column in schema.key
    }  # the first format of aggregations has them in the value too
    by = read_fields(key, schema.key) or ()
    so_far = (read_fields(value, schema.value) if value is not None else None) or ()
    return OpenGroup(
        key=tuple(ReadField(name=name, text=text) for name, text in by if name not in windows),
        so_far=tuple(ReadField(name=name, text=text) for name, text in so_far if name not in names),
    )


def _read_values(
    tree: Tree, chains: Sequence[tuple[StoreFiles, Chain]], wanted: Collection[bytes]
) -> dict[bytes, bytes]:
    """The values of these keys; {} where they cannot be read, though perhaps counted."""
    values: dict[bytes, bytes] = {}
    try:
        for store, links in chains if wanted else ():
            if links.base and links.base.kind == "zip":
                _read_zipped_values(tree, store, read_snapshot(tree, links.base), wanted, values)
            elif links.base:
                _replay_values(tree, links.base, wanted, values)
            for step in links.steps:
                _replay_values(tree, step, wanted, values)
    except (_Stop, UnknownCodec, Unchecked, Malformed, FileNotFoundError):
        return {}
    return values


def _replay_values(
    tree: Tree, file: StateFile, wanted: Collection[bytes], values: dict[bytes, bytes]
) -> None:
    with tree.store.stream(file.name) as stream:
        for record in read_records(plain_blocks(stream), changelog=file.kind == "changelog", wanted=wanted):
            if record.key in wanted:
                values.pop(record.key, None)
                if not record.removed and record.value is not None:
                    values[record.key] = record.value


def _read_zipped_values(
    tree: Tree,
    store: StoreFiles,
    snapshot: RocksDbSnapshot,
    wanted: Collection[bytes],
    values: dict[bytes, bytes],
) -> None:
    newest: dict[bytes, int] = {}
    for name in snapshot.files:
        if not name.endswith(".sst"):
            continue
        whole = f"{store.folder}/{name}"
        with tree.store.stream(whole) as stream:
            for entry in read_entries(stream, tree.files.get(whole) or 0):
                if entry.key in wanted and entry.sequence >= newest.get(entry.key, -1):
                    newest[entry.key] = entry.sequence
                    values.pop(entry.key, None)
                    if not entry.removed:
                        values[entry.key] = entry.value


def _all_keys(tree: Tree, chains: Sequence[tuple[StoreFiles, Chain]]) -> list[bytes] | None:
    """The keys of these stores; None where they cannot be read, though perhaps counted."""
    try:
        return [key for each in chains for key in _collect_keys(tree, *each)]
    except (_Stop, UnknownCodec, Unchecked, Malformed):
        return None


def _iterate_chains(
    tree: Tree,
    operator: StateOperator,
    version: int,
    stores: dict[tuple[int, str], StoreFiles],
    history: History,
) -> Iterator[tuple[StoreFiles, Chain]]:
    """The files of each store that counts. Raises _Stop where a partition, a store, a file or an id is missing."""
    partitions = {partition for partition, _ in stores}
    if len(partitions) < max(operator.partitions, 1):
        raise _Stop(Uncounted.NOT_KEPT)
    if {(partition, name) for partition in partitions for name in operator.stores} - stores.keys():
        raise _Stop(Uncounted.NOT_KEPT)
    ids = history.ids(operator.operator_id, version)
    unique = any(f.unique_id for store in stores.values() for f in store.versioned)
    if unique and ids is None:
        raise _Stop(Uncounted.NOT_KEPT)
    sides = any(JOIN_ROWS in name for _, name in stores)
    for (partition, name), store in sorted(stores.items()):
        if sides and JOIN_ROWS not in name:
            continue
        unique_id = ids_of_store(store, operator.stores, ids, partition, version)
        links = chain_of_version(store, version, store_ids(tree, store, version, unique_id))
        if links.missing:
            raise _Stop(Uncounted.NOT_KEPT)
        yield store, links


def _refuse_larger(chains: Sequence[tuple[StoreFiles, Chain]], limit: int) -> None:
    """Raise _Stop where more bytes would be read; SST files that no zip in use names count too, at most all."""
    size = sum(f.size for _, links in chains for f in links.files)
    size += sum(sum(s.shared.values()) for s, links in chains if links.base and links.base.kind == "zip")
    if size > limit:
        raise _Stop(Uncounted.TOO_LARGE)


def _count_keys(tree: Tree, store: StoreFiles, links: Chain) -> int:
    """How many keys are there once every file was replayed."""
    if links.base and links.base.kind == "zip" and not links.steps:
        snapshot = read_snapshot(tree, links.base)
        if not snapshot.column_families and snapshot.rows is not None:
            return snapshot.rows
    return len(_collect_keys(tree, store, links))


def _collect_keys(tree: Tree, store: StoreFiles, links: Chain) -> set[bytes]:
    """The keys that are there once every file was replayed."""
    keys: set[bytes] = set()
    if links.base and links.base.kind == "zip":
        keys = _keys_of(tree, store, read_snapshot(tree, links.base))
    elif links.base:
        _replay_file(tree, links.base, keys)
    for step in links.steps:
        _replay_file(tree, step, keys)
    return keys


def _replay_file(tree: Tree, file: StateFile, keys: set[bytes]) -> None:
    with tree.store.stream(file.name) as stream:
        for record in read_records(plain_blocks(stream), changelog=file.kind == "changelog"):
            if record.removed:
                keys.discard(record.key)
            else:
                keys.add(record.key)
            if len(keys) > MAX_KEYS:
                raise _Stop(Uncounted.TOO_LARGE)


def _keys_of(tree: Tree, store: StoreFiles, snapshot: RocksDbSnapshot) -> set[bytes]:
    """Live keys of all SST files that a zip names: of each the entry with the highest sequence number counts."""
    newest: dict[bytes, tuple[int, bool]] = {}
    for name, named in snapshot.files.items():
        if not name.endswith(".sst"):
            if named:
                raise _Stop(Uncounted.UNKNOWN_FORM)  # a log of writes that are in no SST file yet
            continue
        whole = f"{store.folder}/{name}"
        size = tree.files.get(whole)
        if size is None:
            raise _Stop(Uncounted.NOT_KEPT)
        with tree.store.stream(whole) as stream:
            for entry in read_entries(stream, size):
                if entry.sequence >= newest.get(entry.key, (-1, False))[0]:
                    newest[entry.key] = (entry.sequence, entry.removed)
                if len(newest) > MAX_KEYS:
                    raise _Stop(Uncounted.TOO_LARGE)
    return {key for key, (_, removed) in newest.items() if not removed}
