"""prime: where it makes sense, what empty state costs by the kind of step, and when a number is exact."""

from dataclasses import replace
from typing import Any

import pytest

from recovery.checkpoints.held import HeldState
from recovery.checkpoints.report import Finding, Severity, StateOperator
from recovery.contracts import codec
from recovery.contracts.amounts import Bound, RowAmount
from recovery.contracts.names import ChangeIntent
from recovery.contracts.option import BlockerCode, Option, SettledBy
from recovery.contracts.steps import SeedArgs
from recovery.sinks.base import SinkReport
from recovery.sources.replaying import ProcessedInput
from recovery.strategies import common
from recovery.strategies.base import CodeFacts, Counts, Facts, GroupRows, KeyKind, OutputMode
from recovery.strategies.catalogue import judge_all
from recovery.strategies.deciding import decide
from recovery.verification.criteria import REQUIRED
from tests.unit.strategies.facts import WITH, WITHOUT
from tests.unit.strategies.streams import KAFKA, of, options, source, start, stream

T = 1_795_000_000_000
SUM, SESSION, JOIN, OWN = (
    "stateStoreSave",
    "sessionWindowStateStoreSaveExec",
    "symmetricHashJoin",
    "flatMapGroupsWithState",
)
COUNTED = Counts(table=10, processed=10, waiting=5, everything=13, repeats_waiting=2, fresh_waiting=3)
REHEARSED = Counts(table=10, waiting=4, rehearsed=True, rehearsed_late=0)
KEYED = {"key": ("id",), "key_kind": KeyKind.CODE}


def added(operators: tuple[str, ...] = ("dedupe",), **changes: Any) -> Facts:
    """The old code kept no state; the new one has `operators`, of which the checkpoint holds nothing."""
    base = stream()
    code = CodeFacts(
        {"/p/q.py": WITH}, operators, sources=base.new_code.sources, **changes.pop("code", KEYED)
    )
    old = CodeFacts({"/p/q.py": WITHOUT}, (), sources=base.new_code.sources)
    made = replace(
        base,
        checkpoint=replace(base.checkpoint, state_operators=(), closed_ms=0),
        old_code=old,
        code=code,
        new_code=code,
        counts=COUNTED if operators == ("dedupe",) else REHEARSED,
        output_mode=OutputMode.APPEND,
        state_mode=OutputMode.APPEND,
    )
    return replace(made, **changes)


def recounted(groups: int = 3, **changes: Any) -> Facts:
    """Windows as before, counted by another column; so many groups are open in the old state."""
    windows = {"windows": "w", "groups": GroupRows.ONE}
    base = added((SUM,), code=windows)
    old = replace(base.new_code, files={"/p/q.py": WITHOUT})
    report = replace(base.checkpoint, state_operators=(StateOperator(0, SUM, 2),), closed_ms=T)
    made = replace(base, checkpoint=report, old_code=old, held=(HeldState(0, SUM, 3, groups),))
    return replace(made, **changes)


def judged(given: Facts) -> Option:
    return options(given)["prime"]


def amounts(given: Facts) -> tuple[tuple[int | None, Bound], tuple[int | None, Bound]]:
    forecast = judged(given).forecast
    return (forecast.lost.rows, forecast.lost.bound), (forecast.doubled.rows, forecast.doubled.bound)


def recommended(given: Facts) -> str:
    """Where the change was meant."""
    return decide(judge_all(given), ChangeIntent.YES).strategy


NOTHING = (0, Bound.EXACT)
UNKNOWN = (None, Bound.UNKNOWN)


def test_drop_duplicates_that_begins_empty_lets_just_those_rows_pass_whose_key_the_table_has() -> None:
    option = judged(added())
    assert option.blocked is None
    assert amounts(added()) == (NOTHING, (2, Bound.EXACT))
    forecast = option.forecast
    assert (forecast.reread.rows, forecast.new_rows, forecast.table_after) == (0, 5, 15)
    assert not option.recommended
    expected = {c.code: codec.to_json(c.expected) for c in option.criteria}
    assert expected.keys() >= set(REQUIRED["prime"])
    assert expected["NO_KEY_TWICE"]["accepted"] == {"rows": 2, "bound": "exact"}
    assert expected["COUNTS_EQUAL_FORECAST"] == {"new_rows": 5}
    assert expected["EACH_FILE_ONCE"]["scope"] == "both"


def test_the_seed_keeps_the_position_and_is_told_that_state_is_to_be_made() -> None:
    option = judged(added())
    assert [s.kind for s in option.steps] == ["stop", "backup", "seed", "rerun", "verify"]
    args = next(s.args for s in option.steps if s.kind == "seed")
    assert args == SeedArgs(last_committed=2, from_version=0, state="prime", watermark_ms=0)
    begins = next(codec.to_json(c.expected) for c in option.criteria if c.code == "FIRST_BATCH_AT_POSITION")
    assert begins == {"batch": 3, "offsets": ['{"orders":{"0":10}}']}


