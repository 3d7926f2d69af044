"""What is particular to rate, Python, Auto Loader, Kinesis and Pub/Sub sources."""

import ast
import json

import pytest

from recovery.contracts.amounts import Amount
from recovery.errors import Refused
from recovery.sources import auto_loader, kinesis, pubsub, python, rate, rate_micro_batch
from recovery.sources.base import InputFile, PartMove, Precision, StartChoice
from tests.refusals import refused

NOW = 1_790_000_000_000


@pytest.mark.parametrize(
    ("start", "end", "ramp_up", "rows"),
    [
        ("0", "3", 0, 30),
        ("5", "2", 0, 30),
        # The table in RateStreamProvider.valueAtSecond: 0 2 6 12 20 30 40.
        ("0", "3", 4, 12),
        ("0", "4", 4, 20),
        ("4", "6", 4, 20),
    ],
)
def test_rows_of_a_rate_source_are_counted_as_spark_makes_them(
    start: str, end: str, ramp_up: int, rows: int
) -> None:
    found = rate.measure_distance(start, end, rate.RateFacts(10, ramp_up))
    assert (found.rows, found.seconds) == (Amount(value=rows), Amount(value=abs(int(end) - int(start))))
    assert rate.measure_distance(start, end, rate.RateFacts()).rows is None


def test_a_time_is_a_second_of_a_rate_source() -> None:
    facts = rate.RateFacts(10, 0, NOW, NOW + 60_000)
    found = rate.find_position(StartChoice(at_ms=NOW + 7_900), "5", facts)
    assert (found.offset_json, found.lost.rows, found.reread.rows) == ("7", Amount(value=20), Amount(value=0))
    assert rate.find_position(StartChoice(latest=True), "5", facts).offset_json == "60"
    assert rate.find_position(StartChoice(earliest=True), "5", facts).reread.rows == Amount(value=50)
    for outside in (NOW - 1, NOW + 60_001):
        with refused("time_outside", Refused):
            rate.find_position(StartChoice(at_ms=outside), "5", facts)
    with pytest.raises(Refused, match="not known"):
        rate.find_position(StartChoice(latest=True), "5", rate.RateFacts())


def test_a_time_is_a_batch_of_a_rate_micro_batch_source() -> None:
    facts = rate_micro_batch.RateMicroBatchFacts(3, 1000, 500)
    old = '{"offset":3,"timestamp":1500}'
    found = rate_micro_batch.find_position(StartChoice(at_ms=2001), old, facts)
    assert (found.offset_json, found.lost.rows) == ('{"offset":9,"timestamp":2500}', Amount(value=6))
    assert (
        rate_micro_batch.find_position(StartChoice(earliest=True), old, facts).offset_json
        == '{"offset":0,"timestamp":1000}'
    )
    with refused("time_outside", Refused):
        rate_micro_batch.find_position(StartChoice(at_ms=999), old, facts)


def test_an_author_s_offset_is_kept_to_the_byte_and_put_in_no_order() -> None:
    line = '{"offset": 5,  "x": "y"}'
    found = python.find_position(
        StartChoice(by_hand=line), '{"offset": 6, "x": "y"}', python.PythonSourceFacts()
    )
    assert (found.offset_json, found.precision) == (line, Precision.UNKNOWN)
    assert (found.lost.rows, found.reread.rows, found.changes[0].moved) == (None, None, PartMove.UNCLEAR)
    assert (
        python.compare_positions('{"a": 1}', '{"a":1}')[0].moved is PartMove.UNCLEAR
    )  # Spark compares the text
    told = python.find_start_option(line, python.PythonSourceFacts())
    assert not told.supported
    written = ast.literal_eval(told.code.removeprefix("return json.loads(").removesuffix(")"))
    assert json.loads(written) == json.loads(line)


def loader(read: dict[str, int], waiting: dict[str, int]) -> auto_loader.AutoLoaderFacts:
    files = [InputFile(name, 1, NOW + at) for name, at in {**read, **waiting}.items()]
    return auto_loader.AutoLoaderFacts(frozenset(read), tuple(files), NOW + 10_000)


OFFSET = '{"seqNum":9,"sourceVersion":1}'


