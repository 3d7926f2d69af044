"""What is read of checkpoints that real systems wrote: five versions of Spark; Kafka, Delta and Iceberg streams."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from recovery.checkpoints import inspect_checkpoint, positions
from recovery.checkpoints.batches import read_batch
from recovery.checkpoints.report import CheckpointReport, StateOperator
from tests.written_by_others import FIXTURES, unpack

JOIN = (
    "left-keyToNumValues",
    "left-keyWithIndexToValue",
    "right-keyToNumValues",
    "right-keyWithIndexToValue",
)
ONE = ("default",)
HERE = {"LOCATION_TEMPORARY"}  # of where the tests unpack
ASYNC = {"ASYNC_PROGRESS", "SOURCE_KEPT"}
SHARED = {"SOURCE_READ_TWICE"}
KEPT = {"SOURCE_KEPT"}


@dataclass(frozen=True)
class Wanted:
    """The last committed batch; of sources kind, files read and position; of operators name, partitions, stores,
    layout, state format, metadata version and rows; codes of findings; the format of commits."""

    committed: int
    sources: tuple[tuple[str, int, object], ...]
    operators: tuple[tuple[object, ...], ...] = ()
    findings: frozenset[str] = frozenset()
    commit_format: int = 1
    offset_format: int = 1


def files(*counts: int) -> tuple[tuple[str, int, object], ...]:
    return tuple(("files", count, None) for count in counts)


def state(
    committed: int,
    name: str,
    layout: str,
    *,
    stores: tuple[str, ...] = ONE,
    partitions: int = 2,
    form: int = 1,
    metadata: int = 1,
    rows: int | None = None,
    twice: bool = False,
) -> Wanted:
    operator = (name, partitions, stores, layout, form, metadata, rows)
    read = files(*[committed + 1] * (1 + twice)) if not name.startswith(TIMED) else files(*[4] * (1 + twice))
    return Wanted(committed, read, (operator,), frozenset(SHARED if twice else ()), form)


TIMED = (
    "symmetricHashJoin",
    "sessionWindow",
    "dedupeWithinWatermark",
)  # a batch without input moves the watermark

# case -> what every version says of it
CASES = {
    "files-to-files": Wanted(6, files(7)),
    "one-source-twice": Wanted(3, files(4, 4, 2), findings=frozenset(SHARED)),
    "rate-micro-batch": Wanted(
        3, (("rate-micro-batch", 0, {"offset": 8, "timestamp": 4000}),), findings=frozenset(KEPT)
    ),
    "hdfs-aggregate": state(3, "stateStoreSave", "hdfs"),
    "hdfs-dedupe-snapshots": state(5, "dedupe", "hdfs"),
    "hdfs-join": state(4, "symmetricHashJoin", "hdfs", stores=JOIN, twice=True),
    "hdfs-limit": state(3, "globalLimit", "hdfs", partitions=1),
    "hdfs-pandas-state": state(3, "applyInPandasWithState", "hdfs"),
    "hdfs-session-window": state(4, "sessionWindowStateStoreSaveExec", "hdfs"),
    "hdfs-two-operators": Wanted(
        3, files(4), tuple((name, 2, ONE, "hdfs", 1, 1, None) for name in ("stateStoreSave", "dedupe"))
    ),
    "hdfs-within-watermark": state(4, "dedupeWithinWatermark", "hdfs"),
    "rocksdb-aggregate": state(3, "stateStoreSave", "rocksdb", rows=10),
    "rocksdb-changelog": state(3, "dedupe", "rocksdb"),
    "rocksdb-changelog-snapshots": state(5, "dedupe", "rocksdb"),
    "rocksdb-join": state(4, "symmetricHashJoin", "rocksdb", stores=JOIN, rows=28, twice=True),
    "rocksdb-transform": state(3, "transformWithStateInPandasExec", "rocksdb", metadata=2, rows=36),
    "rocksdb-2": state(3, "dedupe", "rocksdb", form=2, rows=10),
    "rocksdb-2-changelog": state(3, "stateStoreSave", "rocksdb", form=2),
    "rocksdb-2-snapshots": state(5, "dedupe", "rocksdb", form=2),
    "rocksdb-2-join": state(4, "symmetricHashJoin", "rocksdb", stores=JOIN, form=2, twice=True),
    "rocksdb-2-transform": state(3, "transformWithStateInPandasExec", "rocksdb", form=2, metadata=2),
    "offsets-2": Wanted(2, files(3), offset_format=2),
    "named-sources": Wanted(2, files(3, 3), offset_format=2),
}
WRITTEN_BY = {
    "3.5.9": ("3.3", "4.0"),
    "4.0.5": ("4.0", "4.2"),
    "4.1.4": ("4.0", "4.2"),
    "4.2.0": ("4.2", "4.3"),
    "4.3.0": ("4.3", None),
}


def archives(pattern: str) -> list[tuple[str, str]]:
    """(directory, case) of the committed copies."""
    return sorted(
        (p.parent.name, p.name.removesuffix(".tar.xz")) for p in FIXTURES.glob(f"{pattern}/*.tar.xz")
    )


def read(version: str, case: str, to: Path) -> CheckpointReport:
    root = unpack(version, case, to)
    table = root / "table"
    return inspect_checkpoint(
        str(root / "checkpoint"), sink=str(table) if table.is_dir() else None, deep=True
    )


def codes(report: CheckpointReport) -> set[str]:
    return {f.code for f in report.findings} - HERE


def said(o: StateOperator) -> tuple[object, ...]:
    return (o.name, o.partitions, o.stores, o.layout, o.state_format, o.metadata_version, o.rows)


def older(wanted: Wanted) -> Wanted:
    """As Spark 3.5 leaves it: operators have no metadata, so nothing tells their names."""
    operators = tuple(("unknown", *o[1:5], None, o[6]) for o in wanted.operators)
    new = {"OPERATOR_METADATA_NOT_YET"} if operators else set()
    return Wanted(wanted.committed, wanted.sources, operators, wanted.findings | new)


SPARK = [(v, c) for v, c in archives("spark-*") if c not in ("rate", "async-progress")]


@pytest.mark.parametrize(("version", "case"), SPARK)
def test_every_version_of_spark_is_read_to_the_last_byte(tmp_path: Path, version: str, case: str) -> None:
    report = read(version, case, tmp_path)
    wanted = older(CASES[case]) if version.startswith("spark-3") else CASES[case]
    assert (report.last_committed, report.last_planned) == (wanted.committed, wanted.committed)
    assert report.query_id == json.loads((tmp_path / "checkpoint/metadata").read_text())["id"]
    assert tuple((s.kind, len(s.committed), s.position) for s in report.sources) == wanted.sources
    assert tuple(said(o) for o in report.state_operators) == wanted.operators
    assert codes(report) == wanted.findings
    assert report.written_by == dict(
        zip(("at_least", "before"), WRITTEN_BY[version.removeprefix("spark-")], strict=True)
    )
    for operator in report.state_operators:
        assert operator.version == wanted.committed + 1
        assert operator.back == tuple(range(wanted.committed + 1))
    for number in range(wanted.committed + 1):
        batch = read_batch(str(tmp_path / "checkpoint"), number)
        assert (batch.problems, batch.format, batch.commit_format) == (
            (),
            wanted.offset_format,
            wanted.commit_format,
        )
        assert [s.kind for s in batch.sources] == [kind for kind, _, _ in wanted.sources]


def test_no_case_and_no_version_is_forgotten() -> None:
    assert {c for _, c in SPARK} == set(CASES)
    assert {v for v, _ in SPARK} == {f"spark-{v}" for v in WRITTEN_BY}


@pytest.mark.parametrize(("version", "case"), [a for a in archives("spark-*") if a[1] == "rate"])
def test_a_rate_source_tells_its_start(tmp_path: Path, version: str, case: str) -> None:
    report = read(version, case, tmp_path)
    (source,) = report.sources
    assert (source.kind, source.offset_json, codes(report)) == ("rate", "3", KEPT)
    first = (tmp_path / "checkpoint/sources/0/0").read_text()
    assert source.position == {"seconds": 3, "start_ms": int(first.removeprefix("v1\n"))}


@pytest.mark.parametrize(("version", "case"), [a for a in archives("*") if a[1].endswith("async-progress")])
def test_progress_now_and_then_is_no_damage(tmp_path: Path, version: str, case: str) -> None:
    """Spark 4.2 goes on from one with asynchronous tracking, and without it fails: batch 43 doesn't exist."""
    report = read(version, case, tmp_path)
    batches = sorted(int(p.name) for p in (tmp_path / "checkpoint/offsets").iterdir() if p.name.isdigit())
    assert batches[-2] < batches[-1] - 1
    assert (report.last_committed, report.last_planned) == (batches[-1], batches[-1])
    assert codes(report) == ASYNC
    assert not report.blockers


