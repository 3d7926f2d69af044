"""Chosen starts: what they cost, what the seed is told, and that nothing which loses rows is ever recommended."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from recovery.checkpoints.report import CheckpointReport, SourceEntry, SourceProgress
from recovery.checkpoints.seed import SourceStart
from recovery.contracts import codec
from recovery.contracts.amounts import Amount, Bound
from recovery.contracts.option import Option
from recovery.contracts.readers import SourceReader
from recovery.contracts.steps import SeedArgs
from recovery.sinks.base import SinkReport
from recovery.sources import files, kafka
from recovery.sources.base import Distance, SourceFacts, SourceRetention, StartChoice
from recovery.strategies.base import Counts, Facts
from recovery.strategies.catalogue import judge_all
from tests.unit.strategies.facts import FILES, checkpoint, entries
from tests.unit.strategies.facts import facts as customers
from tests.unit.strategies.facts import source as customers_source
from tests.unit.strategies.streams import KAFKA, LINES, NO_ROW, of, source, start, stream

COUNTED = Counts(table=10, processed=10, waiting=9, everything=15, reread=4)
SKIPPED = Counts(table=10, processed=10, waiting=2, everything=15, skipped=3)
LOOSE = SinkReport("kafka", "t", None)


def options(told: Facts) -> dict[str, Option]:
    return {o.strategy: o for o in judge_all(told)}


def codes(option: Option) -> list[str]:
    return [f.code for f in option.findings]


def back(**more: Any) -> SourceFacts:
    return source("kafka", start=start("6", reread=of(4), **more))


def ahead(**more: Any) -> SourceFacts:
    return source("kafka", start=start("13", lost=of(3), **more))


# source, counts -> lost, doubled, reread: rows and exact; codes of findings
CASES: dict[str, tuple[SourceFacts, dict[str, Any], list[tuple[int | None, bool]], set[str]]] = {
    "back, counted": (back(), {"counts": COUNTED}, [(0, True), (4, True), (4, True)], {"START_REPEATS"}),
    "back, not counted": (
        back(),
        {"counts": replace(COUNTED, reread=None)},
        [(0, True), (4, False), (4, False)],
        {"START_REPEATS"},
    ),
    "back, not known": (
        source("kafka", start=start("6", reread=Distance())),
        {"counts": replace(COUNTED, reread=None)},
        [(0, True), (None, False), (None, False)],
        {"START_REPEATS"},
    ),
    "ahead, counted": (ahead(), {"counts": SKIPPED}, [(3, True), (0, True), (0, True)], {"START_SKIPS"}),
    "ahead, not counted": (
        ahead(),
        {"counts": replace(SKIPPED, skipped=None)},
        [(3, False), (0, True), (0, True)],
        {"START_SKIPS"},
    ),
    "both": (
        source("kafka", start=start("6", lost=of(3), reread=of(4))),
        {"counts": replace(COUNTED, skipped=3)},
        [(3, True), (4, True), (4, True)],
        {"START_SKIPS", "START_REPEATS"},
    ),
    "back, at-least-once": (
        back(),
        {"counts": COUNTED, "sink": LOOSE},
        [(0, True), (4, False), (4, True)],
        {"START_REPEATS", "SINK_AT_LEAST_ONCE"},
    ),
    "where it stood": (
        source("kafka", start=start("10")),
        {},
        [(0, True), (0, True), (0, True)],
        set(),
    ),
}


@pytest.mark.parametrize(("at", "changes", "rows", "told"), CASES.values(), ids=CASES.keys())
def test_a_chosen_start_costs_what_its_rows_say(
    at: SourceFacts, changes: dict[str, Any], rows: list[tuple[int | None, bool]], told: set[str]
) -> None:
    option = options(stream(sources=(at,), **changes))["continue"]
    forecast = option.forecast
    assert option.blocked is None
    assert [(a.rows, a.exact) for a in (forecast.lost, forecast.doubled, forecast.reread)] == rows
    assert {c for c in codes(option) if c.startswith(("START", "SINK_AT"))} == told
    harmless = rows[0] == (0, True) and rows[1][0] == 0
    assert option.recommended == harmless
    expected = {c.code: codec.to_json(c.expected) for c in option.criteria}
    assert at.start is not None
    assert expected["FIRST_BATCH_AT_POSITION"]["offsets"] == [at.start.offset_json]


@pytest.mark.parametrize("sink", [None, LOOSE], ids=["exact", "at least once"])
def test_rows_that_the_code_may_make_many_of_are_an_estimate_and_no_limit(sink: SinkReport | None) -> None:
    """The source counts 4 records; code that explodes them writes more."""
    told = stream(sources=(back(),), sink=sink, counts=replace(COUNTED, reread=None))
    doubled = options(told)["continue"].forecast.doubled
    assert (doubled.rows, doubled.bound) == (4, Bound.ESTIMATE)


FUNCTION = SinkReport("delta", "/w", None, heads={"q-1": 2}, by_function=True)


@pytest.mark.parametrize(
    ("sink", "lost"),
    [
        (replace(FUNCTION, heads={"q-1": 2, "orders": 3}), (None, Bound.UNKNOWN)),
        (replace(FUNCTION, heads={"q-1": 2, "orders": 40}), (None, Bound.UNKNOWN)),
        (replace(FUNCTION, heads={"orders": 2}), (0, Bound.EXACT)),
        (replace(FUNCTION, heads={"q-1": 3}), (0, Bound.EXACT)),
        (replace(FUNCTION, heads={"orders": 3}, by_function=False), (0, Bound.EXACT)),
    ],
    ids=["has the next batch", "far ahead", "as far as the checkpoint", "its own id", "written by Spark"],
)
def test_a_function_may_pass_over_a_batch_whose_number_its_table_has(
    sink: SinkReport, lost: tuple[int | None, Bound]
) -> None:
    """As it does by txnAppId and txnVersion. A seed gives the batch of that number more input than it had."""
    option = options(stream(sink=sink, is_plain=True))["continue"]
    assert (option.forecast.lost.rows, option.forecast.lost.bound) == lost
    assert ("FUNCTION_MAY_PASS_OVER" in codes(option)) is (lost[0] is None)


@pytest.mark.parametrize(
    ("heads", "operators", "is_warned"),
    [
        ({"orders": 3}, True, True),
        ({"orders": 3}, False, False),
        ({"orders": 2}, True, False),
        ({"q-1": 3}, True, False),
    ],
    ids=["has the planned batch", "no state", "has not", "its own id"],
)
def test_a_function_may_skip_the_state_of_a_batch_that_its_table_has(
    heads: dict[str, int], operators: bool, is_warned: bool
) -> None:
    held = stream(sink=replace(FUNCTION, heads=heads))
    assert held.old_code is not None
    planned = replace(held, checkpoint=replace(held.checkpoint, last_planned=3))
    if not operators:
        planned = replace(
            planned,
            checkpoint=replace(planned.checkpoint, state_operators=()),
            old_code=replace(held.old_code, operators=()),
        )
    option = options(planned)["revert"]
    assert option.blocked is None
    assert ("FUNCTION_MAY_SKIP_STATE" in codes(option)) is is_warned


def test_the_seed_is_told_where_to_start_only_where_something_differs() -> None:
    def starts(facts: Facts) -> Any:
        (seed,) = (s for s in options(facts)["continue"].steps if s.kind == "seed")
        return seed.args_as(SeedArgs).starts

    assert starts(stream()) is None
    assert starts(stream(sources=(source("kafka", start=start("10")),))) is None
    (begun,) = starts(stream(sources=(back(),), counts=COUNTED))
    assert SourceStart.from_args(begun) == SourceStart(0, 0, '{"orders":{"0":6}}')


def test_a_finding_says_the_rows_and_what_was_taken_in_place_of_the_wish() -> None:
    words = {"orders-0": "No record is of that time or later, so its end was taken."}
    option = options(stream(sources=(ahead(fallbacks=words),), counts=SKIPPED))["continue"]
    says = next(f.says for f in option.findings if f.code == "START_SKIPS")
    assert "3 rows in between are never read." in says
    assert words["orders-0"] in says


@pytest.mark.parametrize("strategy", ["revert", "repair"])
def test_what_keeps_the_checkpoint_cannot_start_elsewhere(strategy: str) -> None:
    reason = options(stream(sources=(back(),), counts=COUNTED))[strategy].blocked
    assert reason == (
        f"{strategy} takes the positions of the checkpoint, and Source 0 would start elsewhere; choose continue."
    )


def test_a_full_refresh_says_that_it_leaves_the_start_aside() -> None:
    assert "START_NOT_TAKEN" in codes(options(stream(sources=(back(),), counts=COUNTED))["full-refresh"])


def test_a_wish_that_cannot_be_met_blocks_and_is_not_left_aside() -> None:
    refused = source("kafka", problem="Kafka was not asked for that time.")
    assert "not asked for that time" in (options(stream(sources=(refused,)))["continue"].blocked or "")


def test_a_start_behind_what_is_gone_may_go_on() -> None:
    low = replace(KAFKA.topics["orders"].partitions[0], low=12)
    cut = replace(KAFKA, topics={"orders": replace(KAFKA.topics["orders"], partitions={0: low})})

    def at(line: str, **more: Any) -> SourceFacts:
        return source("kafka", facts=cut, reach=kafka.judge_reach(line, cut), **more)

    assert "begins at 12" in (options(stream(sources=(at(LINES["kafka"]),)))["continue"].blocked or "")
    chosen = start("12", lost=of(2, exact=False))
    told = at(chosen.offset_json, start=chosen)
    option = options(stream(sources=(told,), counts=replace(SKIPPED, skipped=None)))["continue"]
    assert option.blocked is None
    assert (option.forecast.lost.rows, option.forecast.lost.exact) == (2, False)
    assert not option.recommended


def gone_file(wanted: StartChoice | None) -> SourceFacts:
    """File 5 was planned and is gone, file 1 was read and is gone."""
    planned = SourceEntry(FILES[4], 1004, 3)
    there = [f for f in LISTED if f.path not in (FILES[0], FILES[4])]
    facts = files.FileSourceFacts(log=(*entries(), planned), listing=tuple(there), asked_ms=5000)
    begun = None if wanted is None else files.find_position(wanted, '{"logOffset":2}', facts)
    read = {files.decode_uri(e.path) for e in begun.read} if begun else {*FILES[:4]}
    return customers_source(
        start=begun,
        facts=facts,
        reach=files.reach_from(begun, '{"logOffset":2}', facts),
        processed=tuple(f for f in there if f.path in FILES[:4]),
        waiting=tuple(f for f in there if f.path not in read),
        gone=(FILES[0],),
    )


@pytest.mark.parametrize(
    ("wanted", "blocked"),
    [(None, True), (StartChoice(earliest=True), True), (StartChoice(by_hand='{"logOffset":3}'), False)],
)
def test_a_planned_file_that_is_gone_has_to_be_left_behind_by_choice(
    wanted: StartChoice | None, blocked: bool
) -> None:
    reason = options(customers(sources=(gone_file(wanted),)))["continue"].blocked
    assert ("1 file after this position is gone" in (reason or "")) == blocked
    assert (reason is None) != blocked


def test_a_watermark_does_nothing_to_a_query_without_state_and_that_is_said() -> None:
    def told(checkpoint: CheckpointReport) -> list[str]:
        given = stream(sources=(back(),), counts=COUNTED, checkpoint=checkpoint)
        return codes(options(given)["continue"])

    report = stream().checkpoint
    assert "WATERMARK_KEPT" in told(replace(report, closed_ms=60_000))
    assert "WATERMARK_KEPT" not in told(replace(report, closed_ms=0))


LISTED = (*customers_source().processed, *customers_source().waiting)
LOG = files.FileSourceFacts(log=tuple(entries()), listing=LISTED, asked_ms=5000)


def wished(wanted: StartChoice) -> SourceFacts:
    """The customers' source at a wished start, as the look at it would tell."""
    found = files.find_position(wanted, '{"logOffset":2}', LOG)
    read = {files.decode_uri(e.path) for e in found.read}
    waits = tuple(f for f in LISTED if f.path not in read)
    return customers_source(start=found, facts=LOG, waiting=waits)


