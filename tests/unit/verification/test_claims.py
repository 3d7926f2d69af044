"""What a proof claims: no more than was measured, and what it found beside."""

from dataclasses import replace
from typing import Any

import pytest

from recovery.contracts import codec
from recovery.contracts.amounts import Bound, RowAmount
from recovery.contracts.forecast import Forecast
from recovery.contracts.measured import Measured, MeasuredRows, WholeComparison
from recovery.spark.api import Measure
from recovery.verification.outcome import outcome_of
from recovery.verification.words import (
    Claim,
    FlowCode,
    count_repeats,
    doubled_earlier,
    headline,
    lost_earlier,
    whole_findings,
)
from tests.unit.verification.world import World

NONE, SIX = {"rows": 0, "bound": "exact"}, {"rows": 6, "bound": "exact"}
GONE = {"rows": None, "bound": "unknown"}
WHOLE = {
    "input_rows": 21, "input_keys": 20, "table_rows": 20, "table_keys": 20, "absent": 0, "doubled": 0, "beyond": 0,
    "files": 7, "gone": 0, "others": 0, "size": 1, "why": None, "problem": None,
}  # fmt: skip


def proof(**changes: Any) -> Measured:
    told = {
        "criteria": [], "new_rows": 8, "before_rows": 12, "table_rows": 20, "lost": 0, "lost_bound": "exact",
        "lost_accepted": NONE, "doubled": 0, "doubled_bound": "exact", "doubled_before": 0, "doubled_accepted": NONE,
        "key": ["id"], "whole": None,
    }  # fmt: skip
    return codec.read(Measured, {**told, **changes})


@pytest.mark.parametrize(
    ("changes", "claim", "rows"),
    [
        ({}, Claim.ONCE, 0),
        ({"doubled": 3, "doubled_before": 3}, Claim.ONCE, 0),
        ({"doubled": 9, "doubled_before": 3, "doubled_accepted": SIX}, Claim.REPEATED, 6),
        ({"doubled": None, "doubled_accepted": GONE}, Claim.REPEATED, None),
        ({"doubled": 0, "doubled_accepted": {"rows": 9, "bound": "at most"}}, Claim.ONCE, 0),
        ({"doubled_bound": "at least", "doubled_accepted": SIX}, Claim.REPEATED, None),
        ({"lost_accepted": SIX}, Claim.GIVEN_UP, 0),
        ({"lost_accepted": GONE}, Claim.GIVEN_UP, 0),
        ({"lost_accepted": SIX, "doubled": 6, "doubled_accepted": SIX}, Claim.BOTH, 6),
    ],
    ids=[
        "once", "twice before", "repeated", "not known", "none of those accepted", "not compared",
        "given up", "given up, not known", "both",
    ],
)  # fmt: skip
def test_what_was_accepted_is_claimed_beside_what_was_proven(
    changes: dict[str, Any], claim: Claim, rows: int | None
) -> None:
    found = proof(**changes)
    assert (headline(found).claim, count_repeats(found).rows) == (claim, rows)
    assert ("once" in headline(found).says) is (claim in (Claim.ONCE, Claim.GIVEN_UP))


MAYBE = {"rows": 0, "bound": "estimate"}


@pytest.mark.parametrize("accepted", [MAYBE, GONE], ids=["may be none", "not known"])
@pytest.mark.parametrize(
    ("changes", "claim"),
    [
        ({"whole": None}, Claim.GIVEN_UP),
        ({}, Claim.ONCE),
        ({"gone": 1}, Claim.GIVEN_UP),
        ({"others": 1, "cut": 0}, Claim.ONCE),
        ({"others": 1, "cut": 1}, Claim.GIVEN_UP),
        ({"others": 1}, Claim.GIVEN_UP),
        ({"absent": 1}, Claim.GIVEN_UP),
        ({"why": "over-budget"}, Claim.GIVEN_UP),
    ],
    ids=[
        "not tried",
        "all input is there",
        "some input is gone",
        "another source",
        "another source is cut",
        "of another source nobody asked",
        "a key is absent",
        "not compared",
    ],
)
def test_rows_that_may_be_lost_are_claimed_unless_all_input_is_in_the_table(
    changes: dict[str, Any], claim: Claim, accepted: dict[str, Any]
) -> None:
    compared = None if changes == {"whole": None} else {**WHOLE, **changes}
    assert headline(proof(whole=compared, lost_accepted=accepted)).claim is claim