@pytest.mark.parametrize(
    ("read", "waiting", "at", "precision", "twice"),
    [
        ({"a": 0, "b": 1000}, {"c": 2000}, 1999, Precision.EXACT, 0),
        ({"a": 0, "b": 1000}, {"c": 1001}, 1000, Precision.AT_LEAST_ONCE, 1),  # no time lies between
        ({"a": 0, "b": 1000}, {"c": 1000}, 999, Precision.AT_LEAST_ONCE, 1),  # the boundary second is shared
        ({"a": 0, "b": 1000}, {"late": 500, "c": 2000}, 499, Precision.AT_LEAST_ONCE, 1),
        ({"a": 0, "b": 1000}, {}, 999, Precision.AT_LEAST_ONCE, 1),  # later files may share b's time
    ],
)
def test_modified_after_parts_what_was_read_from_what_waits(
    read: dict[str, int], waiting: dict[str, int], at: int, precision: Precision, twice: int
) -> None:
    found = auto_loader.find_start_option(OFFSET, loader(read, waiting))
    told = found.options["modifiedAfter"]
    assert told == f"2026-09-21 14:13:2{at // 1000}.{at % 1000:03d}000 UTC+0"
    assert told in found.code
    assert found.precision is precision
    assert found.missed == Amount(value=0)
    assert (found.doubled == Amount(value=0)) == (not twice)
    assert not twice or f"{twice} file" in found.note


def test_a_time_that_loses_files_says_so() -> None:
    facts = loader({"a": 0}, {"b": 1000, "c": 2000})
    found = auto_loader.started_at(NOW + 1500, facts)
    assert (found.precision, found.missed, found.doubled) == (Precision.AT_MOST_ONCE, None, Amount(value=0))
    assert "1 file that wait" in found.note
    with pytest.raises(Refused, match="future"):
        auto_loader.started_at(NOW + 99_000, facts)
    with pytest.raises(Refused, match="cloud_files_state"):
        auto_loader.started_at(NOW, auto_loader.AutoLoaderFacts())


def test_nothing_is_computed_without_the_ledger_and_everything_read_where_nothing_was() -> None:
    unknown = auto_loader.find_start_option(OFFSET, auto_loader.AutoLoaderFacts())
    assert (unknown.options, unknown.precision) == ({}, Precision.UNKNOWN)
    assert auto_loader.find_start_option(None, auto_loader.AutoLoaderFacts()).options == {
        "cloudFiles.includeExistingFiles": "true"
    }
    with pytest.raises(Refused, match="ledger"):
        auto_loader.find_position(
            StartChoice(by_hand='{"seqNum":8,"sourceVersion":1}'), OFFSET, auto_loader.AutoLoaderFacts()
        )


def shards(**at: str) -> str:
    held = {n: {"iteratorType": "AFTER_SEQUENCE_NUMBER", "iteratorPosition": p} for n, p in at.items()}
    return json.dumps({"metadata": {"streamName": "s", "batchId": "1"}, **held})


def test_shards_are_compared_one_by_one() -> None:
    found = kinesis.compare_positions(shards(a="9", b="20", gone="1"), shards(a="10", b="19", new="1"))
    assert [(c.part, c.moved) for c in found] == [
        ("a", PartMove.FORWARD),
        ("b", PartMove.BACK),
        ("gone", PartMove.GONE),
        ("new", PartMove.NEW),
    ]
    assert kinesis.compare_positions(shards(a="9"), shards(a="LATEST"))[0].moved is PartMove.UNCLEAR
    seen = '[{"shard":{"stream":"s","shardId":"a"},"firstSeqNum":null,"lastSeqNum":"9","closed":false}]'
    assert kinesis.compare_positions(shards(a="9"), seen)[0].moved is PartMove.SAME


def test_a_kinesis_start_is_at_least_once_and_says_its_second() -> None:
    found = kinesis.find_start_option(shards(a="9"), kinesis.KinesisFacts(NOW, NOW + 1_999))
    told = json.loads(found.options["initialPosition"])
    assert told == {"at_timestamp": "09/21/2026 14:13:21 UTC", "format": "MM/dd/yyyy HH:mm:ss ZZZ"}
    assert (found.precision, found.doubled) == (Precision.AT_LEAST_ONCE, None)
    assert not kinesis.find_start_option(shards(a="9"), kinesis.KinesisFacts()).supported
    assert kinesis.find_start_option(None, kinesis.KinesisFacts()).options == {
        "initialPosition": "trim_horizon"
    }


def test_a_subscription_is_moved_outside_of_spark() -> None:
    found = pubsub.find_start_option('{"sourceVersion":1,"seqNum":4,"fetchEpoch":2}', pubsub.PubSubFacts())
    assert (found.supported, found.precision) == (False, Precision.AT_LEAST_ONCE)
    assert "subscriptions seek" in found.place
