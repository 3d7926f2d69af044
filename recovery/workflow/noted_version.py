"""The version that a plan's stop noted of its table: the plan changes what follows it, a rollback goes back to it."""

from recovery.contracts import codec
from recovery.contracts.results import StandstillResult
from recovery.errors import Refused
from recovery.models import Plan, Recovery, Step


def read_noted_version(recovery: Recovery, plan: Plan | None) -> int | None:
    """None: the plan's stop is not done, or its table counts no commits."""
    stop = recovery.steps.filter(plan=plan, kind="stop", state="done").first()
    return codec.read(StandstillResult, stop.result).sink_version if stop else None


def require_noted_version(step: Step) -> int:
    """That of the step's own plan. Raises Refused where none was noted."""
    version = read_noted_version(step.recovery, step.plan)
    if version is None:
        raise Refused("The plan's stop noted no version of the table. Seal a new plan.", code="not_as_kept")
    return version
