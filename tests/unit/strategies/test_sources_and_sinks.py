"""Every kind of source and sink judged: what may be continued, what is blocked and why, what is only at-least-once."""

from dataclasses import replace
from typing import Any

import pytest

from recovery.checkpoints.starts import SEEDABLE, WHY_NOT
from recovery.contracts import codec
from recovery.contracts.option import Option
from recovery.contracts.steps import UpdateArgs
from recovery.sinks import registry as sinks
from recovery.sinks.base import SinkReport
from recovery.sources import registry as sources
from recovery.sources.base import SourceRetention
from recovery.strategies.base import Counts, CoUpdatedFlow
from recovery.strategies.common import WORDS
from recovery.strategies.sinks import not_measured, not_required
from tests.unit.strategies.facts import checkpoint
from tests.unit.strategies.facts import facts as customers
from tests.unit.strategies.streams import DELTA, FILES, KAFKA, LOOSE, READABLE, of, options, source, stream

NOW_MS = 1_795_230_849_000  # gathered_at of the facts


def codes(option: Option) -> list[str]:
    return [f.code for f in option.findings]


@pytest.mark.parametrize("kind", [k for k in SEEDABLE if k != "files"])
@pytest.mark.parametrize("sink", [DELTA, FILES], ids=["delta", "files"])
def test_a_stream_that_can_be_seeded_goes_on_exactly(kind: str, sink: SinkReport) -> None:
    found = options(stream(kind, sink))
    option = found["continue"]
    forecast = option.forecast
    assert option.blocked is None
    assert option.recommended
    assert [(a.rows, a.exact) for a in (forecast.lost, forecast.doubled, forecast.reread)] == [(0, True)] * 3
    assert (forecast.new_rows, forecast.table_after) == (5, 15)
    assert found["revert"].blocked is None
    assert found["full-refresh"].blocked is None
    assert {c.code for c in option.criteria} == {
        "FIRST_BATCH_AT_POSITION",
        "EACH_FILE_ONCE",
        "ROWS_OF_BEFORE_UNTOUCHED",
        "TABLE_GREW_BY_NEW_BATCHES",
        "EVERY_ROW_ONCE",
        "COUNTS_EQUAL_FORECAST",
        "NOTHING_ELSE_CHANGED",
        "FURTHER_UPDATE_ADDS_NOTHING",
    }


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (['{"clicks":{"0":6}}'], "Batch 3 was planned by today's code, without topic orders"),
        (['{"orders":{"0":12}}'], None),
        (['{"orders":{"0":12},"clicks":{"0":6}}'], None),
        (["{"], "without topic orders"),
        ([], None),
    ],
    ids=["another topic", "the same", "a topic more", "unreadable", "not told"],
)
def test_the_old_code_is_not_started_on_a_batch_that_was_planned_over_another_topic(
    lines: list[str], words: str | None
) -> None:
    given = stream("kafka")
    batches = (
        {"batch": 3, "planned": True, "committed": False, "offsets": lines, "timestamp_ms": 1},
        {"batch": 2, "planned": True, "committed": True, "offsets": ['{"other":{"0":1}}'], "timestamp_ms": 1},
    )
    held = replace(given.checkpoint, last_planned=3, batches=batches)
    reason = options(replace(given, checkpoint=held))["revert"].blocked
    assert (words is None and reason is None) or words in reason


@pytest.mark.parametrize(("gone", "rows"), [(of(1, exact=False), 1), (None, None)], ids=["told", "not told"])
def test_what_retention_took_is_lost_by_an_empty_start_too(gone: Any, rows: int | None) -> None:
    reach = SourceRetention(False, "Offset 10 is gone.", lost=gone)
    lost = options(stream(sources=(source("kafka", reach=reach),)))["empty"].forecast.lost
    assert (lost.rows, lost.exact, lost.why) == (rows, False, "Offset 10 is gone.")


def test_words_are_those_of_the_source() -> None:
    forecast = options(stream("kafka"))["continue"].forecast
    assert forecast.lost.why == "Every committed record stays committed; every unread record is read."
    assert forecast.reread.why == "Reading goes on after orders partition 0 at 10."
    assert "unread file" in options(customers())["continue"].forecast.lost.why


NOT_CONTINUED = [kind for kind in sources.BY_NAME if kind not in SEEDABLE]


