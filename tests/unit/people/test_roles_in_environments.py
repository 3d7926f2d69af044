"""Roles by environment, the right to reset, the last admin, invitations, narrowed tokens and limits."""

import io
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client
from django.utils import timezone

from recovery.approvals import actions as approvals
from recovery.approvals import selectors as voters
from recovery.audit.evidence import pack_evidence
from recovery.errors import Denied, NotFound, Refused, WrongUse
from recovery.models import AuditEntry, Invitation, Person, RoleIn, Token, Vote
from recovery.people.actions import (
    actor_for_token,
    actor_for_user,
    change_person,
    create_person,
    create_token,
    invitation_of,
    invite_person,
    switch_account,
    use_invitation,
)
from recovery.people.roles import SYSTEM, Actor, AnonymousActor, Grant, Right, Role, Scope
from recovery.workflow import actions as workflow
from tests import factories, pages
from tests.refusals import lacking, refused

pytestmark = pytest.mark.django_db
PASSWORD = "four calm words here"
STRANGER = AnonymousActor(via="page")


def person(name: str, role: Role | str = Role.VIEWER, **more: Any) -> Person:
    password = None if more.get("service") or more.get("invited") else PASSWORD
    return create_person(name=name, role=role, password=password, by=SYSTEM, **more)


def acting(of: Person) -> Actor:
    return actor_for_user(of.user, via="page")


STAGING = {"staging": Grant(Role.RESPONDER)}


@pytest.mark.parametrize(
    ("actor", "right", "environment", "may"),
    [
        (Actor("a", Role.VIEWER, elsewhere=STAGING), Right.RECOVER, "staging", True),
        (Actor("a", Role.VIEWER, elsewhere=STAGING), Right.RECOVER, "production", False),
        (Actor("a", Role.VIEWER, elsewhere=STAGING), Right.RECOVER, None, True),
        (
            Actor("a", Role.RESPONDER, elsewhere={"production": Grant(Role.NONE)}),
            Right.VIEW,
            "production",
            False,
        ),
        (
            Actor("a", Role.RESPONDER, elsewhere={"production": Grant(Role.NONE)}),
            Right.VIEW,
            "prod-eu",
            False,
        ),
        (Actor("a", Role.RESPONDER, elsewhere={"production": Grant(Role.NONE)}), Right.VIEW, "staging", True),
        (Actor("a", Role.VIEWER, elsewhere={"staging": Grant(Role.ADMIN)}), Right.MANAGE, None, False),
        (Actor("a", Role.VIEWER, elsewhere={"staging": Grant(Role.ADMIN)}), Right.MANAGE, "staging", False),
        (Actor("a", Role.RESPONDER, reset=False), Right.RECOVER, "staging", True),
        (Actor("a", Role.RESPONDER, reset=False), Right.RESET, "staging", False),
        (Actor("a", Role.VIEWER, reset=True), Right.RESET, "staging", False),
        (Actor("a", Role.ADMIN, scope=Scope(frozenset({Right.VIEW}))), Right.VIEW, "production", True),
        (Actor("a", Role.ADMIN, scope=Scope(frozenset({Right.VIEW}))), Right.MANAGE, None, False),
        (Actor("a", Role.VIEWER, scope=Scope(frozenset({Right.RECOVER}))), Right.RECOVER, "staging", False),
        (Actor("a", Role.ADMIN, scope=Scope(None, frozenset({"staging"}))), Right.RECOVER, "staging", True),
        (
            Actor("a", Role.ADMIN, scope=Scope(None, frozenset({"staging"}))),
            Right.RECOVER,
            "production",
            False,
        ),
        (Actor("a", Role.ADMIN, scope=Scope(None, frozenset({"staging"}))), Right.MANAGE, None, False),
    ],
)
def test_a_right_is_held_where_the_role_is(
    actor: Actor, right: Right, environment: str | None, may: bool
) -> None:
    assert actor.may(right, environment) is may
    if not may:
        with pytest.raises(Denied, match="may not"):
            actor.check(right, environment)


