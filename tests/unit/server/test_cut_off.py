"""An update that ended because what it ran on did is told from one whose code failed: the console starts it again."""

from types import SimpleNamespace
from typing import Any

import pytest

from recovery.pipelines import events as said
from recovery.server import events
from recovery.server.execution import Execution, cut


def update_event(error: dict[str, Any], kind: str = "update_progress") -> dict[str, Any]:
    return {"event_type": kind, "error": error}


@pytest.mark.parametrize(
    ("code", "is_cut"),
    [(-9, True), (-15, True), (None, True), (-6, False), (-11, False), (1, False), (7, False)],
)
def test_a_runner_that_was_killed_is_cut_off_and_one_that_crashed_has_failed(
    code: int | None, is_cut: bool
) -> None:
    unbound: Any = Execution.silent_end
    failure = unbound(SimpleNamespace(runner=None), code)
    assert said.was_cut([update_event(failure.error)]) is is_cut


def test_only_the_updates_own_event_says_that_it_was_cut_off() -> None:
    error = cut("Spark ended.").error
    assert said.was_cut([update_event(error)])
    assert not said.was_cut([update_event(error, "flow_progress")]), "a flow's error may be anybody's words"
    assert not said.was_cut([update_event(events.simple_error("Spark ended."))])
    assert not said.was_cut([])


def test_server_and_console_mean_the_same_class() -> None:
    assert events.CUT == said.CUT