LEAST = {"rows": 0, "bound": "at least"}
SENT: dict[str, Any] = {
    "repeated": 0, "strange": 0, "failed_rows": 0, "missing": 0, "extra": 0, "expected_rows": 8, "new_rows": 8
}  # fmt: skip
UNKEYED: dict[str, Any] = {
    "missing": 0, "extra": 0, "held_before": 0, "expected_rows": 8, "new_rows": 8, "table_rows": 20,
    "whole": WholeComparison(absent=0, doubled=0, beyond=0),
}  # fmt: skip


@pytest.mark.parametrize("measured", [SENT, UNKEYED], ids=["records of a topic", "rows without a key"])
@pytest.mark.parametrize(
    ("accepted", "doubled", "claim"),
    [
        (LEAST, (0, Bound.AT_LEAST), Claim.REPEATED),
        ({"rows": 8, "bound": "estimate"}, (0, Bound.AT_LEAST), Claim.REPEATED),
        (NONE, (0, Bound.EXACT), Claim.ONCE),
        ({"rows": 0, "bound": "at most"}, (0, Bound.EXACT), Claim.ONCE),
    ],
    ids=[
        "repeats of a key that no row shows",
        "and of a planned batch",
        "none",
        "of a task that is tried again",
    ],
)
def test_repeats_that_no_comparison_can_see_stay_open_in_the_headline(
    measured: dict[str, Any], accepted: dict[str, Any], doubled: tuple[int, Bound], claim: Claim
) -> None:
    """A dropDuplicates is taken out, and nothing that was written has its key."""
    nothing = RowAmount(rows=0, bound=Bound.EXACT)
    doubled_planned = RowAmount(**accepted)
    forecast = Forecast(
        lost=nothing, doubled=doubled_planned, reread=nothing, new_rows=8, table_after=None, state=""
    )
    found = outcome_of(forecast, (), replace(World().evidence(), measure=Measure(**measured)))
    assert (found.doubled, found.doubled_bound) == doubled
    told = codec.read(Measured, {**codec.to_json(found), "criteria": []})
    assert headline(told).claim is claim


def test_repeats_that_are_a_lower_bound_are_claimed_as_one() -> None:
    found = proof(doubled=6, doubled_bound="at least", doubled_accepted=SIX)
    assert count_repeats(found) == MeasuredRows(6, Bound.AT_LEAST)
    assert "At least 6 rows" in headline(found).says


ABOUT, EXACT, MOST = Bound.ESTIMATE, Bound.EXACT, Bound.AT_MOST
NOTHING = (0, EXACT)
ADDED = {"code": "TABLE_HAS_EVERY_ROW", "ok": True}


@pytest.mark.parametrize(
    ("changes", "compared", "lost", "doubled"),
    [
        ({}, {}, NOTHING, NOTHING),
        ({"lost": 3, "lost_before": 3}, {"absent": 3}, (3, ABOUT), NOTHING),
        ({"doubled": 5, "doubled_before": 5}, {"doubled": 5}, NOTHING, (5, EXACT)),
        ({"doubled": 11, "doubled_before": 5, "doubled_accepted": SIX}, {}, NOTHING, (5, EXACT)),
        ({"doubled": 6, "doubled_before": 0, "doubled_accepted": SIX}, {"doubled": 6}, NOTHING, NOTHING),
        ({"lost_before": None}, {"absent": 3, "gone": 1}, (3, ABOUT), NOTHING),
        ({"lost_before": None, "lost": 6, "lost_accepted": SIX}, {"absent": 6}, NOTHING, NOTHING),
        ({"lost_before": None, "lost": 6, "lost_accepted": SIX}, {"absent": 8, "gone": 1}, (2, ABOUT), NOTHING),
        ({"lost_before": None, "lost_accepted": GONE}, {"absent": 8}, NOTHING, NOTHING),
        ({"key": [], "doubled_before": None}, {"doubled": 5, "gone": 1}, NOTHING, (5, MOST)),
        ({"key": [], "doubled_before": None}, {"doubled": 5}, NOTHING, (5, EXACT)),
        ({"lost_before": None}, {"absent": 3, "why": "over-budget"}, NOTHING, NOTHING),
        ({"key": [], "lost_before": None}, {"absent": 3}, (3, ABOUT), NOTHING),
        ({"key": [], "lost_before": None}, {"absent": 3, "beyond": 3}, NOTHING, NOTHING),
        ({"key": [], "lost_before": None}, {"absent": 3, "beyond": 1}, (2, ABOUT), NOTHING),
        ({"doubled_before": 5, "lost_before": 3, "criteria": [ADDED]}, {"absent": 3}, NOTHING, NOTHING),
    ],
    ids=[
        "as its input", "lost before", "twice before", "more twice than accepted", "twice as accepted",
        "absent, input gone", "given up", "more absent than given up", "given up, not known", "no key, input gone",
        "no key", "not compared", "no key, absent", "no key, other values",
        "no key, some with other values", "every row as often as the input",
    ],
)  # fmt: skip
def test_what_the_comparison_found_beyond_what_was_accepted_is_in_the_headline(
    changes: dict[str, Any], compared: dict[str, Any], lost: tuple[int, Bound], doubled: tuple[int, Bound]
) -> None:
    measured = proof(whole={**WHOLE, **compared}, **changes)
    assert (lost_earlier(measured), doubled_earlier(measured)) == (
        MeasuredRows(*lost),
        MeasuredRows(*doubled),
    )
    assert headline(measured).differs is (lost[0] + doubled[0] > 0)
    assert all(
        f"{bound.before_number}{rows} row" in headline(measured).says
        for rows, bound in (lost, doubled)
        if rows
    )


