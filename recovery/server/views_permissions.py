"""Permissions of a pipeline. This server has none by pipeline: whoever holds a token of it may do everything.

So what already holds is answered, and whoever asks for anything else learns that it is not so.
"""

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse

from recovery.server.fields import not_done
from recovery.server.http import sent_body
from recovery.server.models import Pipeline
from recovery.server.problems import invalid_request
from recovery.server.views_pipelines import find_pipeline

LEVELS = {
    "CAN_VIEW": "Can view the pipeline and its event log",
    "CAN_RUN": "Can start and stop updates",
    "CAN_MANAGE": "Can change the pipeline",
    "IS_OWNER": "Owns the pipeline",
}
WHO = ("user_name", "group_name", "service_principal_name")

EVERYBODY = "Anyone with a token of this server may do everything in it: give fewer people one."


def read_permissions(request: HttpRequest, pipeline_id: str) -> HttpResponse:
    """GET /permissions/pipelines/{id}: whoever made it owns it."""
    return JsonResponse(permissions_answer(find_pipeline(pipeline_id)))


def change_permissions(request: HttpRequest, pipeline_id: str) -> HttpResponse:
    """PUT and PATCH /permissions/pipelines/{id}. Raises ApiProblem 400 for what does not hold already."""
    pipeline = find_pipeline(pipeline_id)
    for entry in sent_body(request).get("access_control_list") or []:
        check_entry(entry)
        if entry != {"user_name": pipeline.creator, "permission_level": "IS_OWNER"}:
            raise not_done(
                "access_control_list",
                EVERYBODY,
            )
    return JsonResponse(permissions_answer(pipeline))


def change_folder(request: HttpRequest, object_id: str) -> HttpResponse:
    """PUT and PATCH /permissions/directories/{id}, which a bundle with `permissions` sends. Raises ApiProblem 400."""
    raise not_done("access_control_list", EVERYBODY)


def list_levels(request: HttpRequest, pipeline_id: str) -> HttpResponse:
    """GET /permissions/pipelines/{id}/permissionLevels."""
    find_pipeline(pipeline_id)
    levels = [{"permission_level": level, "description": text} for level, text in LEVELS.items()]
    return JsonResponse({"permission_levels": levels})


def check_entry(entry: dict[str, Any]) -> None:
    """Raises ApiProblem 400 for an entry that is none."""
    who = [name for name in WHO if isinstance(entry.get(name), str)]
    level = entry.get("permission_level")
    if len(who) != 1 or not isinstance(level, str) or level not in LEVELS:
        raise invalid_request(
            f"Each entry of access_control_list names one of {', '.join(WHO)}, and a permission_level of "
            f"{', '.join(LEVELS)}."
        )


def permissions_answer(pipeline: Pipeline) -> dict[str, Any]:
    """ObjectPermissions of the API."""
    grant = {"permission_level": "IS_OWNER", "inherited": False}
    entry = {"user_name": pipeline.creator, "all_permissions": [grant]}
    object_id = f"/pipelines/{pipeline.id}"
    return {"object_id": object_id, "object_type": "pipelines", "access_control_list": [entry]}
