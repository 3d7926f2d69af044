"""Starts from nothing, an empty checkpoint or a full refresh: what each source and sink makes of batch 0."""

from dataclasses import replace
from typing import Any

import pytest

from recovery.checkpoints.report import Finding, Severity
from recovery.contracts import codec
from recovery.contracts.amounts import Bound
from recovery.contracts.names import ChangeIntent
from recovery.contracts.option import BlockerCode
from recovery.contracts.positions import LabelledPosition, MovedPart, PartMove, ReadableInput
from recovery.contracts.steps import UpdateArgs
from recovery.sinks import kafka
from recovery.sinks.base import SinkReport
from recovery.strategies.base import CodeFacts, Counts, Facts, KeyKind
from recovery.strategies.catalogue import judge_all
from recovery.strategies.deciding import decide
from recovery.verification.criteria import REQUIRED
from tests.unit.strategies.facts import checkpoint
from tests.unit.strategies.facts import facts as customers
from tests.unit.strategies.streams import DELTA, FILES, LOOSE, READABLE, of, options, source, stream

EARLIEST = {"startingOffsets": "earliest"}


def reset(**changes: Any) -> Facts:
    """Into Delta, from the first record on: nothing is lost by reading all of it again."""
    return stream(**{"sink": DELTA, "sources": (source("kafka", options=EARLIEST),), **changes})


EMPTY = [
    ("kafka, latest", {}, DELTA, (5, 0), BlockerCode.RESET_LOSES),
    ("kafka, earliest, delta", EARLIEST, DELTA, (0, 10), None),
    ("kafka, earliest, files", EARLIEST, FILES, (None, None), BlockerCode.RESET_UNTOLD),
    ("kafka, its own offsets", {"startingOffsets": "{}"}, DELTA, (None, None), BlockerCode.RESET_UNTOLD),
    ("into Kafka", EARLIEST, LOOSE["kafka"], (0, 10), None),
]


@pytest.mark.parametrize(("told", "sink", "rows", "code"), [e[1:] for e in EMPTY], ids=[e[0] for e in EMPTY])
def test_an_empty_reset_says_what_it_loses_and_doubles(
    told: dict[str, str], sink: SinkReport, rows: tuple[int | None, int | None], code: BlockerCode | None
) -> None:
    option = options(stream(sink=sink, sources=(source("kafka", options=told),)))["empty"]
    assert (option.forecast.lost.rows, option.forecast.doubled.rows) == rows
    assert (option.blocker.code if option.blocker else None) is code


def test_an_empty_reset_resets_the_checkpoint_alone_and_has_no_way_back() -> None:
    option = options(reset())["empty"]
    assert [s.kind for s in option.steps] == ["stop", "rerun", "verify"]
    flow, table = reset().flow, reset().dataset
    assert next(s.args for s in option.steps if s.kind == "rerun") == UpdateArgs(
        refresh=(table,), reset=(flow,)
    )
    expected = {c.code: codec.to_json(c.expected) for c in option.criteria}
    assert expected.keys() >= set(REQUIRED["empty"]) | {"ROWS_OF_BEFORE_UNTOUCHED"}
    assert expected["FIRST_BATCH_AT_POSITION"] == {"batch": 0, "offsets": [None]}
    assert expected["EACH_FILE_ONCE"]["scope"] == "again"
    assert expected["COUNTS_EQUAL_FORECAST"] == {"new_rows": 15}
    assert not option.undoable


def test_an_empty_reset_of_a_sink_that_the_code_declares_updates_the_pipeline() -> None:
    option = options(reset(sink=replace(LOOSE["kafka"], declared="kafka")))["empty"]
    assert next(s.args for s in option.steps if s.kind == "rerun") == UpdateArgs(reset=(reset().flow,))


