"""Channels that were there before an event could be chosen: who is told of it, and who is not."""

from datetime import timedelta
from importlib import import_module
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.db import connection
from django.utils import timezone

from recovery.models import Channel
from recovery.notify.events import SUBSCRIBED
from tests.unit.notify.conftest import Make

pytestmark = pytest.mark.django_db

RETENTION = import_module("recovery.migrations.0017_retention_channels")
BEFORE = timedelta(days=400)
PIPELINE = import_module("recovery.migrations.0023_pipeline_health")
DIFFERS = import_module("recovery.migrations.0038_table_doubt")
IN_DOUBT = import_module("recovery.migrations.0045_doubt_by_updates")
LATER = ("flow.retention", "pipeline.failed", "flow.table_differs", "flow.in_doubt")
ALL_OF_THEN = [event for event in SUBSCRIBED if event not in LATER]


def told(made: Channel, age: timedelta = BEFORE) -> list[str]:
    """The events of a channel of that age, after the migration."""
    Channel.objects.filter(pk=made.pk).update(created_at=timezone.now() - age)
    RETENTION.subscribe(apps, SimpleNamespace(connection=connection))
    made.refresh_from_db()
    return list(made.events)


def test_who_was_told_of_everything_is_still_told_of_everything(channel: Make) -> None:
    made = channel(events=ALL_OF_THEN)
    told(made)
    PIPELINE.subscribe(apps, None)
    DIFFERS.subscribe(apps, None)
    IN_DOUBT.subscribe(apps, None)
    made.refresh_from_db()
    assert made.events == list(SUBSCRIBED)


def test_who_is_told_that_flows_fail_is_told_that_a_table_differs(channel: Make) -> None:
    made, other = channel(events=["flow.failed"]), channel(name="other", events=["audit.broken"])
    for _ in range(2):
        DIFFERS.subscribe(apps, None)
    made.refresh_from_db()
    other.refresh_from_db()
    assert (made.events, other.events) == (["flow.failed", "flow.table_differs"], ["audit.broken"])


def test_who_is_told_that_flows_fail_is_told_that_one_is_in_doubt(channel: Make) -> None:
    made, other = channel(events=["flow.failed"]), channel(name="other", events=["audit.broken"])
    for _ in range(2):
        IN_DOUBT.subscribe(apps, None)
    made.refresh_from_db()
    other.refresh_from_db()
    assert (made.events, other.events) == (["flow.failed", "flow.in_doubt"], ["audit.broken"])


def test_who_is_told_that_flows_fail_is_told_that_a_pipeline_does(channel: Make) -> None:
    made, other = channel(events=["flow.failed"]), channel(name="other", events=["audit.broken"])
    for _ in range(2):
        PIPELINE.subscribe(apps, None)
    made.refresh_from_db()
    other.refresh_from_db()
    assert (made.events, other.events) == (["flow.failed", "pipeline.failed"], ["audit.broken"])


def test_who_is_told_that_flows_fail_is_told_that_their_input_goes(channel: Make) -> None:
    made = channel(events=["approval.requested", "flow.failed"])
    assert told(made) == ["approval.requested", "flow.failed", "flow.retention"]
    assert told(made) == ["approval.requested", "flow.failed", "flow.retention"], "not twice"


def test_who_is_told_of_no_flow_stays_so(channel: Make) -> None:
    assert told(channel(events=["approval.requested", "audit.broken"])) == [
        "approval.requested",
        "audit.broken",
    ]


def test_who_could_choose_and_did_not_stays_so(channel: Make) -> None:
    assert told(channel(events=["flow.failed"]), -timedelta(seconds=5)) == ["flow.failed"]


def test_everybody_is_from_before_where_nobody_knows_since_when_the_event_is_there(channel: Make) -> None:
    made = channel(events=["flow.failed"])
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE name = '0016_flow_input'")
    assert told(made, timedelta()) == ["flow.failed", "flow.retention"]
