"""A crash in the very first batch: continue begins again where the flow began, whatever the code of now is."""

from dataclasses import replace
from typing import Any

import pytest

from recovery.checkpoints.findings import finding
from recovery.checkpoints.report import CheckpointReport, Entries, Finding, SourceEntry, SourceProgress
from recovery.contracts import codec
from recovery.contracts.amounts import Amount, Bound
from recovery.contracts.option import BlockerCode, Option
from recovery.contracts.readers import SourceReader
from recovery.contracts.steps import SeedArgs
from recovery.sinks.base import SinkReport
from recovery.sources import file_facts
from recovery.sources.base import Distance, Position, Precision, SourceRetention, StartCandidate
from recovery.sources.comparing import ZERO
from recovery.strategies import first_batch
from recovery.strategies.base import CodeFacts, Counts, Facts
from recovery.strategies.catalogue import judge_all
from recovery.strategies.deciding import NOT_ASKED, decide
from tests.unit.strategies.facts import FILES, checkpoint, facts, source

PLANNED = Entries.from_entries(SourceEntry(p, 1000 + n, 0) for n, p in enumerate(FILES[:4]))
KEYED = CodeFacts(
    {"/p/q.py": "# dropDuplicates"}, ("dedupe",), sources=(SourceReader(path="/in"),), key=("id",)
)
COUNTS = Counts(table=0, processed=0, waiting=21, everything=21, fresh_waiting=21)
INTO_FILES = SinkReport("files", "/w/customers_changes", None)
KAFKA_START = '{"clicks":{"0":7}}'


def crashed(**changes: Any) -> CheckpointReport:
    """Batch 0 took four of seven files, and nothing was committed."""
    words: dict[str, Any] = {
        "last_committed": None,
        "last_planned": 0,
        "sources": (SourceProgress(0, "files", None, None, planned=PLANNED),),
        "findings": (finding("FIRST_BATCH_PLANNED", "offsets/0"),),
        "batches": ({"batch": 0, "planned": True, "committed": False, "offsets": ['{"logOffset":0}']},),
    }
    return checkpoint(**{**words, **changes})


def flow(**changes: Any) -> Facts:
    held = source()
    begun = source(
        position=Position(0, "files", None, "nothing read yet", Precision.EXACT, True),
        processed=(),
        waiting=(*held.processed, *held.waiting),
    )
    words: dict[str, Any] = {
        "checkpoint": crashed(),
        "sources": (begun,),
        "sink": INTO_FILES,
        "counts": COUNTS,
        "old_code": None,
        "old_counts": None,
    }
    return facts(**{**words, **changes})


def judged(given: Facts) -> Option:
    return next(o for o in judge_all(given) if o.strategy == "continue")


@pytest.mark.parametrize("kind", ["files", "delta"])
@pytest.mark.parametrize("code", [None, KEYED], ids=["without state", "with state"])
def test_a_table_that_holds_nothing_of_it_gets_every_row_once(kind: str, code: CodeFacts | None) -> None:
    given = flow(sink=SinkReport(kind, "/w", None))
    option = judged(given if code is None else replace(given, new_code=code))
    assert option.blocker is None
    told = option.forecast
    amounts = [(a.rows, a.bound) for a in (told.lost, told.doubled, told.reread)]
    assert amounts == [(0, Bound.EXACT)] * 3
    assert (told.new_rows, told.table_after) == (21, 21)
    assert decide(judge_all(given), NOT_ASKED).strategy == "continue"


def test_it_is_a_seed_of_nothing_that_can_be_taken_back() -> None:
    option = judged(flow())
    steps = {str(step.kind): step.args for step in option.steps}
    assert [*steps] == ["stop", "backup", "seed", "rerun", "verify"]
    assert steps["seed"] == SeedArgs(action="begin", from_version=0, sources=(0,))
    assert option.undoable
    expected = {c.code: codec.to_json(c.expected) for c in option.criteria}
    assert expected["FIRST_BATCH_AT_POSITION"] == {"batch": 0, "offsets": [None]}
    assert expected["EACH_FILE_ONCE"] == {"scope": "both", "files": 7}
    assert expected["EVERY_ROW_ONCE"] == {"scope": "new", "key": []}


@pytest.mark.parametrize(
    "sink", [SinkReport("kafka", "out", None, declared="kafka"), SinkReport("foreach_batch", "f", None)]
)
def test_a_sink_without_a_memory_may_hold_all_of_the_batch(sink: SinkReport) -> None:
    option = judged(flow(sink=sink))
    assert option.blocker is None
    assert (option.forecast.doubled.rows, option.forecast.doubled.bound) == (21, Bound.AT_MOST)
    assert {c.code: c.expected for c in option.criteria}["EVERY_ROW_ONCE"].open == 0
    assert decide(judge_all(flow(sink=sink)), NOT_ASKED).strategy != "continue"


def test_a_patch_counts_no_rows_of_a_batch_that_other_code_wrote() -> None:
    patch = CodeFacts({"/p/q.py": "# fewer rows"}, (), sources=(SourceReader(path="/in"),))
    given = flow(sink=SinkReport("kafka", "out", None, declared="kafka"), new_code=patch)
    option = judged(given)
    assert (option.forecast.doubled.rows, option.forecast.doubled.bound) == (None, Bound.UNKNOWN)


def test_a_function_that_may_pass_over_the_batch_loses_a_number_of_rows_that_is_not_known() -> None:
    sink = SinkReport("delta", "/w", None, heads={"jobs-app": 4}, by_function=True)
    option = judged(flow(sink=sink))
    assert option.blocker is None
    assert (option.forecast.lost.rows, option.forecast.lost.bound) == (None, Bound.UNKNOWN)


