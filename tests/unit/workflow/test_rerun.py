"""Every update that a rerun has started stays known, however many attempts it took: their batches are all its own."""

from types import SimpleNamespace
from typing import Any

import pytest

from recovery.errors import Refused
from recovery.workflow.fingerprints import of_code
from recovery.workflow.steps import rerun
from recovery.workflow.steps.base import Waits
from recovery.workflow.watches import Watched

STATES = {"u-1": "FAILED", "u-2": "CANCELED", "u-3": "COMPLETED"}
SPEC = {"libraries": [{"file": {"path": "/p/q.py"}}]}
BODY = {"inputs": [], "patch": [], "preconditions": {"code": of_code({"/p/q.py": ""})}, "dataset": "t"}


class Pipeline:
    """Its first two updates do not come to their end."""

    def __init__(self) -> None:
        self.started: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return {
            "get_pipeline": lambda _: {"spec": SPEC},
            "get_update": lambda _, update: {"state": STATES[update]},
            "list_updates": lambda _, limit: [{"update_id": u} for u in [*reversed(self.started), "u-0"]],
            "events": lambda *_, **__: [],
            "start_update": self._start,
        }[name]

    def export(self, path: str) -> bytes:
        return b""

    def _start(self, _pipeline: str, **_: Any) -> str:
        self.started.append(f"u-{len(self.started) + 1}")
        return self.started[-1]


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> Any:
    step = SimpleNamespace(result={}, args={"refresh": ["t"]})
    step.recovery = SimpleNamespace(
        flow=SimpleNamespace(pipeline=SimpleNamespace(workspace=None, pipeline_id="p"))
    )
    client = Pipeline()
    monkeypatch.setattr(rerun, "client_for", lambda workspace: client)
    watch = SimpleNamespace(keep=lambda **v: setattr(step, "result", {**step.result, **v}), guard=lambda: 0)
    return SimpleNamespace(
        step=step, watch=watch, body=BODY, client=client, pipeline_id="p", held_by="", log=lambda text: None,
        flow=SimpleNamespace(name="f"),
    )  # fmt: skip


def run(context: Any, kind: Any = rerun) -> Any:
    """Start, look until the update has ended, read back: as the engine does in three tasks."""
    assert kind.run(context) == Waits()
    context.watch.keep(watched=Watched("2026-11-23T00:00:00+00:00").as_dict())
    ended = kind.find_end(context)
    assert ended is not None
    return kind.go_on(context, ended)


def test_updates_of_attempts_that_failed_stay_known(context: Any) -> None:
    for _ in range(2):
        with pytest.raises(Refused):
            run(context)
    result = {**context.step.result, **run(context)}
    assert (result["update_id"], rerun.updates(result)) == ("u-3", ["u-1", "u-2", "u-3"])


def test_an_update_that_was_started_by_an_attempt_that_died_is_noted_by_the_next(context: Any) -> None:
    with pytest.raises(Refused):
        run(context)
    context.watch.keep(newest_before="u-1")
    context.client._start("p")  # accepted, and the worker died here
    probed = rerun.probe(context.step)
    assert probed.outcome == "not_done"
    assert probed.result is not None
    assert rerun.updates(probed.result) == ["u-1", "u-2"]
    with pytest.raises(Refused):
        run(context)
    assert rerun.updates(context.step.result) == ["u-1", "u-2"]


@pytest.mark.parametrize(
    ("result", "known"),
    [
        ({}, []),
        ({"update_id": "u-2"}, ["u-2"]),
        ({"ended": "u-1", "update_id": "u-2"}, ["u-1", "u-2"]),
        ({"ended": "u-1", "update_id": None}, ["u-1"]),
        ({"updates": ["u-1", "u-2"], "ended": "u-1", "update_id": "u-2"}, ["u-1", "u-2"]),
    ],
)
def test_steps_that_were_begun_before_updates_were_noted_know_their_last_two(
    result: dict[str, Any], known: list[str]
) -> None:
    assert rerun.updates(result) == known
