"""One judgement of whether a stream runs: its command's newer answer is what its page shows, lists the last poll."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console.presenters import flow as flows
from recovery.models import Stream
from tests import factories as f

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("state", "answer", "age", "is_quiet"),
    [
        ("running", "not_running", 25, True),
        ("running", "running", 25, False),
        ("running", "unknown", 25, False),
        ("running", "not_running", 600, False),
        ("ok", "not_running", 25, False),
    ],
)
def test_a_newer_answer_of_the_running_command_is_the_state_of_the_page(
    responder: Client, state: str, answer: str, age: int, is_quiet: bool
) -> None:
    flow = f.flow(f.pipeline(f.workspace("streams", kind="streams"), "orders"), "orders", state=state)
    Stream.objects.create(
        pipeline=flow.pipeline, checkpoint="/data/orders", adopted_at=timezone.now(), running=["is-up"],
        running_answer=answer, running_asked_at=timezone.now() - timedelta(seconds=age),
    )  # fmt: skip
    page = responder.get(reverse("flow", args=[flow.pk]))
    assert (page.context["badge"] == flows.NOT_RUNNING) is is_quiet
    assert (page.context["sentence"] == flows.QUIET_SENTENCE) is is_quiet
