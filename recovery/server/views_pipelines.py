"""Pipelines: create, list, get, edit, delete; and what the API has beside it and this server refuses."""

from typing import Any

from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse

from recovery.errors import Refused
from recovery.names import shown
from recovery.numbers import read_whole
from recovery.server import events
from recovery.server.environments import name_environment
from recovery.server.execution import remove_folder
from recovery.server.fields import not_done
from recovery.server.filters import FilterCondition, matches_like, parse_pipelines_filter
from recovery.server.http import empty_answer, read_flag, sent_body
from recovery.server.instance import current_instance
from recovery.server.models import Pipeline, new_id
from recovery.server.paging import page_size, read_page
from recovery.server.problems import ApiProblem, active_update, invalid_request, missing_pipeline
from recovery.server.specs import database_of, read_spec
from recovery.server.updates import active_of, state_info


def find_pipeline(pipeline_id: str) -> Pipeline:
    """The pipeline of a URL. Raises ApiProblem 404."""
    pipeline = Pipeline.objects.filter(pk=pipeline_id).first()
    if pipeline is None:
        raise missing_pipeline(pipeline_id)
    return pipeline


def check_name(name: str, body: dict[str, Any], *, but: str = "") -> None:
    """One name, one pipeline, unless the request allows otherwise. Raises ApiProblem 409."""
    if read_flag(body.get("allow_duplicate_names"), "allow_duplicate_names"):
        return
    if Pipeline.objects.filter(name=name).exclude(pk=but).exists():
        text = (
            f"The pipeline name '{name}' is already used by another pipeline. "
            "This check can be skipped by setting `allow_duplicate_names = true` in the request."
        )
        raise ApiProblem(409, "RESOURCE_CONFLICT", text)


def check_run_as(body: dict[str, Any], owner: str) -> None:
    """Code runs with the rights of this server, and `run_as_user_name` is the owner. Raises ApiProblem 400 for another
    identity: it would be left out in silence."""
    wanted = body.get("run_as")
    if wanted and wanted != {"user_name": owner}:
        raise not_done("run_as", f"Pipelines run as their owner, who is {shown(owner)} here.")


def check_place(pipeline: Pipeline, spec: dict[str, Any]) -> None:
    """Checkpoints lie under the storage root, by catalog and schema: with another one the next update would begin from
    nothing, into other tables.

    Raises ApiProblem 400 once an update ran that was no dry run.
    """
    before, after = _data_place(pipeline.spec), _data_place(spec)
    moved = next((name for name in before if before[name] != after[name]), "")
    if not moved or all(u.options.get("validate_only") for u in pipeline.updates.all()):
        return
    raise invalid_request(
        f"The {moved} of a pipeline that has run cannot change: its checkpoints and tables lie under {before[moved]}. "
        "Send that one, or make another pipeline."
    )


def _data_place(spec: dict[str, Any]) -> dict[str, str]:
    """Where checkpoints and tables of these settings lie. `target` is another word for `schema`."""
    return {"storage": spec["storage"], "catalog": spec["catalog"], "schema": database_of(spec)}


def settings_in(body: dict[str, Any], pipeline_id: str) -> dict[str, Any]:
    """The complete settings of a create or edit request, as this server runs them. Raises ApiProblem 400."""
    instance = current_instance()
    spec = read_spec(body, pipeline_id=pipeline_id, home=instance.spark_home)
    try:
        instance.check_storage(spec["storage"])
    except Refused as refusal:
        raise invalid_request(refusal.sentence) from refusal
    return name_environment(spec, instance.environments)


def create_pipeline(request: HttpRequest) -> HttpResponse:
    """POST /pipelines. With dry_run: checks, answers the settings, keeps nothing."""
    body, pipeline_id = sent_body(request), new_id()
    user: str = request.user_name  # type: ignore[attr-defined]
    check_run_as(body, user)
    spec = settings_in(body, pipeline_id)
    check_name(spec["name"], body)
    if read_flag(body.get("dry_run"), "dry_run"):
        return JsonResponse({"effective_settings": spec})
    with transaction.atomic(using="pipelines"):
        pipeline = Pipeline.objects.create(
            id=pipeline_id, name=spec["name"], spec=spec, creator=user, last_modified_ms=events.now_ms()
        )
        events.store_event(pipeline, "user_action", f"User {user} created the pipeline.",
                      {"action": "CREATE", "user_name": user})  # fmt: skip
    return JsonResponse({"pipeline_id": pipeline_id})


def pipeline_facts(pipeline: Pipeline) -> dict[str, Any]:
    """What list and get answer alike."""
    active = active_of(pipeline)
    state = "IDLE" if active is None else "STOPPING" if active.state == "STOPPING" else "RUNNING"
    newest = pipeline.updates.order_by("-seq")[:5]
    answer: dict[str, Any] = {
        "pipeline_id": pipeline.id,
        "name": pipeline.name,
        "state": state,
        "creator_user_name": pipeline.creator,
        "run_as_user_name": pipeline.creator,
        "latest_updates": [state_info(update) for update in newest],
    }
    if pipeline.healthy is not None:
        answer["health"] = "HEALTHY" if pipeline.healthy else "UNHEALTHY"
    return answer


def read_pipeline(request: HttpRequest, pipeline_id: str) -> HttpResponse:
    """GET /pipelines/{id}."""
    pipeline = find_pipeline(pipeline_id)
    more = {
        "spec": pipeline.spec,
        "last_modified": pipeline.last_modified_ms,
        "effective_publishing_mode": "DEFAULT_PUBLISHING_MODE",
    }
    return JsonResponse(pipeline_facts(pipeline) | more)


