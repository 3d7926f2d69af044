"""What a plan does to each dataset downstream of the flow's table, and whether it refreshes it."""

from dataclasses import replace
from typing import Any

import pytest

from recovery.contracts import codec
from recovery.contracts.amounts import Bound, RowAmount
from recovery.contracts.forecast import Downstream, DownstreamEffect, DownstreamReason, Forecast
from recovery.contracts.option import Option
from recovery.contracts.steps import UpdateArgs
from recovery.strategies.catalogue import judge_all
from recovery.strategies.continue_ import judge
from recovery.strategies.downstream import AGREES, with_downstream
from recovery.strategies.readers import DownstreamReader
from tests.unit.strategies.facts import facts

VIEW = DownstreamReader("c.s.view", "c.s.view", view=True)
COPY = DownstreamReader("c.s.copy", "c.s.copy_flow", view=False)


def option(
    reader: DownstreamReader,
    *,
    strategy: str = "continue",
    doubled: RowAmount | None = None,
    lost: RowAmount | None = None,
    **changes: Any,
) -> Option:
    known = facts(readers=(reader,), **changes)
    judged = judge(known).model_copy(update={"strategy": strategy})
    amounts = {"doubled": doubled, "lost": lost}
    forecast = judged.forecast.model_copy(update={name: of for name, of in amounts.items() if of is not None})
    judged = judged.model_copy(update={"forecast": forecast})
    return with_downstream(known, judged)


def amount(rows: int | None, bound: Bound = Bound.EXACT) -> RowAmount:
    return RowAmount(rows=rows, bound=bound)


TWICE, AT_MOST, NONE, ABOUT_NONE, UNKNOWN = (
    amount(60),
    amount(60, Bound.AT_MOST),
    amount(0),
    amount(0, Bound.ESTIMATE),
    amount(None),
)


@pytest.mark.parametrize(
    ("reader", "changes", "effect", "rows", "reason"),
    [
        pytest.param(VIEW, {}, "refreshed", None, None, id="a view"),
        pytest.param(VIEW, {"doubled": TWICE}, "refreshed", None, None, id="a view shows repeats, once"),
        pytest.param(COPY, {"doubled": NONE}, "refreshed", 8, None, id="a table reads the new rows"),
        pytest.param(COPY, {"doubled": TWICE}, "doubled", 60, "repeats", id="a table reads repeats"),
        pytest.param(COPY, {"doubled": AT_MOST}, "doubled", 60, "repeats", id="or may"),
        pytest.param(COPY, {"doubled": UNKNOWN}, "unknown", None, "rows_unknown", id="nobody knows how many"),
        pytest.param(COPY, {"doubled": ABOUT_NONE}, "unknown", None, "rows_unknown", id="nor whether"),
        pytest.param(
            COPY, {"strategy": "full-refresh"}, "unknown", None, "table_anew", id="what it reads is emptied"
        ),
        pytest.param(VIEW, {"strategy": "full-refresh"}, "refreshed", None, None, id="a view does not mind"),
        pytest.param(VIEW, {"refresh_below": False}, "stale", 8, "left_out", id="left out"),
        pytest.param(
            replace(VIEW, emptied=True), {"refresh_below": False}, "emptied", None, "left_out", id="left empty"
        ),
        pytest.param(
            COPY, {"refresh_below": False, "doubled": TWICE}, "doubled", 60, "repeats", id="left out and doubled"
        ),
        pytest.param(replace(VIEW, pipeline="sales"), {}, "stale", 8, "elsewhere", id="of another pipeline"),
        pytest.param(
            replace(COPY, pipeline="sales"), {"doubled": TWICE}, "doubled", 60, "repeats", id="doubled there"
        ),
        pytest.param(replace(COPY, state="failed"), {"doubled": NONE}, "stale", 8, "failing", id="it fails itself"),
        pytest.param(replace(VIEW, state="unknown"), {}, "unknown", None, "not_seen", id="never seen"),
    ],
)  # fmt: skip
def test_what_becomes_of_a_dataset_downstream(
    reader: DownstreamReader, changes: dict[str, Any], effect: str, rows: int | None, reason: str | None
) -> None:
    found = option(reader, **changes)

    (told,) = found.forecast.downstream
    assert (told.dataset, told.effect, told.rows, told.reason) == (
        reader.dataset,
        effect,
        rows,
        reason,
    )
    refreshed = effect == "refreshed"
    assert [s.kind for s in found.steps].count("refresh") == refreshed
    assert [c.code for c in found.criteria].count(AGREES) == refreshed
    assert [d.dataset for d in found.forecast.left_behind] == ([] if refreshed else [reader.dataset])


TABLE = facts().dataset
ABOVE = replace(COPY, inputs=(TABLE,))


