"""Rows that live in the state alone stand under `lost`, or are not known; never are they left out."""

from dataclasses import replace
from typing import Any

import pytest

from console.presenters.wizard import lost_windows
from recovery.checkpoints.held import HeldState, Uncounted
from recovery.checkpoints.report import Finding, Severity, StateOperator
from recovery.contracts import codec
from recovery.contracts.amounts import Bound, OpenWindow
from recovery.contracts.readers import SourceReader
from recovery.sinks.base import SinkReport
from recovery.strategies import continue_, full_refresh, repair
from recovery.strategies.base import CodeFacts, Counts, Facts, GroupRows, OutputMode
from recovery.strategies.catalogue import judge_all
from tests.unit.strategies import streams
from tests.unit.strategies.facts import WITH, checkpoint, facts, source

AGGREGATE, SESSIONS, JOIN, DEDUPE = (
    "stateStoreSave",
    "sessionWindowStateStoreSaveExec",
    "symmetricHashJoin",
    "dedupe",
)
APPEND, UPDATE, COMPLETE = OutputMode.APPEND, OutputMode.UPDATE, OutputMode.COMPLETE
ONE, FEWER, UNTOLD = GroupRows.ONE, GroupRows.AT_MOST_ONE, GroupRows.UNKNOWN


def stateful(
    *held: tuple[str, int | None],
    mode: OutputMode | None = APPEND,
    groups: GroupRows = ONE,
    known: bool = True,
    **changes: Any,
) -> Facts:
    """A flow whose old code kept state of these operators, so many entries in each; the new code keeps none."""
    names = tuple(name for name, _ in held)
    operators = tuple(StateOperator(n, name, 2) for n, name in enumerate(names))
    old = (
        CodeFacts({"/p/q.py": WITH}, names, sources=(SourceReader(path="/in"),), groups=groups)
        if known
        else None
    )
    told = tuple(
        HeldState(n, name, 3, entries, None if entries is not None else Uncounted.DAMAGED)
        for n, (name, entries) in enumerate(held)
    )
    report = checkpoint(
        state_operators=operators, closed_ms=1_700_000_000_000, watermark_ms=1_700_000_000_000
    )
    return facts(checkpoint=report, old_code=old, held=told, state_mode=mode, **changes)


LOST = [
    ("an aggregation with open windows", stateful((AGGREGATE, 9)), 9, "exact"),
    ("open sessions", stateful((SESSIONS, 2)), 2, "exact"),
    ("an aggregation below dropDuplicates", stateful((AGGREGATE, 9), (DEDUPE, 40)), 9, "exact"),
    ("an aggregation whose groups are filtered", stateful((AGGREGATE, 9), groups=FEWER), 9, "at most"),
    (
        "an aggregation whose groups become many rows",
        stateful((AGGREGATE, 9), groups=UNTOLD),
        None,
        "unknown",
    ),
    (
        "an aggregation above which repeats are dropped",
        stateful((DEDUPE, 1), (AGGREGATE, 9)),
        None,
        "unknown",
    ),
    ("an aggregation of a code that is not known", stateful((AGGREGATE, 9), known=False), None, "unknown"),
    ("an aggregation that could not be counted", stateful((AGGREGATE, None)), None, "unknown"),
    ("an aggregation of an unknown mode", stateful((AGGREGATE, 9), mode=None), None, "unknown"),
    ("an aggregation that writes what changes", stateful((AGGREGATE, 9), mode=UPDATE), 0, "exact"),
    ("an aggregation that writes all", stateful((AGGREGATE, 9), mode=COMPLETE), 0, "exact"),
    ("no window is open", stateful((AGGREGATE, 0)), 0, "exact"),
    ("nothing is open, of no known mode", stateful((AGGREGATE, 0), mode=None, known=False), 0, "exact"),
    ("a join with buffered rows", stateful((JOIN, 28)), None, "unknown"),
    ("a join without any", stateful((JOIN, 0)), 0, "exact"),
    ("two steps with rows", stateful((AGGREGATE, 9), (JOIN, 28)), None, "unknown"),
    ("two steps, the join without rows", stateful((AGGREGATE, 9), (JOIN, 0)), 9, "exact"),
    ("flatMapGroupsWithState", stateful(("flatMapGroupsWithState", 3)), None, "unknown"),
    ("transformWithState", stateful(("transformWithStateInPySparkExec", 3)), None, "unknown"),
    ("transformWithState without a key", stateful(("transformWithStateInPySparkExec", 0)), 0, "exact"),
    ("a step that is not known here", stateful(("somethingNew", 1)), None, "unknown"),
    ("a limit", stateful(("globalLimit", 1)), 0, "exact"),
    ("dropDuplicates", stateful((DEDUPE, 12)), 0, "exact"),
]


