"""What a recovery leaves behind, on the page of its proof."""

from copy import deepcopy

import pytest
from django.test import Client

from recovery.models import Plan, Recovery
from tests import factories as f
from tests.pages import parse
from tests.unit.pages.reading import text

pytestmark = pytest.mark.django_db
DIFF = '--- a/x.py\n+++ b/x.py\n@@ -1,1 +1,2 @@\n a = 1\n+.option("startingOffsets", "latest")\n'


def with_diff(of: Recovery, diff: str) -> Recovery:
    plan = of.plans.get()
    body = deepcopy(plan.body)
    body["patch"][0]["diff"] = diff
    Plan.objects.filter(pk=plan.pk).update(body=body)
    return of


def codes(client: Client, of: Recovery) -> set[str]:
    page = parse(text(client, f"/recoveries/{of.pk}/verify"))
    return set(page.codes) & {"start-option", "no-start-option"}


def test_a_start_option_of_the_patch_is_left_in_the_code(responder: Client) -> None:
    of = with_diff(f.verified(f.failed_flow(), "revert"), DIFF)
    assert codes(responder, of) == {"start-option"}
    row = parse(text(responder, f"/recoveries/{of.pk}/verify")).one("start-option")
    assert "startingOffsets" in row.text


@pytest.mark.parametrize("strategy", ["revert", "continue"])
def test_a_patch_without_one_has_nothing_to_disarm(responder: Client, strategy: str) -> None:
    assert codes(responder, f.verified(f.failed_flow(), strategy)) == {"no-start-option"}


def test_nothing_is_claimed_before_an_update_ran(responder: Client) -> None:
    assert codes(responder, f.planned(f.failed_flow())) == set()
    assert codes(responder, f.running(f.failed_flow(f.pipeline(name="other")))) == set()


def test_nothing_is_claimed_of_a_patch_whose_end_was_not_seen(responder: Client) -> None:
    of = f.verified(f.failed_flow(), "revert")
    of.steps.filter(kind="patch").update(state="unknown")
    assert codes(responder, of) == set()


def test_nothing_is_claimed_of_code_that_was_put_back(responder: Client) -> None:
    of = with_diff(f.verified(f.failed_flow(), "revert"), DIFF)
    f.into(of, "rolled_back")
    assert codes(responder, of) == set()
