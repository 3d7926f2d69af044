"""rewind: where it makes sense, what it promises, and when that is exact."""

from dataclasses import replace
from typing import Any

import pytest

from recovery.checkpoints.report import Finding, Severity, StateOperator
from recovery.contracts import codec
from recovery.contracts.amounts import Bound
from recovery.contracts.option import Option
from recovery.contracts.steps import SeedArgs
from recovery.sinks.base import SinkReport
from recovery.sources.base import Distance
from recovery.strategies.base import CodeFacts, Counts, Facts, OutputMode
from recovery.strategies.catalogue import judge_all
from recovery.verification.criteria import REQUIRED
from tests.unit.strategies.facts import WITH, WITHOUT, checkpoint
from tests.unit.strategies.streams import KAFKA, of, source, start, stream
from tests.unit.strategies.test_sources_and_sinks import options

T = 1_795_000_000_000
APPEND = OutputMode.APPEND
SUM, SESSION = "stateStoreSave", "sessionWindowStateStoreSaveExec"
KEPT = Counts(table=10, waiting=4, reread=9, rehearsed=True, rehearsed_late=0)
HALF = checkpoint().findings


def going(operators: tuple[str, ...] = (SUM,), at: str = "0", **changes: Any) -> Facts:
    """The checkpoint holds windows, with a watermark; the new code sums up by other columns in the same windows."""
    base = stream(counts=changes.pop("counts", KEPT), output_mode=APPEND, state_mode=APPEND)
    code = CodeFacts({"/p/q.py": WITHOUT}, operators, sources=base.new_code.sources, windows="w-1")
    old = replace(code, files={"/p/q.py": WITH}, operators=(SUM,))
    report = replace(base.checkpoint, state_operators=(StateOperator(0, SUM, 2),), closed_ms=T)
    begun = start(at, reread=of(10 - int(at))) if int(at) < 10 else None
    told = replace(
        base,
        checkpoint=report,
        old_code=old,
        code=code,
        new_code=code,
        sources=(source("kafka", start=begun, facts=KAFKA, reach=None),),
    )
    return replace(told, **changes)


def judged(given: Facts) -> Option:
    return options(given)["rewind"]


def test_state_that_a_restart_cannot_load_is_built_again_by_the_same_code() -> None:
    lost = Finding("STATE_FILE_MISSING", Severity.BLOCKER, "state/0/0/2.delta is missing.", "Put it back.")
    unknown = going(old_code=None)
    damaged = replace(unknown, checkpoint=replace(unknown.checkpoint, findings=(lost,)))
    assert judged(unknown).blocker is not None
    assert judged(damaged).blocker is None
    assert "revert" not in str(options(damaged)["continue"].blocked)


def test_going_back_to_the_first_row_is_exact_where_it_was_rehearsed_without_a_late_row() -> None:
    option = judged(going())
    forecast = option.forecast
    assert option.blocked is None
    assert [(a.rows, a.exact) for a in (forecast.lost, forecast.doubled)] == [(0, True), (0, True)]
    assert (forecast.new_rows, forecast.table_after) == (4, 14)
    assert forecast.state == "Rebuilt: aggregation"
    assert {c.code for c in option.criteria} >= set(REQUIRED["rewind"]) | {"COUNTS_EQUAL_FORECAST"}
    assert "again" not in next(
        codec.to_json(c.expected) for c in option.criteria if c.code == "EVERY_ROW_ONCE"
    )


def test_the_seed_is_told_the_starts_the_watermark_and_that_state_is_to_be_made() -> None:
    option = judged(going())
    (args,) = (s.args_as(SeedArgs) for s in option.steps if s.kind == "seed")
    assert (args.state, args.watermark_ms, args.last_committed) == ("prime", T, 2)
    assert [s.offset_json for s in args.starts or ()] == ['{"orders":{"0":0}}']
    assert [s.kind for s in option.steps] == ["stop", "backup", "seed", "rerun", "verify"]
    begins = next(codec.to_json(c.expected) for c in option.criteria if c.code == "FIRST_BATCH_AT_POSITION")
    assert begins == {"batch": 3, "offsets": ['{"orders":{"0":0}}']}


def test_it_comes_after_revert_and_before_a_full_refresh() -> None:
    assert judged(going()).recommended
    assert [o.strategy for o in judge_all(going())].index("rewind") == 5