# system, case -> last committed and planned batch, source kinds with what matters of their positions, findings
DELTA_BASE = {"sourceVersion": 1, "index": -1, "isStartingVersion": False}
CONNECTORS: dict[tuple[str, str], tuple[int, int, list[tuple[str, dict[str, object]]], set[str]]] = {
    ("kafka-4.2.0", "kafka-to-files"): (
        4,
        4,
        [("kafka", {"orders": {"0": 14, "1": 14, "2": 14, "3": 4}})],
        KEPT,
    ),
    ("kafka-4.2.0", "kafka-two-topics"): (
        0,
        1,
        [
            ("kafka", {"left.a": {"0": 5, "1": 5}, "left_b": {"0": 5, "1": 5}}),
            ("kafka", {"right": {"0": 5, "1": 5}}),
        ],
        KEPT | {"BATCH_PLANNED"},
    ),
    ("kafka-4.2.0", "kafka-async"): (91, 91, [("kafka", {"ticks": {"0": 184, "1": 184}})], ASYNC),
    ("delta-4.2.0", "delta-complete"): (9, 9, [("delta", {"reservoirVersion": 3, **DELTA_BASE})], KEPT),
    ("delta-4.2.0", "delta-within-snapshot"): (
        1,
        1,
        [("delta", {"reservoirVersion": 0, "index": 1, "isStartingVersion": True})],
        KEPT,
    ),
    ("delta-4.2.0", "delta-within-version"): (
        1,
        1,
        [("delta", {"reservoirVersion": 1, "index": 1, "isStartingVersion": False})],
        KEPT,
    ),
    # all is read, and yet the position is within version 3: a change feed does not step on to (4, -1)
    ("delta-4.2.0", "delta-change-feed"): (3, 3, [("delta", {"reservoirVersion": 3, "index": 0})], KEPT),
    ("delta-4.2.0", "delta-schema-log"): (5, 5, [("delta", {"reservoirVersion": 4, **DELTA_BASE})], KEPT),
    ("iceberg-4.1.4", "iceberg-complete"): (
        5,
        5,
        [("iceberg", {"position": 3, "scan_all_files": False})],
        KEPT,
    ),
    ("iceberg-4.1.4", "iceberg-within-snapshot"): (1, 1, [("iceberg", {"position": 2})], KEPT),
}


