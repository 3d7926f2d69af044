"""What an environment's rules let run, when, and what breaking glass does about it."""

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from recovery.approvals import actions, changing, rules, selectors
from recovery.approvals.freezes import parse_freeze
from recovery.errors import Denied, Refused, RepriseError
from recovery.models import (
    ApprovalRequest,
    AuditEntry,
    BreakGlass,
    EnvironmentRule,
    Recovery,
)
from recovery.people.roles import Actor, Role
from recovery.workflow import actions as workflow
from recovery.workflow import engine
from tests.refusals import refused
from tests.unit.approvals.people import Clock, actor, ask, entries, planned, yes
from tests.unit.workflow.rows import choose

pytestmark = pytest.mark.django_db


def test_the_rules_of_the_place_can_be_changed_by_an_admin_and_void_what_was_given(
    ada: Actor, ann: Actor
) -> None:
    admin, row = actor("root", Role.ADMIN), planned("staging")
    request = ask(row, ada)
    yes(row, ann)
    stricter = replace(rules.shipped_rule("staging"), votes=2)
    changing.change_rule(rule=stricter, version=0, by=admin)
    row.refresh_from_db()
    request.refresh_from_db()
    assert (row.state, request.state) == ("planned", "voided")
    assert {"root", "staging"} <= set(re.findall(r"\w+", row.reason))
    entry = AuditEntry.objects.get(action="environment.rule")
    assert (entry.before["votes"], entry.after["votes"], entry.target) == (1, 2, "staging")
    assert selectors.rule_for("staging") == stricter
    ask(row, ada)
    yes(row, ann)
    assert row.state == "awaiting_approval"


def test_of_two_admins_who_change_a_rule_the_second_is_told() -> None:
    admin = actor("root", Role.ADMIN)
    base = rules.shipped_rule("staging")
    changing.change_rule(rule=replace(base, votes=2), version=0, by=admin)
    for version in (0, 7):
        with refused("lost_race", Refused):
            changing.change_rule(rule=replace(base, votes=3), version=version, by=admin)
    changing.change_rule(rule=replace(base, votes=3), version=1, by=admin)
    with refused("same", Refused):
        changing.change_rule(rule=replace(base, votes=3), version=2, by=admin)
    assert changing.version_of("staging") == 2


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (
            replace(rules.shipped_rule("production"), requester_may_vote=True),
            "you cannot approve what you asked for",
        ),
        (replace(rules.shipped_rule("production"), votes=0), "at least 1"),
        (replace(rules.shipped_rule("moon"), votes=1), "no environment moon"),
        (replace(rules.shipped_rule("staging"), strategies=("magic",)), "no strategy magic"),
    ],
)
def test_a_rule_that_cannot_hold_is_refused_and_audited(rule: rules.ApprovalRule, says: str) -> None:
    with pytest.raises(Refused, match=says):
        changing.change_rule(rule=rule, version=0, by=actor("root", Role.ADMIN))
    assert EnvironmentRule.objects.count() == 0
    assert entries() == [("environment.rule", "failed", "root")]


def test_who_may_not_manage_changes_no_rule(ada: Actor) -> None:
    with pytest.raises(Denied):
        changing.change_rule(rule=replace(rules.shipped_rule("staging"), votes=0), version=0, by=ada)
    assert entries() == [("environment.rule", "denied", "ada")]


@pytest.mark.parametrize(
    ("environment", "values", "refused"),
    [
        ("production", {"requester_may_vote": True, "votes": 2}, True),
        ("production", {"votes": 0}, True),
        ("prod-eu", {"votes": 0}, True),
        ("production", {"votes": 1}, False),
        ("staging", {"requester_may_vote": True, "votes": 1}, False),
    ],
)
def test_the_database_refuses_what_the_code_refuses(
    environment: str, values: dict[str, Any], refused: bool
) -> None:
    def write() -> None:
        with transaction.atomic():
            EnvironmentRule.objects.create(
                environment=environment, expiry_hours=1, changed_by="x", changed_at=timezone.now(), **values
            )

    if refused:
        with pytest.raises(IntegrityError, match="nobody_approves_their_own"):
            write()
    else:
        write()


def test_an_environment_that_nobody_described_follows_productions_rule() -> None:
    changing.change_rule(
        rule=replace(rules.shipped_rule("production"), votes=3), version=0, by=actor("root", Role.ADMIN)
    )
    assert (selectors.rule_for("prod-eu").votes, selectors.rule_for("prod-eu").environment) == (3, "prod-eu")


