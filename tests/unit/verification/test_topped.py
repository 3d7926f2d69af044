"""A table that got missing rows is proven by all committed input beside all of it, or not at all."""

from dataclasses import replace
from typing import Any

import pytest

from recovery.contracts import codec
from recovery.sinks.base import SinkReport
from recovery.spark.api import Measure
from recovery.spark.backups import ToppedRows
from recovery.verification import judge, topped
from recovery.verification.evidence import Evidence, OldFiles, WholeFlow
from tests.unit.strategies.test_top_up import given, judged

ROWS = ToppedRows(rows=20, missing=0, extra=0, beyond=0)
MEASURE = Measure(
    table_rows=20, listed_rows=20, old_rows=18, new_rows=2, expected_rows=2, missing=0, extra=0, vanished=0,
    new_repeats=0, keys_twice=0, repeats_added=0, duplicates_explained=0, held_before=0, key=("customer_id",),
    topped=ROWS,
)  # fmt: skip
OPTION = judged(given())
EXPECTED: dict[str, Any] = {c.code: c.expected for c in OPTION.criteria}
CHECKPOINT = given().checkpoint


def evidence(measure: Measure | None = MEASURE, **changes: Any) -> Evidence:
    values: dict[str, Any] = {
        "scope": "same",
        "old": CHECKPOINT,
        "new": CHECKPOINT,
        "listed": None,
        "first_batch": None,
        "sink_before": SinkReport("delta", "/w", None, version=7),
        "sink_after": SinkReport("delta", "/w", None, version=8),
        "measured_since": 7,
        "measure": measure,
        "old_files": OldFiles(versions=(7, 8)),
        "whole_flow": WholeFlow(files=4),
        "others_before": {},
        "others_after": {},
    }
    return Evidence(**{**values, **changes})


def verified(of: Evidence) -> bool:
    return judge.judge("top-up", OPTION.criteria, of).verified


def test_a_table_that_has_every_row_and_gained_just_the_missing_ones_is_proven() -> None:
    assert verified(evidence())


def rows(**changes: Any) -> Evidence:
    return evidence(replace(MEASURE, topped=replace(ROWS, **changes)))


MOVED = replace(CHECKPOINT, fingerprint="0" * 64, last_committed=3)
NOT_GREEN: dict[str, Evidence] = {
    "a row of the input is not there": rows(missing=1),
    "a row of before is there too often": rows(extra=1),
    "the input yields other rows than when it was sealed": rows(rows=21),
    "an added row is gone": evidence(replace(MEASURE, new_rows=1, missing=1, table_rows=19, listed_rows=19)),
    "an added row is there twice": evidence(replace(MEASURE, extra=1, new_repeats=1, keys_twice=1)),
    "an added row has the key of a row of before": evidence(replace(MEASURE, new_repeats=1, keys_twice=1)),
    "a row of before is gone": evidence(replace(MEASURE, vanished=1)),
    "a row of before was changed": evidence(old_files=OldFiles(touched=("a.parquet",), versions=(7, 8))),
    "the flow has read on": evidence(new=MOVED),
    "another table was changed": evidence(others_before={"table x": "a"}, others_after={"table x": "b"}),
    "more rows came than were planned": evidence(replace(MEASURE, new_rows=3, expected_rows=3)),
    "rows are told apart by another key": evidence(replace(MEASURE, key=("n",))),
    "nothing was measured": evidence(None),
    "the whole table was not compared": evidence(replace(MEASURE, topped=None)),
    "input went away since the plan": evidence(whole_flow=WholeFlow(files=3, gone=1)),
    "how much input was read is not known": evidence(whole_flow=None),
    "Spark could not compare": evidence(Measure(problem="It could not.")),
    "it was measured since another version": evidence(measured_since=6),
}


@pytest.mark.parametrize("case", NOT_GREEN)
def test_nothing_else_is_green(case: str) -> None:
    assert not verified(NOT_GREEN[case])


def test_what_the_plan_accepted_as_gone_is_not_asked_for() -> None:
    expected = codec.change(EXPECTED["TABLE_HAS_EVERY_ROW"], whole=False)
    assert topped.table_has_every_row(expected, evidence(whole_flow=WholeFlow(files=3, gone=1))).ok is True


@pytest.mark.parametrize(
    ("given", "ok"), [({}, True), ({"rows": 19}, False), ({"missing": 2}, False), ({"beyond": 3}, True)]
)
def test_rows_of_no_input_stay_and_are_told(given: dict[str, int], ok: bool) -> None:
    found = topped.table_has_every_row(EXPECTED["TABLE_HAS_EVERY_ROW"], rows(**given))
    assert found.ok is ok
    assert found.measured.beyond == given.get("beyond", 0)
