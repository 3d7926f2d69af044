"""A recovery from the open flow to the sealed plan: what `plan --position` does, in steps that do not wait.

Looking up positions and sealing take Spark some seconds and are a worker's: 202, then ask again with GET.
"""

from dataclasses import asdict
from typing import Any

from console.api import fields
from console.api.base import Body
from recovery.approvals.selectors import ApprovalState, read_approvals
from recovery.contracts import codec
from recovery.contracts.choices import ChoicesChange
from recovery.contracts.names import Strategy
from recovery.contracts.start_choice import StartChoice
from recovery.diagnosis.advice import meant_of
from recovery.errors import Refused, WrongUse
from recovery.models import Plan, Recovery
from recovery.people.roles import Actor
from recovery.pipelines.find import find_flow, find_fresh
from recovery.planning import actions as planning
from recovery.planning.plan_now import fits_further
from recovery.plans.accepted import effects_of
from recovery.sources import position_requests, position_view, targets
from recovery.workflow import by_hand, positioning
from recovery.workflow.reporting import report
from recovery.workflow.selectors import open_recovery_of, plan_of, recovery_or_404
from recovery.workflow.studies import looked_sources
from recovery.workflow.transitions import WAITS

CHOSEN = ("strategy", "key", "patch", "meant", "to")


def open_one(body: Body, by: Actor) -> tuple[int, Body]:
    """{pipeline, flow, again, healthy}: the flow's recovery; 201 where it was opened now, 200 where it was open.

    `again` takes a sealed plan that has not run back. `healthy`: nothing has to fail, as for going back in a flow whose
    rows are wrong. Raises as `by_hand.open_or_go_on`.
    """
    fields.allow_only(body, ("pipeline", "flow", "again", "healthy"))
    flow = find_flow(
        find_fresh(fields.read_text(body, "pipeline"), by), fields.read_text(body, "flow", "") or None
    )
    was_open = open_recovery_of(flow.pk) is not None
    recovery = by_hand.open_or_go_on(
        flow, by=by, again=fields.read_flag(body, "again"), healthy=fields.read_flag(body, "healthy")
    )
    return (200 if was_open else 201), describe_recovery(recovery)


def show_recovery(body: Body, by: Actor, label: str) -> tuple[int, Body]:
    """Its state, steps and proof, the sealed plan as `plan --json` prints it, its votes, and how far a sealing is."""
    fields.allow_only(body, ())
    return 200, describe_recovery(recovery_or_404(label, by))


def read_report(body: Body, by: Actor, label: str) -> tuple[int, Body]:
    """The report: times, numbers measured, criteria, votes, audit entries where the caller may read them."""
    fields.allow_only(body, ())
    return 200, report(recovery_or_404(label, by), by).as_dict()


def look_up_positions(body: Body, by: Actor, label: str) -> tuple[int, Body]:
    """{position: ["0=time=…"], strategy, key, patch}: have it looked up what these positions would cost; without
    `position`: the state of everything."""
    fields.allow_only(body, ("position", *CHOSEN))
    recovery = recovery_or_404(label, by)
    given = fields.read_texts(body, "position")
    planning.update_choices(recovery_id=recovery.pk, change=_read_change(body), by=by)
    recovery.refresh_from_db()
    positioning.request_positions(
        recovery_id=recovery.pk, positions=_requests_by_source(recovery, given), by=by
    )
    recovery.refresh_from_db()
    return 202, _show_positions(recovery)


def show_positions(body: Body, by: Actor, label: str) -> tuple[int, Body]:
    """What the newest look has found, as `plan --positions --json` prints it, and what is chosen."""
    fields.allow_only(body, ())
    return 200, _show_positions(recovery_or_404(label, by))


