"""A run that somebody stops: the step that watches an update stops it, once, and watches it to its end."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from recovery.errors import Refused
from recovery.workflow.fingerprints import of_code
from recovery.workflow.steps import rerun, verify
from recovery.workflow.steps.base import Context

BODY = {"dataset": "t", "patch": [], "preconditions": {"code": of_code({"/p/q.py": ""})}}


class World:
    """An update that runs until it is stopped; `who` stops the run after the first look."""

    def __init__(self, who: str = "") -> None:
        self.who, self.stops, self.said = who, 0, list[str]()
        self._states = self._run()

    def _run(self) -> Iterator[str]:
        yield "RUNNING"
        yield "STOPPING" if self.who else "RUNNING"
        yield "CANCELED" if self.stops else "COMPLETED"

    def context(self) -> Any:
        client = SimpleNamespace(
            get_update=lambda pipeline, update: {"state": next(self._states)},
            stop=lambda pipeline: setattr(self, "stops", self.stops + 1),
            start_update=lambda pipeline, **body: "u-1",
            get_pipeline=lambda pipeline: {"spec": {"libraries": [{"file": {"path": "/p/q.py"}}]}},
            export=lambda path: b"",
        )
        return SimpleNamespace(
            client=client, pipeline_id="p", held_by=self.who,
            watch=SimpleNamespace(guard=lambda: None, keep=lambda **values: None),
            log=self.said.append, body=BODY, flow=SimpleNamespace(name="f"),
        )  # fmt: skip


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rerun.time, "sleep", lambda seconds: None)


def test_nobody_stops_it_so_it_runs_to_its_end() -> None:
    world = World()
    assert (rerun.watch(world.context(), "u-1"), world.stops) == ("COMPLETED", 0)


def test_the_update_is_stopped_once_and_watched_until_that_is_read_back() -> None:
    world = World("ada")
    assert (rerun.watch(world.context(), "u-1"), world.stops) == ("CANCELED", 1)
    assert "ada stops the run" in world.said[1]


def test_a_stopped_rerun_names_who_did_it_and_how_to_go_on() -> None:
    context: Context = World("ada").context()
    assert rerun._why(context, "u-1", "CANCELED").startswith("Update u-1 was stopped by ada")


def test_a_stopped_verification_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify.reading, "seen", lambda body, readers: {})
    context, nothing = World("ada").context(), SimpleNamespace(measure=None)
    with pytest.raises(Refused, match="ada stopped the run while it was verified"):
        verify._further(context, SimpleNamespace(), SimpleNamespace(), nothing)  # type: ignore[arg-type]
