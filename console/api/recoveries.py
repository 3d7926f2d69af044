"""A recovery from the open flow to the sealed plan: what `plan --position` does, in steps that do not wait.

Looking up positions and sealing take Spark some seconds and are a worker's: 202, then ask again with GET.
"""

from typing import Any

from console.api import fields
from console.api.base import Body
from recovery.diagnosis.advice import meant_of
from recovery.errors import Refused, WrongUse
from recovery.models import Recovery
from recovery.people.roles import Actor
from recovery.pipelines.find import find_flow, find_fresh
from recovery.plans.accepted import effects_of
from recovery.sources import showing, wishes
from recovery.sources.base import Wanted
from recovery.strategies.recommending import default_strategy
from recovery.workflow import actions, by_hand, positioning
from recovery.workflow.chosen import chosen
from recovery.workflow.reporting import report
from recovery.workflow.selectors import open_recovery_of, plan_of, recovery_or_404
from recovery.workflow.studies import looked, slot

CHOSEN = ("strategy", "key", "patch", "meant")


def open_one(body: Body, by: Actor) -> tuple[int, Body]:
    """{pipeline, flow, again}: the flow's recovery; 201 where it was opened now, 200 where it was open.

    `again` takes a sealed plan that has not run back. Raises as `by_hand.open_or_go_on`.
    """
    fields.allow_only(body, ("pipeline", "flow", "again"))
    flow = find_flow(
        find_fresh(fields.read_text(body, "pipeline"), by), fields.read_text(body, "flow", "") or None
    )
    was_open = open_recovery_of(flow.pk) is not None
    recovery = by_hand.open_or_go_on(flow, by=by, again=fields.read_flag(body, "again"))
    return (200 if was_open else 201), _shown(recovery)


def show_recovery(body: Body, by: Actor, label: str) -> tuple[int, Body]:
    """Its state, steps and proof, the sealed plan as `plan --json` prints it, and how far a sealing is."""
    fields.allow_only(body, ())
    return 200, _shown(recovery_or_404(label, by))


def read_report(body: Body, by: Actor, label: str) -> tuple[int, Body]:
    """The report: times, numbers measured, criteria, votes, audit entries where the caller may read them."""
    fields.allow_only(body, ())
    return 200, report(recovery_or_404(label, by), by).as_dict()


def look_up_positions(body: Body, by: Actor, label: str) -> tuple[int, Body]:
    """{position: ["0=time=…"], strategy, key, patch}: have it looked up what these positions would cost; without
    `position`: where everything stands."""
    fields.allow_only(body, ("position", *CHOSEN))
    recovery = recovery_or_404(label, by)
    given = fields.read_texts(body, "position")
    _choose(recovery, body, by)
    positioning.request_positions(recovery_id=recovery.pk, positions=_wanted(recovery, given), by=by)
    recovery.refresh_from_db()
    return 202, _positions(recovery)


def show_positions(body: Body, by: Actor, label: str) -> tuple[int, Body]:
    """What the newest look has found, as `plan --positions --json` prints it, and what is chosen."""
    fields.allow_only(body, ())
    return 200, _positions(recovery_or_404(label, by))


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
    accepted = {name: fields.read_flag(body, name) for name in ("accept_loss", "accept_repeats")}
    given, confirmed = fields.read_texts(body, "position"), fields.read_texts(body, "confirm")
    _choose(recovery, body, by)
    wanted = _wanted(recovery, given)
    if (
        "refresh_below" in body
        and (refresh := fields.read_flag(body, "refresh_below")) != chosen(recovery).refresh_below
    ):
        actions.choose_below(recovery_id=recovery.pk, refresh=refresh, by=by)
    if confirmed or recovery.choices.get("confirmed"):
        positioning.confirm_sources(recovery_id=recovery.pk, confirmed=confirmed, by=by)
    if wanted or recovery.choices.get("positions"):
        positioning.choose_positions(recovery_id=recovery.pk, positions=wanted, by=by, **accepted)
    accept = effects_of(loss=accepted["accept_loss"], repeats=accepted["accept_repeats"])
    actions.request_plan(recovery_id=recovery.pk, by=by, accept=accept)
    recovery.refresh_from_db()
    return 202, _shown(recovery)


def _choose(recovery: Recovery, body: Body, by: Actor) -> None:
    """Save strategy (`default_strategy` where none is named or chosen), key and patch; what is not sent stays.

    Another strategy forgets the patch and the positions that were looked up for the one before.
    """
    held = recovery.choices
    said = fields.read_text(body, "meant", "") or held.get("meant")
    meant = meant_of(said)
    if said and said != held.get("meant"):
        if meant is None:
            raise WrongUse("meant is yes, no or unknown.", code="bad_choice")
        actions.say_whether_meant(recovery_id=recovery.pk, meant=meant, by=by)
    strategy = fields.read_text(body, "strategy", held.get("strategy") or default_strategy(meant))
    key = fields.read_texts(body, "key") if "key" in body else list(held.get("key") or [])
    patch = fields.read_files(body, "patch") if "patch" in body else None
    if (strategy, key) != (held.get("strategy"), held.get("key")):
        actions.choose_strategy(recovery_id=recovery.pk, strategy=strategy, key=key, by=by)
    if patch is not None:
        actions.save_patch(recovery_id=recovery.pk, files=patch, by=by)
    recovery.refresh_from_db()


def _wanted(recovery: Recovery, given: list[str]) -> dict[str, Wanted | None]:
    """Wishes by source; `all` is for those that are not named, so it has to be known which there are."""
    named = wishes.by_source(given)
    every = named.pop("all", None)
    if every is None:
        return named
    there = looked(recovery)["sources"]
    if not there:
        raise Refused(
            "Which sources there are was not looked up. Ask for positions without any wish first.",
            code="not_looked",
        )
    return {**wishes.for_all(every, [one for one in there if one["source"] not in named]), **named}


def _shown(recovery: Recovery) -> dict[str, Any]:
    sealed, sealing = plan_of(recovery), slot(recovery, "sealing")
    return {
        **by_hand.summary(recovery),
        "flow": recovery.flow.name,
        "sealing": {name: sealing.get(name) for name in ("status", "problem", "code", "costs")}
        if sealing
        else None,
        "plan": by_hand.planned(recovery, sealed) if sealed else None,
    }


def _positions(recovery: Recovery) -> dict[str, Any]:
    look, flow = looked(recovery), recovery.flow
    sources, asked = look["sources"], look.get("wishes") or {}
    costs = showing.costs(sources)
    return {
        "flow": flow.name,
        "status": look.get("status"),  # working, ready, failed; null: nobody has asked
        "problem": look.get("problem"),
        "asked": look.get("asked") or {},
        "sources": sources,
        "lost": list(costs.lost),
        "repeated": list(costs.repeated),
        "unmet": positioning.unmet(sources, asked),
        "chosen": recovery.choices.get("positions") or {},
        "api": showing.api_call(pipeline_id=flow.pipeline.pipeline_id, flow=flow.name, dataset=flow.dataset),
    }
