"""Event logs that real versions of Spark wrote say what the programs themselves saw."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from recovery.eventlogs.folders import LogProgress, list_logs, read_on
from recovery.eventlogs.values import Operator, Run, RunState
from tests.recorded_logs import FIXTURES, unpack

DEDUPE = Operator("StreamingDeduplicate", ("id",))
SAVED = Operator("StateStoreSave", ("window", "shop"))


@dataclass(frozen=True)
class Wanted:
    """Of the newest application of a case: how each of its queries ended, its stateful steps (None: its plans have
    none, or it never came to one), and what the text of its failure holds."""

    states: tuple[RunState, ...] = (RunState.ENDED,)
    operators: tuple[Operator, ...] | None = (DEDUPE,)
    failure: str = ""


CASES: Final = {
    **dict.fromkeys(("completed", "zstd", "lz4", "snappy", "lzf", "rolling", "as-set-up"), Wanted()),
    "stateless": Wanted(operators=None),
    "aggregate": Wanted(operators=(SAVED,)),
    "key-changed": Wanted((RunState.FAILED,), (Operator("StreamingDeduplicate", ("id", "shop")),), "schema"),
    "step-removed": Wanted(
        (RunState.FAILED,), None, "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
    ),
    "function-failed": Wanted((RunState.FAILED,), None, "order 3 has no shop"),
    "killed": Wanted((RunState.RUNNING,)),
    "two-queries": Wanted((RunState.ENDED, RunState.FAILED), failure="UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE"),
    "foreach-batch": Wanted(),
    "stopped-idle": Wanted(),
}
OTHERWISE: Final = {
    # before 4.0 no state metadata is compared: the program goes on without its step
    ("spark-3.5.9", "step-removed"): Wanted(operators=None),
    # since 4.0 the keys are compared before the batch is planned
    ("spark-4.0.5", "key-changed"): Wanted((RunState.FAILED,), None, "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE"),
    # only its Python was killed: the JVM saw that and ended in order
    ("spark-3.5.9", "killed"): Wanted((RunState.LEFT,)),
}
EVERY = sorted((p.parent.name, p.name.removesuffix(".tar.xz")) for p in FIXTURES.glob("*/*.tar.xz"))


def read(folder: Path, most_lines: int) -> dict[str, LogProgress]:
    """Every log by its application, read so many lines at a time."""
    found = {}
    for log in list_logs(str(folder)):
        tail, more = LogProgress(), True
        while more:
            tail, more = read_on(str(folder), log, tail, most_lines=most_lines)
        found[tail.app.app_id] = tail
    return found


def ran(run: Run) -> dict[str, Any]:
    """A run of a log in the words of the program."""
    return {
        "id": run.query_id, "run": run.run_id, "name": run.name or None, "batches": [b["batchId"] for b in run.batches],
        "rows": sum(b["numInputRows"] for b in run.batches), "failed": run.state is RunState.FAILED,
    }  # fmt: skip


@pytest.mark.parametrize(("version", "case"), EVERY)
@pytest.mark.parametrize("most_lines", [3, 100_000])
def test_a_log_says_what_its_program_saw(tmp_path: Path, version: str, case: str, most_lines: int) -> None:
    folder, seen = unpack(version, case, tmp_path)
    tails = read(folder, most_lines)
    assert set(tails) == {told["application"] for told in seen}
    for told in seen:
        tail = tails[told["application"]]
        app = tail.app
        assert (app.version, app.user, app.name) == (told["version"], told["user"], "orders")
        assert (tail.problem, tail.missed, app.left_out) == ("", 0, 0)
        queries = [{k: v for k, v in query.items() if k != "failure"} for query in told["queries"]]
        assert [ran(run) for run in app.runs] == queries
        assert all(q["failure"] in run.failure for q, run in zip(told["queries"], app.runs, strict=True))
    wanted = OTHERWISE.get((version, case), CASES[case])
    newest = tails[seen[-1]["application"]]
    assert tuple(run.state for run in newest.app.runs) == wanted.states
    assert newest.app.runs[0].operators == wanted.operators
    assert wanted.failure in newest.app.runs[-1].failure
    assert newest.is_done is (RunState.RUNNING not in wanted.states)


@pytest.mark.parametrize(("version", "case"), [one for one in EVERY if one[1] == "stopped-idle"])
def test_a_stream_that_waits_for_input_gives_signs_of_life(tmp_path: Path, version: str, case: str) -> None:
    folder, _ = unpack(version, case, tmp_path)
    (tail,) = read(folder, 100_000).values()
    run = tail.app.runs[0]
    assert tail.app.last_ms is not None
    assert run.last_batch == 1
    assert tail.app.last_ms > run.started_ms


def test_every_version_that_is_promised_was_recorded() -> None:
    versions = {version for version, _ in EVERY}
    assert {v.rpartition(".")[0] for v in versions} >= {"spark-3.5", "spark-4.0"}
    kept = {case for version, case in EVERY if version == "spark-3.5.9"}
    assert kept == set(CASES) - {"zstd", "lz4", "snappy", "lzf", "rolling"}
