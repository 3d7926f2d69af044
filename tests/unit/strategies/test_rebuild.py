"""rebuild: what can be replayed, what it promises, and why it is refused."""

from dataclasses import replace
from typing import Any

import pytest

from recovery.checkpoints.held import HeldState
from recovery.checkpoints.report import Finding, Severity, StateOperator
from recovery.contracts.amounts import Bound
from recovery.contracts.diagnosis import Advice, Diagnosis
from recovery.contracts.names import ChangeIntent
from recovery.contracts.option import BlockerCode, Option
from recovery.contracts.readers import SourceReader
from recovery.contracts.steps import SeedArgs
from recovery.plans.accepted import costs_of
from recovery.sinks.base import SinkReport
from recovery.sources.replaying import GapCode, ProcessedInput, ReplayGap
from recovery.strategies.base import CodeFacts, Counts, Facts, GroupRows, OutputMode
from recovery.strategies.catalogue import judge_all
from recovery.strategies.recommending import recommended_strategy
from recovery.verification.criteria import REQUIRED
from tests.unit.strategies.facts import WITH, WITHOUT, checkpoint, facts
from tests.unit.strategies.streams import start
from tests.unit.strategies.test_side_by_side import half_done

T = 1_795_000_000_000
SUM, JOIN = "stateStoreSave", "symmetricHashJoin"
KEPT = Counts(table=12, processed=13, waiting=8, everything=20, rebuilt=7)
WHOLE = ProcessedInput(files=("a", "b", "c", "d"), size=400)


def code(*operators: str, **changes: Any) -> CodeFacts:
    values = {"key": ("region",), "varies": (), "watermarked": False, "windows": "w", **changes}
    return CodeFacts({"/p/q.py": WITHOUT}, operators, sources=(SourceReader(path="/in"),), **values)


def changed(*operators: str, held: tuple[str, ...] = ("dedupe",), **changes: Any) -> Facts:
    """The key of the dropDuplicates was changed; all that was processed is there."""
    new = changes.pop("new", code(*(operators or ("dedupe",))))
    report = checkpoint(
        last_planned=2,
        state_operators=tuple(StateOperator(n, name, 2) for n, name in enumerate(held)),
        closed_ms=changes.pop("closed_ms", None),
        conf=changes.pop("conf", {}),
    )
    old = CodeFacts(
        {"/p/q.py": WITH}, held, sources=(SourceReader(path="/in"),), windows=changes.pop("old_windows", "w")
    )
    told = facts(
        checkpoint=report, code=new, new_code=new, old_code=old, counts=KEPT, output_mode=OutputMode.APPEND
    )
    return replace(told, **{"processed": WHOLE, **changes})


def judged(given: Facts) -> Option:
    return next(o for o in judge_all(given) if o.strategy == "rebuild")


def test_nothing_is_lost_or_doubled_and_the_state_is_that_of_a_replay() -> None:
    option = judged(changed())
    forecast = option.forecast
    assert option.blocked is None
    assert [(a.rows, a.exact) for a in (forecast.lost, forecast.doubled)] == [(0, True), (0, True)]
    assert (forecast.new_rows, forecast.table_after, costs_of(forecast)) == (7, 19, ())
    assert forecast.state == "Rebuilt: dropDuplicates"
    assert {c.code for c in option.criteria} >= set(REQUIRED["rebuild"]) | {
        "COUNTS_EQUAL_FORECAST",
        "NO_KEY_TWICE",
    }
    (args,) = (s.args_as(SeedArgs) for s in option.steps if s.kind == "seed")
    assert (args.state, args.watermark_ms, args.last_committed) == ("rebuild", None, 2)
    assert [s.kind for s in option.steps] == ["stop", "backup", "seed", "rerun", "verify"]


# what the code or the checkpoint is -> why no replay builds its state
NOT_REPEATABLE: dict[str, tuple[Facts, str]] = {
    "no state": (changed(new=code()), "code_keeps_no_state"),
    "the old code": (changed(old_code=None), "code_keeps_same_state"),
    "a function of people's own": (changed(new=code("dedupe", varies=("rand",))), "replay_differs"),
    "not known what it computes": (changed(new=code("dedupe", varies=None)), "replay_differs"),
    "update mode": (changed(output_mode=OutputMode.UPDATE), "replay_mode_unknown"),
    "within a watermark": (changed("dedupeWithinWatermark"), "replay_order_matters"),
    "sessions": (changed("sessionWindowStateStoreSaveExec"), "replay_order_matters"),
    "its own state": (changed("transformWithStateInPySparkExec"), "replay_order_matters"),
    "a step after another": (changed(SUM, "dedupe"), "replay_order_matters"),
    "a join behind a watermark": (changed(new=code(JOIN, watermarked=True)), "replay_order_matters"),
    "windows without a watermark": (changed(SUM, held=(SUM,)), "no_watermark"),
    "windows that are new": (changed(SUM, closed_ms=T), "no_watermark"),
    "files that are gone": (
        changed(processed=ProcessedInput(gaps=(ReplayGap(0, GapCode.GONE, "…"),))),
        "replay_input_gone",
    ),
    "files written again": (
        changed(processed=ProcessedInput(gaps=(ReplayGap(0, GapCode.CHANGED, "…"),))),
        "replay_input_changed",
    ),
    "another kind of source": (
        changed(processed=ProcessedInput(gaps=(ReplayGap(0, GapCode.UNKNOWN, "…"),))),
        "replay_input_unknown",
    ),
    "nobody looked": (changed(processed=None), "replay_input_unknown"),
    "rows were skipped before": (changed(skipped_before=True), "replay_input_unknown"),
    "sources with names": (
        changed(conf={"spark.sql.streaming.queryEvolution.enableSourceEvolution": "true"}),
        "replay_input_unknown",
    ),
    "a plain program": (changed(is_plain=True), "replay_of_program"),
    "no place for it": (changed(scratch=False), "no_scratch_place"),
}