@pytest.mark.parametrize(("of", "rows", "how"), [c[1:] for c in LOST], ids=[c[0] for c in LOST])
def test_continue_loses_what_only_its_state_holds(of: Facts, rows: int | None, how: str) -> None:
    option = continue_.judge(of)
    lost = option.forecast.lost
    assert (lost.rows, lost.bound, lost.possible) == (rows, how, rows != 0)
    assert ("STATE_HOLDS_ROWS" in {f.code for f in option.findings}) == (rows != 0)


def emptied(
    *kept: str,
    left: tuple[str, ...] = (),
    known: bool = True,
    watermark_ms: int | None = None,
    found: tuple[str, ...] = (),
    committed: int | None = 2,
    mode: OutputMode = APPEND,
) -> Facts:
    """A flow whose last good code kept state of these steps; the checkpoint has only that of those that are `left`."""
    old = CodeFacts({"/p/q.py": WITH}, kept, sources=(SourceReader(path="/in"),)) if known else None
    report = checkpoint(
        state_operators=tuple(StateOperator(n, name, 2) for n, name in enumerate(left)),
        watermark_ms=watermark_ms,
        last_committed=committed,
        findings=tuple(Finding(code, Severity.BLOCKER, "It is missing.", "") for code in found),
    )
    told = tuple(HeldState(n, name, 3, 0) for n, name in enumerate(left))
    return facts(checkpoint=report, old_code=old, held=told, state_mode=mode)


GONE = [
    ("the aggregation's state is gone", emptied(AGGREGATE), True),
    ("a join's state is gone", emptied(JOIN), True),
    ("the state of people's own code is gone", emptied("transformWithStateInPySparkExec"), True),
    ("one of two states is gone", emptied(AGGREGATE, JOIN, left=(AGGREGATE,)), True),
    ("one of two joins' states is gone", emptied(JOIN, JOIN, left=(JOIN,)), True),
    ("the keys of dropDuplicates are gone", emptied(DEDUPE), False),
    ("the number of a limit is gone", emptied("globalLimit"), False),
    ("an aggregation that writes all is gone", emptied(AGGREGATE, mode=COMPLETE), False),
    ("nothing was ever committed", emptied(AGGREGATE, committed=None), False),
    ("all of it is there", emptied(AGGREGATE, left=(AGGREGATE,)), False),
    ("the code never kept any", emptied(), False),
    ("the code never kept any, and has a watermark", emptied(watermark_ms=9), False),
    ("the code is not known, and kept a watermark", emptied(known=False, watermark_ms=9), True),
    ("the code is not known, and some is missing", emptied(known=False, found=("STATE_MISSING",)), True),
    ("the code is not known, and nothing hints at any", emptied(known=False), False),
]


@pytest.mark.parametrize(("of", "gone"), [c[1:] for c in GONE], ids=[c[0] for c in GONE])
def test_rows_of_a_state_that_is_gone_are_not_known(of: Facts, gone: bool) -> None:
    """Nobody can count them any more, and nothing but the code tells that there were any."""
    for lost in (continue_.judge(of).forecast.lost, repair.judge(of).forecast.lost):
        assert (lost.rows, lost.exact) == ((None, False) if gone else (0, True))
    assert ("STATE_HOLDS_ROWS" in {f.code for f in continue_.judge(of).findings}) == gone


def test_a_function_may_make_other_rows_of_a_group_than_one() -> None:
    function = SinkReport("delta", "/w", 2, by_function=True)
    assert continue_.judge(stateful((AGGREGATE, 9), sink=function)).forecast.lost.rows is None


