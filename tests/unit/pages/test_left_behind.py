"""What a recovery leaves behind, on the page of its proof."""

from copy import deepcopy

import pytest
from django.test import Client

from recovery.models import Flow, Plan, Recovery
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


def accepted(*, kind: str = "delta") -> Recovery:
    """Proven with 6 repeats, into a table of this kind, of a flow that is ok."""
    of = f.repeated(f.failed_flow())
    plan = of.plans.get()
    Plan.objects.filter(pk=plan.pk).update(body={**plan.body, "sink": {**plan.body["sink"], "kind": kind}})
    Flow.objects.filter(pk=of.flow_id).update(state="ok")
    return of


def test_accepted_repeats_are_left_behind_with_their_number(responder: Client) -> None:
    row = parse(text(responder, f"/recoveries/{accepted().pk}/verify")).one("left-repeats")
    assert "6 rows" in row.text


def offers(client: Client, of: Recovery) -> bool:
    return bool(parse(text(client, f"/recoveries/{of.pk}/verify")).all(data_code="take-out"))


def test_repeats_in_a_delta_table_can_be_taken_out_by_a_recovery_of_the_healthy_flow(
    responder: Client,
) -> None:
    of = accepted()
    assert offers(responder, of)
    answer = responder.post(f"/flows/{of.flow_id}", {"act": "deduplicate"})
    opened = Recovery.objects.get(active=True)
    assert answer["Location"] == f"/recoveries/{opened.pk}/diagnose"
    assert opened.chosen.strategy == "deduplicate"
    assert not offers(responder, of)


def test_repeats_are_not_offered_to_be_taken_out_where_that_is_not_possible(responder: Client) -> None:
    assert not offers(responder, accepted(kind="files"))
    assert not offers(responder, f.verified(f.failed_flow(f.pipeline(name="other"))))


@pytest.mark.parametrize("how", ["fails", "written from scratch"])
def test_repeats_that_may_be_gone_are_not_offered_to_be_taken_out(responder: Client, how: str) -> None:
    of = accepted()
    renewed = f.ago(minutes=-5)  # as of now: collecting the tests may have taken longer
    values: dict[str, object] = {"state": "failed"} if how == "fails" else {"rewritten_at": renewed}
    Flow.objects.filter(pk=of.flow_id).update(**values)
    assert not offers(responder, of)


def test_who_may_not_recover_sees_why_the_button_is_off(client: Client) -> None:
    client.force_login(f.person("viewer"))
    form = parse(text(client, f"/recoveries/{accepted().pk}/verify")).one("take-out")
    assert form.all("button", value="deduplicate", disabled=True)
