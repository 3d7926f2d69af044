"""Continuous mode and retries are found in a pipeline's own settings, and changed without losing any other setting."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from recovery.errors import Refused
from recovery.pipelines import itself, starters
from recovery.pipelines.client import PipelinesClient
from recovery.pipelines.itself import ATTEMPTS, MODE, RETRIES
from tests.refusals import refused
from tests.unit.pipelines.jobs import PIPELINE, Jobs
from tests.unit.pipelines.stub import Answer, serving

FIVE = {"configuration": {ATTEMPTS: "5", "shop.path": "/in"}}
RETRIED = [{"update_id": "u-2", "cause": "RETRY_ON_FAILURE"}, {"update_id": "u-1", "cause": "JOB_TASK"}]
WHOLE = {
    "id": PIPELINE, "name": "shop", "storage": "s3://b/x", "libraries": [{"file": {"path": "/a.py"}}],
    "continuous": True, "clusters": [{"label": "default", "num_workers": 3}],
    "notifications": [{"alerts": ["on-update-failure"]}],
    "tags": {"environment": "staging"}, "deployment": {"kind": "BUNDLE"}, "a-field-of-tomorrow": {"kept": [1, None]},
    **FIVE,
}  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "updates", "ways"),
    [
        ({}, [], []),
        ({"continuous": False}, [{"cause": "API_CALL"}, {}], []),
        ({"continuous": True}, [], [RETRIES, MODE]),
        ({"continuous": True, "configuration": {ATTEMPTS: "0"}}, RETRIED, [MODE]),
        ({"continuous": True, "development": True}, RETRIED, [MODE]),
        ({}, RETRIED, [RETRIES]),
        (FIVE, [], [RETRIES]),
        ({"configuration": {ATTEMPTS: "0"}}, RETRIED, []),
        ({"configuration": {ATTEMPTS: 0}}, RETRIED, []),
        ({**FIVE, "development": True}, RETRIED, []),
        ({"configuration": None}, [], []),
        ({"configuration": "odd", "continuous": None}, RETRIED, [RETRIES]),
        (None, [], []),
    ],
)
def test_what_starts_the_pipeline_stands_in_its_settings_or_in_what_it_did(
    spec: Any, updates: list[dict[str, Any]], ways: list[str]
) -> None:
    assert [way for way, _ in itself.settings({"spec": spec}, updates)] == ways


@pytest.mark.parametrize("way", [MODE, RETRIES])
@pytest.mark.parametrize(
    "spec",
    [
        WHOLE,
        {"continuous": True},
        {"continuous": True, "configuration": {}},
        {"continuous": True, "configuration": {"a": "b"}},
    ],
)
def test_pausing_changes_one_setting_and_giving_it_back_leaves_no_trace(
    spec: dict[str, Any], way: str
) -> None:
    was = dict(itself.settings({"spec": spec}, []))[way]
    paused = itself.changed(spec, way, {**was, "pause_status": "PAUSED"})
    assert way not in dict(itself.settings({"spec": paused}, []))
    touched = {"continuous"} if way == MODE else {"configuration"}
    assert {k: v for k, v in paused.items() if k not in touched} == {
        k: v for k, v in spec.items() if k not in touched
    }
    back = itself.changed(paused, way, was)
    assert back == {**spec, **({"configuration": spec.get("configuration", {})} if way == RETRIES else {})}


@pytest.fixture
def jobs() -> Jobs:
    return Jobs(spec=dict(WHOLE), beside={"run_as": {"user_name": "etl"}, "parameters": {"day": "1"}})


@pytest.fixture
def client(jobs: Jobs) -> Iterator[PipelinesClient]:
    with serving(jobs) as stub, closing(PipelinesClient(url=stub.url, token="t")) as client:
        yield client


def test_everything_that_was_read_is_sent_back(jobs: Jobs, client: PipelinesClient) -> None:
    for starter in starters.known(client, PIPELINE).awake:
        starters.put(client, starter, starter.paused())
    assert jobs.spec == {**WHOLE, "continuous": False, "configuration": {"shop.path": "/in", ATTEMPTS: "0"}}
    assert jobs.beside == {"run_as": {"user_name": "etl"}, "parameters": {"day": "1"}}
    assert starters.known(client, PIPELINE).starters == ()


def test_a_change_by_somebody_in_between_is_not_overwritten(
    jobs: Jobs, client: PipelinesClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    (_, mode) = starters.known(client, PIPELINE).awake
    read = client.get_pipeline

    def meanwhile(pipeline_id: str) -> dict[str, Any]:
        answer = read(pipeline_id)
        jobs.modified, jobs.spec = 7, {**jobs.spec, "storage": "s3://elsewhere"}
        return answer

    monkeypatch.setattr(client, "get_pipeline", meanwhile)
    with refused("changed_meanwhile", Refused):
        starters.put(client, mode, mode.paused())
    assert (jobs.spec["storage"], jobs.spec["continuous"]) == ("s3://elsewhere", True)


def test_a_change_that_does_not_read_back_is_refused(jobs: Jobs, client: PipelinesClient) -> None:
    jobs.deaf = True
    (_, mode) = starters.known(client, PIPELINE).awake
    with refused("reads_back_otherwise", Refused, names=("continuous mode", "shop")):
        starters.put(client, mode, mode.paused())


def test_settings_that_do_not_come_are_not_replaced_by_nothing(jobs: Jobs, client: PipelinesClient) -> None:
    (_, mode) = starters.known(client, PIPELINE).awake
    jobs.spec = {}
    with refused("no_settings_read", Refused):
        starters.put(client, mode, mode.paused())
    assert jobs.modified == 1


def test_a_pipeline_that_is_gone_has_nothing_to_give_back() -> None:
    gone = lambda asked: Answer(404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "Gone."})  # noqa: E731
    with serving(gone) as stub, closing(PipelinesClient(url=stub.url, token="t")) as client:
        assert itself.now(client, PIPELINE, MODE) is None


def test_runs_are_asked_for_of_jobs_only(jobs: Jobs, client: PipelinesClient) -> None:
    assert starters.active_runs(client, starters.known(client, PIPELINE).starters) == []
