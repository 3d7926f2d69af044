"""Addresses of the JSON API, and the right that each asks for."""

from typing import Final

from django.urls import URLPattern, path

from console.api.base import route
from console.api.recoveries import look, open_one, plan, positions, read
from recovery.people.roles import Right

ONE: Final = "api/v1/recoveries/<str:label>"
ROUTES: Final[list[URLPattern]] = [
    path("api/v1/recoveries", route(POST=(Right.RECOVER, open_one))),
    path(ONE, route(GET=(Right.VIEW, read))),
    path(f"{ONE}/positions", route(GET=(Right.VIEW, positions), POST=(Right.RECOVER, look))),
    path(f"{ONE}/plan", route(POST=(Right.RECOVER, plan))),
]