# what is not as it should be -> lost, doubled: rows and exact
NOT_EXACT: dict[str, tuple[dict[str, Any], tuple[int | None, bool], tuple[int | None, bool]]] = {
    "late rows": ({"counts": replace(KEPT, rehearsed_late=2)}, (None, False), (0, True)),
    "an estimate": ({"counts": replace(KEPT, rehearsed_why="one large batch")}, (0, False), (0, False)),
    "not rehearsed": ({"counts": Counts(table=10, waiting=4, reread=9)}, (0, False), (0, False)),
    "not from the first row": ({"at": "4"}, (None, False), (0, True)),
    "windows of another kind": ({"operators": (SESSION,)}, (0, True), (None, False)),
    "a deduplication": ({"operators": ("dedupe",)}, (0, True), (9, False)),
    "at-least-once": ({"sink": SinkReport("kafka", "t", None)}, (0, True), (0, False)),
}


@pytest.mark.parametrize(("changes", "lost", "doubled"), NOT_EXACT.values(), ids=NOT_EXACT.keys())
def test_what_nobody_counted_is_not_exact_and_not_recommended(
    changes: dict[str, Any], lost: tuple[int | None, bool], doubled: tuple[int | None, bool]
) -> None:
    option = judged(going(**changes))
    forecast = option.forecast
    assert option.blocked is None
    assert (forecast.lost.rows, forecast.lost.exact) == lost
    assert (forecast.doubled.rows, forecast.doubled.exact) == doubled
    assert not option.recommended
    codes = [f.code for f in option.findings]
    assert ("REWIND_NOT_EXACT" in codes) == (lost == (0, False))
    assert ("LATE_ROWS_LOST" in codes) == bool(changes.get("counts", KEPT).rehearsed_late)


COUNTED = Counts(table=10, waiting=9, reread=6, rehearsed=True, rehearsed_late=0)


@pytest.mark.parametrize(
    ("at", "counts", "doubled"),
    [
        ("0", COUNTED, (6, Bound.AT_MOST)),
        ("4", COUNTED, (9, Bound.AT_MOST)),
        ("4", replace(COUNTED, rehearsed=False), (9, Bound.AT_MOST)),
        ("4", replace(COUNTED, waiting=None), (None, Bound.UNKNOWN)),
    ],
    ids=["from the first row on", "from later on", "counted in batch", "not counted"],
)
def test_rows_that_wait_may_repeat_one_from_before_the_start_too(
    at: str, counts: Counts, doubled: tuple[int | None, Bound]
) -> None:
    """A dropDuplicates knows only the keys that are read again: of an earlier one the next repeat passes."""
    found = judged(going(("dedupe",), at=at, counts=counts)).forecast.doubled
    assert (found.rows, found.bound) == doubled


# what is known of windows and modes -> rows doubled, and how sure that is
OPEN: dict[str, tuple[dict[str, Any], tuple[int | None, Bound]]] = {
    "updated before": ({"state_mode": OutputMode.UPDATE}, (None, Bound.UNKNOWN)),
    "a mode before that is not known": ({"state_mode": None}, (None, Bound.UNKNOWN)),
    "updated now": ({"output_mode": OutputMode.UPDATE}, (None, Bound.UNKNOWN)),
    "complete": ({"output_mode": OutputMode.COMPLETE, "state_mode": OutputMode.COMPLETE}, (None, Bound.UNKNOWN)),
    "cut otherwise": (
        {"old_code": replace(going().new_code, files={"/p/q.py": WITH}, windows="w-2")}, (None, Bound.UNKNOWN)
    ),
    "a code before that tells none": (
        {"old_code": replace(going().new_code, files={"/p/q.py": WITH}, windows="")}, (0, Bound.ESTIMATE)
    ),
    "a join": ({"operators": ("symmetricHashJoin",)}, (None, Bound.UNKNOWN)),
    "a deduplication, counted": ({"operators": ("dedupe",)}, (9, Bound.AT_MOST)),
    "a deduplication, not counted": (
        {"operators": ("dedupe",), "counts": replace(KEPT, reread=None)}, (10, Bound.ESTIMATE)
    ),
    "code of their own": ({"operators": ("flatMapGroupsWithState",)}, (None, Bound.UNKNOWN)),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "doubled"), OPEN.values(), ids=OPEN.keys())
def test_windows_that_may_be_in_the_table_before_they_are_closed_are_no_promise(
    changes: dict[str, Any], doubled: tuple[int | None, Bound]
) -> None:
    amount = judged(going(**changes)).forecast.doubled
    assert (amount.rows, amount.bound) == doubled


@pytest.mark.parametrize("mode", [OutputMode.UPDATE, None])
def test_windows_that_were_written_open_are_written_again_and_the_proof_is_told(
    mode: OutputMode | None,
) -> None:
    option = judged(going(state_mode=mode))
    assert next(c.expected for c in option.criteria if c.code == "EVERY_ROW_ONCE").again is True


