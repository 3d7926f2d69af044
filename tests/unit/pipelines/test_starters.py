"""What starts a pipeline without a person is found among all jobs, paused, and read back."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from recovery.errors import Refused
from recovery.pipelines import starters
from recovery.pipelines.client import PipelinesClient
from recovery.pipelines.starters import KnownStarters
from tests.refusals import refused
from tests.unit.pipelines.jobs import NIGHTLY, PIPELINE, Jobs, job
from tests.unit.pipelines.stub import serving


@pytest.fixture
def jobs() -> Jobs:
    return Jobs()


@pytest.fixture
def client(jobs: Jobs) -> Iterator[PipelinesClient]:
    with serving(jobs) as stub, closing(PipelinesClient(url=stub.url, token="t")) as client:
        yield client


EACH = {"task_key": "each", "for_each_task": {"task": {"pipeline_task": {"pipeline_id": PIPELINE}}}}


@pytest.mark.parametrize(
    ("found", "says", "awake"),
    [
        (job(1, schedule=NIGHTLY), ["job nightly (0 0 3 * * ? in UTC)"], True),
        (job(1, schedule={**NIGHTLY, "pause_status": "PAUSED"}), ["job nightly (0 0 3 * * ? in UTC)"], False),
        (job(1, trigger={"file_arrival": {"url": "s3://a/"}}), ["job nightly (triggered)"], True),
        (job(1, continuous={"pause_status": "UNPAUSED"}), ["job nightly (continuous)"], True),
        (job(1), [], False),
        (job(1, pipeline="another", schedule=NIGHTLY), [], False),
        (
            {"job_id": 1, "settings": {"tasks": [EACH], "schedule": NIGHTLY}},
            ["job 1 (0 0 3 * * ? in UTC)"],
            True,
        ),
        ({"job_id": 1, "settings": {"tasks": "none", "schedule": NIGHTLY}}, [], False),
        ({"job_id": 1}, [], False),
    ],
)
def test_a_job_is_a_starter_when_it_runs_the_pipeline_by_itself(
    found: dict[str, Any], says: list[str], awake: bool
) -> None:
    known = starters.of_jobs([found], PIPELINE)
    assert [s.says for s in known] == says
    assert any(s.awake for s in known) is awake


def test_every_page_of_the_jobs_is_read(jobs: Jobs, client: PipelinesClient) -> None:
    jobs.page = 2
    jobs.add(*(job(n, f"other {n}", pipeline="another") for n in range(4)), job(9, schedule=NIGHTLY))
    assert [s.job_id for s in starters.known(client, PIPELINE).starters] == [9]


def test_a_workspace_without_a_jobs_api_has_no_jobs(jobs: Jobs, client: PipelinesClient) -> None:
    jobs.has_jobs = False
    assert starters.known(client, PIPELINE) == KnownStarters()


def test_a_token_that_may_not_read_jobs_leaves_it_unknown(jobs: Jobs, client: PipelinesClient) -> None:
    jobs.refuses.add("/api/2.2/jobs/list")
    assert "read jobs" in starters.known(client, PIPELINE).why


def test_only_the_pause_changes_and_it_is_read_back(jobs: Jobs, client: PipelinesClient) -> None:
    jobs.add(job(1, schedule=NIGHTLY))
    (starter,) = starters.known(client, PIPELINE).starters
    starters.put(client, starter, starter.paused())
    assert jobs.jobs[1]["settings"]["schedule"] == {**NIGHTLY, "pause_status": "PAUSED"}
    assert jobs.jobs[1]["settings"]["name"] == "nightly"


def test_a_pause_that_does_not_read_back_is_refused(jobs: Jobs, client: PipelinesClient) -> None:
    jobs.add(job(1, schedule=NIGHTLY))
    jobs.deaf = True
    (starter,) = starters.known(client, PIPELINE).starters
    with refused("reads_back_otherwise", Refused, names=("UNPAUSED",)):
        starters.put(client, starter, starter.paused())


def test_a_run_that_has_not_ended_may_still_start_the_pipeline(jobs: Jobs, client: PipelinesClient) -> None:
    jobs.add(job(1, schedule=NIGHTLY))
    jobs.runs[1] = [{"run_id": 77}]
    found = starters.known(client, PIPELINE).starters
    (run,) = starters.active_runs(client, found)
    assert {"77", "nightly"} <= set(run.split())
