"""Whether the files of an operator make up the version that a restart loads, and which earlier ones."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from recovery.checkpoints.access import carry_access
from recovery.checkpoints.file_listing import Tree
from recovery.checkpoints.findings import finding
from recovery.checkpoints.report import Finding
from recovery.checkpoints.state.chain import chain_of_version, kind_of, loadable_versions
from recovery.checkpoints.state.deep import VerifiedFiles
from recovery.checkpoints.state.examine import BadFile, ExaminedChain, examine_store
from recovery.checkpoints.state.history import History
from recovery.checkpoints.state.ids import ids_of_store
from recovery.checkpoints.state.names import BASES, DEFAULT, StoreFiles
from recovery.checkpoints.state.sst import BlockDamaged

THREADS = 8
SHOWN = 20  # findings of one operator: what is wrong with two hundred partitions is said once
JOIN_ROWS = "keyWithIndexToValue"  # the stores of a join whose keys are its rows


@dataclass(frozen=True)
class StateScope:
    """What is judged: an operator's stores, at the version that a restart loads. `verified`: of a deep look."""

    tree: Tree
    operator: int
    version: int
    names: Sequence[str]
    partitions: Sequence[int]
    stores: Mapping[tuple[int, str], StoreFiles]
    history: History
    verified: VerifiedFiles | None = None

    @property
    def expected(self) -> list[StoreFiles]:
        """The stores that a restart opens; one that has no file is empty here."""
        folders = {(p, s): f"state/{self.operator}/{p}" for p in self.partitions for s in self.names}
        return [
            self.stores.get((p, s)) or StoreFiles(p, s, above if s == DEFAULT else f"{above}/{s}")
            for (p, s), above in folders.items()
        ]


@dataclass(frozen=True)
class StateJudgement:
    """`rows` at the restart's version, `back`: committed batches whose state is whole."""

    rows: int | None = None
    back: tuple[int, ...] = ()


def judge_files(scope: StateScope, findings: list[Finding]) -> StateJudgement:
    """Findings for the version that a restart loads, and for holes and damage among the earlier ones."""
    history, number, version = scope.history, scope.operator, scope.version
    stores, ids = scope.expected, history.ids(number, version)
    unique = any(f.unique_id for store in scope.stores.values() for f in store.versioned)
    histories = [history.ids_of(number, store, scope.names) if unique else None for store in stores]
    useless = scope.verified.useless if scope.verified else set()
    back = _list_restorable_batches(
        history,
        [loadable_versions(s, lineage, useless) for s, lineage in zip(stores, histories, strict=True)],
    )
    go_back = f", go back to batch {back[-1]}" if back else ""
    words = {"operator": number, "version": version, "back": go_back}
    file_findings: list[Finding] = []
    kind = kind_of(scope.stores.values())

    problems = scope.verified.problems if scope.verified else {}

    def look(store: StoreFiles) -> ExaminedChain:
        version_ids = ids_of_store(store, scope.names, ids, store.partition, version)
        return examine_store(scope.tree, store, version, version_ids, kind, problems)

    examined: list[ExaminedChain] = []
    if unique and ids is None:
        file_findings.append(
            finding("STATE_IDS_MISSING", f"commits/{version - 1}", batch=version - 1, **words)
        )
    else:
        with ThreadPoolExecutor(THREADS) as pool:
            examined = list(pool.map(carry_access(look), stores))
    file_findings += [f for store_examined in examined for f in _judge_store(store_examined, words)]
    file_findings += _find_files_ahead(scope, kind)
    file_findings += _find_gaps(number, back, stores, histories, kind, history)
    file_findings += _report_deep_look(scope, {f.file for f in file_findings})
    findings += file_findings[:SHOWN]
    return StateJudgement(_count_rows(examined), back)


def _report_deep_look(scope: StateScope, said: Collection[str | None]) -> Iterator[Finding]:
    """What a deep look found in files that a restart does not read, and what it could not check."""
    if scope.verified is None:
        return
    above = f"state/{scope.operator}/"
    for name, problem in sorted(scope.verified.problems.items()):
        if name.startswith(above) and name not in said:
            yield finding("STATE_OLD_FILE_DAMAGED", name, operator=scope.operator, why=problem.why)
    for name, problem in sorted(scope.verified.filters.items()):
        if name.startswith(above):
            yield finding("STATE_FILTER_DAMAGED", name, operator=scope.operator, why=problem.why)
    unchecked = sorted(n for n in scope.verified.unchecked if n.startswith(above))
    if unchecked:
        words = {"operator": scope.operator, "count": len(unchecked)}
        yield finding("STATE_UNCHECKED", unchecked[0], why=scope.verified.unchecked[unchecked[0]], **words)


