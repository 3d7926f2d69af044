"""A step is skipped only where the table allows it, with a reason, and what was skipped stands in the end's words."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from recovery.contracts.measured import Measured
from recovery.contracts.results import VerifyResult
from recovery.errors import Denied, RepriseError, Unreachable
from recovery.models import AuditEntry, Message, Recovery, ReviewItem, Step, Workspace
from recovery.people.roles import Actor, Grant, Role
from recovery.workflow import actions, broker, engine, skipping, tasks
from recovery.workflow.moves import move
from recovery.workflow.steps import rollback
from recovery.workflow.steps.rollback import RollbackRefusal
from recovery.workflow.strangers import ForeignBatches
from recovery.workflow.transitions import SKIPS
from tests.refusals import refused
from tests.unit.workflow.rows import RESPONDER, VIEWER, flow, plan, recovery

pytestmark = pytest.mark.django_db
KINDS = ("stop", "table-backup", "patch", "restore", "seed", "rerun", "fill", "deduplicate", "verify")
NEVER = [kind for kind, rule in SKIPS.items() if not rule.may and kind != "rollback"]


@pytest.fixture(autouse=True)
def no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "check", lambda: None)
    monkeypatch.setattr(tasks.run_step, "delay", lambda *args: None)


def standing_at(
    kind: str, state: str = "failed", environment: str = "development", **values: Any
) -> Recovery:
    """A recovery that needs a person: the steps before `kind` are done, `kind` is in `state`."""
    row = recovery("needs_attention", flow=flow(environment=environment))
    plan(row, *KINDS)
    at = row.steps.get(kind=kind)
    row.steps.filter(ordinal__lt=at.ordinal).update(state="done")
    row.steps.filter(pk=at.pk).update(state=state, **values)
    return row


WHY = "The table is read by nobody yet."


def skip(row: Recovery, reason: str = WHY, by: Actor = RESPONDER) -> Step:
    step = actions.skip_step(recovery_id=row.pk, reason=reason, by=by)
    row.refresh_from_db()
    return step


@pytest.mark.parametrize("kind", NEVER)
@pytest.mark.parametrize("state", ["failed", "unknown", "pending"])
def test_what_the_plan_rests_on_is_never_skipped(kind: str, state: str) -> None:
    row = standing_at(kind, state, evidence=[{"proven": True, "says": "Seen."}])
    with refused("not_skippable"):
        skip(row)
    row.refresh_from_db()
    assert (row.state, row.steps.get(kind=kind).state) == ("needs_attention", state)
    assert AuditEntry.objects.filter(action="recovery.skip", outcome="failed").count() == 1


@pytest.mark.parametrize(
    ("state", "refusal", "ends"),
    [
        ("failed", RollbackRefusal("Batch 4 was committed since."), "unproven"),
        ("failed", RollbackRefusal("The stream runs.", "running"), "needs_attention"),
        ("failed", RollbackRefusal("It is not clear.", "unclear"), "needs_attention"),
        ("failed", None, "needs_attention"),
        ("failed", Unreachable("The storage does not answer."), "needs_attention"),
        ("unknown", RollbackRefusal("Batch 4 was committed since."), "needs_attention"),
        ("pending", RollbackRefusal("Batch 4 was committed since."), "needs_attention"),
    ],
)
def test_a_rerun_that_failed_is_given_up_where_it_certainly_has_no_way_back(
    monkeypatch: pytest.MonkeyPatch, state: str, refusal: RollbackRefusal | Unreachable | None, ends: str
) -> None:
    def refuse(_: Recovery) -> RollbackRefusal | None:
        if isinstance(refusal, Unreachable):
            raise refusal
        return refusal

    monkeypatch.setattr(rollback, "find_refusal", refuse)
    monkeypatch.setattr(skipping, "find_foreign_batches", lambda *_: ForeignBatches(3, 4, is_seeded=True))
    row = standing_at("rerun", state, evidence=[{"proven": True, "says": "Seen."}])
    Workspace.objects.update(kind="streams")
    row = Recovery.objects.get(pk=row.pk)
    assert (skipping.find_refusal(row) is None) is (ends == "unproven")
    if ends == "unproven":
        skip(row)
    else:
        with refused("not_skippable"):
            skip(row)
    row.refresh_from_db()
    assert row.state == ends
    left = row.steps.filter(kind="verify").values_list("state", flat=True)
    assert set(left) == ({"skipped"} if ends == "unproven" else {"pending"})


def test_a_rollback_that_failed_is_not_skipped() -> None:
    row = standing_at("rerun", "done")
    row.steps.filter(kind="verify").update(state="done")
    row.steps.create(plan=row.plans.get(), ordinal=9, kind="rollback", state="failed", idempotency_key="b")
    with refused("not_skippable"):
        skip(row)


@pytest.mark.parametrize("state", ["failed", "unknown", "pending"])
def test_without_its_proof_a_recovery_ends_as_unproven_and_says_who_wanted_that(state: str) -> None:
    row = standing_at("verify", state, evidence=[{"proven": True, "says": "Measuring again is safe."}])

    step = skip(row)

    assert (row.state, row.active, step.state) == ("unproven", False, "skipped")
    assert row.reason.startswith("Nothing was measured.")
    assert f"skipped by ada: {WHY}" in row.reason
    assert "Step verify was" in row.reason
    assert step.log[-1][1] == f"Skipped by ada: {WHY}"
    entry = AuditEntry.objects.get(action="recovery.skip")
    assert (entry.outcome, entry.reason, entry.before["state"]) == ("done", WHY, state)
    assert list(Message.objects.values_list("event", flat=True)) == ["recovery.unproven"]


@pytest.mark.parametrize("typed", ["They are written again as text", "They are written again as text."])
def test_the_reason_of_a_skip_is_a_sentence_whatever_was_typed(typed: str) -> None:
    row = standing_at("verify")
    skip(row, typed)
    assert row.reason.endswith("again as text.")


def test_a_proof_that_does_not_hold_can_be_given_up_and_what_did_not_hold_is_named() -> None:
    row = standing_at("verify", "done")
    failed = {"verified": False, "criteria": [{"code": "EVERY_ROW_ONCE", "ok": False}]}
    Recovery.objects.filter(pk=row.pk).update(measured=failed)

    step = skip(row)

    assert row.state == "unproven"
    assert "EVERY_ROW_ONCE" in row.reason
    assert row.measured == failed
    assert [s.state for s in row.steps.filter(kind="verify")] == ["done", "skipped"]
    assert step.ordinal == len(KINDS) + 1


def test_no_way_leads_from_a_skipped_proof_to_a_proven_recovery() -> None:
    row = standing_at("verify")
    skip(row)
    for state in ("succeeded", "verifying", "running"):
        with pytest.raises(RepriseError):
            move(row, state, measured={"verified": True})


def test_it_is_not_ended_without_proof_by_anything_but_a_skipped_proof() -> None:
    row = standing_at("verify", "failed")
    with refused("not_skipped"):
        move(row, "unproven")
    row.steps.filter(kind="verify").update(state="skipped")  # as where a plan is void
    with refused("not_skipped"):
        move(row, "unproven")


def test_a_skip_without_a_reason_is_refused() -> None:
    row = standing_at("verify")
    with refused("no_reason"):
        skip(row, reason="  ")
    row.refresh_from_db()
    assert row.state == "needs_attention"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (
            lambda row: Recovery.objects.filter(pk=row.pk).update(state="verifying"),
            "wrong_state",
        ),
        (
            lambda row: row.steps.filter(kind="verify").update(state="unknown", evidence=[]),
            "probe_open",
        ),
        (
            lambda row: row.steps.create(
                plan=row.plans.get(), ordinal=9, kind="rollback", idempotency_key="b", woken_at=timezone.now()
            ),
            "step_running",
        ),
    ],
)
def test_nothing_is_skipped_while_something_moves(change: Any, code: str) -> None:
    row = standing_at("verify")
    change(row)
    why = skipping.find_refusal(Recovery.objects.get(pk=row.pk))
    with refused(code) as refusal:
        skip(row)
    assert refusal.value.sentence == why


def test_two_people_who_skip_at_once_have_one_effect() -> None:
    row = standing_at("verify")
    skip(row)
    with pytest.raises(RepriseError, match="ended without proof"):
        skip(row, by=Actor("grace", Role.RESPONDER, via="page"))
    assert row.steps.filter(state="skipped").count() == 1


def test_who_may_not_run_the_plan_may_not_skip_a_step_of_it() -> None:
    row = standing_at("verify")
    no_reset = Actor(
        "rhea", Role.RESPONDER, via="command", elsewhere={"development": Grant(Role.RESPONDER, False)}
    )
    for who in (VIEWER, no_reset):
        with pytest.raises(Denied):
            skip(row, by=who)
    assert [e.outcome for e in AuditEntry.objects.filter(action="recovery.skip")] == ["denied", "denied"]


def test_a_skip_in_production_is_reviewed_and_needs_no_vote_for_giving_the_proof_up() -> None:
    row = standing_at("verify", environment="production")
    skip(row)
    assert row.state == "unproven"
    assert ReviewItem.objects.get().why == "production"


def test_an_unproven_recovery_frees_its_flow_and_can_still_be_undone() -> None:
    row = standing_at("verify")
    skip(row)
    recovery(flow=row.flow)
    move(row, "rolled_back")
    assert row.state == "rolled_back"


def test_a_worker_that_held_the_step_before_cannot_finish_it_afterwards() -> None:
    row = standing_at("verify", "unknown", evidence=[{"proven": True, "says": "Seen."}], fence=3)
    stale = row.steps.get(kind="verify")
    skip(row)
    engine.finish(stale, VerifyResult(measured=Measured(verified=True)))
    row.refresh_from_db()
    assert (row.state, row.measured) == ("unproven", {})


def test_late_wake_ups_of_the_skipped_step_do_nothing() -> None:
    row = standing_at("verify", "pending", woken_at=timezone.now() - timedelta(hours=1))
    step = skip(row)
    engine.run_step(step.pk, step.fence)
    tasks.reap()
    step.refresh_from_db()
    assert (step.state, step.attempt) == ("skipped", 0)
