"""Several flows in one command: sealed together, one object, and nothing left behind where one of them is refused."""

from typing import Any

import pytest

from recovery.contracts.choices import ChoicesChange
from recovery.errors import Refused
from recovery.management.commands import _acting, _together
from recovery.models import Flow, JointPlan, Recovery
from recovery.people.roles import Role
from recovery.planning import plan_now
from recovery.workflow import actions, broker, by_hand, tasks
from recovery.workflow.selectors import open_recovery_of, plan_of
from tests.factories.joint import KINDS, joined, planned_flows, seal_plan_of, second_flow, states
from tests.refusals import refused
from tests.unit.people.run import run_json, token_of
from tests.unit.workflow.rows import RESPONDER, flow, recovery
from tests.unit.workflow.test_further import not_proven, seal_further

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "check", lambda: None)
    monkeypatch.setattr(tasks.run_step, "delay", lambda *args: None)
    monkeypatch.setattr(by_hand, "read_patch", lambda flow, *, code, diff: {})
    monkeypatch.setattr(by_hand, "needs_stop", lambda flow: False)


@pytest.fixture
def flows(monkeypatch: pytest.MonkeyPatch) -> list[Flow]:
    """Two failed flows of one pipeline."""
    first = flow()
    for module in (_acting, _together):
        monkeypatch.setattr(module, "find_fresh", lambda text, by: first.pipeline)
    return [first, second_flow(first)]


@pytest.fixture
def sealed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str | None]]:
    """(flow, strategy) of each plan that is made; each is as its flow's rows say, and no Spark is asked."""
    made: list[tuple[str, str | None]] = []

    def make_plan(*, flow: Flow, change: Any, by: Any, again: bool, **more: Any) -> Any:
        made.append((flow.short, change.strategy))
        if flow.condition == "REFUSED":
            raise Refused("It is blocked.", code="blocked")
        opened = open_recovery_of(flow.pk)
        if opened is not None and again:
            actions.edit_again(recovery_id=opened.pk, by=by)
        row = opened or recovery("diagnosing", flow=flow)
        Recovery.objects.filter(pk=row.pk).update(state="planned")
        row.refresh_from_db()
        return row, seal_plan_of(row, KINDS)

    monkeypatch.setattr(plan_now, "make_plan", make_plan)
    return made


@pytest.fixture
def token() -> str:
    return token_of("ada", Role.RESPONDER)


def test_several_flows_are_sealed_together_each_with_its_strategy(
    monkeypatch: Any, flows: list[Flow], sealed: Any, token: str
) -> None:
    named = ("--flow", flows[0].short, "--flow", f"{flows[1].short}=prime", "--strategy", "continue")
    code, answer = run_json(monkeypatch, token, "plan", "p", *named)
    assert code == 0, answer
    joint = JointPlan.objects.get()
    assert sealed == [(flows[0].short, "continue"), (flows[1].short, "prime")]
    assert (answer["joint_plan"], answer["plan_hash"]) == (joint.label, joint.hash)
    assert [r["plan_hash"] for r in answer["recoveries"]] == [p.plan for p in joint.contents.plans]
    assert {"recovery", "plan_hash", "forecast", "findings", "steps", "approvals"} <= set(
        answer["recoveries"][0]
    )


@pytest.mark.parametrize("was_open", [True, False])
def test_where_one_is_refused_nothing_is_left_behind(
    monkeypatch: Any, flows: list[Flow], sealed: Any, token: str, was_open: bool
) -> None:
    Flow.objects.filter(pk=flows[1].pk).update(condition="REFUSED")
    if was_open:
        recovery("diagnosing", flow=flows[0])
    named = ("--flow", flows[0].short, "--flow", flows[1].short)
    code, answer = run_json(monkeypatch, token, "plan", "p", *named, "--strategy", "continue")
    assert (code, answer["error"]["code"]) == (1, "blocked")
    assert not JointPlan.objects.exists()
    assert states(*Recovery.objects.all()) == ["diagnosing" if was_open else "cancelled"]


OF_ONE = [
    ["--position", "0=earliest"],
    ["--confirm", "0->1"],
    ["--key", "id"],
    ["--to", "batch=3"],
    ["--positions"],
]


@pytest.mark.parametrize("option", [*OF_ONE, ["--strategy", "all"]])
def test_what_is_of_one_flow_is_not_given_for_several(
    monkeypatch: Any, flows: list[Flow], sealed: Any, token: str, option: list[str]
) -> None:
    named = ("--flow", flows[0].short, "--flow", flows[1].short)
    code, _ = run_json(monkeypatch, token, "plan", "p", *named, *option)
    assert (code, sealed) == (2, [])


