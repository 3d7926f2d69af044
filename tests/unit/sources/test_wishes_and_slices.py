"""What a person writes becomes one wish, or a sentence; what lies between two positions is told to the record."""

import json
from dataclasses import replace
from typing import Any

import pytest

from recovery.contracts import codec
from recovery.errors import WrongUse
from recovery.sources import batches, input_ranges, position_requests
from recovery.sources.base import StartChoice
from recovery.sources.delta_facts import DataFile, DeltaFacts, DeltaOffset, DeltaReadOptions, StreamedCommit
from recovery.sources.input_ranges import InputRange
from recovery.sources.kafka_facts import KafkaFacts, PartitionFacts, TopicFacts
from recovery.sources.live import probe
from recovery.spark.slicing import merge_slices


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("earliest", StartChoice(earliest=True)),
        ("latest", StartChoice(latest=True)),
        ("time=2026-11-22T03:00:00Z", StartChoice(at_ms=1795316400000)),
        ("time=2026-11-22T05:00:00+02:00", StartChoice(at_ms=1795316400000)),
        ("version=12", StartChoice(version=12)),
        ("file=file:///in/a=b.json", StartChoice(file="file:///in/a=b.json")),
        ('json={"t":{"0":5}}', StartChoice(by_hand='{"t":{"0":5}}')),
    ],
)
def test_a_wish_is_read_and_comes_back_from_json(text: str, wanted: StartChoice) -> None:
    assert position_requests.parse_wish(text) == wanted
    assert codec.read(StartChoice, position_requests.as_dict(wanted)) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "time=2026-11-22T03:00:00",
        "time=noon",
        "version=²",
        "time=0001-01-01T00:00:00+14:00",
        "time=9999-12-31T23:59:59-14:00",
        "time=9999-12-31T23:59:59.9999Z",
        "version=-1",
        "version=x",
        "file=",
        "latest=1",
    ],
)
def test_what_names_no_position_is_refused_with_the_forms_it_may_have(text: str) -> None:
    with pytest.raises(WrongUse):
        position_requests.parse_wish(text)


def kafka(low: int = 0, high: int = 10, noted: str = "a") -> KafkaFacts:
    topic = TopicFacts("a", {0: PartitionFacts(low, high), 1: PartitionFacts(0, 4)}, plain=True)
    return KafkaFacts(1, {"t": topic}, {"t": None}, {"t": noted})


def test_a_slice_of_kafka_names_every_partition_and_new_ones_from_their_first_record() -> None:
    found = input_ranges.of_kafka('{"t":{"0":3}}', '{"t":{"0":10,"1":-1}}', kafka())
    assert found is not None
    assert found.as_dict()["start"] == {"t": {"0": 3, "1": 0}}
    assert found.as_dict()["end"] == {"t": {"0": 10, "1": 4}}
    assert not found.empty


def test_a_slice_of_kafka_that_ends_before_it_begins_is_empty() -> None:
    found = input_ranges.of_kafka('{"t":{"0":8}}', '{"t":{"0":3}}', kafka())
    assert found is not None
    assert found.empty


@pytest.mark.parametrize("facts", [kafka(low=5), kafka(high=2), kafka(noted="b")])
def test_records_that_are_gone_or_of_another_topic_are_no_slice(facts: KafkaFacts) -> None:
    assert input_ranges.of_kafka('{"t":{"0":3}}', '{"t":{"0":10}}', facts) is None


@pytest.mark.parametrize(
    ("start", "begins"),
    [
        ('{"t":{"0":5}}', None),
        ('{"t":{"0":5,"1":-2}}', {"0": 5, "1": 60}),
        ('{"t":{"0":5,"1":70}}', {"0": 5, "1": 70}),
        (None, {"0": 0, "1": 60}),
    ],
    ids=["not named", "named earliest", "named", "no start"],
)
def test_a_partition_that_came_after_the_start_and_lost_its_first_records_is_no_slice(
    start: str | None, begins: dict[str, int] | None
) -> None:
    """Spark would begin it at its first record that is kept, and a replay too: neither sees offsets 0 to 59."""
    topic = TopicFacts("a", {0: PartitionFacts(0, 9), 1: PartitionFacts(60, 100)}, plain=True)
    found = input_ranges.of_kafka(start, '{"t":{"0":9,"1":100}}', KafkaFacts(1, {"t": topic}, {"t": None}))
    assert (None if found is None else found.start["t"]) == begins


