"""Roles by environment in the log: which role an entry names, and whose entries somebody sees."""

import pytest

from recovery.audit.actions import record
from recovery.errors import Denied
from recovery.models import AuditEntry
from recovery.people.roles import SYSTEM, Actor, Grant, Role, Stranger
from recovery.workflow import actions
from tests import factories as f

pytestmark = pytest.mark.django_db


def ada(default: str = "responder", **elsewhere: str) -> Actor:
    return Actor("ada", Role(default), elsewhere={e: Grant(Role(r)) for e, r in elsewhere.items()})


class TestRole:
    @pytest.mark.parametrize(
        ("action", "environment", "role"),
        [
            ("recovery.execute", "production", "viewer"),
            ("recovery.execute", "staging", "admin"),
            ("recovery.execute", "development", "responder"),
            ("recovery.execute", "prod-eu", "viewer"),  # goes by the rules of production
            ("token.create", "", "responder"),
            ("audit.pack", "production", "responder"),  # over the whole log, whatever recovery it names
        ],
    )
    def test_an_entry_names_the_role_that_was_held_where_the_act_was(
        self, action: str, environment: str, role: str
    ) -> None:
        by = ada(production="viewer", staging="admin")
        found = record(action=action, outcome="done", by=by, says="x", environment=environment)
        assert (found.role, found.environment) == (role, environment)

    def test_the_environment_of_a_recovery_counts_where_none_is_named(self) -> None:
        recovery = f.planned(f.failed_flow(f.pipeline(name="orders", environment="staging")))
        found = record(
            action="recovery.stop", outcome="done", by=ada(staging="admin"), says="x", recovery=recovery.label
        )
        assert (found.role, found.environment) == ("admin", "staging")

    @pytest.mark.parametrize(("by", "role"), [(SYSTEM, "system"), (Stranger(), "nobody")])
    def test_a_worker_and_a_stranger_are_what_they_are_everywhere(
        self, by: Actor | Stranger, role: str
    ) -> None:
        found = record(action="step.run", outcome="done", by=by, says="x", environment="production")
        assert found.role == role

    def test_a_denied_opening_names_the_environment_and_the_role_there(self) -> None:
        flow = f.failed_flow(f.pipeline(name="orders", environment="production"))
        with pytest.raises(Denied):
            actions.open_recovery(flow_id=flow.pk, by=ada(production="viewer"))
        found = AuditEntry.objects.get()
        assert (found.code, found.environment, found.role) == ("recovery.open.denied", "production", "viewer")
