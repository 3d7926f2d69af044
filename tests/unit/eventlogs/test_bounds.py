"""What a stranger's event log may cost is bounded, and what is cut keeps what proofs need."""

import json

import pytest

from recovery.eventlogs.folding import LARGEST_PROGRESS, MOST_PROGRESS_VALUES, MOST_VALUES, fold_line
from recovery.eventlogs.values import MOST_BATCHES, MOST_RUNS, MOST_WHOLE_RUNS, Application
from tests.unit.eventlogs import logs


def fold(*lines: bytes) -> Application:
    app = Application()
    for line in lines:
        app = fold_line(app, line)
    return app


def test_a_line_of_more_values_than_spark_writes_is_left_out() -> None:
    event = {"Event": "SparkListenerApplicationStart", "App Name": "x", "more": [{}] * MOST_VALUES}
    app = fold(logs.line(event))
    assert (app.name, app.left_out) == ("", 1)


@pytest.mark.parametrize(
    "more", [[{}] * MOST_PROGRESS_VALUES, "x" * LARGEST_PROGRESS], ids=["many values", "a long text"]
)
def test_of_a_large_progress_its_batch_its_time_and_its_rows_are_kept(more: object) -> None:
    event = json.loads(logs.progress(7, rows=5))
    event["progress"]["more"] = more
    (run,) = fold(*logs.started(), logs.query_started(), logs.line(event)).runs
    (batch,) = run.batches
    assert (run.last_batch, batch["numInputRows"], batch["timestamp"]) == (7, 5, "2026-11-22T20:31:07.000Z")
    assert not {"more", "sources"} & batch.keys()


def test_of_older_runs_of_one_application_the_last_batch_is_kept() -> None:
    lines = [*logs.started()]
    for number in range(MOST_RUNS):
        run = f"{number:08d}-0000-0000-0000-000000000000"
        lines.append(logs.query_started(run=run))
        lines += [logs.progress(batch, run=run) for batch in range(MOST_BATCHES)]
    kept = [len(run.batches) for run in fold(*lines).runs]
    assert kept == [1] * (MOST_RUNS - MOST_WHOLE_RUNS) + [MOST_BATCHES] * MOST_WHOLE_RUNS
