"""Every update that a rerun has started stays known, however many attempts it took: their batches are all its own."""

from collections.abc import Mapping
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from recovery.contracts import codec
from recovery.contracts.results import StartRequest, UpdateResult
from recovery.contracts.step_notes import StepNotes, UpdateWatch
from recovery.errors import OutcomeUnknown, Refused, RepriseError, Unreachable
from recovery.pipelines.client import ActiveUpdate
from recovery.workflow.fingerprints import of_code
from recovery.workflow.steps import rerun
from recovery.workflow.steps.base import StepWait
from tests.factories.plans import plan_contents
from tests.unit.workflow.steps_in_memory import StepInMemory

STATES = {"u-1": "FAILED", "u-2": "CANCELED", "u-3": "COMPLETED"}
SPEC = {"libraries": [{"file": {"path": "/p/q.py"}}]}
CONTENTS = plan_contents(dataset="t", preconditions={"code": of_code({"/p/q.py": ""})})


class Pipeline:
    """Its first two updates do not come to their end. `updates`: newest first, as the API tells of them."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.updates: list[dict[str, Any]] = [{"update_id": "u-0"}]
        self.said: dict[str, list[dict[str, Any]]] = {}

    def __getattr__(self, name: str) -> Any:
        return {
            "get_pipeline": lambda _: {"spec": SPEC},
            "get_update": lambda _, update: {"state": STATES[update]},
            "list_updates": lambda _, limit: self.updates[:limit],
            "events": lambda *_, filter, **__: self.said.get(filter.split("'")[1], []),
            "start_update": self._start,
            "asks_of_people": lambda *_: "",
        }[name]

    def export(self, path: str) -> bytes:
        return b""

    def _start(self, _pipeline: str, **asked: Any) -> str:
        self.started.append(f"u-{len(self.started) + 1}")
        self.add(self.started[-1], **asked)
        return self.started[-1]

    def add(self, update: str, *, late: timedelta = timedelta(), **info: Any) -> None:
        created = int((timezone.now() + late).timestamp() * 1000)
        self.updates.insert(0, {"update_id": update, "cause": "API_CALL", "creation_time": created} | info)


PIPELINES = SimpleNamespace(workspace=SimpleNamespace(has_streams=False, run_noun="update"))


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> Any:
    step = StepInMemory(args={"refresh": ["t"]})
    step.recovery = SimpleNamespace(
        flow=SimpleNamespace(pipeline=SimpleNamespace(workspace=PIPELINES.workspace, pipeline_id="p"))
    )
    client = Pipeline()
    monkeypatch.setattr(rerun, "client_for", lambda workspace: client)
    return SimpleNamespace(
        step=step, watch=step, contents=CONTENTS, client=client, pipeline_id="p", held_by="", run_noun="update",
        log=lambda text: None,
        flow=SimpleNamespace(name="f", pipeline=PIPELINES),
    )  # fmt: skip


def run(context: Any, kind: Any = rerun) -> Any:
    """Start, look until the update has ended, read back: as the engine does in three tasks."""
    assert kind.run(context) == StepWait()
    context.watch.keep(StepNotes(watched=UpdateWatch(began="2026-11-23T00:00:00+00:00")))
    ended = kind.find_end(context)
    assert ended is not None
    return kind.go_on(context, ended)


def started(result: Mapping[str, Any]) -> list[str]:
    return [*codec.read(UpdateResult, result).started]


def test_updates_of_attempts_that_failed_stay_known(context: Any) -> None:
    for _ in range(2):
        with pytest.raises(Refused):
            run(context)
    result = run(context).lay_over(context.step.result)
    assert (result["update_id"], started(result)) == ("u-3", ["u-1", "u-2", "u-3"])


OWN: dict[str, Any] = {"refresh_selection": ["t"]}


def dies(context: Any, *, request: str = "") -> None:
    """An attempt that comes to its start and dies before it notes an update."""
    asked = StartRequest(selection=OWN, request_id=request, at=timezone.now().isoformat())
    before = context.client.updates[0]["update_id"]
    context.watch.keep(UpdateResult(newest_before=before, asked=asked, unnoted=True))


def created(request: str) -> list[dict[str, Any]]:
    config = {"cause": "API_CALL", "x-reprise-request-id": request}
    return [{"event_type": "create_update", "details": {"create_update": config}}]


def test_an_update_that_was_started_by_an_attempt_that_died_is_noted_by_the_next(context: Any) -> None:
    with pytest.raises(Refused):
        run(context)
    dies(context)
    context.client._start("p", **OWN)  # accepted, and the worker died here
    probed = rerun.probe(context.step)
    assert probed.outcome == "not_done"
    assert isinstance(probed.result, UpdateResult)
    assert probed.result.started == ("u-1", "u-2")
    with pytest.raises(Refused):
        run(context)
    assert started(context.step.result) == ["u-1", "u-2"]


@pytest.mark.parametrize(
    ("update", "request_id"),
    [
        ({"refresh_selection": ["other"]}, ""),
        ({"full_refresh_selection": ["t"]}, ""),
        ({"full_refresh": True}, ""),
        ({}, ""),
        ({**OWN, "cause": "USER_ACTION"}, ""),
        ({**OWN, "cause": "JOB_TASK"}, ""),
        (OWN, "req-of-somebody-else"),
    ],
)
def test_an_update_of_somebody_else_is_not_taken_for_the_step_s_own(
    context: Any, update: dict[str, Any], request_id: str
) -> None:
    dies(context, request="req-0123456789")
    context.client.add("other", **update)
    context.client.said["other"] = created(request_id)
    assert rerun.probe(context.step).outcome == "repeat", "it is proven that none was started"
    with pytest.raises(Refused):
        run(context)
    assert started(context.step.result) == ["u-1"]


def test_a_request_id_proves_the_step_s_own_among_others(context: Any) -> None:
    dies(context, request="req-0123456789")
    context.client._start("p", **OWN)
    context.client.said["u-1"] = created("req-0123456789")
    context.client.add("other", **OWN)
    context.client.said["other"] = created("req-of-somebody-else")
    with pytest.raises(Refused):
        run(context)
    assert (started(context.step.result), context.client.started) == (["u-1"], ["u-1"])


@pytest.mark.parametrize("late", [timedelta(hours=1), timedelta(hours=-1)])
def test_an_update_of_which_nothing_proves_whose_it_is_is_a_person_s_to_judge(
    context: Any, late: timedelta
) -> None:
    dies(context)
    context.client.add("other", late=late, **OWN)
    with pytest.raises(OutcomeUnknown) as unknown:
        rerun.run(context)
    probed = rerun.probe(context.step)
    assert (unknown.value.code, probed.outcome) == ("whose_update", "unclear")
    context.watch.keep(probed.result)  # shown to a person, who lets the step begin again
    with pytest.raises(Refused):
        run(context)
    assert started(context.step.result) == ["u-1"]


def test_two_updates_that_may_be_the_step_s_own_are_a_person_s_to_judge(context: Any) -> None:
    dies(context)
    for name in ("one", "two"):
        context.client.add(name, **OWN)
    with pytest.raises(OutcomeUnknown):
        rerun.run(context)
    assert rerun.probe(context.step).outcome == "unclear"


def test_an_attempt_of_a_version_that_noted_less_proves_nothing(context: Any) -> None:
    context.watch.keep(UpdateResult(newest_before="u-0"))
    assert rerun.probe(context.step).outcome == "repeat"
    context.client.add("other", **OWN)
    assert rerun.probe(context.step).outcome == "unclear"


def test_more_updates_than_are_looked_through_prove_nothing(context: Any) -> None:
    dies(context)
    context.client.updates = [{"update_id": f"v-{n}", "cause": "JOB_TASK"} for n in range(300)]
    assert rerun.probe(context.step).outcome == "unclear"


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ActiveUpdate("It is active.", update_id="other"), "repeat"),
        (Unreachable("Never sent."), "repeat"),
        (OutcomeUnknown("The answer was lost."), "not_done"),
    ],
)
def test_a_start_that_was_refused_has_started_nothing(
    context: Any, monkeypatch: pytest.MonkeyPatch, error: RepriseError, outcome: str
) -> None:
    def refuse(_pipeline: str, **asked: Any) -> str:
        context.client.add("u-2", **OWN)  # somebody else's, with the same selection at the same moment
        raise error

    monkeypatch.setattr(context.client, "_start", refuse)
    with pytest.raises(RepriseError):
        rerun.run(context)
    assert rerun.probe(context.step).outcome == outcome


def test_an_update_after_one_that_is_noted_is_never_the_step_s_own(context: Any) -> None:
    with pytest.raises(Refused):
        run(context)
    context.client.add("by hand", **OWN)
    with pytest.raises(Refused):
        run(context)
    assert started(context.step.result) == ["u-1", "u-2"]


@pytest.mark.parametrize(("version", "resets"), [(0, True), (1, False)])
def test_a_further_attempt_resets_only_where_no_update_has_made_the_empty_version(
    context: Any, monkeypatch: pytest.MonkeyPatch, version: int, resets: bool
) -> None:
    """A second reset would write once more what the first update had written."""
    context.step.args = {"refresh": ["t"], "reset": ["f"]}
    monkeypatch.setattr(rerun, "checkpoint_of", lambda flow: "/ck")
    monkeypatch.setattr(rerun, "inspect_checkpoint", lambda place: SimpleNamespace(version=version))
    with pytest.raises(Refused):
        run(context)
    assert context.client.updates[0]["reset_checkpoint_selection"] == ["f"]
    with pytest.raises(Refused):
        run(context)
    assert ("reset_checkpoint_selection" in context.client.updates[0]) is resets


@pytest.mark.parametrize(
    ("state", "said"),
    [("WAITING_FOR_RESOURCES", "has not begun yet"), ("RUNNING", "is RUNNING"), ("FAILED", "is FAILED")],
)
def test_a_start_that_is_not_seen_yet_is_said_in_words(state: str, said: str) -> None:
    assert rerun.say_state(state) == said
