"""Several failed flows of one pipeline, from the open recoveries to one joint plan: what is the same for all of them is
asked here once; what differs is decided in the wizard of each."""

from collections.abc import Callable, Sequence
from functools import partial
from urllib.parse import urlencode

from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from console.middleware import PageRequest
from console.pages.base import is_unchanged, may_why, no_news, page, refusal_of, render_page, require_right
from console.presenters import stepper, stopping, versions
from console.presenters import together as presenting
from console.presenters import wizard as words
from recovery.approvals.selectors import plans_in_force, rule_for
from recovery.diagnosis.advice import meant_of
from recovery.errors import NotFound, Refused, RepriseError, WrongUse
from recovery.models import Flow, Pipeline, Recovery, Step
from recovery.people.roles import Actor, Right
from recovery.people.visible import filter_visible
from recovery.planning import actions as planning
from recovery.planning import together
from recovery.workflow import actions
from recovery.workflow.transitions import OPEN

FEWEST = 2
"""So many failed flows have something to do together."""


def list_broken(pipeline: Pipeline) -> list[Flow]:
    """Its streaming flows that fail or have an open recovery."""
    rows = pipeline.flows.filter(Q(state="failed") | Q(recoveries__state__in=OPEN), streaming=True)
    return list(rows.distinct().order_by("name"))


@page(Right.VIEW, methods=("GET", "POST"))
def recover_together(request: PageRequest, by: Actor, pipeline_pk: int) -> HttpResponse:
    """Each flow with its strategy and forecast, and the one next act for those chosen (`flow`): `act=open`, `stop`,
    `count`, `meant`, `seal`, `join`."""
    pipeline = Pipeline.objects.filter(filter_visible(by), pk=pipeline_pk).select_related("workspace").first()
    if pipeline is None:
        raise NotFound("There is no such pipeline. It may have been removed from its workspace.")
    given = request.POST if request.method == "POST" else request.GET
    named = given.getlist("flow") if given is request.POST or "flow" in given else None
    rows = _read_rows(pipeline, named)
    refusal: RepriseError | None = None
    if request.method == "POST" and request.POST.get("act") == "choose":  # changes nothing: for viewers too
        return redirect(_build_address(pipeline, rows))
    if request.method == "POST":
        require_right(request, by, Right.RECOVER, pipeline.environment)
        goals: list[str] = []
        refusal = refusal_of(lambda: goals.append(_perform_act(request, by, pipeline, rows)))
        if refusal is None:
            return redirect(goals[0])
        rows = _read_rows(pipeline, named)
    stop = _newest_stop(rows)
    bar = presenting.next_act(rows, stop, pipeline.name, may_why(by, Right.RECOVER, pipeline.environment))
    version = versions.list_digest(*(_version_of(row) for row in rows), stop.state if stop else "")
    if request.GET.get("part") == "live" and is_unchanged(request, version):
        return no_news()
    context = {
        "section": "flows",
        "pipeline": pipeline,
        "workspace": pipeline.workspace.name,
        "environment": pipeline.environment,
        "rows": rows,
        "meant": _meant_question(rows),
        "stop": stop,
        "stop_verdict": stopping.stop_verdict(stop, is_stream=False, asked=None) if stop else None,
        "bar": bar,
        "why_not": may_why(by, Right.RECOVER, pipeline.environment),
        "poll": 1 if bar.code == "working" else 0,
        "version": version,
        "here": _build_address(pipeline, rows),
        "shell": "_part.html" if request.GET.get("part") == "live" else "base.html",
    }
    return render_page(request, "pipeline/together.html", context, refusal=refusal)


