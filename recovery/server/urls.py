"""Every route of the Pipelines API, without slashes at the end: a redirect would turn a POST into a GET."""

from django.urls import path

from recovery.server import views_misc, views_pipelines, views_updates, views_workspace
from recovery.server.http import methods

API = "api/2.0"
ONE = f"{API}/pipelines/<str:pipeline_id>"
EXTRA = f"{API}/x-reprise"

urlpatterns = [
    path(".well-known/databricks-config", methods(GET=views_misc.discovery)),
    path(f"{API}/preview/scim/v2/Me", methods(GET=views_misc.me)),
    path(f"{API}/pipelines", methods(GET=views_pipelines.listing, POST=views_pipelines.create)),
    path(ONE, methods(GET=views_pipelines.read, PUT=views_pipelines.edit, DELETE=views_pipelines.delete)),
    path(f"{ONE}/updates", methods(GET=views_updates.listing, POST=views_updates.start)),
    path(f"{ONE}/updates/<str:update_id>", methods(GET=views_updates.read)),
    path(f"{ONE}/stop", methods(POST=views_updates.stop)),
    path(f"{ONE}/events", methods(GET=views_updates.event_list)),
    path(f"{API}/permissions/pipelines/<str:pipeline_id>", methods(GET=views_pipelines.permissions)),
    path(
        f"{API}/permissions/pipelines/<str:pipeline_id>/permissionLevels",
        methods(GET=views_pipelines.permission_levels),
    ),
    path(f"{API}/workspace/get-status", methods(GET=views_workspace.status)),
    path(f"{API}/workspace/list", methods(GET=views_workspace.listing)),
    path(f"{API}/workspace/export", methods(GET=views_workspace.export)),
    path(f"{API}/workspace/import", methods(POST=views_workspace.import_file)),
    path(f"{API}/workspace/delete", methods(POST=views_workspace.delete)),
    path(f"{API}/workspace/mkdirs", methods(POST=views_workspace.mkdirs)),
    path(
        f"{EXTRA}/pipelines/<str:pipeline_id>/updates/<str:update_id>/source",
        methods(GET=views_updates.source),
    ),
    path(f"{EXTRA}/health", methods(GET=views_misc.health)),
]
