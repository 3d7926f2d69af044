"""The doors of planning: change the choices, ask for a plan, seal one. Keyword-only, `by=` who, ids not objects.

Each checks the right, writes the change and its audit rows in one transaction, and wakes a worker on commit. A refusal
or denial is a row as well (`journal.trying`), in a transaction of its own.
"""

from collections.abc import Collection, Sequence
from typing import Final

from recovery.approvals.selectors import plan_in_force
from recovery.contracts import codec
from recovery.contracts.acceptance import Effect
from recovery.contracts.choices import ChoicesChange, Requester, SealingAnswer
from recovery.contracts.codec import seal
from recovery.contracts.names import Strategy
from recovery.errors import Refused, WrongUse
from recovery.models import JointPlan, Plan, Recovery
from recovery.people.roles import Actor
from recovery.pipelines.across import flows_below
from recovery.planning import choosing
from recovery.plans.joint import build_joint, find_joint_refusal
from recovery.workflow import accepting, broker, further, sealing, studies
from recovery.workflow.journal import trying, trying_together
from recovery.workflow.moves import get, lock, only_in
from recovery.workflow.plan_basis import digest_basis
from recovery.workflow.transitions import WAITS

FURTHER: Final = {
    Strategy.TOP_UP: "rows that the proof did not find are added once",
    Strategy.DEDUPLICATE: "rows that the proof found too often are deleted once",
}
"""What a further plan can do, in words."""


def update_choices(*, recovery_id: int, change: ChoicesChange, by: Actor) -> None:
    """Change what was chosen for a recovery: all that the change names, or nothing.

    Each part that differs from what was chosen before is a row of the audit log; a part that is the same writes none.
    Raises Denied; Refused while a plan is sealed, and as the parts do (`choosing`): the row names the part.
    """
    parts = choosing.list_parts(change)
    if not parts:
        return
    recovery = get(recovery_id)
    with trying(parts[0][0], recovery, by) as attempted:
        recovery = lock(recovery_id)
        only_in(recovery, "diagnosing")
        taken = []
        for action, take in parts:
            attempted.action = action  # a refusal is recorded as the act that is refused
            if part := take(recovery, change, by):
                choosing.write_choices(recovery, part.choices)
                taken.append((action, part))
        if taken:
            Recovery.objects.filter(pk=recovery_id).update(choices=recovery.choices)
        for (
            action,
            part,
        ) in taken:  # last: from the first row on, every other audited change waits for the commit
            attempted.action = action
            attempted.done(part.says, before=part.before, after=part.after)


def begin_further_plan(*, recovery_id: int, strategy: Strategy, by: Actor) -> None:
    """Take a recovery whose proof does not hold back to where a plan is made, of one of `FURTHER`, with the code as it
    is, from where it was committed. The plan that has run stays; `actions.cancel` gives the further one up. Raises
    Refused, Denied."""
    chosen = ChoicesChange(strategy=strategy, patch={}, positions={})
    recovery = get(recovery_id)
    with trying("recovery.further", recovery, by) as attempted:
        recovery = lock(recovery_id)
        before = plan_in_force(recovery)
        further.begin(recovery)
        for action, take in choosing.list_parts(chosen):
            attempted.action = action
            if part := take(recovery, chosen, by):
                choosing.write_choices(recovery, part.choices)
        attempted.action = "recovery.further"
        kept = recovery.chosen.forget("sealing", "accepted")
        choosing.write_choices(recovery, kept)
        type(recovery).objects.filter(pk=recovery_id).update(choices=recovery.choices)
        attempted.done(
            f"A further plan is made: {FURTHER[strategy]}.",
            before={"plan": before.hash if before else None},
            after={"strategy": strategy.value},
        )


def make_further_plan(*, recovery_id: int, strategy: Strategy, by: Actor) -> None:
    """Begin a further plan, and have it sealed: as `begin_further_plan` and `request_plan`."""
    broker.check()
    begin_further_plan(recovery_id=recovery_id, strategy=strategy, by=by)
    request_plan(recovery_id=recovery_id, by=by)


def request_plan(*, recovery_id: int, by: Actor, accept: Collection[Effect] | None = None) -> None:
    """Have a worker gather again with the saved choices and seal a plan. `accept`: as `sealing.seal_recovery`."""
    recovery = get(recovery_id)
    with trying("plan.seal", recovery, by):  # the worker that seals records it
        broker.check()
        recovery = lock(recovery_id)
        only_in(recovery, "diagnosing", *sorted(WAITS))
        _ask_for_plan(recovery, by, accept)


