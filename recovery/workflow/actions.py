"""The only doors through which a recovery changes. Keyword-only, `by=` who, ids not objects.

Each checks the right, writes the change and its audit row in one transaction and wakes a worker on
commit. A refusal or denial is a row as well (`trying`), in a transaction of its own.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal

from django.db import IntegrityError, transaction
from django.utils import timezone

from recovery.contracts import codec
from recovery.contracts.choices import Halt
from recovery.contracts.diagnosis import Diagnosis, LastGoodBatch, StoredDiagnosis
from recovery.diagnosis.healthy import diagnose_healthy
from recovery.errors import Refused, RepriseError
from recovery.models import Flow, Plan, Recovery, Step, Workspace
from recovery.people.roles import Actor
from recovery.pipelines.workspaces import refuse_inactive
from recovery.workflow import (
    broker,
    diagnosing,
    engine,
    further,
    joining,
    owning,
    sealing,
    skipping,
    starting,
    studies,
    watches,
)
from recovery.workflow.journal import right_to_run, trying, trying_flow, trying_together
from recovery.workflow.moves import get as _get
from recovery.workflow.moves import held_by, lock, move, only_in
from recovery.workflow.selectors import open_recovery_of, plan_of
from recovery.workflow.steps import rollback
from recovery.workflow.verdicts import where_of

CAN_GO_BACK: Final = ("needs_attention", "failed", "succeeded", "unproven")
"""States from which a recovery is rolled back."""


def open_recovery(*, flow_id: int, by: Actor, healthy: bool = False) -> Recovery:
    """Open a recovery in this actor's name, with its diagnosis. Reads only; changes nothing in the pipeline.

    `healthy`: the person says that nothing has to fail, as for going back in a flow whose rows are wrong. Raises
    Denied; Refused for a healthy flow without that, or when one is open already; Unreachable.
    """
    flow = Flow.objects.select_related("pipeline__workspace").get(pk=flow_id)
    # read before the transaction: storage may be slow, and an open transaction holds everybody up
    diagnosis = diagnosing.diagnose_broken(flow)
    if diagnosis is None and healthy and flow.streaming:
        where = where_of(flow)
        diagnosis = diagnose_healthy(state=flow.state, storage=where.storage, program=where.program)
    with trying_flow("recovery.open", flow, by) as attempted:
        refuse_inactive(Workspace.objects.select_for_update().get(pk=flow.pipeline.workspace_id))
        _refuse_second(flow)
        if diagnosis is None:
            raise diagnosing.refuse_healthy(flow)
        try:
            with transaction.atomic():
                recovery = Recovery.objects.create(
                    flow=flow,
                    diagnosis=_stored(diagnosis, flow),
                    facts={"status": "none"},
                    created_by=by.name,
                    owner=by.name,
                )
                attempted.recovery = recovery.label
                attempted.done(f"Recovery {recovery.label} of {flow.name} opened.")
        except IntegrityError:
            _refuse_second(flow)
            raise
    return recovery


def _stored(diagnosis: Diagnosis, flow: Flow) -> dict[str, Any]:
    """A diagnosis with the time of its failure and the last good batch, which the flow forgets once it is well."""
    failed_at = flow.failing_since.isoformat() if flow.failing_since else None
    last_good = _find_last_good(flow)
    return codec.to_json(StoredDiagnosis(**dict(diagnosis), failed_at=failed_at, last_good=last_good))


def _find_last_good(flow: Flow) -> LastGoodBatch | None:
    """By the newest progress that a poll has kept; None if that is of an idle look, which runs no batch."""
    progress = flow.last_progress
    took, at = progress.get("durationMs"), progress.get("timestamp")
    ran = bool(progress.get("numInputRows")) or (isinstance(took, dict) and "addBatch" in took)
    if not ran or flow.last_batch is None or progress.get("batchId") != flow.last_batch:
        return None
    return LastGoodBatch(batch=flow.last_batch, at=at) if isinstance(at, str) else None


def _refuse_second(flow: Flow) -> None:
    other = open_recovery_of(flow.pk)
    if other:
        raise Refused(
            f"{other.label}, opened by {other.created_by}, is already open for {flow.short}. Continue with it, or "
            "cancel it first.",
            code="already_open",
        )


def request_stop(*, recovery_id: int, by: Actor) -> Step:
    """Stop the pipeline now, as a step of its own: safe, reversible, before any plan."""
    recovery = _get(recovery_id)
    with trying("recovery.stop", recovery, by) as attempted:
        broker.check()
        recovery = lock(recovery_id)
        only_in(recovery, "diagnosing", "planned", "needs_attention")
        running = recovery.steps.filter(
            kind="stop", plan=None, state__in=("pending", "running", "unknown")
        ).first()
        if running:
            return running
        pipeline = recovery.flow.pipeline
        what = pipeline.workspace.what_runs
        step = add_step(recovery, "stop", f"Stop the {what} and prove that nothing runs.")
        engine.wake(step)
        attempted.done(f"Stop of {what} {pipeline.name} requested.")
    return step


def add_step(recovery: Recovery, kind: str, says: str, plan: Plan | None = None) -> Step:
    """A step after all the others. Call under the recovery's lock, or in its transaction."""
    number = recovery.steps.count() + 1
    return Step.objects.create(
        recovery=recovery,
        plan=plan,
        ordinal=number,
        kind=kind,
        says=says,
        idempotency_key=f"{kind}-{recovery.pk}-{number}",
    )