@pytest.mark.parametrize("waits", [10, 0])
def test_waiting_time_and_freeze_hold_back_an_approved_plan(
    clock: Clock, ada: Actor, ann: Actor, waits: int
) -> None:
    clock.now = clock.now.replace(year=2026, month=11, day=18, hour=12)  # a Wednesday
    windows = () if waits else (parse_freeze("Wed 12:00 - Wed 14:00 UTC release"),)
    rule = replace(rules.shipped_rule("staging"), waiting_minutes=waits, freezes=windows)
    changing.change_rule(rule=rule, version=0, by=actor("root", Role.ADMIN))
    row = planned("staging")
    ask(row, ada)
    yes(row, ann)
    with pytest.raises(Refused) as refused:
        workflow.execute(recovery_id=row.pk, by=ada)
    assert refused.value.code == ("waiting_time" if waits else "frozen")
    clock.on(minutes=waits or 120)
    workflow.execute(recovery_id=row.pk, by=ada)


def test_a_strategy_that_the_place_does_not_allow_is_refused_before_it_is_chosen(ada: Actor) -> None:
    rule = replace(rules.shipped_rule("staging"), strategies=("revert",))
    changing.change_rule(rule=rule, version=0, by=actor("root", Role.ADMIN))
    row = planned("staging")
    with refused("strategy_not_allowed", Refused):
        ask(row, ada)
    Recovery.objects.filter(pk=row.pk).update(state="diagnosing")
    with refused("strategy_not_allowed", Refused):
        choose(row.pk, strategy="continue", by=ada)


def glass(row: Recovery, by: Actor, reason: str = "Export at 06:00, nobody answers.") -> BreakGlass:
    made = actions.break_glass(recovery_id=row.pk, reason=reason, by=by)
    row.refresh_from_db()
    return made


@pytest.mark.parametrize("asked", [False, True])
def test_broken_glass_runs_at_once_is_loud_and_voids_the_request(
    clock: Clock, ada: Actor, asked: bool
) -> None:
    row = planned("staging")
    if asked:
        ask(row, ada)
    made = glass(row, ada)
    assert row.state == "running"
    assert made.until == clock.now + timedelta(minutes=60)
    entry = AuditEntry.objects.get(action="recovery.break_glass")
    assert (entry.outcome, entry.actor, entry.after["environment"]) == ("done", "ada", "staging")
    assert "Export at 06:00" in entry.says
    assert [r.state for r in ApprovalRequest.objects.all()] == ["voided"] * asked


@pytest.mark.parametrize(
    ("environment", "reason", "error"),
    [
        ("production", "now", "no break-glass"),
        ("staging", " ", "needs a reason"),
        ("development", "now", "no break-glass"),
    ],
)
def test_glass_is_broken_only_where_it_is_and_with_a_reason(
    ada: Actor, environment: str, reason: str, error: str
) -> None:
    row = planned(environment)
    with pytest.raises(RepriseError, match=error):
        glass(row, ada, reason)
    row.refresh_from_db()
    assert row.state == "planned"
    assert BreakGlass.objects.count() == 0
    assert entries() == [("recovery.break_glass", "failed", "ada")]


def test_glass_is_not_broken_where_the_votes_are_there(ada: Actor, ann: Actor) -> None:
    row = planned("staging")
    ask(row, ada)
    yes(row, ann)
    with refused("not_needed", Refused):
        glass(row, ada)


def test_after_its_time_no_further_step_begins_and_votes_are_asked_for(
    clock: Clock, ada: Actor, ann: Actor
) -> None:
    row = planned("staging")
    glass(row, ada)
    clock.on(minutes=60)
    step = row.steps.get(kind="stop")
    engine.run_step(step.pk, step.fence)
    row.refresh_from_db()
    assert row.state == "needs_attention"
    assert AuditEntry.objects.filter(action="recovery.halt", recovery=row.label).exists()
    with refused("needs_approval", Refused):
        workflow.execute(recovery_id=row.pk, by=ada)
    ask(row, ada)
    assert row.state == "needs_attention"
    yes(row, ann)
    workflow.execute(recovery_id=row.pk, by=ada)
    row.refresh_from_db()
    assert row.state == "running"
    assert ApprovalRequest.objects.get().state == "used"


def test_what_was_interrupted_goes_on_under_its_approval_until_that_ends(
    clock: Clock, ada: Actor, ann: Actor
) -> None:
    row = planned("staging")
    ask(row, ada)
    yes(row, ann)
    workflow.execute(recovery_id=row.pk, by=ada)
    row.steps.filter(kind="stop").update(state="failed")
    Recovery.objects.filter(pk=row.pk).update(state="needs_attention")
    clock.on(hours=23)
    workflow.execute(recovery_id=row.pk, by=ada)
    row.steps.filter(kind="stop").update(state="failed")
    Recovery.objects.filter(pk=row.pk).update(state="needs_attention")
    clock.on(hours=1)
    with refused("expired", Refused):
        workflow.execute(recovery_id=row.pk, by=ada)
    row.refresh_from_db()
    ask(row, ada)
    yes(row, ann)  # the same person, for the same plan: the earlier vote has ended with its request
    workflow.execute(recovery_id=row.pk, by=ada)