def test_what_the_sink_may_hold_of_an_uncounted_batch_is_not_known() -> None:
    option = judged(flow(sink=SinkReport("foreach_batch", "f", None), counts=Counts()))
    assert option.blocker is None
    assert (option.forecast.doubled.rows, option.forecast.new_rows) == (None, None)


def test_where_the_table_has_the_batch_it_goes_on_after_it_without_state() -> None:
    report = crashed(
        findings=(
            finding("FIRST_BATCH_PLANNED", "offsets/0"),
            finding("SINK_UNCOMMITTED_BATCH", head=0),
        )
    )
    given = flow(checkpoint=report, sink=replace(INTO_FILES, head=0), sources=(source(),))
    option = judged(given)
    assert option.blocker is None
    (seed,) = (step.args_as(SeedArgs) for step in option.steps if step.kind == "seed")
    assert (seed.action, seed.last_committed) == (None, 0)
    blocked = judged(replace(given, new_code=KEYED)).blocker
    assert blocked is not None
    assert blocked.code in (BlockerCode.CODE_KEEPS_STATE, BlockerCode.CODE_KEEPS_SAME_STATE)


def test_a_table_that_would_swallow_batch_0_bars_it() -> None:
    blocked = judged(flow(sink=replace(INTO_FILES, head=3))).blocker
    assert blocked is not None
    assert blocked.code is BlockerCode.SINK_BARS


def test_planned_files_that_are_gone_are_a_loss_of_unknown_size_to_accept() -> None:
    given = flow()
    there = file_facts.facts_of(given.checkpoint.sources[0], [*given.sources[0].waiting[1:]], options={})
    held = replace(given.sources[0], waiting=given.sources[0].waiting[1:], facts=there)
    option = judged(replace(given, sources=(held,)))
    assert option.blocker is None
    lost = option.forecast.lost
    assert (lost.rows, lost.bound, lost.files) == (None, Bound.UNKNOWN, 1)


@pytest.mark.parametrize(
    ("table", "findings", "rows", "bound"),
    [
        (3, (), 3, Bound.AT_MOST),
        (None, (finding("SINK_WITHOUT_LOG", next=0),), None, Bound.UNKNOWN),
        (None, (), 0, Bound.EXACT),
    ],
)
def test_files_that_no_log_of_the_table_names_leave_it_with_the_first_commit(
    table: int | None, findings: tuple[Finding, ...], rows: int | None, bound: Bound
) -> None:
    given = flow(counts=replace(COUNTS, table=table))
    report = replace(given.checkpoint, findings=(*given.checkpoint.findings, *findings))
    told = judged(replace(given, checkpoint=report)).forecast
    assert (told.lost.rows, told.lost.bound) == (rows, bound)
    assert (told.new_rows, told.table_after) == (21, 21)


def kafka(options: dict[str, str], first: str | None, **changes: Any) -> Facts:
    begun = source(
        position=Position(0, "kafka", first, "clicks[0] at 7", Precision.EXACT, True),
        processed=(),
        waiting=(),
        options=options,
        reach=SourceRetention(True, "All of it is kept."),
    )
    held = SourceProgress(0, "kafka", None, first_json=first)
    return flow(checkpoint=crashed(sources=(held,)), sources=(begun,), **changes)


@pytest.mark.parametrize(
    ("first", "starting", "rows"),
    [
        (KAFKA_START, "latest", 0),
        (KAFKA_START, "earliest", 0),
        (None, "latest", None),
        (None, "earliest", None),
    ],
)
def test_a_kafka_source_begins_where_it_began_if_the_checkpoint_holds_that(
    first: str | None, starting: str, rows: int | None
) -> None:
    """Else its options decide, and `latest` passes over what the batch had planned."""
    option = judged(kafka({"startingOffsets": starting}, first))
    assert option.blocker is None
    assert option.forecast.lost.rows == rows


def test_what_lies_before_the_start_of_a_source_is_not_processed() -> None:
    held = Counts(processed=7, waiting=21)
    assert first_batch.count_processed(crashed(), held).processed == 0
    assert first_batch.count_processed(checkpoint(), held).processed == 7


def test_no_other_start_can_be_chosen() -> None:
    given = kafka({}, KAFKA_START)
    start = StartCandidate(
        '{"clicks":{"0":9}}', "9", Precision.EXACT, lost=Distance(rows=Amount(value=2)), reread=ZERO
    )
    chosen = replace(given, sources=(replace(given.sources[0], start=start),))
    blocked = judged(chosen).blocker
    assert blocked is not None
    assert blocked.code is BlockerCode.START_NOT_TAKEN


def test_a_source_that_the_new_code_adds_begins_where_its_options_say() -> None:
    """No position stands for either, so nothing has to be said of them."""
    given = flow()
    added = replace(given.sources[0], position=replace(given.sources[0].position, source=1), waiting=())
    code = CodeFacts({"/p/q.py": ""}, (), sources=(SourceReader(path="/in"), SourceReader(path="/more")))
    option = judged(replace(given, sources=(*given.sources, added), source_map=(0, None), new_code=code))
    assert option.blocker is None
    (seed,) = (step.args_as(SeedArgs) for step in option.steps if step.kind == "seed")
    assert seed.sources == (0, None)


def test_a_plain_program_has_this_way_too() -> None:
    options = {str(o.strategy): o for o in judge_all(flow(is_plain=True))}
    assert {s for s in ("continue", "revert", "full-refresh", "empty") if not options[s].blocker} == {
        "continue"
    }
