"""The checkpoints of Spark's own test suite, 2.1 to 4.0.1: each judged, each verdict beside what a restart does.

Where they come from: tests/fixtures/spark_suite/README.md.
"""

import tarfile
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

import pytest

from recovery.checkpoints import inspect_checkpoint
from recovery.checkpoints.absent import KeepsState
from recovery.checkpoints.report import CheckpointReport, Outcome
from tests.written_by_others import FIXTURES

PARTS = {"metadata", "offsets", "commits", "sources", "state"}
JOIN = (
    "left-keyToNumValues",
    "left-keyWithIndexToValue",
    "right-keyToNumValues",
    "right-keyWithIndexToValue",
)


class Restart(StrEnum):
    """What a newer Spark does with a checkpoint, as far as its suite runs it."""

    GOES_ON = "goes on"
    FAILS = "fails"
    DEPENDS = "depends on code or settings"
    NOT_RUN = "its suite only reads it as data"


TRUE_OF: Final = {
    Restart.GOES_ON: {Outcome.GOES_ON, Outcome.OPEN},
    Restart.FAILS: {Outcome.FAILS},
    Restart.DEPENDS: {Outcome.OPEN},
}
"""Outcomes that are true of a restart. OPEN promises nothing, and goes on where code and settings are right."""


@dataclass(frozen=True)
class Verdict:
    """What must be said of one.

    `codes`: of the findings; that a source is in memory (SOURCE_UNKNOWN) or Kafka (SOURCE_KEPT) goes without saying.
    `columns`: of the keys of the first store, `operator` and `layout` as told. `restart`: what a newer Spark does.
    """

    outcome: Outcome
    codes: frozenset[str] = frozenset()
    operator: str = ""
    layout: str = "hdfs"
    columns: tuple[str, ...] = ()
    stores: tuple[str, ...] = ("default",)
    rows: int | None = None
    restart: Restart = Restart.NOT_RUN


def old(restart: Restart = Restart.GOES_ON, **more: object) -> Verdict:
    """State of a Spark before 4.0, which writes no operator metadata."""
    codes = frozenset({"OPERATOR_METADATA_NOT_YET"})
    return Verdict(Outcome.GOES_ON, codes, "unknown", restart=restart, **more)  # type: ignore[arg-type]


def good(operator: str, **more: object) -> Verdict:
    return Verdict(Outcome.GOES_ON, frozenset(), operator, **more)  # type: ignore[arg-type]


def stateless(*codes: str, restart: Restart = Restart.GOES_ON) -> Verdict:
    """Nothing in it tells whether the code keeps state, so that nothing is promised."""
    return Verdict(Outcome.OPEN, frozenset(codes), restart=restart)


