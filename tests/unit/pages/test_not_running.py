"""One judgement of whether a stream runs: its command's newer answer is what its page shows, lists the last poll."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console.presenters import flow as flows
from recovery.eventlogs.seen import SeenRun
from recovery.eventlogs.values import Application, Run
from recovery.models import Stream
from recovery.streams import tailing
from tests import factories as f
from tests.unit.eventlogs import logs

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


def test_a_run_of_its_copy_does_not_make_a_stream_run(
    responder: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have one query id; the copy's log grows, later than the stream's command answered."""
    original, copied = (
        Stream.objects.create(
            pipeline=f.flow(f.pipeline(space, name), name, state="running").pipeline,
            checkpoint=f"/data/{name}", adopted_at=timezone.now(), running=["is-up"], event_log="/logs",
            query_ids=[logs.QUERY], running_answer="not_running",
            running_asked_at=timezone.now() - timedelta(seconds=25),
        )
        for space in [f.workspace("streams", kind="streams")]
        for name in ("orders", "copy")
    )  # fmt: skip
    run = Run(logs.QUERY, logs.RUN, checkpoint=copied.checkpoint)
    seen = SeenRun(run, Application(), moved_at=timezone.now())
    monkeypatch.setattr(tailing, "runs_of", lambda folder, query_ids: [seen])
    badges = [
        responder.get(reverse("flow", args=[stream.pipeline.flows.get().pk])).context["badge"]
        for stream in (original, copied)
    ]
    assert [badge == flows.NOT_RUNNING for badge in badges] == [True, False]