def request_facts(*, recovery_id: int, by: Actor) -> None:
    """Have a worker gather facts and judge every strategy; the answer appears in `recovery.facts`."""
    from recovery.workflow import tasks

    recovery = _get(recovery_id)
    with trying("recovery.facts", recovery, by) as attempted:
        broker.check()
        recovery = lock(recovery_id)
        only_in(recovery, "diagnosing", "planned")
        broker.send_on_commit(tasks.gather_facts, recovery_id, studies.begin(recovery, "facts"))
        attempted.done("Facts requested: positions, rows, forecast of every strategy.")


def request_validation(*, recovery_id: int, by: Actor) -> None:
    """Have a worker run validate_only on the saved patch; the answer appears in `choices["validation"]`."""
    from recovery.workflow import tasks

    recovery = _get(recovery_id)
    with trying("recovery.validate", recovery, by) as attempted:
        broker.check()
        recovery = lock(recovery_id)
        only_in(recovery, "diagnosing")
        broker.send_on_commit(tasks.validate_patch, recovery_id, studies.begin(recovery, "validation"))
        attempted.done("Validation of the edited source requested.")


def edit_again(*, recovery_id: int, by: Actor) -> None:
    """Take a sealed plan that has not run back: it is void, the choices stay and can be changed."""
    recovery = _get(recovery_id)
    with trying("plan.withdraw", recovery, by) as attempted:
        recovery = lock(recovery_id)
        only_in(recovery, "planned", "awaiting_approval", "approved")
        if recovery.chosen.sealing.status == "working":
            raise Refused(
                f"A plan of {recovery.label} is being sealed. Wait until it is sealed, then take it back.",
                code="sealing",
            )
        plan, before = plan_of(recovery), recovery.state
        digest = plan.hash if plan else None
        sealing.withdraw(recovery, f"{by.name} took it back before it ran, to change it.")
        attempted.done(
            "The sealed plan was taken back before it ran; the choices can be changed again.",
            before={"state": before, "plan": digest},
            after={"state": "diagnosing", "plan": None},
        )


def execute(*, recovery_id: int, plan_hash: str | None = None, by: Actor) -> None:
    """Run the sealed plan; or, when a step failed or is unknown, resume at that step. `plan_hash`: the plan that was
    looked at, when one was.

    Raises Refused when another plan is in force than that, when there is none, when the environment's rules do not let
    it run (approvals, waiting time, freeze window, strategy), or when the step's fate is still being found out.
    """
    recovery = _get(recovery_id)
    resuming = recovery.state == "needs_attention"
    with trying("recovery.resume" if resuming else "recovery.execute", recovery, by) as attempted:
        broker.check()
        recovery = lock(recovery_id)  # first: the right is that which the plan asks for that then runs
        by.check(right_to_run(plan_of(recovery)), recovery.flow.pipeline.environment)
        joining.refuse_unseen(recovery, plan_hash)
        started = starting.start(recovery, by=by)
        attempted.done(started.says, before=started.before, after=started.after or None)


def hand_over(*, recovery_id: int, to: str, by: Actor, reason: str = "", was: str = "") -> None:
    """Make somebody the owner of an open recovery: its owner gives it to another person who may act there, or who may
    act there takes it over, with a reason. Both owners are told. `was`: the owner that this act was decided on.

    Raises Refused (not theirs to give, no such person, no reason, or somebody was faster).
    """
    recovery = _get(recovery_id)
    act = "recovery.take_over" if to == by.name else "recovery.hand_over"
    with trying(act, recovery, by, reason=reason) as attempted:
        recovery = lock(recovery_id)
        before = recovery.owner
        owning.give(recovery, to=to, reason=reason.strip(), was=was, by=by)
        attempted.done(
            f"{recovery.label} is {to}'s now; it was {before}'s.",
            before={"owner": before},
            after={"owner": to},
        )


def stop_run(*, recovery_id: int, by: Actor) -> None:
    """Stop a recovery that runs: the update it watches is stopped, no further step begins, and it can be resumed.

    Only the wish is written here. The step that runs obeys it, since it alone knows whether its update was started;
    a step that only changes files is finished first.
    """
    halted = _list_halted(_get(recovery_id))
    with trying_together("recovery.halt", halted, by) as attempts:
        only_in(Recovery.objects.select_for_update().get(pk=recovery_id), "running", "verifying")
        _put_halt(halted, by, when="now")
        for attempted in attempts:
            attempted.done("Stop of the run requested: its update is stopped, no further step begins.")