@pytest.mark.parametrize(
    ("measured", "lost", "doubled"),
    [
        ({"lost": 0, "doubled": 0}, (0, Bound.AT_LEAST), (0, Bound.AT_LEAST)),
        ({"new_rows": 8}, (None, Bound.UNKNOWN), (None, Bound.UNKNOWN)),
        ({"lost": 2, "lost_bound": "estimate", "doubled": None}, (2, Bound.ESTIMATE), (None, Bound.UNKNOWN)),
    ],
    ids=["before there were bounds", "before there were amounts", "with bounds"],
)  # fmt: skip
def test_a_stored_number_without_a_bound_is_a_lower_bound(
    measured: dict[str, Any], lost: tuple[int | None, Bound], doubled: tuple[int | None, Bound]
) -> None:
    of = codec.read(Measured, measured)
    assert ((of.lost, of.lost_bound), (of.doubled, of.doubled_bound)) == (lost, doubled)


@pytest.mark.parametrize(("again", "added", "rows"), [(True, 60, 60), (True, None, 0), (False, 60, 0)])
def test_a_proof_of_before_is_told_by_what_it_counted(again: bool, added: int | None, rows: int) -> None:
    """It said that every row is there once, and had counted the repeats."""
    one = {
        "code": "EVERY_ROW_ONCE",
        "ok": True,
        "expected": {"again": again},
        "measured": {"repeats_added": added},
    }
    stored = {"criteria": [one], "new_rows": 100, "table_rows": 160, "doubled": 0}
    found = headline(codec.read(Measured, stored))
    assert found.claim is (Claim.REPEATED if rows else Claim.ONCE)


def whole(**changes: Any) -> Measured:
    return proof(whole={**WHOLE, **changes})


@pytest.mark.parametrize(
    ("found", "codes"),
    [
        (proof(), []),
        (whole(), [FlowCode.AGREES]),
        (whole(gone=2), [FlowCode.AGREES, FlowCode.GONE]),
        (whole(others=2, cut=1), [FlowCode.AGREES, FlowCode.GONE]),
        (whole(gone=1, others=1, cut=1), [FlowCode.AGREES, FlowCode.GONE]),
        (whole(absent=1), [FlowCode.ABSENT]),
        (whole(doubled=2, beyond=1), [FlowCode.DOUBLED, FlowCode.BEYOND]),
        (whole(absent=2, gone=1), [FlowCode.ABSENT, FlowCode.GONE]),
        *[
            (whole(why=why), [FlowCode.NOT_COMPARED])
            for why in ("over-budget", "other-sources", "not-readable")
        ],
        (whole(why="not-compared", problem="It depends on its state."), [FlowCode.NOT_COMPARED]),
        (whole(why="not-compared"), [FlowCode.NOT_COMPARED]),
    ],
)
def test_the_whole_flow_is_told_by_what_was_found(found: Measured, codes: list[FlowCode]) -> None:
    told = whole_findings(found)
    assert [f.code for f in told] == codes
    assert all(f.says.endswith(".") for f in told)
