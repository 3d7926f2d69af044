"""The OpenAPI document of this server, made from its routes and the fields that they check."""

import inspect
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from recovery.server.fields import Field, Fields, JsonKind
from recovery.server.http import PUBLIC, WITH_BODY, Route

Schema = dict[str, Any]
TEXT: Final[Schema] = {"type": "string"}
KINDS: Final[Mapping[JsonKind, Schema]] = {
    JsonKind.TEXT: TEXT,
    JsonKind.FLAG: {"type": "boolean"},
    JsonKind.NUMBER: {"type": "integer", "minimum": 0},
    JsonKind.NAMES: {"type": "array", "items": {"type": "string", "minLength": 1}},
    JsonKind.LIST: {"type": "array"},
    JsonKind.OBJECTS: {"type": "array", "items": {"type": "object"}},
    JsonKind.TEXTS: {"type": "object", "additionalProperties": TEXT},
    JsonKind.OBJECT: {"type": "object"},
}
BYTES: Final[Schema] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}


def _schema_of(required: str = "", optional: str = "", **nested: Schema) -> Schema:
    """An object whose fields, named with spaces between them, are texts unless `nested` says otherwise."""
    names = [*required.split(), *optional.split()]
    fields = dict.fromkeys(names, TEXT) | nested
    return {"type": "object", "properties": fields, "required": required.split()}


def _reference_to(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _list_of(name: str) -> Schema:
    return {"type": "array", "items": _reference_to(name)}


NUMBER: Final[Schema] = {"type": "integer"}
THINGS: Final[Schema] = {"type": "object"}
SCHEMAS: Final[Mapping[str, Schema]] = {
    "Problem": _schema_of("error_code message", details={"type": "array"}),
    "Nothing": {"type": "object", "maxProperties": 0},
    "Spec": _schema_of("id name catalog storage", libraries={"type": "array"}, configuration=THINGS),
    "PipelineState": _schema_of("pipeline_id name state", "health creator_user_name", latest_updates={"type": "array"}),
    "Pipeline": _schema_of("pipeline_id name state", "health", spec=_reference_to("Spec"), last_modified=NUMBER),
    "Pipelines": _schema_of("", "next_page_token", statuses=_list_of("PipelineState")),
    "Made": _schema_of("", "pipeline_id", effective_settings=THINGS),
    "Update": _schema_of("update_id pipeline_id state cause", creation_time=NUMBER),
    "OneUpdate": _schema_of("", "", update=_reference_to("Update")),
    "Updates": _schema_of("", "next_page_token", updates=_list_of("Update")),
    "Started": _schema_of("update_id"),
    "Event": _schema_of("id timestamp message level event_type", origin=THINGS, details=THINGS, error=THINGS),
    "Events": _schema_of("", "next_page_token", events=_list_of("Event")),
    "Permissions": _schema_of("object_id object_type", access_control_list={"type": "array"}),
    "Levels": _schema_of("", permission_levels={"type": "array"}),
    "File": _schema_of("path object_type", object_id=NUMBER, size=NUMBER, created_at=NUMBER, modified_at=NUMBER),
    "Files": _schema_of("", objects=_list_of("File")),
    "Content": _schema_of("content file_type"),
    "Source": _schema_of("", files={"type": "array"}),
    "Health": _schema_of("spark", active_updates=NUMBER),
    "Answered": _schema_of("", "error sentence", answer=THINGS),
    "Owner": _schema_of("id userName", active={"type": "boolean"}),
    "Discovery": _schema_of("oidc_endpoint"),
    "Document": _schema_of("openapi", info=THINGS, paths=THINGS),
}  # fmt: skip


def build_document(routes: Iterable[Route]) -> dict[str, Any]:
    """OpenAPI 3.1 of these routes."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = describe_operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Reprise: Pipelines API server", "version": "2.0"},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": dict(SCHEMAS),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def describe_operation(route: Route) -> dict[str, Any]:
    """One method of one address: what it takes, and what it answers."""
    names = re.findall(r"\{(\w+)\}", route.path)
    operation: dict[str, Any] = {
        "operationId": f"{route.method.lower()} {route.path}",
        "summary": " ".join((inspect.getdoc(route.view) or "").split("\n\n")[0].split()),
        "parameters": [
            *({"name": name, "in": "path", "required": True, "schema": TEXT} for name in names),
            *(describe_parameter(field) for field in route.query),
        ],
        "responses": {
            "200": {"description": "Done.", "content": content_of(route.answer)},
            "default": {"description": "Refused, with a sentence.", "content": content_of("Problem")},
        },
    }
    if route.path in PUBLIC:
        operation["security"] = []
    if route.method in WITH_BODY:
        kinds = BYTES if route.body is None else {"application/json": {"schema": body_of(route.body)}}
        operation["requestBody"] = {"content": kinds}
    return operation


def content_of(name: str) -> dict[str, Any]:
    """What an answer of this name is. An exported file may come as its bytes."""
    json = {"application/json": {"schema": _reference_to(name)}}
    return json | BYTES if name == "Content" else json


def describe_parameter(field: Field) -> dict[str, Any]:
    """One field of a query."""
    return {"name": field.name, "in": "query", "required": field.required, "schema": field_schema(field)}


def body_of(fields: Fields) -> Schema:
    """A JSON body: these fields, and none beside them."""
    return {
        "type": "object",
        "properties": {field.name: allow_null(field_schema(field)) for field in fields},
        "required": [field.name for field in fields if field.required],
        "additionalProperties": False,
    }


def field_schema(field: Field) -> Schema:
    """The values of one field. Of one that is not done here: only those that say nothing."""
    schema = dict(KINDS[field.kind])
    if field.choices:
        schema["enum"] = list(field.choices)
    if field.instead:
        schema |= {"description": f"Not done here. {field.instead}", "maxItems": 0, "maxProperties": 0}
    return schema


def allow_null(schema: Schema) -> Schema:
    """A field may be null, which says nothing."""
    values = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return schema | {"type": [schema["type"], "null"]} | values
