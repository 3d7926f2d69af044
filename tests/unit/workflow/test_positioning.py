"""Start positions: looked up by a worker, chosen with their costs accepted, refused with a reason."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from recovery.checkpoints.formats import Malformed
from recovery.contracts.acceptance import Effect
from recovery.contracts.amounts import Amount
from recovery.contracts.choices import PositionsAnswer
from recovery.errors import Denied, Refused
from recovery.models import AuditEntry, Recovery
from recovery.sources import kafka
from recovery.sources.base import Position, Precision, SourceFacts, StartChoice
from recovery.sources.kafka_facts import KafkaFacts, PartitionFacts, TopicFacts
from recovery.workflow import broker, positioning, studies, tasks
from tests import factories as f
from tests.refusals import refused
from tests.unit.workflow.rows import RESPONDER, VIEWER, choose, recovery

pytestmark = pytest.mark.django_db

LINE = '{"orders":{"0":5}}'
FACTS = KafkaFacts(7, {"orders": TopicFacts("id", {0: PartitionFacts(1, 9)}, plain=True)}, {"orders": None})
LATEST, EARLIEST = {"0": StartChoice(latest=True)}, {"0": StartChoice(earliest=True)}


def found(flow: Any, wanted: Mapping[str, StartChoice], patch: Any = None) -> list[SourceFacts]:
    """What `gather.read_positions` answers for a flow that reads one topic."""
    wish = wanted.get("0")
    start = kafka.find_position(wish, LINE, FACTS) if wish else None
    position = Position(0, "kafka", LINE, kafka.label_position(LINE), Precision.EXACT, True)
    return [SourceFacts(position, "orders", start=start)]


@pytest.fixture(autouse=True)
def looked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """Wake-ups that were sent; nothing is looked at by itself."""
    sent: list[tuple[int, str]] = []
    monkeypatch.setattr(tasks.look_positions, "delay", lambda *args: sent.append(args))
    monkeypatch.setattr(broker, "check", lambda: None)
    monkeypatch.setattr(studies, "read_positions", found)
    return sent


def row(**choices: Any) -> Recovery:
    return recovery("diagnosing", choices={"strategy": "continue", **choices})


def looked_at(of: Recovery, wanted: Mapping[str, StartChoice]) -> PositionsAnswer:
    positioning.request_positions(recovery_id=of.pk, positions=wanted, by=RESPONDER)
    of.refresh_from_db()
    studies.look_positions(of.pk, of.choices["positions_look"]["ticket"])
    of.refresh_from_db()
    return of.chosen.positions_look


def last() -> AuditEntry:
    entry = AuditEntry.objects.first()
    assert entry is not None
    return entry


def test_a_look_is_asked_for_and_answered_without_any_choice() -> None:
    of = row()
    look = looked_at(of, LATEST)
    assert (look.status, look.problem, look.wishes) == ("ready", None, LATEST)
    assert studies.looked_sources(of)[0].lost.rows == Amount(value=4)
    assert "positions" not in of.choices
    assert (last().action, last().outcome) == ("recovery.look", "done")


def test_an_old_look_never_overwrites_a_newer_one() -> None:
    of = row()
    positioning.request_positions(recovery_id=of.pk, positions=LATEST, by=RESPONDER)
    of.refresh_from_db()
    old = of.choices["positions_look"]["ticket"]
    positioning.request_positions(recovery_id=of.pk, positions=EARLIEST, by=RESPONDER)
    studies.look_positions(of.pk, old)
    of.refresh_from_db()
    assert of.choices["positions_look"]["status"] == "working"


def test_a_look_that_fails_says_why_and_keeps_the_one_before() -> None:
    of = row()
    looked_at(of, LATEST)
    look = looked_at(of, {"0": StartChoice(version=3)})
    assert look.status == "failed"
    assert "by a version" in (look.problem or "")
    assert look.wishes == LATEST
    with refused("not_looked", Refused):
        choose(of.pk, positions=LATEST, by=RESPONDER, accept={Effect.LOSS})  # a wish that failed lies between


def test_a_line_by_hand_that_nobody_can_read_is_an_answer_and_no_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    why = "it is no JSON"

    def broken(flow: Any, wanted: Mapping[str, StartChoice], patch: Any = None) -> list[SourceFacts]:
        raise Malformed(why)

    monkeypatch.setattr(studies, "read_positions", broken)
    look = looked_at(row(), {"0": StartChoice(by_hand="x")})
    assert look.status == "failed"
    assert (look.problem or "").endswith(f"{why}.")


def test_a_wish_that_its_source_cannot_meet_is_not_chosen_as_if_it_were_the_committed_position(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def out_of_bounds(flow: Any, wanted: Mapping[str, StartChoice], patch: Any = None) -> list[SourceFacts]:
        return [replace(found(flow, {})[0], problem="Version 7 is out of bounds.")]

    monkeypatch.setattr(studies, "read_positions", out_of_bounds)
    of, wanted = row(), {"0": StartChoice(version=7)}
    assert looked_at(of, wanted).status == "ready"
    with refused("no_such_position", Refused):
        choose(of.pk, positions=wanted, by=RESPONDER)


def test_a_source_that_is_not_there_is_refused_with_those_that_are() -> None:
    of = row()
    look = looked_at(of, {"7": StartChoice(latest=True)})
    assert (look.status, re.findall(r"\d+", look.problem or "")) == ("failed", ["7", "0"])
    looked_at(of, {})
    with refused("no_source", Refused):
        positioning.request_positions(recovery_id=of.pk, positions={"7": None}, by=RESPONDER)
    with refused("no_source", Refused):
        choose(of, positions={"7": None})
    assert last().outcome == "failed"


def test_positions_are_chosen_only_as_they_were_looked_at() -> None:
    of = row()
    looked_at(of, EARLIEST)
    with refused("not_looked", Refused):
        choose(of.pk, positions=LATEST, by=RESPONDER, accept={Effect.LOSS})
    choose(of.pk, positions=EARLIEST, by=RESPONDER, accept={Effect.REPEATS})
    of.refresh_from_db()
    assert of.choices["positions"] == {"0": {"earliest": True}}
    entry = last()
    assert (entry.action, "source 0 at earliest" in entry.says) == ("recovery.positions", True)
    assert entry.after["positions"] == {"0": {"earliest": True}}


REFUSED = {
    "loses": (LATEST, Effect.REPEATS, "loses_rows", "Source 0: 4 rows never read"),
    "repeats": (EARLIEST, Effect.LOSS, "repeats_rows", "Source 0: 4 rows read a second time"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_cost_that_was_not_accepted_is_refused_by_its_rows(name: str) -> None:
    wanted, accepted, code, says = REFUSED[name]
    of = row()
    looked_at(of, wanted)
    with pytest.raises(Refused, match=says) as refused:
        choose(of.pk, positions=wanted, accept={accepted})
    assert refused.value.code == code
    of.refresh_from_db()
    assert "positions" not in of.choices


def test_as_committed_needs_no_look_and_takes_the_choice_back() -> None:
    of = row(positions={"0": {"latest": True}})
    choose(of.pk, positions={}, by=RESPONDER)
    of.refresh_from_db()
    assert of.choices["positions"] == {}
    assert (last().action, last().after["positions"]) == ("recovery.positions", {})


@pytest.mark.parametrize("strategy", ["revert", "full-refresh", "repair", None])
def test_a_strategy_without_positions_takes_none(strategy: str | None) -> None:
    of = row(strategy=strategy)
    looked_at(of, EARLIEST)
    with refused("no_positions", Refused):
        choose(of.pk, positions=EARLIEST, by=RESPONDER, accept={Effect.REPEATS})


@pytest.mark.parametrize("state", ["planned", "awaiting_approval", "approved", "running", "succeeded"])
def test_a_sealed_plan_is_taken_back_first(state: str) -> None:
    of = recovery(state, choices={"strategy": "continue"})
    with refused("wrong_state"):
        choose(of.pk, positions={}, by=RESPONDER)


def test_another_strategy_drops_what_was_chosen_for_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    of = row(positions={"0": {"latest": True}}, positions_look={"status": "ready"})
    choose(of.pk, strategy="revert", by=RESPONDER)
    of.refresh_from_db()
    assert of.choices == {"strategy": "revert", "key": []}


def test_a_viewer_may_neither_look_nor_choose() -> None:
    of = row()
    with refused("denied", Denied):
        positioning.request_positions(recovery_id=of.pk, positions={}, by=VIEWER)
    with refused("denied", Denied):
        choose(of, positions={}, by=VIEWER)
    assert [e.outcome for e in AuditEntry.objects.all()] == ["denied", "denied"]


def test_what_is_confirmed_about_sources_is_saved_audited_and_dropped_with_the_strategy() -> None:
    of = row()
    choose(of.pk, confirmed=["1->0", "0->", "1->0"], by=RESPONDER)
    of.refresh_from_db()
    assert of.choices["confirmed"] == ["0->", "1->0"]
    assert (last().action, last().after) == ("recovery.sources", {"confirmed": ["0->", "1->0"]})
    choose(of.pk, strategy="revert", by=RESPONDER)
    of.refresh_from_db()
    assert "confirmed" not in of.choices


@pytest.mark.parametrize(
    ("key", "known", "code"),
    [
        ("0", None, "no_pair"),
        ("->1", None, "no_pair"),
        ("0->1", ["1->0"], "no_pair"),
        ("0", [], "no_pair"),
        ("0->0", [], "nothing_to_confirm"),
    ],
)
def test_only_a_proposal_that_was_made_can_be_confirmed(key: str, known: list[str] | None, code: str) -> None:
    of = row()
    if known is not None:
        asks = {"certainty": "likely", "why": "", "confirm": "Is it?"}
        pairs = [{"old": k[0], "new": k[3], **asks} for k in known]
        option = f.option("continue", mapping={"pairs": pairs, "unconfirmed": []})
        Recovery.objects.filter(pk=of.pk).update(facts={"status": "ready", "options": [option]})
    with refused(code, Refused):
        choose(of.pk, confirmed=[key], by=RESPONDER)


def test_a_viewer_confirms_nothing() -> None:
    with pytest.raises(Denied):
        choose(row().pk, confirmed=[], by=VIEWER)
