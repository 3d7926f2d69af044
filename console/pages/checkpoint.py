"""The checkpoint of a flow: judged now, one batch, two beside each other, the log of a source. Reads only."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.http import Http404, HttpResponse
from django.utils import timezone

from console.middleware import PageRequest
from console.pages.base import page, render_page
from console.pages.flow import flow_or_404, frame_of
from console.presenters import batches, charts
from console.presenters import checkpoint as checkpoints
from recovery import reach
from recovery.checkpoints import batch_descriptions, inspect_checkpoint
from recovery.checkpoints.batches import compare_batches, log_page, read_batch
from recovery.checkpoints.version_history import list_uses
from recovery.diagnosis.verdict import judge_flow
from recovery.errors import NotFound, RepriseError, Unreachable
from recovery.models import Flow, FlowInput
from recovery.numbers import whole
from recovery.people.roles import Actor, Right
from recovery.workflow import verdicts
from recovery.workflow.places import checkpoint_of

Asked = Mapping[str, str]
Context = dict[str, Any]


@page(Right.VIEW)
def show_checkpoint(request: PageRequest, by: Actor, flow_id: int) -> HttpResponse:
    """What is on disk, judged now; or the part of it that the address names (`batch`, `beside`, `files`)."""
    flow, asked = flow_or_404(flow_id, by), request.GET
    version = _read_number(asked, "version")
    part, template = (
        (_batch_context, "flow/batch.html")
        if asked.get("batch")
        else (_files_context, "flow/log_of_files.html")
        if asked.get("files")
        else (_report_context, "flow/checkpoint.html")
    )
    context = {
        **frame_of(flow, "checkpoint", by),
        "asked_version": version,
        "kept": "" if version is None else f"version={version}&",
        "read_at": timezone.now(),
    }
    try:
        root = checkpoint_of(flow)
        place = root if version is None else f"{root}/{version}"
        with reach.reading(flow.pipeline.workspace):
            shown = part(asked, context, root, place)
    except RepriseError as problem:
        status = 404 if isinstance(problem, NotFound) else None
        known = _last_seen(flow) if isinstance(problem, Unreachable) else None
        return render_page(request, template, {**context, "problem": problem, "known": known}, status=status)
    return render_page(request, template, {**context, **shown})


@dataclass(frozen=True)
class LastSeenCheckpoint:
    """What the inventory knows of a checkpoint that cannot be read now: the last batch that the poller saw, at `at`,
    and where each source stood when it was last looked at."""

    batch: int | None
    at: datetime
    sources: tuple[FlowInput, ...]


def _last_seen(flow: Flow) -> LastSeenCheckpoint:
    seen = flow.sources.exclude(seen_at=None).defer("reader").order_by("index")
    return LastSeenCheckpoint(flow.last_batch, flow.updated_at, tuple(seen))


def _read_number(asked: Asked, name: str) -> int | None:
    """A whole number of the address; None where it is not given. Raises Http404 for anything else."""
    text = asked.get(name) or ""
    if not text:
        return None
    number = whole(text)
    if number is None:
        raise Http404(f"The address asks for {name} {text[:40]!r}, which is no number.")
    return number


def _report_context(asked: Asked, context: Context, root: str, place: str) -> Context:
    flow, judged, recovery = context["flow"], inspect_checkpoint(place), context["recovery"]
    every = list_uses(root)
    if context["asked_version"] in (None, *(use.number for use in every[:1])):
        verdict = verdicts.verdict_on(flow, judged, recovery=recovery, root=root)
    else:  # an older version: Spark does not start from it
        verdict = judge_flow(judged, code=verdicts.code_operators(flow, recovery))
    report = replace(judged, findings=verdict.findings).as_dict()
    rows = checkpoints.finding_rows(report["findings"])
    return {
        "report": report,
        "judgement": checkpoints.judge_fit(verdict),
        "next_run": batch_descriptions.next_run(verdict.outcome) if report["format"] != "none" else "",
        "findings": rows,
        "findings_counted": checkpoints.count_findings(rows),
        "batches": checkpoints.batch_rows(report),
        "operators": checkpoints.operator_rows(report, verdict),
        "growth": charts.of_growth(report["state_operators"]),
        "sources": checkpoints.source_rows(report),
        "versions": checkpoints.version_rows(every),
    }


def _batch_context(asked: Asked, context: Context, root: str, place: str) -> Context:
    number, beside = _read_number(asked, "batch"), _read_number(asked, "beside")
    assert number is not None, "this part is shown where a batch is asked for"
    if beside is None or beside == number:
        return {"batch": batches.batch_view(read_batch(place, number))}
    return {"difference": batches.batch_difference(compare_batches(place, number, beside))}


def _files_context(asked: Asked, context: Context, root: str, place: str) -> Context:
    key = asked["files"]
    return {"log": batches.log_page(key, log_page(place, key, _read_number(asked, "page") or 1))}
