"""What must hold before a recovery takes an arrow of the table: one check a guard. Reads only."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from django.utils import timezone

from recovery.approvals import selectors
from recovery.contracts import codec
from recovery.contracts.measured import Measured
from recovery.errors import Refused
from recovery.models import Recovery
from recovery.workflow.transitions import Guard

CHANGING: Final = ("patch", "restore", "seed", "rerun", "fill", "deduplicate", "refresh")
"""Kinds of steps that change something outside."""


def _permitted(recovery: Recovery, values: Mapping[str, Any]) -> None:
    plan = selectors.plan_in_force(recovery)
    if plan is None:
        raise Refused(f"{recovery.label} has no plan in force. Seal one first.", code="no_plan")
    if no := selectors.run_refusal(recovery, plan):
        raise Refused(no.says, code=no.code)


def _glass(recovery: Recovery, values: Mapping[str, Any]) -> None:
    _permitted(recovery, values)
    glass = selectors.glass_of(selectors.plan_in_force(recovery))
    if glass is None or glass.until <= timezone.now():
        raise Refused(
            f"{recovery.label} still waits for approval. Nothing was run.",
            code="needs_approval",
        )


def _asked(recovery: Recovery, values: Mapping[str, Any]) -> None:
    request = selectors.request_of(selectors.plan_in_force(recovery))
    if request is None or request.state != "open":
        raise Refused(f"Approval of {recovery.label}'s plan was not requested.", code="not_asked")


def _decided(recovery: Recovery, values: Mapping[str, Any]) -> None:
    request = selectors.request_of(selectors.plan_in_force(recovery))
    if request is None or request.state != "approved" or request.expires_at <= timezone.now():
        raise Refused(f"The plan of {recovery.label} is not approved.", code="needs_approval")


def _late(recovery: Recovery, values: Mapping[str, Any]) -> None:
    request = selectors.request_of(selectors.plan_in_force(recovery))
    if request is None or request.expires_at > timezone.now():
        raise Refused(f"The request for approval of {recovery.label} has not expired yet.", code="not_late")


def _untouched(recovery: Recovery, values: Mapping[str, Any]) -> None:
    acted = recovery.steps.filter(kind__in=CHANGING).exclude(state__in=("pending", "skipped"))
    # a fill or a deduplicate that finds drift voids its plan before it writes
    acted = acted.exclude(kind__in=("fill", "deduplicate"), state="failed", plan__voided_at__isnull=False)
    if acted.exists():
        raise Refused(
            f"{recovery.label} has already changed something. Roll it back, or resume it.", code="touched"
        )


def _proven(recovery: Recovery, values: Mapping[str, Any]) -> None:
    measured = values.get("measured")
    if not measured or not codec.read(Measured, measured).verified:
        raise Refused(
            f"{recovery.label} is not proven: a criterion does not hold or was not measured.",
            code="not_proven",
        )


def _skipped(recovery: Recovery, values: Mapping[str, Any]) -> None:
    steps = recovery.steps.filter(plan=selectors.plan_in_force(recovery))
    plan = selectors.plan_in_force(recovery)
    kind = "rerun" if plan is None else plan.contents.changing_step.value
    rerun, proof = steps.filter(kind=kind).last(), steps.filter(kind="verify").last()
    given_up = rerun is not None and rerun.state == "skipped" and rerun.notes.skipped is not None
    is_proof_skipped = proof is not None and proof.notes.skipped is not None
    proof_skipped = rerun is not None and rerun.state == "done" and is_proof_skipped
    if not (given_up or proof_skipped):
        raise Refused(
            f"{recovery.label} can end without proof only after its rerun, fill or deduplicate, when a person skips "
            "the proof.",
            code="not_skipped",
        )


def _ran(recovery: Recovery, values: Mapping[str, object]) -> None:
    plans = recovery.plans.filter(voided_at=None)
    if not recovery.steps.filter(plan__in=plans).exclude(state__in=("pending", "skipped")).exists():
        raise Refused(
            f"No earlier plan of {recovery.label} has run, so there is none to return to.", code="nothing_ran"
        )


CHECKS: Final[Mapping[Guard, Callable[[Recovery, Mapping[str, Any]], None]]] = {
    Guard.PERMITTED: _permitted,
    Guard.GLASS: _glass,
    Guard.ASKED: _asked,
    Guard.DECIDED: _decided,
    Guard.LATE: _late,
    Guard.UNTOUCHED: _untouched,
    Guard.PROVEN: _proven,
    Guard.SKIPPED: _skipped,
    Guard.RAN: _ran,
}


def check(guard: Guard, recovery: Recovery, values: Mapping[str, Any]) -> None:
    """Raise Refused, with the reason, unless the guard holds. `values` are what the move will write."""
    if guard is not Guard.NONE:
        CHECKS[guard](recovery, values)
