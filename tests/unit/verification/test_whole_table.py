"""The rest of the table: rows of before, keys that are there twice, and what the numbers of a proof are true of."""

import json
from dataclasses import replace
from typing import Any

import pytest

from recovery.contracts import codec
from recovery.contracts.amounts import Bound
from recovery.contracts.criteria import Criterion
from recovery.contracts.measured import (
    JudgedCriterion,
    Measured,
    MeasuredOutcome,
    MeasuredRows,
    NotWholeReason,
)
from recovery.spark.api import BoundedBy, BudgetBound, Measure, WholeComparison
from recovery.verification.evidence import OldFiles, WholeFlow
from recovery.verification.judge import judge
from recovery.verification.outcome import outcome_of
from recovery.verification.words import bound_findings
from tests.factories.judged import forecast_of
from tests.unit.verification.world import World

NONE = {"rows": 0, "bound": "exact"}
SIX = {"rows": 6, "bound": "exact"}
AT_MOST = {"rows": 9, "bound": "at most"}
UNKNOWN = {"rows": None, "bound": "unknown"}
ABOUT = {"rows": 5, "bound": "estimate"}


def criterion(world: World, code: str, **changes: Any) -> JudgedCriterion:
    verdict = judge(world.strategy, world.criteria(), world.evidence(**changes))
    found = next(c for c in verdict.criteria if c.code == code)
    assert not (verdict.verified and found.ok is not True)
    return found


# ---- keys


def rewound(accepted: dict[str, Any], written: str = "abcdefgh") -> World:
    """A table of six keys, and a rerun that wrote them again with two more."""
    return World(
        key=["id"],
        old_rows=list("abcdef"),
        expected=list("abcdefgh"),
        written=list(written),
        accepted=accepted,
    )


@pytest.mark.parametrize(
    ("world", "ok", "rows"),
    [
        (World(key=["id"], old_rows=["a"], expected=["b", "c"]), True, 0),
        (rewound(SIX), True, 6),
        (rewound(AT_MOST), True, 6),
        (rewound(UNKNOWN), None, 6),
        (rewound(ABOUT), None, 6),
        (rewound({"rows": 2, "bound": "at least"}), None, 6),
        (rewound(NONE), False, 6),
        (rewound({"rows": 5, "bound": "exact"}), False, 6),
        (rewound({"rows": 9, "bound": "exact"}), False, 6),
        (rewound({"rows": 5, "bound": "at most"}), False, 6),
        (World(key=["id"], old_rows=["a"], expected=["b", "b"]), False, 1),
        (World(key=["id"], old_rows=["a", "a"], expected=["b"]), True, 0),
        (World(key=["id"], old_rows=["a", "a"], expected=["a"]), False, 1),
    ],
    ids=[
        "none", "as accepted", "within a bound", "of an unknown number", "of about so many", "of at least so many",
        "none accepted",
        "more than accepted", "fewer than counted", "beyond a bound", "the input repeats one",
        "only an old one is twice", "an old pair got a third",
    ],
)  # fmt: skip
def test_no_key_of_a_new_row_is_there_twice_but_those_that_the_plan_accepts(
    world: World, ok: bool | None, rows: int
) -> None:
    found = criterion(replace(world, strategy="continue"), "NO_KEY_TWICE")
    assert (found.ok, found.measured.rows) == (ok, rows)


@pytest.mark.parametrize(
    "values", [{"new_repeats": None}, {"keys_twice": None}, {"key": ("other",)}, {"key": ()}], ids=str
)
def test_keys_that_were_not_counted_prove_nothing(values: dict[str, Any]) -> None:
    world = World(key=["id"], old_rows=["a"], expected=["b"])
    measure = world.evidence().measure
    assert measure is not None
    assert criterion(world, "NO_KEY_TWICE", measure=replace(measure, **values)).ok is None


# ---- what a budget keeps from being asked

LOOKUP, GROUPING = BudgetBound(BoundedBy.LOOKUP, 9, 8), BudgetBound(BoundedBy.GROUPING, 9, 8)
NOT_GROUPED: dict[str, Any] = {"duplicates_in_table": None, "duplicates_before": None, "table_keys": None}
NOT_LOOKED_UP: dict[str, Any] = {
    **NOT_GROUPED,
    **dict.fromkeys(("repeats_added", "duplicates_explained", "held_before", "keys_twice", "new_repeats")),
}
AGAIN_ONCE = World(
    key=["id"], old_rows=["a", "a"], expected=["a", "b"], accepted={"rows": 1, "bound": "exact"}
)


