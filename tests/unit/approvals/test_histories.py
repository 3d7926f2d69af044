"""Random histories of several people, workers, expiry and a clock that jumps, against a model of what may happen.

The model knows nothing of the code: a plan runs when enough different people, none of them its author or requester,
agreed to exactly this plan under the rule of today, in time; or when glass was broken where the rule has it.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import hypothesis.strategies as st
import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from recovery.approvals import actions, changing, rules
from recovery.errors import RepriseError
from recovery.models import ApprovalRequest, AuditEntry, Recovery, Step, Vote
from recovery.people.roles import Actor, Role
from recovery.plans.values import Drift
from recovery.workflow import actions as workflow
from recovery.workflow import engine, sealing
from recovery.workflow.moves import claim
from recovery.workflow.steps.base import PlanVoid
from tests.factories.plans import plan_contents
from tests.unit.approvals.people import Clock, actor, planned

RESPONDERS, APPROVERS = ("ada", "ben"), ("ann", "bob", "cat")


class Histories(RuleBasedStateMachine):
    """One recovery in staging. `self.m_*` is the model. What was interrupted and is resumed has tests of its own."""

    clock: Clock

    def __init__(self) -> None:
        super().__init__()
        self.block = transaction.atomic()
        self.block.__enter__()
        self.people: dict[str, Actor] = {n: actor(n, Role.RESPONDER) for n in RESPONDERS}
        self.people |= {n: actor(n) for n in APPROVERS}
        self.people["root"] = actor("root", Role.ADMIN)
        self.m_rule = rules.shipped_rule("staging")
        self.m_version = 0

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.block.__exit__(None, None, None)

    @initialize()
    def begin(self) -> None:
        self.row = planned("staging")
        self.seals = 0
        self.m_state, self.m_author = "planned", "ada"
        self._nobody()

    def _nobody(self) -> None:
        """The model's request: none."""
        self.m_asked_by, self.m_ends, self.m_yes, self.m_decided = "", timezone.now(), set[str](), None

    def _try(self, act: Callable[[], Any]) -> bool:
        """Run one act; whether it was taken. What is refused must change nothing (the invariants see to it)."""
        try:
            act()
        except RepriseError:
            return False
        return True

    def _live(self) -> bool:
        return bool(self.m_asked_by) and self.m_state in ("awaiting_approval", "approved")

    def _in_time(self) -> bool:
        return bool(self.m_asked_by) and timezone.now() < self.m_ends

    # ---- what people do

    @precondition(lambda self: self.m_state != "needs_attention")
    @rule(who=st.sampled_from([*RESPONDERS, *APPROVERS]))
    def ask(self, who: str) -> None:
        taken = self._try(lambda: actions.request_approval(recovery_id=self.row.pk, by=self.people[who]))
        assert taken == (who in RESPONDERS and self.m_state == "planned" and self.m_rule.votes > 0)
        if taken:
            self.m_state, self.m_asked_by = "awaiting_approval", who
            self.m_ends = timezone.now() + timedelta(hours=self.m_rule.expiry_hours)
            self.m_yes, self.m_decided = set(), None

    @rule(who=st.sampled_from([*RESPONDERS, *APPROVERS]), choice=st.sampled_from(["approve", "approve", "reject"]),
          stale=st.sampled_from([False, False, False, True]))  # fmt: skip
    def vote(self, who: str, choice: str, stale: bool) -> None:
        plan = Recovery.objects.get(pk=self.row.pk).plans.filter(voided_at=None).first()
        digest = "0" * 64 if stale or plan is None else plan.hash
        taken = self._try(
            lambda: actions.cast_vote(recovery_id=self.row.pk, choice=choice, reason="because", plan_hash=digest,
                                 by=self.people[who])
        )  # fmt: skip
        states = ("awaiting_approval", "approved") if choice == "reject" else ("awaiting_approval",)
        mine = who in (self.m_asked_by, self.m_author) or who in self.m_yes
        assert taken == (
            who in APPROVERS and self.m_state in states and self._in_time() and not stale and not mine
        ), (who, choice, stale)
        if taken and choice == "reject":
            self.m_state = "diagnosing"
            self._nobody()
        elif taken:
            self.m_yes.add(who)
            if len(self.m_yes) >= self.m_rule.votes:
                self.m_state, self.m_decided = "approved", timezone.now()

    @precondition(lambda self: self.m_state != "needs_attention")
    @rule(who=st.sampled_from([*RESPONDERS, "ann"]))
    def execute(self, who: str) -> None:
        taken = self._try(lambda: workflow.execute(recovery_id=self.row.pk, by=self.people[who]))
        assert taken == (who in RESPONDERS and self._may_run()), (who, self.m_state)
        if taken:
            self.m_state = "running"
            self._nobody()

    def _may_run(self) -> bool:
        if self.m_rule.votes == 0 and self.m_state in ("planned", "approved"):
            return True
        if self.m_state != "approved" or not self._in_time() or self.m_decided is None:
            return False
        return timezone.now() >= self.m_decided + timedelta(minutes=self.m_rule.waiting_minutes)

    @precondition(lambda self: self.m_state != "needs_attention")
    @rule(who=st.sampled_from([*RESPONDERS, "ann"]))
    def break_glass(self, who: str) -> None:
        taken = self._try(
            lambda: actions.break_glass(recovery_id=self.row.pk, reason="now", by=self.people[who])
        )
        waits = self.m_state in ("planned", "awaiting_approval", "approved")
        assert taken == (who in RESPONDERS and waits and self.m_rule.break_glass and not self._may_run()), (
            who,
            self.m_state,
        )
        if taken:
            self.m_state = "running"
            self._nobody()

    @rule(who=st.sampled_from(RESPONDERS))
    def take_back(self, who: str) -> None:
        taken = self._try(lambda: workflow.edit_again(recovery_id=self.row.pk, by=self.people[who]))
        assert taken == (self.m_state in ("planned", "awaiting_approval", "approved"))
        if taken:
            self.m_state = "diagnosing"
            self._nobody()

    @precondition(lambda self: self.m_state in ("diagnosing", "planned", "awaiting_approval", "approved"))
    @rule(who=st.sampled_from(RESPONDERS))
    def seal(self, who: str) -> None:
        self.seals += 1
        kinds = ("stop", "seed", "rerun", "verify")
        contents = plan_contents(
            environment="staging",
            table_rows=self.seals,
            steps=[{"kind": kind, "says": "", "args": {}} for kind in kinds],
        )
        sealing._write(self.row, contents, self.people[who])
        self.m_state, self.m_author = "planned", who
        self._nobody()

    @rule(votes=st.integers(0, 3), waits=st.sampled_from([0, 30]), glass=st.booleans())
    def change_the_rule(self, votes: int, waits: int, glass: bool) -> None:
        wanted = replace(self.m_rule, votes=votes, waiting_minutes=waits, break_glass=glass)
        taken = self._try(
            lambda: changing.change_rule(rule=wanted, version=self.m_version, by=self.people["root"])
        )
        assert taken == (wanted != self.m_rule)
        if taken:
            self.m_rule, self.m_version = wanted, self.m_version + 1
            if self.m_state in ("awaiting_approval", "approved"):
                self.m_state = "planned"
            self._nobody()

    # ---- what workers and time do

    @rule(minutes=st.sampled_from([-90, 1, 29, 30, 31, 600, 24 * 60 - 1, 24 * 60]))
    def time_jumps(self, minutes: int) -> None:
        self.clock.on(minutes=minutes)

    @rule()
    def beat(self) -> None:
        late = self._live() and not self._in_time()
        assert actions.expire_requests() == int(late)
        if late:
            self.m_state = "expired"
            self._nobody()

    @precondition(lambda self: self.m_state == "running")
    @rule(how=st.sampled_from(["drift", "fail"]))
    def a_worker_takes_the_seed(self, how: str) -> None:
        step = self._seed()
        held = claim(step.pk, step.fence, worker="w", deadline=timezone.now() + timedelta(minutes=5))
        assert held is not None
        if how == "drift":
            engine.void_plan(held, PlanVoid([Drift("code", "a", "b", "The code was edited.")]))
            self.m_state = "diagnosing"
            return
        assert claim(step.pk, step.fence, worker="w2", deadline=timezone.now()) is None
        engine.to_unknown(held, "Its worker is silent.")
        self.m_state = "needs_attention"

    def _seed(self) -> Step:
        plan = Recovery.objects.get(pk=self.row.pk).plans.get(voided_at=None)
        Step.objects.filter(plan=plan, kind="stop").update(state="done")
        return Step.objects.get(plan=plan, kind="seed")  # which is never repeated by itself

    # ---- what always holds

    @invariant()
    def the_database_agrees_with_the_model(self) -> None:
        if hasattr(self, "m_state"):
            assert Recovery.objects.get(pk=self.row.pk).state == self.m_state

    @invariant()
    def at_most_one_request_is_live_and_it_is_for_the_plan_in_force(self) -> None:
        if not hasattr(self, "m_state"):
            return
        live = ApprovalRequest.objects.filter(state__in=("open", "approved"))
        assert live.count() == int(self._live())
        for request in live:
            assert request.plan.voided_at is None
            votes = Vote.objects.filter(plan=request.plan, voided_at=None)
            assert {v.voter for v in votes if v.choice == "approve"} == self.m_yes
            assert all(v.hash == request.plan.hash for v in votes)

    @invariant()
    def nobody_has_two_votes_on_a_plan_nor_one_on_their_own(self) -> None:
        if not hasattr(self, "m_state"):
            return
        votes = [(v.plan_id, v.voter_id) for v in Vote.objects.filter(voided_at=None)]
        assert len(votes) == len(set(votes))
        own = [v for v in Vote.objects.all() if v.voter in (v.request.requested_by, v.plan.sealed_by)]
        assert own == []

    @invariant()
    def every_start_is_in_the_log(self) -> None:
        if hasattr(self, "m_state") and self.m_state == "running":
            last = AuditEntry.objects.filter(
                action__in=("recovery.execute", "recovery.break_glass"), outcome="done"
            )
            assert last.exists()


@pytest.mark.django_db
def test_no_history_runs_a_plan_that_nobody_agreed_to(clock: Clock) -> None:
    start = clock.now
    Histories.clock = clock

    def fresh() -> Histories:
        clock.now = start
        return Histories()

    run_state_machine_as_test(
        fresh,
        settings=settings(
            max_examples=25, stateful_step_count=25, deadline=None,
            phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a long history is clear enough unshrunk
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
        ),
    )  # fmt: skip
