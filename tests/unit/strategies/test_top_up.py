"""What top-up promises for a table that lacks rows, and each reason for which it promises nothing."""

from dataclasses import replace
from typing import Any

import pytest

from recovery.checkpoints.report import Finding, Severity
from recovery.contracts import codec
from recovery.contracts.amounts import Bound
from recovery.contracts.option import Option
from recovery.contracts.readers import SourceReader
from recovery.contracts.steps import FillArgs
from recovery.sinks.base import SinkReport
from recovery.sources.base import InputSpans, Position, Precision
from recovery.sources.input_ranges import InputRange
from recovery.strategies.base import CodeFacts, CommittedRows, Counts, Facts, KeyKind
from recovery.strategies.catalogue import judge_all
from recovery.strategies.deciding import NOT_ASKED, decide
from recovery.strategies.readers import DownstreamReader
from recovery.strategies.top_up import MISSING_BY_PROOF
from recovery.verification.criteria import EDITION, required
from tests.unit.strategies.facts import FILES, WITH, WITHOUT, checkpoint, facts, source

DELTA = SinkReport("delta", "/w/changes", 2, version=7)
CODE = CodeFacts(
    {"/p/q.py": WITHOUT},
    (),
    sources=(SourceReader(path="/in"),),
    key=("customer_id",),
    key_kind=KeyKind.NAMED,
    varies=(),
)
READ = source(spans=InputSpans(processed=InputRange("files", files=tuple(FILES[:4]))))
GONE = replace(READ, processed=READ.processed[1:], gone=(FILES[0],))
LACKS = CommittedRows(rows=20, absent=2, absent_keys=2)
COUNTS = Counts(table=18, processed=20, waiting=8, everything=28, committed=LACKS)
STATELESS = checkpoint(state_operators=(), last_planned=2)


def given(**changes: Any) -> Facts:
    values: dict[str, Any] = {
        "checkpoint": STATELESS,
        "sink": DELTA,
        "sources": (READ,),
        "code": CODE,
        "new_code": CODE,
        "old_code": CODE,
        "counts": COUNTS,
    }
    return facts(**{**values, **changes})


def judged(of: Facts) -> Option:
    return next(o for o in judge_all(of) if o.strategy == "top-up")


def lacking(**changes: Any) -> dict[str, Any]:
    return {"counts": replace(COUNTS, committed=replace(LACKS, **changes))}


def test_each_missing_row_is_added_and_none_is_lost_or_doubled() -> None:
    option = judged(given())
    forecast = option.forecast
    assert option.blocked is None
    assert (forecast.new_rows, forecast.table_after) == (2, 20)
    assert [(a.rows, a.bound) for a in (forecast.lost, forecast.doubled)] == [(0, Bound.EXACT)] * 2
    assert (forecast.reread.rows, forecast.reread.files) == (20, 4)
    assert option.undoable


def test_it_starts_no_update_of_the_flow_and_writes_the_number_that_was_counted() -> None:
    steps = judged(given()).steps
    assert [step.kind for step in steps] == ["stop", "fill", "verify"]
    assert steps[1].args == FillArgs(rows_of="input", rows=2)
    below = judged(given(readers=(DownstreamReader("c.s.view", "c.s.view_flow", True),)))
    assert [step.kind for step in below.steps] == ["stop", "fill", "refresh", "verify"]


def test_the_proof_asks_for_the_rows_of_before_those_that_were_added_and_the_whole_table() -> None:
    expected = {c.code: codec.to_json(c.expected) for c in judged(given()).criteria}
    assert set(required("top-up", edition=EDITION, key=True)) <= set(expected)
    assert expected["ROWS_OF_BEFORE_UNTOUCHED"] == {"rows": 18}
    assert expected["EVERY_ROW_ONCE"] == {"scope": "missing", "key": ["customer_id"], "whole_rows": True}
    assert expected["NO_KEY_TWICE"]["accepted"] == {"rows": 0, "bound": "exact"}
    assert expected["TABLE_HAS_EVERY_ROW"] == {"key": ["customer_id"], "rows": 20, "whole": True}
    assert expected["COUNTS_EQUAL_FORECAST"] == {"new_rows": 2, "table_after": 20}
    assert expected["CHECKPOINT_UNTOUCHED"] == {"fingerprint": "f" * 64, "last_committed": 2}


def test_rows_are_compared_by_the_key_alone_where_the_code_may_yield_other_values_now() -> None:
    option = judged(given(**{name: replace(CODE, varies=("current_timestamp(",)) for name in CODES}))
    expected = {c.code: codec.to_json(c.expected) for c in option.criteria}
    assert "whole_rows" not in expected["EVERY_ROW_ONCE"]
    assert "ROWS_MAY_DIFFER" in {f.code for f in option.findings}


CODES = ("code", "new_code", "old_code")
GROUPS = replace(CODE, operators=("stateStoreSave",))
TWICE = replace(CODE, operators=("dedupe", "dedupe"))
OTHER = replace(CODE, files={"/p/q.py": WITH})
UNSETTLED = checkpoint(
    state_operators=(), findings=(Finding("SINK_UNCOMMITTED_BATCH", Severity.WARNING, "", ""),),
    batches=({"batch": 3, "planned": True, "committed": False, "offsets": ['{"logOffset":3}']},),
)  # fmt: skip
DAMAGED = checkpoint(findings=(Finding("X", Severity.BLOCKER, "Broken.", ""),))
TOPIC = source(
    position=Position(0, "kafka", '{"t":{"0":5}}', "5", Precision.EXACT, True),
    spans=InputSpans(processed=InputRange("kafka")), options={"startingOffsets": "latest"},
)  # fmt: skip
AGAIN = replace(READ, waiting=(READ.processed[0], *READ.waiting))

