"""Asking and voting: what is allowed, what is written, and what a change makes void."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils import timezone

from recovery.approvals import actions, selectors
from recovery.approvals.rules import Voter, never_counts
from recovery.errors import Denied, Refused, WrongUse
from recovery.models import (
    ApprovalRequest,
    AuditEntry,
    JointPlan,
    Message,
    Person,
    Recovery,
    Vote,
)
from recovery.people.roles import Actor, Role
from recovery.plans.values import Drift
from recovery.workflow import actions as workflow
from recovery.workflow import engine, sealing
from recovery.workflow.moves import claim
from recovery.workflow.steps.base import PlanVoid
from tests import factories
from tests.factories.plans import plan_contents
from tests.refusals import refused
from tests.unit.approvals.people import REJECTED, Clock, actor, ask, entries, no, planned, yes

pytestmark = pytest.mark.django_db


def test_two_votes_let_a_production_plan_run_and_all_of_it_is_in_the_log(
    ada: Actor, ann: Actor, bob: Actor
) -> None:
    row = planned()
    ask(row, ada)
    assert row.state == "awaiting_approval"
    yes(row, ann)
    assert row.state == "awaiting_approval"
    request = yes(row, bob)
    assert (row.state, request.state) == ("approved", "approved")
    workflow.execute(recovery_id=row.pk, by=ada)
    row.refresh_from_db()
    request.refresh_from_db()
    assert (row.state, request.state) == ("running", "used")
    assert entries() == [
        ("approval.request", "done", "ada"),
        ("approval.vote", "done", "ann"),
        ("approval.vote", "done", "bob"),
        ("approval.decide", "done", "bob"),
        ("recovery.execute", "done", "ada"),
    ]
    voted = AuditEntry.objects.filter(action="approval.vote").last()
    assert voted is not None
    assert voted.after["plan"] == row.plans.get().hash
    assert "Numbers match R-142." in voted.says


@pytest.mark.parametrize("votes", [0, 1])
def test_without_enough_votes_it_does_not_run_and_the_try_is_in_the_log(
    ada: Actor, ann: Actor, votes: int
) -> None:
    row = planned()
    ask(row, ada)
    for _ in range(votes):
        yes(row, ann)
    with refused("needs_approval", Refused) as refusal:
        workflow.execute(recovery_id=row.pk, by=ada)
    assert f"{2 - votes} more" in refusal.value.sentence
    row.refresh_from_db()
    assert row.state == "awaiting_approval"
    assert entries()[-1] == ("recovery.execute", "failed", "ada")


def test_who_asked_or_sealed_cannot_vote_and_the_try_is_in_the_log(ann: Actor, bob: Actor) -> None:
    row = planned("staging")
    row.plans.update(sealed_by="bob")
    asker = Actor("ann", Role.RESPONDER, ann.user_id)
    ask(row, asker)
    for who, code in ((ann, "own_request"), (bob, "own_plan")):
        with pytest.raises(Refused) as refused:
            yes(row, who)
        assert refused.value.code == code
    assert Vote.objects.count() == 0
    assert entries("approval.vote") == [
        ("approval.vote", "failed", "ann"),
        ("approval.vote", "failed", "bob"),
    ]


@pytest.mark.parametrize("joint", [False, True], ids=["alone", "together"])
def test_who_sealed_a_plan_does_not_vote_on_it_under_another_name(
    ada: Actor, ann: Actor, bob: Actor, joint: bool
) -> None:
    row = planned("staging")
    if joint:
        sealed = JointPlan.objects.create(
            pipeline=row.flow.pipeline, hash="a" * 64, body={}, sealed_by="bob", sealed_by_id=bob.user_id
        )
        row.plans.update(joint=sealed, joint_ordinal=0)
    else:
        row.plans.update(sealed_by="bob", sealed_by_id=bob.user_id)
    request = ApprovalRequest(
        recovery=row, plan=row.plans.get(), rule=selectors.rule_for("staging").as_dict(), requested_by="ada"
    )
    renamed, namesake = Voter("robert", bob.user_id), Voter("bob", ann.user_id)
    User.objects.filter(pk=bob.user_id).update(username="robert")
    request.expires_at = timezone.now() + timedelta(hours=1)
    facts = selectors.request_facts(request)
    refusal = never_counts(facts, renamed)
    assert (refusal.code if refusal else None) == "own_plan"
    assert never_counts(facts, namesake) is None
    assert selectors.names_of_approvers(facts.rule, request, request.plan) == ["ann"]


def test_who_sealed_a_plan_before_accounts_were_kept_with_it_is_known_by_name(ada: Actor, bob: Actor) -> None:
    row = planned("staging")
    row.plans.update(sealed_by="bob", sealed_by_id=None)
    ask(row, ada)
    with refused("own_plan", Refused):
        yes(row, bob)


def test_who_edited_the_code_of_the_plan_does_not_vote_on_it(ada: Actor, ann: Actor, bob: Actor) -> None:
    row = planned("production")
    made = row.plans.get()
    made.body = {**made.body, "editors": [{"name": "ann", "user_id": ann.user_id}]}
    made.save()
    request = ask(row, ada)
    assert selectors.names_of_approvers(selectors.rule_for("production"), request, made) == ["bob"]
    with pytest.raises(Refused) as refused:
        yes(row, ann)
    assert refused.value.code == "own_code"
    assert yes(row, bob).votes.count() == 1


@pytest.mark.parametrize("role", [Role.VIEWER, Role.RESPONDER, Role.AUDITOR, Role.ADMIN])
def test_only_a_role_with_the_right_votes(ada: Actor, role: Role) -> None:
    row = planned()
    ask(row, ada)
    with pytest.raises(Denied, match="vote on plans"):
        yes(row, actor("zoe", role))
    assert entries()[-1] == ("approval.vote", "denied", "zoe")


def test_a_service_account_never_votes(ada: Actor) -> None:
    row = planned()
    ask(row, ada)
    with pytest.raises(Denied, match="only people vote"):
        yes(row, actor("robot", service=True))


def test_an_approver_can_neither_ask_nor_run(ann: Actor) -> None:
    row = planned()
    with pytest.raises(Denied):
        ask(row, ann)
    with pytest.raises(Denied):
        actions.break_glass(recovery_id=row.pk, reason="now", by=ann)
    assert entries() == [("approval.request", "denied", "ann"), ("recovery.break_glass", "denied", "ann")]


def test_a_vote_needs_a_reason_and_an_asking_needs_a_plan(ada: Actor, ann: Actor) -> None:
    row = planned()
    with refused("not_asked", Refused):
        yes(row, ann)
    ask(row, ada)
    with pytest.raises(WrongUse, match="reason"):
        actions.cast_vote(recovery_id=row.pk, choice="approve", reason="  ", by=ann)
    with pytest.raises(WrongUse, match="approve or reject"):
        actions.cast_vote(recovery_id=row.pk, choice="maybe", reason="x", by=ann)
    with refused("asked", Refused):
        ask(row, ada)
    row.plans.update(voided_at=timezone.now())
    with refused("no_plan", Refused):
        ask(row, ada)
    assert Vote.objects.count() == 0


def test_where_nobody_must_agree_nobody_can_be_asked(ada: Actor) -> None:
    row = planned("development")
    with refused("not_needed", Refused):
        ask(row, ada)
    workflow.execute(recovery_id=row.pk, by=ada)


def test_the_database_itself_holds_one_vote_a_person_and_plan(ada: Actor, ann: Actor) -> None:
    row = planned()
    request = ask(row, ada)
    yes(row, ann)
    with refused("voted", Refused):
        yes(row, ann)
    copy = Vote.objects.get()
    copy.pk = None
    with pytest.raises(IntegrityError), transaction.atomic():
        copy.save(force_insert=True)
    with pytest.raises(IntegrityError), transaction.atomic():
        ApprovalRequest.objects.create(
            recovery=row, plan=request.plan, environment="production", rule={}, requested_by="x",
            requested_at=timezone.now(), expires_at=timezone.now(),
        )  # fmt: skip


def test_a_rejection_ends_visibly_in_editing_with_its_reason(ada: Actor, ann: Actor, bob: Actor) -> None:
    row = planned()
    ask(row, ada)
    yes(row, ann)
    request = no(row, bob)
    plan = row.plans.get()
    assert (row.state, request.state) == ("diagnosing", "rejected")
    assert REJECTED in row.reason
    assert plan.voided_at is not None
    assert [d["what"] for d in plan.drift] == ["approval"]
    assert set(row.steps.values_list("state", flat=True)) == {"skipped"}
    assert entries()[-1] == ("approval.reject", "done", "bob")
    assert row.choices["strategy"] == "continue"


def test_an_approved_plan_can_still_be_rejected_by_who_has_not_voted(
    ada: Actor, ann: Actor, bob: Actor
) -> None:
    row = planned("staging")
    ask(row, ada)
    yes(row, ann)
    with refused("voted", Refused):
        no(row, ann)
    no(row, bob)
    assert row.state == "diagnosing"


def test_taking_the_plan_back_voids_the_votes_and_the_old_hash_is_refused_with_what_changed(
    ada: Actor, ann: Actor, bob: Actor
) -> None:
    row = planned()
    request = ask(row, ada)
    yes(row, ann)
    digest = row.plans.get().hash
    workflow.edit_again(recovery_id=row.pk, by=ada)
    request.refresh_from_db()
    assert request.state == "voided"
    assert "ada" in request.says.split()
    assert Vote.objects.get().voided_at is not None
    with refused("stale_plan", Refused):
        yes(row, bob, plan_hash=digest)
    assert entries("approval.void") == [("approval.void", "done", "reprise")]


def seal(row: Recovery, by: Actor, **more: Any) -> None:
    fresh = Recovery.objects.get(pk=row.pk)
    contents = plan_contents(
        flow=row.flow.name,
        steps=[{"kind": "stop", "says": "", "args": {}}],
        environment=row.flow.pipeline.environment,
        **more,
    )
    sealing._write(fresh, contents, by)
    row.refresh_from_db()


@pytest.mark.parametrize("votes", [1, 2])
def test_a_newer_seal_voids_what_was_given_and_the_same_people_vote_anew(
    ada: Actor, ann: Actor, bob: Actor, votes: int
) -> None:
    row = planned()
    first = ask(row, ada)
    old = row.plans.get().hash
    for who in (ann, bob)[:votes]:
        yes(row, who)
    seal(row, ada, gathered_at="2026-11-22T00:00:00+00:00")
    first.refresh_from_db()
    assert (row.state, first.state) == ("planned", "voided")
    with refused("needs_approval", Refused):
        workflow.execute(recovery_id=row.pk, by=ada)
    ask(row, ada)
    with refused("stale_plan", Refused):
        yes(row, ann, plan_hash=old)
    yes(row, ann)
    yes(row, bob)
    assert row.state == "approved"


def test_drift_found_by_the_first_step_voids_the_plan_for_good(ada: Actor, ann: Actor) -> None:
    row = planned("staging")
    request = ask(row, ada)
    yes(row, ann)
    workflow.execute(recovery_id=row.pk, by=ada)
    step = row.steps.get(kind="stop")
    held = claim(step.pk, step.fence, worker="w", deadline=timezone.now() + timedelta(minutes=1))
    assert held is not None
    drift = Drift("code", "a", "b", "customers.py was edited since the plan was made.")
    engine.void_plan(held, PlanVoid([drift]))
    row.refresh_from_db()
    request.refresh_from_db()
    assert (row.state, request.state) == ("diagnosing", "used")
    with refused("stale_plan", Refused):
        yes(row, actor("cat"), plan_hash=request.plan.hash)


def test_expired_is_not_approved_even_before_anybody_wrote_it_down(
    clock: Clock, ada: Actor, ann: Actor, bob: Actor
) -> None:
    row = planned()
    ask(row, ada)
    yes(row, ann)
    yes(row, bob)
    clock.on(hours=8)
    with refused("expired", Refused):
        workflow.execute(recovery_id=row.pk, by=ada)


@pytest.mark.parametrize("votes", [0, 1, 2])
def test_time_ends_a_request_and_its_recovery(
    clock: Clock, ada: Actor, ann: Actor, bob: Actor, votes: int
) -> None:
    row = planned()
    request = ask(row, ada)
    for who in (ann, bob)[:votes]:
        yes(row, who)
    clock.on(hours=8, seconds=-1)
    assert actions.expire_requests() == 0
    clock.on(seconds=1)
    if votes < 2:
        with refused("expired", Refused):
            yes(row, actor("cat"))
    assert (actions.expire_requests(), actions.expire_requests()) == (1, 0)
    row.refresh_from_db()
    request.refresh_from_db()
    assert (row.state, row.active, request.state) == ("expired", False, "expired")
    assert "not approved" in row.reason
    assert row.plans.get().voided_at is not None
    assert not Vote.objects.filter(voided_at=None).exists()
    assert entries()[-1] == ("approval.expire", "done", "reprise")
    workflow.open_recovery(flow_id=row.flow_id, by=ada)


@pytest.mark.parametrize("ends", ["cancel", "edit"])
def test_whatever_ends_a_recovery_ends_its_request(ada: Actor, ends: str) -> None:
    row = planned()
    request = ask(row, ada)
    if ends == "cancel":
        workflow.cancel(recovery_id=row.pk, reason="wrong flow", by=ada)
    else:
        workflow.edit_again(recovery_id=row.pk, by=ada)
    request.refresh_from_db()
    assert request.state == "voided"


def test_people_are_told_what_was_asked_and_decided_and_of_no_single_vote(ada: Actor, ann: Actor) -> None:
    factories.channel(events=["approval.requested", "approval.decided"], environments=["staging"])
    row = planned("staging")
    request = ask(row, ada)
    yes(row, ann)
    asked, decided = Message.objects.order_by("pk")
    assert (asked.event, decided.event) == ("approval.requested", "approval.decided")
    assert {asked.body["link"], decided.body["link"]} == {f"/approvals/{request.pk}"}
    assert asked.body["facts"]["approvals"] == "0 of 1"
    assert decided.body["facts"]["decision"] == "approved"
    assert (asked.body["by"], decided.body["by"]) == ("ada", "ann")
    assert [e.reason for e in AuditEntry.objects.filter(action="approval.vote")] == ["Numbers match R-142."]


@pytest.mark.parametrize("lost", ["switched off", "another role"])
def test_a_vote_counts_no_more_once_its_giver_could_not_give_it(lost: str, ada: Actor, ann: Actor) -> None:
    row = planned("staging")
    ask(row, ada)
    yes(row, ann)
    person = Person.objects.get(user_id=ann.user_id)
    if lost == "switched off":
        User.objects.filter(pk=ann.user_id).update(is_active=False)
    else:
        Person.objects.filter(pk=person.pk).update(role="viewer")

    with refused("needs_approval", Refused) as refusal:
        workflow.execute(recovery_id=row.pk, by=ada)
    assert "0 of 1 votes" in refusal.value.sentence