@pytest.mark.parametrize("kind", NOT_CONTINUED)
@pytest.mark.parametrize("strategy", ["continue", "revert"])
def test_a_kind_that_cannot_be_seeded_is_blocked_with_its_reason(kind: str, strategy: str) -> None:
    reason = options(stream(kind))[strategy].blocked or ""
    assert "Source 0 is of a kind that this version cannot seed" in reason
    assert WHY_NOT.get(kind, "") in reason


def test_a_source_of_which_the_checkpoint_holds_its_line_alone_goes_on_with_a_warning() -> None:
    """A Python data source: its offset line tells no kind."""
    given = stream("unknown")
    progress = replace(given.checkpoint.sources[0], offset_json='{"at": 10}', bare=True)
    asked = source("unknown", reach=None, position=replace(source("unknown").position, reachable=None))
    given = replace(given, checkpoint=replace(given.checkpoint, sources=(progress,)), sources=(asked,))
    option = options(given)["continue"]
    assert option.blocked is None
    assert "SOURCE_NOT_ASKED" in codes(option)
    assert not option.recommended


GONE = SourceRetention(False, "Partition 0 of orders begins at 12.", lost=of(2))
ASKED_NOT = source("kafka", facts=None, reach=None, problem="The brokers do not answer.")


@pytest.mark.parametrize("strategy", ["continue", "revert"])
def test_what_is_gone_after_the_position_blocks_with_its_rows(strategy: str) -> None:
    reason = options(stream(sources=(source("kafka", facts=None, reach=GONE),)))[strategy].blocked or ""
    assert "begins at 12. That is 2 rows. Choose a start behind that" in reason


@pytest.mark.parametrize("asked", [ASKED_NOT, source("kafka", reach=SourceRetention(None, "Not looked."))])
def test_a_source_that_could_not_be_asked_is_a_warning_and_never_a_promise(asked: Any) -> None:
    option = options(stream(sources=(asked,)))["continue"]
    assert option.blocked is None
    assert "SOURCE_NOT_ASKED" in codes(option)
    assert (option.forecast.lost.rows, option.forecast.lost.exact) == (None, False)
    assert not option.recommended


def test_input_that_spark_ignores_in_any_case_is_said_and_blocks_nothing() -> None:
    old = replace(customers().sources[0], reach=SourceRetention(False, "1 file is too old.", stops=False))
    option = options(customers(sources=(old,)))["continue"]
    assert option.blocked is None
    assert option.recommended
    assert "INPUT_IGNORED" in codes(option)


@pytest.mark.parametrize(("hours", "told"), [(1, True), (47, True), (49, False)])
def test_retention_that_strikes_soon_is_a_finding_with_its_time(hours: int, told: bool) -> None:
    due = replace(READABLE, until_ms=NOW_MS + hours * 3_600_000)
    found = options(stream(sources=(source("kafka", facts=None, reach=due),)))["continue"].findings
    says = [f.says for f in found if f.code == "RETENTION_SOON"]
    assert bool(says) == told
    assert not told or " UTC on." in says[0]


@pytest.mark.parametrize("kind", LOOSE)
def test_a_sink_that_remembers_nothing_is_named_at_least_once_with_the_rows_at_risk(kind: str) -> None:
    planned = checkpoint(last_planned=3, sources=stream().checkpoint.sources)
    option = options(stream(sink=LOOSE[kind], checkpoint=planned))["continue"]
    says = next(f.says for f in option.findings if f.code == "SINK_AT_LEAST_ONCE")
    assert option.blocked is None
    assert "t-least-once" in says
    assert "At risk: at most 5 rows." in says
    assert (option.forecast.doubled.rows, option.forecast.doubled.exact) == (5, False)
    assert not option.recommended


@pytest.mark.parametrize(
    ("kind", "best"), [("kafka", "continue"), ("foreach_batch", "continue"), ("unknown", "full-refresh")]
)
def test_at_least_once_is_recommended_only_where_nothing_is_written_again_and_nothing_exact_is_there(
    kind: str, best: str
) -> None:
    found = options(stream(sink=LOOSE[kind]))
    assert [name for name, o in found.items() if o.recommended] == [best]
    doubled = found["continue"].forecast.doubled
    assert (doubled.rows, doubled.exact) == (0, False)


