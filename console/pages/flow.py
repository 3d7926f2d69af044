"""One flow: overview, events, code, recoveries. Reads only; opening a recovery is the one act."""

from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone

from console.middleware import PageRequest
from console.pages import source
from console.pages.base import is_unchanged, may_why, no_news, page, refusal_of, render_page
from console.pages.jobs import jobs_of_page
from console.pages.recover_together import list_broken
from console.presenters import (
    below,
    charts,
    dag,
    diff,
    events,
    status,
    streams,
    unread,
    verifying,
    versions,
)
from console.presenters import flow as flows
from recovery.contracts.choices import ChoicesChange
from recovery.contracts.diagnosis import Diagnosis
from recovery.contracts.names import Strategy
from recovery.errors import RepriseError, WrongUse
from recovery.models import Flow, Recovery, Stream
from recovery.people import visible
from recovery.people.roles import Actor, Right
from recovery.pipelines import retagging
from recovery.pipelines.across import flows_below, flows_of, twins_of
from recovery.pipelines.behind import node_of
from recovery.pipelines.downstream import Node
from recovery.pipelines.events import batches, when
from recovery.pipelines.losses import is_in_doubt
from recovery.pipelines.workspaces import client_for
from recovery.planning.actions import update_choices
from recovery.strategies.common import word
from recovery.streams import noting
from recovery.streams.describing import list_signs
from recovery.streams.places import CheckpointOwners
from recovery.streams.running import answer_of
from recovery.workflow import actions, counting_below, diagnosing, refreshing
from recovery.workflow.doubting import doubts_of, table_doubt_of
from recovery.workflow.selectors import open_recovery_of
from recovery.workflow.waiting import WaitingFiles, read_waiting_files

TABS = (("", "Overview"), ("checkpoint", "Checkpoint"), ("events", "Events"), ("code", "Code"))
EVENTS = 250
FEEDERS = 3  # flows of other pipelines that a page leads to
PATIENCE = 5.0  # seconds: a page says that something is away rather than wait for it


def flow_or_404(flow_id: int, by: Actor) -> Flow:
    """Raises NotFound, also for one that `by` may not see."""
    flow = Flow.objects.select_related("pipeline__workspace").filter(pk=flow_id).first()
    return visible.require_visible_flow(
        flow, by, "There is no such flow. It may have been removed from its pipeline."
    )


def frame_of(flow: Flow, tab: str, by: Actor) -> dict[str, Any]:
    """What every tab shows around its own part."""
    now = timezone.now()
    seen = _seen_below(flow, by)
    doubts = doubts_of([flow.pk, *(f.pk for _, f in seen)], now)
    feeds = below.dataset_rows(flow, seen, counting_below.held_below(flow, seen), now, doubts)
    late = below.list_behind(feeds)
    doubt, quiet = doubts.get(flow.pk), _answered_not_running(flow, now)
    if flow.state == "stopped":  # nothing else on its page shows what its runs did
        known = table_doubt_of(flow)
        doubt = known if known is not None and known.code.is_of_updates else None
    return {
        "below": feeds,
        "outside": [(n, f) for n, f in seen if f.pipeline_id != flow.pipeline_id],
        "below_behind": late,
        "section": "flows",
        "flow": flow,
        "workspace": flow.pipeline.workspace.name,
        "environment": flow.pipeline.environment,
        "moves_at": retagging.moves_at(flow.pipeline),
        "badge": flows.NOT_RUNNING if quiet else flows.header_badge(flow, now, late, doubt),
        "doubt": doubt,
        "quiet": quiet,
        "writes": flows.written_name(flow),
        "tab": tab,
        "tabs": TABS,
        "recovery": open_recovery_of(flow.pk),
        "recoveries": Recovery.objects.filter(flow=flow).count(),
    }


def _answered_not_running(flow: Flow, now: datetime) -> bool:
    """Does the running command of a stream that was last polled as running say, later than its log, that it is not?

    The next poll writes the same into the flow's state, which lists show."""
    if flow.state != "running" or not flow.pipeline.workspace.has_streams:
        return False
    stream = Stream.objects.filter(pipeline=flow.pipeline_id).first()
    if stream is None:
        return False
    answer = noting.noted_answer(stream, CheckpointOwners().list_runs(stream), now)
    return answer is not None and answer.alive is False


def _seen_below(flow: Flow, by: Actor) -> list[tuple[Node, Flow]]:
    """What is below and `by` may see: other pipelines may lie in environments that are not theirs."""
    return [(n, f) for n, f in flows_below(flow) if by.may(Right.VIEW, f.pipeline.environment)]


def _list_writers(flow: Flow, by: Actor) -> list[Flow]:
    """The flows that write what this one reads: those of its own pipeline, else of others that `by` may see."""
    written = flows_of(flow.pipeline.workspace_id).filter(dataset__in=node_of(flow).inputs)
    seen = [f for f in written.select_related("pipeline") if by.may(Right.VIEW, f.pipeline.environment)]
    return [f for f in seen if f.pipeline_id == flow.pipeline_id] or seen[:FEEDERS]


