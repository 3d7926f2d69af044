"""A recovery has one owner: who opened it, until it is given or taken over, and everybody can see whose it is."""

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User

from recovery.errors import Denied
from recovery.models import AuditEntry, Channel, Delivery, Message, Person, Recovery, RoleIn
from recovery.people.roles import Actor, Role
from recovery.workflow import actions, owning
from recovery.workflow.moves import move
from recovery.workflow.transitions import OPEN, RECOVERY
from tests import factories
from tests.refusals import refused
from tests.unit.workflow.rows import RESPONDER, VIEWER, flow, recovery

pytestmark = pytest.mark.django_db
GRACE = Actor("grace", Role.RESPONDER, via="page")


@pytest.fixture
def people() -> None:
    """ada and grace may recover; vic and nora may not; robot is a service account, old has been switched off."""
    for name, role in (("ada", "responder"), ("grace", "admin"), ("vic", "viewer"), ("nora", "responder")):
        factories.person(role, name)
    nora = Person.objects.get(user__username="nora")
    RoleIn.objects.create(person=nora, environment="development", role="viewer")
    factories.person("responder", "robot")
    Person.objects.filter(user__username="robot").update(service=True)
    factories.person("responder", "old")
    User.objects.filter(username="old").update(is_active=False)


def give(row: Recovery, to: str, by: Actor = RESPONDER, **values: Any) -> str:
    actions.hand_over(recovery_id=row.pk, to=to, by=by, **values)
    row.refresh_from_db()
    return row.owner


def test_who_opens_a_recovery_owns_it() -> None:
    assert actions.open_recovery(flow_id=flow().pk, by=RESPONDER).owner == "ada"


@pytest.mark.usefixtures("people")
def test_its_owner_gives_it_to_somebody_who_may_recover_there() -> None:
    row = recovery("planned")
    assert owning.candidates(row) == ["grace"]
    assert give(row, "grace") == "grace"
    entry = AuditEntry.objects.get(action="recovery.hand_over")
    assert (entry.outcome, entry.before, entry.after) == ("done", {"owner": "ada"}, {"owner": "grace"})


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("name", ["vic", "nora", "robot", "old", "nobody-of-that-name", ""])
def test_it_is_not_given_to_who_could_do_nothing_with_it(name: str) -> None:
    row = recovery("planned")
    with refused("no_candidate"):
        give(row, name)
    row.refresh_from_db()
    assert row.owner == "ada"
    assert AuditEntry.objects.filter(action="recovery.hand_over", outcome="failed").count() == 1


def test_it_is_taken_over_with_a_reason_and_not_without() -> None:
    row = recovery("running")
    with refused("no_reason"):
        give(row, "grace", GRACE, reason=" ")
    why = "ada's shift is over."
    assert give(row, "grace", GRACE, reason=why) == "grace"
    entry = AuditEntry.objects.get(action="recovery.take_over", outcome="done")
    assert (entry.actor, entry.reason) == ("grace", why)


@pytest.mark.usefixtures("people")
def test_nobody_gives_away_what_is_somebody_elses() -> None:
    row = recovery("planned", owner="somebody")
    with refused("not_owner"):
        give(row, "grace")


@pytest.mark.usefixtures("people")
def test_of_two_who_decided_on_the_same_owner_the_second_is_told() -> None:
    row = recovery("planned")
    give(row, "grace", was="ada")
    with refused("lost_race"):
        give(row, "nora", Actor("nora", Role.RESPONDER, via="page"), reason="Mine.", was="ada")
    with refused("same_owner"):
        give(row, "grace", GRACE, reason="A double click.", was="grace")
    assert Message.objects.count() == 1


@pytest.mark.parametrize("state", sorted(set(RECOVERY) - OPEN))
def test_what_has_ended_has_no_other_owner(state: str) -> None:
    row = recovery(state, active=False)
    with refused("wrong_state"):
        give(row, "grace", GRACE, reason="Late.")


def test_who_may_not_recover_can_neither_take_nor_give() -> None:
    row = recovery("planned", owner="vic")
    for to in ("vic", "grace"):
        with pytest.raises(Denied):
            give(row, to, VIEWER, reason="x")
    assert {(e.action, e.outcome) for e in AuditEntry.objects.all()} == {
        ("recovery.take_over", "denied"),
        ("recovery.hand_over", "denied"),
    }


def test_a_worker_that_is_about_to_move_the_recovery_does_not_lose_its_turn() -> None:
    row = recovery("running")
    read_before = Recovery.objects.get(pk=row.pk)
    give(row, "grace", GRACE, reason="Night shift.")
    move(read_before, "needs_attention")
    row.refresh_from_db()
    assert (row.state, row.owner) == ("needs_attention", "grace")


@pytest.mark.usefixtures("people")
def test_who_had_it_is_told_that_somebody_took_it() -> None:
    User.objects.filter(username="ada").update(email="ada@example.com")
    Channel.objects.create(
        name="ada", kind="mail", address="Ada@example.com", environments=["production"], events=[]
    )
    give(recovery("running"), "grace", GRACE, reason="Night shift.")
    assert list(Delivery.objects.values_list("channel__name", flat=True)) == ["ada"]


@pytest.mark.usefixtures("people")
def test_the_new_owner_is_told_by_their_own_mail_channel_and_by_those_that_asked() -> None:
    User.objects.filter(username="grace").update(email="Grace@example.com")
    places = {"environments": ["production"], "kind": "mail"}
    for name, address, events in (
        ("grace", "grace@example.com", ["flow.failed"]),
        ("others", "vic@example.com", ["flow.failed"]),
    ):
        Channel.objects.create(name=name, address=address, events=events, **places)
    Channel.objects.create(
        name="all",
        address="a@b.org",
        kind="mail",
        environments=["development"],
        events=["recovery.handed_over"],
    )
    why = "You know this table."
    give(recovery("planned"), "grace", reason=why)

    assert set(Delivery.objects.values_list("channel__name", flat=True)) == {"grace", "all"}
    body = Message.objects.get().body
    assert body["title"].endswith("is grace's now")
    told = {name: body["facts"][name] for name in ("owner", "was", "by", "reason")}
    assert told == {"owner": "grace", "was": "ada", "by": "ada", "reason": why}


def test_an_older_recovery_is_its_openers() -> None:
    row = recovery("planned", owner="")
    import_module("recovery.migrations.0010_owner").give_to_who_opened(apps, SimpleNamespace())
    row.refresh_from_db()
    assert row.owner == "ada"
