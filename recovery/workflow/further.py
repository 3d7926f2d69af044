"""A further plan of a recovery whose proof does not hold: made in the same recovery, and given up again where it did
nothing. The plan before it has run, is not void, and is in force again once the further one is given up.
"""

from dataclasses import dataclass

from recovery.approvals.selectors import plan_in_force
from recovery.contracts.names import Strategy
from recovery.contracts.plan import PlanBody
from recovery.errors import Refused
from recovery.models import Plan, Recovery, Step
from recovery.strategies.common import plural
from recovery.workflow import corrections, sealing
from recovery.workflow.moves import move, only_in
from recovery.workflow.topping import missing_in, repeated_in
from recovery.workflow.transitions import WAITS

UNTOUCHED = ("pending", "skipped")
"""States of steps that did not begin."""


def earlier_plan(recovery: Recovery) -> Plan | None:
    """The newest plan that has run and is not void, beside the one in force; None where there is none."""
    now = plan_in_force(recovery)
    plans = recovery.plans.filter(voided_at=None).order_by("-pk")
    ran = (p for p in plans if now is None or p.pk != now.pk)
    return next((p for p in ran if p.steps.exclude(state__in=UNTOUCHED).exists()), None)


def refusal(recovery: Recovery) -> str | None:
    """Why no further plan can be made, in one sentence; None when it can. Reads only."""
    plan = plan_in_force(recovery)
    if recovery.state != "needs_attention" or plan is None:
        return f"{recovery.label} has no proof that does not hold, so no further plan is made in it."
    steps = recovery.steps.filter(plan=plan)
    proof = steps.filter(kind="verify", state="done").last()
    if proof is None or steps.exclude(state__in=("done", "skipped")).exists():
        return f"{recovery.label} was not measured to its end. Resume it first."
    return None


@dataclass(frozen=True)
class FurtherWay:
    """What a further plan may do about the rows that a proof did not find, or found too often."""

    strategy: Strategy
    rows: int

    @property
    def says(self) -> str:
        """`2 missing rows`."""
        return plural(self.rows, "repeated row" if self.strategy is Strategy.DEDUPLICATE else "missing row")


def takes_corrections(recovery: Recovery, contents: PlanBody) -> bool:
    """Whether single rows can be added to the table of a plan, or deleted from it: a Delta table of a pipeline's flow,
    by a key. The strategies judge the rest when they are planned (`strategies.corrections`)."""
    if recovery.flow.pipeline.workspace.has_streams:
        return False
    return contents.sink.kind == "delta" and not contents.sink.is_declared and bool(contents.key)


def find_way(recovery: Recovery) -> FurtherWay | None:
    """None where there is no such plan: none can be made, the table gets rows by its own log alone, each is there as
    often as it is due, or no key tells which. Repeats come first: no row is added while they are there."""
    plan = plan_in_force(recovery)
    if plan is None or refusal(recovery) is not None or not takes_corrections(recovery, plan.contents):
        return None
    if repeated := repeated_in(recovery.proof):
        return FurtherWay(Strategy.DEDUPLICATE, repeated)
    missing = missing_in(recovery.proof)
    return FurtherWay(Strategy.TOP_UP, missing) if missing else None


def begin(recovery: Recovery) -> None:
    """Back to where a plan is made, under the recovery's lock. What was counted before holds no longer. Raises
    Refused."""
    only_in(recovery, "needs_attention")
    if reason := refusal(recovery):
        raise Refused(reason, code="no_further")
    move(recovery, "diagnosing", measured={}, facts={"status": "none"}, reason="")


def may_be_given_up(recovery: Recovery) -> bool:
    """Whether the plan that is made now, or that waits, has done nothing and another one ran before it. Raises
    Unreachable where only the table's log tells."""
    if earlier_plan(recovery) is None:
        return False
    plan = plan_in_force(recovery)
    if recovery.state == "diagnosing" or recovery.state in WAITS:
        return True
    return recovery.state == "needs_attention" and plan is not None and not _has_written(recovery, plan)


def _has_written(recovery: Recovery, plan: Plan) -> bool:
    """Whether this plan may have changed something: one that has no more than proven the standstill has not, nor one
    whose fill or deduplicate was seen to fail and left no commit. Raises Unreachable."""
    begun = recovery.steps.filter(plan=plan).exclude(kind="stop").exclude(state__in=UNTOUCHED)
    if begun.exclude(kind__in=("fill", "deduplicate"), state="failed").exists():
        return True
    return begun.exists() and corrections.correction_of(recovery) is not None


def give_up(recovery: Recovery, says: str) -> Plan:
    """The plan before is in force again, with what its proof measured. Call under the recovery's lock, inside the
    caller's transaction, which records it."""
    plan = earlier_plan(recovery)
    assert plan is not None, "only a further plan is given up"
    if recovery.state in WAITS:
        sealing.withdraw(recovery, says)
    elif recovery.state == "needs_attention":
        sealing.end_plan(recovery, says)
        move(recovery, "diagnosing")
    measured = _measured_by(recovery, plan)
    move(recovery, "needs_attention", reason=says, strategy=plan.contents.strategy, measured=measured)
    return plan


def _measured_by(recovery: Recovery, plan: Plan) -> dict[str, object]:
    proof: Step | None = recovery.steps.filter(plan=plan, kind="verify", state="done").last()
    return dict(proof.result.get("measured") or {}) if proof is not None else {}
