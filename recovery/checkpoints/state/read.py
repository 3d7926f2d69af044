"""Stateful operators of a checkpoint: what their metadata, schemas and files say."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from recovery.checkpoints.file_listing import Tree
from recovery.checkpoints.findings import finding
from recovery.checkpoints.formats import CommitFile, Malformed
from recovery.checkpoints.report import Finding, StateOperator, StateSchema, StateVersion
from recovery.checkpoints.state import described
from recovery.checkpoints.state.deep import Progress, VerifiedFiles, verify_state_files
from recovery.checkpoints.state.history import History
from recovery.checkpoints.state.judge import StateJudgement, StateScope, judge_files
from recovery.checkpoints.state.metadata import UNKNOWN, OperatorMetadata, metadata_file, parse_metadata
from recovery.checkpoints.state.names import (
    DEFAULT,
    ROCKSDB,
    StoreFiles,
    operators_of,
    partitions_of,
    stores_of,
)
from recovery.checkpoints.writer import before_4

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
MAX_MISSING = 100
MAX_PARTITIONS = 1_000_000
SHOWN_VERSIONS = 100


@dataclass(frozen=True)
class QueryStanding:
    """The query's progress: conf of the offset file, newest commit, newest committed and planned batch.

    `partitions`: of the state, where the headers tell it; they are newer than the operators' metadata. `old`: a Spark
    before 2.2 wrote it.
    """

    conf: Mapping[str, str]
    commit: CommitFile | None
    committed: int | None
    planned: int | None
    partitions: int | None = None
    old: bool = False

    @property
    def version(self) -> int:
        """The state version that a restart loads: batch b loads version b (StreamExecution, IncrementalExecution)."""
        if self.planned is not None and self.planned != self.committed:
            return self.planned
        return 0 if self.committed is None else self.committed + 1


def read_operators(
    tree: Tree,
    standing: QueryStanding,
    findings: list[Finding],
    *,
    deep: bool = False,
    progress: Progress | None = None,
) -> tuple[StateOperator, ...]:
    """Operators by id, ascending. Ids count from the sink upwards (Spark: IncrementalExecution).

    `deep`: every state file is opened and checked; `progress` is called for each. Raises OSError when the store fails.
    """
    present = operators_of(tree)
    numbers = {int(n) for n in (standing.commit.operators if standing.commit else ()) if _is_id(n)}
    expected = numbers | set(range(max(present, default=-1) + 1))
    for operator in sorted(expected - present)[:MAX_MISSING]:
        findings.append(finding("STATE_MISSING", f"state/{operator}", operator=operator))
    stores = stores_of(tree)
    history = History(tree, standing.commit, standing.committed)
    each = (store for number in sorted(stores) for store in stores[number].values())
    verified = verify_state_files(tree, each, progress) if deep else None
    return tuple(
        _read_operator(tree, n, standing, stores.get(n, {}), history, verified, findings)
        for n in sorted(present)
    )


def _is_id(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) < 9


@dataclass
class OperatorFiles:
    """What the files of one operator say, whatever its metadata says."""

    stores: dict[tuple[int, str], StoreFiles]
    kinds: set[str] = field(default_factory=set)
    unique: bool = False
    growth: dict[int, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))

    def __post_init__(self) -> None:
        for file in (f for store in self.stores.values() for f in store.versioned):
            self.kinds.add(file.kind)
            self.unique |= file.unique_id is not None
            if file.kind != "snapshot":
                self.growth[file.version][0] += 1
                self.growth[file.version][1] += file.size

    @property
    def layout(self) -> str | None:
        if not self.kinds:
            return None
        return "rocksdb" if self.kinds & ROCKSDB else "hdfs"

    def versions(self) -> tuple[StateVersion, ...]:
        return tuple(StateVersion(v, *self.growth[v]) for v in sorted(self.growth)[-SHOWN_VERSIONS:])


def _read_operator(
    tree: Tree,
    number: int,
    standing: QueryStanding,
    stores: dict[tuple[int, str], StoreFiles],
    history: History,
    verified: VerifiedFiles | None,
    findings: list[Finding],
) -> StateOperator:
    metadata = _read_metadata(tree, number, standing, findings)
    partitions = (standing.partitions or metadata.partitions) if metadata.partitions else 0
    files = OperatorFiles(stores)
    schemas = described.read_schemas(tree, number, metadata, stores, findings)
    expected = _expect_partitions(tree, metadata, partitions, number, schemas, standing.version, findings)
    names = (
        metadata.store_names
        if metadata is not UNKNOWN
        else tuple(sorted({s for _, s in stores})) or (DEFAULT,)
    )
    provider = standing.conf.get(PROVIDER, "").rsplit(".", 1)[-1] or None
    _check_provider(number, provider, files.layout, findings)
    _unknown_files(tree, number, stores, findings)
    judged = StateJudgement()
    if expected and standing.version:
        scope = StateScope(tree, number, standing.version, names, expected, stores, history, verified)
        judged = judge_files(scope, findings)
    return StateOperator(
        operator_id=number,
        name=metadata.name,
        partitions=len(expected) or partitions,
        stores=names,
        provider=provider,
        key_columns=tuple(c.name for c in schemas[0].key) if schemas else (),
        size_bytes=_sum_bytes(tree, number),
        files=sum(len(s.versioned) + len(s.shared) for s in stores.values()),
        layout=files.layout,
        state_format=(2 if files.unique else 1) if files.kinds else None,
        metadata_version=metadata.version or None,
        metadata_partitions=partitions,
        version=standing.version,
        rows=judged.rows,
        schemas=schemas,
        back=judged.back,
        growth=files.versions(),
        properties=metadata.properties,
    )


def _sum_bytes(tree: Tree, number: int) -> int:
    """Bytes of everything below the operator, without Hadoop's hidden checksums."""
    above = f"state/{number}/"
    names = (n for n in tree.files if n.startswith(above) and not n.rsplit("/", 1)[-1].startswith("."))
    return sum(tree.files[n] for n in names)