def test_where_a_key_is_known_an_empty_reset_doubles_each_new_row_beyond_the_first_of_its_key() -> None:
    counts = replace(reset().counts, fresh_everything=4)
    keyed = replace(reset().new_code, key=("id",), key_kind=KeyKind.OLD_CODE)
    doubled = options(reset(counts=counts, new_code=keyed))["empty"].forecast.doubled
    assert (doubled.rows, doubled.bound) == (11, Bound.EXACT)
    untold = options(reset(new_code=keyed))["empty"].forecast.doubled
    assert (untold.rows, untold.bound) == (10, Bound.ESTIMATE)


def test_an_empty_reset_is_never_recommended_though_nothing_was_read_yet() -> None:
    """It is no way out where continue is none: it keeps no position."""
    nothing = reset(counts=Counts(table=0, processed=0, waiting=5, everything=5))
    assert options(nothing)["empty"].blocked is None
    for answer in (None, *ChangeIntent):
        assert decide([options(nothing)["empty"]], answer).strategy == ""


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"active_update": "u-9"}, BlockerCode.UPDATE_RUNNING),
        ({"is_plain": True}, BlockerCode.NO_REFRESH),
        ({"new_code": CodeFacts({}, None, "line 3")}, BlockerCode.CODE_NOT_ANALYSED),
        ({"counts": Counts(table=10)}, BlockerCode.RESET_UNTOLD),
    ],
    ids=["running", "plain", "not analysed", "not counted"],
)
def test_an_empty_reset_is_blocked_where_it_cannot_run(changes: dict[str, Any], code: BlockerCode) -> None:
    blocker = options(reset(**changes))["empty"].blocker
    assert blocker is not None
    assert blocker.code is code


@pytest.mark.parametrize("strategy", ["full-refresh", "backfill"])
def test_a_table_that_another_flow_writes_too_is_not_refreshed_for_one_of_them(strategy: str) -> None:
    blocker = options(reset(writers=("other_flow",)))[strategy].blocker
    assert blocker is not None
    assert blocker.code is BlockerCode.REFRESH_SHARED_TABLE
    assert "other_flow" in blocker.says


def test_a_plain_program_is_given_no_recipe_for_a_reset_that_loses_its_rows() -> None:
    """Its table of files would pass over the new batches, as anybody's would."""
    option = options(customers(sink=FILES, is_plain=True))["empty"]
    assert option.forecast.lost.rows != 0
    assert option.blocker is not None
    assert option.blocker.code is BlockerCode.NO_REFRESH
    assert "then start it" not in option.blocker.says


def test_an_empty_reset_over_files_into_delta_doubles_all_that_was_read() -> None:
    forecast = options(customers(sink=DELTA))["empty"].forecast
    assert (forecast.lost.rows, forecast.doubled.rows, forecast.new_rows) == (0, 13, 21)


def test_a_planned_batch_may_be_sent_again_by_a_start_from_nothing() -> None:
    """Kafka remembers nothing: the 10 rows that were committed, and at most the 5 of a batch that may be out."""
    earliest = (source("kafka", options={"startingOffsets": "earliest"}),)
    held = stream(sink=LOOSE["kafka"], sources=earliest)
    last = held.checkpoint.last_committed
    assert last is not None
    open_batch = replace(held, checkpoint=replace(held.checkpoint, last_planned=last + 1))
    for name in ("full-refresh", "empty"):
        told = options(open_batch)[name].forecast
        assert (told.doubled.rows, told.doubled.exact, told.new_rows) == (15, False, 15), name


@pytest.mark.parametrize(
    ("sink", "blocks"),
    [
        (replace(FILES, declared="parquet"), True),
        (replace(DELTA, declared="delta"), False),  # under a new query id it takes every number
        (LOOSE["kafka"], False),
    ],
    ids=["files", "delta", "kafka"],
)
def test_a_full_refresh_is_blocked_at_a_sink_that_keeps_its_numbers_and_is_not_emptied(
    sink: SinkReport, blocks: bool
) -> None:
    """It would begin with batch 0, and the rows of every batch that the sink has would vanish."""
    reason = options(stream(sink=sink, sources=(source("kafka", options={"startingOffsets": "earliest"}),)))
    found = reason["full-refresh"].blocked or ""
    assert ("and skips" in found) is blocks
    assert bool(found) is blocks


