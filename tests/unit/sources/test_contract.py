"""What every kind of source answers, whatever it is asked: the same for all of them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.report import SourceEntry
from recovery.contracts.amounts import Amount
from recovery.errors import Refused
from recovery.sources import files, iceberg, labels, registry, unasked
from recovery.sources.base import (
    Distance,
    InputFile,
    PartMove,
    SourceRetention,
    StartCandidate,
    StartChoice,
)
from recovery.sources.kafka_facts import KafkaFacts, PartitionFacts, TopicFacts

NOW = 1_790_000_000_000
DOCS = Path(__file__).resolve().parents[3] / "docs/sources.md"


def dumps(body: Any) -> str:
    return json.dumps(body, separators=(",", ":"))


def snapshot_line(snapshot: int, position: int = 0, scan_all: bool = False) -> str:
    return dumps({"version": 1, "snapshot_id": snapshot, "position": position, "scan_all_files": scan_all})


class Case(NamedTuple):
    """Two good offsets of a kind, the earlier one first, and facts in which both make sense."""

    offsets: tuple[str, str]
    facts: Any
    nothing_known: Any


SHARDS = {"metadata": {"streamName": "s", "batchId": "1"}}


def shards(**at: str) -> str:
    held = {n: {"iteratorType": "AFTER_SEQUENCE_NUMBER", "iteratorPosition": p} for n, p in at.items()}
    return dumps({**SHARDS, **held})


#: two good offsets of each kind whose start is not computed here
LINES = {
    "iceberg": (snapshot_line(7, 1), snapshot_line(8, 1)),
    "rate": ("7", "12"),
    "rate-micro-batch": ('{"offset":3,"timestamp":1000}', '{"offset":6,"timestamp":2000}'),
    "python": ('{"offset": 5, "x": "y"}', '{"offset": 6, "x": "y"}'),
    "auto-loader": (
        '{"seqNum":9,"sourceVersion":1,"lastBackfillStartTimeMs":1,"lastBackfillFinishTimeMs":2}',
        '{"seqNum":11,"sourceVersion":3,"lastBackfillStartTimeMs":1,"lastBackfillFinishTimeMs":2,"lastInputPath":"a"}',
    ),
    "kinesis": (shards(a="49"), shards(a="50")),
    "pubsub": (
        '{"sourceVersion":1,"seqNum":4,"fetchEpoch":2}',
        '{"sourceVersion":1,"seqNum":5,"fetchEpoch":2}',
    ),
    "unknown": ("12", "anything: at all"),
}
CASES = {
    "files": Case(
        ('{"logOffset":0}', '{"logOffset":1}'),
        files.FileSourceFacts(
            log=tuple(SourceEntry(f"file:///in/{n}", NOW + n, n) for n in range(2)),
            listing=tuple(InputFile(f"file:///in/{n}", 10, NOW + n) for n in range(3)),
            asked_ms=NOW + 10,
        ),
        files.FileSourceFacts(),
    ),
    "kafka": Case(
        ('{"a":{"0":3,"1":4}}', '{"a":{"0":5,"1":4}}'),
        KafkaFacts(
            NOW,
            {"a": TopicFacts("id-1", {0: PartitionFacts(1, 9, at={NOW + 5: 8}), 1: PartitionFacts(0, 4)})},
            {"a": None},
        ),
        KafkaFacts(),
    ),
}
WANTED = [
    StartChoice(earliest=True),
    StartChoice(latest=True),
    StartChoice(at_ms=NOW + 5),
    StartChoice(at_ms=-(2**70)),
    StartChoice(version=8),
    StartChoice(file="/in/2"),
    StartChoice(),
    StartChoice(earliest=True, latest=True),
]
OFFSETS = {**{name: case.offsets for name, case in CASES.items()}, **LINES}
kinds = pytest.mark.parametrize("name", OFFSETS)
positioned = pytest.mark.parametrize("name", CASES)


def answers(name: str, line: str | None) -> list[Any]:
    """Every function of a kind, asked of one offset."""
    kind = registry.source_kind_of(name)
    found = [
        *kind.list_parts(line),
        kind.label_position(line),
        *kind.compare_positions(line, line),
        *kind.compare_positions(None, line),
    ]
    if name in registry.UNASKED:
        found.append(registry.UNASKED[name].judge_reach(line))
    for facts in (CASES[name].facts, CASES[name].nothing_known) if name in CASES else ():
        module = registry.POSITIONED[name]
        found += [module.measure_distance(line, line, facts), module.measure_distance(None, line, facts)]
        found += [module.judge_reach(line, facts), module.find_start_option(line, facts)]
    if name == "iceberg":
        found += [iceberg.judge_reach(line, ICEBERG), iceberg.measure_waiting(line, ICEBERG)]
    return found


ICEBERG = iceberg.IcebergSourceFacts(
    tuple(iceberg.TableSnapshot(n, NOW + n, "append", 2, 10, 100) for n in (7, 8, 9))
)


def test_every_kind_is_tested_here() -> None:
    assert set(registry.BY_NAME) - {"delta"} == set(OFFSETS)
    assert registry.source_kind_of("no such kind") is unasked.UNKNOWN
    assert registry.kind_of_format("cloudFiles") == "auto-loader"
    assert registry.kind_of_format("my-own") == "unknown"


@kinds
def test_every_function_answers_for_nothing_read_and_for_a_good_offset(name: str) -> None:
    kind = registry.source_kind_of(name)
    assert name == kind.KIND
    for line in (None, *OFFSETS[name]):
        assert all(found.why for found in answers(name, line) if isinstance(found, SourceRetention))
        assert kind.label_position(line).strip()
        assert all(p.label.strip() and p.name for p in kind.list_parts(line))


@kinds
def test_a_position_is_the_same_as_itself_and_zero_away_from_it(name: str) -> None:
    for line in (None, *OFFSETS[name]):
        assert {c.moved for c in registry.source_kind_of(name).compare_positions(line, line)} <= {
            PartMove.SAME
        }
        for facts in (CASES[name].facts, CASES[name].nothing_known) if name in CASES else ():
            away = registry.POSITIONED[name].measure_distance(line, line, facts)
            assert {a.value for a in (away.rows, away.files, away.bytes, away.seconds) if a} <= {0}


@kinds
def test_a_move_is_the_opposite_of_the_way_back(name: str) -> None:
    kind, (old, new) = registry.source_kind_of(name), OFFSETS[name]
    there, back = ([c.moved for c in kind.compare_positions(*pair)] for pair in ((old, new), (new, old)))
    opposite = {
        PartMove.FORWARD: PartMove.BACK,
        PartMove.UNCLEAR: PartMove.UNCLEAR,
        PartMove.SAME: PartMove.SAME,
    }
    assert back == [opposite[m] for m in there]


@positioned
def test_what_lies_between_is_as_far_from_either_side(name: str) -> None:
    kind, (old, new), facts = registry.POSITIONED[name], OFFSETS[name], CASES[name].facts
    assert kind.measure_distance(old, new, facts) == kind.measure_distance(new, old, facts)


@pytest.mark.parametrize(
    ("name", "before", "after", "moves"),
    [
        (
            "kinesis",
            shards(a="9", b="20", gone="1"),
            shards(a="10", b="19", new="1"),
            [PartMove.FORWARD, PartMove.BACK, PartMove.GONE, PartMove.NEW],
        ),
        ("kinesis", shards(a="9"), shards(a="LATEST"), [PartMove.UNCLEAR]),
        (
            "kinesis",
            shards(a="9"),
            '[{"shard":{"stream":"s","shardId":"a"},"firstSeqNum":null,"lastSeqNum":"9","closed":false}]',
            [PartMove.SAME],
        ),
        ("python", '{"a": 1}', '{"a":1}', [PartMove.UNCLEAR]),  # Spark compares the text
        ("rate", "9", "10", [PartMove.FORWARD]),
    ],
)
def test_parts_are_compared_one_by_one(name: str, before: str, after: str, moves: list[PartMove]) -> None:
    changes = registry.source_kind_of(name).compare_positions(before, after)
    assert [change.moved for change in changes] == moves


def test_a_start_is_chosen_only_where_it_is_computed() -> None:
    assert {name for name, kind in registry.BY_NAME.items() if kind.CAN} == set(registry.POSITIONED)


@positioned
@pytest.mark.parametrize("wanted", WANTED, ids=str)
def test_a_wish_gives_a_candidate_or_a_refusal_that_says_why(name: str, wanted: StartChoice) -> None:
    kind, case = registry.POSITIONED[name], CASES[name]
    for facts in (case.facts, case.nothing_known):
        for committed in (None, *case.offsets):
            found = tried(lambda f=facts, c=committed: kind.find_position(wanted, c, f))
            if isinstance(found, StartCandidate):
                kind.list_parts(found.offset_json)
                honest(found)
            else:
                assert found.sentence.endswith(".")


def tried(ask: Callable[[], StartCandidate]) -> StartCandidate | Refused:
    try:
        return ask()
    except Refused as refused:
        return refused


@positioned
def test_where_it_stood_can_be_had_by_hand_and_costs_nothing(name: str) -> None:
    kind, case = registry.POSITIONED[name], CASES[name]
    line = case.offsets[0]
    found = kind.find_position(StartChoice(by_hand=line), line, case.facts)
    assert found.offset_json == line
    for away in (found.lost, found.reread):
        assert {a.value for a in (away.rows, away.files, away.bytes, away.seconds) if a} <= {0}
    assert {c.moved for c in found.changes} == {PartMove.SAME}


def honest(found: StartCandidate) -> None:
    """Forward loses nothing to be read again, back reads nothing away; unclear promises no number."""
    moved = {c.moved for c in found.changes}
    if moved == {PartMove.FORWARD}:
        assert nothing(found.reread)
    if moved == {PartMove.BACK}:
        assert nothing(found.lost)


def nothing(away: Distance) -> bool:
    return all(
        a in (None, Amount(value=0)) or a.value == 0
        for a in (away.rows, away.files, away.bytes, away.seconds)
        if a
    )


GARBAGE = [
    "",
    "-",
    " ",
    "not json",
    "{}",
    "[]",
    "null",
    "true",
    '"text"',
    "-1",
    "1.5",
    "1e999",
    '{"logOffset":true}',
    '{"logOffset":-2}',
    '{"logOffset":1,"more":2}',
    snapshot_line(1, -4),
    '{"version":1,"snapshot_id":"7","position":0,"scan_all_files":false}',
    '{"version":2,"snapshot_id":7,"position":0,"scan_all_files":false}',
    '{"version":1,"snapshot_id":7,"position":0,"scan_all_files":0}',
    '{"offset":-3,"timestamp":1000}',
    '{"offset":3}',
    '{"seqNum":1}',
    '{"seqNum":"1","sourceVersion":1}',
    '{"metadata":{}}',
    '{"metadata":{},"shardId-0":{}}',
    '{"metadata":{},"shardId-0":{"iteratorType":1,"iteratorPosition":"2"}}',
    '[{"shard":{}}]',
    '[{"shard":{"shardId":"0"},"lastSeqNum":5}]',
    "[1]",
    "[" * 100_000,
    "9" * 5000,
    '{"a":1,"a":2}',
    '"\\ud800"',
]


@kinds
@pytest.mark.parametrize("line", GARBAGE, ids=lambda text: text[:30])
def test_a_broken_line_is_malformed_and_never_anything_else(name: str, line: str) -> None:
    if line in OFFSETS[name] or name == "unknown" or (name == "python" and is_json(line)):
        assert registry.source_kind_of(name).label_position(line).strip()
        return
    for function in (registry.source_kind_of(name).list_parts, registry.source_kind_of(name).label_position):
        with pytest.raises(Malformed):
            function(line)
    for function in asked(name, line):
        with pytest.raises((Malformed, Refused)):
            function()


def asked(name: str, line: str) -> list[Callable[[], Any]]:
    kind, good = registry.source_kind_of(name), OFFSETS[name][0]
    compared = [lambda: kind.compare_positions(line, good), lambda: kind.compare_positions(good, line)]
    if name in registry.UNASKED:
        return [*compared, lambda: registry.UNASKED[name].judge_reach(line)]
    if name == "iceberg":
        waiting = [lambda: iceberg.judge_reach(line, ICEBERG), lambda: iceberg.measure_waiting(line, ICEBERG)]
        return [*compared, *waiting]
    module, facts = registry.POSITIONED[name], CASES[name].facts
    return [
        *compared,
        lambda: module.measure_distance(good, line, facts),
        lambda: module.judge_reach(line, facts),
        lambda: module.find_start_option(line, facts),
        lambda: module.find_position(StartChoice(by_hand=line), good, facts),
        lambda: module.find_position(StartChoice(earliest=True), line, facts),
    ]


def is_json(line: str) -> bool:
    try:
        registry.UNASKED["python"].list_parts(line)
    except Malformed:
        return False
    return True


KEYS = ["logOffset", "version", "snapshot_id", "position", "scan_all_files", "offset", "timestamp", "seqNum"]
KEYS += [
    "sourceVersion",
    "fetchEpoch",
    "metadata",
    "iteratorType",
    "iteratorPosition",
    "shard",
    "shardId",
    "x",
]
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=12,
)


@kinds
@given(data=st.data())
def test_any_line_gives_answers_or_is_malformed(name: str, data: st.DataObject) -> None:
    line = data.draw(st.text() | values.map(json.dumps))
    try:
        answers(name, line)
        for facts in (CASES[name].facts, CASES[name].nothing_known) if name in CASES else ():
            registry.POSITIONED[name].find_position(StartChoice(by_hand=line), OFFSETS[name][0], facts)
    except (Malformed, Refused):
        pass


def test_a_line_that_its_kind_cannot_read_is_shown_as_it_is() -> None:
    assert labels.label_position("rate", "not a number") == "not a number"
    assert labels.label_position("rate", "12") == "12 seconds after its start"
    assert labels.label_position("a kind that nobody knows", None) == "nothing read yet"


def test_every_kind_has_its_row_in_the_docs() -> None:
    rows = [line.split("|")[1] for line in DOCS.read_text().splitlines() if line.startswith("| ")]
    told = {row.replace("(K)", "").strip() for row in rows}
    assert set(registry.BY_NAME) <= told