def _read_metadata(
    tree: Tree, number: int, standing: QueryStanding, findings: list[Finding]
) -> OperatorMetadata:
    """v1 is only compared with the code; without v2 (schemas in `_stateSchema`) Spark does not start."""
    file = metadata_file(tree, number) or f"state/{number}/_metadata/metadata"
    words: dict[str, object] = {"operator": number}
    try:
        if file in tree.files:
            return parse_metadata(tree.bytes_of(file))
        early = standing.old or before_4(standing.conf)
        code = "OPERATOR_METADATA_NOT_YET" if early else "OPERATOR_METADATA_MISSING"
    except Malformed as problem:
        code = "OPERATOR_METADATA_NEWER" if problem.newer else "OPERATOR_METADATA_UNREADABLE"
        words |= {"version": problem.newer, "why": problem.why}
    if f"state/{number}/_stateSchema" in tree.directories:
        code = "STATE_NEWER_FORMAT" if code == "OPERATOR_METADATA_NEWER" else "OPERATOR_METADATA_LOST"
    findings.append(finding(code, file, **words))
    return UNKNOWN


def _expect_partitions(
    tree: Tree,
    metadata: OperatorMetadata,
    partitions: int,
    number: int,
    schemas: tuple[StateSchema, ...],
    version: int,
    findings: list[Finding],
) -> tuple[int, ...]:
    """Partitions that a restart loads, of those that are there; findings for the others.

    An operator without a grouping key runs in one partition, whatever its metadata says (limit, global aggregates).
    """
    here = partitions_of(tree, number)
    alone = metadata.name == "globalLimit" or (schemas and not schemas[0].key)
    wanted = {0} if alone else set(range(min(partitions, MAX_PARTITIONS))) or here
    if version and wanted and not here:
        findings.append(finding("STATE_MISSING", f"state/{number}", operator=number))
        return ()
    if version and (lost := sorted(wanted - here)):
        words = {"operator": number, "expected": len(wanted), "partition": lost[0]}
        findings.append(finding("STATE_PARTITION_MISSING", f"state/{number}/{lost[0]}", **words))
    return tuple(sorted(wanted & here))


def _check_provider(number: int, provider: str | None, layout: str | None, findings: list[Finding]) -> None:
    known = {"HDFSBackedStateStoreProvider": "hdfs", "RocksDBStateStoreProvider": "rocksdb"}
    if provider in known and layout and known[provider] != layout:
        words = {"operator": number, "provider": provider, "layout": layout}
        findings.append(finding("STATE_PROVIDER_DIFFERS", f"state/{number}", **words))


def _unknown_files(
    tree: Tree, number: int, stores: Mapping[tuple[int, str], StoreFiles], findings: list[Finding]
) -> None:
    unknown = sorted(n for store in stores.values() for n in store.unknown)
    if unknown:
        words = {"operator": number, "count": len(unknown)}
        findings.append(finding("STATE_FILE_UNKNOWN", unknown[0], **words))
