"""A table from which repeats were deleted is proven by what went and by all committed input, or not at all."""

from dataclasses import replace
from typing import Any

import pytest

from recovery.contracts.measured import Measured
from recovery.spark.api import Measure
from recovery.spark.backups import DeletedRows, ToppedRows
from recovery.verification import judge, outcome, words
from recovery.verification.evidence import Evidence, WholeFlow
from tests.unit.strategies.test_deduplicate import given, judged
from tests.unit.verification import test_topped as topped

ROWS = ToppedRows(rows=18, missing=0, extra=0, beyond=0)
DELETED = DeletedRows(before=21, after=18, deleted=3, added=0, vanished=0)
MEASURE = Measure(
    table_rows=18, listed_rows=18, old_rows=21, new_rows=0, expected_rows=0, missing=0, extra=0,
    duplicates_in_table=0, duplicates_before=3, table_keys=18, key=("customer_id",), topped=ROWS, deleted=DELETED,
)  # fmt: skip
OPTION = judged(given())
CHECKPOINT = given().checkpoint


def evidence(measure: Measure | None = MEASURE, **changes: Any) -> Evidence:
    return topped.evidence(measure, **{"old_files": None, **changes})


def verified(of: Evidence) -> bool:
    return judge.judge("deduplicate", OPTION.criteria, of).verified


def test_a_table_that_lost_just_its_repeats_is_proven_and_says_so() -> None:
    verdict = judge.judge("deduplicate", OPTION.criteria, evidence())
    assert verdict.verified, [c for c in verdict.criteria if c.ok is not True]
    counted = outcome.outcome_of(OPTION.forecast, OPTION.criteria, evidence())
    assert (counted.lost, counted.doubled, counted.doubled_before) == (0, 0, 0)
    headline = words.headline(Measured(**dict(verdict), at="", **dict(counted)))
    assert headline.claim is words.Claim.ONCE
    assert "3 repeated rows" in headline.says


def rows(**changes: Any) -> Evidence:
    return evidence(replace(MEASURE, topped=replace(ROWS, **changes)))


def deleted(**changes: Any) -> Evidence:
    return evidence(replace(MEASURE, deleted=replace(DELETED, **changes)))


NOT_GREEN: dict[str, Evidence] = {
    "a row of the input is not there": rows(missing=1),
    "a row is there too often still": rows(extra=1),
    "the input yields other rows than when it was sealed": rows(rows=19),
    "a row went of which none is left": deleted(vanished=1),
    "a row came": deleted(added=1),
    "more rows went than were planned": deleted(deleted=4),
    "the table was another one before": deleted(before=22),
    "the table has another number of rows than forecast": evidence(replace(MEASURE, table_rows=17)),
    "the flow has read on": evidence(new=topped.MOVED),
    "another table was changed": evidence(others_before={"table x": "a"}, others_after={"table x": "b"}),
    "rows are identified by another key": evidence(replace(MEASURE, key=("n",))),
    "nothing was measured": evidence(None),
    "the whole table was not compared": evidence(replace(MEASURE, topped=None)),
    "the versions were not compared": evidence(replace(MEASURE, deleted=None)),
    "input went away since the plan": evidence(whole_flow=WholeFlow(files=3, gone=1)),
    "Spark could not compare": evidence(Measure(problem="It could not.")),
    "it was measured since another version": evidence(measured_since=6),
}


@pytest.mark.parametrize("case", NOT_GREEN)
def test_nothing_else_is_green(case: str) -> None:
    assert not verified(NOT_GREEN[case])