UNTOLD, WATERMARK = "STATE_UNTOLD", "STATE_UNTOLD_WATERMARK"
KEY = ("field0",)  # of a join
FIRST = ("_1",)
VALUE = ("value",)
EARLY = Verdict(
    Outcome.GOES_ON,
    frozenset({"STATE_SCHEMA_EARLY", "SIDECAR_DIFFERS"}),
    "transformWithStateExec",
    "rocksdb",
    VALUE,
)
VERDICTS = {
    "checkpoint-test-offsetId-commitId-inconsistent": Verdict(
        Outcome.FAILS,
        frozenset({"OFFSET_STRAY", "WATERMARK_AHEAD", WATERMARK}),
        restart=Restart.FAILS,  # batch 3 is missing between 2 and 4
    ),
    "checkpoint-version-2.1.0": Verdict(
        Outcome.OPEN,
        frozenset({"WRITTEN_BEFORE_2_2", "BATCH_PLANNED", "OPERATOR_METADATA_NOT_YET"}),
        "unknown",
        restart=Restart.DEPENDS,  # goes on with 10 shuffle partitions, fails with 15
    ),
    "checkpoint-version-2.3.1-flatMapGroupsWithState-state-format-1": old(),
    "checkpoint-version-2.3.1-for-multi-watermark-policy": stateless(WATERMARK),
    "checkpoint-version-2.3.1-streaming-aggregate-state-format-1": old(),
    "checkpoint-version-2.3.1-without-commit-log-metadata": old(),
    "checkpoint-version-2.4.0-streaming-join": Verdict(
        Outcome.OPEN,
        frozenset({"OPERATOR_METADATA_NOT_YET", "JOIN_FORMAT_EARLY"}),
        "unknown",
        stores=JOIN,
        restart=Restart.DEPENDS,  # an inner join goes on; an outer one is refused, as its old format was wrong
    ),
    "checkpoint-version-2.4.3-kafka-include-headers-default": old(),
    "checkpoint-version-2.4.5-for-compatibility-test-common-functions": old(),
    "checkpoint-version-2.4.5-for-compatibility-test-deduplicate": old(),
    "checkpoint-version-2.4.5-for-compatibility-test-statistical-functions": old(),
    "checkpoint-version-2.4.5-for-compatibility-test-sum-decimal": old(),
    "checkpoint-version-3.0.0-streaming-statestore-codec": old(),
    "checkpoint-version-3.1.0-flatmapgroupswithstate-repartition": old(columns=("_1", "_2")),
    "checkpoint-version-3.2.0-deduplication-with-repartition": old(columns=("key1", "key2")),
    "checkpoint-version-3.2.0-flatmapgroupswithstate1-repartition": old(columns=("_1", "_2")),
    "checkpoint-version-3.2.0-flatmapgroupswithstate2-repartition": old(columns=("_1", "_2")),
    "checkpoint-version-3.2.0-session-window-with-repartition": old(
        columns=("sessionId", "userId", "sessionStartTime")
    ),
    "checkpoint-version-3.2.0-streaming-aggregate-with-repartition": old(columns=("key1", "key2")),
    "checkpoint-version-3.3.0-streaming-deduplication": old(columns=("_1",)),
    "checkpoint-version-3.5.1-streaming-deduplication": old(Restart.NOT_RUN, columns=("_1",)),
    "checkpoint-version-3.5.1-streaming-join": old(Restart.NOT_RUN, columns=KEY, stores=JOIN),
    "checkpoint-version-3.5.4": stateless(UNTOLD),
    "checkpoint-version-4.0.0/hdfs/agg": good("stateStoreSave", columns=FIRST),
    "checkpoint-version-4.0.0/hdfs/dedup": good("dedupe", columns=FIRST),
    "checkpoint-version-4.0.0/hdfs/join1": good("symmetricHashJoin", columns=KEY, stores=JOIN),
    "checkpoint-version-4.0.0/hdfs/join2": good("symmetricHashJoin", columns=KEY, stores=JOIN),
    "checkpoint-version-4.0.0/hdfs/limit": good("globalLimit", columns=("key",)),
    "checkpoint-version-4.0.0/rocksdb/agg": good("stateStoreSave", layout="rocksdb", columns=FIRST, rows=6),
    "checkpoint-version-4.0.0/rocksdb/dedup": good("dedupe", layout="rocksdb", columns=FIRST, rows=6),
    "checkpoint-version-4.0.0/rocksdb/join1": good(
        "symmetricHashJoin", layout="rocksdb", columns=KEY, stores=JOIN
    ),
    "checkpoint-version-4.0.0/rocksdb/join2": good(
        "symmetricHashJoin", layout="rocksdb", columns=KEY, stores=JOIN
    ),
    "checkpoint-version-4.0.0/rocksdb/limit": good("globalLimit", layout="rocksdb", columns=("key",), rows=1),
    "checkpoint-version-4.0.0-checkpoint-v2/rocksdb/dedup": good(
        "dedupe", layout="rocksdb", columns=FIRST, rows=6
    ),
    "checkpoint-version-4.0.0-checkpoint-v2/rocksdb/join1": good(
        "symmetricHashJoin", layout="rocksdb", columns=KEY, stores=JOIN
    ),
    "checkpoint-version-4.0.0-checkpoint-v2/rocksdb/join2": good(
        "symmetricHashJoin", layout="rocksdb", columns=KEY, stores=JOIN
    ),
    "checkpoint-version-4.0.0-checkpoint-v2/rocksdb/limit": good(
        "globalLimit", layout="rocksdb", columns=("key",), rows=1
    ),
    "checkpoint-version-4.0.0-tws-avro": EARLY,
    "checkpoint-version-4.0.0-tws-unsaferow": EARLY,
    "checkpoint-version-4.0.1-dedup-spark-53942": good(
        "dedupe", columns=("key1", "key2"), restart=Restart.GOES_ON
    ),
    "escaped-path-2.4.0/chk%252520%252525@%252523chk": stateless(
        UNTOLD,
        restart=Restart.DEPENDS,  # refused where its place was escaped twice, as Spark 2 did
    ),
}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("suite")
    with tarfile.open(FIXTURES.with_name("spark_suite") / "structured-streaming.tar.xz") as bundle:
        bundle.extractall(root, filter="data")
    return root


