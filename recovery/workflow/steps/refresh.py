"""refresh: start one update, limited to what stands downstream of the flow's table, and watch it to its end.

Started at most once, resumed and probed as the rerun is: what it notes down has the same names.
"""

from collections.abc import Mapping
from typing import Any

from recovery.workflow import reviewed
from recovery.workflow.steps import rerun
from recovery.workflow.steps.base import Context

SECONDS = rerun.SECONDS
probe = rerun.probe


def run(context: Context) -> Mapping[str, Any]:
    """Raises Refused where the update did not complete, or where another one is active."""
    return rerun.carry_out(context, _start)


def _start(context: Context) -> str:
    reviewed.still(context.body, context.client, context.pipeline_id, so="Nothing below was refreshed.")
    return rerun.start(context, rerun.selected(context.step.args["refresh"]))