# wish -> line, files read again, files skipped, files in all
WISHES = [
    (StartChoice(earliest=True), '{"logOffset":-1}', FILES[:4], [], 7),
    (StartChoice(file=FILES[1]), '{"logOffset":1}', FILES[2:4], [], 7),
    (StartChoice(latest=True), '{"logOffset":3}', [], FILES[4:], 7),
    (StartChoice(file=FILES[4]), '{"logOffset":3}', [], FILES[4:5], 7),
]


@pytest.mark.parametrize(("wanted", "line", "again", "skip", "total"), WISHES)
def test_files_are_named_one_by_one(
    wanted: StartChoice, line: str, again: list[str], skip: list[str], total: int
) -> None:
    given = customers(sources=(wished(wanted),), counts=Counts(table=12, waiting=5))
    option = options(given)["continue"]
    assert option.blocked is None
    (seed,) = (s.args_as(SeedArgs) for s in option.steps if s.kind == "seed")
    assert seed.starts is not None
    begun = SourceStart.from_args(seed.starts[0])
    assert (begun.offset_json, list(begun.again)) == (line, again)
    assert [files.decode_uri(e.path) for e in begun.skip] == skip
    expected = {c.code: codec.to_json(c.expected) for c in option.criteria}
    assert expected["EACH_FILE_ONCE"] == {"scope": "same", "files": total}
    assert expected["EVERY_ROW_ONCE"].get("again", False) is bool(again)
    assert not option.recommended
    (row,) = option.positions
    assert row.after.offset_json == line
    assert row.next.files == total - len(begun.skip) - (4 - len(again))