def seal_plan(body: Body, by: Actor, label: str) -> tuple[int, Body]:
    """Choose, and have a plan sealed. Positions must be those that were looked up, and their costs accepted; a plan
    that loses or repeats rows, or may, is not sealed without `accept_loss` or `accept_repeats`.

    Without `position` every source goes on where it was committed. `refresh_below`: whether the plan refreshes what is
    below; where it is missing, as it was chosen before.
    """
    fields.allow_only(
        body, ("position", "confirm", "accept_loss", "accept_repeats", "refresh_below", *CHOSEN)
    )
    recovery = recovery_or_404(label, by)
    accept = effects_of(
        loss=fields.read_flag(body, "accept_loss"), repeats=fields.read_flag(body, "accept_repeats")
    )
    change = _read_change(
        body,
        confirmed=tuple(fields.read_texts(body, "confirm")),
        refresh_below=fields.read_flag(body, "refresh_below") if "refresh_below" in body else None,
        positions=_requests_by_source(recovery, fields.read_texts(body, "position")),
        accept=frozenset(accept),
    )
    if change.strategy is not None and fits_further(recovery, change.strategy):
        planning.begin_further_plan(recovery_id=recovery.pk, strategy=Strategy(change.strategy), by=by)
    planning.update_choices(recovery_id=recovery.pk, change=change, by=by)
    planning.request_plan(recovery_id=recovery.pk, by=by, accept=accept)
    recovery.refresh_from_db()
    return 202, describe_recovery(recovery)


def _read_change(body: Body, **of_plan: Any) -> ChoicesChange:
    """What was sent as a change, with `of_plan` that only a plan takes; what is not sent stays as it was chosen."""
    said = fields.read_text(body, "meant", "")
    meant = meant_of(said)
    if said and meant is None:
        raise WrongUse("meant is yes, no or unknown.", code="bad_choice")
    return ChoicesChange(
        meant=meant,
        strategy=fields.read_text(body, "strategy", "") if "strategy" in body else None,
        default_strategy=True,
        target=targets.parse_target(fields.read_text(body, "to")) if "to" in body else None,
        key=tuple(fields.read_texts(body, "key")) if "key" in body else None,
        patch=fields.read_files(body, "patch") if "patch" in body else None,
        **of_plan,
    )


def _requests_by_source(recovery: Recovery, given: list[str]) -> dict[str, StartChoice | None]:
    """Wishes by source; `all` is for those that are not named, so it has to be known which there are."""
    named = position_requests.by_source(given)
    every = named.pop("all", None)
    if every is None:
        return named
    sources = looked_sources(recovery)
    if not sources:
        raise Refused(
            "Which sources there are was not looked up. Ask for positions without any wish first.",
            code="not_looked",
        )
    return {
        **position_requests.for_all(every, [source for source in sources if source.source not in named]),
        **named,
    }


def describe_votes(recovery: Recovery, plan: Plan) -> ApprovalState | None:
    """The votes of a plan that has something left to start; None where it has not."""
    may_start = plan.voided_at is None and recovery.state in (*WAITS, "needs_attention")
    return read_approvals(recovery, plan) if may_start else None


def describe_recovery(recovery: Recovery) -> Body:
    """Its state, steps and proof, the sealed plan with its votes, and how far a sealing is."""
    sealed, sealing = plan_of(recovery), codec.to_set_json(recovery.chosen.sealing)
    return {
        **by_hand.summary(recovery),
        "flow": recovery.flow.name,
        "sealing": {name: sealing.get(name) for name in ("status", "problem", "code", "costs")}
        if sealing
        else None,
        "plan": by_hand.planned(recovery, sealed) if sealed else None,
        "approvals": describe_votes(recovery, sealed) if sealed else None,
    }


def _show_positions(recovery: Recovery) -> dict[str, Any]:
    look, flow = recovery.chosen.positions_look, recovery.flow
    sources = looked_sources(recovery)
    costs = position_view.sum_costs(sources)
    call = positioning.find_api_call(flow, recovery)
    return {
        "flow": flow.name,
        "status": look.status or None,  # working, ready, failed; null: no one asked
        "problem": look.problem,
        "asked": position_requests.as_dicts(look.asked),
        "sources": [codec.to_json(source) for source in sources],
        "lost": list(costs.lost),
        "repeated": list(costs.repeated),
        "unmet": positioning.list_unmet(sources, look.wishes or {}),
        "chosen": position_requests.as_dicts(recovery.chosen.positions),
        "api": asdict(call) if call else None,  # null: it would lose rows
    }