@pytest.mark.parametrize(("given", "blocker"), NOT_REPEATABLE.values(), ids=NOT_REPEATABLE.keys())
def test_what_a_replay_could_not_build_is_refused(given: Facts, blocker: str) -> None:
    option = judged(given)
    assert option.blocker is not None
    assert option.blocker.code == blocker
    assert not option.recommended


@pytest.mark.parametrize("operators", [("dedupe",), (JOIN,), (JOIN, JOIN), ("globalLimit",)])
def test_steps_that_no_batch_border_changes_are_rebuilt(operators: tuple[str, ...]) -> None:
    assert judged(changed(*operators)).blocked is None


def test_a_start_that_was_chosen_is_not_thrown_away_in_silence() -> None:
    moved = replace(facts().sources[0], start=start("0"))
    option = judged(changed(sources=(moved,)))
    assert option.blocker is not None
    assert option.blocker.code == "start_not_taken"


# the windows of old and new code -> rows doubled, and how sure that is
WINDOWS: dict[str, tuple[str, str, tuple[int | None, Bound]]] = {
    "cut as before": ("w", "w", (0, Bound.EXACT)),
    "cut otherwise": ("w", "v", (None, Bound.UNKNOWN)),
    "not known": ("", "", (0, Bound.ESTIMATE)),
}


@pytest.mark.parametrize(("old", "new", "doubled"), WINDOWS.values(), ids=WINDOWS.keys())
def test_windows_that_are_cut_otherwise_may_count_rows_that_the_table_has(
    old: str, new: str, doubled: tuple[int | None, Bound]
) -> None:
    given = changed(new=code(SUM, windows=new, watermarked=True), held=(SUM,), closed_ms=T, old_windows=old)
    option = judged(given)
    amount = option.forecast.doubled
    assert option.blocked is None
    assert (amount.rows, amount.bound) == doubled
    assert bool(costs_of(option.forecast)) is (amount.bound is not Bound.EXACT)
    assert ("SAME_WINDOWS" in {f.code for f in option.findings}) is (amount.bound is not Bound.EXACT)


ONE = {"groups": GroupRows.ONE, "windows": "w"}
# old steps, new ones, entries of the old state, the windows of the new code -> rows lost, and how sure that is
UNWRITTEN: dict[str, tuple[tuple[str, ...], tuple[str, ...], int, str, tuple[int | None, Bound]]] = {
    "windows that are open, and no windows any more": ((SUM,), ("dedupe",), 3, "", (3, Bound.EXACT)),
    "no window was open": ((SUM,), ("dedupe",), 0, "", (0, Bound.EXACT)),
    "windows that are cut as before": ((SUM,), (SUM,), 3, "w", (0, Bound.EXACT)),
    "windows that are cut otherwise": ((SUM,), (SUM,), 3, "v", (None, Bound.UNKNOWN)),
    "of no known cut": ((SUM,), (SUM,), 3, "", (None, Bound.UNKNOWN)),
    "cut otherwise, and none was open": ((SUM,), (SUM,), 0, "v", (0, Bound.EXACT)),
    "a join that waits for matches": ((JOIN,), ("dedupe",), 3, "", (None, Bound.UNKNOWN)),
    "a join whose rows are joined anew": ((JOIN,), (JOIN,), 3, "", (0, Bound.EXACT)),
    "keys, whose rows are written": (("dedupe",), (SUM,), 3, "", (0, Bound.EXACT)),
}


