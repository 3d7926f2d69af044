"""What a step leaves on its row is read as one value a kind, whatever else the row holds."""

import json
from typing import Any

import pytest

from recovery.contracts import codec
from recovery.contracts.measured import JudgedCriterion, Measured, MeasuredOutcome, Verdict
from recovery.contracts.results import (
    BackupResult,
    DataFilesResult,
    PatchResult,
    RollbackResult,
    SeedResult,
    StandstillResult,
    StepResult,
    StoppedResult,
    UpdateResult,
    VerifyResult,
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
ASKED = {"selection": {"refresh_selection": ["t"]}, "request_id": "", "at": "2026-11-23T00:00:00+00:00"}
UPDATE = {
    "newest_before": "u-0", "asked": ASKED, "unnoted": False, "unclear": [],
    "listed": {"0": ["file:/in/1"], "1": {"latest": None}}, "listed_together": {},
    "update_id": "u-3", "updates": ["u-1", "u-3"], "ended": "u-1", "state": "COMPLETED",
}  # fmt: skip
BEFORE = {
    "verdict": codec.to_json(Verdict(criteria=(JudgedCriterion(code="EACH_FILE_ONCE"),))),
    "outcome": codec.to_json(MeasuredOutcome(lost=None)), "below": {"downstream": [], "left_behind": []}, "rows": 3,
    "listed": {"0": [], "1": {"latest": "{}"}}, "version": 7, "files": [],
    "ends": None, "strange": None, "positions": ["{}", None], "reached": [], "last_batch": None, "together": None,
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
    (UpdateResult, UPDATE),
    (VerifyResult, {**NOTED, "before_further": BEFORE, "further": "u-4", "measured": None}),
    (
        VerifyResult,
        {**NOTED, "before_further": None, "further": None, "measured": codec.to_json(Measured(lost=2))},
    ),
    (RollbackResult, {"checkpoint": True, "files": ["/p/q.py"], "table": None}),
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


@pytest.mark.parametrize(
    ("row", "started"),
    [
        ({}, ()),
        ({"update_id": "u-2"}, ("u-2",)),
        ({"ended": "u-1", "update_id": "u-2"}, ("u-1", "u-2")),
        ({"ended": "u-1", "update_id": None}, ("u-1",)),
        (UPDATE, ("u-1", "u-3")),
    ],
)
def test_a_step_knows_the_updates_that_it_started_of_older_releases_the_last_two(
    row: dict[str, Any], started: tuple[str, ...]
) -> None:
    assert codec.read(UpdateResult, row).started == started


@pytest.mark.parametrize(
    ("row", "has_unnoted_start"),
    [
        ({}, False),
        ({"newest_before": None}, True),
        ({"newest_before": "u-0", "unnoted": True, "ended": "u-1"}, True),
        ({"newest_before": "u-0", "unnoted": False}, False),
        ({"newest_before": "u-0", "unnoted": True, "update_id": "u-1"}, False),
    ],
)
def test_a_start_is_unnoted_from_its_request_until_its_update_is_kept(
    row: dict[str, Any], has_unnoted_start: bool
) -> None:
    assert codec.read(UpdateResult, row).has_unnoted_start is has_unnoted_start


def test_what_is_kept_of_a_start_is_what_is_known_by_then() -> None:
    noted = UpdateResult(newest_before=None, unnoted=True, unclear=(), listed={"0": ("file:/in/1",)})
    assert codec.to_read_json(noted) == {
        "newest_before": None, "unnoted": True, "unclear": [], "listed": {"0": ["file:/in/1"]},
    }  # fmt: skip
    row = {"newest_before": "u-0", "ended": "u-9"}
    kept = noted.note_update("u-1").lay_over(row)
    assert kept == {**row, "update_id": "u-1", "updates": ["u-1"], "unnoted": False}


def test_a_whole_result_writes_every_field_and_leaves_the_notes_of_others() -> None:
    row = {"table": 4, "skipped": {"by": "ada"}}
    kept = RollbackResult(checkpoint=True, files=()).lay_over(row)
    assert kept == {"checkpoint": True, "files": [], "table": None, "skipped": {"by": "ada"}}


@pytest.mark.parametrize("row", [{}, {"version": "1"}, {"version": 1, "offsets": [1]}])
def test_what_is_no_result_is_refused(row: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="SeedResult"):
        codec.read(SeedResult, row)
