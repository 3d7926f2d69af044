"""What a step leaves on its row is read as one value a kind, whatever else the row holds."""

import json
from typing import Any

import pytest

from recovery.contracts import codec
from recovery.contracts.results import (
    BackupResult,
    DataFilesResult,
    PatchResult,
    RollbackResult,
    SeedResult,
    StandstillResult,
    StepResult,
    StoppedResult,
)

RUNNER = {"watched": {}, "probe": {}, "statements": [], "skipped": {"by": "ada"}}
"""What the runner and people note beside a result."""
CHECKPOINT = {
    "place": "/c", "version": None, "query_id": "q", "last_committed": 2, "offsets": ["{}", None], "fingerprint": "f",
}  # fmt: skip
TOPIC = {"ends": "{}", "failed": None, "failed_early": None, "ids": {"t": "id"}, "topics": ["t"]}
NOTED = {"noted_files": {"files": 2, "sha256": "a", "marked": True}, "sink_files": [], "sink_marks": None}
STANDSTILL = {
    **NOTED, "proved": ["code"], "others": {"table t": None}, "newest_update": "u", "sink_version": 3, "topic": TOPIC,
}  # fmt: skip
ROWS: list[tuple[type[StepResult], dict[str, Any]]] = [
    (StandstillResult, STANDSTILL),
    (BackupResult, {"files": {"/p/q.py": "1"}, "bytes": 7, "checkpoint": CHECKPOINT}),
    (PatchResult, {"files": [{"path": "/p/q.py", "sha256": "1"}]}),
    (
        SeedResult,
        {
            "version": 1,
            "from_version": 0,
            "query_id": "q",
            "last_committed": 2,
            "last_planned": 3,
            "offsets": [None],
        },
    ),
    (RollbackResult, {"checkpoint": True, "files": ["/p/q.py"]}),
]


@pytest.mark.parametrize(("kind", "row"), ROWS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_result_is_written_as_it_was_stored_and_read_from_a_row_with_notes(
    kind: type[StepResult], row: dict[str, Any]
) -> None:
    result = codec.read(kind, {**row, **RUNNER})
    assert json.loads(json.dumps(codec.to_json(result))) == row


def test_a_stop_that_has_not_ended_says_nothing_of_its_update() -> None:
    begun = codec.read(StoppedResult, {"begun": "2026-11-23T00:00:00+00:00", "jobs": [], "stopped": None})
    assert (begun.was, begun.stopped, begun.jobs) == (None, None, ())
    ended = {"was": "running", "update_id": "u-4", "ended": "CANCELED", "seconds": 1.8}
    assert codec.read(StoppedResult, ended).update_id == "u-4"


def test_the_files_of_a_row_from_before_pages_are_those_in_it() -> None:
    old = codec.read(DataFilesResult, {"sink_files": ["/t/a"], "sink_marks": {"a": [1, None]}})
    assert (old.noted_files, old.sink_files, old.sink_marks) == (None, ("/t/a",), {"a": (1, None)})


@pytest.mark.parametrize("row", [{}, {"version": "1"}, {"version": 1, "offsets": [1]}])
def test_what_is_no_result_is_refused(row: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="SeedResult"):
        codec.read(SeedResult, row)
