"""A sealed plan before returning, as the commands make it: open, choose, look up, seal."""

from collections.abc import Collection, Sequence
from typing import Final

from recovery.contracts.acceptance import Effect
from recovery.contracts.choices import Choices, ChoicesChange
from recovery.contracts.diagnosis import Storage
from recovery.contracts.names import CORRECTING, Strategy, name_strategy
from recovery.errors import Refused, RepriseError, WrongUse
from recovery.models import Flow, JointPlan, Plan, Recovery
from recovery.people.roles import Actor
from recovery.planning.actions import begin_further_plan, join_plans, seal_at_once, update_choices
from recovery.planning.choosing import find_strategy
from recovery.sources import position_requests
from recovery.strategies.catalogue import EXECUTABLE, FOR_HEALTHY, POSITIONED
from recovery.workflow import actions, by_hand, further, positioning, sealing
from recovery.workflow.journal import trying_flow
from recovery.workflow.places import checkpoint_of
from recovery.workflow.selectors import open_recovery_of
from recovery.workflow.verdicts import where_of

COSTS: Final = frozenset(effect.refusal for effect in Effect)
"""Codes of a refusal that an acceptance takes away."""


def make_plan(
    *,
    flow: Flow,
    change: ChoicesChange,
    positions: Sequence[str] = (),
    accept: Collection[Effect] = (),
    again: bool = False,
    by: Actor,
) -> tuple[Recovery, Plan]:
    """Open (or go on with) the flow's recovery, change its choices, gather and seal.

    `positions`: where sources start, as `sources.position_requests.by_source` takes them; none: where they were
    committed. `accept`: effects that are accepted, of these positions and of the plan, of any number of rows.
    `again`: a sealed plan that has not run is taken back first. When sealing is refused, a recovery that this call
    opened is cancelled again: nothing is left behind. A refusal for a missing acceptance names all that are missing.
    """
    opened = open_recovery_of(flow.pk)
    strategy = find_strategy(opened.chosen if opened else Choices(), change) or ""
    _require_plannable(flow, strategy, by)
    if positions and strategy not in POSITIONED:
        raise WrongUse(f"{strategy} takes no --position; {' and '.join(map(name_strategy, POSITIONED))} do.")
    position_requests.by_source(positions)  # what cannot be read is refused before anything is opened
    is_further = opened is not None and fits_further(opened, change.strategy)
    if opened is not None and is_further:
        begin_further_plan(recovery_id=opened.pk, strategy=Strategy(strategy), by=by)
    healthy = fits_healthy(flow, change.strategy, positions)
    recovery = by_hand.open_or_go_on(flow, by=by, again=again, healthy=healthy)
    try:
        _change_choices(recovery, change, positions, accept, by)
        plan = seal_at_once(recovery_id=recovery.pk, by=by, accept=accept)
    except RepriseError as failure:
        refusal = _name_costs(failure, recovery, positions, accept) if failure.code in COSTS else failure
        if opened is None or is_further:
            actions.cancel(recovery_id=recovery.pk, reason=f"No plan: {failure.sentence}", by=by)
        raise refusal from failure
    recovery.refresh_from_db()
    return recovery, plan


def make_joint_plan(
    *,
    changes: Sequence[tuple[Flow, ChoicesChange]],
    accept: Collection[Effect] = (),
    again: bool = False,
    by: Actor,
) -> JointPlan:
    """A plan of each flow, as `make_plan`, and all of them sealed together in this order. Where one is refused, or they
    cannot run together, nothing is left behind: what this call opened is cancelled, a further plan is given up, other
    plans are taken back."""
    made: list[tuple[Recovery, bool]] = []
    try:
        for flow, change in changes:
            is_new = open_recovery_of(flow.pk) is None
            recovery, _ = make_plan(flow=flow, change=change, accept=accept, again=again, by=by)
            made.append((recovery, is_new))
        return join_plans(recovery_ids=[recovery.pk for recovery, _ in made], by=by)
    except RepriseError as failure:
        opened = {
            recovery.pk: (recovery, is_new) for recovery, is_new in reversed(made)
        }  # a flow named twice
        for recovery, is_new in opened.values():
            if is_new or further.may_be_given_up(recovery):
                actions.cancel(recovery_id=recovery.pk, reason=f"No joint plan: {failure.sentence}", by=by)
            else:
                actions.edit_again(recovery_id=recovery.pk, by=by)
        raise


