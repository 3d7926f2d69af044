"""Every route of the Pipelines API, without slashes at the end: a redirect would turn a POST into a GET."""

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path

from recovery.server import (
    fields,
    views_misc,
    views_permissions,
    views_pipelines,
    views_questions,
    views_updates,
    views_workspace,
)
from recovery.server.fields import Field, JsonKind
from recovery.server.http import LARGEST_QUESTION, Route, answer_routes
from recovery.server.openapi import build_document

API = "/api/2.0"
ONE = f"{API}/pipelines/{{pipeline_id}}"
RIGHTS = f"{API}/permissions/pipelines/{{pipeline_id}}"
FOLDERS = f"{API}/permissions/directories/{{object_id}}"
EXTRA = f"{API}/x-reprise"
BYTES = f"{API}/workspace-files/import-file/{{path}}"
PAGES = (Field("max_results", JsonKind.NUMBER), Field("page_token"))
FOUND = (*PAGES, Field("filter"), Field("order_by"))
EXPORT = (
    *fields.PATH,
    Field("format", choices=("SOURCE", "RAW", "AUTO")),
    Field("direct_download", JsonKind.FLAG),
)


def publish_document(request: HttpRequest) -> HttpResponse:
    """GET /api/openapi.json: this document."""
    return JsonResponse(build_document(ROUTES))


ROUTES = (
    Route("GET", "/api/openapi.json", publish_document, answer="Document"),
    Route("GET", "/.well-known/databricks-config", views_misc.discover_host, answer="Discovery"),
    Route("GET", f"{API}/preview/scim/v2/Me", views_misc.show_token_owner, answer="Owner"),
    Route("GET", f"{API}/pipelines", views_pipelines.list_pipelines, query=FOUND, answer="Pipelines"),
    Route("POST", f"{API}/pipelines", views_pipelines.create_pipeline, body=fields.CREATE, answer="Made"),
    Route("GET", ONE, views_pipelines.read_pipeline, answer="Pipeline"),
    Route("PUT", ONE, views_pipelines.edit_pipeline, body=fields.EDIT),
    Route(
        "DELETE",
        ONE,
        views_pipelines.delete_pipeline,
        query=(Field("cascade", JsonKind.FLAG), Field("force", JsonKind.FLAG)),
    ),
    Route("POST", f"{ONE}/clone", views_pipelines.clone_pipeline, body=None),
    Route("POST", f"{ONE}/environment/apply", views_pipelines.apply_environment),
    Route(
        "GET",
        f"{ONE}/updates",
        views_updates.list_updates,
        query=(*PAGES, Field("until_update_id")),
        answer="Updates",
    ),
    Route("POST", f"{ONE}/updates", views_updates.post_update, body=fields.START, answer="Started"),
    Route("GET", f"{ONE}/updates/{{update_id}}", views_updates.read_update, answer="OneUpdate"),
    Route("POST", f"{ONE}/stop", views_updates.stop_update),
    Route("GET", f"{ONE}/events", views_updates.event_list, query=FOUND, answer="Events"),
    Route("GET", RIGHTS, views_permissions.read_permissions, answer="Permissions"),
    Route("PUT", RIGHTS, views_permissions.change_permissions, body=fields.PERMISSIONS, answer="Permissions"),
    Route(
        "PATCH", RIGHTS, views_permissions.change_permissions, body=fields.PERMISSIONS, answer="Permissions"
    ),
    Route("PUT", FOLDERS, views_permissions.change_folder, body=fields.PERMISSIONS),
    Route("PATCH", FOLDERS, views_permissions.change_folder, body=fields.PERMISSIONS),
    Route("GET", f"{RIGHTS}/permissionLevels", views_permissions.list_levels, answer="Levels"),
    Route("GET", f"{API}/workspace/get-status", views_workspace.get_status, query=fields.PATH, answer="File"),
    Route("GET", f"{API}/workspace/list", views_workspace.list_folder, query=fields.PATH, answer="Files"),
    Route("GET", f"{API}/workspace/export", views_workspace.export_file, query=EXPORT, answer="Content"),
    Route("POST", f"{API}/workspace/import", views_workspace.import_file, body=fields.IMPORT),
    Route("POST", BYTES, views_workspace.import_bytes, query=(Field("overwrite", JsonKind.FLAG),), body=None),
    Route("POST", f"{API}/workspace/delete", views_workspace.delete_path, body=fields.DELETE),
    Route("POST", f"{API}/workspace/mkdirs", views_workspace.make_folder, body=fields.PATH),
    Route(
        "GET",
        f"{EXTRA}/pipelines/{{pipeline_id}}/updates/{{update_id}}/source",
        views_updates.read_update_source,
        answer="Source",
    ),
    Route(
        "POST",
        f"{EXTRA}/questions",
        views_questions.ask_question,
        body=fields.QUESTION,
        answer="Answered",
        largest=LARGEST_QUESTION,
    ),
    Route("GET", f"{EXTRA}/health", views_misc.show_health, answer="Health"),
)


def django_pattern(address: str) -> str:
    """An address as Django writes it. `{path}` is the rest of it, slashes and all."""
    plain = address.removeprefix("/").replace("{path}", "<path:path>")
    return plain.replace("{", "<str:").replace("}", ">")


urlpatterns = [
    path(django_pattern(address), answer_routes([route for route in ROUTES if route.path == address]))
    for address in dict.fromkeys(route.path for route in ROUTES)
]
