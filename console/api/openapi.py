"""The OpenAPI document of the JSON API, made from its routes; what each act takes is here, a line each.

A test holds this table against what the acts themselves refuse, and the answers against the document.
"""

import inspect
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.urls import URLPattern

from console.api import joint_plans, recoveries, refreshes, runs, streams, workspaces
from console.api.base import Act, Body, acts_of
from recovery.people.roles import ENVIRONMENTS, Actor
from recovery.streams.actions import RUNNERS

Schema = dict[str, Any]
TEXT: Final[Schema] = {"type": "string"}
TEXTS: Final[Schema] = {"type": "array", "items": TEXT}
YES: Final[Schema] = {"type": "boolean"}
FILES: Final[Schema] = {"type": "object", "additionalProperties": TEXT}
MEANT: Final[Schema] = {"type": "string", "enum": ["", "yes", "no", "unknown"]}
CHOSEN: Final[Mapping[str, Schema]] = {
    "strategy": TEXT, "key": TEXTS, "patch": FILES, "meant": MEANT, "to": TEXT,
}  # fmt: skip
GIVEN: Final[Mapping[str, Schema]] = {**dict.fromkeys(workspaces.GIVEN, TEXT), "roots": TEXTS}
TAKES: Final[Mapping[Act, Mapping[str, Schema]]] = {
    recoveries.open_one: {"pipeline": TEXT, "flow": TEXT, "again": YES, "healthy": YES},
    recoveries.look_up_positions: {"position": TEXTS, **CHOSEN},
    recoveries.seal_plan: {
        "position": TEXTS,
        "confirm": TEXTS,
        "accept_loss": YES,
        "accept_repeats": YES,
        "refresh_below": YES,
        **CHOSEN,
    },
    joint_plans.join_plans: {"recoveries": TEXTS},
    runs.request_votes: {"plan_hash": TEXT, "reason": TEXT},
    runs.cast_vote: {
        "choice": {**TEXT, "enum": ["approve", "reject"]},
        "plan_hash": TEXT,
        "reason": TEXT,
    },
    runs.start_run: {"plan_hash": TEXT},
    runs.roll_back: {"plan_hash": TEXT, "reason": TEXT},
    runs.cancel_planned: {"reason": TEXT},
    refreshes.request_refresh: {"pipeline": TEXT, "flow": TEXT},
    streams.add_stream: {
        "checkpoint": TEXT,
        "arguments": TEXTS,
        **dict.fromkeys(streams.TEXTS, TEXT),
        "environment": {**TEXT, "enum": list(ENVIRONMENTS)},
        "runner": {**TEXT, "enum": list(RUNNERS)},
    },
    streams.show_preview: {"checkpoint": TEXT, **dict.fromkeys(streams.NAMED, TEXT)},
    workspaces.add_workspace: {"name": TEXT, **GIVEN},
    workspaces.change_workspace: {"on": YES, **GIVEN},
    workspaces.remove_workspace: {"reason": TEXT},
}
"""What is not here takes nothing."""
NEEDED: Final[Mapping[Act, tuple[str, ...]]] = {
    recoveries.open_one: ("pipeline",),
    joint_plans.join_plans: ("recoveries",),
    runs.request_votes: ("plan_hash",),
    runs.cast_vote: ("choice", "plan_hash", "reason"),
    runs.start_run: ("plan_hash",),
    runs.roll_back: ("plan_hash", "reason"),
    runs.cancel_planned: ("reason",),
    refreshes.request_refresh: ("pipeline",),
    streams.add_stream: ("checkpoint",),
    streams.show_preview: ("checkpoint",),
    workspaces.add_workspace: ("name",),
}
PROBLEM: Final[Schema] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "says"],
            "properties": {"code": TEXT, "says": TEXT, "flags": TEXTS},
        }
    },
}
DONE: Final[Mapping[int, str]] = {200: "Done.", 201: "Made.", 202: "A worker is at it; ask again with GET."}


def show_document(body: Body, by: Actor) -> tuple[int, Body]:
    """This document."""
    from console.api.urls import ROUTES

    return 200, build_document(ROUTES)


def build_document(routes: Iterable[URLPattern]) -> dict[str, Any]:
    """OpenAPI 3.1 of these routes."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Reprise", "version": "1"},
        "security": [{"token": []}],
        "paths": {
            openapi_path(route): {
                method.lower(): describe_operation(route, method, act) for method, act in acts_of(route)
            }
            for route in routes
        },
        "components": {
            "schemas": {"Problem": PROBLEM},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def openapi_path(route: URLPattern) -> str:
    """A route as OpenAPI writes it."""
    return "/" + re.sub(r"<\w+:(\w+)>", r"{\1}", str(route.pattern))


def describe_operation(route: URLPattern, method: str, act: Act) -> dict[str, Any]:
    """One method of one address."""
    where = openapi_path(route)
    operation: dict[str, Any] = {
        "operationId": f"{method.lower()} {where}",
        "summary": " ".join((inspect.getdoc(act) or "").split("\n\n")[0].split()),
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": TEXT}
            for name in re.findall(r"\{(\w+)\}", where)
        ],
        "responses": {
            **{
                str(status): {"description": says, "content": _json_content({"type": "object"})}
                for status, says in DONE.items()
            },
            "default": {
                "description": "Refused; the code names the reason.",
                "content": _json_content({"$ref": "#/components/schemas/Problem"}),
            },
        },
    }  # fmt: skip
    if method != "GET":
        takes = {
            "type": "object",
            "properties": dict(TAKES.get(act, {})),
            "required": list(NEEDED.get(act, ())),
            "additionalProperties": False,
        }
        operation["requestBody"] = {"required": bool(NEEDED.get(act)), "content": _json_content(takes)}
    return operation


def _json_content(schema: Schema) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
