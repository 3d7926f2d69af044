"""Kafka positions as values: parts, what moved, what lies between, what is still there, what a person may name."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from recovery.checkpoints.formats import Malformed
from recovery.contracts.amounts import Amount, Bound
from recovery.errors import Refused
from recovery.sources import input_ranges, kafka
from recovery.sources.base import Distance, PartMove, Precision, StartChoice
from recovery.sources.kafka_facts import KafkaFacts, PartitionFacts, TopicFacts, parse_offsets, write_offsets
from tests.refusals import refused

NOON = 1_795_521_600_000  # 2026-11-24 12:00:00 UTC
HOUR = 3_600_000
GONE = "a part of these offsets is gone, so its records cannot be counted"
MARKERS = "the difference of offsets; markers of transactions take offsets too"


def line(**topics: list[int]) -> str:
    return json.dumps(
        {t.replace("__", "-"): {str(n): at for n, at in enumerate(held)} for t, held in topics.items()}
    )


def topic(*bounds: tuple[int, int], **more: Any) -> TopicFacts:
    return TopicFacts("id-1", {n: PartitionFacts(*both) for n, both in enumerate(bounds)}, **more)


def facts(noted: str = "id-1", **topics: TopicFacts) -> KafkaFacts:
    return KafkaFacts(NOON, topics, dict.fromkeys(topics), dict.fromkeys(topics, noted))


def test_each_partition_is_a_part_in_order_of_topic_and_number() -> None:
    found = kafka.list_parts('{"b-1":{"10":5,"2":7},"a.b":{"0":-2}}')
    assert [(p.name, p.value, p.label) for p in found] == [
        ("a.b-0", "-2", "a.b partition 0 at earliest"),
        ("b-1-2", "7", "b-1 partition 2 at 7"),
        ("b-1-10", "5", "b-1 partition 10 at 5"),
    ]
    assert kafka.list_parts(None) == ()


@pytest.mark.parametrize(
    ("position", "label"),
    [
        (None, "nothing read yet"),
        (line(a=[1]), "a partition 0 at 1"),
        (line(a=[1, -1]), "a partition 0 at 1, a partition 1 at latest"),
        (line(a=list(range(7))), ", ".join(f"a partition {n} at {n}" for n in range(5)) + " and 2 more"),
    ],
)
def test_a_position_is_said_for_people(position: str | None, label: str) -> None:
    assert kafka.label_position(position) == label


@pytest.mark.parametrize(
    "text",
    [
        "", "7", "[]", "{}", "[" * 100_000, '{"a":{"2147483648":1}}', '{"a":{"' + "9" * 5000 + '":1}}',
        '{"a":{"0":9223372036854775808}}',
        '{"logOffset":1}', '{"a":{}}', '{"a":{"x":1}}', '{"a":{"0":"1"}}', '{"a":{"0":true}}',
        '{"a":{"0":-3}}', '{"a":{"0":1.0}}', '{"a":{"0":1,"0":2}}', '{"a":{"0":1,"00":2}}', '{"a":{"-1":1}}',
    ],
)  # fmt: skip
def test_what_is_no_kafka_offset_is_malformed(text: str) -> None:
    with pytest.raises(Malformed):
        kafka.list_parts(text)


OFFSETS = some.dictionaries(
    some.tuples(some.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True), some.integers(0, 2000)),
    some.integers(-2, 2**63 - 1),
    min_size=1,
    max_size=20,
)


@given(OFFSETS)
def test_what_is_written_is_read_again(offsets: dict[tuple[str, int], int]) -> None:
    assert parse_offsets(write_offsets(offsets)) == offsets


def test_how_each_partition_moved() -> None:
    found = kafka.compare_positions(
        '{"a":{"0":5,"1":5,"2":5,"3":-1,"4":1}}', '{"a":{"0":5,"1":6,"2":4,"3":9},"b":{"0":0}}'
    )
    assert [(c.part, c.moved) for c in found] == [
        ("a-0", PartMove.SAME),
        ("a-1", PartMove.FORWARD),
        ("a-2", PartMove.BACK),
        ("a-3", PartMove.UNCLEAR),
        ("a-4", PartMove.GONE),
        ("b-0", PartMove.NEW),
    ]


PLAIN = topic((0, 20), (5, 20), plain=True)
COUNTED = TopicFacts("id-1", {0: PartitionFacts(0, 20, counts={3: 0, 10: 4, 20: 9})})


@pytest.mark.parametrize(
    ("start", "end", "of", "rows"),
    [
        ([3, 7], [10, 9], PLAIN, Amount(value=9)),
        ([10, 9], [3, 7], PLAIN, Amount(value=9)),
        ([3, 7], [3, 7], topic((0, 20), (0, 20)), Amount(value=0)),
        ([3, 7], [10, 9], topic((0, 20), (0, 20)), Amount(value=9, bound=Bound.AT_MOST, why=MARKERS)),
        ([-2, -2], [-1, 9], PLAIN, Amount(value=24)),
        ([3], [10, 9], PLAIN, Amount(value=11)),  # the new partition begins at 5
        ([3, 3], [3, 9], PLAIN, Amount(value=6, bound=Bound.AT_MOST, why=GONE)),
        ([3], [10], topic((0, 20), cleanup=frozenset({"compact"})),
         Amount(value=7, bound=Bound.AT_MOST, why="the topic is compacted, so not every offset is still a record")),
        ([3], [10], COUNTED, Amount(value=4)),
        ([10], [20], COUNTED, Amount(value=5)),
        ([3], [11], COUNTED, Amount(value=8, bound=Bound.AT_MOST, why=MARKERS)),
    ],
)  # fmt: skip
def test_what_lies_between_is_exact_only_where_every_offset_is_a_record_or_records_were_counted(
    start: list[int], end: list[int], of: TopicFacts, rows: Amount
) -> None:
    found = kafka.measure_distance(line(a=start), line(a=end), facts(a=of))
    assert found.rows == rows
    assert (found.files, found.bytes) == (None, None)


@pytest.mark.parametrize(
    "now",
    [facts(), facts(a=topic((0, 20))), facts("id-0", a=PLAIN), facts(a=topic((0, 6), (0, 6)))],
    ids=["topic gone", "partition gone", "made again", "cut off"],
)
def test_nobody_can_count_against_a_topic_that_is_another_one_now(now: KafkaFacts) -> None:
    assert kafka.measure_distance(line(a=[3, 7]), line(a=[10, 9]), now).rows is None


def kept(*times: tuple[int, int], **more: Any) -> TopicFacts:
    """(offset, its time) of each partition, of [0, 20)."""
    parts = {n: PartitionFacts(0, 20, times={at: ms}) for n, (at, ms) in enumerate(times)}
    return TopicFacts("id-1", parts, **more)


def test_retention_is_told_for_the_first_record_that_it_may_take() -> None:
    now = facts(a=kept((3, NOON - HOUR), (7, NOON - 2 * HOUR), retention_ms=3 * HOUR))
    found = kafka.judge_reach(line(a=[3, 7]), now)
    assert (found.readable, found.until_ms, found.parts, found.lost) == (True, NOON + HOUR, ("a-1",), None)
    assert found.why == (
        "Every record after the position is still there. Retention may take the first of them from "
        "2026-11-24 13:00:00.000 UTC on."
    )


@pytest.mark.parametrize(
    "of",
    [
        topic((0, 20)),
        kept((3, NOON), cleanup=frozenset({"compact"}), retention_ms=HOUR),
        kept((3, NOON)),
        topic((0, 3), retention_ms=HOUR),
    ],
    ids=["time not asked", "compacted only", "no limit", "all is read"],
)
def test_no_time_is_told_where_retention_has_none(of: TopicFacts) -> None:
    found = kafka.judge_reach(line(a=[3]), facts(a=of))
    assert (found.readable, found.until_ms) == (True, None)


def test_a_topic_that_is_cut_by_size_says_so() -> None:
    found = kafka.judge_reach(line(a=[3]), facts(a=topic((0, 20), retention_bytes=1000)))
    assert found.why.endswith("a is also cut by size, at a time that is not known beforehand.")


@pytest.mark.parametrize(
    ("position", "now", "why", "parts", "rows"),
    [
        (line(a=[3, 7]), facts(a=topic((5, 20), (7, 20), plain=True)),
         "Partition 0 of a begins at 5: after the position offsets 3 to 4 are gone.", ("a-0",), 2),
        (line(a=[4]), facts(a=topic((5, 20))),
         "Partition 0 of a begins at 5: after the position offset 4 is gone.", ("a-0",), 1),
        (line(a=[0, 1, 2, 3, 4, 5, 6]), facts(a=topic(*[(9, 20)] * 7)),
         "2 more partitions are affected.", tuple(f"a-{n}" for n in range(7)), 42),
        (line(a=[3]), facts(), "Topic a is gone.", ("a-0",), None),
        (line(a=[3, 7]), facts(a=topic((0, 20))), "Partition 1 of a is gone.", ("a-1",), None),
        (line(a=[3, 7]), facts("id-0", a=topic((0, 20), (0, 20))),
         "Topic a was deleted and made again", ("a-0", "a-1"), None),
        (line(a=[3]), facts(a=topic((0, 2))), "ends at 2, before the position 3", ("a-0",), None),
    ],
)  # fmt: skip
def test_what_is_gone_is_named_and_counted(
    position: str, now: KafkaFacts, why: str, parts: tuple[str, ...], rows: int | None
) -> None:
    found = kafka.judge_reach(position, now)
    assert (found.readable, found.parts) == (False, parts)
    assert why in found.why
    assert "failOnDataLoss" in found.why
    assert found.lost is not None
    assert (found.lost.rows and found.lost.rows.value) == rows
    assert found.lost.rows is None or not found.lost.rows.exact


def test_an_id_that_was_never_noted_proves_nothing() -> None:
    now = facts("", a=topic((0, 20)))
    assert kafka.judge_reach(line(a=[3]), now).readable is True


def test_a_position_with_nothing_read_is_not_judged() -> None:
    assert kafka.judge_reach(None, facts(a=PLAIN)).readable is None
    assert not kafka.find_start_option(None, facts(a=PLAIN)).supported


def test_the_option_names_every_partition_that_is_read_now_and_no_other() -> None:
    found = kafka.find_start_option(
        '{"a":{"0":3,"5":9},"old":{"0":1}}', facts(a=topic((0, 20), (0, 20)), b=topic((0, 4)))
    )
    assert found.options == {"startingOffsets": '{"a":{"0":3,"1":-2},"b":{"0":-2}}'}
    assert found.code == """.option("startingOffsets", '{"a":{"0":3,"1":-2},"b":{"0":-2}}')"""
    assert "(-2): a-1, b-0." in found.note
    assert "no longer read: a-5, old-0." in found.note


def test_the_option_is_as_exact_as_a_seed_and_says_what_failondataloss_does() -> None:
    found = kafka.find_start_option(line(a=[3, 7]), facts(a=PLAIN))
    assert (found.supported, found.precision) == (True, Precision.EXACT)
    assert (found.doubled, found.missed) == (Amount(value=0), Amount(value=0))
    assert "failOnDataLoss" in found.note
    assert kafka.find_start_option(line(a=[3, 4]), facts(a=PLAIN)).precision is Precision.AT_MOST_ONCE


def test_only_assigned_partitions_are_named() -> None:
    now = KafkaFacts(NOON, {"a": topic((0, 20), (0, 20), (0, 20))}, {"a": frozenset({0, 2})})
    assert kafka.find_start_option(line(a=[3]), now).options == {"startingOffsets": '{"a":{"0":3,"2":-2}}'}


def timed(*at: int | None, low: int = 0) -> KafkaFacts:
    parts = {n: PartitionFacts(low, 20, at={NOON: offset}) for n, offset in enumerate(at)}
    return facts(a=TopicFacts("id-1", parts, plain=True))


def test_a_time_is_the_first_record_of_it_in_every_partition() -> None:
    found = kafka.find_position(StartChoice(at_ms=NOON), line(a=[5, 5]), timed(7, 2))
    assert (found.offset_json, found.fallbacks) == ('{"a":{"0":7,"1":2}}', {})
    assert (found.lost.rows, found.reread.rows) == (Amount(value=2), Amount(value=3))
    assert [c.moved for c in found.changes] == [PartMove.FORWARD, PartMove.BACK]


def test_a_time_past_the_end_takes_the_end_and_says_so() -> None:
    found = kafka.find_position(StartChoice(at_ms=NOON), line(a=[5, 5]), timed(None, 5))
    assert found.offset_json == '{"a":{"0":20,"1":5}}'
    assert found.lost.rows == Amount(value=15)
    assert found.fallbacks == {
        "a-0": "No record is of 2026-11-24 12:00:00.000 UTC or later, so its end was taken, 20: what is written from "
        "now on is read."
    }


@pytest.mark.parametrize(("low", "said"), [(4, True), (0, False)])
def test_a_time_before_the_first_kept_record_says_that_records_may_be_gone(low: int, said: bool) -> None:
    found = kafka.find_position(StartChoice(at_ms=NOON), line(a=[5]), timed(low, low=low))
    assert found.offset_json == line(a=[low]).replace(" ", "")
    assert found.reread.rows == Amount(value=5 - low)
    assert bool(found.fallbacks) is said
    assert not said or "may be gone" in found.fallbacks["a-0"]


@pytest.mark.parametrize(
    ("wanted", "offset", "lost", "reread"),
    [
        (StartChoice(earliest=True), [0, 5], 0, 8),
        (StartChoice(latest=True), [20, 20], 27, 0),
        (StartChoice(by_hand='{"a":{"1":-1,"0":-2}}'), [0, 20], 11, 4),
        (StartChoice(by_hand='{"a":{"0":4,"1":9}}'), [4, 9], 0, 0),
        (StartChoice(by_hand='{"a":{"0":20,"1":5}}'), [20, 5], 16, 4),
    ],
)
def test_a_wish_costs_what_lies_between(
    wanted: StartChoice, offset: list[int], lost: int, reread: int
) -> None:
    found = kafka.find_position(wanted, line(a=[4, 9]), facts(a=PLAIN))
    assert found.offset_json == line(a=offset).replace(" ", "")
    assert (found.lost.rows, found.reread.rows) == (Amount(value=lost), Amount(value=reread))


def test_named_offsets_by_hand_are_said_as_the_numbers_that_they_are_now() -> None:
    found = kafka.find_position(StartChoice(by_hand='{"a":{"0":-2,"1":-1}}'), line(a=[4, 9]), facts(a=PLAIN))
    assert found.fallbacks == {"a-0": "The earliest offset is 0 now.", "a-1": "The latest offset is 20 now."}


@pytest.mark.parametrize(
    ("by_hand", "says"),
    [
        ('{"a":{"0":21,"1":9}}', "21 of a-0 is not between 0 and 20"),
        ('{"a":{"0":4,"1":4}}', "4 of a-1 is not between 5 and 20"),
        ('{"a":{"0":-3,"1":9}}', "below -2"),
        ('{"a":{"0":4}}', "these have none: a-1"),
        ('{"a":{"0":4,"1":9,"2":0}}', "not read by this source: a-2; there are a-0, a-1"),
        ('{"a":{"0":4,"1":9},"b":{"0":0}}', "not read by this source: b-0"),
        ("{}", "with every partition"),
        ("12", "with every partition"),
    ],
)
def test_offsets_by_hand_are_checked_against_the_bounds(by_hand: str, says: str) -> None:
    with pytest.raises(Refused) as told:
        kafka.find_position(StartChoice(by_hand=by_hand), line(a=[4, 9]), facts(a=PLAIN))
    assert says in told.value.sentence


@pytest.mark.parametrize("wanted", [StartChoice(version=3), StartChoice(file="x")])
def test_kafka_has_neither_versions_nor_files(wanted: StartChoice) -> None:
    with refused("not_by_this", Refused):
        kafka.find_position(wanted, line(a=[4]), facts(a=PLAIN))


@pytest.mark.parametrize(
    "wanted",
    [StartChoice(), StartChoice(earliest=True, latest=True), StartChoice(at_ms=NOON, by_hand=line(a=[4]))],
)
def test_exactly_one_position_is_named(wanted: StartChoice) -> None:
    with refused("not_one_wish", Refused):
        kafka.find_position(wanted, line(a=[4]), facts(a=PLAIN))


def test_a_time_that_the_brokers_were_not_asked_for_is_refused() -> None:
    for at_ms in (NOON + 1, -(2**70)):
        with refused("time_not_asked", Refused):
            kafka.find_position(StartChoice(at_ms=at_ms), line(a=[4]), timed(3))


def test_where_nobody_asked_nothing_is_said_to_be_gone() -> None:
    unasked = KafkaFacts()
    assert kafka.judge_reach(line(a=[4]), unasked).readable is None
    assert kafka.measure_distance(line(a=[4]), line(a=[5]), unasked).rows is None
    assert kafka.find_start_option(line(a=[4]), unasked).options == {"startingOffsets": '{"a":{"0":4}}'}
    for wanted in (StartChoice(latest=True), StartChoice(by_hand=line(a=[4]))):
        with refused("not_asked", Refused):
            kafka.find_position(wanted, line(a=[4]), unasked)


def test_without_any_topic_there_is_nothing_to_choose() -> None:
    with refused("no_topic", Refused):
        kafka.find_position(StartChoice(latest=True), line(a=[4]), facts())


def test_a_topic_made_again_is_not_counted_against_the_old_one() -> None:
    found = kafka.find_position(
        StartChoice(earliest=True), line(a=[4, 9]), facts("id-0", a=topic((0, 20), (0, 20), plain=True))
    )
    assert (found.lost.rows, found.reread.rows) == (Amount(value=0), Amount(value=0))
    assert {c.moved for c in found.changes} == {PartMove.UNCLEAR}
    assert set(found.fallbacks) == {"a-0", "a-1"}


def test_partitions_that_are_gone_are_named_and_those_that_came_begin_at_their_lowest() -> None:
    found = kafka.find_position(StartChoice(latest=True), '{"a":{"0":4},"b":{"0":7}}', facts(a=PLAIN))
    assert found.offset_json == '{"a":{"0":20,"1":20}}'
    assert found.lost.rows == Amount(
        value=16 + 20, bound=Bound.AT_MOST, why=GONE
    )  # a-1 came later, and its first 5 are gone
    assert found.fallbacks == {"b-0": "It is no longer there, so it has no position."}
    assert [(c.part, c.moved) for c in found.changes][2] == ("b-0", PartMove.GONE)


READ_A = KafkaFacts(
    NOON, {"a": topic((0, 10), (0, 4), plain=True), "b": topic((0, 100), plain=True)}, {"a": None}
)


def test_what_the_code_no_longer_reads_is_lost_from_its_position_on_and_stops_spark() -> None:
    """KAFKA_DATA_LOSS.PARTITIONS_DELETED, where failOnDataLoss is not false."""
    committed = '{"a":{"0":7,"1":4},"b":{"0":5}}'
    found = kafka.judge_reach(committed, READ_A)
    assert (found.readable, found.parts) == (False, ("b-0",))
    assert found.lost is not None
    assert found.lost.rows == Amount(value=95)
    assert "no longer reads partition 0 of b" in found.why
    end = kafka.find_position(StartChoice(latest=True), committed, READ_A).offset_json
    assert kafka.measure_distance(committed, end, READ_A).rows == Amount(value=3)
    assert (
        kafka.judge_reach('{"a":{"0":7,"1":4},"b":{"0":100}}', READ_A).readable is False
    )  # Spark stops all the same


def test_a_partition_that_is_no_longer_assigned_is_lost_too() -> None:
    now = KafkaFacts(NOON, {"a": topic((0, 20), (0, 20), plain=True)}, {"a": frozenset({0})})
    found = kafka.judge_reach(line(a=[3, 7]), now)
    assert (found.readable, found.parts) == (False, ("a-1",))
    assert found.lost == Distance(rows=Amount(value=13))


def test_a_start_without_what_is_no_longer_read_can_be_read_and_says_its_loss() -> None:
    committed = '{"a":{"0":7,"1":4},"b":{"0":5}}'
    found = kafka.find_position(StartChoice(by_hand=line(a=[7, 4])), committed, READ_A)
    assert kafka.judge_reach(found.offset_json, READ_A).readable is True
    assert (found.lost.rows, found.reread.rows) == (Amount(value=95), Amount(value=0))
    assert "no longer reads it" in found.fallbacks["b-0"]
    skipped = input_ranges.of_kafka(committed, kafka.skipped_to(committed, found.offset_json, READ_A), READ_A)
    assert skipped is not None
    assert (skipped.start["b"], skipped.end["b"]) == ({"0": 5}, {"0": 100})
    again = input_ranges.of_kafka(found.offset_json, committed, READ_A)
    assert again is not None
    assert again.empty


@pytest.mark.parametrize("cleanup", ["delete", "compact"])
def test_a_partition_that_came_later_and_lost_its_first_records_is_no_safe_continuation(cleanup: str) -> None:
    """KAFKA_DATA_LOSS.ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO."""
    now = facts(a=topic((0, 10), (50, 100), cleanup=frozenset({cleanup})))
    found = kafka.judge_reach(line(a=[7]), now)
    assert (found.readable, found.parts) == (False, ("a-1",))
    assert found.lost is not None
    assert found.lost.rows == Amount(value=50, bound=Bound.AT_MOST, why=GONE)
    start = kafka.find_position(StartChoice(by_hand=line(a=[7, 50])), line(a=[7]), now)
    assert kafka.judge_reach(start.offset_json, now).readable is True
    assert start.lost.rows == Amount(value=50, bound=Bound.AT_MOST, why=GONE)


def test_a_partition_that_came_later_whole_is_read_from_its_first_record() -> None:
    assert kafka.judge_reach(line(a=[7]), facts(a=topic((0, 10), (0, 9)))).readable is True


@pytest.mark.parametrize(
    ("starting", "first"),
    [
        ((), "beside"),
        (("startingOffsets",), "instead of startingOffsets, to be taken out of the code; beside"),
        (("startingTimestamp", "startingOffsets"), "instead of startingTimestamp and startingOffsets, to be"),
    ],
)
def test_the_option_says_which_others_would_win_over_it(starting: tuple[str, ...], first: str) -> None:
    """A later startingOffsets in the same chain replaces it, and Spark takes a time before offsets."""
    assert kafka.find_start_option(
        line(a=[3, 7]), replace(facts(a=PLAIN), starting=starting)
    ).place.startswith(first)