ON_TABLES = {"ROWS_OF_BEFORE_UNTOUCHED", "TABLE_GREW_BY_NEW_BATCHES", "NO_KEY_TWICE"}
ON_ROWS = ON_TABLES | {"COUNTS_EQUAL_FORECAST", "FURTHER_UPDATE_ADDS_NOTHING"}
CRITERIA = {
    "files": set(),
    "delta": set(),
    "kafka": ON_TABLES,  # what came is what the new batches sent: it says nothing
    **dict.fromkeys([name for name, kind in sinks.BY_NAME.items() if not kind.COMPARED], ON_ROWS),
}


@pytest.mark.parametrize("declared", ["", "some format"], ids=["table", "declared"])
@pytest.mark.parametrize("kind", sinks.BY_NAME)
def test_criteria_that_nobody_can_measure_are_left_out_but_for_the_one_that_proves(
    kind: str, declared: str
) -> None:
    sink = SinkReport(kind, "/w", 2, declared=declared)
    told = {c.code for c in options(stream(sink=sink))["continue"].criteria}
    without = ON_ROWS if declared and kind != "kafka" else CRITERIA[kind]
    assert told == set(WORDS) - without - {"NO_KEY_TWICE"}  # no key is known here
    assert not_measured(sink) == without


def test_the_start_of_a_plain_stream_starts_the_other_queries_of_its_program() -> None:
    alone = replace(stream(), is_plain=True)
    among = options(replace(alone, beside=(CoUpdatedFlow("logins", "/out/logins", "logins"),)))["continue"]
    assert "WHOLE_PROGRAM_RUNS" not in codes(options(alone)["continue"])
    assert "WHOLE_PROGRAM_RUNS" in codes(among)
    assert "WHOLE_PIPELINE_RUNS" not in codes(among)


def test_a_declared_sink_is_updated_with_its_whole_pipeline_and_the_plan_says_which_flows_run_too() -> None:
    alone = stream(sink=replace(LOOSE["kafka"], declared="kafka"))
    beside = (
        CoUpdatedFlow("a.b.orders_flow", "a.b.orders", "orders"),
        CoUpdatedFlow("a.b.users", "a.b.users", "users"),
    )
    among = options(replace(alone, beside=beside))["continue"]

    assert options(alone)["continue"].steps[-2].args == UpdateArgs(refresh=())
    assert "WHOLE_PIPELINE_RUNS" not in codes(options(alone)["continue"])
    says = next(f.says for f in among.findings if f.code == "WHOLE_PIPELINE_RUNS")
    assert "orders, users too" in says
    expected = {c.code: codec.to_json(c.expected) for c in among.criteria}["NOTHING_ELSE_CHANGED"]
    assert expected["ran"] == [
        "checkpoint a.b.orders_flow",
        "checkpoint a.b.users",
        "table a.b.orders",
        "table a.b.users",
    ]
    assert not_required(alone.sink) >= {"NOTHING_ELSE_CHANGED"}


def test_a_declared_sink_is_read_again_by_resetting_its_flow_and_no_table() -> None:
    sink = SinkReport("delta", "/w", 2, heads={"q-1": 2}, declared="delta")
    option = options(stream(sink=sink))["full-refresh"]

    rerun = next(s for s in option.steps if s.kind == "rerun")
    assert rerun.args == UpdateArgs(refresh=(), reset=(stream().flow,))
    assert "SINK_NOT_EMPTIED" in codes(option)
    assert option.forecast.table_after is None


BARRED = [
    ("files behind", SinkReport("files", "/w", 1), "continue", "could no longer be read"),
    ("files ahead", SinkReport("files", "/w", 4), "continue", "At most 5 rows would be among them."),
    ("files ahead, old query", SinkReport("files", "/w", 4), "revert", "batches 3 to 4"),
    ("Delta ahead, old query", SinkReport("delta", "/w", 4, heads={"q-1": 4}), "revert", "batches 3 to 4"),
]


@pytest.mark.parametrize(("sink", "strategy", "words"), [b[1:] for b in BARRED], ids=[b[0] for b in BARRED])
def test_batches_that_would_vanish_block_and_say_which_rows(
    sink: SinkReport, strategy: str, words: str
) -> None:
    assert words in (options(stream(sink=sink))[strategy].blocked or "")