@pytest.mark.parametrize(
    ("held", "new", "entries", "windows", "lost"), UNWRITTEN.values(), ids=UNWRITTEN.keys()
)
def test_rows_that_only_the_old_state_holds_are_lost_where_a_replay_does_not_put_them_into_the_new_one(
    held: tuple[str, ...], new: tuple[str, ...], entries: int, windows: str, lost: tuple[int | None, Bound]
) -> None:
    given = changed(*new, held=held, closed_ms=T, new=code(*new, windows=windows))
    old = CodeFacts({"/p/q.py": WITH}, held, sources=(SourceReader(path="/in"),), **ONE)
    state = tuple(HeldState(n, name, 3, entries) for n, name in enumerate(held))
    found = judged(replace(given, old_code=old, held=state, state_mode=OutputMode.APPEND))
    assert (found.forecast.lost.rows, found.forecast.lost.bound) == lost
    assert ("STATE_HOLDS_ROWS" in {f.code for f in found.findings}) is (lost != (0, Bound.EXACT))


def test_what_older_rows_may_hold_is_said_and_a_count_that_failed_too() -> None:
    uncounted = judged(changed(counts=replace(KEPT, rebuilt=None)))
    codes = {f.code for f in uncounted.findings}
    assert codes >= {"OLDER_ROWS_STAY", "STATE_REPLAYED", "REBUILD_NOT_COUNTED"}
    assert uncounted.forecast.new_rows is None
    assert "COUNTS_EQUAL_FORECAST" not in {c.code for c in uncounted.criteria}
    assert "REBUILD_NOT_COUNTED" not in {f.code for f in judged(changed()).findings}


def test_the_cost_of_the_replay_is_told_before() -> None:
    assert "4 files (400 bytes)" in judged(changed()).forecast.reread.why


def test_a_sink_that_is_at_least_once_promises_nothing() -> None:
    option = judged(changed(sink=SinkReport("kafka", "t", None)))
    assert not option.forecast.doubled.exact


ADVICE = Diagnosis(
    advice=(
        Advice("…", "revert", ChangeIntent.NO, undoable=True),
        Advice("…", "rebuild", ChangeIntent.YES, undoable=True),
        Advice("…", "rewind", ChangeIntent.YES, undoable=True),
    )
)


@pytest.mark.parametrize(
    ("given", "meant", "strategy"),
    [
        (changed(), ChangeIntent.YES, "rebuild"),
        (changed(), ChangeIntent.NO, "revert"),
        (changed(), None, ""),
        (changed(processed=None), ChangeIntent.YES, ""),
        (changed(scratch=False), ChangeIntent.YES, ""),
    ],
)
def test_it_is_what_a_change_that_was_meant_is_recommended_where_it_can_run(
    given: Facts, meant: ChangeIntent | None, strategy: str
) -> None:
    assert recommended_strategy(judge_all(given), ADVICE, meant) == strategy


@pytest.mark.parametrize(
    ("operators", "drops", "bound"),
    [
        ((JOIN,), True, Bound.AT_LEAST),
        (("globalLimit",), True, Bound.AT_LEAST),
        ((JOIN,), False, Bound.EXACT),
        ((SUM,), True, Bound.EXACT),
    ],
    ids=[
        "a join",
        "a limit",
        "a join that had no dropDuplicates before it",
        "windows, which have a row a group",
    ],
)
@pytest.mark.parametrize("strategy", ["rebuild", "prime"])
def test_rows_that_repeats_make_are_not_counted_where_a_dropduplicates_before_the_step_goes(
    strategy: str, operators: tuple[str, ...], drops: bool, bound: Bound
) -> None:
    given = changed(*operators, held=("dedupe", *operators), closed_ms=T, drops_dedupe=drops)
    given = replace(
        given, old_code=replace(given.new_code, files={"/p/q.py": WITH}), state_mode=OutputMode.APPEND
    )
    doubled = next(o for o in judge_all(given) if o.strategy == strategy).forecast.doubled
    if strategy == "prime" and operators == ("globalLimit",):
        assert (doubled.rows, doubled.bound) == (None, Bound.UNKNOWN)
    else:
        assert (doubled.rows, doubled.bound) == (0, bound)


def test_state_that_a_restart_cannot_load_is_built_again_under_the_same_code() -> None:
    given = changed()
    lost = Finding("STATE_FILE_MISSING", Severity.BLOCKER, "state/0/0/2.delta is missing.", "Put it back.")
    report = replace(given.checkpoint, findings=(lost,))
    assert judged(replace(given, checkpoint=report, old_code=given.new_code)).blocker is None


@pytest.mark.parametrize(("damage", "is_revert_named"), [((), True), (("STATE_FILE_MISSING",), False)])
def test_no_way_names_revert_for_a_batch_whose_state_cannot_be_loaded(
    damage: tuple[str, ...], is_revert_named: bool
) -> None:
    given = changed()
    half = half_done()
    lost = tuple(Finding(code, Severity.BLOCKER, "It is missing.", "Put it back.") for code in damage)
    report = replace(half, findings=(*half.findings, *lost))
    found = {o.strategy: o for o in judge_all(replace(given, checkpoint=report, scratch="/s"))}
    for strategy in ("rebuild", "prime", "rewind"):
        blocker = found[strategy].blocker
        assert blocker is not None
        assert blocker.code is BlockerCode.BATCH_UNSETTLED
        assert ("revert" in blocker.says) == is_revert_named
