"""Addresses of the JSON API, and the right that each asks for."""

from typing import Final

from django.urls import URLPattern, path

from console.api import joint_plans, openapi, refreshes, runs, streams, ways, workspaces
from console.api.base import make_route
from console.api.recoveries import (
    look_up_positions,
    open_one,
    read_report,
    seal_plan,
    show_positions,
    show_recovery,
)
from recovery.people.roles import Right

ONE: Final = "api/v1/recoveries/<str:label>"
JOINT: Final = "api/v1/joint-plans/<str:joint>"
WORKSPACE: Final = "api/v1/workspaces/<str:workspace>"
ROUTES: Final[list[URLPattern]] = [
    path("api/v1/openapi.json", make_route(GET=(Right.VIEW, openapi.show_document))),
    path("api/v1/recoveries", make_route(POST=(Right.RECOVER, open_one))),
    path(ONE, make_route(GET=(Right.VIEW, show_recovery))),
    path(
        f"{ONE}/positions",
        make_route(GET=(Right.VIEW, show_positions), POST=(Right.RECOVER, look_up_positions)),
    ),
    path(f"{ONE}/ways", make_route(GET=(Right.VIEW, ways.show_ways), POST=(Right.RECOVER, ways.count_ways))),
    path(f"{ONE}/report", make_route(GET=(Right.VIEW, read_report))),
    path(f"{ONE}/plan", make_route(POST=(Right.RECOVER, seal_plan))),
    path("api/v1/joint-plans", make_route(POST=(Right.RECOVER, joint_plans.join_plans))),
    path(JOINT, make_route(GET=(Right.VIEW, joint_plans.show_joint))),
    *(
        path(f"{planned}/{name}", make_route(POST=act))
        for planned in (ONE, JOINT)
        for name, act in (
            ("request", (Right.RECOVER, runs.request_votes)),
            ("votes", (Right.APPROVE, runs.cast_vote)),
            ("start", (Right.RECOVER, runs.start_run)),
            ("rollback", (Right.RECOVER, runs.roll_back)),
            ("cancel", (Right.RECOVER, runs.cancel_planned)),
        )
    ),
    path("api/v1/refreshes", make_route(POST=(Right.RECOVER, refreshes.request_refresh))),
    path("api/v1/refreshes/<str:ticket>", make_route(GET=(Right.VIEW, refreshes.show_refresh))),
    path(
        "api/v1/streams",
        make_route(GET=(Right.VIEW, streams.list_streams), POST=(Right.RECOVER, streams.add_stream)),
    ),
    path("api/v1/streams/preview", make_route(POST=(Right.RECOVER, streams.show_preview))),
    path(
        "api/v1/workspaces",
        make_route(
            GET=(Right.MANAGE, workspaces.list_workspaces), POST=(Right.MANAGE, workspaces.add_workspace)
        ),
    ),
    path(
        WORKSPACE,
        make_route(
            GET=(Right.MANAGE, workspaces.show_workspace),
            PATCH=(Right.MANAGE, workspaces.change_workspace),
            DELETE=(Right.MANAGE, workspaces.remove_workspace),
        ),
    ),
    path(f"{WORKSPACE}/test", make_route(POST=(Right.MANAGE, workspaces.test_workspace))),
]
