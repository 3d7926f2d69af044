"""State moves only along the table."""

import itertools
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from recovery.approvals.moves import approval_to
from recovery.approvals.rules import shipped_rule
from recovery.errors import Refused
from recovery.models import ApprovalRequest, Recovery, Step
from recovery.models.approval import APPROVAL_STATES
from recovery.models.recovery import STATES
from recovery.models.step import STEP_STATES
from recovery.workflow import diagram, engine, guards
from recovery.workflow.moves import claim, move, step_to
from recovery.workflow.transitions import (
    APPROVAL,
    APPROVAL_ARROWS,
    OPEN,
    RECOVERY,
    RECOVERY_ARROWS,
    SKIPS,
    STEP,
    STEP_ARROWS,
    Guard,
    guard_of,
    may_move,
)
from tests import factories
from tests.unit.workflow.rows import flow, plan, recovery


def test_the_table_and_the_database_know_the_same_states() -> None:
    for table, states in ((RECOVERY, STATES), (STEP, STEP_STATES), (APPROVAL, APPROVAL_STATES)):
        assert set(table) == set(states)
        assert all(to <= set(table) for to in table.values())


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        RECOVERY["planned"] = frozenset()  # type: ignore[index]


def test_every_arrow_stands_once_and_every_guard_is_checked_somewhere() -> None:
    for arrows in (RECOVERY_ARROWS, STEP_ARROWS, APPROVAL_ARROWS):
        pairs = [(a.old, a.new) for a in arrows]
        assert len(pairs) == len(set(pairs))
    assert {a.guard for a in RECOVERY_ARROWS} - {Guard.NONE} == set(guards.CHECKS)
    assert {a.guard for a in STEP_ARROWS} == {Guard.FENCE}
    assert {a.guard for a in APPROVAL_ARROWS} == {Guard.NONE, Guard.ENOUGH, Guard.LATE, Guard.IN_TIME}


def test_every_kind_of_step_says_whether_it_may_be_skipped_and_why() -> None:
    assert set(SKIPS) == set(engine.KINDS)
    assert all(rule.because for rule in SKIPS.values())
    with pytest.raises(TypeError):
        SKIPS["seed"] = SKIPS["verify"]  # type: ignore[index]


def test_the_page_of_states_is_drawn_from_the_table() -> None:
    assert diagram.PAGE.read_text(encoding="utf-8") == diagram.text(), (
        "run python -m recovery.workflow.diagram"
    )


HELD: Mapping[str, Any] = {"measured": {"verified": True}}


@pytest.mark.django_db
@pytest.mark.parametrize(("old", "new"), list(itertools.product(STATES, repeat=2)))
def test_a_recovery_takes_every_arrow_of_the_table_whose_guard_holds_and_no_other(old: str, new: str) -> None:
    """Guards are let through here by rows for which they hold: development needs no votes, nothing has acted."""
    row = recovery(old, active=old in OPEN)
    made = plan(row, "stop")
    guard = guard_of(RECOVERY_ARROWS, old, new) if may_move(RECOVERY, old, new) else Guard.NONE
    _hold(guard, row, made)
    if may_move(RECOVERY, old, new):
        move(row, new, **(HELD if guard is Guard.PROVEN else {}))
        assert (row.state, row.active, row.version) == (new, new in OPEN, 1)
    else:
        with pytest.raises(Refused) as refused:
            move(row, new)
        assert refused.value.code == "wrong_state"
    assert Recovery.objects.get(pk=row.pk).state == (new if may_move(RECOVERY, old, new) else old)


def _hold(guard: Guard, row: Recovery, made: Any) -> None:
    """The rows for which this guard holds."""
    now, state = (
        timezone.now(),
        {Guard.ASKED: "open", Guard.DECIDED: "approved", Guard.LATE: "expired"}.get(guard),
    )
    if state:
        late = timedelta(hours=-1 if guard is Guard.LATE else 1)
        request(row, made, state, expires_at=now + late)
    if guard is Guard.SKIPPED:
        row.steps.create(plan=made, ordinal=2, kind="rerun", state="done", idempotency_key="r")
        row.steps.create(
            plan=made,
            ordinal=3,
            kind="verify",
            state="skipped",
            idempotency_key="v",
            result={"skipped": {"by": "ada", "reason": "why", "at": now.isoformat()}},
        )
    if guard is Guard.RAN:
        row.steps.create(plan=made, ordinal=2, kind="rerun", state="done", idempotency_key="r")
    if guard is Guard.GLASS:
        row.glasses.create(
            plan=made, by="ada", reason="now", missing="-", at=now, until=now + timedelta(hours=1)
        )


def request(row: Recovery, made: Any, state: str = "open", **values: Any) -> ApprovalRequest:
    now = timezone.now()
    given = {
        "environment": "production", "rule": shipped_rule("production").as_dict(), "requested_by": "ada",
        "requested_at": now, "expires_at": now + timedelta(hours=1), "decided_at": now, **values,
    }  # fmt: skip
    return ApprovalRequest.objects.create(recovery=row, plan=made, state=state, **given)