def test_code_without_a_watermark_drops_no_row_as_late_and_needs_no_rehearsal_for_that() -> None:
    counted = Counts(table=10, waiting=4, reread=9)
    lost = judged(going(operators=("dedupe",), counts=counted)).forecast.lost
    assert (lost.rows, lost.exact) == (0, True)
    assert judged(going(operators=("dedupeWithinWatermark",), counts=counted)).forecast.lost.possible


def test_rows_are_not_forecast_without_a_rehearsal() -> None:
    option = judged(going(counts=Counts(table=10, waiting=4, reread=9)))
    assert option.forecast.new_rows is None
    assert "COUNTS_EQUAL_FORECAST" not in {c.code for c in option.criteria}


def test_an_aggregation_by_other_columns_has_the_same_name_and_is_built_anew() -> None:
    """The edit that adds a column to `groupBy`: Spark names the step as before, and its state does not fit."""
    counted = CodeFacts({"/p/q.py": "groupBy('page')"}, (SUM,))
    assert judged(going(operators=(SUM,), old_code=counted)).blocked is None


def test_what_retention_took_from_the_beginning_is_not_forgotten() -> None:
    low = replace(KAFKA.topics["orders"].partitions[0], low=3)
    cut = replace(KAFKA, topics={"orders": replace(KAFKA.topics["orders"], partitions={0: low})})
    told = source("kafka", start=start("3", reread=of(7)), facts=cut, reach=None)
    assert judged(going(sources=(told,))).forecast.lost.rows is None


PLAIN = CodeFacts({"/p/q.py": WITHOUT}, (), sources=stream().new_code.sources)
BLOCKED: dict[str, tuple[dict[str, Any], str]] = {
    "stateless": ({"new_code": PLAIN}, "choose continue"),
    "the same code": (
        {"operators": (SUM,), "old_code": CodeFacts({"/p/q.py": WITHOUT}, (SUM,))},
        "choose revert",
    ),
    "the same steps, old code not known": ({"operators": (SUM,), "old_code": None}, "choose revert"),
    "nothing chosen": ({"at": "10"}, "Choose how far to go back first: every row of the windows after"),
    "deduplication, nothing chosen": ({"at": "10", "operators": ("dedupe",)}, "behind the state"),
    "code not read": ({"new_code": CodeFacts({}, None, "line 3")}, "line 3"),
    "running": ({"active_update": "u-9"}, "stop the pipeline first"),
    "no watermark": (
        {"checkpoint": replace(going().checkpoint, closed_ms=0)},
        "no watermark",
    ),
    "gone": (
        {"sources": (source("kafka", start=None, facts=None, reach=None, problem="Down."),)},
        "Choose how far",
    ),
    "table ahead": ({"sink": SinkReport("files", "/w", 5)}, "disagree"),
}


@pytest.mark.parametrize(("changes", "words"), BLOCKED.values(), ids=BLOCKED.keys())
def test_rewind_that_makes_no_sense_says_what_to_take(changes: dict[str, Any], words: str) -> None:
    option = judged(going(**changes))
    assert words in (option.blocked or "")
    assert not option.recommended


@pytest.mark.parametrize("operators", [(SUM,), ("dedupe",)], ids=["windows", "dedupe"])
def test_before_a_start_is_chosen_no_number_is_known(operators: tuple[str, ...]) -> None:
    forecast = judged(going(operators, at="10")).forecast
    amounts = (forecast.lost, forecast.doubled, forecast.reread)
    assert {(amount.rows, amount.bound) for amount in amounts} == {(None, Bound.UNKNOWN)}


def test_a_batch_that_only_the_table_has_finished_has_to_be_finished_first() -> None:
    from tests.unit.strategies.test_side_by_side import half_done

    half = half_done()
    held = {"orders": {"0": 12}}
    report = replace(
        going().checkpoint,
        findings=half.findings,
        last_planned=3,
        batches=({"batch": 3, "planned": True, "committed": False, "offsets": [str(held)]},),
    )
    assert "let it finish that batch" in (judged(going(checkpoint=report)).blocked or "")


def test_going_back_is_no_warning_where_it_is_what_was_asked_for() -> None:
    found = next(f for f in judged(going()).findings if f.code == "START_REPEATS")
    assert (found.severity.value, "what going back means" in found.do) == ("info", True)


def test_unknown_amounts_read_again_are_never_a_promise() -> None:
    told = source("kafka", start=start("6", reread=Distance()), facts=KAFKA, reach=None)
    given = going(operators=("dedupe",), sources=(told,), counts=replace(KEPT, reread=None))
    doubled = judged(given).forecast.doubled
    assert (doubled.rows, doubled.exact) == (None, False)