def delta(removed: bool = False) -> DeltaFacts:
    def commit(version: int, *paths: str) -> StreamedCommit:
        gone = (("a", 1),) if removed and version == 3 else ()
        return StreamedCommit(
            version, version, tuple(DataFile(p, 1, 1) for p in paths), adds=True, removed=gone
        )

    commits = {1: commit(1, "a", "b"), 2: commit(2, "c"), 3: commit(3, "d")}
    return DeltaFacts(9, "loc", "id", 0, 3, commits, snapshots={3: tuple(DataFile(p, 1, 1) for p in "abcd")})


def line(version: int, index: int = -100, initial: bool = False) -> str:
    return DeltaOffset("id", version, index, initial).as_json()


@pytest.mark.parametrize(
    ("start", "end", "read"),
    [
        (line(1, 0), line(4), ((3, ("b", "c", "d")),)),
        (line(2), line(2, 0), ((2, ("c",)),)),
        (line(4), line(4), ()),
        (line(3), line(2), ()),
        (line(3, 1, True), line(4), ((3, ("c", "d")),)),
        (None, line(4), ((3, ("a", "b", "c", "d")),)),
    ],
)
def test_a_slice_of_delta_holds_the_files_between_two_positions(
    start: str | None, end: str | None, read: tuple[tuple[int, tuple[str, ...]], ...]
) -> None:
    found = input_ranges.of_delta(start, end, delta())
    assert found is not None
    assert found.versions == read


def test_where_files_left_the_table_each_version_is_read_by_itself() -> None:
    found = input_ranges.of_delta(line(1), line(4), delta(removed=True))
    assert found is not None
    assert found.versions == ((1, ("a", "b")), (2, ("c",)), (3, ("d",)))


def by_themselves(**changes: Any) -> DeltaFacts:
    """Versions 1 to 3 of a table whose files, and whose metadata, are plain."""
    told = delta()
    commits = {
        v: replace(c, files=tuple(replace(f, plain=True) for f in c.files)) for v, c in told.commits.items()
    }
    return replace(told, commits=commits, plain=True, **changes)


def changed(facts: DeltaFacts, version: int, **changes: Any) -> DeltaFacts:
    return replace(facts, commits={**facts.commits, version: replace(facts.commits[version], **changes)})


@pytest.mark.parametrize(
    ("facts", "direct"),
    [
        (by_themselves(), True),
        (changed(by_themselves(), 2, schema="{}"), True),
        (changed(by_themselves(), 3, schema="{}"), False),
        (changed(by_themselves(), 3, files=(DataFile("d", 1, 1),)), False),
        (changed(by_themselves(), 1, files=(DataFile("a", 1, 1),)), True),
        (replace(by_themselves(), plain=False), False),
    ],
    ids=[
        "plain files",
        "other metadata before",
        "other metadata since",
        "a file that is not plain",
        "a file before that is not plain",
        "a table that is not plain",
    ],
)
def test_files_are_read_by_themselves_only_where_that_is_what_the_table_reads(
    facts: DeltaFacts, direct: bool
) -> None:
    found = input_ranges.of_delta(line(2), line(4), facts)
    assert found is not None
    assert (found.direct, found.as_dict()["direct"]) == (direct, direct)


def test_very_many_files_are_read_by_the_log_of_their_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_ranges, "MOST_DIRECT", 3)
    found = [input_ranges.of_delta(line(start), line(4), by_themselves()) for start in (2, 1)]
    assert [part and part.direct for part in found] == [True, False]


