"""Two people at the same moment, on a database file as an instance has it: two votes, a vote while the plan is taken
back, double clicks. Each of them has a connection of its own; the database decides who comes first.
"""

import json
from collections import Counter
from typing import Any

import pytest

from tests.instances import Instances

WORK = """
from threading import Barrier, Thread
from django.db import connection
from recovery.approvals import actions
from recovery.errors import RepriseError
from recovery.models import ApprovalRequest, AuditEntry, BreakGlass, Recovery, Vote
from recovery.people.roles import Role
from recovery.workflow import actions as workflow, broker, tasks
from tests.unit.approvals.people import actor, planned

broker.check = lambda: None
tasks.run_step.delay = lambda *args: None
WHO = {name: actor(name, Role.RESPONDER) for name in ("ada", "ben")}
WHO |= {name: actor(name) for name in ("ann", "bob")}
VOTE = {"reason": "because"}
ACTS = {
    "ask": lambda pk, by: actions.request_approval(recovery_id=pk, by=by),
    "approve": lambda pk, by: actions.cast_vote(recovery_id=pk, choice="approve", by=by, **VOTE),
    "reject": lambda pk, by: actions.cast_vote(recovery_id=pk, choice="reject", by=by, **VOTE),
    "edit": lambda pk, by: workflow.edit_again(recovery_id=pk, by=by),
    "run": lambda pk, by: workflow.execute(recovery_id=pk, by=by),
    "glass": lambda pk, by: actions.break_glass(recovery_id=pk, reason="now", by=by),
}

def at_once(pk, acts):
    said, gate = [None] * len(acts), Barrier(len(acts))
    def one(number, act, who):
        connection.ensure_connection()
        gate.wait()
        try:
            ACTS[act](pk, WHO[who])
            said[number] = "done"
        except RepriseError as error:
            said[number] = error.code
        except Exception as error:
            said[number] = repr(error)
        finally:
            connection.close()
    threads = [Thread(target=one, args=(n, *a)) for n, a in enumerate(acts)]
    [t.start() for t in threads], [t.join() for t in threads]
    row, done = Recovery.objects.get(pk=pk), AuditEntry.objects.filter(recovery=f"R-{pk}", outcome="done")
    return {
        "said": said, "state": row.state, "version": row.version,
        "requests": [r.state for r in ApprovalRequest.objects.filter(recovery=row)],
        "votes": Vote.objects.filter(request__recovery=row, voided_at=None).count(),
        "glasses": BreakGlass.objects.filter(recovery=row).count(),
        "done": list(done.values_list("action", flat=True)),
    }

def situation(environment, before, acts, times):
    found = []
    for _ in range(times):
        row = planned(environment)
        for act, who in before:
            ACTS[act](row.pk, WHO[who])
        found.append(at_once(row.pk, acts))
    return found

print(json.dumps({name: situation(*given) for name, given in SITUATIONS.items()}))
"""
ASKED = [["ask", "ada"]]
SITUATIONS: dict[str, tuple[str, list[list[str]], list[list[str]], int]] = {
    "two votes": ("production", ASKED, [["approve", "ann"], ["approve", "bob"]], 5),
    "double click": ("production", ASKED, [["approve", "ann"], ["approve", "ann"]], 5),
    "vote and edit": ("staging", ASKED, [["approve", "ann"], ["edit", "ada"]], 5),
    "for and against": ("staging", ASKED, [["approve", "ann"], ["reject", "bob"]], 5),
    "two ask": ("production", [], [["ask", "ada"], ["ask", "ben"]], 5),
    "two run": ("staging", [*ASKED, ["approve", "ann"]], [["run", "ada"], ["run", "ben"]], 5),
    "two break glass": ("staging", ASKED, [["glass", "ada"], ["glass", "ben"]], 5),
    "vote and glass": ("staging", ASKED, [["approve", "ann"], ["glass", "ada"]], 5),
}


@pytest.fixture(scope="module")
def found(instances: Instances) -> dict[str, list[dict[str, Any]]]:
    """What every situation ended in, each tried some times."""
    asked = f"SITUATIONS = json.loads({json.dumps(SITUATIONS)!r})"
    answers: dict[str, list[dict[str, Any]]] = instances.migrated().python(asked + WORK)
    return answers


Found = dict[str, list[dict[str, Any]]]


def test_two_votes_at_once_both_count_and_approve_it_once(found: Found) -> None:
    for one in found["two votes"]:
        assert one["said"] == ["done", "done"]
        assert (one["state"], one["requests"], one["votes"]) == ("approved", ["approved"], 2)
        assert one["done"].count("approval.decide") == 1


def test_a_double_click_votes_once(found: Found) -> None:
    for one in found["double click"]:
        assert sorted(one["said"]) == ["done", "voted"]
        assert (one["state"], one["votes"]) == ("awaiting_approval", 1)


def test_a_vote_while_the_plan_is_taken_back_never_approves_what_is_gone(found: Found) -> None:
    for one in found["vote and edit"]:
        assert one["said"][1] == "done"
        assert one["said"][0] in ("done", "not_open")
        assert (one["state"], one["requests"], one["votes"]) == ("diagnosing", ["voided"], 0)


def test_a_vote_for_and_a_vote_against_at_once_end_rejected(found: Found) -> None:
    for one in found["for and against"]:
        assert one["said"][1] == "done"
        assert one["said"][0] in ("done", "not_open")
        assert (one["state"], one["requests"]) == ("diagnosing", ["rejected"])


def test_two_people_who_ask_make_one_request(found: Found) -> None:
    for one in found["two ask"]:
        assert sorted(one["said"]) == ["asked", "done"]
        assert (one["state"], one["requests"]) == ("awaiting_approval", ["open"])


@pytest.mark.parametrize(("name", "glasses"), [("two run", 0), ("two break glass", 1)])
def test_two_people_who_start_it_start_it_once(found: Found, name: str, glasses: int) -> None:
    for one in found[name]:
        assert Counter(one["said"])["done"] == 1, one
        assert (one["state"], one["glasses"]) == ("running", glasses)
        begun = [a for a in one["done"] if a in ("recovery.execute", "recovery.break_glass")]
        assert len(begun) == 1


def test_a_last_vote_beside_broken_glass_leaves_one_truth(found: Found) -> None:
    """Either the glass came first and the vote is refused, or the vote approved it and no glass was needed."""
    for one in found["vote and glass"]:
        assert one["said"] in (["done", "not_needed"], ["not_open", "done"]), one
        expected = ("approved", ["approved"], 0) if one["said"][0] == "done" else ("running", ["voided"], 1)
        assert (one["state"], one["requests"], one["glasses"]) == expected
