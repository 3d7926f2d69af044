"""`manage.py flows`: the inventory as it was last polled, with its age; `--fresh` polls first."""

from argparse import ArgumentParser
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Q
from django.utils import timezone

from recovery.contracts.names import DoubtCode
from recovery.management.commands._base import CommandAnswer, Options, RepriseCommand, ago, lasting, table
from recovery.models import Flow, Pipeline, Stream, Workspace
from recovery.names import shown
from recovery.people.roles import Right
from recovery.people.visible import filter_visible
from recovery.pipelines import retention
from recovery.pipelines.alone import list_behind, say_pipeline
from recovery.pipelines.behind import NOT_OK, since_of
from recovery.pipelines.failures import PipelineState, failure_from
from recovery.pipelines.losses import is_in_doubt
from recovery.streams.describing import running_json, signs_json
from recovery.workflow.doubting import Doubt, doubts_of

UNWELL = (PipelineState.FAILED, PipelineState.UNKNOWN, "")
"""What a pipeline is judged to be that the list names in a sentence, whatever its flows are; "": not yet."""
MARKS = {"ok": "ok", "failed": "x", "stopped": "stop", "none": "-"}


SHOWN = (
    "name", "dataset", "flow_type", "streaming", "state", "failing_since", "failed_update", "condition", "query_id",
    "behind_since", "behind_why", "behind_update", "last_batch", "history", "code_seen_at", "code_problem",
    "pipeline__pipeline_id", "pipeline__name", "pipeline__state", "pipeline__environment", "pipeline__workspace__name",
    "pipeline__stream__running", "pipeline__stream__running_answer", "pipeline__stream__running_asked_at",
    "pipeline__stream__running_says", "pipeline__stream__signs",
)  # fmt: skip
"""What the list reads of a flow: no error, no progress, no setting."""


class Command(RepriseCommand):
    """Exit 0 for any list; 2 when a workspace could not be asked at the last poll (what was last seen is shown).

    Beat polls every few seconds, so the rows of now need no poll of ours. A workspace that was never polled is
    polled: there is nothing to answer from.
    """

    help = "Lists pipelines and flows, with what is wrong."
    right = Right.VIEW

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--failing",
            action="store_true",
            help="Only failed, empty, stale or unknown pipelines and flows, and flows whose table or input is in "
            "doubt; in text, what was accepted has a line too.",
        )
        parser.add_argument("--fresh", action="store_true", help="Poll every workspace first.")

    def answer(self, options: Options) -> CommandAnswer:
        asked = Workspace.objects.active()
        asked = asked if options["fresh"] else asked.filter(polled_at=None)
        if workspace_ids := list(asked.values_list("pk", flat=True)):
            poll(workspace_ids)
        workspaces = list(
            Workspace.objects.active().order_by("name")
        )  # before the rows: their age is never understated
        flows = Flow.objects.filter(
            filter_visible(self.actor, "pipeline__"), pipeline__gone=False
        ).select_related("pipeline__workspace", "pipeline__stream")
        pipelines = Pipeline.objects.filter(filter_visible(self.actor), gone=False).select_related(
            "workspace"
        )
        now = timezone.now()
        doubts = doubts_of(flows.filter(state__in=retention.GOING_ON).values_list("pk", flat=True), now)
        doubted = list(flows.filter(pk__in=doubts).only(*SHOWN).order_by("pipeline__name", "name"))
        if options["failing"]:
            pressing = [pk for pk, doubt in doubts.items() if doubt.code.needs_attention]
            flows = flows.filter(Q(state__in=NOT_OK) | Q(pk__in=pressing))
            pipelines = pipelines.filter(~Q(failure={}) | Q(judged__in=("", *NOT_OK)))
        listed_pipelines = list(pipelines.defer("spec", "updates").order_by("name", "pipeline_id"))
        shown_flows = retention.with_sources(flows.only(*SHOWN))
        rows = list(shown_flows.order_by("pipeline__name", "pipeline__pipeline_id", "name"))
        away = [w for w in workspaces if w.poll_error]
        late = list_behind(listed_pipelines)
        data = {
            "pipelines": [pipeline_json(p, late.get(p.pk, ())) for p in listed_pipelines],
            "flows": [as_json(f, doubts.get(f.pk)) for f in rows],
            "workspaces": [workspace_json(w, now) for w in workspaces],
        }
        lines = [say_doubt(f, doubts[f.pk]) for f in doubted if doubts[f.pk].code is not DoubtCode.NOT_ASKED]
        says = text(rows, listed_pipelines, workspaces, lines, doubts, failing=options["failing"])
        return CommandAnswer(data, says, exit_code=2 if away else 0)