@pytest.mark.parametrize(
    ("one", "other", "both"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_slices_put_together_are_read_as_each_of_them_can_be(one: bool, other: bool, both: bool) -> None:
    parts = [
        InputRange("delta", versions=((1, ("a", "b")),), direct=one),
        InputRange("delta", versions=((2, ("c",)),), direct=other),
    ]
    found = batches.join_slices(parts)
    assert found is not None
    assert found.direct is both
    assert [cut.direct for cut in batches.split_batches(found, {"maxFilesPerTrigger": "2"}).cuts] == [
        both,
        both,
    ]
    assert merge_slices([part.as_dict() for part in parts])[0]["direct"] is both


def feed() -> DeltaFacts:
    """Versions 1 to 3 of which a change feed is read; version 4 changed no row."""
    told = delta()
    commits = {**told.commits, 4: StreamedCommit(4, 4)}
    return replace(told, commits=commits, latest=4, times={3: 77}, reading=DeltaReadOptions(change_feed=True))


@pytest.mark.parametrize(
    ("start", "end", "versions", "changes"),
    [
        (line(1), line(4), (), (1, 3)),
        (line(1, 1), line(5), (), (2, 3)),  # all of version 1 is read, though it stays there
        (line(4), line(5), (), None),
        (line(3), line(2), (), None),
        (line(2, 0), line(2, 0), (), None),
        (line(3, 1, True), line(5), ((3, ("c", "d")),), None),
        (line(3, -100, True), line(5), ((3, ("a", "b", "c", "d")),), None),
    ],
)
def test_a_slice_of_a_change_feed_is_a_snapshot_and_the_changes_of_whole_versions(
    start: str, end: str, versions: Any, changes: tuple[int, int] | None
) -> None:
    found = input_ranges.of_delta(start, end, feed())
    assert found is not None
    assert (found.versions, found.changes, found.snapshot_ms) == (versions, changes, 77 if versions else None)
    assert (found.empty, found.direct) == (not versions and changes is None, False)
    assert InputRange.from_json(json.loads(json.dumps(found.as_dict()))).as_dict() == found.as_dict()


@pytest.mark.parametrize(("start", "end"), [(line(1, 0), line(4)), (line(0), line(4)), (line(1), line(1, 0))])
def test_of_a_change_feed_no_part_of_a_version_is_a_slice(start: str, end: str) -> None:
    assert input_ranges.of_delta(start, end, feed()) is None


def test_a_change_feed_is_read_in_one_and_never_twice() -> None:
    waits = InputRange("delta", changes=(4, 6))
    assert (
        batches.split_batches(waits, {"maxFilesPerTrigger": "1"}).why
        == "the changes of its table are read in one"
    )
    assert batches.join_slices([waits, InputRange("delta", changes=(7, 7))]) is None
    parts = [InputRange("delta", changes=c).as_dict() for c in ((6, 9), (1, 3), (4, 7), (12, 12))]
    assert [part["changes"] for part in merge_slices(parts)] == [[1, 9], [12, 12]]


@pytest.mark.parametrize(
    ("unread", "read"), [((5, 9), (1, 4)), (None, (1, 9)), ((1, 9), None)], ids=["some", "all", "nothing"]
)
def test_what_was_read_of_a_change_feed_are_its_changes_before_the_first_unread_one(
    unread: Any, read: Any
) -> None:
    everything = InputRange("delta", changes=(1, 9))
    found = probe._subtract_unread(everything, InputRange("delta", changes=unread))
    assert found is not None
    assert found.changes == read


@pytest.mark.parametrize("unread", [None, (5, 9)])
def test_a_change_feed_that_would_begin_with_a_snapshot_of_now_does_not_tell_what_was_read(
    unread: Any,
) -> None:
    now = InputRange("delta", versions=((9, ("a",)),), snapshot_ms=77)
    assert probe._subtract_unread(now, InputRange("delta", changes=unread)) is None


@pytest.mark.parametrize("end", [None, DeltaOffset("other", 4).as_json(), line(2, 5, True)])
def test_what_the_facts_do_not_hold_is_no_slice_of_delta(end: str | None) -> None:
    assert input_ranges.of_delta(line(1), end, delta()) is None
