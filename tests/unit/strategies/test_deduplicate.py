"""What deduplicate promises for a table that has rows too often, and each reason for which it promises nothing."""

from dataclasses import replace
from typing import Any

import pytest

from recovery.contracts import codec
from recovery.contracts.amounts import Bound
from recovery.contracts.forecast import DownstreamEffect, DownstreamReason
from recovery.contracts.option import Option
from recovery.contracts.steps import DeduplicateArgs
from recovery.sinks.base import SinkReport
from recovery.strategies.base import CommittedRows, Counts, Facts
from recovery.strategies.catalogue import judge_all
from recovery.strategies.deciding import NOT_ASKED, decide
from recovery.strategies.deduplicate import REPEATED_BY_PROOF
from recovery.strategies.readers import DownstreamReader
from recovery.verification.criteria import EDITION, required
from tests.unit.strategies import test_top_up as top_up

REPEATS = CommittedRows(rows=18, extra=3, extra_keys=2, differing=0)
COUNTS = Counts(table=21, processed=18, waiting=8, everything=26, committed=REPEATS)


def given(**changes: Any) -> Facts:
    return top_up.given(**{"counts": COUNTS, **changes})


def judged(of: Facts) -> Option:
    return next(o for o in judge_all(of) if o.strategy == "deduplicate")


def repeating(**changes: Any) -> dict[str, Any]:
    return {"counts": replace(COUNTS, committed=replace(REPEATS, **changes))}


def test_each_repeat_is_deleted_and_no_row_is_lost() -> None:
    option = judged(given())
    forecast = option.forecast
    assert option.blocked is None
    assert (forecast.new_rows, forecast.table_after) == (0, 18)
    assert [(a.rows, a.bound) for a in (forecast.lost, forecast.doubled)] == [(0, Bound.EXACT)] * 2
    assert (forecast.reread.rows, forecast.reread.files) == (18, 4)
    assert option.undoable


def test_it_starts_no_update_of_the_flow_and_deletes_the_number_that_was_counted() -> None:
    steps = judged(given()).steps
    assert [step.kind for step in steps] == ["stop", "deduplicate", "verify"]
    assert steps[1].args == DeduplicateArgs(rows=3)


def test_the_proof_asks_for_the_rows_that_went_and_for_the_whole_table() -> None:
    expected = {c.code: codec.to_json(c.expected) for c in judged(given()).criteria}
    assert set(required("deduplicate", edition=EDITION, key=True)) <= set(expected)
    assert expected["ONLY_REPEATS_DELETED"] == {"rows": 3, "before": 21}
    assert expected["TABLE_HAS_EVERY_ROW"] == {"key": ["customer_id"], "rows": 18, "whole": True}
    assert expected["COUNTS_EQUAL_FORECAST"] == {"table_after": 18}
    assert expected["CHECKPOINT_UNTOUCHED"] == {"fingerprint": "f" * 64, "last_committed": 2}


def test_a_stream_below_is_not_refreshed_and_what_becomes_of_it_is_named() -> None:
    """Delta fails a stream at a commit that deletes rows."""
    readers = (
        DownstreamReader("c.s.view", "c.s.view_flow", True, inputs=("c.s.t",)),
        DownstreamReader("c.s.stream", "c.s.stream_flow", False, inputs=("c.s.t",)),
        DownstreamReader("c.s.last", "c.s.last_flow", True, inputs=("c.s.stream",)),
    )
    option = judged(given(readers=readers))
    below = {d.dataset: (d.effect, d.reason) for d in option.forecast.downstream}
    assert below == {
        "c.s.view": (DownstreamEffect.REFRESHED, None),
        "c.s.stream": (DownstreamEffect.UNKNOWN, DownstreamReason.ROWS_REMOVED),
        "c.s.last": (DownstreamEffect.STALE, DownstreamReason.OF_BEHIND),
    }
    assert [step.kind for step in option.steps] == ["stop", "deduplicate", "refresh", "verify"]
    assert "STREAM_READERS_FAIL" in {f.code for f in judged(given()).findings}, "others are not known"


