"""Single partitions of a topic start elsewhere, the others where they were: within bounds, with what that costs."""

import json
from typing import Any

import pytest

from recovery.checkpoints.report import SourceProgress
from recovery.contracts.amounts import Amount
from recovery.contracts.readers import SourceReader
from recovery.errors import Refused
from recovery.sources import delta, files, kafka, position_requests
from recovery.sources.base import PartMove, StartChoice
from recovery.sources.kafka_facts import KafkaFacts, PartitionFacts, TopicFacts
from recovery.sources.live import kafka as live_kafka
from recovery.sources.live import probe
from tests.refusals import refused

NOON, LATER = 1795608000000, 1795611600000
LINE = '{"a":{"0":5,"1":9,"2":7}}'


def facts(topic_id: str = "id-1", noted: str = "id-1", partitions: int = 3) -> KafkaFacts:
    """Offsets 2 to 20 are there; the record of noon is 11, in partition 2 there is none so late."""
    there = {
        n: PartitionFacts(2, 20, at={NOON: None if n == 2 else 11, LATER: 15}) for n in range(partitions)
    }
    return KafkaFacts(NOON, {"a": TopicFacts(topic_id, there, plain=True)}, {"a": None}, {"a": noted})


def wish(*given: str) -> StartChoice:
    found = position_requests.by_source(given)["0"]
    assert found is not None
    return found


CASES: dict[str, tuple[tuple[str, ...], list[int], int, int]] = {
    "one at an offset": (("0/a-1=12",), [5, 12, 7], 3, 0),
    "one at a time": ((f"0/a-0=time={'2026-11-25T12:00:00Z'}",), [11, 9, 7], 6, 0),
    "one back, one ahead": (("0/a-0=earliest", "0/a-2=latest"), [2, 9, 20], 13, 3),
    "all but one to the end": (("0=latest", "0/a-1=committed"), [20, 9, 20], 28, 0),
    "by hand, but for one": (('0=json={"a":{"0":6,"1":6,"2":6}}', "0/a-0=8"), [8, 6, 6], 3, 4),
    "two times": (("0/a-0=time=2026-11-25T12:00:00Z", "0/a-1=time=2026-11-25T13:00:00Z"), [11, 15, 7], 12, 0),
}


@pytest.mark.parametrize("name", CASES)
def test_parts_start_as_wished_and_the_others_as_their_source(name: str) -> None:
    given, offsets, lost, reread = CASES[name]
    found = kafka.find_position(wish(*given), LINE, facts())
    assert list(json.loads(found.offset_json)["a"].values()) == offsets
    assert (found.lost.rows, found.reread.rows, found.fallbacks) == (
        Amount(value=lost),
        Amount(value=reread),
        {},
    )


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("0/a-1=21",), "21 of a-1 is not between 2 and 20"),
        (("0/a-1=1",), "1 of a-1 is not between 2 and 20"),
        (("0/a-7=5",), "Not there, or not read by this source: a-7; there are a-0, a-1, a-2"),
        (("0/orders=5", "0=latest"), "Not there, or not read by this source: orders"),
        (("0/a-1=time=2026-11-25T12:00:01Z",), "ask it with that time"),
    ],
)
def test_a_part_out_of_bounds_is_refused_with_the_bounds(given: tuple[str, ...], says: str) -> None:
    with pytest.raises(Refused) as told:
        kafka.find_position(wish(*given), LINE, facts())
    assert says in told.value.sentence


def test_a_time_that_a_part_does_not_have_is_said_of_that_part_alone() -> None:
    found = kafka.find_position(wish("0=earliest", "0/a-2=time=2026-11-25T12:00:00Z"), LINE, facts())
    assert found.fallbacks.keys() == {"a-2"}
    assert (
        "No record is of 2026-11-25 12:00:00.000 UTC or later, so its end was taken, 20"
        in found.fallbacks["a-2"]
    )
    set_otherwise = kafka.find_position(wish("0=time=2026-11-25T12:00:00Z", "0/a-2=8"), LINE, facts())
    assert set_otherwise.fallbacks == {}


