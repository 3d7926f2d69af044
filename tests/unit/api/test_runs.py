"""A sealed plan is asked for, voted on, started, rolled back and cancelled by a program, as by page and command; one of
several flows for all of them or none."""

from collections.abc import Callable
from typing import Any

import pytest

from recovery.contracts import codec
from recovery.contracts.results import UpdateResult
from recovery.models import AuditEntry, Recovery, Step, Vote
from recovery.people.roles import Role
from recovery.workflow import tasks
from recovery.workflow.steps import rollback
from recovery.workflow.transitions import WAITS
from tests.factories.joint import joined, joined_emptying, planned_flows, states
from tests.unit.api.test_recoveries import Caller, caller, sealings
from tests.unit.people.run import token_of

__all__ = ["caller", "sealings"]
pytestmark = pytest.mark.django_db
Planned = tuple[str, str, list[Recovery]]


@pytest.fixture(autouse=True)
def woken(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Steps that were sent to a worker; none runs."""
    sent: list[Any] = []
    monkeypatch.setattr(tasks.run_step, "delay", lambda *args: sent.append(args))
    return sent


def _alone(environment: str) -> Planned:
    row = planned_flows(count=1, environment=environment)[0]
    return f"recoveries/{row.label}", row.plans.get().hash, [row]


def _together(environment: str) -> Planned:
    joint, rows = joined(environment=environment)
    return f"joint-plans/{joint.label}", joint.hash, rows


@pytest.fixture(params=[_alone, _together])
def plan_in(request: pytest.FixtureRequest) -> Callable[[str], Planned]:
    """The address, hash and recoveries of a sealed plan in an environment: of one flow, or of several."""
    made: Callable[[str], Planned] = request.param
    return made


def approvals_of(shown: dict[str, Any]) -> list[Any]:
    return [one["approvals"] for one in shown.get("recoveries", [shown])]


def as_approver(caller: Caller) -> dict[str, str]:
    return {"Authorization": f"Bearer {token_of('ann', Role.APPROVER)}"}


def test_a_plan_is_asked_for_voted_on_and_started_by_its_hash(
    caller: Caller, plan_in: Any, woken: list[Any]
) -> None:
    at, digest, rows = plan_in("staging")
    code, shown = caller.call("POST", f"{at}/request", {"plan_hash": digest, "reason": "ticket 17"})
    assert (code, states(*rows)) == (201, ["awaiting_approval"] * len(rows)), shown
    assert {one["missing"] for one in approvals_of(shown)} == {1}

    code, shown = caller.call("POST", f"{at}/start", {"plan_hash": digest})
    assert (code, shown["error"]["code"], woken) == (409, "needs_approval", [])

    vote = {"choice": "approve", "plan_hash": digest, "reason": "It fits."}
    code, shown = caller.call("POST", f"{at}/votes", vote, **as_approver(caller))
    assert (code, states(*rows)) == (200, ["approved"] * len(rows)), shown
    assert {one["awaits"] for one in approvals_of(shown)} == {None}
    assert {(v.hash, v.via, v.voter) for v in Vote.objects.all()} == {(digest, "api", "ann")}

    code, shown = caller.call("POST", f"{at}/start", {"plan_hash": digest})
    assert (code, states(*rows), len(woken)) == (202, ["running"] * len(rows), 1), shown
    assert approvals_of(shown) == [None] * len(rows)
    for action in ("approval.request", "approval.vote", "recovery.execute"):
        done = AuditEntry.objects.filter(action=action, outcome="done", via="api")
        assert sorted(e.recovery for e in done) == sorted(row.label for row in rows), action


def test_a_rejection_takes_every_plan_back(caller: Caller, plan_in: Any) -> None:
    at, digest, rows = plan_in("staging")
    caller.call("POST", f"{at}/request", {"plan_hash": digest})
    vote = {"choice": "reject", "plan_hash": digest, "reason": "Wrong key."}
    code, shown = caller.call("POST", f"{at}/votes", vote, **as_approver(caller))
    assert (code, states(*rows)) == (200, ["diagnosing"] * len(rows)), shown


@pytest.mark.parametrize("act", ["request", "votes", "start", "rollback"])
def test_what_was_read_under_another_hash_is_not_acted_upon(
    caller: Caller, plan_in: Any, woken: list[Any], act: str
) -> None:
    at, digest, rows = plan_in("staging")
    if act == "votes":
        caller.call("POST", f"{at}/request", {"plan_hash": digest})
    before, other = states(*rows), {"plan_hash": "0" * 64}
    more = {"votes": {"choice": "approve", "reason": "It fits."}, "rollback": {"reason": "wrong code"}}
    sent = {**other, **more.get(act, {})}
    code, said = caller.call("POST", f"{at}/{act}", sent, **(as_approver(caller) if act == "votes" else {}))
    assert (code, said["error"]["code"]) == (409, "stale_plan")
    assert (states(*rows), Vote.objects.exists(), woken) == (before, False, [])


@pytest.mark.parametrize(
    ("act", "sent"),
    [
        ("request", {}),
        ("start", {}),
        ("votes", {"choice": "approve", "reason": "It fits."}),
        ("votes", {"choice": "approve", "plan_hash": "x"}),
        ("rollback", {}),
        ("rollback", {"reason": "x"}),
        ("rollback", {"plan_hash": "x"}),
        ("cancel", {"why": "x"}),
    ],
)
def test_what_is_missing_is_asked_for_and_nothing_is_done(
    caller: Caller, plan_in: Any, act: str, sent: dict[str, str]
) -> None:
    at, _, rows = plan_in("development")
    code, said = caller.call("POST", f"{at}/{act}", sent, **(as_approver(caller) if act == "votes" else {}))
    assert (code, said["error"]["code"]) == (400, "wrong_use")
    assert set(states(*rows)) <= WAITS


@pytest.mark.parametrize("act", ["request", "start", "rollback", "votes"])
def test_of_plans_that_run_together_none_is_acted_upon_alone(caller: Caller, act: str) -> None:
    _, _, rows = _together("staging")
    digest = rows[0].plans.get().hash
    sent = {
        "request": {"plan_hash": digest},
        "start": {"plan_hash": digest},
        "rollback": {"plan_hash": digest, "reason": "x"},
        "votes": {"choice": "approve", "plan_hash": digest, "reason": "It fits."},
    }[act]
    headers = as_approver(caller) if act == "votes" else {}
    code, said = caller.call("POST", f"recoveries/{rows[0].label}/{act}", sent, **headers)
    assert (code, said["error"]["code"]) == (409, "joint")


def test_what_was_changed_is_rolled_back_by_a_worker(
    caller: Caller, plan_in: Any, woken: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    at, digest, rows = plan_in("development")
    sent = {"plan_hash": digest, "reason": "wrong code"}
    code, said = caller.call("POST", f"{at}/rollback", sent)
    assert (code, said["error"]["code"]) == (409, "wrong_state")

    Recovery.objects.update(state="needs_attention")
    monkeypatch.setattr(rollback, "find_refusal", lambda row: None)
    monkeypatch.setattr(rollback, "has_changed", lambda row: True)
    code, shown = caller.call("POST", f"{at}/rollback", sent)
    assert (code, len(woken)) == (202, 1), shown
    asked = AuditEntry.objects.filter(action="recovery.rollback", outcome="done", via="api")
    assert {(e.recovery, e.reason) for e in asked} == {(row.label, "wrong code") for row in rows}


def test_what_the_update_may_have_emptied_is_not_rolled_back(caller: Caller, woken: list[Any]) -> None:
    joint, rows = joined_emptying()
    Recovery.objects.update(state="needs_attention")
    kept = UpdateResult(updates=("u-1",), ended="u-1")
    Step.objects.filter(recovery=rows[0], kind="rerun").update(
        state="failed", result=codec.to_read_json(kept)
    )
    sent = {"plan_hash": joint.hash, "reason": "wrong code"}
    code, said = caller.call("POST", f"joint-plans/{joint.label}/rollback", sent)
    assert (code, said["error"]["code"]) == (409, "not_undoable")
    assert (states(*rows), woken) == (["needs_attention"] * 2, [])


def test_what_has_changed_nothing_is_cancelled(caller: Caller, plan_in: Any) -> None:
    at, _, rows = plan_in("development")
    code, shown = caller.call("POST", f"{at}/cancel", {"reason": "not needed"})
    assert (code, states(*rows)) == (200, ["cancelled"] * len(rows)), shown
