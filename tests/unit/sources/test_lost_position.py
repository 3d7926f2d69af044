"""A start beside a position that is not known: what lies between the last known one and the start is a bound."""

import json
from pathlib import Path
from typing import Any

import pytest

from recovery.checkpoints.report import LostPosition, SourceProgress
from recovery.contracts.amounts import Amount, Bound
from recovery.contracts.positions import PartMove
from recovery.contracts.readers import SourceReader
from recovery.sources import position_view
from recovery.sources.base import SourceFacts, StartChoice
from recovery.sources.delta_facts import DeltaOffset
from recovery.sources.kafka_facts import KafkaFacts, PartitionFacts, TopicFacts
from recovery.sources.live import kafka as live_kafka
from recovery.sources.live import probe
from tests.delta_tables import TABLE, add, table


def line(at: int) -> str:
    return json.dumps({"readings": {"0": at}}, separators=(",", ":"))


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records 0 to 29 are there."""
    topics = {"readings": TopicFacts("id-1", {0: PartitionFacts(0, 30)}, plain=True)}

    def answer(options: Any, **asked: Any) -> KafkaFacts:
        return KafkaFacts(1000, topics, {"readings": None})

    monkeypatch.setattr(live_kafka, "read_topic_facts", answer)


def look(at: int | None, *, known: int | None = 20) -> SourceFacts:
    """Batch 2 is committed, and where it ended is not known; batch 1 ended at `known`."""
    lost = LostPosition(2) if known is None else LostPosition(2, 1, line(known))
    wanted = None if at is None else StartChoice(by_hand=line(at))
    reader = SourceReader("kafka", options={"subscribe": "readings"})
    return probe.probe_source(SourceProgress(0, "kafka", None, lost=lost), reader, wanted=wanted)


def bounded(amount: Amount | None) -> tuple[int, Bound] | None:
    return None if amount is None else (amount.value, amount.bound)


@pytest.mark.usefixtures("brokers")
@pytest.mark.parametrize(
    ("at", "lost", "reread"),
    [
        (25, (5, Bound.AT_MOST), (5, Bound.AT_MOST)),
        (30, (10, Bound.AT_MOST), (0, Bound.EXACT)),
        (20, (0, Bound.EXACT), (10, Bound.AT_MOST)),
        (10, (0, Bound.EXACT), (10, Bound.AT_LEAST)),
    ],
    ids=["ahead", "at the end", "at the last known", "before it"],
)
def test_a_start_is_compared_with_the_last_known_position_and_bounded(
    at: int, lost: tuple[int, Bound], reread: tuple[int, Bound]
) -> None:
    """The committed position is anywhere from 20 to 30."""
    found = look(at)
    assert found.start is not None
    assert (bounded(found.start.lost.rows), bounded(found.start.reread.rows)) == (lost, reread)
    assert bounded(found.unread.rows) == (30 - at, Bound.EXACT)
    assert [(c.before, c.moved) for c in found.start.changes] == [(None, PartMove.UNCLEAR)]
    spans = found.spans
    assert (spans.processed, spans.reread, spans.skipped, spans.unread) == (None, None, None, None)
    assert spans.waiting is not None


@pytest.mark.usefixtures("brokers")
def test_without_a_start_the_unread_rows_are_a_bound_and_no_start_option_is_given() -> None:
    found = look(None)
    assert bounded(found.unread.rows) == (10, Bound.AT_MOST)
    assert (found.position.offset_json, found.position.is_known) == (None, False)
    assert "readings partition 0 at 20" in found.position.label
    assert (found.spans.waiting, found.option) == (None, None)
    assert found.reach is not None
    assert found.reach.readable is None


@pytest.mark.usefixtures("brokers")
def test_where_no_position_is_known_all_before_a_start_may_be_left_out() -> None:
    found = look(25, known=None)
    assert found.start is not None
    assert bounded(found.start.lost.rows) == (25, Bound.AT_MOST)
    assert bounded(found.start.reread.rows) == (5, Bound.AT_MOST)


@pytest.mark.usefixtures("brokers")
def test_a_bounded_cost_has_to_be_accepted_and_is_said_as_a_bound() -> None:
    costs = position_view.sum_costs([position_view.show_source(look(25))])
    at_most = position_view.say_amount(Amount(value=5, bound=Bound.AT_MOST), "row")
    for told in (costs.lost, costs.repeated):
        assert [(at_most in says, ";" in says) for says in told] == [(True, False)]


def test_a_table_s_position_is_bounded_alike(tmp_path: Path) -> None:
    table(tmp_path / "t", [[], [add("f1")], [add("f2")], [add("f3")]])
    lost = LostPosition(2, 1, DeltaOffset(TABLE, 2).as_json())
    found = probe.probe_source(
        SourceProgress(0, "delta", None, lost=lost),
        SourceReader("delta", str(tmp_path / "t")),
        wanted=StartChoice(version=3),
    )
    assert found.start is not None
    assert bounded(found.start.lost.files) == (1, Bound.AT_MOST)
    assert bounded(found.start.reread.files) == (1, Bound.AT_MOST)
