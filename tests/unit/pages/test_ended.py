"""An ended recovery shows what ran, as it was: the sealed patch, the way back, closing words with measured numbers."""

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from console.pages import source
from recovery.models import AuditEntry, Plan, Recovery
from recovery.people.roles import Actor, Role
from tests import factories as f
from tests.pages import parse
from tests.unit.pages.reading import text
from tests.unit.workflow.rows import choose

pytestmark = pytest.mark.django_db


@pytest.fixture
def ended() -> Recovery:
    made = f.verified()
    Recovery.objects.filter(pk=made.pk).update(active=False, ended_at=timezone.now())
    made.refresh_from_db()
    return made


def sealed_patch(of: Recovery, patch: list[dict[str, str]]) -> None:
    plan = of.plans.get()
    Plan.objects.filter(pk=plan.pk).update(body={**plan.body, "patch": patch})


@pytest.mark.parametrize(
    ("state", "active"), [("succeeded", False), ("needs_attention", True), ("running", True)]
)
def test_the_patch_page_shows_the_sealed_change_and_reads_no_code_again(
    state: str, active: bool, responder: Client, ended: Recovery, monkeypatch: pytest.MonkeyPatch
) -> None:
    Recovery.objects.filter(pk=ended.pk).update(state=state, active=active)

    def read(flow: Any) -> Any:
        raise AssertionError("the workspace was asked for today's code")

    monkeypatch.setattr(source, "read_source", read)
    sealed_patch(
        ended,
        [
            {
                "path": "/a.py",
                "before_sha256": "",
                "after_sha256": "",
                "diff": "",
                "before": "one\n",
                "after": "two\n",
            }
        ],
    )
    page = text(responder, f"/recoveries/{ended.pk}/patch")
    assert parse(page).value("patch-that-ran") == "1"
    assert "two" in page
    sealed_patch(ended, [])
    assert parse(text(responder, f"/recoveries/{ended.pk}/patch")).value("patch-that-ran") == "0"


def test_the_way_back_of_an_ended_recovery_is_called_planned(responder: Client, ended: Recovery) -> None:
    way = parse(text(responder, f"/recoveries/{ended.pk}/review")).all(data_code="way-back")
    assert way[0].text.startswith("As planned")


def test_who_keeps_the_code_is_not_said_to_have_edited_it() -> None:
    recovery = f.at_patch()
    ada = Actor(name="ada", role=Role.RESPONDER)
    choose(recovery.pk, patch={}, by=ada)
    assert AuditEntry.objects.latest("seq").code == "recovery.keep.done"
    choose(recovery.pk, patch={"/a.py": "x = 1\n"}, by=ada)
    assert AuditEntry.objects.latest("seq").code == "recovery.patch.done"