BLOCKED: list[tuple[str, dict[str, Any]]] = [
    ("update_running", {"active_update": "u-9"}),
    ("deduplicate_of_program", {"is_plain": True}),
    ("deduplicate_of_table", {"sink": SinkReport("files", "/w", 2, 0, {})}),
    ("deduplicate_of_table", {"sink": replace(top_up.DELTA, declared="delta")}),
    ("deduplicate_of_table", {"sink": replace(top_up.DELTA, by_function=True)}),
    ("deduplicate_shared_table", {"writers": ("another_flow",)}),
    ("backfill_unfilled", {"unfilled": "R-7"}),
    ("code_not_analysed", {"new_code": replace(top_up.CODE, operators=None, problem="It does not parse.")}),
    ("checkpoint_damaged", {"checkpoint": top_up.DAMAGED}),
    ("batch_unsettled", {"checkpoint": top_up.UNSETTLED}),
    ("deduplicate_other_code", {"new_code": top_up.OTHER}),
    ("deduplicate_other_code", {"old_code": top_up.OTHER}),
    ("deduplicate_of_groups", dict.fromkeys(top_up.CODES, top_up.GROUPS)),
    ("deduplicate_of_groups", dict.fromkeys(top_up.CODES, top_up.TWICE)),
    ("deduplicate_no_key", dict.fromkeys(top_up.CODES, replace(top_up.CODE, key=()))),
    ("deduplicate_input_unknown", {"skipped_before": True}),
    (
        "deduplicate_input_unknown",
        {"sources": (top_up.TOPIC,), "checkpoint": replace(top_up.STATELESS, sources=())},
    ),
    ("deduplicate_input_gone", {"sources": (top_up.GONE,)}),
    ("deduplicate_read_again", {"sources": (top_up.AGAIN,)}),
    ("deduplicate_uncounted", {"counts": replace(COUNTS, committed=None)}),
    ("deduplicate_uncounted", repeating(differing=None)),
    ("deduplicate_collation", repeating(collated=("name",))),
    ("deduplicate_columns", repeating(unfit=("city",))),
    ("nothing_repeated", repeating(extra=0)),
    ("nothing_repeated", repeating(extra=0, beyond=4)),
    ("deduplicate_first_not_known", repeating(unsettled=None)),
    ("deduplicate_key_repeats", repeating(short=1)),
    ("deduplicate_rows_differ", repeating(differing=1)),
]


@pytest.mark.parametrize(("code", "changes"), BLOCKED, ids=[f"{n} {c}" for n, (c, _) in enumerate(BLOCKED)])
def test_what_cannot_be_deleted_for_certain_is_blocked(code: str, changes: dict[str, Any]) -> None:
    of = given(**changes)
    if changes.get("checkpoint") is not None and not of.checkpoint.sources:
        of = replace(of, source_map=(), checkpoint=replace(of.checkpoint, sources=top_up.STATELESS.sources))
    blocker = judged(of).blocker
    assert blocker is not None
    assert blocker.code == code


def test_the_blocker_counts_keys_whose_rows_differ() -> None:
    blocker = judged(given(**repeating(differing=2))).blocker
    assert blocker is not None
    assert "2 keys (customer_id)" in blocker.says


@pytest.mark.parametrize(
    "changes", [{"counts": replace(COUNTS, committed=None)}, {"sources": (top_up.GONE,)}]
)
def test_what_was_not_counted_is_never_called_none(changes: dict[str, Any]) -> None:
    forecast = judged(given(**changes)).forecast
    assert [(a.rows, a.bound) for a in (forecast.lost, forecast.doubled)] == [(None, Bound.UNKNOWN)] * 2


def test_rows_that_are_missing_too_are_named_and_added_by_a_further_plan() -> None:
    both = given(**repeating(rows=20, absent=2, absent_keys=2))
    assert judged(both).blocker is None
    assert "ROWS_STILL_MISSING" in {f.code for f in judged(both).findings}
    blocker = top_up.judged(both).blocker
    assert blocker is not None
    assert blocker.code == "top_up_table_repeats", "repeats go first"


def test_it_takes_the_place_of_no_other_way_out_before_a_proof_found_rows_too_often() -> None:
    assert decide(judge_all(given()), NOT_ASKED).strategy != "deduplicate"
    repeats = given(found_repeated=3)
    assert decide(judge_all(repeats), NOT_ASKED).strategy == "deduplicate"
    assert REPEATED_BY_PROOF in {f.code for f in judged(repeats).findings}


@pytest.mark.parametrize(
    "changes", [repeating(differing=1), {"sources": (top_up.GONE,)}, {"writers": ("other",)}]
)
def test_it_is_not_recommended_where_it_cannot_run(changes: dict[str, Any]) -> None:
    assert decide(judge_all(given(found_repeated=3, **changes)), NOT_ASKED).strategy != "deduplicate"
