"""The verdict over records of a topic: doubled and missing ones fail it, those of other writers leave it open."""

from dataclasses import replace
from typing import Any

import pytest

from recovery.sinks.base import SinkReport
from recovery.spark.api import Measure, RowValues
from recovery.strategies.sinks import ON_TABLES
from recovery.verification.evidence import FurtherUpdate
from recovery.verification.judge import judge
from tests.unit.verification.world import World

SENT = Measure(
    new_rows=4, expected_rows=4, missing=0, extra=0, strange=0, repeated=0, failed_rows=0,
    key=(), key_from="the whole row",
)  # fmt: skip
SINK = SinkReport("kafka", "topic out", None, declared="kafka")


def verdict(measure: Measure, *, again: bool = False, **changes: Any) -> dict[str, tuple[bool | None, str]]:
    """Criteria that do not simply hold, by code; the plan has all but the one on tables."""
    world = World()
    planned = [c for c in world.criteria(EVERY_ROW_ONCE={"again": again}) if c.code not in ON_TABLES]
    changes = {"sink_before": SINK, "sink_after": SINK, "measured_files": (), **changes}
    further = FurtherUpdate("COMPLETED", 4, 4, (), ())
    evidence = replace(world.evidence(), measure=measure, **{"further": further, **changes})
    found = judge("continue", planned, evidence)
    assert found.verified == all(j.ok for j in found.criteria)
    return {j.code: (j.ok, j.why) for j in found.criteria if j.ok is not True}


def test_records_that_equal_the_expected_rows_are_proven_and_nothing_is_asked_of_a_table() -> None:
    assert verdict(SENT) == {}


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({"missing": 1, "new_rows": 3}, {"EVERY_ROW_ONCE": False, "COUNTS_EQUAL_FORECAST": False}),
        (
            {"extra": 1, "repeated": 1, "new_rows": 5},
            {"EVERY_ROW_ONCE": False, "COUNTS_EQUAL_FORECAST": False},
        ),
        ({"failed_rows": 2}, {"EVERY_ROW_ONCE": False}),
        ({"margin_rows": 1}, {"EVERY_ROW_ONCE": None}),
        ({"failed_rows": 2, "margin_rows": 1}, {"EVERY_ROW_ONCE": False}),
        ({"values": RowValues(2, ("value",))}, {"EVERY_ROW_ONCE": None}),
        ({"extra": 2, "strange": 2, "new_rows": 6}, {"EVERY_ROW_ONCE": None, "COUNTS_EQUAL_FORECAST": None}),
        (
            {"missing": 1, "extra": 1, "strange": 1},
            {"EVERY_ROW_ONCE": False, "COUNTS_EQUAL_FORECAST": None},
        ),
        (
            {"missing": None, "strange": None, "problem": "It computes rand."},
            {"EVERY_ROW_ONCE": None},
        ),
    ],
    ids=[
        "missing",
        "twice",
        "sent by a failed attempt",
        "perhaps sent",
        "sent, perhaps more",
        "other values",
        "of others",
        "one is wrong",
        "counted only",
    ],
)
def test_what_a_topic_shows_and_what_it_cannot_tell(
    change: dict[str, Any], failing: dict[str, bool | None]
) -> None:
    found = verdict(replace(SENT, **change))
    assert {code: ok for code, (ok, _) in found.items()} == failing
    assert all(why for _, why in found.values())


def test_rows_that_were_sent_before_may_come_again_where_the_plan_chose_so() -> None:
    assert verdict(replace(SENT, failed_rows=2, margin_rows=1), again=True) == {}


def test_records_that_come_with_the_further_update_are_nobodys_for_sure() -> None:
    found = verdict(SENT, further=FurtherUpdate("COMPLETED", 4, 7, (), ()))
    assert found.keys() == {"FURTHER_UPDATE_ADDS_NOTHING"}
    ok, why = found["FURTHER_UPDATE_ADDS_NOTHING"]
    assert ok is None
    assert "3 more records came" in why


@pytest.mark.parametrize(
    "sink",
    [SinkReport("unknown", "sink s", None, declared="s3"), SinkReport("delta", "/w", 2, declared="delta")],
    ids=["of unknown format", "a table by its path"],
)
def test_where_rows_cannot_be_compared_nothing_is_proven(sink: SinkReport) -> None:
    ok, why = verdict(SENT, sink_before=sink, sink_after=sink)["EVERY_ROW_ONCE"]
    assert ok is None
    assert "cannot be compared" in why


def test_another_flow_may_run_with_a_sink_so_a_plan_may_leave_it_out_but_never_the_rows() -> None:
    world = World()
    evidence = replace(world.evidence(), measure=SENT, sink_before=SINK, sink_after=SINK)
    absent = {j.code for j in judge("continue", [], evidence).criteria}
    assert absent == {
        "FIRST_BATCH_AT_POSITION", "EACH_FILE_ONCE", "EVERY_ROW_ONCE", "FURTHER_UPDATE_ADDS_NOTHING"
    }  # fmt: skip