def test_roles_are_changed_by_an_admin_with_before_and_after() -> None:
    boss, ada = person("boss", Role.ADMIN), person("ada", Role.VIEWER)
    change_person(
        person=ada, role="responder", reset=False, elsewhere={"production": Grant(Role.NONE)}, by=acting(boss)
    )
    entry = AuditEntry.objects.get(action="person.change")
    assert entry.before == {"role": "viewer", "may_reset": True, "in": {}}
    assert entry.after == {"role": "responder", "may_reset": False,
                           "in": {"production": {"role": "none", "may_reset": True}}}  # fmt: skip
    actor = acting(ada)
    assert not actor.may(Right.RESET, "staging")
    assert not actor.may(Right.VIEW, "production")
    change_person(
        person=ada, role="responder", reset=False, elsewhere={"production": Grant(Role.NONE)}, by=acting(boss)
    )
    assert AuditEntry.objects.filter(action="person.change").count() == 1, "what changes nothing is no entry"
    with pytest.raises(Denied):
        change_person(person=ada, role="admin", elsewhere={}, by=acting(ada))
    with pytest.raises(WrongUse):
        change_person(person=ada, role="emperor", elsewhere={}, by=acting(boss))
    with pytest.raises(WrongUse):
        change_person(person=ada, role="viewer", elsewhere={"moon": Grant(Role.VIEWER)}, by=acting(boss))


def test_the_last_admin_can_be_neither_demoted_nor_switched_off() -> None:
    boss, other = person("boss", Role.ADMIN), person("other", Role.ADMIN)
    person("bot", Role.ADMIN, service=True)
    switch_account(person=other, on=False, by=acting(boss))
    by = acting(boss)
    for act in (
        lambda: switch_account(person=boss, on=False, by=by),
        lambda: change_person(person=boss, role="viewer", elsewhere={}, by=by),
    ):
        with pytest.raises(Refused, match="last admin"):
            act()
    switch_account(person=other, on=True, by=by)
    change_person(person=boss, role="viewer", elsewhere={}, by=by)
    boss.refresh_from_db()
    assert boss.role == "viewer"


def test_an_invitation_sets_a_password_once() -> None:
    boss, ada = person("boss", Role.ADMIN), person("ada", invited=True)
    text = invite_person(person=ada, by=acting(boss))
    assert text not in str(list(Invitation.objects.values())) + str(list(AuditEntry.objects.values()))
    with pytest.raises(WrongUse, match="too short"):
        use_invitation(text=text, password="short", by=STRANGER)
    assert use_invitation(text=text, password=PASSWORD, by=STRANGER) == ada
    assert User.objects.get(username="ada").check_password(PASSWORD)
    with pytest.raises(NotFound):
        use_invitation(text=text, password="another good phrase", by=STRANGER)
    assert AuditEntry.objects.filter(action="person.joined", outcome="done", target="ada").count() == 1


@pytest.mark.parametrize("why", ["unknown", "expired", "newer", "switched off", "off and on again"])
def test_an_invitation_that_is_not_good_sets_nothing(why: str) -> None:
    boss, ada = person("boss", Role.ADMIN), person("ada", invited=True)
    text = invite_person(person=ada, by=acting(boss))
    if why == "unknown":
        text = "x"
    elif why == "expired":
        Invitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    elif why == "newer":
        invite_person(person=ada, by=acting(boss))
    else:
        switch_account(person=ada, on=False, by=acting(boss))
        if why == "off and on again":
            switch_account(person=ada, on=True, by=acting(boss))
    with refused("invitation_over", NotFound):
        invitation_of(text)
    with pytest.raises(NotFound):
        use_invitation(text=text, password=PASSWORD, by=STRANGER)
    assert not User.objects.get(username="ada").has_usable_password()


def test_only_an_admin_invites_and_never_a_service_account() -> None:
    boss, ada, bot = person("boss", Role.ADMIN), person("ada"), person("bot", service=True)
    with pytest.raises(Denied):
        invite_person(person=boss, by=acting(ada))
    with pytest.raises(Refused, match="service account"):
        invite_person(person=bot, by=acting(boss))


def test_wrong_invitation_links_are_slow_to_guess(client: Client) -> None:
    boss, ada = person("boss", Role.ADMIN), person("ada", invited=True)
    text = invite_person(person=ada, by=acting(boss))
    for number in range(20):
        assert client.get(f"/invitation/guess-{number}").status_code == 404
    assert pages.refusal(client.get(f"/invitation/{text}")) == "too_many"
    cache.clear()
    assert "Welcome, ada" in client.get(f"/invitation/{text}").content.decode()


def test_a_new_account_name_and_mail_address_are_nobody_elses() -> None:
    person("ada", email="Ada@Corp.example")
    assert User.objects.get().email == "ada@corp.example"
    with pytest.raises(Refused, match="someone named ADA"):
        person("ADA")
    with pytest.raises(Refused, match="mail address"):
        person("eve", email="ADA@corp.example")
    with pytest.raises(WrongUse, match="no mail address"):
        person("eve", email="nonsense")


# Tokens


