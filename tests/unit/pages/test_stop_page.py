"""The Stop page: what was paused so that nothing starts the pipeline again, and what became of it."""

import re
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from recovery.models import Flow, Step, Stream
from tests import factories as f
from tests.unit.pages.reading import text

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("state", "problem", "says"),
    [
        ("paused", "", "Paused: schedule of job nightly"),
        ("noted", "", "not yet seen whether it was"),
        ("paused", "no right to jobs", "no right to jobs"),
        ("restored", "", "Switched on again: schedule of job nightly"),
        ("left", "schedule of job nightly is gone", "schedule of job nightly is gone"),
    ],
)
def test_what_was_paused_for_a_recovery_is_shown_with_what_became_of_it(
    responder: Client, state: str, problem: str, says: str
) -> None:
    recovery = f.at_offset()
    f.hold(recovery, state, problem=problem)

    assert says in text(responder, f"/recoveries/{recovery.pk}/stop")


@pytest.mark.parametrize(
    ("told", "says"),
    [
        (
            {"jobs": [], "jobs_unknown": ""},
            "Nothing starts the pipeline by itself: no job, no continuous mode",
        ),
        (
            {"jobs": [], "jobs_unknown": "no right to jobs"},
            "Whether a job starts the pipeline again is not known",
        ),
        (
            {"jobs": ["job nightly (continuous)"], "jobs_unknown": ""},
            "Was paused already: job nightly (continuous)",
        ),
    ],
)
def test_a_stop_says_what_it_knows_of_jobs(responder: Client, told: dict[str, object], says: str) -> None:
    recovery = f.at_offset()
    step = recovery.steps.get()
    Step.objects.filter(pk=step.pk).update(result={**step.result, **told})

    assert says in text(responder, f"/recoveries/{recovery.pk}/stop")


def plain_stream(**values: Any) -> Flow:
    """A plain stream by hand: nobody's Pipelines API runs it."""
    made = f.flow(f.pipeline(f.workspace("streams", kind="streams", **values), "orders"), "orders")
    Stream.objects.create(pipeline=made.pipeline, checkpoint="/data/orders", adopted_at=timezone.now())
    return made


def test_before_the_stop_of_a_stream_no_one_is_promised_that_what_starts_it_is_paused(
    responder: Client,
) -> None:
    recovery = f.opened(plain_stream())
    page = text(responder, f"/recoveries/{recovery.pk}/stop")
    assert set(re.findall(r'data-code="(s\w+-[\w-]+)"', page)) >= {
        "stream-idle",
        "starters-not-seen",
        "stopped-by-hand",
    }
    assert "Stop stream orders" in page
    assert "ontinuous mode" not in page


@pytest.mark.parametrize(
    ("proof", "says"), [("log_ended", "event log"), ("running_command", "running command")]
)
def test_the_standstill_of_a_stream_names_what_it_was_read_from(
    responder: Client, proof: str, says: str
) -> None:
    recovery = f.at_offset(plain_stream())
    unknown = "What starts a plain stream is not looked for."
    result = {"was": "idle", "seconds": 0.0, "proof": proof, "jobs": [], "jobs_unknown": unknown}
    recovery.steps.update(result=result)
    page = text(responder, f"/recoveries/{recovery.pk}/stop")
    assert says in page
    assert unknown in page
    assert "Pipelines API" not in page
    assert "no continuous mode" not in page