def test_open_windows_are_lost_though_the_new_code_writes_in_update_mode() -> None:
    """What the new code does says nothing of the rows that the old one held back."""
    given = stateful((AGGREGATE, 9), output_mode=OutputMode.UPDATE)
    assert continue_.judge(given).forecast.lost.rows == 9


def test_what_loses_rows_with_its_state_is_not_recommended() -> None:
    options = judge_all(stateful((AGGREGATE, 9)))
    assert not next(o for o in options if o.strategy == "continue").recommended


def test_state_that_nobody_counted_is_not_called_empty() -> None:
    lost = continue_.judge(replace(stateful((AGGREGATE, 9)), held=())).forecast.lost
    assert (lost.rows, lost.exact) == (None, False)


def test_full_refresh_loses_what_the_state_held_where_the_input_is_not_all_there() -> None:
    of = stateful((AGGREGATE, 9), sources=(source(gone=("file:///in/changes-0001.json",)),))
    assert full_refresh.judge(of).forecast.lost.bound is Bound.UNKNOWN


def test_rows_that_are_read_again_may_be_those_of_the_state() -> None:
    """So nobody can tell how many of them are lost, and fewer than all are there twice."""
    back = streams.source("kafka", start=streams.start("6", reread=streams.of(4)))
    counts = Counts(table=10, processed=10, waiting=9, everything=15, reread=4)
    forecast = continue_.judge(stateful((AGGREGATE, 9), sources=(back,), counts=counts)).forecast
    assert (forecast.lost.rows, forecast.lost.bound) == (None, Bound.UNKNOWN)
    assert (forecast.doubled.rows, forecast.doubled.bound) == (4, Bound.AT_MOST)


def test_rows_that_are_skipped_are_lost_beside_those_of_the_state() -> None:
    ahead = streams.source("kafka", start=streams.start("13", lost=streams.of(3)))
    counts = Counts(table=10, processed=10, waiting=2, everything=15, skipped=3)
    lost = continue_.judge(stateful((AGGREGATE, 9), sources=(ahead,), counts=counts)).forecast.lost
    assert (lost.rows, lost.bound) == (12, Bound.EXACT)


def test_a_full_refresh_does_not_know_what_rows_of_another_kind_repeat() -> None:
    doubled = full_refresh.judge(stateful((AGGREGATE, 9))).forecast.doubled
    assert (doubled.rows, doubled.bound) == (None, Bound.UNKNOWN)


@pytest.mark.parametrize(
    ("held", "makes", "bound"),
    [
        (AGGREGATE, (), "unknown"),
        (JOIN, (), "unknown"),
        (AGGREGATE, (AGGREGATE,), "exact"),
        (DEDUPE, (), "exact"),
        (DEDUPE, (AGGREGATE,), "unknown"),
    ],
)
def test_a_full_refresh_compares_no_numbers_of_rows_of_different_kinds(
    held: str, makes: tuple[str, ...], bound: str
) -> None:
    told = stateful((held, 9))
    told = replace(
        told,
        new_code=replace(told.new_code, operators=makes),
        counts=replace(told.counts, processed=12, table=12),
    )
    lost = full_refresh.judge(told).forecast.lost
    assert (lost.bound, lost.rows) == (Bound(bound), None if bound == "unknown" else 0)


def test_the_first_windows_of_what_is_lost_stand_in_the_forecast() -> None:
    window = OpenWindow(start_ms=1_700_000_000_000, end_ms=1_700_000_005_000, groups=9)
    known = stateful((AGGREGATE, 9))
    known = replace(known, held=tuple(replace(h, windows=(window,)) for h in known.held))
    lost = continue_.judge(known).forecast.lost
    stored = [{"start_ms": 1_700_000_000_000, "end_ms": 1_700_000_005_000, "groups": 9}]
    assert codec.to_json(lost)["windows"] == stored
    without = continue_.judge(stateful((DEDUPE, 9))).forecast.lost
    assert "windows" not in codec.to_json(without)
    shown = lost_windows(lost)
    assert shown is not None
    assert (shown.listed, shown.of, len(shown.rows)) == (9, 9, 1)
    assert lost_windows(without) is None