def _read_rows(pipeline: Pipeline, named: Sequence[str] | None) -> list[presenting.FlowOnTheWay]:
    """`named`: ids of the flows that are chosen; None: all of them."""
    flows = list_broken(pipeline)
    opened = Recovery.objects.filter(flow__in=flows, active=True).select_related("flow__pipeline__workspace")
    recoveries = {recovery.flow_id: recovery for recovery in opened}
    plans, rule = plans_in_force(recoveries.values()), rule_for(pipeline.environment)
    rows = []
    for flow in flows:
        recovery = recoveries.get(flow.pk)
        plan = plans.get(recovery.pk) if recovery is not None else None
        strategy = together.name_next_strategy(recovery, rule) if recovery is not None else None
        chosen = named is None or str(flow.pk) in named
        rows.append(presenting.describe_flow(flow, recovery, plan, strategy, chosen=chosen))
    return rows


def _version_of(row: presenting.FlowOnTheWay) -> tuple[object, ...]:
    return (row.flow.pk, row.code, row.strategy, row.says, row.chosen)


def _newest_stop(rows: Sequence[presenting.FlowOnTheWay]) -> Step | None:
    """It is the pipeline that is stopped, so one stop is that of all of them."""
    members = [row.recovery for row in rows if row.chosen and row.recovery is not None]
    steps = Step.objects.filter(recovery__in=members, kind="stop", plan=None).order_by("pk")
    return stepper.early_stop(list(steps))


def _meant_question(rows: Sequence[presenting.FlowOnTheWay]) -> words.MeantQuestion | None:
    """Asked once of those that are not sealed; None where none of them asks it."""
    for row in rows:
        if row.chosen and row.recovery is not None and row.recovery.state == "diagnosing":
            question = words.meant_question(row.recovery.diagnosis_value, row.recovery.chosen.meant)
            if question is not None:
                return question
    return None


def _build_address(pipeline: Pipeline, rows: Sequence[presenting.FlowOnTheWay]) -> str:
    """Of this page, with the flows that are chosen."""
    chosen = [row.flow.pk for row in rows if row.chosen]
    query = f"?{urlencode({'flow': chosen}, doseq=True)}" if len(chosen) < len(rows) else ""
    return f"{reverse('recover-together', args=[pipeline.pk])}{query}"


def _perform_act(
    request: PageRequest, by: Actor, pipeline: Pipeline, rows: Sequence[presenting.FlowOnTheWay]
) -> str:
    """Do it, and answer where to go on. Raises Refused, WrongUse."""
    chosen = [row for row in rows if row.chosen]
    members = [row.recovery for row in chosen if row.recovery is not None]
    waiting = [row.recovery.pk for row in chosen if row.recovery is not None and row.code != "sealed"]
    uncounted = [row.recovery.pk for row in chosen if row.recovery is not None and row.code == "not-counted"]
    act = "meant" if "meant" in request.POST else request.POST.get("act", "")
    acts: dict[str, Callable[[], object]] = {
        "open": partial(together.open_recoveries, flow_ids=[row.flow.pk for row in chosen], by=by),
        "stop": partial(_request_stop, members, by),
        "count": partial(together.count_rows, recovery_ids=uncounted, by=by),
        "meant": partial(_say_meant, request.POST.get("meant", ""), waiting, by),
        "seal": partial(together.seal_plans, recovery_ids=[recovery.pk for recovery in members], by=by),
        "join": partial(planning.join_plans, recovery_ids=[recovery.pk for recovery in members], by=by),
    }
    if act not in acts:
        raise WrongUse("There is no such act on this page.", code="bad_choice")
    if len(chosen) < FEWEST:
        raise Refused(
            "Choose two or more flows; a single one is recovered from its own page.", code="too_few_plans"
        )
    acts[act]()
    return reverse("review", args=[members[0].pk]) if act == "join" else _build_address(pipeline, rows)


def _request_stop(members: Sequence[Recovery], by: Actor) -> None:
    if not members:
        raise Refused("Open the recoveries first: the stop is a step of one of them.", code="not_open")
    actions.request_stop(recovery_id=members[0].pk, by=by)


def _say_meant(text: str, recovery_ids: Sequence[int], by: Actor) -> None:
    meant = meant_of(text)
    if meant is None:
        raise WrongUse("Say whether the change was meant: yes, no or unknown.", code="bad_choice")
    together.say_meant(recovery_ids=recovery_ids, meant=meant, by=by)