@pytest.mark.parametrize(
    ("reader", "changes", "lost", "fewer"),
    [
        pytest.param(replace(VIEW, inputs=(TABLE,)), {}, amount(3), (3, "exact"), id="a view computes over the rest"),
        pytest.param(ABOVE, {}, amount(3, Bound.AT_MOST), (3, "at most"), id="a table never reads them"),
        pytest.param(ABOVE, {"refresh_below": False}, amount(3), (3, "exact"), id="left out, now or later"),
        pytest.param(ABOVE, {}, amount(None), (None, "unknown"), id="how many are lost is not known"),
        pytest.param(ABOVE, {}, amount(0), None, id="nothing is lost"),
        pytest.param(ABOVE, {}, amount(0, Bound.ESTIMATE), (0, "estimate"), id="whether any are is not known"),
        pytest.param(
            replace(VIEW, inputs=("c.s.other",)), {}, amount(3), (None, "unknown"), id="it reads them through another"
        ),
        pytest.param(
            ABOVE, {"strategy": "full-refresh"}, amount(3), (None, "unknown"), id="it may have read them before"
        ),
    ],
)  # fmt: skip
def test_a_loss_is_carried_to_what_is_below(
    reader: DownstreamReader, changes: dict[str, Any], lost: RowAmount, fewer: tuple[int | None, str] | None
) -> None:
    (below,) = option(reader, lost=lost, doubled=NONE, **changes).forecast.downstream
    carried = below.fewer and (below.fewer.rows, below.fewer.bound.value)
    assert carried == fewer
    assert ("fewer" in codec.to_json(below)) == (fewer is not None)
    assert codec.read(Downstream, codec.to_json(below)) == below


BEHIND_COPY = replace(VIEW, inputs=(COPY.dataset,))
BEHIND_THAT = DownstreamReader("c.s.last", "c.s.last", view=True, inputs=(VIEW.dataset,))


@pytest.mark.parametrize(
    ("copy", "view", "doubled", "effects"),
    [
        pytest.param(COPY, BEHIND_COPY, NONE, ["refreshed", "refreshed", "refreshed"], id="all are refreshed"),
        pytest.param(COPY, BEHIND_COPY, TWICE, ["doubled", "stale", "stale"], id="rows reach the table twice"),
        pytest.param(COPY, BEHIND_COPY, UNKNOWN, ["unknown", "stale", "stale"], id="whether is not known"),
        pytest.param(
            replace(COPY, state="failed"), BEHIND_COPY, NONE, ["stale", "stale", "stale"], id="the table fails"
        ),
        pytest.param(
            COPY, replace(BEHIND_COPY, emptied=True), TWICE, ["doubled", "emptied", "stale"], id="a view is empty"
        ),
        pytest.param(
            COPY,
            replace(VIEW, inputs=("c.s.table",)),
            TWICE,
            ["doubled", "refreshed", "refreshed"],
            id="a view beside the table",
        ),
    ],
)  # fmt: skip
def test_what_reads_a_dataset_that_is_not_refreshed_is_not_refreshed(
    copy: DownstreamReader, view: DownstreamReader, doubled: RowAmount, effects: list[str]
) -> None:
    known = facts(readers=(copy, view, BEHIND_THAT))
    judged = judge(known)
    forecast = judged.forecast.model_copy(update={"doubled": doubled})
    judged = judged.model_copy(update={"forecast": forecast})

    found = with_downstream(known, judged)

    below = found.forecast.downstream
    assert [d.effect.value for d in below] == effects
    behind = [d.reason for d in below[1:] if d.effect is not DownstreamEffect.REFRESHED]
    assert set(behind) <= {DownstreamReason.OF_BEHIND}
    refreshed = [d.dataset for d in below if d.effect is DownstreamEffect.REFRESHED]
    criteria = [codec.to_json(c.expected)["datasets"] for c in found.criteria if c.code == AGREES]
    assert criteria == ([refreshed] if refreshed else [])


def test_the_refresh_comes_after_the_rerun_and_before_the_proof() -> None:
    found = option(VIEW)
    kinds = [s.kind for s in found.steps]
    assert kinds[-3:] == ["rerun", "refresh", "verify"]
    assert found.steps[-2].args == UpdateArgs(refresh=(VIEW.dataset,), flows=(VIEW.flow,))


def test_every_dataset_that_is_refreshed_is_compared() -> None:
    known = facts(readers=(VIEW, COPY))
    found = with_downstream(known, judge(known))
    names = ["c.s.view", "c.s.copy"]
    assert codec.to_json(found.criteria[-1].expected) == {"datasets": names, "compared": names}


def test_what_also_reads_a_stale_dataset_beside_is_refreshed_and_stays_stale() -> None:
    both = replace(VIEW, inputs=("c.s.table", "c.s.other"), late_inputs=("c.s.other",))
    top = replace(VIEW, dataset="c.s.top", flow="c.s.top", inputs=("c.s.view",))
    known = facts(readers=(both, top))
    found = with_downstream(known, judge(known))
    told = [(d.effect, d.reason) for d in found.forecast.downstream]
    assert told == [(DownstreamEffect.STALE, DownstreamReason.READS_STALE)] * 2
    assert found.steps[-2].args_as(UpdateArgs).refresh == ("c.s.view", "c.s.top")
    assert [d.dataset for d in found.forecast.left_behind] == ["c.s.view", "c.s.top"]


def test_without_anything_below_no_strategy_has_a_step_for_it() -> None:
    for one in judge_all(facts()):
        assert one.forecast.downstream == ()
        assert "refresh" not in [s.kind for s in one.steps]


def test_every_strategy_that_runs_an_update_refreshes_what_is_below() -> None:
    for one in judge_all(facts(readers=(VIEW,))):
        proven = any(s.kind == "verify" for s in one.steps)
        assert [s.kind for s in one.steps].count("refresh") == proven, one.strategy


def test_a_forecast_is_read_back_as_it_was_sealed_and_one_of_before_has_nothing_below() -> None:
    found = option(COPY, doubled=TWICE).forecast
    stored = codec.to_json(found)
    assert codec.read(Forecast, stored) == found
    assert found.downstream[0].effect is DownstreamEffect.DOUBLED
    del stored["downstream"]
    assert codec.read(Forecast, stored).downstream == ()
    assert codec.to_read_json(codec.read(Forecast, stored)) == stored
