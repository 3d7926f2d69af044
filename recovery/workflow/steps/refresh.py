"""refresh: start one update, limited to what stands downstream of the flow's table.

Started at most once, resumed and probed as the rerun is: what it notes down has the same names.
"""

from recovery.contracts import codec
from recovery.contracts.steps import UpdateArgs
from recovery.workflow import reviewed
from recovery.workflow.steps import rerun
from recovery.workflow.steps.base import Context, StepWait

SECONDS = rerun.SECONDS
find_end = rerun.find_end
go_on = rerun.go_on
probe = rerun.probe


def run(context: Context) -> StepWait:
    """Raises Refused where another update is active."""
    return rerun.begin(context, _start)


def _start(context: Context) -> str:
    reviewed.require_workspace_unchanged(
        context.contents, context.client, context.pipeline_id, so="Nothing below was refreshed."
    )
    return rerun.start(context, rerun.selected(codec.read(UpdateArgs, context.step.args).refresh))
