"""Add a stream, and change what is said of one: the same door as `bin/manage adopt`."""

from typing import Final

from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect
from django.utils import timezone

from console.middleware import PageRequest
from console.pages.base import may_why, no_news, page, render_page, require_right
from console.pages.flow import flow_or_404
from console.pages.freshness import unless_fresh
from console.presenters import checkpoint as checkpoints
from console.presenters import streams as presenting
from recovery.errors import Denied, RepriseError
from recovery.models import Stream
from recovery.people.roles import ENVIRONMENTS, Actor, Right
from recovery.streams.actions import StreamDetails, adopt_stream, streams_workspaces
from recovery.streams.preview import Preview, preview_stream

COMMANDS: Final = ("start", "stop", "running")
TYPED: Final = (
    *("sink", "event_log", "program", "owner", "name", "environment", "runner", "workspace"),
    *COMMANDS,
)
NEVER_EMPTY: Final = ("name", "environment", "runner", "workspace")


@page(Right.RECOVER, methods=("GET", "POST"))
def add_stream(request: PageRequest, by: Actor) -> HttpResponse:
    """One field; with `checkpoint`, what that shows and what would help next. POST adopts it, with `look` it reads
    what was named."""
    sent = request.POST if request.method == "POST" else _of_link(request.GET)
    place = sent.get("checkpoint", "").strip()
    if not place:
        return render_page(request, "streams/start.html", _begin_context("", sent))
    if request.method == "POST" and "look" not in request.POST:
        return _adopt_typed_stream(request, by, place)
    return _show_form(request, by, place, sent)


def _of_link(sent: QueryDict) -> QueryDict:
    """What a link may fill in: nothing that an admin would then confirm, such as commands."""
    kept = QueryDict(mutable=True)
    kept.update({name: sent.get(name, "") for name in ("checkpoint", "workspace") if name in sent})
    return kept


@page(Right.RECOVER, methods=("GET", "POST"))
def edit_stream(request: PageRequest, by: Actor, flow_id: int) -> HttpResponse:
    """What is said of an adopted stream. POST changes it; a pipeline's flow has nothing to be said here."""
    flow = flow_or_404(flow_id, by)
    require_right(request, by, Right.RECOVER, flow.pipeline.environment)
    stream = Stream.objects.filter(pipeline=flow.pipeline_id).first()
    if stream is None:
        return redirect("flow", flow_id)
    if request.method == "POST" and "look" not in request.POST:
        return _adopt_typed_stream(request, by, stream.checkpoint)
    return _show_form(
        request, by, stream.checkpoint, request.POST if request.method == "POST" else QueryDict()
    )


def _adopt_typed_stream(request: PageRequest, by: Actor, place: str) -> HttpResponse:
    said = _read_said(request.POST, by)
    if said.has_commands and (asked := unless_fresh(request)):
        return asked
    try:
        stream = adopt_stream(checkpoint=place, said=said, by=by)
    except Denied:
        raise
    except RepriseError as refusal:  # also of what is not there: it is named in a field of this page
        return _show_form(request, by, place, request.POST, refusal)
    messages.success(request, f"Stream {stream.pipeline.name} is on the list, with these details.")
    return redirect("flow", stream.pipeline.flows.get().pk)


def _read_said(post: QueryDict, by: Actor) -> StreamDetails:
    """What the form sent; a field that it did not send stays as it is. Commands are an admin's."""
    given = {name: post.get(name, "").strip() for name in TYPED if name in post}
    arguments = tuple(post.get("arguments", "").splitlines()) if "arguments" in post else None
    if not by.may(Right.MANAGE):
        given = {name: value for name, value in given.items() if name not in (*COMMANDS, "runner")}
    elif not any(given.get(name) for name in COMMANDS):
        given = {name: value for name, value in given.items() if name not in COMMANDS}
    needed = {name: given.pop(name) or None for name in NEVER_EMPTY if name in given}
    return StreamDetails(**given, **needed, arguments=arguments)


def _begin_context(place: str, sent: QueryDict) -> dict[str, object]:
    """What the first field shows. Which workspace is asked only where there are several."""
    names = [workspace.name for workspace in streams_workspaces()]
    return {
        "section": "flows",
        "checkpoint": place,
        "workspaces": names if len(names) > 1 else [],
        "workspace": sent.get("workspace", ""),
    }


def _show_form(
    request: PageRequest, by: Actor, place: str, typed: QueryDict, refusal: RepriseError | None = None
) -> HttpResponse:
    """The form over what the checkpoint shows; only the first field where that cannot be read."""
    try:
        preview = preview_stream(checkpoint=place, said=_read_said(typed, by), by=by)
    except Denied:
        raise
    except RepriseError as unread:
        if getattr(request, "htmx", False):
            return no_news()  # the page stays, with what was typed; the next press of its button says why
        begin = _begin_context(place, typed)
        return render_page(request, "streams/start.html", begin, refusal=refusal or unread, status=422)
    given = {name: typed.get(name, "") for name in (*TYPED, "arguments") if name in typed}
    context = {**_begin_context(place, typed), **_preview_context(preview, by, given)}
    return render_page(
        request, "streams/adopt.html", context, refusal=refusal, status=422 if refusal else None
    )


def _preview_context(preview: Preview, by: Actor, typed: dict[str, str]) -> dict[str, object]:
    now = timezone.now()
    stands, keeps = presenting.stream_facts(preview, now)
    known = preview.known
    flow = known.pipeline.flows.get() if known and not known.pipeline.gone else None
    return {
        "found": preview,
        "checkpoint": preview.place,
        "workspace": preview.workspace,
        "flow": flow,
        "stands": stands,
        "keeps": keeps,
        "findings": checkpoints.finding_rows([f.as_dict() for f in preview.report.findings]),
        "needs": presenting.list_needs(preview),
        "answered": presenting.count_answered(preview),
        "given": presenting.typed_values(preview, typed),
        "environments": ENVIRONMENTS,
        "why_no_commands": may_why(by, Right.MANAGE),
    }
