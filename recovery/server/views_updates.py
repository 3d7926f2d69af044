"""Updates and events of a pipeline, and this server's own extension: the source that an update ran."""

import base64
from typing import Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse

from recovery.server.events import event_answer
from recovery.server.execution import update_folder
from recovery.server.filters import FilterCondition, parse_events_filter
from recovery.server.http import empty_answer, sent_body
from recovery.server.instance import current_instance
from recovery.server.models import Event, Pipeline, Update
from recovery.server.paging import page_size, read_page
from recovery.server.problems import ApiProblem, invalid_request, missing_update
from recovery.server.sources import read_snapshot
from recovery.server.updates import request_stop, start_update, update_info
from recovery.server.views_pipelines import find_pipeline

LOOKUPS = {"=": "", ">": "__gt", ">=": "__gte", "<": "__lt", "<=": "__lte"}


def find_update(pipeline: Pipeline, update_id: str) -> Update:
    """The update of a URL. Raises ApiProblem 404."""
    update = Update.objects.filter(pipeline=pipeline, id=update_id).first()
    if update is None:
        raise missing_update(update_id)
    return update


def post_update(request: HttpRequest, pipeline_id: str) -> HttpResponse:
    """POST /pipelines/{id}/updates."""
    user: str = request.user_name  # type: ignore[attr-defined]
    update = start_update(current_instance(), find_pipeline(pipeline_id), sent_body(request), user=user)
    return JsonResponse({"update_id": update.id})


def stop_update(request: HttpRequest, pipeline_id: str) -> HttpResponse:
    """POST /pipelines/{id}/stop: answers at once, the update goes through STOPPING; no-op when idle."""
    user: str = request.user_name  # type: ignore[attr-defined]
    request_stop(current_instance(), find_pipeline(pipeline_id), user=user)
    return empty_answer()


def read_update(request: HttpRequest, pipeline_id: str, update_id: str) -> HttpResponse:
    """GET /pipelines/{id}/updates/{update_id}."""
    return JsonResponse(
        {"update": update_info(find_update(find_pipeline(pipeline_id), update_id), full=True)}
    )


def list_updates(request: HttpRequest, pipeline_id: str) -> HttpResponse:
    """GET /pipelines/{id}/updates, newest first; `until_update_id` is the last one wanted, itself included."""
    pipeline, query = find_pipeline(pipeline_id), request.GET
    page = read_page(
        size=page_size(query.get("max_results"), default=25, most=100),
        token=query.get("page_token"),
        filter_text=query.get("until_update_id", ""),
        order="",
        keys=(int,),
    )
    rows = Update.objects.filter(pipeline=pipeline).order_by("-seq")
    if page.filter:
        rows = rows.filter(seq__gte=find_update(pipeline, page.filter).seq)
    if page.after:
        rows = rows.filter(seq__lt=page.after[0])
    listed = list(rows[: page.size + 1])
    updates = listed[: page.size]
    body: dict[str, Any] = {"updates": [update_info(update, full=False) for update in updates]}
    if len(listed) > page.size:
        body["next_page_token"] = page.token((updates[-1].seq,))
    return JsonResponse(body)


def choose_events(rows: "QuerySet[Event]", conditions: tuple[FilterCondition, ...]) -> "QuerySet[Event]":
    """Rows that meet every condition of an events filter."""
    for condition in conditions:
        column = "timestamp_ms" if condition.column == "timestamp" else condition.column
        if condition.operator == "IN":
            rows = rows.filter(**{f"{column}__in": condition.values})
        else:
            rows = rows.filter(**{f"{column}{LOOKUPS[condition.operator]}": condition.values[0]})
    return rows


def event_list(request: HttpRequest, pipeline_id: str) -> HttpResponse:
    """GET /pipelines/{id}/events: filter, order by timestamp (newest first by default), pages."""
    pipeline, query = find_pipeline(pipeline_id), request.GET
    page = read_page(
        size=page_size(query.get("max_results"), default=25, most=1000),
        token=query.get("page_token"),
        filter_text=query.get("filter", ""),
        order=query.get("order_by", "timestamp desc"),
        keys=(int, int),
    )
    if page.order not in ("timestamp", "timestamp asc", "timestamp desc"):
        raise invalid_request(
            f"Events can be ordered by 'timestamp asc' or 'timestamp desc', not {page.order!r}."
        )
    rising = page.order != "timestamp desc"
    rows = choose_events(Event.objects.filter(pipeline=pipeline), parse_events_filter(page.filter))
    rows = rows.order_by(*(("timestamp_ms", "seq") if rising else ("-timestamp_ms", "-seq")))
    if page.after:
        rows = rows.filter(events_beyond(page.after, "gt" if rising else "lt"))
    listed = list(rows[: page.size + 1])
    shown = listed[: page.size]
    body: dict[str, Any] = {"events": [event_answer(event) for event in shown]}
    if len(listed) > page.size:
        body["next_page_token"] = page.token((shown[-1].timestamp_ms, shown[-1].seq))
    return JsonResponse(body)


def events_beyond(after: tuple[str | int, ...], comparison: str) -> Q:
    """Rows after the last one of the page before, in (timestamp, seq)."""
    moment, seq = after
    return Q(**{f"timestamp_ms__{comparison}": moment}) | Q(
        timestamp_ms=moment, **{f"seq__{comparison}": seq}
    )


def read_update_source(request: HttpRequest, pipeline_id: str, update_id: str) -> HttpResponse:
    """GET /x-reprise/pipelines/{id}/updates/{update_id}/source: the definition files that this update read."""
    update = find_update(find_pipeline(pipeline_id), update_id)
    try:
        snapshot = read_snapshot(update_folder(current_instance().home, update.id) / "source")
    except (
        OSError
    ) as error:  # a link in its place, or more in it than a snapshot holds: the update's code did that
        text = (
            f"The source of update {update_id} cannot be read back ({error.strerror}): the update changed it."
        )
        raise ApiProblem(404, "RESOURCE_DOES_NOT_EXIST", text) from error
    files = [
        {"path": path, "sha256": sha256, "content": base64.b64encode(content).decode()}
        for path, sha256, content in snapshot
    ]
    if not files:
        raise ApiProblem(404, "RESOURCE_DOES_NOT_EXIST", f"No source is kept of update {update_id}.")
    return JsonResponse({"files": files})
