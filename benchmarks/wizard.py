"""The wizard's way to a sealed plan, as its pages go it: asked here, done by the instance's workers.

Run inside `manage.py shell` of an instance by `benchmarks.recovery`; prints seconds as one JSON object.
"""

import json
import sys
import time
from collections.abc import Callable

from recovery.contracts.choices import ChoicesChange
from recovery.models import Recovery
from recovery.people.roles import Actor, Role
from recovery.pipelines.find import find_flow, find_fresh
from recovery.planning import actions as planning
from recovery.workflow import actions, studies

PATIENCE_SECONDS = 600.0


def main(pipeline: str, mark: str) -> None:
    """Diagnose, gather, choose to continue, seal: seconds of each, and the recovery's name, printed after `mark`."""
    by = Actor("benchmark", Role.ADMIN, via="command")
    flow = find_flow(find_fresh(pipeline, by), None)
    began = time.monotonic()
    recovery = actions.open_recovery(flow_id=flow.pk, by=by)
    seconds = {"diagnose": time.monotonic() - began}
    seconds["gather"] = _waited(
        recovery, "facts", lambda: actions.request_facts(recovery_id=recovery.pk, by=by)
    )
    planning.update_choices(recovery_id=recovery.pk, change=ChoicesChange(strategy="continue"), by=by)
    seconds["seal"] = _waited(
        recovery, "sealing", lambda: planning.request_plan(recovery_id=recovery.pk, by=by)
    )
    sys.stdout.write(f"{mark}{json.dumps({'recovery': recovery.label, 'seconds': seconds})}\n")


def _waited(recovery: Recovery, field: str, request: Callable[[], None]) -> float:
    """Seconds until a worker's answer stands in the row."""
    began = time.monotonic()
    request()
    while time.monotonic() < began + PATIENCE_SECONDS:
        recovery.refresh_from_db()
        look = studies.read_progress(recovery, field)
        if look.status == "ready":
            return time.monotonic() - began
        assert look.status == "working", look
        time.sleep(0.02)
    raise AssertionError(f"{field}: no answer within {PATIENCE_SECONDS:.0f} s")