def test_without_a_row_that_repeats_it_is_recommended_only_where_no_replay_can_be_made() -> None:
    fresh = added(counts=replace(COUNTED, repeats_waiting=0), code={**KEYED, "varies": ()})
    assert recommended(fresh) == "prime"
    assert recommended(replace(fresh, processed=ProcessedInput(("a",), size=1))) == "rebuild"
    assert recommended(added()) != "prime"


@pytest.mark.parametrize(
    "changes",
    [
        {"counts": replace(COUNTED, repeats_waiting=None)},
        {"code": {"key": ("id",), "key_kind": KeyKind.NAMED}},
        {"code": {}},
        {"operators": ("dedupe", "dedupe"), "counts": COUNTED},
        {"operators": ("dedupeWithinWatermark",), "counts": replace(REHEARSED, waiting=5, repeats_waiting=2)},
    ],
    ids=["not counted", "key of a person", "no key", "two of them", "within a watermark"],
)
def test_repeats_by_another_key_than_the_codes_are_at_most_all_that_come(changes: dict[str, Any]) -> None:
    assert amounts(added(**changes))[1] == (5, Bound.AT_MOST)


@pytest.mark.parametrize(("waiting", "accepted"), [(5, (5, Bound.AT_MOST)), (6, (None, Bound.UNKNOWN))])
def test_no_more_rows_repeat_the_key_of_a_person_than_are_written(
    waiting: int, accepted: tuple[int | None, Bound]
) -> None:
    code = replace(stream().new_code, operators=("dedupe",), key=("id",), key_kind=KeyKind.NAMED)
    found = common.repeats_of(RowAmount(rows=5, bound=Bound.AT_MOST), code, written=waiting)
    assert (found.rows, found.bound) == accepted
    option = judged(added(code={"key": ("id",), "key_kind": KeyKind.NAMED}))
    held = next(codec.to_json(c.expected) for c in option.criteria if c.code == "NO_KEY_TWICE")
    assert held["accepted"] == {"rows": 5, "bound": "at most"}


def test_repeats_are_not_known_where_nothing_was_counted() -> None:
    assert amounts(added(counts=Counts(table=10)))[1] == UNKNOWN


def test_nobody_compares_keys_with_a_topic() -> None:
    assert amounts(added(sink=SinkReport("kafka", "t", None)))[1] == (5, Bound.AT_MOST)


@pytest.mark.parametrize("step", [SUM, SESSION, JOIN])
def test_a_step_that_makes_rows_of_several_counts_none_twice_and_how_many_come_out_wrong_is_not_known(
    step: str,
) -> None:
    given = added((step,), code={})
    assert amounts(given) == (UNKNOWN, NOTHING)
    assert judged(given).forecast.new_rows == 4
    assert "COUNTS_EQUAL_FORECAST" in {c.code for c in judged(given).criteria}
    assert not judged(given).recommended


@pytest.mark.parametrize(
    "given",
    [
        added((OWN,), code={}),
        added(("globalLimit",), code={}),
        added((SUM, "dedupe"), code={}),
        added((SUM,), code={}, output_mode=OutputMode.UPDATE),
        added((SUM,), code={}, output_mode=None),
        recounted(state_mode=OutputMode.UPDATE),
        recounted(state_mode=None),
    ],
    ids=[
        *("own code", "limit", "repeats before an aggregation", "update mode", "mode not known"),
        *("open windows were written", "the mode of before not known"),
    ],
)
def test_what_no_rule_covers_is_not_known(given: Facts) -> None:
    assert amounts(given) == (UNKNOWN, UNKNOWN)


def test_of_windows_cut_as_before_just_the_groups_of_the_old_state_are_lost() -> None:
    assert amounts(recounted()) == ((3, Bound.EXACT), NOTHING)
    assert amounts(recounted(0)) == (NOTHING, NOTHING)
    assert recommended(recounted(0)) == "prime"
    assert recommended(recounted()) != "prime"


@pytest.mark.parametrize(
    "changes",
    [
        {"old_code": None},
        {"old_code": replace(recounted().new_code, windows="x")},
        {"output_mode": OutputMode.UPDATE},
        {"state_mode": OutputMode.UPDATE},
        {"held": ()},
    ],
    ids=[
        "old code not known",
        "windows cut otherwise",
        "update mode",
        "update mode before",
        "state not counted",
    ],
)
def test_of_other_windows_the_lost_groups_are_not_known(changes: dict[str, Any]) -> None:
    assert amounts(recounted(**changes))[0] == UNKNOWN


def test_open_groups_of_an_old_aggregation_are_lost_with_a_deduplication_too() -> None:
    given = recounted()
    code = replace(given.new_code, operators=("dedupe",), **KEYED)  # type: ignore[arg-type]
    assert amounts(replace(given, new_code=code, counts=COUNTED)) == ((3, Bound.EXACT), (2, Bound.EXACT))


