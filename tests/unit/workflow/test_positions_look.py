"""What a person said is kept in the choices, and nothing of what the sources answered, however many parts they have."""

import json
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps

from recovery.contracts.acceptance import Effect
from recovery.models import PositionsLook, Recovery
from recovery.sources import kafka
from recovery.sources.base import Position, Precision, SourceFacts, StartChoice
from recovery.workflow import broker, positioning, studies, tasks
from tests.factories import positions as at
from tests.unit.workflow.rows import RESPONDER, choose, recovery

pytestmark = pytest.mark.django_db
MANY = 1000


def found(flow: Any, wanted: Mapping[str, StartChoice], patch: Any = None) -> list[SourceFacts]:
    line, told = at.topic(MANY)
    wish = wanted.get("0")
    position = Position(0, "kafka", line, kafka.label_position(line), Precision.EXACT, True)
    return [SourceFacts(position, at.TOPIC, start=kafka.find_position(wish, line, told) if wish else None)]


@pytest.fixture(autouse=True)
def sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studies, "read_positions", found)
    monkeypatch.setattr(tasks.look_positions, "delay", lambda *args: None)
    monkeypatch.setattr(broker, "check", lambda: None)


def look(of: Recovery, wanted: Mapping[str, StartChoice]) -> Recovery:
    positioning.request_positions(recovery_id=of.pk, positions=wanted, by=RESPONDER)
    of.refresh_from_db()
    studies.look_positions(of.pk, of.choices["positions_look"]["ticket"])
    of.refresh_from_db()
    return of


@pytest.mark.parametrize("given", [(), ("0=earliest",), ("0=latest", f"0/{at.TOPIC}-7=600")])
def test_a_thousand_partitions_leave_nothing_but_the_wish_in_the_choices(given: tuple[str, ...]) -> None:
    of = recovery("diagnosing", choices={"strategy": "continue"})
    choose(of, positions=positioning.look_at_once(recovery_id=of.pk, given=given), accept=set(Effect))
    of.refresh_from_db()
    assert len(json.dumps(of.choices)) < 1000
    assert len(studies.looked_sources(of)[0].changes) == MANY


def test_what_was_found_is_of_the_newest_look_that_came_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    of = look(recovery("diagnosing", choices={"strategy": "continue"}), {"0": StartChoice(latest=True)})
    assert studies.looked_sources(of)[0].changes[0].after == "750"
    positioning.request_positions(
        recovery_id=of.pk, positions={"0": StartChoice(earliest=True)}, by=RESPONDER
    )
    of.refresh_from_db()
    told = of.chosen.positions_look
    assert (told.status, told.wishes) == ("working", {"0": StartChoice(latest=True)})
    assert studies.looked_sources(of)[0].changes[0].after == "750"
    of = look(of, {"0": StartChoice(earliest=True)})
    assert studies.looked_sources(of)[0].changes[0].after == "100"
    assert PositionsLook.objects.count() == 1


def test_another_strategy_forgets_what_was_found() -> None:
    of = look(recovery("diagnosing", choices={"strategy": "continue"}), {"0": StartChoice(latest=True)})
    Recovery.objects.filter(pk=of.pk).update(choices={"strategy": "revert"})
    of.refresh_from_db()
    assert studies.looked_sources(of) == ()


def test_looks_of_before_are_moved_out_of_the_choices() -> None:
    kept = {"status": "ready", "wishes": {"0": {"latest": True}}, "ticket": "t"}
    old = recovery(
        "cancelled", choices={"positions_look": {**kept, "sources": [{"source": "0"}]}, "key": ["id"]}
    )
    none = recovery("cancelled", choices={"strategy": "continue"})
    begun = recovery("cancelled", choices={"positions_look": {"status": "working"}})
    import_module("recovery.migrations.0018_positions_look").move_out(apps, None)
    for row in (old, none, begun):
        row.refresh_from_db()
    assert old.choices == {"positions_look": kept, "key": ["id"]}
    assert PositionsLook.objects.get(recovery=old).sources == [{"source": "0"}]
    assert (none.choices, begun.choices) == (
        {"strategy": "continue"},
        {"positions_look": {"status": "working"}},
    )
