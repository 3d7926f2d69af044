"""What a criterion is held to, and what was measured of it: one value a code, and the JSON of any release."""

from typing import Any

import pytest
from pydantic import ValidationError

from recovery.contracts import codec
from recovery.contracts.criteria import Criterion
from recovery.contracts.criterion_values import (
    EXPECTED,
    ExpectedCounts,
    ExpectedRows,
    ExpectedValue,
    MeasuredDatasets,
    MeasuredDeleted,
    MeasuredEnd,
    MeasuredFilledGrowth,
    MeasuredFurther,
    MeasuredGrowth,
    MeasuredRecordsOnce,
    MeasuredRowsOnce,
)
from recovery.contracts.measured import JudgedCriterion
from recovery.verification.criteria import REQUIRED

HELD_TO: dict[str, list[dict[str, Any]]] = {
    "FIRST_BATCH_AT_POSITION": [
        {"batch": 3, "offsets": ['{"logOffset":2}', None]},
        {"batch": None, "offsets": [{"t": {"0": 9}}]},
    ],
    "EACH_FILE_ONCE": [{"scope": "both", "files": 7}, {"files": 7}],
    "ROWS_OF_BEFORE_UNTOUCHED": [{"rows": 12}, {"rows": None}, {}],
    "TABLE_GREW_BY_NEW_BATCHES": [{"before": 12}, {"before": 0, "filled": True}],
    "EVERY_ROW_ONCE": [
        {"scope": "new", "key": ["a"], "whole_rows": True, "again": True, "open": 4},
        {"scope": "all", "key": [], "inferred": ["metadata"], "filled": True},
    ],
    "NO_KEY_TWICE": [{"key": ["a"], "accepted": {"rows": None, "bound": "unknown"}}, {"key": ["a"]}],
    "COUNTS_EQUAL_FORECAST": [{"new_rows": 8}, {"new_rows": 8, "table_after": None}, {}],
    "NOTHING_ELSE_CHANGED": [{}, {"ran": ["table c.s.t"]}],
    "FURTHER_UPDATE_ADDS_NOTHING": [{}],
    "FILLED_ROWS_AS_BEFORE": [{"key": ["a", "b"]}],
    "TABLE_HAS_EVERY_ROW": [{"key": ["a"], "rows": 20, "whole": False}],
    "ONLY_REPEATS_DELETED": [{"rows": 3, "before": 21}, {"rows": 3, "before": None}],
    "CHECKPOINT_UNTOUCHED": [{"fingerprint": "f", "last_committed": None}],
    "DOWNSTREAM_AGREES": [{"datasets": ["c.s.v"], "compared": ["c.s.v"]}],
}
MEASURED: list[tuple[str, type, Any]] = [
    ("TABLE_GREW_BY_NEW_BATCHES", MeasuredGrowth, {"before": 12, "after": 20, "new_batches": 8}),
    ("TABLE_GREW_BY_NEW_BATCHES", MeasuredFilledGrowth, {"new_batches": 8, "filled": 4, "after": 12}),
    ("EVERY_ROW_ONCE", MeasuredRowsOnce,
     {"expected": 8, "found": 8, "missing": 0, "extra": 0, "repeats_added": None}),
    ("EVERY_ROW_ONCE", MeasuredRecordsOnce, {"expected": 8, "found": 8, "missing": 0, "repeated": 0}),
    ("FURTHER_UPDATE_ADDS_NOTHING", MeasuredEnd, {"state": "FAILED"}),
    ("FURTHER_UPDATE_ADDS_NOTHING", MeasuredFurther, {"rows_before": 2, "rows_after": 2, "data_files": 0}),
    ("ONLY_REPEATS_DELETED", MeasuredDeleted, {"deleted": 3, "vanished": 0, "added": 0, "before": 21}),
    ("DOWNSTREAM_AGREES", MeasuredDatasets, [{"dataset": "c.s.v", "status": "COMPLETED", "rows": 3}]),
]  # fmt: skip
OTHERS: list[tuple[str, Any]] = [
    ("A_CODE_OF_LATER", {"files": 1}),
    ("EACH_FILE_ONCE", {"files": True}),
    ("EACH_FILE_ONCE", {"files": 7.0}),
    ("NO_KEY_TWICE", {"accepted": {"rows": 1, "bound": "of a later release"}}),
    ("FIRST_BATCH_AT_POSITION", {"batch": 3}),
]
"""Codes and shapes that no value here has."""


def test_every_criterion_that_a_strategy_requires_has_a_value() -> None:
    assert {code for codes in REQUIRED.values() for code in codes} <= EXPECTED.keys() == HELD_TO.keys()


@pytest.mark.parametrize(("code", "held_to"), [(c, v) for c, held in HELD_TO.items() for v in held])
def test_a_sealed_value_is_read_and_written_to_the_byte(code: str, held_to: dict[str, Any]) -> None:
    stored = {"code": code, "says": "", "expected": held_to}
    criterion = codec.read(Criterion, stored)
    assert type(criterion.expected) is EXPECTED[code]
    for written in (codec.to_json(criterion), codec.to_read_json(criterion)):
        assert codec.canonical_json(written) == codec.canonical_json(stored)


@pytest.mark.parametrize(("code", "kind", "measured"), MEASURED)
def test_a_measured_value_is_read_and_written_to_the_byte(code: str, kind: type, measured: Any) -> None:
    judged = JudgedCriterion(code=code, measured=measured)
    assert type(judged.measured) is kind
    for written in (codec.to_json(judged), codec.to_read_json(judged)):
        assert codec.canonical_json({"is": written["measured"]}) == codec.canonical_json({"is": measured})


@pytest.mark.parametrize(("code", "given"), OTHERS)
def test_what_no_value_fits_stays_as_it_is(code: str, given: Any) -> None:
    criterion = Criterion(code=code, says="", expected=given)
    judged = JudgedCriterion(code=code, expected=given, measured=given)
    assert not isinstance(criterion.expected, ExpectedValue)
    assert (criterion.expected, judged.expected, judged.measured) == (given, given, given)
    assert codec.canonical_json(codec.to_json(criterion)["expected"]) == codec.canonical_json(given)


def test_a_key_of_another_release_stays_in_the_value() -> None:
    given = {"scope": "new", "key": ["a"], "of_later": [1, {"x": None}]}
    criterion = Criterion(code="EVERY_ROW_ONCE", says="", expected=given)
    assert isinstance(criterion.expected, ExpectedRows)
    assert codec.to_json(criterion)["expected"] == given


def test_a_changed_value_has_the_keys_that_it_had_and_the_new_ones() -> None:
    counts = ExpectedCounts(new_rows=8)
    assert codec.to_json(codec.change(counts, lost=None)) == {"new_rows": 8, "lost": None}
    assert codec.to_json(counts) == {"new_rows": 8}


@pytest.mark.parametrize("given", [None, [], "EVERY_ROW_ONCE", 3])
def test_what_a_criterion_is_held_to_is_an_object(given: Any) -> None:
    with pytest.raises(ValidationError):
        Criterion(code="EVERY_ROW_ONCE", says="", expected=given)