def test_what_was_not_rehearsed_as_an_update_runs_promises_no_number_of_new_rows() -> None:
    guessed = added((SUM,), code={}, counts=replace(REHEARSED, rehearsed_why="one large batch"))
    missing = added((SUM,), code={}, counts=Counts(table=10, waiting=4))
    for given, rows in ((guessed, 4), (missing, None)):
        option = judged(given)
        assert option.forecast.new_rows == rows
        assert "COUNTS_EQUAL_FORECAST" not in {c.code for c in option.criteria}
        assert "PRIME_NOT_EXACT" in {f.code for f in option.findings}


def test_each_plan_says_what_begins_empty_and_what_was_dropped_as_late() -> None:
    late = recounted(counts=replace(REHEARSED, rehearsed_late=2))
    codes = {f.code for f in judged(late).findings}
    assert codes >= {"STATE_STARTS_EMPTY", "STATE_HOLDS_ROWS", "LATE_ROWS_DROPPED"}
    assert "STATE_STARTS_EMPTY" in {f.code for f in judged(added()).findings}


PLAIN = CodeFacts({"/p/q.py": WITHOUT}, (), sources=stream().new_code.sources)
SAME = recounted()
MOVED = (source("kafka", start=start("4", reread=of(6)), facts=KAFKA, reach=None),)
BLOCKED: dict[str, tuple[Facts, BlockerCode]] = {
    "stateless": (added(new_code=PLAIN), BlockerCode.CODE_KEEPS_NO_STATE),
    "the same code": (recounted(old_code=SAME.new_code), BlockerCode.CODE_KEEPS_SAME_STATE),
    "code not read": (added(new_code=CodeFacts({}, None, "line 3")), BlockerCode.CODE_NOT_ANALYSED),
    "running": (added(active_update="u-9"), BlockerCode.UPDATE_RUNNING),
    "another start": (added(sources=MOVED), BlockerCode.START_NOT_TAKEN),
    "no place": (added(scratch=False), BlockerCode.NO_SCRATCH_PLACE),
    "table ahead": (added(sink=SinkReport("files", "/w", 5)), BlockerCode.SINK_BARS),
}


@pytest.mark.parametrize(("given", "code"), BLOCKED.values(), ids=BLOCKED.keys())
def test_it_is_blocked_where_it_makes_no_sense(given: Facts, code: BlockerCode) -> None:
    option = judged(given)
    assert option.blocker is not None
    assert option.blocker.code is code
    assert not option.recommended


@pytest.mark.parametrize("known", [True, False], ids=["old code known", "old code not known"])
def test_state_that_a_restart_cannot_load_begins_empty_under_the_same_code(known: bool) -> None:
    lost = Finding("STATE_FILE_MISSING", Severity.BLOCKER, "state/0/0/2.delta is missing.", "Put it back.")
    report = replace(SAME.checkpoint, findings=(lost,))
    given = recounted(checkpoint=report, old_code=SAME.new_code if known else None)
    assert judged(given).blocker is None


@pytest.mark.parametrize(
    "code", ["STATE_AHEAD", "STATE_IDS_MISSING", "STATE_NEWER_FORMAT", "STATE_PROVIDER_DIFFERS"]
)
def test_whole_state_that_a_setting_or_release_keeps_from_loading_is_not_thrown_away(code: str) -> None:
    whole = Finding(code, Severity.BLOCKER, "It cannot be loaded as it is.", "Change the setting back.")
    option = judged(recounted(checkpoint=replace(SAME.checkpoint, findings=(whole,)), old_code=SAME.new_code))
    assert option.blocker is not None
    assert option.blocker.code is BlockerCode.CODE_KEEPS_SAME_STATE


def test_each_strategy_names_what_makes_whole_state_load_again() -> None:
    whole = Finding(
        "STATE_PROVIDER_DIFFERS", Severity.BLOCKER, "It is another one.", "Put the offset file back."
    )
    given = recounted(checkpoint=replace(SAME.checkpoint, findings=(whole,)), old_code=SAME.new_code)
    ways = options(given)
    for strategy in ("continue", "revert", "rebuild", "prime", "rewind"):
        assert whole.do in (ways[strategy].blocked or ""), strategy


def test_a_batch_that_only_the_table_has_finished_has_to_be_finished_first() -> None:
    from tests.unit.strategies.test_side_by_side import half_done

    report = replace(
        added().checkpoint,
        findings=half_done().findings,
        last_planned=3,
        batches=({"batch": 3, "planned": True, "committed": False, "offsets": ["{'orders': {'0': 12}}"]},),
    )
    blocker = judged(added(checkpoint=report)).blocker
    assert blocker is not None
    assert blocker.code is BlockerCode.BATCH_UNSETTLED


def test_code_without_state_may_get_some_in_the_step_that_changes_it() -> None:
    blocker = judged(added(new_code=PLAIN)).blocker
    assert blocker is not None
    assert blocker.settled_by is SettledBy.PATCH