def list_pipelines(request: HttpRequest) -> HttpResponse:
    """GET /pipelines: filter, order by id, pages."""
    query = request.GET
    page = read_page(
        size=page_size(query.get("max_results"), default=25, most=100),
        token=query.get("page_token"),
        filter_text=query.get("filter", ""),
        order=query.get("order_by", "id asc"),
        keys=(str,),
    )
    if page.order not in ("id", "id asc", "id desc"):
        raise invalid_request(f"Pipelines can be ordered by 'id asc' or 'id desc', not {page.order!r}.")
    rising = page.order != "id desc"
    rows = Pipeline.objects.order_by("id" if rising else "-id")
    if page.after:
        rows = rows.filter(id__gt=page.after[0]) if rising else rows.filter(id__lt=page.after[0])
    condition = parse_pipelines_filter(page.filter)
    chosen = [pipeline for pipeline in rows if condition is None or matches_condition(pipeline, condition)]
    statuses = chosen[: page.size]
    answer: dict[str, Any] = {"statuses": [pipeline_facts(pipeline) for pipeline in statuses]}
    if len(chosen) > page.size:
        answer["next_page_token"] = page.token((statuses[-1].id,))
    return JsonResponse(answer)


def matches_condition(pipeline: Pipeline, condition: FilterCondition) -> bool:
    """Whether a pipeline passes the filter of a list request."""
    wanted = str(condition.values[0])
    if condition.column == "notebook":
        return any(
            library.get("notebook", {}).get("path") == wanted for library in pipeline.spec["libraries"]
        )
    return matches_like(wanted, pipeline.name) if condition.operator == "LIKE" else pipeline.name == wanted


def edit_pipeline(request: HttpRequest, pipeline_id: str) -> HttpResponse:
    """PUT /pipelines/{id}: replaces all settings. A stale expected_last_modified is a conflict."""
    pipeline, body = find_pipeline(pipeline_id), sent_body(request)
    if body.get("id") not in (None, pipeline_id):
        raise invalid_request(f"The settings carry id {body['id']}, which is not this pipeline's.")
    check_run_as(body, pipeline.creator)
    spec = settings_in(body, pipeline_id)
    check_name(spec["name"], body, but=pipeline_id)
    check_place(pipeline, spec)
    user: str = request.user_name  # type: ignore[attr-defined]
    with transaction.atomic(using="pipelines"):
        rows = Pipeline.objects.filter(pk=pipeline_id)
        if (expected := body.get("expected_last_modified")) is not None:
            rows = rows.filter(last_modified_ms=-1 if (at := read_whole(expected)) is None else at)
        moment = max(events.now_ms(), pipeline.last_modified_ms + 1)
        if not rows.update(name=spec["name"], spec=spec, last_modified_ms=moment):
            text = (
                f"The pipeline {pipeline_id} was changed since {expected}; read it again and repeat the edit."
            )
            raise ApiProblem(409, "RESOURCE_CONFLICT", text)
        pipeline.name = spec["name"]
        events.store_event(pipeline, "user_action", f"User {user} edited the pipeline's settings.",
                      {"action": "EDIT", "user_name": user})  # fmt: skip
    return empty_answer()


def delete_pipeline(request: HttpRequest, pipeline_id: str) -> HttpResponse:
    """DELETE /pipelines/{id}. `cascade` (default) drops the tables that its updates defined."""
    pipeline, instance = find_pipeline(pipeline_id), current_instance()
    if (running := active_of(pipeline)) is not None:
        raise active_update(pipeline_id, running.id)
    if read_flag(request.GET.get("cascade"), "cascade", default=True):
        drop_tables(pipeline)
    for update_id in pipeline.updates.values_list("id", flat=True):
        remove_folder(instance.home, update_id)
    pipeline.delete()
    return empty_answer()


def drop_tables(pipeline: Pipeline) -> None:
    """Drop the tables that this pipeline's updates wrote, but for those that another pipeline writes too.

    A dry run defines tables without writing them: deleting a pipeline that was only validated drops nothing.
    """
    others = {name for other in Pipeline.objects.exclude(pk=pipeline.pk) for name in written_tables(other)}
    for table in sorted(written_tables(pipeline) - others):
        current_instance().need_driver().drop_table(table)


def written_tables(pipeline: Pipeline) -> set[str]:
    """Tables that updates of this pipeline, dry runs left out, say they define."""
    wet = {u.id for u in pipeline.updates.all() if not u.options.get("validate_only")}
    return {
        event.body["origin"]["dataset_name"]
        for event in pipeline.events.filter(event_type="dataset_definition", update_id__in=wet)
        if event.body["details"]["dataset_definition"]["dataset_type"]
        in ("STREAMING_TABLE", "MATERIALIZED_VIEW")
    }


def clone_pipeline(request: HttpRequest, pipeline_id: str) -> HttpResponse:
    """POST /pipelines/{id}/clone: MIGRATE_TO_UC, its one mode, needs a Unity Catalog. Raises ApiProblem 400."""
    find_pipeline(pipeline_id)
    raise not_done("clone", "There is no Unity Catalog here to migrate to: create another pipeline.")


def apply_environment(request: HttpRequest, pipeline_id: str) -> HttpResponse:
    """POST /pipelines/{id}/environment/apply: pipelines have no environment of their own. Raises ApiProblem 400."""
    find_pipeline(pipeline_id)
    raise not_done("environment/apply", "Pipelines run in this server's own Python.")
