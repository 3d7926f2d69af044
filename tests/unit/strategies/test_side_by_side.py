"""What each strategy promises for one incident; a wrong number here is a row lost at 3 a.m."""

from dataclasses import replace
from typing import Any

import pytest

from recovery.checkpoints.findings import finding
from recovery.checkpoints.report import CheckpointReport, Finding, Severity, SourceEntry
from recovery.contracts import codec
from recovery.contracts.amounts import Bound
from recovery.contracts.option import Option
from recovery.contracts.readers import NO_READER, SourceReader
from recovery.sinks.base import SinkReport
from recovery.strategies.base import CodeFacts, Counts, Facts
from recovery.strategies.catalogue import judge_all
from tests.unit.strategies.facts import FILES, WITH, WITHOUT, checkpoint, facts, keeping, source


def options(given: Facts) -> dict[str, Option]:
    return {o.strategy: o for o in judge_all(given)}


@pytest.mark.parametrize(
    ("strategy", "lost", "doubled", "reread", "new_rows", "table_after"),
    [
        ("continue", 0, 0, 0, 8, 20),
        ("revert", 0, 0, 0, 8, 20),
        ("full-refresh", 0, 1, 13, 21, 21),
        ("empty", 8, 0, 13, 0, 12),
    ],
)
def test_the_forecast_counts_this_flows_own_rows(
    strategy: str, lost: int, doubled: int, reread: int, new_rows: int, table_after: int
) -> None:
    forecast = options(facts())[strategy].forecast
    assert (forecast.lost.rows, forecast.doubled.rows, forecast.reread.rows) == (lost, doubled, reread)
    assert (forecast.new_rows, forecast.table_after) == (new_rows, table_after)
    assert forecast.lost.exact
    assert forecast.doubled.exact


def test_an_empty_reset_is_blocked_and_says_how_many_rows_it_would_swallow() -> None:
    reason = options(facts())["empty"].blocked
    assert reason is not None
    assert "8 rows" in reason


def test_continue_is_recommended_and_says_what_dropping_the_state_means() -> None:
    option = options(facts(checkpoint=keeping(12)))["continue"]
    assert option.recommended
    assert option.blocked is None
    assert "12 keys" in option.findings[0].says


def stateful() -> CodeFacts:
    return CodeFacts({"/p/q.py": WITH}, ("dedupe",), sources=(SourceReader(path="/in"),))


def grouped() -> CodeFacts:
    return CodeFacts({"/p/q.py": WITHOUT}, ("stateStoreSave",), sources=(SourceReader(path="/in"),))


SHARED = finding("SINK_SHARED", flows="a, b")
TWICE = checkpoint(sources=(*checkpoint().sources, replace(checkpoint().sources[0], index=1, twin_of=0)))
BLOCKS: list[tuple[str, dict[str, Any], str]] = [
    ("continue", {"active_update": "u-9"}, "stop the pipeline first"),
    ("continue", {"new_code": stateful()}, "Choose revert"),
    ("continue", {"new_code": grouped()}, "aggregation"),
    ("continue", {"new_code": CodeFacts({}, None, "line 3: invalid syntax")}, "line 3"),
    (
        "continue",
        {"new_code": CodeFacts({"/p/q.py": ""}, (), sources=(NO_READER, NO_READER))},
        "has 1 source, the code has 2",
    ),
    ("continue", {"sink": SinkReport("files", "/w", 3, 0, {})}, "disagree"),
    ("revert", {"old_code": None}, "not known"),
    ("revert", {"old_code": CodeFacts({"/p/q.py": WITHOUT + "#"}, ())}, "refuse it again"),
    ("full-refresh", {"new_code": CodeFacts({}, None, "no such module")}, "no such module"),
    *(
        (strategy, {"between": (SHARED,)}, "a, b write one file table")
        for strategy in ("continue", "full-refresh")
    ),
    *((strategy, {"checkpoint": TWICE}, "reads source 0 twice") for strategy in ("revert", "full-refresh")),
]


@pytest.mark.parametrize(("strategy", "changes", "words"), BLOCKS)
def test_a_strategy_that_cannot_run_says_why(strategy: str, changes: dict[str, Any], words: str) -> None:
    reason = options(facts(**changes))[strategy].blocked
    assert reason is not None
    assert words in reason


