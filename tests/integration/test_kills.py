"""A run is cut in the middle of an act, by a kill or by a person; it is resumed, and ends exactly-once."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from console.incident.making import Incident
from tests.integration.test_first_recovery import checkpoint, held, wanted
from tests.stack import ROOT, Stack, wait_for

pytestmark = pytest.mark.spark


def kill_worker(stack: Stack) -> None:
    """SIGKILL to the worker and every process of its pool, at once."""
    kill_all(family_of(stack.demo["pids"]["worker"]))


def family_of(pid: int) -> list[int]:
    return [pid, *children(pid)]


def kill_all(family: list[int]) -> None:
    for one in family:
        try:
            os.kill(one, signal.SIGKILL)
        except ProcessLookupError:
            continue


def children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += [int(child), *children(int(child))]
    return found


def planned(stack: Stack, incident: Incident) -> str:
    code, out, err = stack.manage("plan", incident.name, "--flow", incident.flow, "--json", token="responder")
    assert code == 0, err
    label: str = json.loads(out)["recovery"]
    return label


def steps(stack: Stack, recovery: str) -> dict[str, Any]:
    """The recovery as `execute` would print it, read from the instance's own database."""
    program = (
        "import django, json, sys; django.setup();"
        "from recovery.people.roles import SYSTEM;from recovery.workflow import by_hand, selectors;"
        "print(json.dumps(by_hand.summary(selectors.recovery_or_404(sys.argv[1], SYSTEM))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, recovery],
        cwd=ROOT,
        env=stack.environment(DJANGO_SETTINGS_MODULE="console.settings"),
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return {**found, "by_kind": {s["kind"]: s for s in found["steps"]}}


def kill_when(stack: Stack, recovery: str, seen: Callable[[], bool]) -> None:
    """Start the plan, kill the worker at the first moment that `seen` is true, wait for a new worker."""
    before = stack.demo["pids"]["worker"]
    code, _, err = stack.manage("execute", recovery, "--json", token="responder")
    assert code == 0, err
    family = family_of(before)  # found now: the moment is only milliseconds long
    until = time.monotonic() + 60
    while not seen():  # a tight loop, for the same reason
        assert time.monotonic() < until, "the moment to kill at never came"
    kill_all(family)
    wait_for(lambda: stack.demo["pids"]["worker"] != before, "a new worker", 30)


def settled(stack: Stack, recovery: str) -> dict[str, Any]:
    """Wait until the silent step was found out, one way or the other."""

    def found_out() -> dict[str, Any] | None:
        now = steps(stack, recovery)
        waiting = any(s["state"] == "unknown" and not s["evidence"] for s in now["steps"])
        return None if waiting or now["state"] in ("running", "verifying") else now

    found: dict[str, Any] = wait_for(found_out, "the recovery to settle", 120)
    return found


def resume(stack: Stack, recovery: str) -> dict[str, Any]:
    code, out, err = stack.manage("execute", recovery, "--wait", "--json", token="responder")
    answer: dict[str, Any] = json.loads(out)
    assert (code, answer["state"]) == (0, "succeeded"), (answer, err)
    return answer


@pytest.mark.alone
def test_a_worker_killed_in_the_middle_of_seed_is_resumed_to_exactly_once(stack: Stack) -> None:
    incident = stack.incident("killseed")
    recovery = planned(stack, incident)
    undo = checkpoint(stack, incident).parent / f".reprise-{recovery}.undo.json"
    kill_when(stack, recovery, undo.exists)
    now = settled(stack, recovery)
    if now["state"] == "needs_attention":
        # on a busy machine the kill may come a moment late and cut the step after the seed
        cut = [s for s in now["steps"] if s["state"] == "unknown"]
        assert cut, now
        assert all(s["evidence"] for s in cut), f"what is proven must be seen before resuming: {now}"
        resume(stack, recovery)
    else:
        assert now["state"] == "succeeded"
    assert held(stack, incident) == wanted(incident)
    versions = sorted(p.name for p in undo.parent.iterdir() if p.name.isdigit())
    assert versions == ["0", "1"], "the reset was done twice"


@pytest.mark.alone
def test_a_worker_killed_in_the_middle_of_rerun_watches_the_same_update_on(stack: Stack) -> None:
    incident = stack.incident("killrun")
    recovery = planned(stack, incident)
    before = len(stack.client.list_updates(incident.pipeline_id))
    kill_when(
        stack, recovery, lambda: len(stack.client.list_updates(incident.pipeline_id, limit=50)) > before
    )
    now = settled(stack, recovery)
    if now["state"] == "needs_attention":
        now = resume(stack, recovery)
    assert now["state"] == "succeeded"
    updates = stack.client.list_updates(incident.pipeline_id, limit=50)
    assert len(updates) == before + 3, "the rerun, the refresh and the further update, and no fourth"
    assert held(stack, incident) == wanted(incident)


def test_a_run_that_a_person_stops_leaves_no_update_and_is_resumed_to_exactly_once(
    stack: Stack, tmp_path: Path
) -> None:
    incident = stack.incident("halted")
    gate = tmp_path / "gate"  # while it is there, the pipeline's code does not get on
    waits = f"import os, time\nwhile os.path.exists({str(gate)!r}):\n    time.sleep(0.05)\n"
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / f"{incident.name}.py").write_text(waits + incident.failing_code)
    code, out, err = stack.manage(
        *("plan", incident.name, "--flow", incident.flow, "--code", str(tmp_path / "code"), "--json"),
        token="responder",
    )
    assert code == 0, err
    recovery = json.loads(out)["recovery"]
    before = len(stack.client.list_updates(incident.pipeline_id, limit=50))
    gate.touch()
    try:
        assert stack.manage("execute", recovery, "--json", token="responder")[0] == 0
        wait_for(
            lambda: len(stack.client.list_updates(incident.pipeline_id, limit=50)) > before,
            "the rerun's update",
        )
        code, out, err = stack.manage(
            "stop", incident.name, "--flow", incident.flow, "--json", token="responder"
        )
    finally:
        gate.unlink()
    assert (code, json.loads(out)["state"]) == (0, "needs_attention"), (out, err)
    stopped = stack.client.list_updates(incident.pipeline_id, limit=1)[0]
    assert stopped["state"] == "CANCELED"
    now = steps(stack, recovery)
    assert now["by_kind"]["verify"]["state"] == "pending"
    assert "stopped by responder" in now["by_kind"]["rerun"]["problem"]
    resume(stack, recovery)
    assert held(stack, incident) == wanted(incident)