BLOCKED: list[tuple[str, dict[str, Any]]] = [
    ("update_running", {"active_update": "u-9"}),
    ("top_up_of_program", {"is_plain": True}),
    ("top_up_of_table", {"sink": SinkReport("files", "/w", 2, 0, {})}),
    ("top_up_of_table", {"sink": replace(DELTA, declared="delta")}),
    ("top_up_of_table", {"sink": replace(DELTA, by_function=True)}),
    ("top_up_shared_table", {"writers": ("another_flow",)}),
    ("backfill_unfilled", {"unfilled": "R-7"}),
    ("code_not_analysed", {"new_code": replace(CODE, operators=None, problem="It does not parse.")}),
    ("checkpoint_damaged", {"checkpoint": DAMAGED}),
    ("batch_unsettled", {"checkpoint": UNSETTLED}),
    ("top_up_other_code", {"new_code": OTHER}),
    ("top_up_other_code", {"old_code": OTHER}),
    ("top_up_of_groups", dict.fromkeys(CODES, GROUPS)),
    ("top_up_of_groups", dict.fromkeys(CODES, TWICE)),
    ("top_up_no_key", dict.fromkeys(CODES, replace(CODE, key=()))),
    ("top_up_input_unknown", {"skipped_before": True}),
    ("top_up_input_unknown", {"sources": (TOPIC,), "checkpoint": replace(STATELESS, sources=())}),
    ("top_up_input_unknown", {"sources": (source(),)}),
    ("top_up_read_again", {"sources": (AGAIN,)}),
    ("top_up_uncounted", {"counts": replace(COUNTS, committed=None)}),
    ("top_up_collation", lacking(collated=("name",))),
    ("top_up_columns", lacking(unfit=("city",))),
    ("nothing_missing", lacking(absent=0, absent_keys=0)),
    ("nothing_missing", lacking(absent=0, absent_keys=0, extra=3)),
    ("top_up_table_repeats", lacking(extra=1)),
    ("top_up_key_repeats", lacking(absent=3)),
    ("top_up_key_repeats", lacking(absent=0, absent_keys=0, short=1)),
    ("top_up_first_not_known", lacking(unsettled=1)),
    ("top_up_first_not_known", lacking(unsettled=None)),
    ("top_up_first_not_known", lacking(absent=0, absent_keys=0, unsettled=None)),
]


@pytest.mark.parametrize(("code", "changes"), BLOCKED, ids=[f"{n} {c}" for n, (c, _) in enumerate(BLOCKED)])
def test_what_cannot_be_added_for_certain_is_blocked(code: str, changes: dict[str, Any]) -> None:
    of = given(**changes)
    if changes.get("checkpoint") is not None and not of.checkpoint.sources:
        of = replace(of, source_map=(), checkpoint=replace(of.checkpoint, sources=STATELESS.sources))
    blocker = judged(of).blocker
    assert blocker is not None
    assert blocker.code == code


@pytest.mark.parametrize(
    ("changes", "bound", "rows"),
    [
        ({}, Bound.EXACT, 0),
        ({"sources": (GONE,)}, Bound.UNKNOWN, None),
        ({"counts": replace(COUNTS, committed=None)}, Bound.UNKNOWN, None),
    ],
)
def test_what_is_missing_and_cannot_be_read_is_never_called_none(
    changes: dict[str, Any], bound: Bound, rows: int | None
) -> None:
    lost = judged(given(**changes)).forecast.lost
    assert (lost.bound, lost.rows) == (bound, rows)


def test_rows_of_no_input_may_be_those_that_are_missing_under_another_key() -> None:
    strange = judged(given(**lacking(beyond=1)))
    assert (strange.forecast.doubled.rows, strange.forecast.doubled.bound) == (1, Bound.AT_MOST)
    assert "ROWS_OF_NO_INPUT" in {f.code for f in strange.findings}
    of_a_file_that_is_gone = judged(given(sources=(GONE,), **lacking(beyond=900)))
    assert (of_a_file_that_is_gone.forecast.doubled.rows, of_a_file_that_is_gone.forecast.doubled.exact) == (
        0,
        True,
    )


def test_it_takes_the_place_of_no_other_way_out_before_a_proof_found_rows_missing() -> None:
    options = judge_all(given())
    assert decide(options, NOT_ASKED).strategy != "top-up"
    found = judge_all(given(found_missing=2))
    assert decide(found, NOT_ASKED).strategy == "top-up"
    assert MISSING_BY_PROOF in {f.code for f in judged(given(found_missing=2)).findings}


@pytest.mark.parametrize("changes", [lacking(beyond=1), {"sources": (GONE,)}, {"writers": ("other",)}])
def test_it_is_not_recommended_where_it_may_cost_rows_or_cannot_run(changes: dict[str, Any]) -> None:
    assert decide(judge_all(given(found_missing=2, **changes)), NOT_ASKED).strategy != "top-up"