@pytest.mark.parametrize(
    ("world", "bounded", "once", "key_twice"),
    [
        (AGAIN_ONCE, GROUPING, True, True),
        (replace(AGAIN_ONCE, accepted=NONE), GROUPING, True, False),
        (AGAIN_ONCE, LOOKUP, True, None),
        (replace(AGAIN_ONCE, open=3), LOOKUP, None, None),
        (replace(AGAIN_ONCE, written=["a"]), LOOKUP, False, None),
    ],
    ids=[
        "not grouped",
        "not grouped, none accepted",
        "not looked up",
        "nor is an open batch settled",
        "lost",
    ],
)
def test_what_was_not_asked_is_not_known_and_the_rest_holds(
    world: World, bounded: BudgetBound, once: bool | None, key_twice: bool | None
) -> None:
    measure = world.evidence().measure
    assert measure is not None
    absent = NOT_GROUPED if bounded is GROUPING else NOT_LOOKED_UP
    changes = {"measure": replace(measure, bounded=(bounded,), **absent)}
    found = [criterion(world, code, **changes) for code in ("EVERY_ROW_ONCE", "NO_KEY_TWICE")]
    assert [f.ok for f in found] == [once, key_twice]


def test_repeats_of_long_ago_are_not_known_of_a_table_that_is_not_grouped_and_those_of_the_rerun_are() -> (
    None
):
    found = outcome(AGAIN_ONCE, bounded=(GROUPING,), **NOT_GROUPED)
    assert (found.doubled, found.doubled_bound, found.doubled_before) == (1, Bound.AT_LEAST, None)
    assert found.doubled_now == MeasuredRows(1, Bound.EXACT)
    stored = codec.read(Measured, json.loads(json.dumps(codec.to_json(found))))
    assert dict(found).items() <= dict(stored).items()
    assert [f.by for f in bound_findings(stored)] == [BoundedBy.GROUPING]
    unknown = outcome(AGAIN_ONCE, bounded=(LOOKUP,), **NOT_LOOKED_UP)
    assert (unknown.doubled_now.rows, unknown.doubled_bound) == (None, Bound.UNKNOWN)


# ---- rows of before


@pytest.mark.parametrize(
    ("old", "ok"),
    [
        (OldFiles(3), True),
        (OldFiles(3, ("p1",)), False),
        (OldFiles(problem="It could not be listed."), None),
        (None, None),
        (OldFiles(versions=(7, 9)), True),
        (OldFiles(versions=(7, 9), rewritten=2), True),
        (OldFiles(versions=(7, 9), touched=("p1",)), False),
    ],
    ids=["files", "one is other", "not listed", "not looked at", "commits", "rewritten", "removed"],
)
def test_rows_of_before_are_told_by_files_and_commits(old: OldFiles | None, ok: bool | None) -> None:
    assert criterion(World(), "ROWS_OF_BEFORE_UNTOUCHED", old_files=old).ok is ok


@pytest.mark.parametrize(
    ("values", "ok"),
    [({"vanished": 1}, False), ({"old_rows": 2}, False), ({"old_rows": None}, None)],
    ids=["rows vanished", "fewer than planned", "not counted"],
)
def test_rows_of_before_are_counted_too(values: dict[str, Any], ok: bool | None) -> None:
    measure = World().evidence().measure
    assert measure is not None
    assert criterion(World(), "ROWS_OF_BEFORE_UNTOUCHED", measure=replace(measure, **values)).ok is ok


# ---- plans of before


def test_a_plan_that_was_sealed_before_is_judged_by_the_criteria_it_has() -> None:
    world = World(key=["id"], old_rows=["a"], expected=["b"])
    planned = [c for c in world.criteria() if c.code not in ("ROWS_OF_BEFORE_UNTOUCHED", "NO_KEY_TWICE")]
    assert judge("continue", planned, world.evidence(), edition=1).verified
    now = judge("continue", planned, world.evidence())
    assert {c.code for c in now.criteria if c.ok is None} == {"ROWS_OF_BEFORE_UNTOUCHED", "NO_KEY_TWICE"}


def test_a_table_that_is_emptied_has_no_rows_of_before() -> None:
    world = World("full-refresh", new=[[1, 2, 3, 4]], listed=[[1, 2, 3, 4]], key=["id"], expected=["a", "b"])
    assert judge("full-refresh", world.criteria(), world.evidence()).verified


# ---- numbers


def outcome(world: World, forecast: dict[str, Any] | None = None, **changes: Any) -> MeasuredOutcome:
    measure = world.evidence().measure
    assert measure is not None
    told = {n: changes.pop(n) for n in ("whole_flow", "drops_repeats") if n in changes}
    evidence = world.evidence(measure=replace(measure, **changes), **told)
    return outcome_of(forecast_of(**(forecast or {})), world.criteria(), evidence)


