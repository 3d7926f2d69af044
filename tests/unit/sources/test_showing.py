"""A source's position as pages, commands and plans show it: nothing left out, nothing secret, costs in words."""

import json
from dataclasses import replace
from typing import Any

import pytest

from recovery.checkpoints.report import SourceEntry
from recovery.contracts import codec
from recovery.contracts.amounts import Amount, Bound
from recovery.contracts.positions import MovedPart, ShownPart, ShownSource
from recovery.contracts.readers import SourceReader
from recovery.sources import files, kafka, position_requests, position_view, registry
from recovery.sources.base import (
    Distance,
    InputFile,
    PartChange,
    PartMove,
    Position,
    PositionPart,
    Precision,
    SourceFacts,
    StartCandidate,
    StartChoice,
)
from recovery.sources.kafka_facts import KafkaFacts, PartitionFacts, TopicFacts

NOW = 1_790_000_000_000
LINE = '{"orders":{"0":5,"1":4}}'
FACTS = KafkaFacts(
    NOW,
    {
        "orders": TopicFacts(
            "id-1", {0: PartitionFacts(1, 9), 1: PartitionFacts(0, 4)}, retention_ms=1000, plain=True
        )
    },
    {"orders": None},
)


def kafka_source(start: StartCandidate | None = None, line: str = LINE, **values: Any) -> SourceFacts:
    return SourceFacts(
        position=Position(0, "kafka", line, kafka.label_position(line), Precision.EXACT, True),
        location="orders",
        start=start,
        reach=kafka.judge_reach(line, FACTS),
        option=kafka.find_start_option(line, FACTS),
        unread=kafka.measure_distance(line, '{"orders":{"0":9,"1":4}}', FACTS),
        **values,
    )


def wished(wanted: StartChoice, line: str = LINE) -> ShownSource:
    return position_view.show_source(kafka_source(kafka.find_position(wanted, line, FACTS), line))


def test_a_source_that_stays_says_so_for_every_part() -> None:
    shown = position_view.show_source(kafka_source())
    assert shown.after == shown.committed
    assert shown.committed.parts[0] == ShownPart(name="orders-0", value="5", label="orders partition 0 at 5")
    assert shown.changes == (
        MovedPart(part="orders-0", before="5", after="5", moved=PartMove.SAME),
        MovedPart(part="orders-1", before="4", after="4", moved=PartMove.SAME),
    )
    assert shown.lost.rows == shown.reread.rows == Amount(value=0)
    assert shown.unread.rows is not None
    assert shown.unread.rows.value == 4
    assert (shown.reach.readable, shown.problem, shown.fallbacks) == (True, None, {})
    assert shown.can == ("time", "json", "earliest", "latest", "parts")
    assert shown.option is not None
    assert shown.option.options == {"startingOffsets": LINE}


AMOUNT = {"value": 4, "exact": True, "why": "", "bound": "exact"}
NO_AMOUNT = {"rows": {**AMOUNT, "value": 0}, "files": None, "bytes": None, "seconds": None}


def test_what_is_shown_goes_out_under_the_names_that_programs_know() -> None:
    """The answer of `plan --position … --json` and of the API."""
    sent = json.loads(json.dumps(codec.to_json(wished(StartChoice(latest=True)))))
    assert list(sent) == [
        "source", "kind", "location", "committed", "after", "changes", "lost", "reread", "unread", "fallbacks",
        "precision", "reach", "option", "can", "problem",
    ]  # fmt: skip
    assert sent["lost"] == {**NO_AMOUNT, "rows": AMOUNT}
    assert list(sent["after"]) == ["label", "offset_json", "parts"]
    assert list(sent["changes"][0]) == ["part", "before", "after", "moved"]
    assert set(sent["reach"]) == {"readable", "why", "until_ms", "lost", "parts"}
    assert list(sent["option"]) == [
        "supported", "precision", "options", "code", "place", "doubled", "missed", "note",
    ]  # fmt: skip
    assert codec.to_json(codec.read(ShownSource, sent)) == sent


def test_secrets_of_a_reader_are_not_shown() -> None:
    told = replace(
        kafka_source(),
        location="jdbc://ada:pass-word@host/orders",
        options={"kafka.sasl.jaas.config": "pass-word"},
        reader=SourceReader(options={"kafka.sasl.jaas.config": "pass-word"}),
        facts={"password": "pass-word"},
    )
    text = json.dumps(codec.to_json(position_view.show_source(told)))
    assert "pass-word" not in text
    assert "jdbc://***@host/orders" in text


def test_a_line_that_its_kind_cannot_read_is_shown_as_it_is() -> None:
    told = SourceFacts(Position(0, "kafka", "[1]", "", Precision.UNKNOWN, None), "orders")
    shown = position_view.show_source(told)
    assert [part.value for part in shown.committed.parts] == ["[1]"]
    assert [change.moved for change in shown.changes] == [PartMove.SAME]