def test_files_of_a_planned_batch_may_be_handed_to_foreach_batch_again_too() -> None:
    """13 rows were committed, and at most the 8 that wait may be out; each of them comes once now."""
    read = customers(sink=LOOSE["foreach_batch"])
    last = read.checkpoint.last_committed
    assert last is not None
    option = options(replace(read, checkpoint=replace(read.checkpoint, last_planned=last + 1)))["empty"]
    doubled = option.forecast.doubled
    assert (doubled.rows, doubled.exact, option.forecast.new_rows) == (21, False, 21)
    assert option.blocked is None


def test_a_full_refresh_promises_no_row_where_what_was_read_could_not_be_counted() -> None:
    lost = options(
        stream(
            sink=DELTA,
            sources=(source("kafka", options={"startingOffsets": "earliest"}),),
            counts=Counts(table=12),
        )
    )["full-refresh"].forecast.lost
    assert (lost.rows, lost.exact) == (None, False)


def test_an_empty_reset_cuts_the_files_of_each_source_by_its_own_limit() -> None:
    """Batches 0 to 2, which the table has, hold six files of one source and all of the other, four of them unread."""
    one = customers().sources[0]
    other = tuple(replace(f, path=f"{f.path}.2") for f in (*one.processed, *one.waiting)[:4])
    two = replace(one, processed=(), waiting=other, max_files_per_trigger=2)
    found = (replace(one, max_files_per_trigger=2), replace(two, position=replace(one.position, source=1)))
    rows = customers().counts.by_file | {f.path: 10 for f in other}
    counts = replace(customers().counts, waiting=48, by_file=rows)
    forecast = options(customers(sources=found, counts=counts))["empty"].forecast
    assert (forecast.lost.files, forecast.doubled.files) == (2 + 4, 0)
    assert forecast.lost.rows is not None
    assert (forecast.lost.exact, forecast.new_rows) == (True, 48 - forecast.lost.rows)


def test_an_empty_reset_takes_the_newest_files_first_where_the_reader_does() -> None:
    one = replace(customers().sources[0], max_files_per_trigger=1, options={"LatestFirst": "true"})
    forecast = options(customers(sources=(one,)))["empty"].forecast
    assert (forecast.lost.files, forecast.doubled.files) == (3, 4)


def test_an_empty_reset_in_batches_of_so_many_bytes_promises_nothing() -> None:
    one = replace(customers().sources[0], options={"maxBytesPerTrigger": "100"})
    forecast = options(customers(sources=(one,)))["empty"].forecast
    for told in (forecast.lost, forecast.doubled):
        assert (told.rows, told.exact) == (None, False)
        assert "maxBytesPerTrigger" in told.why


def test_an_empty_reset_of_code_that_drops_repeats_grows_by_what_all_of_its_input_yields() -> None:
    once = replace(customers().new_code, operators=("dedupe",))
    counts = replace(customers().counts, waiting=8, everything=19)
    assert options(customers(sink=DELTA, new_code=once, counts=counts))["empty"].forecast.new_rows == 19


def test_an_empty_reset_of_stateful_code_into_a_file_table_is_said_to_fail() -> None:
    """A batch that the table passes over is not run, so that its state is missing for the next."""
    once = replace(customers().new_code, operators=("dedupe",))
    option = options(customers(new_code=once))["empty"]
    assert option.forecast.new_rows is None
    assert "leave no state" in (option.blocked or "")


def test_every_position_has_what_pages_need() -> None:
    for option in judge_all(stream()):
        (row,) = option.positions
        assert row.before == LabelledPosition(label="kafka at 10", offset_json='{"orders":{"0":10}}')
        assert None not in (row.lost, row.reread)
    (row,) = options(stream())["continue"].positions
    told = "orders partition 0 at 10"
    assert row.parts == (MovedPart(part="orders-0", before=told, after=told, moved=PartMove.SAME),)
    assert row.next.rows == 5
    assert row.readable == ReadableInput(ok=True, says="all 5 records that wait")