IS, MOST, LEAST, OPEN = Bound.EXACT, Bound.AT_MOST, Bound.AT_LEAST, Bound.UNKNOWN
AGAIN = WholeComparison(20, 20, 23, 20, 0, 3, 0)
LOST = WholeComparison(20, 20, 18, 18, 2, 0, 0)
ALL = WholeComparison(20, 20, 20, 20, 0, 0, 0)


@pytest.mark.parametrize(
    ("found", "lost", "doubled"),
    [
        (outcome(World(key=["id"], old_rows=["a"], expected=["b"])), (0, LEAST), (0, IS)),
        (outcome(World(key=["id"], old_rows=["a"], expected=["b"]), whole=ALL), (0, IS), (0, IS)),
        (outcome(rewound(SIX), {"lost": NONE, "doubled": SIX}), (0, LEAST), (6, IS)),
        (outcome(World(key=["id"], old_rows=["a", "a"], expected=["b"])), (0, LEAST), (1, IS)),
        (outcome(World(), {"lost": SIX, "doubled": NONE}), (6, LEAST), (0, LEAST)),
        (outcome(World(), {"lost": AT_MOST, "doubled": NONE}), (9, Bound.ESTIMATE), (0, LEAST)),
        (outcome(World(), {"lost": UNKNOWN, "doubled": NONE}), (None, OPEN), (0, LEAST)),
        (outcome(World(), whole=AGAIN), (0, IS), (3, IS)),
        (outcome(World(), whole=LOST), (0, LEAST), (0, IS)),
        (outcome(World(key=["id"], old_rows=["a"], expected=["b"]), whole=LOST), (2, Bound.ESTIMATE), (0, IS)),
        (outcome(World(), missing=None, extra=None), (None, OPEN), (None, OPEN)),
        (outcome(World(), missing=2, vanished=1), (3, LEAST), (0, LEAST)),
    ],
    ids=[
        "all once", "all once, and the whole flow",
        "as accepted", "an old pair", "given up", "given up at most", "not known", "the whole flow",
        "fewer by the whole row", "fewer by key", "not compared", "missing and vanished",
    ],
)  # fmt: skip
def test_lost_and_doubled_are_those_of_the_whole_table(
    found: MeasuredOutcome, lost: tuple[int | None, Bound], doubled: tuple[int | None, Bound]
) -> None:
    assert (found.lost, found.lost_bound) == lost
    assert (found.doubled, found.doubled_bound) == doubled


def test_what_an_unmade_comparison_leaves_open_is_not_counted_as_none() -> None:
    assert outcome(World(), whole=WholeComparison(problem="Too large.")).doubled_before is None


FLOW, GONE, CUT = WholeFlow(7, size=9), WholeFlow(7, gone=1, size=9), WholeFlow(7, others=1, cut=1, size=9)


@pytest.mark.parametrize(
    ("whole", "flow", "doubled", "before"),
    [
        (AGAIN, FLOW, (3, IS), None),  # some new rows equal earlier ones: theirs, or repeats of these
        (WholeComparison(20, 20, 30, 25, 0, 0, 10), FLOW, (0, LEAST), None),
        (WholeComparison(20, 20, 33, 25, 0, 3, 10), FLOW, (3, LEAST), None),
        (WholeComparison(20, 20, 30, 30, 0, 0, 10), FLOW, (0, IS), 0),
        (WholeComparison(20, 20, 28, 28, 2, 0, 10), FLOW, (0, LEAST), None),
        (WholeComparison(20, 20, 21, 20, 0, 1, 0), GONE, (0, LEAST), None),
        (WholeComparison(20, 20, 21, 20, 0, 1, 0), CUT, (0, LEAST), None),
        (WholeComparison(20, 20, 30, 30, 0, 0, 10), GONE, (0, IS), 0),
        (WholeComparison(20, 20, 30, 25, 0, 0, 10), GONE, (0, LEAST), None),
    ],
    ids=[
        "all from the input", "rows of earlier code twice", "and some of the input", "rows of earlier code once",
        "perhaps twice, as some are absent", "a row of a file that is gone", "a row of a topic that is cut",
        "rows of a file that is gone once", "rows of a file that is gone twice",
    ],
)  # fmt: skip
def test_without_a_key_doubled_rows_are_exact_where_every_row_of_the_table_was_compared(
    whole: WholeComparison, flow: WholeFlow, doubled: tuple[int, Bound], before: int | None
) -> None:
    """What today's code yields over no input may be there twice, rightly or not; and what is there more often than in
    the input that is left may come from input that is gone."""
    found = outcome(World(), whole=whole, whole_flow=flow)
    assert ((found.doubled, found.doubled_bound), found.doubled_before) == (doubled, before)


TEN = {"rows": 10, "bound": "exact"}