GUARDED = [a for a in RECOVERY_ARROWS if a.guard is not Guard.NONE]


@pytest.mark.django_db
@pytest.mark.parametrize("arrow", GUARDED, ids=lambda a: f"{a.old}-{a.new}")
def test_an_arrow_is_not_taken_where_its_guard_does_not_hold(arrow: Any) -> None:
    row = recovery(arrow.old, flow=flow(environment="production"))
    plan(row, "seed")
    row.steps.update(state="pending" if arrow.guard is Guard.RAN else "done")
    with pytest.raises(Refused) as refused:
        move(row, arrow.new)
    assert refused.value.code != "wrong_state"
    assert Recovery.objects.get(pk=row.pk).state == arrow.old


@pytest.mark.django_db
@pytest.mark.parametrize(("old", "new"), list(itertools.product(APPROVAL_STATES, repeat=2)))
def test_a_request_takes_every_arrow_of_the_table_whose_guard_holds_and_no_other(old: str, new: str) -> None:
    row = recovery("awaiting_approval")
    made = plan(row, "stop")
    allowed = may_move(APPROVAL, old, new)
    guard = guard_of(APPROVAL_ARROWS, old, new) if allowed else Guard.NONE
    expires = timezone.now() + timedelta(hours=-1 if guard is Guard.LATE else 1)
    of = request(row, made, old, expires_at=expires)
    for number in (1, 2) if guard is Guard.ENOUGH else ():
        voter = factories.person("approver", f"v{number}")
        of.votes.create(plan=made, voter=voter.username, voter_id=voter.pk, role="approver", choice="approve",
                        reason="r", hash=made.hash, via="page", at=timezone.now())  # fmt: skip
    if allowed:
        approval_to(of, new, says="why")
        assert (of.state, of.version) == (new, 1)
    else:
        with pytest.raises(Refused) as refused:
            approval_to(of, new, says="why")
        assert refused.value.code == "wrong_state"


@pytest.mark.django_db
@pytest.mark.parametrize(
    "arrow", [a for a in APPROVAL_ARROWS if a.guard is not Guard.NONE], ids=lambda a: f"{a.old}-{a.new}"
)
def test_a_request_does_not_take_an_arrow_whose_guard_does_not_hold(arrow: Any) -> None:
    row = recovery("awaiting_approval")
    hours = -1 if arrow.guard is Guard.IN_TIME else 1
    of = request(row, plan(row, "stop"), arrow.old, expires_at=timezone.now() + timedelta(hours=hours))
    with pytest.raises(Refused) as refused:
        approval_to(of, arrow.new, says="why")
    assert refused.value.code == "guard"


@pytest.mark.django_db
@pytest.mark.parametrize(("old", "new"), list(itertools.product(STEP_STATES, repeat=2)))
def test_a_step_takes_every_arrow_of_the_table_under_its_fence_and_no_other(old: str, new: str) -> None:
    row = recovery("running")
    plan(row, "stop")
    row.steps.update(state=old)
    step, stale = row.steps.get(), row.steps.get()
    if may_move(STEP, old, new):
        Step.objects.filter(pk=step.pk).update(fence=7)
        assert not step_to(stale, new), "an old fence moved the step"
        step.refresh_from_db()
        assert step_to(step, new)
    else:
        with pytest.raises(Refused):
            step_to(step, new)
    if old != "pending":
        assert claim(step.pk, step.fence, worker="w", deadline=timezone.now()) is None or new == "pending"


@pytest.mark.parametrize(("old", "new"), list(itertools.product(sorted(STEP), repeat=2)))
def test_a_step_that_ended_never_runs_again(old: str, new: str) -> None:
    if old in ("done", "skipped"):
        assert not may_move(STEP, old, new)


def test_an_unknown_step_is_never_failed_by_silence_alone_but_can_be_proven() -> None:
    assert STEP["running"] == {"done", "failed", "unknown"}
    assert "done" in STEP["unknown"]


def test_success_is_reached_only_through_verification() -> None:
    assert [s for s, to in RECOVERY.items() if "succeeded" in to] == ["verifying"]


def test_no_way_leads_from_a_request_that_ended_back_to_one_that_counts() -> None:
    assert {s for s, to in APPROVAL.items() if to} == {"open", "approved"}


def test_what_ended_holds_its_flow_no_longer() -> None:
    assert {"succeeded", "unproven", "failed", "cancelled", "expired", "rolled_back"}.isdisjoint(OPEN)


def test_an_unknown_state_is_a_fault() -> None:
    with pytest.raises(KeyError):
        may_move(RECOVERY, "planned", "finished")


def test_the_words_of_a_state_page_name_no_state_that_is_not_there() -> None:
    named = set(re.findall(r"^    (\w+) --> (?:\w+|\[\*])$", diagram.text(), flags=re.M))
    assert named == set(STATES) | set(STEP_STATES) | set(APPROVAL_STATES)
