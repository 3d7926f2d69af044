"""What each strategy asks for, read from its own steps: numbers exact, a bound, or not known."""

from dataclasses import replace
from typing import Any

import pytest

from recovery.checkpoints.report import StateOperator
from recovery.contracts import codec
from recovery.contracts.amounts import Amount, Bound
from recovery.contracts.effort import Effort
from recovery.contracts.option import Option
from recovery.contracts.readers import SourceReader
from recovery.contracts.steps import PlannedStep
from recovery.sources.base import Distance
from recovery.strategies.base import CodeFacts, Facts
from recovery.strategies.catalogue import judge_all
from recovery.strategies.effort import add_amounts, measure_effort, read_input, with_time
from tests.unit.strategies.facts import checkpoint, facts, source
from tests.unit.strategies.streams import source as kafka_source
from tests.unit.strategies.streams import stream
from tests.unit.strategies.test_rebuild import changed
from tests.unit.strategies.test_rewind import going

TWO = Amount(value=2)


def option_of(given: Facts, strategy: str) -> Option:
    return next(o for o in judge_all(given) if o.strategy == strategy)


def effort(given: Facts, strategy: str) -> Effort:
    return measure_effort(given, option_of(given, strategy), people=TWO)


def told(amount: Amount | None) -> tuple[int, Bound] | None:
    return None if amount is None else (amount.value, amount.bound)


