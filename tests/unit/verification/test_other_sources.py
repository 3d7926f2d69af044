"""A verdict over sources and tables that are no files: a gap, a stretch not measured, or a late arrival shows."""

from dataclasses import replace
from typing import Any

import pytest

from recovery.contracts.criterion_values import MeasuredRowsBefore
from recovery.verification.evidence import Evidence, ReachedPosition
from recovery.verification.judge import judge
from tests.unit.verification.world import World

GOOD = ReachedPosition("kafka", '{"t":{"0":3}}', '{"t":{"0":9}}', True, ('{"t":{"0":3}}', '{"t":{"0":9}}'))


def verdict(source: ReachedPosition, **changes: Any) -> dict[str, bool | None]:
    world = World()
    evidence: Evidence = replace(world.evidence(), reached={1: source}, **changes)
    return {j.code: j.ok for j in judge("continue", world.criteria(), evidence).criteria}


def test_a_source_that_was_read_to_its_end_and_measured_whole_is_proven() -> None:
    assert set(verdict(GOOD).values()) == {True}


@pytest.mark.parametrize(
    ("change", "fails"),
    [
        ({"left_empty": False}, {"EACH_FILE_ONCE": False}),
        ({"left_empty": None}, {"EACH_FILE_ONCE": None}),
        (
            {"measured": None},
            {"EVERY_ROW_ONCE": None, "COUNTS_EQUAL_FORECAST": None, "TABLE_GREW_BY_NEW_BATCHES": None},
        ),
        (
            {"measured": ('{"t":{"0":3}}', '{"t":{"0":8}}')},
            {"EVERY_ROW_ONCE": None, "COUNTS_EQUAL_FORECAST": None, "TABLE_GREW_BY_NEW_BATCHES": None},
        ),
        ({"arrived": True}, {"COUNTS_EQUAL_FORECAST": None}),
    ],
    ids=["a gap", "not asked", "not measured", "another stretch", "arrived and not counted"],
)
def test_what_was_not_shown_is_never_proven(change: dict[str, Any], fails: dict[str, bool | None]) -> None:
    found = verdict(replace(GOOD, **change))
    assert {code: ok for code, ok in found.items() if ok is not True} == fails


def test_rows_that_came_after_the_forecast_are_counted_with_it() -> None:
    world = World()
    criteria = world.criteria(COUNTS_EQUAL_FORECAST={"new_rows": len(world.expected) - 2})
    evidence = replace(world.evidence(), reached={1: replace(GOOD, arrived=True)}, arrived_rows=2)
    found = {j.code: j for j in judge("continue", criteria, evidence).criteria}
    assert found["COUNTS_EQUAL_FORECAST"].ok is True
    assert "2 rows of input that came later" in found["COUNTS_EQUAL_FORECAST"].why


@pytest.mark.parametrize(("since", "ok"), [(7, True), (6, None), (None, None)])
def test_a_delta_table_is_measured_since_the_version_it_had(since: int | None, ok: bool | None) -> None:
    world = World()
    whole = world.evidence()
    assert whole.sink_before is not None
    assert whole.sink_after is not None
    evidence = replace(
        whole,
        sink_before=replace(whole.sink_before, version=7),
        sink_after=replace(whole.sink_after, version=9),
        measured_files=(),
        measured_since=since,
    )
    found = {j.code: j.ok for j in judge("continue", world.criteria(), evidence).criteria}
    assert found["EVERY_ROW_ONCE"] is ok


@pytest.mark.parametrize(
    ("columns", "ok"),
    [({"misread": ("d.old",)}, False), ({"lacking": ("amount",)}, None), ({}, True)],
    ids=["another type", "a column less", "the same"],
)
def test_earlier_rows_that_the_schema_of_the_new_ones_does_not_read_are_not_untouched(
    columns: dict[str, tuple[str, ...]], ok: bool | None
) -> None:
    world = World()
    whole = world.evidence()
    assert whole.measure is not None
    evidence = replace(whole, measure=replace(whole.measure, **columns))
    found = {j.code: j for j in judge("continue", world.criteria(), evidence).criteria}
    assert found["ROWS_OF_BEFORE_UNTOUCHED"].ok is ok
    assert isinstance(measured := found["ROWS_OF_BEFORE_UNTOUCHED"].measured, MeasuredRowsBefore)
    assert measured.misread == columns.get("misread", ())


@pytest.mark.parametrize(
    "doubt", [{"lacking": ("amount",)}, {"table_rows": 0}], ids=["a column less", "hidden rows"]
)
def test_earlier_rows_that_are_fewer_than_the_plan_counted_are_wrong_whatever_else_is_not_known(
    doubt: dict[str, Any],
) -> None:
    world = World()
    whole = world.evidence()
    assert whole.measure is not None
    fewer = (whole.measure.old_rows or 0) - 1
    evidence = replace(whole, measure=replace(whole.measure, old_rows=fewer, **doubt))
    found = {j.code: j.ok for j in judge("continue", world.criteria(), evidence).criteria}
    assert found["ROWS_OF_BEFORE_UNTOUCHED"] is False


def test_rows_that_left_a_delta_table_meanwhile_are_named() -> None:
    world = World()
    whole = world.evidence()
    assert whole.measure is not None
    evidence = replace(whole, measure=replace(whole.measure, vanished=2))
    found = {j.code: j for j in judge("continue", world.criteria(), evidence).criteria}
    assert found["TABLE_GREW_BY_NEW_BATCHES"].ok is False
    assert "2 rows that the table had before" in found["TABLE_GREW_BY_NEW_BATCHES"].why
