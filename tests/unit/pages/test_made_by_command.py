"""A recovery that was made by command has no facts of the wizard: its pages point to the plan, which has them."""

from typing import Any

import pytest
from django.test import Client

from recovery.models import Recovery
from tests import factories as f
from tests.pages import asked

pytestmark = pytest.mark.django_db


def by_command(made: Recovery) -> Recovery:
    Recovery.objects.filter(pk=made.pk).update(facts={})
    return made


def codes(client: Client, recovery: Recovery, page: str) -> set[str]:
    found: Any = asked(client, f"/recoveries/{recovery.pk}/{page}").all(data_code=True)
    return {e.attributes["data-code"] for e in found}


@pytest.mark.parametrize("make", [f.planned, f.verified], ids=["sealed", "proven"])
def test_what_a_plan_counted_is_not_called_uncounted(responder: Client, make: Any) -> None:
    found = codes(responder, by_command(make()), "offset")
    assert "plan-has-numbers" in found
    assert "nothing-counted" not in found


def test_without_a_plan_nothing_is_counted(responder: Client) -> None:
    assert "nothing-counted" in codes(responder, by_command(f.opened()), "offset")


@pytest.mark.parametrize(
    ("make", "code"),
    [(f.opened, "not-asked-yet"), (f.planned, "in-the-plan"), (f.verified, "recovery-ended")],
    ids=["opened", "sealed", "proven"],
)
def test_whether_waiting_is_safe_is_asked_of_the_plan_and_not_after_the_end(
    responder: Client, make: Any, code: str
) -> None:
    found = codes(responder, by_command(make()), "diagnose")
    assert found & {"not-asked-yet", "in-the-plan", "recovery-ended"} == {code}