@pytest.mark.parametrize(("version", "case"), [a for a in archives("*") if not a[0].startswith("spark-")])
def test_connectors_positions_are_read_as_they_wrote_them(tmp_path: Path, version: str, case: str) -> None:
    committed, planned, sources, findings = CONNECTORS[version, case]
    report = read(version, case, tmp_path)
    assert (report.last_committed, report.last_planned) == (committed, planned)
    assert [s.kind for s in report.sources] == [kind for kind, _ in sources]
    for source, (_, wanted) in zip(report.sources, sources, strict=True):
        assert source.position is not None
        assert wanted.items() <= source.position.items()
        assert json.loads(source.offset_json or "") == source.position
    assert codes(report) == findings
    assert read_batch(str(tmp_path / "checkpoint"), committed).problems == ()


def test_every_connector_has_its_archives() -> None:
    assert {a for a in archives("*") if not a[0].startswith("spark-")} == set(CONNECTORS)


@pytest.mark.parametrize(
    ("case", "index", "begun"),
    [
        ("kafka-to-files", 0, {"orders": {"0": 0, "1": 0, "2": 0}}),
        ("kafka-two-topics", 0, {"left.a": {"0": 0, "1": 0}, "left_b": {"0": 0, "1": 0}}),
        ("kafka-two-topics", 1, {"right": {"0": 0, "1": 0}}),
    ],
)
def test_where_a_kafka_source_began_is_read(
    tmp_path: Path, case: str, index: int, begun: dict[str, object]
) -> None:
    root = unpack("kafka-4.2.0", case, tmp_path)
    assert positions.initial_offsets((root / f"checkpoint/sources/{index}/0").read_bytes()) == begun


def test_a_change_of_a_delta_tables_schema_takes_two_batches_of_another_version(tmp_path: Path) -> None:
    location = str(unpack("delta-4.2.0", "delta-schema-log", tmp_path) / "checkpoint")
    stood = [read_batch(location, n).sources[0] for n in range(6)]
    assert {s.kind for s in stood} == {"delta"}
    told = [(s.position["sourceVersion"], s.position["index"]) for s in stood if s.position]
    assert told == [(1, 0), (1, -1), (3, -20), (3, -19), (1, 0), (1, -1)]


@pytest.mark.parametrize(
    "case", [c for v, c in CONNECTORS if v.startswith("delta") and c != "delta-schema-log"]
)
def test_a_delta_table_remembers_every_batch_by_the_query_id(tmp_path: Path, case: str) -> None:
    report = read("delta-4.2.0", case, tmp_path)
    log = [line for f in tmp_path.glob("table/_delta_log/*.json") for line in f.read_text().splitlines()]
    commits = [json.loads(line) for line in log]
    told = {(c["txn"]["appId"], c["txn"]["version"]) for c in commits if "txn" in c}
    assert report.last_committed is not None
    assert told == {(report.query_id, n) for n in range(report.last_committed + 1)}


@pytest.mark.parametrize("version", [v for v, c in SPARK if c == "one-source-twice"])
def test_a_stream_that_is_read_twice_has_one_log_and_the_next_source_the_next(
    tmp_path: Path, version: str
) -> None:
    root = unpack(version, "one-source-twice", tmp_path)
    location = str(root / "checkpoint")
    report = inspect_checkpoint(location)
    assert [s.log_offset for s in report.sources] == [3, 3, 1]
    batch = read_batch(location, 1)
    paths = [[e.path.rsplit("/", 2)[1:] for e in s.files.first] for s in batch.sources if s.files]
    assert paths == [[["a", "001.json"]], [["a", "001.json"]], [["b", "001.json"]]]
