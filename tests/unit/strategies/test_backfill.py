"""What backfill promises for one incident, and each reason for which it promises nothing."""

from dataclasses import replace
from typing import Any

import pytest

from recovery.contracts import codec
from recovery.contracts.option import Option
from recovery.contracts.readers import SourceReader
from recovery.sinks.base import SinkReport
from recovery.strategies.base import CodeFacts, Counts, Facts, KeyKind
from recovery.strategies.catalogue import judge_all
from tests.unit.strategies.facts import FILES, WITH, WITHOUT, facts, source

DELTA = SinkReport("delta", "/w/changes", 2, version=7)
CODE = CodeFacts(
    {"/p/q.py": WITHOUT},
    (),
    sources=(SourceReader(path="/in"),),
    key=("customer_id",),
    key_kind=KeyKind.NAMED,
)
OLD = CodeFacts({"/p/q.py": WITH}, ("dedupe",), sources=(SourceReader(path="/in"),), key=("customer_id",))
GONE = source(processed=source().processed[1:], gone=(FILES[0],))
COUNTS = Counts(
    table=12, processed=9, waiting=8, everything=17, repeats_everything=0, table_keys=12, beyond=3
)


def given(**changes: Any) -> Facts:
    values: dict[str, Any] = {
        "sink": DELTA,
        "sources": (GONE,),
        "code": CODE,
        "new_code": CODE,
        "old_code": OLD,
        "counts": COUNTS,
        "old_counts": Counts(table=12, processed=9, beyond=3),
    }
    return facts(**{**values, **changes})


def judged(of: Facts) -> Option:
    return next(o for o in judge_all(of) if o.strategy == "backfill")


def test_rows_of_a_file_that_is_gone_are_neither_lost_nor_doubled() -> None:
    option = judged(given())
    forecast = option.forecast
    assert option.blocked is None
    assert (forecast.lost.rows, forecast.doubled.rows, forecast.table_after) == (0, 0, 20)
    assert forecast.lost.exact
    assert forecast.doubled.exact


def test_it_is_recommended_where_a_full_refresh_loses_the_rows_of_a_file_that_is_gone() -> None:
    grouped = replace(CODE, key_kind=KeyKind.CODE, operators=("dedupe",))
    same_state = given(new_code=grouped, code=grouped, old_code=None, old_counts=None)
    assert [o.strategy for o in judge_all(same_state) if o.recommended] == ["backfill"]


def test_the_copy_comes_before_anything_is_changed_and_the_fill_right_after_the_update() -> None:
    kinds = [step.kind for step in judged(given()).steps]
    assert kinds == ["stop", "table-backup", "rerun", "fill", "verify"]
    patched = given(new_code=replace(CODE, files={"/p/q.py": "other"}))
    kinds = [step.kind for step in judged(patched).steps]
    assert kinds == ["stop", "backup", "table-backup", "patch", "rerun", "fill", "verify"]


def test_the_proof_expects_the_rows_that_were_filled_back() -> None:
    expected = {c.code: codec.to_json(c.expected) for c in judged(given()).criteria}
    assert expected["FILLED_ROWS_AS_BEFORE"] == {"key": ["customer_id"]}
    assert expected["TABLE_GREW_BY_NEW_BATCHES"] == {"before": 0, "filled": True}
    assert expected["COUNTS_EQUAL_FORECAST"] == {"new_rows": 20}
    assert "ROWS_OF_BEFORE_UNTOUCHED" not in expected


BLOCKED: list[tuple[str, dict[str, Any]]] = [
    ("backfill_of_table", {"sink": SinkReport("files", "/w", 2, 0, {})}),
    ("no_scratch_place", {"scratch": False}),
    ("backfill_of_groups", {"new_code": replace(CODE, operators=("stateStoreSave",))}),
    ("backfill_no_key", {"new_code": replace(CODE, key=())}),
    ("backfill_unfilled", {"unfilled": "R-7"}),
    ("backfill_uncounted", {"counts": replace(COUNTS, beyond=None)}),
    ("backfill_key_repeats", {"counts": replace(COUNTS, table_keys=11)}),
    ("backfill_columns", {"counts": replace(COUNTS, unfit=("city",))}),
    ("backfill_left_out", {"old_counts": Counts(table=12, processed=9, beyond=2)}),
    ("no_refresh", {"is_plain": True}),
    ("update_running", {"active_update": "u-9"}),
]


@pytest.mark.parametrize(("code", "changes"), BLOCKED, ids=[code for code, _ in BLOCKED])
def test_what_cannot_be_filled_back_for_certain_is_blocked(code: str, changes: dict[str, Any]) -> None:
    blocker = judged(given(**changes)).blocker
    assert blocker is not None
    assert blocker.code == code


def test_rows_that_the_new_code_may_leave_out_are_named_where_the_old_code_is_not_known() -> None:
    assert "LEFT_OUT_NOT_KNOWN" in {f.code for f in judged(given(old_code=None, old_counts=None)).findings}
    assert "LEFT_OUT_NOT_KNOWN" not in {f.code for f in judged(given()).findings}


def test_repeats_of_the_input_that_the_code_keeps_are_doubled() -> None:
    forecast = judged(given(counts=replace(COUNTS, repeats_everything=2))).forecast
    assert (forecast.doubled.rows, forecast.doubled.exact) == (2, True)