def test_a_start_that_spark_could_not_go_on_from_is_blocked_with_the_sentence_of_the_seed() -> None:
    """After batch 0 a restart asks for every log id."""
    first = checkpoint(last_committed=0, last_planned=0)
    told = wished(StartChoice(by_hand='{"logOffset":1}'))
    assert isinstance(told.start, files.FileCandidate)
    gap = replace(told.start, read=tuple(e for e in told.start.read if e.batch_id))
    given = customers(
        checkpoint=first,
        sink=SinkReport("files", "/w", 0),
        sources=(replace(told, start=gap),),
    )
    assert "no file has log id 0" in (options(given)["continue"].blocked or "")


rows = some.none() | some.integers(0, 5)
distances = some.builds(
    lambda n, exact: Distance(
        rows=None if n is None else Amount(value=n, bound=Bound.ESTIMATE.unless(exact))
    ),
    rows,
    some.booleans(),
)
sinks = some.sampled_from(
    [
        SinkReport("files", "/w", 2),
        SinkReport("delta", "/w", 2, heads={"q-1": 2}),
        LOOSE,
        SinkReport("foreach_batch", "f", None),
        SinkReport("unknown", "/w", None),
    ]
)


@settings(max_examples=300, deadline=None)
@given(data=some.data())
def test_nothing_that_may_lose_or_double_rows_is_recommended_and_nothing_uncounted_is_exact(
    data: some.DataObject,
) -> None:
    cost = {
        "lost": data.draw(distances | some.just(NO_ROW)),
        "reread": data.draw(distances | some.just(NO_ROW)),
    }
    chosen = data.draw(some.sampled_from([None, start("6", **cost)]))
    reach = data.draw(some.sampled_from([files.SourceRetention(v, "Why.") for v in (True, None, False)]))
    asked = data.draw(some.sampled_from([KAFKA, None]))
    counts = Counts(*(data.draw(rows) for _ in range(4)), reread=data.draw(rows), skipped=data.draw(rows))
    told = data.draw(some.sampled_from([{}, {"startingOffsets": "earliest"}, {"startingOffsets": "{}"}]))
    report = stream().checkpoint
    given = stream(
        sink=data.draw(sinks),
        sources=(source("kafka", start=chosen, reach=reach, facts=asked, options=told),),
        counts=counts,
        checkpoint=replace(report, last_planned=data.draw(some.sampled_from([2, 3]))),
    )
    for option in judge_all(given):
        forecast = option.forecast
        for amount in (forecast.lost, forecast.doubled, forecast.reread):
            assert amount.why
            assert not (amount.exact and amount.rows is None)
        if option.recommended:
            assert option.blocked is None
            assert (forecast.lost.rows, forecast.doubled.rows) == (0, 0)
            assert forecast.lost.exact
        if forecast.lost.exact and forecast.lost.rows and option.strategy == "continue":
            assert counts.skipped == forecast.lost.rows
        if forecast.reread.exact and forecast.reread.rows and option.strategy == "continue":
            assert counts.reread == forecast.reread.rows


@pytest.mark.parametrize("asked", [True, False])
def test_what_a_start_skips_is_all_that_is_lost_only_where_every_other_source_was_asked(asked: bool) -> None:
    other = source("delta", position=replace(source("delta").position, source=1))
    if not asked:
        other = replace(other, reach=SourceRetention(None, "Its log could not be read."))
    kinds = ("kafka", "delta")
    readers = tuple(map(SourceReader, kinds))
    progress = tuple(SourceProgress(n, kind, LINES[kind]) for n, kind in enumerate(kinds))
    told = stream(sources=(source("kafka", start=start("13", lost=of(3))), other), counts=SKIPPED)
    code = replace(told.new_code, sources=readers)
    told = replace(told, new_code=code, code=code, checkpoint=replace(told.checkpoint, sources=progress))
    lost = options(told)["continue"].forecast.lost
    assert (lost.rows, lost.exact) == (3, asked)
    assert ("Its log could not be read. So it may be more." in lost.why) is not asked