def test_topics_that_are_known_are_named() -> None:
    told = SinkReport("kafka", "t", None, facts=kafka.KafkaSinkFacts(("out",)))
    assert any("in out" in f.says for f in options(stream(sink=told))["continue"].findings)


def test_an_empty_start_promises_nothing_where_damage_hides_what_was_read() -> None:
    blocked = Finding("OFFSETS_UNREADABLE", Severity.BLOCKER, "Offset file 1 is cut short.", "Mend it.")
    hidden = checkpoint(sources=(), findings=(blocked,))
    option = options(stream(sink=LOOSE["foreach_batch"], checkpoint=hidden))["empty"]
    assert (option.forecast.lost.rows, option.forecast.doubled.rows) == (None, None)
    assert "Offset file 1 is cut short." in option.forecast.doubled.why


LATEST = (source("kafka", options={}),)
TAKEN = replace(
    source("kafka").reach or READABLE, readable=False, lost=of(3), why="Offsets 10 to 12 are gone."
)


@pytest.mark.parametrize(
    ("sink", "lost"), [(LOOSE["kafka"], 5), (replace(DELTA, declared="delta"), 5), (DELTA, 15), (FILES, 15)]
)
def test_a_full_refresh_that_begins_behind_all_that_waits_loses_that_too(sink: SinkReport, lost: int) -> None:
    """10 rows were read, 5 wait; a table is emptied besides."""
    forecast = options(stream(sink=sink, sources=LATEST))["full-refresh"].forecast
    assert (forecast.lost.rows, forecast.lost.exact) == (lost, True)
    assert (forecast.doubled.rows, forecast.reread.rows) == (0, 0)
    assert "5 rows are never read" in forecast.lost.why


def test_of_a_full_refresh_nothing_is_promised_where_the_waiting_rows_were_not_counted() -> None:
    told = stream(sink=LOOSE["kafka"], sources=LATEST, counts=Counts(processed=10))
    forecast = options(told)["full-refresh"].forecast
    assert (forecast.lost.rows, forecast.lost.exact) == (None, False)
    own = stream(sink=LOOSE["kafka"], sources=(source("kafka", options={"startingOffsets": "{}"}),))
    forecast = options(own)["full-refresh"].forecast
    assert (forecast.lost.rows, forecast.lost.exact) == (None, False)


@pytest.mark.parametrize(("sink", "told"), [(LOOSE["kafka"], {"startingOffsets": "earliest"}), (DELTA, {})])
def test_what_retention_took_is_lost_by_a_full_refresh_too(sink: SinkReport, told: dict[str, str]) -> None:
    broken = (source("kafka", reach=TAKEN, options=told),)
    forecast = options(stream(sink=sink, sources=broken))["full-refresh"].forecast
    assert (forecast.lost.rows, forecast.lost.exact) == (3 if told else 18, False)
    assert "Offsets 10 to 12 are gone." in forecast.lost.why


@pytest.mark.parametrize(
    ("table", "new", "lost", "doubled"),
    [(12, 13, (0, True), (1, True)), (13, 13, (1, False), (1, False)), (17, 20, (5, False), (8, False)),
     (17, 10, (7, False), (0, False)), (10, 12, (0, False), (2, False))],
    ids=["all its own", "one of others", "hidden in new rows", "and fewer rows", "rows taken out"],
)  # fmt: skip
def test_rows_of_others_in_an_emptied_table_do_not_stand_for_its_own(
    table: int, new: int, lost: tuple[int, bool], doubled: tuple[int, bool]
) -> None:
    """The old code yields 12 rows over what was read."""
    given = customers(sink=DELTA)
    old = replace(given.old_counts or Counts(), table=table)
    counts = replace(given.counts, table=table, processed=new, everything=new + 8)
    forecast = options(replace(given, counts=counts, old_counts=old))["full-refresh"].forecast
    assert (forecast.lost.rows, forecast.lost.exact) == lost
    assert (forecast.doubled.rows, forecast.doubled.exact) == doubled