ABOUT = Bound.ESTIMATE
EXACT = Bound.EXACT
TIMED = facts(usual_update_seconds=7.0)
CASES: dict[str, tuple[Facts, str, dict[str, Any]]] = {
    "continue": (TIMED, "continue", {
        "steps": 5, "rows": (8, ABOUT), "bytes": (300, EXACT), "seconds": 15.0, "timed_by": "updates", "table": "no",
        "state": ("dropped", (12, ABOUT)), "undo": (True, 3)}),
    "revert": (TIMED, "revert", {
        "steps": 5, "rows": (8, ABOUT), "bytes": (300, EXACT), "seconds": 14.0, "timed_by": "updates", "table": "no",
        "state": ("kept", (12, ABOUT)), "undo": (True, 3)}),
    "full-refresh": (TIMED, "full-refresh", {
        "steps": 3, "rows": (21, ABOUT), "bytes": (700, EXACT), "seconds": 21.0, "timed_by": "updates",
        "table": "emptied", "state": ("dropped", (12, ABOUT)), "undo": (False, None)}),
    "empty": (facts(), "empty", {
        "steps": 3, "rows": (21, ABOUT), "bytes": (700, EXACT), "seconds": None, "timed_by": "unknown", "table": "no",
        "state": ("dropped", (12, ABOUT)), "undo": (False, None)}),
    "rebuild reads what was processed too": (changed(), "rebuild", {
        "steps": 5, "rows": (21, ABOUT), "bytes": (700, EXACT), "seconds": None, "timed_by": "unknown", "table": "no",
        "state": ("rebuilt", None), "undo": (True, 3)}),
    "rows of groups are no rows that are read": (changed("stateStoreSave"), "rebuild", {
        "steps": 5, "rows": None, "bytes": (700, EXACT), "seconds": None, "timed_by": "unknown", "table": "no",
        "state": ("rebuilt", None), "undo": (True, 3)}),
    "a source that counts its own rows": (stream(), "continue", {
        "steps": 5, "rows": (5, EXACT), "bytes": None, "seconds": None, "timed_by": "unknown", "table": "no",
        "state": ("dropped", (10, ABOUT)), "undo": (True, 3)}),
    "a chosen start: what is read again waits already": (going(), "rewind", {
        "steps": 5, "rows": (5, EXACT), "bytes": None, "seconds": None, "timed_by": "unknown", "table": "no",
        "state": ("rebuilt", None), "undo": (True, 3)}),
    "no start is chosen yet": (going(at="10"), "rewind", {
        "steps": 5, "rows": None, "bytes": None, "seconds": None, "timed_by": "unknown", "table": "no",
        "state": ("rebuilt", None), "undo": (True, 3)}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_a_strategy_asks_for(name: str) -> None:
    given, strategy, expected = CASES[name]
    found = effort(given, strategy)
    assert {
        "steps": found.steps,
        "rows": told(found.rows),
        "bytes": told(found.bytes),
        "seconds": found.seconds,
        "timed_by": found.timed_by,
        "table": found.table,
        "state": (found.state.fate, told(found.state.keys)),
        "undo": (found.undo.possible, found.undo.until_batch),
    } == expected
    assert (found.people, found.backup.needed) == (TWO, False)
    assert codec.read(Effort, codec.to_json(found)) == found


def test_every_strategy_that_is_judged_is_measured() -> None:
    given = facts()
    assert [measure_effort(given, option, people=TWO).steps for option in judge_all(given)] == [
        len(option.steps) for option in judge_all(given)
    ]


@pytest.mark.parametrize(
    ("kinds", "table", "backup"),
    [
        ((), "emptied", False),
        (("table-backup", "fill"), "emptied-then-filled", True),
        (("restore",), "restored", False),
    ],
)
def test_a_table_that_is_backed_up_filled_or_restored_is_told_by_the_steps(
    kinds: tuple[str, ...], table: str, backup: bool
) -> None:
    given = facts()
    base = option_of(given, "full-refresh")
    more = tuple(PlannedStep.model_construct(kind=kind, says="", args={}) for kind in kinds)
    option = base.model_copy(update={"steps": (*base.steps, *more)})
    found = measure_effort(given, option, people=TWO)
    assert (found.table, found.backup.needed, found.backup.bytes) == (table, backup, None)


def test_keys_are_counted_by_the_files_of_the_state_where_they_tell() -> None:
    held = checkpoint(state_operators=(StateOperator(0, "dedupe", 2, rows=11),))
    assert told(effort(facts(checkpoint=held), "continue").state.keys) == (11, EXACT)
    unknown = checkpoint(state_operators=(StateOperator(0, "stateStoreSave", 2),))
    assert effort(facts(checkpoint=unknown), "continue").state.keys is None
    none = checkpoint(state_operators=())
    assert effort(facts(checkpoint=none), "continue").state.fate == "none"


def test_of_input_that_nobody_counted_neither_rows_nor_bytes_are_guessed() -> None:
    silent = stream(sources=(kafka_source("kafka", unread=Distance()),))
    uncounted = replace(silent, counts=replace(silent.counts, waiting=None))
    found = read_input(uncounted, option_of(uncounted, "continue"))
    assert (found.rows, found.bytes) == (None, None)


def test_nothing_waits_is_exactly_nothing() -> None:
    idle = facts(sources=(source(waiting=()),))
    assert told(effort(idle, "continue").rows) == (0, EXACT)


@pytest.mark.parametrize(
    ("usual", "rate", "seconds", "timed_by"),
    [
        (None, 2.0, None, "unknown"),
        (7.0, None, 21.0, "updates"),
        (7.0, 1000.0, 21.0, "rate"),  # three usual updates take longer than reading 21 rows does
        (7.0, 0.5, 49.0, "rate"),  # one usual update, and 21 rows at half a row a second
    ],
)
def test_time_is_that_of_usual_updates_or_of_reading_the_rows_whichever_is_longer(
    usual: float | None, rate: float | None, seconds: float | None, timed_by: str
) -> None:
    found = effort(facts(usual_update_seconds=usual, rows_per_second=rate), "full-refresh")
    assert (found.seconds, found.timed_by) == (seconds, timed_by)


def test_the_forecast_that_is_sealed_has_the_same_time() -> None:
    given = facts(usual_update_seconds=7.0, rows_per_second=0.5)
    option = option_of(given, "full-refresh")
    assert option.forecast.seconds == 49.0
    assert with_time(given, option) == option


def test_a_sum_with_a_part_that_is_not_known_is_not_known() -> None:
    most = Amount(value=3, bound=Bound.AT_MOST, why="Markers.")
    assert add_amounts([TWO, None]) is None
    assert add_amounts([TWO, most]) == Amount(value=5, bound=Bound.AT_MOST, why="Markers.")
    assert add_amounts([]) == Amount(value=0)


CHANGED_CODE = CodeFacts({"/p/q.py": "other"}, ("dedupe",), sources=(SourceReader(path="/in"),))


def test_a_dropped_state_whose_code_needs_state_again_is_rebuilt_by_a_full_refresh() -> None:
    assert effort(facts(new_code=CHANGED_CODE), "full-refresh").state.fate == "rebuilt"


def test_rows_that_a_rehearsal_dropped_as_late_are_read_too() -> None:
    given = facts()
    assert given.counts.waiting is not None
    late = replace(given, counts=replace(given.counts, rehearsed=True, rehearsed_late=2))
    read = option_of(given, "continue"), option_of(late, "continue")
    before, after = (told(read_input(f, o).rows) for f, o in zip((given, late), read, strict=True))
    assert before is not None
    assert after == (before[0] + 2, ABOUT)
