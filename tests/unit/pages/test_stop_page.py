"""The Stop page: what was paused so that nothing starts the pipeline again, and what became of it."""

import pytest
from django.test import Client

from recovery.models import Step
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