def _name_costs(
    failure: RepriseError, recovery: Recovery, positions: Sequence[str], accept: Collection[Effect]
) -> Refused:
    """The refusal with every effect that is not accepted: one of start positions names no cost of the plan itself."""
    recovery.refresh_from_db()
    flags, says = list(failure.flags), [failure.sentence]
    if positions and recovery.chosen.positions_look.status == "ready":
        wishes = recovery.chosen.positions_look.wishes or {}
        for cost in sealing.costs_from(recovery, wishes):
            if cost.effect not in accept and cost.effect.flag not in flags:
                flags.append(cost.effect.flag)
                says.append(f"The plan {cost.effect.plan}, and that is not accepted: {cost.says}. {cost.why}")
    return Refused(" ".join(says), code=failure.code, flags=tuple(flags))


def fits_healthy(flow: Flow, strategy: str | None, positions: Sequence[str] = ()) -> bool:
    """Whether naming this strategy, with these starts, says that nothing has to fail. A plain stream goes back by a
    start that somebody names: none of the others can run for it."""
    goes_back = bool(positions) and strategy == Strategy.CONTINUE and flow.pipeline.workspace.has_streams
    return goes_back or strategy in FOR_HEALTHY


def fits_further(opened: Recovery, strategy: str | None) -> bool:
    """Whether naming this strategy asks for a further plan of a recovery whose proof does not hold."""
    return strategy in CORRECTING and opened.state == "needs_attention"


def _change_choices(
    recovery: Recovery,
    change: ChoicesChange,
    positions: Sequence[str],
    accept: Collection[Effect],
    by: Actor,
) -> None:
    """Positions come last: what they cost is looked up with the code that was chosen before them."""
    if not positions:
        update_choices(recovery_id=recovery.pk, change=change.model_copy(update={"positions": {}}), by=by)
        return
    update_choices(recovery_id=recovery.pk, change=change, by=by)
    wanted = positioning.look_at_once(recovery_id=recovery.pk, given=positions)
    start = ChoicesChange(positions=wanted, accept=frozenset(accept))
    update_choices(recovery_id=recovery.pk, change=start, by=by)


def _require_plannable(flow: Flow, strategy: str, by: Actor) -> None:
    """Raise WrongUse for a name that is no strategy; Refused where the flow's storage cannot be reached."""
    if strategy not in EXECUTABLE:
        raise WrongUse(
            f"There is no strategy {strategy!r}. Choose one of: {', '.join(map(name_strategy, EXECUTABLE))}."
        )
    _require_storage(flow, by)
    _require_stopped(flow, by)


def _require_stopped(flow: Flow, by: Actor) -> None:
    """Raise Refused (`stream_runs`) for a plain stream that runs: no plan can be sealed beside a run, and to count
    first what a start would cost takes a minute."""
    if not (flow.pipeline.workspace.has_streams and flow.state == "running" and by_hand.is_running(flow)):
        return  # `flow` may be as it was before a stop
    with trying_flow("recovery.open", flow, by):
        raise Refused(
            f"{flow.short} is running, so no plan can be sealed. Stop it first: bin/manage stop "
            f"{flow.pipeline.pipeline_id} --healthy.",
            code="stream_runs",
        )


def _require_storage(flow: Flow, by: Actor) -> None:
    """Raise Refused, before anything is opened, for a flow whose workspace keeps the checkpoint itself."""
    if where_of(flow).storage is Storage.REACHABLE:
        return
    with trying_flow("recovery.open", flow, by):
        checkpoint_of(flow)
