"""A tag that names weaker rules is no way around votes: it waits, in the open, while the stricter rules hold."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from recovery.approvals import rules, selectors
from recovery.approvals.rules import ApprovalRule
from recovery.audit import reviews
from recovery.models import AuditEntry, EnvironmentRule, Pipeline, Recovery, ReviewItem, Workspace
from recovery.people.roles import Actor, Grant, Right, Role
from recovery.pipelines.inventory import refresh
from tests import factories
from tests.unit.pipelines.api import Api
from tests.unit.pipelines.stub import Stub, serving

PRODUCTION = rules.shipped_rule("production")
STAGING = rules.shipped_rule("staging")
DEVELOPMENT = rules.shipped_rule("development")


@pytest.mark.parametrize(
    ("new", "old", "less"),
    [
        (DEVELOPMENT, PRODUCTION, True),
        (STAGING, PRODUCTION, True),
        (DEVELOPMENT, STAGING, True),
        (PRODUCTION, STAGING, False),
        (PRODUCTION, DEVELOPMENT, False),
        (STAGING, DEVELOPMENT, False),
        (rules.shipped_rule("prod-eu"), PRODUCTION, False),
        (PRODUCTION, rules.shipped_rule("prod-eu"), False),
        (ApprovalRule("prod-eu", 1, expiry_hours=8), PRODUCTION, True),
        (ApprovalRule("prod-eu", 2, expiry_hours=8, break_glass=True), PRODUCTION, True),
        (
            ApprovalRule("prod-eu", 3, expiry_hours=8),
            PRODUCTION,
            True,
        ),  # another rule of the same rank: not plainly stricter
        (PRODUCTION, ApprovalRule("staging", 3), True),  # fewer votes than staging asks for there
        (
            ApprovalRule("development", 2, expiry_hours=8),
            PRODUCTION,
            True,
        ),  # the same votes, but other roles hold there
    ],
)
def test_rules_ask_for_less_unless_they_are_plainly_as_strict(
    new: ApprovalRule, old: ApprovalRule, less: bool
) -> None:
    assert rules.asks_less(new, old) is less


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def stub(api: Api) -> Iterator[Stub]:
    with serving(api) as stub:
        yield stub


class Shop:
    """A pipeline in the workspace, its tag, and what the poller makes of it."""

    def __init__(self, api: Api, workspace: Workspace) -> None:
        self.api, self.workspace = api, workspace
        self.there = api.add("p1", "shop", storage="file:/s", tags={"environment": "production"})

    def poll(self, tag: str = "") -> Pipeline:
        if tag:
            self.there.spec["tags"] = {"environment": tag}
        refresh(workspace_id=self.workspace.pk)
        self.workspace.refresh_from_db()
        assert self.workspace.poll_error == ""
        return Pipeline.objects.get()

    def later(self, hours: float) -> None:
        """As if the tag had been seen so much earlier."""
        row = Pipeline.objects.get()
        assert row.wanted_since is not None
        Pipeline.objects.update(wanted_since=row.wanted_since - timedelta(hours=hours))


@pytest.fixture
def shop(api: Api, stub: Stub, monkeypatch: pytest.MonkeyPatch, db: None) -> Shop:
    monkeypatch.setenv("INVENTORY_TOKEN", "rp_x")
    workspace = Workspace.objects.create(
        name="here", url=stub.url, token_ref="env:INVENTORY_TOKEN", environment="development"
    )
    found = Shop(api, workspace)
    found.poll()
    return found


def told() -> list[tuple[str, str]]:
    return list(
        AuditEntry.objects.filter(action__startswith="pipeline.")
        .order_by("seq")
        .values_list("action", "environment")
    )


def test_a_weaker_environment_waits_its_time_and_is_in_the_review_queue_at_once(shop: Shop) -> None:
    row = shop.poll("development")
    assert (row.environment, row.wanted_environment) == ("production", "development")
    entry = AuditEntry.objects.get(action="pipeline.retag")
    assert "production holds until" in entry.says
    assert ReviewItem.objects.get().seq == entry.seq
    assert [q.item.why for q in reviews.review_queue(Actor("hal", Role.AUDITOR))] == ["environment"]
    shop.later(23.9)
    assert shop.poll().environment == "production"
    shop.later(0.2)
    row = shop.poll()
    assert (row.environment, row.wanted_environment, row.wanted_since) == ("development", "", None)
    shop.poll()
    assert told() == [("pipeline.retag", "production"), ("pipeline.move", "production")]


def test_meanwhile_rights_and_votes_are_those_of_the_stricter_one(shop: Shop) -> None:
    row = shop.poll("development")
    assert selectors.rule_for(row.environment).votes == 2
    in_development = Actor("dev", Role.NONE, elsewhere={"development": Grant(Role.RESPONDER)})
    assert not in_development.may(Right.RECOVER, row.environment)


def test_nothing_moves_while_a_recovery_is_open(shop: Shop) -> None:
    flow = factories.flow(Pipeline.objects.get(), "orders", state="failed")
    open_ = Recovery.objects.create(flow=flow, created_by="res")
    shop.poll("staging")
    shop.later(48)
    assert shop.poll().environment == "production"
    Recovery.objects.filter(pk=open_.pk).update(active=False, state="cancelled")
    assert shop.poll().environment == "staging"


def test_a_tag_that_is_put_back_moves_nothing_and_a_new_one_waits_from_its_own_beginning(shop: Shop) -> None:
    shop.poll("development")
    shop.later(20)
    assert shop.poll("production").wanted_environment == ""
    shop.poll("development")
    shop.later(20)
    shop.poll("staging")
    shop.later(20)
    row = shop.poll()
    assert (row.environment, row.wanted_environment) == ("production", "staging")
    assert [action for action, _ in told()] == ["pipeline.retag"] * 4


def test_a_stricter_environment_holds_at_once_and_leaves_an_entry(shop: Shop) -> None:
    shop.poll("staging")
    shop.later(25)
    assert shop.poll().environment == "staging"
    row = shop.poll("production")
    assert (row.environment, row.wanted_environment) == ("production", "")
    assert [action for action, _ in told()] == ["pipeline.retag", "pipeline.move", "pipeline.move"]


def test_an_admin_s_rules_count_not_the_name(shop: Shop) -> None:
    weaker = rules.shipped_rule("production").as_dict() | {"environment": "prod-eu", "votes": 1}
    EnvironmentRule.objects.create(**weaker, changed_by="admin", changed_at=timezone.now())
    assert shop.poll("prod-eu").environment == "production"
    EnvironmentRule.objects.all().delete()
    assert shop.poll().environment == "prod-eu"


def test_how_long_it_waits_is_a_setting(shop: Shop, settings: Any) -> None:
    settings.REPRISE_RETAG_HOURS = 2
    shop.poll("development")
    shop.later(2.1)
    assert shop.poll().environment == "development"


def test_a_workspace_that_is_made_another_environment_takes_nothing_along_at_once(shop: Shop) -> None:
    Workspace.objects.update(environment="production")
    shop.there.spec["tags"] = {}
    assert shop.poll().environment == "production"
    Workspace.objects.update(environment="development")
    shop.workspace.refresh_from_db()
    assert shop.poll().environment == "production"