def test_delta_under_a_new_id_takes_a_seed_whatever_its_head_is() -> None:
    assert options(stream(sink=SinkReport("delta", "/w", 7, heads={"q-1": 7})))["continue"].blocked is None


def test_a_planned_batch_that_the_table_has_under_an_unknown_id_may_be_doubled() -> None:
    planned = checkpoint(last_planned=3, sources=stream().checkpoint.sources)
    sink = SinkReport("delta", "/w", None, heads={"lost": 3})
    doubled = options(stream(sink=sink, checkpoint=planned))["continue"].forecast.doubled
    assert (doubled.rows, doubled.exact) == (5, False)


# options of the reader -> (lost, doubled, reread, new rows) of a full refresh, and whether the losses are exact
KAFKA_CUT = replace(KAFKA, topics={"orders": replace(KAFKA.topics["orders"], partitions={})})
FRESH = [
    ({"startingOffsets": "earliest"}, (0, 0, 10, 15), True),
    ({}, (15, 0, 0, None), True),  # latest is the default: nothing comes back
    ({"STARTINGOFFSETS": "latest"}, (15, 0, 0, None), True),
    ({"startingOffsets": '{"orders":{"0":3}}'}, (None, None, None, None), False),
    ({"startingTimestamp": "5"}, (None, None, None, None), False),
]


@pytest.mark.parametrize(("told", "rows", "exact"), FRESH, ids=lambda v: str(v)[:30])
def test_a_full_refresh_begins_where_the_reader_says(
    told: dict[str, str], rows: tuple[int | None, ...], exact: bool
) -> None:
    forecast = options(stream(sources=(source("kafka", options=told),)))["full-refresh"].forecast
    got = (forecast.lost.rows, forecast.doubled.rows, forecast.reread.rows, forecast.new_rows)
    assert got == rows
    assert forecast.lost.exact == exact


def test_a_full_refresh_over_a_topic_that_was_cut_says_so_and_is_not_exact() -> None:
    low = replace(KAFKA.topics["orders"].partitions[0], low=4)
    cut = replace(KAFKA, topics={"orders": replace(KAFKA.topics["orders"], partitions={0: low})})
    given = stream(sources=(source("kafka", facts=cut),), counts=Counts(table=10, processed=6, everything=11))
    forecast = options(given)["full-refresh"].forecast
    assert (forecast.lost.rows, forecast.lost.exact) == (4, False)
    assert "orders-0 no longer begin at offset 0" in forecast.lost.why
    assert forecast.doubled.rows is None


def test_a_full_refresh_of_a_sink_that_is_no_table_writes_all_of_it_again() -> None:
    option = options(stream(sink=LOOSE["kafka"]))["full-refresh"]
    assert (option.forecast.lost.rows, option.forecast.doubled.rows) == (0, 10)
    assert "SINK_NOT_EMPTIED" in codes(option)
    assert "TABLE_EMPTIED" not in codes(option)


def test_where_nobody_can_count_the_keys_that_are_forgotten_none_are_named() -> None:
    given = stream(sink=LOOSE["kafka"], counts=Counts(table=None, processed=10, waiting=5, everything=15))
    says = next(f.says for f in options(given)["continue"].findings if f.code == "STATE_DROPPED")
    assert says.startswith("If a record with one of the keys known to the old dropDuplicates arrives again")


@pytest.mark.parametrize(
    ("heads", "head", "open_batch"),
    [({"q-1": 2}, 2, None), ({"old": 3}, None, 3), ({"old": 2}, None, None)],
    ids=["not in the table", "in it under an id that was lost", "under no id"],
)
def test_a_plan_tells_the_proof_of_a_batch_that_the_table_may_have(
    heads: dict[str, int], head: int | None, open_batch: int | None
) -> None:
    given = stream("kafka", SinkReport("delta", "/w", head, heads=heads))
    option = options(replace(given, checkpoint=replace(given.checkpoint, last_planned=3)))["continue"]
    wanted = next(codec.to_json(c.expected) for c in option.criteria if c.code == "EVERY_ROW_ONCE")
    assert wanted.get("open") == open_batch
    assert (option.forecast.doubled.rows == 0) is (open_batch is None)