def test_a_changed_key_of_the_same_step_may_take_rewind_where_the_old_code_is_known_to_differ() -> None:
    """What rewind then allows, `continue` must name; where nobody knows the old code both name only the others."""
    edited = replace(stateful(), files={"/p/q.py": WITHOUT + "# dropDuplicates(['name'])"})
    known = options(facts(new_code=edited))
    unknown = options(facts(new_code=edited, old_code=None))
    anew = "its state (rebuild), go back and build it again (reread), or choose full-refresh."
    assert (known["continue"].blocked or "").endswith(anew)
    assert "its steps changed" not in (known["rewind"].blocked or "")
    for strategy in ("continue", "rewind"):
        reason = unknown[strategy].blocked or ""
        assert "(reread)" not in reason
        assert reason.endswith("choose full-refresh.")
    assert "nothing needs a reset" in (unknown["continue"].blocked or "")


def test_a_damaged_checkpoint_blocks_revert() -> None:
    damage = Finding("OFFSETS_MISSING", Severity.BLOCKER, "offsets/2 is missing", "Restore it.")
    broken: CheckpointReport = replace(checkpoint(), findings=(damage,))
    assert "offsets/2 is missing" in (options(facts(checkpoint=broken))["revert"].blocked or "")


def test_a_checkpoint_that_never_committed_cannot_be_continued() -> None:
    never = checkpoint(last_committed=None, sources=())
    assert options(facts(checkpoint=never, sources=()))["continue"].blocked


def test_full_refresh_says_that_rows_of_vanished_files_leave_the_table() -> None:
    gone = source(processed=source().processed[1:], gone=(FILES[0],))
    forecast = options(facts(sources=(gone,), counts=Counts(table=12, processed=9, everything=17)))[
        "full-refresh"
    ].forecast
    assert forecast.lost.files == 1
    assert forecast.lost.rows == 3
    assert not forecast.lost.exact
    assert forecast.doubled.rows is None


def test_unknown_counts_are_never_shown_as_exact() -> None:
    given = options(facts(counts=Counts(), old_counts=None))
    assert given["full-refresh"].forecast.reread.exact is False
    assert given["continue"].forecast.new_rows is None
    assert given["empty"].forecast.lost.exact is False


def test_a_limit_of_one_file_a_batch_swallows_only_what_was_committed() -> None:
    """Batches 0 to 2 hold the files that were read before; file 4 lands in batch 3 and comes twice."""
    forecast = options(facts(sources=(source(max_files_per_trigger=1),)))["empty"].forecast
    assert forecast.lost.rows == 0
    assert forecast.doubled.rows == 2


def half_done() -> CheckpointReport:
    """Batch 3 is planned, and the table has it: a crash came between its log and the commit file."""
    says = Finding(
        "SINK_UNCOMMITTED_BATCH", Severity.WARNING, "The table has batch 3.", "Choose a seeded reset."
    )
    late = SourceEntry(FILES[4], 1004, 3)
    return checkpoint(
        findings=(says,),
        sources=(replace(checkpoint().sources[0], planned=(late,)),),
        batches=({"batch": 3, "planned": True, "committed": False, "offsets": ['{"logOffset":3}']},),
    )


def test_continue_goes_on_after_a_batch_that_only_the_table_has_finished() -> None:
    given = facts(checkpoint=half_done(), sink=SinkReport("files", "/w", 3, 0, {}))
    option = options(given)["continue"]
    assert option.blocked is None
    expected = {c.code: codec.to_json(c.expected) for c in option.criteria}["FIRST_BATCH_AT_POSITION"]
    assert expected == {"batch": 4, "offsets": ['{"logOffset":3}']}
    assert "The table holds batch 3 already, so the seed goes on after it." in option.forecast.reread.why
    assert "SINK_UNCOMMITTED_BATCH" in [f.code for f in option.findings]
    assert "from batch 3" in option.steps[2].says


def test_the_state_lacks_the_keys_of_a_batch_that_only_the_table_has_finished_until_it_is_run_again() -> None:
    half = replace(half_done(), state_operators=keeping(5).state_operators)
    counts = Counts(table=12, processed=12, waiting=8, everything=20, fresh_waiting=7)
    given = facts(checkpoint=half, sink=SinkReport("files", "/w", 3, 0, {}), old_counts=counts)
    forecast = options(given)["revert"].forecast
    assert (forecast.doubled.rows, forecast.doubled.bound, forecast.new_rows) == (0, Bound.EXACT, 7)