def told(report: CheckpointReport) -> Verdict:
    """A report as the table has it."""
    codes = {f.code for f in report.findings} - {"SOURCE_UNKNOWN", "SOURCE_KEPT"}
    if not report.state_operators:
        return Verdict(report.outcome, frozenset(codes))
    (one,) = report.state_operators
    seen = (one.name, str(one.layout), one.key_columns, one.stores, one.rows)
    return Verdict(report.outcome, frozenset(codes), *seen)


@pytest.mark.parametrize("name", VERDICTS)
def test_a_checkpoint_of_spark_s_own_suite_is_judged_as_spark_takes_it(suite: Path, name: str) -> None:
    wanted = VERDICTS[name]
    report = inspect_checkpoint(str(suite / name), deep=True, keeps_state=KeepsState.UNKNOWN)
    assert told(report) == replace(wanted, restart=Restart.NOT_RUN)


@pytest.mark.parametrize("name", [name for name, verdict in VERDICTS.items() if verdict.restart in TRUE_OF])
def test_what_is_said_of_the_next_run_is_true_of_the_restart_in_spark_s_suite(suite: Path, name: str) -> None:
    report = inspect_checkpoint(str(suite / name), deep=True, keeps_state=KeepsState.UNKNOWN)
    assert report.outcome in TRUE_OF[VERDICTS[name].restart]


def test_what_spark_s_suite_restarts_is_compared_with_what_it_does() -> None:
    """Its newest checkpoints, of 3.5.1 and 4.0.0, are read there as data alone."""
    untried = {name.split("/")[0] for name, verdict in VERDICTS.items() if verdict.restart is Restart.NOT_RUN}
    assert {name.removeprefix("checkpoint-version-")[:5] for name in untried} == {"3.5.1", "4.0.0"}


def test_every_checkpoint_of_the_suite_is_judged(suite: Path) -> None:
    places = {p.parent for part in PARTS for p in suite.rglob(part)}
    inside = {p for p in places if not any(above in places for above in p.parents)}
    assert {str(p.relative_to(suite)) for p in inside} == set(VERDICTS)


@pytest.mark.parametrize(
    ("name", "at_least", "before"),
    [
        ("checkpoint-version-2.1.0", None, "2.2"),
        ("checkpoint-version-2.4.5-for-compatibility-test-deduplicate", None, "4.0"),
        ("checkpoint-version-3.5.1-streaming-join", "3.3", "4.0"),
        (
            "checkpoint-version-4.0.0/hdfs/agg",
            "3.3",
            "4.2",
        ),  # of a build that wrote 4.0's metadata and 3.5's header
        ("checkpoint-version-4.0.1-dedup-spark-53942", "4.0", "4.2"),
    ],
)
def test_the_versions_that_may_have_written_it_hold_the_one_that_did(
    suite: Path, name: str, at_least: str | None, before: str
) -> None:
    assert inspect_checkpoint(str(suite / name)).written_by == {"at_least": at_least, "before": before}
