"""Forbidden pages and calls of the API do not fill the audit log."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from recovery.audit.aims import name_pipeline
from recovery.audit.folding import MOST
from recovery.models import AuditEntry, DeniedTry, Token
from recovery.people.identity import sha256_hex
from tests import factories

pytestmark = pytest.mark.django_db


def test_forbidden_pages_and_calls_of_the_api_are_counted(client: Client) -> None:
    viewer = factories.person("viewer")
    client.force_login(viewer)
    before = AuditEntry.objects.count()
    assert [client.get("/settings").status_code for _ in range(40)] == [403] * 40
    assert AuditEntry.objects.count() == before + 1

    Token.objects.create(
        user=viewer, name="t", sha256=sha256_hex("rp_x"), expires_at=timezone.now() + timedelta(days=1)
    )
    called = [client.get("/api/v1/workspaces", headers={"Authorization": "Bearer rp_x"}) for _ in range(40)]
    assert [answer.status_code for answer in called] == [403] * 40
    assert AuditEntry.objects.filter(action="api.denied").count() == 1
    assert list(DeniedTry.objects.values_list("more", flat=True)) == [39, 39]


def test_a_second_pipeline_of_an_environment_is_named_behind_any_number_of_tries_of_the_first(
    client: Client,
) -> None:
    client.force_login(factories.person("viewer"))
    of = factories.workspace()
    first, second = (factories.pipeline(of, name, environment="production") for name in ("first", "second"))
    decoys = [factories.flow(first, f"f{number}") for number in range(MOST + 1)]
    for flow in [*decoys, factories.flow(second, "target")]:
        assert client.post(f"/flows/{flow.pk}").status_code == 403
    named = [
        (entry.environment, entry.after["pipeline"]) for entry in AuditEntry.objects.filter(outcome="denied")
    ]
    assert set(named) == {("production", name_pipeline(first)), ("production", name_pipeline(second))}
