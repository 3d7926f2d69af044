"""One request, one vote, one broken glass for plans that run together: all of them or none, by their common hash."""

from dataclasses import replace

import pytest

from recovery.approvals import actions, joint_actions, rules, selectors
from recovery.approvals.changing import change_rule, version_of
from recovery.errors import RepriseError
from recovery.models import ApprovalRequest, AuditEntry, JointPlan, Person, Plan, Recovery, Vote
from recovery.people.roles import Actor, Role
from recovery.workflow import joint_actions as running
from tests.factories.joint import joined, states
from tests.refusals import refused
from tests.unit.approvals.people import Clock, actor, entries

pytestmark = pytest.mark.django_db


def asked(by: Actor, environment: str = "production") -> tuple[JointPlan, list[Recovery]]:
    joint, rows = joined(by=by, environment=environment)
    joint_actions.request_joint_approval(joint_id=joint.pk, reason="ticket 17", by=by)
    return joint, rows


def vote(joint: JointPlan, by: Actor, choice: str = "approve", seen: str | None = None) -> None:
    joint_actions.vote_on_joint(joint_id=joint.pk, choice=choice, reason="It fits.", joint_hash=seen, by=by)


def test_a_vote_signs_the_common_hash_and_counts_for_every_plan(ada: Actor, ann: Actor, bob: Actor) -> None:
    joint, rows = asked(ada)
    assert states(*rows) == ["awaiting_approval"] * 2
    vote(joint, ann, seen=joint.hash)
    assert states(*rows) == ["awaiting_approval"] * 2
    vote(joint, bob)
    assert states(*rows) == ["approved"] * 2
    assert {v.hash for v in Vote.objects.all()} == {joint.hash}
    assert sorted(Vote.objects.values_list("plan_id", "voter")) == sorted(
        (plan.pk, name) for plan in Plan.objects.all() for name in ("ann", "bob")
    )
    assert entries("approval.vote") == [
        ("approval.vote", "done", who) for who in ("ann", "ann", "bob", "bob")
    ]
    assert {e.after["joint"] for e in AuditEntry.objects.filter(action="approval.vote")} == {joint.hash}
    running.execute_joint(joint_id=joint.pk, by=ada)
    assert states(*rows) == ["running"] * 2
    assert {r.state for r in ApprovalRequest.objects.all()} == {"used"}


@pytest.mark.parametrize("choice", ["approve", "reject"])
def test_one_plan_of_several_is_not_voted_on_alone(ada: Actor, ann: Actor, choice: str) -> None:
    _, rows = asked(ada)
    for row in rows:
        with refused("joint"):
            actions.cast_vote(recovery_id=row.pk, choice=choice, reason="It fits.", by=ann)
    assert not Vote.objects.exists()


def test_without_enough_votes_none_of_them_starts(ada: Actor, ann: Actor) -> None:
    joint, rows = asked(ada)
    vote(joint, ann)
    with refused("needs_approval"):
        running.execute_joint(joint_id=joint.pk, by=ada)
    assert states(*rows) == ["awaiting_approval"] * 2


@pytest.mark.parametrize("seen", ["0" * 64, "member"])
def test_a_vote_on_another_hash_is_not_counted(ada: Actor, ann: Actor, seen: str) -> None:
    joint, rows = asked(ada)
    other = rows[0].plans.get().hash if seen == "member" else seen
    with refused("stale_plan"):
        vote(joint, ann, seen=other)
    assert not Vote.objects.exists()


def test_a_vote_that_does_not_count_for_one_of_them_counts_for_none(ada: Actor, ann: Actor) -> None:
    joint, rows = asked(ada)
    ApprovalRequest.objects.filter(recovery=rows[1]).update(requested_by="ann", requested_by_id=ann.user_id)
    with refused("own_request"):
        vote(joint, ann)
    assert not Vote.objects.exists()
    assert entries("approval.vote") == [("approval.vote", "failed", "ann")]


def test_who_sealed_them_together_has_no_vote(ada: Actor) -> None:
    both = actor("cleo", Role.ADMIN)
    joint, _ = joined(by=both, environment="production")
    joint_actions.request_joint_approval(joint_id=joint.pk, reason="", by=ada)
    Person.objects.filter(user_id=both.user_id).update(role=Role.APPROVER.value)
    with refused("own_plan"):
        vote(joint, Actor("cleo", Role.APPROVER, both.user_id))
    request = ApprovalRequest.objects.all()[0]
    rule = selectors.rule_for("production")
    assert "cleo" not in selectors.names_of_approvers(rule, request, request.plan)


def test_a_rejection_takes_all_of_them_back(ada: Actor, ann: Actor) -> None:
    joint, rows = asked(ada)
    vote(joint, ann, "reject")
    assert states(*rows) == ["diagnosing"] * 2
    joint.refresh_from_db()
    assert joint.voided_at is not None
    assert sorted(r.state for r in ApprovalRequest.objects.all()) == ["rejected", "voided"]
    assert all(plan.voided_at for plan in Plan.objects.all())


def test_a_request_that_is_not_decided_in_time_expires_for_all_of_them(ada: Actor, clock: Clock) -> None:
    joint, rows = asked(ada)
    assert len({r.expires_at for r in ApprovalRequest.objects.all()}) == 1
    clock.on(hours=9)
    assert actions.expire_requests() == 2
    assert states(*rows) == ["expired"] * 2
    joint.refresh_from_db()
    assert joint.voided_at is not None


def test_broken_glass_starts_all_of_them_and_each_is_reviewed(ada: Actor) -> None:
    joint, rows = asked(ada, environment="staging")
    breaker = actor("adm", Role.ADMIN)
    with refused("joint"):
        actions.break_glass(recovery_id=rows[0].pk, reason="night", by=breaker)
    joint_actions.break_glass_for_joint(joint_id=joint.pk, reason="night", by=breaker)
    assert states(*rows) == ["running"] * 2
    done = AuditEntry.objects.filter(action="recovery.break_glass", outcome="done")
    assert sorted(done.values_list("recovery", flat=True)) == sorted(row.label for row in rows)


def test_who_may_not_vote_there_votes_on_none(ada: Actor) -> None:
    joint, _ = asked(ada)
    with pytest.raises(RepriseError) as denied:
        vote(joint, ada)
    assert denied.value.code == "denied"


def test_a_changed_rule_asks_again_for_all_of_them_and_they_stay_together(ada: Actor, ann: Actor) -> None:
    joint, rows = asked(ada)
    rule = replace(rules.shipped_rule("production"), expiry_hours=4)
    change_rule(rule=rule, version=version_of("production"), by=actor("root", Role.ADMIN))
    assert states(*rows) == ["planned"] * 2
    joint_actions.request_joint_approval(joint_id=joint.pk, reason="", by=ada)
    assert states(*rows) == ["awaiting_approval"] * 2