def test_a_token_has_an_end_and_never_a_later_one_than_allowed(settings: Any) -> None:
    settings.REPRISE_TOKEN_DAYS = 90
    ada = person("ada")
    create_token(owner=ada.user, name="t", by=acting(ada))
    until = Token.objects.get().expires_at
    assert until is not None
    assert timedelta(days=89) < until - timezone.now() <= timedelta(days=90)
    with pytest.raises(WrongUse, match="1 to 90 days"):
        create_token(owner=ada.user, name="t", by=acting(ada), days=91)


def test_a_service_token_is_narrowed_and_its_owner_s_roles_hold_still() -> None:
    boss, bot = person("boss", Role.ADMIN), person("bot", Role.RESPONDER, service=True)
    text = create_token(owner=bot.user, name="ci", by=acting(boss), days=1,
                        rights=[Right.VIEW, Right.RECOVER, Right.MANAGE], environments=["staging"])  # fmt: skip
    actor = actor_for_token(text, via="command")
    assert actor.may(Right.RECOVER, "staging")
    assert not actor.may(Right.RESET, "staging")
    assert not actor.may(Right.VIEW, "development")
    assert not actor.may(Right.MANAGE), "a token never has a right that its owner lacks"
    with refused("narrow_token", Denied):
        create_token(owner=bot.user, name="wider", by=actor)
    for wrong in ({"rights": []}, {"environments": []}, {"environments": ["moon"]}):
        with pytest.raises(WrongUse):
            create_token(owner=bot.user, name="t", by=acting(boss), **wrong)  # type: ignore[arg-type]


def test_after_many_wrong_tokens_one_has_to_wait_even_with_a_good_one() -> None:
    ada = person("ada")
    text = create_token(owner=ada.user, name="laptop", by=acting(ada))
    for number in range(30):
        with pytest.raises(Denied, match="not known here"):
            actor_for_token(f"rp_guess{number}", via="api", address="10.0.0.9")
    with refused("too_many", Denied):
        actor_for_token(text, via="api", address="10.0.0.9")
    assert actor_for_token(text, via="api", address="10.0.0.8").name == "ada"


# Running is not resetting


@pytest.mark.parametrize(
    ("strategy", "asks"), [("continue", True), ("full-refresh", True), ("revert", False)]
)
def test_who_may_run_but_not_reset_runs_no_plan_that_resets(
    monkeypatch: pytest.MonkeyPatch, strategy: str, asks: bool
) -> None:
    ada = person("ada", Role.RESPONDER)
    RoleIn.objects.create(person=ada, environment="development", role="responder", may_reset=False)
    recovery = factories.planned(strategy=strategy)
    monkeypatch.setattr(workflow.broker, "check", lambda: None)
    monkeypatch.setattr(workflow.engine, "wake", lambda step: None)
    if asks:
        with lacking(Right.RESET, "development") as no:
            workflow.execute(recovery_id=recovery.pk, by=acting(ada))
        assert no.value.grant == Grant(Role.RESPONDER, reset=False)
        recovery.refresh_from_db()
        assert recovery.state == "planned"
        entry = AuditEntry.objects.get(action="recovery.execute")
        assert (entry.actor, entry.outcome, entry.recovery) == ("ada", "denied", recovery.label)
    else:
        workflow.execute(recovery_id=recovery.pk, by=acting(ada))
        recovery.refresh_from_db()
        assert recovery.state == "running"


@pytest.mark.parametrize(("strategy", "asks"), [("continue", True), ("revert", False)])
def test_broken_glass_and_resuming_ask_for_the_same_right_as_running(
    monkeypatch: pytest.MonkeyPatch, strategy: str, asks: bool
) -> None:
    ada = person("ada", Role.RESPONDER)
    RoleIn.objects.create(person=ada, environment="staging", role="responder", may_reset=False)
    monkeypatch.setattr(workflow.broker, "check", lambda: None)
    monkeypatch.setattr(workflow.engine, "wake", lambda step: None)
    staging = factories.pipeline(name="s", environment="staging")
    recovery = factories.planned(factories.failed_flow(staging), strategy)
    given = {"recovery_id": recovery.pk, "reason": "nobody answers", "by": acting(ada)}
    if asks:
        with lacking(Right.RESET, "staging") as no:
            approvals.break_glass(**given)
        assert no.value.grant == Grant(Role.RESPONDER, reset=False)
        entry = AuditEntry.objects.get(action="recovery.break_glass")
        assert (entry.outcome, recovery.glasses.count()) == ("denied", 0)
        stuck = factories.failed_step(factories.failed_flow(factories.pipeline(name="d")))
        RoleIn.objects.update(environment="development")
        with lacking(Right.RESET, "development"):
            workflow.execute(recovery_id=stuck.pk, by=acting(ada))
    else:
        approvals.break_glass(**given)
        recovery.refresh_from_db()
        assert recovery.state == "running"