def diagnosis_of(flow: Flow, recovery: Recovery | None) -> Diagnosis | None:
    """Of the open recovery, else made now; None where the flow did not fail, nor is in doubt."""
    if recovery is not None:
        return recovery.diagnosis_value
    shown = flow.state == "failed" or is_in_doubt(flow)
    return diagnosing.diagnose_flow(flow) if shown else None


@page(Right.VIEW, methods=("GET", "POST"))
def show_overview(request: PageRequest, by: Actor, flow_id: int) -> HttpResponse:
    """Shows the flow's state and the next act. POST opens a recovery (`act=go-back`: though nothing fails, once
    confirmed; `act=deduplicate`: with that strategy chosen), or asks for a refresh or a count of what is below
    (`act=below`, `act=count`)."""
    flow = flow_or_404(flow_id, by)
    if request.GET.get("part") == "unread":
        return _unread_part(request, flow)
    if request.GET.get("part") == "below":
        return _below_part(request, by, flow)
    done, refusal = _handle_post(request, by, flow_id) if request.method == "POST" else (None, None)
    if done is not None:
        return done
    frame = frame_of(flow, "", by)
    diagnosis = diagnosis_of(flow, frame["recovery"])
    waits = (
        read_waiting_files(flow)
        if flow.streaming
        else WaitingFiles(timezone.now(), why="A view has no checkpoint.")
    )
    shown = flows.counted_files(frame["recovery"]) or waits
    looked, adopted = _unread_context(flow, waits=shown), _adopted_context(flow)
    context = {
        **frame,
        "sentence": flows.QUIET_SENTENCE
        if frame["quiet"]
        else flows.flow_sentence(
            flow, diagnosis, frame["below_behind"], frame["doubt"], unwatched=bool(adopted.get("unwatched"))
        ),
        "facts": _list_facts(flow, frame["recovery"], waits, frame["below_behind"], looked["unread"]),
        **_batches_context(flow, frame["recovery"]),
        **looked,
        "dots": status.update_dots(flow.history),
        "graph": _draw_graph(flow, frame["outside"]),
        "causes": flows.list_causes(flow.causes),
        "jobs_below": jobs_of_page(flow, [flow.dataset, *(row.flow.dataset for row in frame["below"])]),
        "refresh": below.refresh_offer(flow, frame["below_behind"], timezone.now()),
        **_counted_context(flow, by),
        "feeders": below.list_feeders(flow, _list_writers(flow, by)),
        "broken": list_broken(flow.pipeline),
        "may_open": flow.streaming and (flow.state == "failed" or is_in_doubt(flow)),
        "twins": twins_of(flow, by),
        **adopted,
    }
    return render_page(request, "flow/overview.html", context, refusal=refusal)


def _handle_post(
    request: PageRequest, by: Actor, flow_id: int
) -> tuple[HttpResponse | None, RepriseError | None]:
    asks = {"below": refreshing.request_refresh, "count": counting_below.request_count}
    if (ask := asks.get(request.POST.get("act", ""))) is not None:
        refusal = refusal_of(lambda: ask(flow_id=flow_id, by=by))
        return (None, refusal) if refusal is not None else (redirect("flow", flow_id), None)
    opened: list[Recovery] = []

    def open_one() -> None:
        act = request.POST.get("act")
        if act == "go-back" and request.POST.get("confirm") != "yes":
            raise WrongUse("Confirm that you want to go back though nothing fails.", code="not_confirmed")
        healthy = act in ("go-back", "deduplicate")
        opened.append(actions.open_recovery(flow_id=flow_id, by=by, healthy=healthy))
        if act == "deduplicate":
            change = ChoicesChange(strategy=Strategy.DEDUPLICATE, patch={})
            update_choices(recovery_id=opened[0].pk, change=change, by=by)

    refusal = refusal_of(open_one)
    return (redirect("diagnose", opened[0].pk), None) if opened else (None, refusal)


def _draw_graph(flow: Flow, outside: Sequence[tuple[Node, Flow]]) -> dag.GraphDrawing:
    own = list(flow.pipeline.flows.all())
    doubts = doubts_of([f.pk for f in (*own, *(f for _, f in outside))], timezone.now())
    return flows.draw_graph(flow, own, outside, doubts)


def _adopted_context(flow: Flow) -> dict[str, object]:
    """What is kept of an adopted stream besides its flow: whether it runs, what is odd; nothing for other flows."""
    stream = Stream.objects.filter(pipeline=flow.pipeline_id).first()
    if stream is None:
        return {}
    signs = streams.sign_rows(list_signs(stream))
    runs = streams.running_fact(answer_of(stream), timezone.now())
    unwatched = not (stream.event_log or stream.running)
    return {"stream": stream, "signs": signs, "runs": runs, "unwatched": unwatched}


def _unread_context(
    flow: Flow, *, waits: WaitingFiles | None = None, listed_at: datetime | None = None
) -> dict[str, Any]:
    """`waits`: the files that the page says wait. `listed_at`: when those of the page around the panel were
    counted, if that was another number."""
    now = timezone.now()
    panel = unread.unread_panel(flow, flow.sources.defer("reader", "table"), now)
    shown = unread.mark_counted_later(panel, unread.find_later_count(panel, waits) if waits else listed_at)
    later = shown.overruled_at
    listed = f"&{urlencode({'listed': later.isoformat()})}" if later else ""
    return {
        "unread": shown,
        "unread_version": versions.of_unread(panel, now),
        "unread_listed": listed,
    }