def pause_run(*, recovery_id: int, by: Actor) -> None:
    """Pause a recovery that runs after the step that runs now: that one ends by itself, no further one begins, and it
    can be resumed. Raises Refused where it is being measured already (no step follows), or is being stopped."""
    recovery = _get(recovery_id)
    halted = _list_halted(recovery)
    with trying_together("recovery.pause", halted, by) as attempts:
        only_in(lock(recovery_id), "running")
        if held_by(recovery_id):
            raise Refused(
                f"{recovery.label} is already being stopped: no further step begins.", code="stopping"
            )
        _put_halt(halted, by, when="step")
        for attempted in attempts:
            attempted.done("Pause of the run requested: the step that runs ends, no further step begins.")


def _list_halted(recovery: Recovery) -> list[Recovery]:
    """It, and those that run together with it: they have one update."""
    joint = joining.joint_of(recovery)
    members = [] if joint is None else [plan.recovery for plan in joining.plans_of(joint)]
    others = (row for row in members if row.pk != recovery.pk and row.state in ("running", "verifying"))
    return [recovery, *others]


def _put_halt(halted: Sequence[Recovery], by: Actor, *, when: Literal["now", "step"]) -> None:
    """The wish that their run ends."""
    halt = Halt(by=by.name, at=timezone.now().isoformat(), when=when)
    for recovery in halted:
        studies.set_halt(recovery, halt)
        watches.hurry(recovery.pk)


def skip_step(*, recovery_id: int, reason: str, by: Actor) -> Step:
    """Skip the step at which the recovery stands, where `transitions.SKIPS` allows it, and go on after it.

    Without the proof, or a rerun that failed and has no way back, the recovery ends as unproven. Raises Refused
    without a reason, for a kind that is never skipped,
    and where the recovery does not stand still; Denied as `execute` does.
    """
    recovery = _get(recovery_id)
    no_way_back = skipping.has_no_way_back(recovery)  # asks API and storage, so before the transaction
    with trying("recovery.skip", recovery, by, reason=reason) as attempted:
        broker.check()
        recovery = lock(recovery_id)
        by.check(right_to_run(plan_of(recovery)), recovery.flow.pipeline.environment)
        skipped = skipping.skip(recovery, reason=reason.strip(), by=by, no_way_back=no_way_back)
        attempted.done(skipped.says, before=skipped.before, after=skipped.after)
    return skipped.step


def roll_back(*, recovery_id: int, by: Actor, reason: str, plan_hash: str | None = None) -> Step:
    """Undo what can be undone, as a step run by a worker. `plan_hash`: as for `execute`. Raises Refused with the reason
    when nothing can."""
    recovery = _get(recovery_id)
    refusal = _rollback_refusal(recovery)  # asks API and storage, so before the transaction
    with trying("recovery.rollback", recovery, by, reason=reason) as attempted:
        broker.check()
        recovery = lock(recovery_id)
        joining.refuse_unseen(recovery, plan_hash)
        joining.refuse_undo_alone(recovery)
        check_rollback(recovery, refusal)
        step = add_step(recovery, "rollback", "Undo the reset and write the source back.", plan_of(recovery))
        engine.wake(step)
        attempted.done(f"Rollback requested: {reason or 'no reason given'}.")
    return step


def check_rollback(recovery: Recovery, refusal: str | None) -> None:
    """Raises Refused unless it stands still where it can go back. `refusal`: why what it changed cannot be undone."""
    only_in(recovery, *CAN_GO_BACK)
    if recovery.steps.filter(state="running").exists():
        raise Refused("A step is running. Wait until it ends, then roll back.", code="step_running")
    if refusal:
        raise Refused(f"{recovery.label} cannot be rolled back: {refusal}", code="not_undoable")


def _rollback_refusal(recovery: Recovery) -> str | None:
    try:
        refused = rollback.find_refusal(recovery)
    except RepriseError as failure:
        return failure.sentence
    return refused.says if refused else None


def cancel(*, recovery_id: int, by: Actor, reason: str) -> None:
    """End an open recovery that has changed nothing; of one whose proof did not hold, give its further plan up.

    Raises Refused once something was changed."""
    recovery = _get(recovery_id)
    with trying("recovery.cancel", recovery, by, reason=reason) as attempted:
        recovery = lock(recovery_id)
        before, plan = recovery.state, plan_of(recovery)
        if before == "needs_attention":
            joining.refuse_undo_alone(recovery)
        if further.may_be_given_up(recovery):
            kept = further.give_up(recovery, f"The further plan was given up: {reason or 'no reason given'}.")
            attempted.done(
                f"The further plan was given up: plan {kept.hash[:8]} is in force again.",
                before={"state": before},
                after={"state": recovery.state, "plan": kept.hash},
            )
            return
        recovery.steps.filter(state="pending").update(state="skipped")
        move(recovery, "cancelled", reason=reason)
        if plan is not None:
            joining.void_with_others(plan, f"It was cancelled by {by.name}.")
        attempted.done(
            f"Cancelled: {reason or 'no reason given'}.",
            before={"state": before},
            after={"state": "cancelled"},
        )
