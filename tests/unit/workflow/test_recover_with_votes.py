"""`recover` where other people must agree names the plan that waits for them, or for its start."""

import pytest

from recovery.management.commands.recover import refuse_votes
from tests.refusals import refused
from tests.unit.workflow.rows import flow, recovery

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (None, "needs_approval"),
        ("planned", "needs_approval"),
        ("awaiting_approval", "votes_missing"),
        ("approved", "already_approved"),
        ("cancelled", "needs_approval"),
    ],
)
def test_each_state_of_a_recovery_in_production(state: str | None, code: str) -> None:
    held = flow(environment="production")
    if state:
        recovery(state, flow=held)
    with refused(code):
        refuse_votes(held)


def test_nothing_is_refused_where_no_vote_is_needed() -> None:
    refuse_votes(flow(environment="development"))