def test_the_button_says_that_somebody_else_starts_what_resets(client: Client) -> None:
    ada = person("ada", Role.RESPONDER)
    RoleIn.objects.create(person=ada, environment="development", role="responder", may_reset=False)
    client.force_login(ada.user)
    says = "Your role, responder, may not run a plan that resets a flow."
    for made, page, shown in (
        (factories.planned(), "review", True),
        (factories.failed_step(factories.failed_flow(factories.pipeline(name="d"))), "run", True),
        (factories.planned(factories.failed_flow(factories.pipeline(name="e")), "revert"), "review", False),
    ):
        assert (says in client.get(f"/recoveries/{made.pk}/{page}").content.decode()) is shown


# Votes


def test_a_vote_takes_the_right_in_the_environment_of_its_recovery() -> None:
    ann = person("ann", Role.VIEWER)
    RoleIn.objects.create(person=ann, environment="staging", role="approver")
    production = factories.asked()
    staging = factories.asked(factories.failed_flow(factories.pipeline(name="s", environment="staging")))
    given = {"choice": "approve", "reason": "read and agreed", "by": acting(ann)}
    with lacking(Right.APPROVE, "production") as no:
        approvals.cast_vote(recovery_id=production.pk, **given)
    assert no.value.grant.role is Role.VIEWER
    approvals.cast_vote(recovery_id=staging.pk, **given)
    assert [(v.voter, v.role) for v in Vote.objects.all()] == [("ann", "approver")]


def test_breaking_glass_takes_the_right_in_the_environment_of_its_recovery(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workflow.broker, "check", lambda: None)
    ada = person("ada", Role.RESPONDER)
    RoleIn.objects.create(person=ada, environment="staging", role="viewer")
    staging = factories.planned(factories.failed_flow(factories.pipeline(name="s", environment="staging")))
    with lacking(Right.BREAK_GLASS, "staging") as no:
        approvals.break_glass(recovery_id=staging.pk, reason="nobody answers", by=acting(ada))
    assert no.value.grant.role is Role.VIEWER
    with lacking(Right.RECOVER, "staging"):
        approvals.request_approval(recovery_id=staging.pk, by=acting(ada))


def test_who_may_vote_goes_by_the_role_in_the_environment_where_there_is_one() -> None:
    everywhere, nowhere = person("ann", Role.APPROVER), person("bob", Role.VIEWER)
    some, away = person("cat", Role.VIEWER), person("dan", Role.APPROVER)
    RoleIn.objects.create(person=some, environment="production", role="approver")
    RoleIn.objects.create(person=away, environment="production", role="viewer")
    named = {e: voters.names_of_approvers(voters.rule_for(e)) for e in ("staging", "production", "prod-eu")}
    assert named == {"staging": ["ann", "dan"], "production": ["ann", "cat"], "prod-eu": ["ann", "cat"]}
    for one in (everywhere, nowhere, some, away):
        for environment, names in named.items():
            assert acting(one).may(Right.APPROVE, environment) is (one.user.username in names)


def test_requests_for_approval_are_shown_to_who_may_see_their_flows_only(client: Client) -> None:
    ann = person("ann", Role.NONE)
    RoleIn.objects.create(person=ann, environment="staging", role="approver")
    production = factories.asked()
    staging = factories.asked(factories.failed_flow(factories.pipeline(name="s", environment="staging")))
    client.force_login(ann.user)
    page = " ".join(client.get("/approvals").content.decode().split())
    shown = [f'href="/approvals/{of.requests.get().pk}"' in page for of in (staging, production)]
    assert shown == [True, False]
    assert re.search(r'class="count">1\s?<span\s?class="sr"> open</span></span></a>', page)
    for of, code in ((staging, 200), (production, 404)):
        request = of.requests.get()
        answer = client.get(f"/approvals/{request.pk}")
        assert answer.status_code == code
        assert f'href="/recoveries/{production.pk}' not in answer.content.decode()
    assert voters.open_requests(timezone.now(), acting(ann)).count() == 1


def test_the_evidence_of_a_recovery_is_for_who_may_see_its_flow() -> None:
    eve = person("eve", Role.AUDITOR)
    label = factories.verified(factories.failed_flow()).label
    assert pack_evidence(label=label, stream=io.BytesIO(), by=acting(eve)).recovery == label
    RoleIn.objects.create(person=eve, environment="development", role="none")
    with pytest.raises(NotFound, match=f"no recovery {label}"):
        pack_evidence(label=label, stream=io.BytesIO(), by=acting(eve))