def test_a_partition_that_was_added_stays_out_as_committed_and_begins_at_its_first_record() -> None:
    found = kafka.find_position(wish("0/a-0=6"), LINE, facts(partitions=4))
    assert json.loads(found.offset_json) == {"a": {"0": 6, "1": 9, "2": 7}}
    back = kafka.find_position(wish("0=latest", "0/a-3=committed"), LINE, facts(partitions=4))
    assert json.loads(back.offset_json) == {"a": {"0": 20, "1": 20, "2": 20}}
    assert back.fallbacks == {"a-3": "Nothing was committed of it yet, so it begins at its first record."}


def test_a_partition_that_is_gone_is_left_out_and_marked() -> None:
    found = kafka.find_position(wish("0/a-0=6"), LINE, facts(partitions=2))
    assert [(c.part, c.moved) for c in found.changes] == [
        ("a-0", PartMove.FORWARD), ("a-1", PartMove.SAME), ("a-2", PartMove.GONE)
    ]  # fmt: skip


def test_where_nothing_was_read_every_part_needs_a_position() -> None:
    with refused("parts_left", Refused):
        kafka.find_position(wish("0/a-0=6"), None, facts())
    found = kafka.find_position(wish("0=earliest", "0/a-0=6"), None, facts())
    assert json.loads(found.offset_json) == {"a": {"0": 6, "1": 2, "2": 2}}


def test_parts_of_a_topic_that_was_made_again_cannot_be_counted_against_the_old_one() -> None:
    found = kafka.find_position(wish("0/a-0=6"), LINE, facts(noted="id-0"))
    assert found.changes[0].moved is PartMove.UNCLEAR
    assert "not the one that the checkpoint read" in found.fallbacks["a-0"]


@pytest.mark.parametrize(
    ("kind", "told"),
    [(delta, None), (files, None)],
)
def test_a_source_without_parts_refuses_them(kind: Any, told: Any) -> None:
    with refused("no_parts", Refused):
        kind.find_position(StartChoice(latest=True, parts={"a-0": None}), None, told)


def test_the_brokers_are_asked_for_every_time_of_the_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, ...]] = []

    def answer(options: Any, *, positions: Any, times: Any, noted: Any) -> KafkaFacts:
        asked.append(tuple(times))
        return facts()

    monkeypatch.setattr(live_kafka, "read_topic_facts", answer)
    given = wish("0/a-0=time=2026-11-25T12:00:00Z", "0/a-1=time=2026-11-25T13:00:00Z", "0/a-2=8")
    found = probe.probe_source(
        SourceProgress(0, "kafka", LINE), SourceReader(options={"subscribe": "a"}), wanted=given
    )
    assert set(asked) == {(NOON, LATER)}
    assert found.begins == '{"a":{"0":11,"1":15,"2":8}}'


def answering(monkeypatch: pytest.MonkeyPatch, topic_id: str) -> None:
    def answer(options: Any, *, positions: Any, noted: Any, count_up_to: int) -> KafkaFacts:
        return facts(topic_id, (noted or {}).get("a", ""))

    monkeypatch.setattr(live_kafka, "read_topic_facts", answer)


@pytest.mark.parametrize(("now", "told"), [("id-1", True), ("id-2", False)])
def test_what_lies_between_is_told_of_the_topic_alone_that_the_plan_was_sealed_on(
    monkeypatch: pytest.MonkeyPatch, now: str, told: bool
) -> None:
    answering(monkeypatch, now)
    reader, end = SourceReader(options={"subscribe": "a"}), '{"a":{"0":9,"1":9,"2":9}}'
    found = probe.range_between(reader, "kafka", LINE, end, noted={"a": "id-1"})
    assert (found is not None) is told
    assert probe.list_remade_topics(reader, {"a": "id-1", "gone": "id-3"}) == (
        ("gone",) if told else ("a", "gone")
    )
    assert probe.list_remade_topics(reader, {}) == ()
