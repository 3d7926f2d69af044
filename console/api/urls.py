"""Addresses of the JSON API, and the right that each asks for."""

from typing import Final

from django.urls import URLPattern, path

from console.api import openapi, refreshes, workspaces
from console.api.base import route
from console.api.recoveries import look, open_one, plan, positions, read, read_report
from recovery.people.roles import Right

ONE: Final = "api/v1/recoveries/<str:label>"
WORKSPACE: Final = "api/v1/workspaces/<str:workspace>"
ROUTES: Final[list[URLPattern]] = [
    path("api/v1/openapi.json", route(GET=(Right.VIEW, openapi.published))),
    path("api/v1/recoveries", route(POST=(Right.RECOVER, open_one))),
    path(ONE, route(GET=(Right.VIEW, read))),
    path(f"{ONE}/positions", route(GET=(Right.VIEW, positions), POST=(Right.RECOVER, look))),
    path(f"{ONE}/report", route(GET=(Right.VIEW, read_report))),
    path(f"{ONE}/plan", route(POST=(Right.RECOVER, plan))),
    path("api/v1/refreshes", route(POST=(Right.RECOVER, refreshes.request_refresh))),
    path("api/v1/refreshes/<str:ticket>", route(GET=(Right.VIEW, refreshes.show_refresh))),
    path(
        "api/v1/workspaces",
        route(GET=(Right.MANAGE, workspaces.listing), POST=(Right.MANAGE, workspaces.add)),
    ),
    path(
        WORKSPACE,
        route(
            GET=(Right.MANAGE, workspaces.read),
            PATCH=(Right.MANAGE, workspaces.change),
            DELETE=(Right.MANAGE, workspaces.remove),
        ),
    ),
    path(f"{WORKSPACE}/test", route(POST=(Right.MANAGE, workspaces.test))),
]