def _judge_store(examined: ExaminedChain, words: Mapping[str, object]) -> Iterator[Finding]:
    """Findings of one store. A base that Spark can do without is a warning; everything else stops a restart."""
    for bad in examined.bases:
        yield _report_damaged_snapshot(bad, words) if examined.whole else _report_damage(bad, words)
    yield from (_report_damage(bad, words) for bad in examined.steps)
    if examined.bases or examined.steps or examined.links is None or not examined.links.missing:
        return
    store = examined.store
    if store.store != DEFAULT and not store.versioned:
        store_words = {"operator": words["operator"], "partition": store.partition, "store": store.store}
        yield finding("STATE_STORE_MISSING", store.folder, **store_words)
    else:
        yield finding("STATE_FILE_MISSING", examined.links.missing, **words)


def _report_damage(bad: BadFile, words: Mapping[str, object]) -> Finding:
    if bad.problem.newer:
        return finding("STATE_NEWER_FORMAT", bad.file, operator=words["operator"], version=bad.problem.newer)
    if bad.missing_of:
        return finding("STATE_SST_MISSING", bad.file, zip=bad.missing_of, **words)
    if isinstance(bad.problem, BlockDamaged):
        return finding("STATE_BLOCK_DAMAGED", bad.file, why=bad.problem.why, **words)
    return finding("STATE_FILE_DAMAGED", bad.file, why=bad.problem.why, **words)


def _report_damaged_snapshot(bad: BadFile, words: Mapping[str, object]) -> Finding:
    return finding("STATE_SNAPSHOT_DAMAGED", bad.file, operator=words["operator"], why=bad.problem.why)


def _find_files_ahead(scope: StateScope, kind: str | None) -> list[Finding]:
    """A snapshot from batches that were taken back: nothing writes over it, and its name fits again one day.

    The planned batch may have written the version after the restart's already. Changes are written over before
    they are read, as zips are where each version has one; with format 2 the id tells old from new.
    """
    if kind == "zip":
        return []
    late = [
        f.name
        for store in scope.stores.values()
        for f in store.versioned
        if f.kind in BASES and f.unique_id is None and f.version > scope.version + 1
    ]
    words = {"operator": scope.operator, "version": scope.version, "next": scope.version + 1}
    return [finding("STATE_AHEAD", min(late), **words)] if late else []


def _list_restorable_batches(history: History, whole: list[set[int]]) -> tuple[int, ...]:
    """Committed batches whose offsets are there and whose state is whole in every store."""
    offsets = history.tree.numbers("offsets")
    common = set.intersection(*whole) if whole else set()
    return tuple(b for b in history.batches if b in offsets and b + 1 in common)


def _find_gaps(
    number: int,
    back: Sequence[int],
    stores: Sequence[StoreFiles],
    histories: Sequence[dict[int, str] | None],
    kind: str | None,
    history: History,
) -> list[Finding]:
    """A hole below a version that can be loaded; what is below every file was cleaned up, and is no damage."""
    oldest = max((min((f.version for f in s.versioned), default=1) for s in stores), default=1)
    lost = [b for b in history.batches if b not in back and back and oldest <= b + 1 <= back[-1]]
    for store, ids in zip(stores, histories, strict=True) if lost else ():
        for batch in lost:
            if missing := chain_of_version(store, batch + 1, ids, kind).missing:
                first, last = lost[0], lost[-1]
                span = {"first": first + 1, "last": last + 1, "first_batch": first, "last_batch": last}
                return [finding("STATE_GAP", missing, operator=number, **span)]
    return []


def _count_rows(examined: Sequence[ExaminedChain]) -> int | None:
    """Keys as RocksDB counted them, where every store has a snapshot of the very version."""
    if any(JOIN_ROWS in store.store.store for store in examined):
        examined = [store for store in examined if JOIN_ROWS in store.store.store]
    counts = [store.rows for store in examined]
    known = [n for n in counts if n is not None]
    return sum(known) if known and len(known) == len(counts) else None