def _unread_part(request: PageRequest, flow: Flow) -> HttpResponse:
    """The panel alone, asked for again and again, so that what is left stays true."""
    context = _unread_context(flow, listed_at=when(request.GET.get("listed")))
    if is_unchanged(request, context["unread_version"]):
        return no_news()
    return render(request, "flow/_unread.html", {"flow": flow, **context})


def _below_part(request: PageRequest, by: Actor, flow: Flow) -> HttpResponse:
    """What is below alone, while it is counted."""
    frame = frame_of(flow, "", by)
    return render(request, "flow/_below.html", {**frame, **_counted_context(flow, by)})


def _counted_context(flow: Flow, by: Actor) -> dict[str, Any]:
    return {
        "counted": below.counted_below(flow, timezone.now()),
        "why_not": may_why(by, Right.RECOVER, flow.pipeline.environment),
    }


def _list_facts(
    flow: Flow,
    recovery: Recovery | None,
    waits: WaitingFiles,
    late: Sequence[below.DatasetRow],
    panel: unread.Panel,
) -> list[flows.Fact]:
    measured = Recovery.objects.filter(flow=flow).exclude(measured={}).order_by("-pk").first()
    return flows.list_facts(flow, recovery, measured, waits, timezone.now(), late=late, panel=panel)


def _batches_context(flow: Flow, recovery: Recovery | None) -> dict[str, Any]:
    """Charts of the batches among the pipeline's newest events; where those cannot be read, why."""
    if not flow.streaming:
        return {"charts": []}
    try:
        with closing(client_for(flow.pipeline.workspace, timeout=PATIENCE)) as client:
            raw = list(client.events(flow.pipeline.pipeline_id, limit=EVENTS))
    except RepriseError as problem:
        return {"charts": [], "charts_problem": problem.sentence}
    drawn = batches(raw[:EVENTS], flow.name)
    return {
        "charts": charts.of_batches(drawn, flows.waiting_rows(recovery)),
        "charts_shown": min(len(drawn), charts.SHOWN),
    }


@page(Right.VIEW)
def event_log(request: PageRequest, by: Actor, flow_id: int) -> HttpResponse:
    """The newest events of this flow's pipeline, asked for now."""
    flow, wanted = flow_or_404(flow_id, by), events.EventFilter.from_query(request.GET.dict())
    context = {**frame_of(flow, "events", by), "wanted": wanted, "read_at": timezone.now()}
    try:
        client = client_for(flow.pipeline.workspace)
        raw = list(client.events(flow.pipeline.pipeline_id, limit=EVENTS))
    except RepriseError as problem:
        return render_page(request, "flow/events.html", {**context, "problem": problem})
    rows = events.of_flow(raw[:EVENTS], flow.name)
    kept = events.filter_events(rows, wanted)
    levels = [
        (level, name, urlencode({"level": level}), sum(not level or r.level == level for r in rows))
        for level, name in events.LEVELS
    ]
    extra = {
        "rows": kept,
        "total": len(rows),
        "opened": events.opened_event(kept, request.GET.get("event", "")),
        "types": sorted({r.type for r in rows}),
        "updates": list(dict.fromkeys(r.update for r in rows if r.update)),
        "levels": levels,
        "run_noun": flow.pipeline.workspace.run_noun,
    }
    return render_page(request, "flow/events.html", {**context, **extra})


@page(Right.VIEW)
def show_code(request: PageRequest, by: Actor, flow_id: int) -> HttpResponse:
    """The source of the last good update beside the source of now, with the line that is the cause."""
    flow = flow_or_404(flow_id, by)
    context = {**frame_of(flow, "code", by), "read_at": timezone.now()}
    try:
        read = source.read_source(flow)
    except RepriseError as problem:
        return render_page(request, "flow/code.html", {**context, "problem": problem})
    diagnosis = diagnosis_of(flow, context["recovery"]) or Diagnosis()
    lost = [word(o) for o in diagnosis.operators.checkpoint]
    before = read.good or read.now
    note = "This step is gone from the code; the checkpoint still holds its state."
    diffs = [diff.point_at(d, before.get(d.path, ""), lost, note) for d in diff.compare_all(before, read.now)]
    extra = {"source": read, "diffs": diffs, "changed": sum(d.changed for d in diffs)}
    return render_page(request, "flow/code.html", {**context, **extra})


@page(Right.VIEW)
def show_history(request: PageRequest, by: Actor, flow_id: int) -> HttpResponse:
    """Every recovery of this flow."""
    flow = flow_or_404(flow_id, by)
    recoveries = Recovery.objects.filter(flow=flow).order_by("-pk")
    rows = [(r, verifying.proof_badge(r)) for r in recoveries]
    return render_page(request, "flow/recoveries.html", {**frame_of(flow, "recoveries", by), "rows": rows})