def test_a_joint_plan_is_executed_and_cancelled_by_its_own_name(monkeypatch: Any, token: str) -> None:
    joint, rows = joined(by=RESPONDER)
    code, answer = run_json(monkeypatch, token, "execute", joint.label, "--plan", rows[0].plans.get().hash)
    assert (code, answer["error"]["code"]) == (1, "stale_plan")
    code, answer = run_json(monkeypatch, token, "execute", joint.label.lower(), "--plan", joint.hash)
    assert (code, answer["joint_plan"]) == (0, joint.label)
    assert [r["state"] for r in answer["recoveries"]] == ["running"] * 2 == states(*rows)
    code, answer = run_json(monkeypatch, token, "rollback", joint.label)
    assert (code, answer["error"]["code"]) == (1, "wrong_state")
    code, answer = run_json(monkeypatch, token, "rollback", joint.label, "--plan", "0" * 64)
    assert (code, answer["error"]["code"]) == (1, "stale_plan")
    other, waiting = joined(by=RESPONDER)
    code, answer = run_json(monkeypatch, token, "cancel", other.label)
    assert (code, [r["state"] for r in answer["recoveries"]]) == (0, ["cancelled"] * 2)
    assert states(*waiting) == ["cancelled"] * 2


def test_a_command_starts_the_plan_that_was_read_and_no_other(monkeypatch: Any, token: str) -> None:
    row = planned_flows(count=1)[0]
    code, answer = run_json(monkeypatch, token, "execute", row.label, "--plan", "0" * 64)
    assert (code, answer["error"]["code"], states(row)) == (1, "stale_plan", ["planned"])
    code, answer = run_json(monkeypatch, token, "execute", row.label, "--plan", row.plans.get().hash)
    assert (code, states(row)) == (0, ["running"])
    for plan, refusal in (("0" * 64, "stale_plan"), (row.plans.get().hash, "wrong_state")):
        code, answer = run_json(monkeypatch, token, "rollback", row.label, "--plan", plan)
        assert (code, answer["error"]["code"]) == (1, refusal)


def test_one_vote_by_command_is_for_all_of_them(monkeypatch: Any, token: str) -> None:
    joint, rows = joined(by=RESPONDER, environment="staging")
    code, answer = run_json(monkeypatch, token, "request", joint.label)
    assert (code, [r["state"] for r in answer["recoveries"]]) == (0, ["awaiting_approval"] * 2)
    vote = ("approve", joint.label, "--reason", "It fits.", "--plan", joint.hash)
    code, answer = run_json(monkeypatch, token_of("ann", Role.APPROVER), *vote)
    assert (code, [r["vote"] for r in answer["recoveries"]]) == (0, ["approve"] * 2)
    assert states(*rows) == ["approved"] * 2


def test_a_further_plan_that_is_not_joined_is_given_up_and_the_plan_that_ran_is_in_force_again(
    monkeypatch: Any,
) -> None:
    of, ran = not_proven()
    other = second_flow(of.flow)

    def make_plan(*, flow: Flow, **more: Any) -> Any:
        if flow.pk == other.pk:
            raise Refused("It is blocked.", code="blocked")
        return of, seal_further(of)

    monkeypatch.setattr(plan_now, "make_plan", make_plan)
    changes = [(one, ChoicesChange()) for one in (of.flow, other)]
    with refused("blocked"):
        plan_now.make_joint_plan(changes=changes, by=RESPONDER)
    assert (states(of), plan_of(of)) == (["needs_attention"], ran)


def test_a_flow_that_is_named_twice_is_refused_as_such_and_leaves_nothing_behind(
    monkeypatch: Any, flows: list[Flow], sealed: Any, token: str
) -> None:
    named = ("--flow", flows[0].short, "--flow", flows[0].short, "--again")
    code, answer = run_json(monkeypatch, token, "plan", "p", *named)
    assert (code, answer["error"]["code"]) == (1, "too_few_plans")
    assert [row.state for row in Recovery.objects.all()] == ["cancelled"]


@pytest.mark.parametrize("text", ["J-99", "J-0"])
def test_what_is_no_joint_plan_is_not_found(monkeypatch: Any, token: str, text: str) -> None:
    code, answer = run_json(monkeypatch, token, "execute", text)
    assert (code, answer["error"]["code"]) == (2, "not_found")