@pytest.mark.parametrize(
    ("lost", "absent", "before", "of_all"),
    [
        (TEN, 0, (0, IS), (10, IS)),
        (TEN, 4, (None, OPEN), (10, LEAST)),
        (TEN, 10, (None, OPEN), (10, LEAST)),
        (TEN, 12, (2, Bound.ESTIMATE), (12, Bound.ESTIMATE)),
        (AT_MOST, 4, (None, OPEN), (9, Bound.ESTIMATE)),
        (NONE, 4, (4, Bound.ESTIMATE), (4, Bound.ESTIMATE)),
        (NONE, 0, (0, IS), (0, IS)),
    ],
    ids=[
        "no key is absent", "fewer keys than rows", "as many", "more", "fewer than at most", "none given up", "nothing",
    ],
)  # fmt: skip
def test_rows_that_were_given_up_hide_no_key_that_was_lost_before(
    lost: dict[str, Any], absent: int, before: tuple[int | None, Bound], of_all: tuple[int, Bound]
) -> None:
    """The table may have other rows with the keys of those that were given up, and lack other keys since long ago."""
    world = World(key=["id"], old_rows=["a"], expected=["b"])
    found = outcome(
        world,
        {"lost": lost, "doubled": NONE},
        whole=WholeComparison(40, 40, 40 - absent, 40 - absent, absent, 0, 0),
        whole_flow=FLOW,
    )
    assert (found.lost_before, found.lost_before_bound) == before
    assert (found.lost, found.lost_bound) == of_all


def test_rows_that_are_read_again_without_a_key_are_doubled_as_far_as_they_are_alike() -> None:
    world = World(old_rows=["a", "b"], expected=["a", "b", "c"])
    planned = world.criteria(EVERY_ROW_ONCE={"again": True})
    found = outcome_of(forecast_of(doubled=AT_MOST), planned, world.evidence())
    assert (found.doubled, found.doubled_bound) == (2, Bound.AT_LEAST)


@pytest.mark.parametrize(
    ("drops_repeats", "beyond", "bound"),
    [(False, 1, Bound.EXACT), (True, 1, Bound.AT_LEAST), (True, 0, Bound.EXACT), (False, 2, Bound.AT_LEAST)],
)
def test_a_row_that_the_input_does_not_yield_may_repeat_another_one_with_other_values(
    drops_repeats: bool, beyond: int, bound: Bound
) -> None:
    whole = WholeComparison(6, 6, 8, 7, 0, 1, beyond)
    found = outcome(World(), whole=whole, whole_flow=FLOW, drops_repeats=drops_repeats)
    assert (found.doubled, found.doubled_bound) == (1, bound)


@pytest.mark.parametrize(
    ("again", "before", "doubled"),
    [
        (False, {"failed_rows": 1}, (2, Bound.AT_MOST)),
        (False, {"failed_rows": 1, "margin_rows": 3}, (5, Bound.AT_MOST)),
        (False, {"failed_rows": 0, "margin_rows": 0}, (1, Bound.EXACT)),
        (True, {"failed_rows": 1}, (None, Bound.UNKNOWN)),
    ],
)
def test_what_a_topic_held_before_is_a_bound(
    again: bool, before: dict[str, int], doubled: tuple[int | None, Bound]
) -> None:
    measure = Measure(missing=0, extra=2, strange=0, repeated=1, **before)
    planned = [Criterion(code="EVERY_ROW_ONCE", says="", expected={"again": again})]
    evidence = World().evidence(measure=measure)
    found = outcome_of(forecast_of(doubled=SIX if again else NONE), planned, evidence)
    assert (found.doubled, found.doubled_bound) == doubled


@pytest.mark.parametrize(
    ("flow", "whole", "why"),
    [
        (WholeFlow(7, size=9), AGAIN, None),
        (
            WholeFlow(7, size=9),
            WholeComparison(problem="It depends on its state."),
            NotWholeReason.NOT_COMPARED,
        ),
        (WholeFlow(7, size=9), None, NotWholeReason.NOT_COMPARED),
        (WholeFlow(7, why=NotWholeReason.OVER_BUDGET), None, NotWholeReason.OVER_BUDGET),
    ],
)
def test_why_the_whole_flow_was_not_compared_is_kept(
    flow: WholeFlow, whole: WholeComparison | None, why: NotWholeReason | None
) -> None:
    found = outcome(World(), whole=whole, whole_flow=flow).whole
    assert found is not None
    assert (found.why, found.files) == (why, 7)
    again = outcome(World(), whole=whole, whole_flow=flow)
    stored = codec.read(Measured, json.loads(json.dumps(codec.to_json(again))))
    assert dict(again).items() <= dict(stored).items()
    assert outcome(World()).whole is None
