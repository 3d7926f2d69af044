"""One staging pipeline from failure to proof through a request and a vote, on real Spark, Celery and broker."""

import json
from typing import Any

import pytest

from tests.integration.test_first_recovery import held, wanted
from tests.stack import Stack

pytestmark = pytest.mark.spark


def asked(stack: Stack, who: str, *command: str) -> tuple[int, dict[str, Any]]:
    code, out, err = stack.manage(*command, "--json", token=who)
    assert out, err
    return code, json.loads(out)


def test_a_staging_plan_runs_after_an_approver_voted_for_it_and_not_before(stack: Stack) -> None:
    incident = stack.incident("approved", environment="staging")
    flow = ("--flow", incident.flow)

    code, said = asked(stack, "responder", "recover", incident.name, *flow)
    assert (code, said["error"]["code"]) == (1, "needs_approval")

    code, plan = asked(stack, "responder", "plan", incident.name, *flow, "--reason", "ticket CRM-881")
    label = plan["recovery"]
    assert (code, plan["approvals"]["awaits"]["code"]) == (0, "needs_approval")
    assert plan["approvals"]["voters"] == ["approver", "approver2"]

    code, said = asked(stack, "responder", "execute", label)
    assert (code, said["error"]["code"]) == (1, "needs_approval")
    code, said = asked(stack, "responder", "approve", label, "--reason", "mine")
    assert (code, said["error"]["code"]) == (1, "denied")
    assert held(stack, incident) != wanted(incident)

    page = stack.console("approver").get("/approvals").text
    assert label in page
    assert "waits for you" in page
    code, vote = asked(
        stack, "approver", "approve", label, "--reason", "The numbers match.", "--plan", plan["plan_hash"]
    )
    assert (code, vote["state"], vote["approvals"]["awaits"]) == (0, "approved", None)
    code, said = asked(stack, "approver", "reject", label, "--reason", "second thoughts")
    assert (code, said["error"]["code"]) == (1, "voted")

    code, answer = asked(stack, "responder", "execute", label, "--wait")
    assert (code, answer["state"]) == (0, "succeeded"), answer
    assert held(stack, incident) == wanted(incident)
    assert asked(stack, "auditor", "audit", "verify")[0] == 0