def poll(workspace_ids: Iterable[int]) -> None:
    """Ask these workspaces now. Imports its poller here: a list that asks no one starts without it."""
    from recovery.pipelines.inventory import refresh

    for workspace_id in workspace_ids:
        refresh(workspace_id=workspace_id)


def pipeline_json(pipeline: Pipeline, behind: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """One pipeline of the list: how it is by its newest updates, since when, and why in a sentence, with its flows that
    are behind."""
    since = pipeline.judged_since
    return {
        "id": pipeline.pipeline_id,
        "name": pipeline.name,
        "workspace": pipeline.workspace.name,
        "state": pipeline.judged or "unknown",
        "since": since.isoformat() if since else None,
        "says": say_pipeline(pipeline, behind),
    }


def as_json(flow: Flow, doubt: Doubt | None) -> dict[str, Any]:
    """One flow of the list. `doubt`: what contradicts its state, of one that is ok or runs."""
    return {
        "pipeline": {
            "id": flow.pipeline.pipeline_id,
            "name": flow.pipeline.name,
            "state": flow.pipeline.state,
        },
        "workspace": flow.pipeline.workspace.name,
        "environment": flow.pipeline.environment,
        "flow": flow.name,
        "dataset": flow.dataset,
        "flow_type": flow.flow_type,
        "streaming": flow.streaming,
        "state": flow.state,
        "since": since.isoformat() if (since := since_of(flow)) else None,
        "doubt": {"code": doubt.code, "says": doubt.says} if doubt else None,
        "failing_since": flow.failing_since.isoformat() if flow.failing_since else None,
        "failed_update": flow.failed_update or None,
        "condition": flow.condition or None,
        "query_id": flow.query_id or None,
        "behind": {"why": flow.behind_why, "update": flow.behind_update or None} if flow.behind_why else None,
        "last_batch": flow.last_batch,
        "history": flow.history,
        "unread": retention.as_dict(flow, timezone.now()),
        "stream": stream_signs_json(flow),
    }


def stream_signs_json(flow: Flow) -> dict[str, object] | None:
    """Of an adopted stream whether it runs by its command, and what is odd about it; null for a pipeline's flow."""
    stream: Stream | None = getattr(flow.pipeline, "stream", None)
    return None if stream is None else {"running": running_json(stream), "signs": signs_json(stream)}


def workspace_json(workspace: Workspace, now: datetime) -> dict[str, Any]:
    """How fresh the list is; `polled_at` and `age_seconds` are of the last poll that succeeded, null before it."""
    polled_at = workspace.polled_at
    return {
        "name": workspace.name,
        "url": workspace.url,
        "polled_at": polled_at.isoformat() if polled_at else None,
        "age_seconds": max(round((now - polled_at).total_seconds(), 1), 0.0) if polled_at else None,
        "problem": workspace.poll_error or None,
    }


def say_doubt(flow: Flow, doubt: Doubt) -> str:
    """A flow that is *ok* and what contradicts it, on one line."""
    return f"Flow {shown(flow.name)} ({flow.pipeline.environment}) is {flow.state}, {doubt.word}: {shown(doubt.says)}"


def text(
    flows: list[Flow],
    pipelines: list[Pipeline],
    workspaces: list[Workspace],
    doubted: list[str],
    doubts: Mapping[int, Doubt],
    *,
    failing: bool,
) -> str:
    """The list, then what is wrong with it, then what to type next, then how old it is. `doubted`: a line of each flow
    that is ok or runs, and is in doubt."""
    broken_pipelines = [p for p in pipelines if p.judged == PipelineState.FAILED]
    is_short = bool(pipelines) or (failing and bool(doubted))
    parts = [listed(flows, doubts)] if flows else [] if is_short else [nothing(workspaces, failing=failing)]
    parts += doubted
    of_flows = {f.pipeline_id for f in flows}
    parts += [pipeline_line(p) for p in pipelines if failing or p.judged in UNWELL or p.pk not in of_flows]
    parts += [
        f"Workspace {w.name} could not be asked, last seen {ago(w.polled_at)} ago: {shown(w.poll_error)}"
        if w.polled_at
        else f"Workspace {w.name} could not be asked: {shown(w.poll_error)}"
        for w in workspaces
        if w.poll_error
    ]
    broken = next((f for f in flows if f.state == "failed"), None) or next(filter(is_in_doubt, flows), None)
    whole = next((p for p in broken_pipelines if (f := failure_from(p.failure)) and f.is_whole), None)
    if whole:
        parts.append(f"Next: bin/manage diagnose {whole.pipeline_id}")
    elif broken:
        parts.append(f"Next: bin/manage diagnose {broken.pipeline.pipeline_id} --flow {broken.name}")
    if workspaces:
        parts.append(age(workspaces))
    return "\n\n".join(parts)


def pipeline_line(pipeline: Pipeline) -> str:
    """How a pipeline is as a whole, since when, and why."""
    state, since = pipeline.judged or "unknown", pipeline.judged_since
    how = "fails" if state == PipelineState.FAILED else f"is {state}"
    when = f" since {since:%Y-%m-%d %H:%M:%S} UTC" if since else ""
    says = shown(say_pipeline(pipeline))
    return f"Pipeline {shown(pipeline.name)} ({pipeline.environment}) {how}{when}: {says}"


def age(workspaces: list[Workspace]) -> str:
    """How old the rows are, by workspace where there are several, and how to get newer ones."""
    if len(workspaces) == 1:
        (only,) = workspaces
        since = f"As of {ago(only.polled_at)} ago" if only.polled_at else "Never polled"
    else:
        since = "As of: " + ", ".join(
            f"{w.name} {ago(w.polled_at)} ago" if w.polled_at else f"{w.name} never polled"
            for w in workspaces
        )
    return f"{since}. --fresh asks the workspaces."


def listed(flows: list[Flow], doubts: Mapping[int, Doubt]) -> str:
    """One line a flow."""
    head = ("PIPELINE", "ENVIRONMENT", "FLOW", "STATE", "SINCE", "LAST RUNS", "READABLE UNTIL", "WHY")
    return table(head, [
        (
            f.pipeline.name, f.pipeline.environment, f.name, _state_text(f, doubts.get(f.pk)),
            ago(since) if (since := since_of(f)) else "",
            " ".join(MARKS.get(o, o) for o in f.history), readable(f), f.condition or f.behind_why,
        )
        for f in flows
    ])  # fmt: skip


def _state_text(flow: Flow, doubt: Doubt | None) -> str:
    """`ok, not proven`."""
    return f"{flow.state}, {doubt.word}" if doubt else flow.state


def readable(flow: Flow) -> str:
    """How long its unread input can be read, as far as it is known and ends at all."""
    found, now = retention.of(flow, flow.sources.all(), timezone.now()), timezone.now()
    if found is None or found.until is None:
        words = {retention.RetentionState.GONE: "gone", retention.RetentionState.UNKNOWN: "not known"}
        return words.get(found.standing, "") if found else ""
    left = "at any time" if found.until <= now else f"in {lasting((found.until - now).total_seconds())}"
    return f"{found.until:%Y-%m-%d %H:%M} UTC, {left}"


def nothing(workspaces: list[Workspace], *, failing: bool) -> str:
    """Why the list is empty."""
    if not workspaces:
        return "No workspace is registered yet. Add one: bin/manage workspace add."
    if not failing:
        return "No pipeline has run yet."
    away = [w.name for w in workspaces if w.poll_error or w.polled_at is None]
    unless = f" Workspaces that did not answer: {', '.join(away)}." if away else ""
    return f"No pipeline or flow was seen to be failed, stale, empty or unknown.{unless}"