def accept_and_seal(
    *, recovery_id: int, effects: Collection[Effect], shown: str, reason: str, by: Actor
) -> None:
    """Accept these effects of the next plan, with the rows that were shown (`accepted.written_costs`), and have it
    sealed; both or neither.

    Raises Refused while a plan is sealed and where the costs are others by now, Unreachable without a broker.
    """
    recovery = get(recovery_id)
    with trying("recovery.accept", recovery, by, reason=reason) as attempted:
        broker.check()
        recovery = lock(recovery_id)
        only_in(recovery, "diagnosing")
        before = recovery.chosen.accepted
        held = accepting.save_accepted(recovery, effects=effects, shown=shown, reason=reason.strip(), by=by)
        _ask_for_plan(recovery, by, None)
        attempted.done(
            accepting.says_accepted(held),
            before={"accepted": codec.to_json(before)},
            after={"accepted": codec.to_json(held)},
        )


def _ask_for_plan(recovery: Recovery, by: Actor, accept: Collection[Effect] | None) -> None:
    """Note that a plan of these choices was asked for, and wake a worker on commit. `recovery` is locked."""
    from recovery.workflow import tasks

    role = by.grant(recovery.flow.pipeline.environment).role.value
    asked = SealingAnswer(
        by=Requester(name=by.name, role=role, user_id=by.user_id, request_id=by.request_id),
        basis=digest_basis(recovery),
        accept=None if accept is None else tuple(sorted(accept)),
        costs=(),
    )
    ticket = studies.begin(recovery, "sealing", asked)
    broker.send_on_commit(tasks.seal_plan, recovery.pk, ticket)


def join_plans(*, recovery_ids: Sequence[int], by: Actor) -> JointPlan:
    """Seal the sealed plans of several recoveries of one pipeline together, in this order: they are approved, started
    and rolled back as one, with one update. Raises Denied; Refused where one has no plan that waits, was asked approval
    for or is joined already, and where they cannot run together (`plans.joint`)."""
    members = [get(recovery_id) for recovery_id in recovery_ids]
    if not members:
        raise WrongUse("Name the recoveries whose plans are to run together.")
    with trying_together("plan.join", members, by) as attempts:
        held = {pk: lock(pk) for pk in sorted(set(recovery_ids))}
        plans = [_joinable_plan(held[pk]) for pk in recovery_ids]
        bodies = [plan.contents for plan in plans]
        if no := find_joint_refusal(bodies, _list_reads(members)):
            raise Refused(no.says, code=no.code.value)
        contents = build_joint([(plan.hash, body) for plan, body in zip(plans, bodies, strict=True)])
        body = codec.to_json(contents)
        pipeline = members[0].flow.pipeline
        joint = JointPlan.objects.create(
            pipeline=pipeline, hash=seal(body), body=body, sealed_by=by.name, sealed_by_id=by.user_id
        )
        for place, plan in enumerate(plans):
            Plan.objects.filter(pk=plan.pk).update(joint=joint, joint_ordinal=place)
        labels = ", ".join(recovery.label for recovery in members)
        for attempted, plan in zip(attempts, plans, strict=True):
            attempted.done(
                f"Plans of {labels} sealed to run together, as {joint.label} {joint.hash[:8]}.",
                after={"plan": plan.hash, "joint": joint.hash},
            )
    return joint


def _joinable_plan(recovery: Recovery) -> Plan:
    only_in(recovery, "planned")
    plan = plan_in_force(recovery)
    assert plan is not None, "a planned recovery has a plan in force"
    if plan.joint is not None:
        raise Refused(f"The plan of {recovery.label} is already part of {plan.joint.label}.", code="joined")
    return plan


def _list_reads(members: Sequence[Recovery]) -> dict[str, set[str]]:
    """Of each flow, those of the members that write what it reads, directly or through others."""
    reads: dict[str, set[str]] = {}
    for recovery in members:
        for _, below in flows_below(recovery.flow):
            if below.pipeline_id == recovery.flow.pipeline_id:
                reads.setdefault(below.name, set()).add(recovery.flow.name)
    return reads


def seal_at_once(*, recovery_id: int, by: Actor, accept: Collection[Effect]) -> Plan:
    """Gather with the saved choices and seal a plan before returning, for commands. `accept`, and what it raises: as
    `sealing.seal_recovery`; Denied."""
    recovery = get(recovery_id)
    with trying("plan.seal", recovery, by):  # sealing records it, outside of this transaction: it asks Spark
        only_in(recovery, "diagnosing", *sorted(WAITS))
    return sealing.seal_recovery(recovery=recovery, by=by, accept=accept)