def test_every_kind_says_which_wishes_it_takes() -> None:
    for kind in registry.BY_NAME.values():
        assert set(kind.CAN) <= set(position_requests.NAMES), kind.KIND


def cost(
    lost: Distance = position_view.ZERO, again: Distance = position_view.ZERO, *moved: PartMove
) -> position_view.Costs:
    changes = tuple(
        PartChange(f"p-{n}", PositionPart("p", "1", ""), PositionPart("p", "2", ""), m)
        for n, m in enumerate(moved)
    )
    start = StartCandidate(LINE, "there", Precision.EXACT, lost, again, changes)
    return position_view.sum_costs([position_view.show_source(kafka_source(start))])


COSTS: dict[str, tuple[position_view.Costs, tuple[str, ...], tuple[str, ...]]] = {
    "nothing": (cost(position_view.ZERO, position_view.ZERO, PartMove.SAME), (), ()),
    "rows": (
        cost(Distance(rows=Amount(value=8)), position_view.ZERO, PartMove.FORWARD),
        ("8 rows never read",),
        (),
    ),
    "again": (
        cost(position_view.ZERO, Distance(rows=Amount(value=1)), PartMove.BACK),
        (),
        ("1 row read a second time",),
    ),
    "at most": (
        cost(
            Distance(rows=Amount(value=8, bound=Bound.AT_MOST, why="markers")),
            position_view.ZERO,
            PartMove.FORWARD,
        ),
        ("at most 8 rows never read",),
        (),
    ),
    "files whose rows nobody counted": (
        cost(Distance(files=Amount(value=3), bytes=Amount(value=9)), position_view.ZERO, PartMove.FORWARD),
        ("3 files never read",),
        (),
    ),
    "not told": (
        cost(Distance(), Distance(), PartMove.UNCLEAR),
        ("how many rows are never read is not known",),
        ("how many rows are read a second time is not known",),
    ),
    "a part of another topic": (
        cost(position_view.ZERO, position_view.ZERO, PartMove.UNCLEAR),
        ("how many rows are never read is not known",),
        ("how many rows are read a second time is not known",),
    ),
    "some told, some not": (
        cost(Distance(rows=Amount(value=8)), position_view.ZERO, PartMove.FORWARD, PartMove.GONE),
        ("8 rows never read; of p-1 it is not known",),
        ("how many rows are read a second time is not known",),
    ),
    "skips and repeats, both counted": (
        cost(Distance(files=Amount(value=1)), Distance(files=Amount(value=2)), PartMove.UNCLEAR),
        ("1 file never read",),
        ("2 files read a second time",),
    ),
}


@pytest.mark.parametrize("name", COSTS)
def test_a_cost_is_a_sentence_and_an_unknown_one_too(name: str) -> None:
    found, lost, repeated = COSTS[name]
    assert found.lost == tuple(f"Source 0: {said}" for said in lost)
    assert found.repeated == tuple(f"Source 0: {said}" for said in repeated)


def test_the_latest_leaves_out_what_waits_and_the_earliest_reads_again() -> None:
    assert position_view.sum_costs([wished(StartChoice(latest=True))]).lost == (
        "Source 0: 4 rows never read",
    )
    earliest = wished(StartChoice(earliest=True))
    assert position_view.sum_costs([earliest]) == position_view.Costs(
        (), ("Source 0: 8 rows read a second time",)
    )
    assert earliest.changes[0] == MovedPart(part="orders-0", before="5", after="1", moved=PartMove.BACK)


def test_files_that_are_skipped_are_a_cost_though_the_offset_line_is_the_same() -> None:
    facts = files.FileSourceFacts(
        log=(SourceEntry("file:///in/0", NOW, 0),),
        listing=tuple(InputFile(f"file:///in/{n}", 10, NOW + n) for n in range(3)),
        asked_ms=NOW + 10,
    )
    start = files.find_position(StartChoice(latest=True), '{"logOffset":0}', facts)
    told = SourceFacts(
        Position(0, "files", '{"logOffset":0}', "file 1 of 3", Precision.EXACT, True), "/in", start=start
    )
    assert position_view.sum_costs([position_view.show_source(told)]).lost == (
        "Source 0: 2 files never read",
    )


def test_the_api_is_shown_with_what_it_cannot_do() -> None:
    call = position_view.api_call(pipeline_id="p-1", flow="c.s.f", dataset="c.s.t")
    assert call.path == "/api/2.0/pipelines/p-1/updates"
    assert call.body == {"reset_checkpoint_selection": ["c.s.f"], "refresh_selection": ["c.s.t"]}
    assert "takes no position" in call.note
    assert "Do not use it with a table of files" in call.note


@pytest.mark.parametrize(
    "text",
    ["earliest", "latest", "time=2026-11-22T03:00:00Z", "time=2026-11-22T03:00:00.250Z", "version=12", "file=/in/a=b",
     'json={"t":{"0":1}}'],
)  # fmt: skip
def test_a_wish_is_written_as_it_is_read(text: str) -> None:
    assert position_requests.wish_text(position_requests.parse_wish(text)) == text
