"""What a request may say: the fields of each body, their kinds, and what this server does about them.

An unknown field is refused, and so is one that asks for what is not done here: whoever limits an update to
one flow must not have every flow updated. Fields that change nothing of what runs are kept and answered.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from recovery.server.problems import ApiProblem, invalid_request
from recovery.server.questions import QUESTIONS


class JsonKind(StrEnum):
    """What JSON a field holds."""

    TEXT = "text"
    FLAG = "true or false"
    NUMBER = "a whole number"  # or one in digits, as clients write 64 bits
    NAMES = "a list of names"
    LIST = "a list"
    OBJECTS = "a list of objects"
    TEXTS = "an object of texts"
    OBJECT = "an object"


@dataclass(frozen=True)
class Field:
    """One field of a body or of a query. `instead`: it is not done here; refused unless it says nothing, and the
    sentence says what to do."""

    name: str
    kind: JsonKind = JsonKind.TEXT
    required: bool = False
    instead: str = ""
    choices: tuple[str, ...] = ()


Fields = tuple[Field, ...]
DEEPEST = 50
CAUSES = (
    *("API_CALL", "INFRASTRUCTURE_MAINTENANCE", "JOB_TASK", "RETRY_ON_FAILURE", "SCHEMA_CHANGE"),
    *("SERVICE_UPGRADE", "USER_ACTION"),
)
_NO_SELECTION = "Spark refreshes tables, not flows: name tables in refresh_selection."
_ELSEWHERE = "Leave it out."


def _fields_of_kind(kind: JsonKind, *names: str) -> Fields:
    return tuple(Field(name, kind) for name in names)


SPEC: Fields = (
    Field("name", required=True),
    *_fields_of_kind(
        JsonKind.TEXT, "id", "catalog", "schema", "target", "storage", "root_path", "parent_path"
    ),
    *_fields_of_kind(
        JsonKind.TEXT, "edition", "channel", "budget_policy_id", "usage_policy_id", "serverless_compute_id"
    ),
    *_fields_of_kind(JsonKind.FLAG, "continuous", "development", "serverless", "photon"),
    Field("libraries", JsonKind.OBJECTS),
    Field("configuration", JsonKind.OBJECT),
    Field("clusters", JsonKind.OBJECTS),
    Field("tags", JsonKind.TEXTS),
    *_fields_of_kind(JsonKind.OBJECT, "deployment", "restart_window"),
    Field("filters", JsonKind.OBJECT, instead="Every library runs whole: name the files in libraries."),
    Field(
        "environment",
        JsonKind.OBJECT,
        instead="Pipelines run in this server's own Python: install their packages there.",
    ),
    Field("event_log", JsonKind.OBJECT, instead="No table of events is written: read the events route."),
    Field(
        "notifications", JsonKind.LIST, instead="This server sends no mail: set up notifications elsewhere."
    ),
    Field("trigger", JsonKind.OBJECT, instead="Nothing is started by the clock here: start updates."),
    Field("ingestion_definition", JsonKind.OBJECT, instead="There are no managed connectors here."),
    Field("gateway_definition", JsonKind.OBJECT, instead="There are no managed connectors here."),
)
"""Settings of a pipeline. What is not done here never gets into a stored one."""

_WITH_SPEC: Fields = (
    *SPEC,
    Field("allow_duplicate_names", JsonKind.FLAG),
    Field("run_as", JsonKind.OBJECT),  # the one whose rights count already may be named
    Field(
        "parameters",
        JsonKind.OBJECT,
        instead="Put values into configuration, which code reads as spark.conf.",
    ),
)
CREATE: Fields = (*_WITH_SPEC, Field("dry_run", JsonKind.FLAG))
EDIT: Fields = (*_WITH_SPEC, Field("pipeline_id"), Field("expected_last_modified", JsonKind.NUMBER))
START: Fields = (
    *_fields_of_kind(
        JsonKind.NAMES, "refresh_selection", "full_refresh_selection", "reset_checkpoint_selection"
    ),
    *_fields_of_kind(JsonKind.FLAG, "full_refresh", "validate_only", "development"),
    Field("cause", choices=CAUSES),
    Field("refresh_flow_selection", JsonKind.NAMES, instead=_NO_SELECTION),
    Field("parameters", JsonKind.OBJECT, instead="Put values into the pipeline's configuration."),
    Field("rewind_spec", JsonKind.OBJECT, instead=_ELSEWHERE),
    Field("replace_where_overrides", JsonKind.LIST, instead=_ELSEWHERE),
    Field("refresh_selection_by_path", JsonKind.NAMES, instead="Name tables in refresh_selection."),
    Field("full_refresh_selection_by_path", JsonKind.NAMES, instead="Name tables in full_refresh_selection."),
)
PERMISSIONS: Fields = (Field("access_control_list", JsonKind.OBJECTS, required=True),)
IMPORT: Fields = (
    Field("path", required=True),
    Field("content"),
    Field("format", choices=("AUTO", "RAW", "SOURCE")),
    Field("language", choices=("PYTHON", "SQL")),
    Field("overwrite", JsonKind.FLAG),
)
PATH: Fields = (Field("path", required=True),)
DELETE: Fields = (*PATH, Field("recursive", JsonKind.FLAG))
QUESTION: Fields = (
    Field("question", required=True, choices=QUESTIONS),
    Field("request", JsonKind.OBJECT, required=True),
    Field("seconds", JsonKind.NUMBER, required=True),
    Field("spark"),
    Field("environment"),
)


def check_fields(body: dict[str, Any], fields: Fields) -> None:
    """Raises ApiProblem 400 for a field that is unknown, of another kind, or asks for what is not done here."""
    known = {field.name: field for field in fields}
    if strange := sorted(set(body) - set(known)):
        allowed = f"it may hold {', '.join(sorted(known))}" if known else "it holds none"
        raise invalid_request(f"The request has no field {', '.join(map(ascii, strange))}; {allowed}.")
    check_texts(body)
    for name, value in body.items():
        check_value(known[name], value)


def check_value(field: Field, value: Any) -> None:
    """One field's value. Raises ApiProblem 400. What says nothing (null, empty) is never wrong."""
    if value is None:
        return
    if not _fits_kind(field.kind, value):
        raise invalid_request(f"{field.name} must be {field.kind}.")
    if field.choices and value and value not in field.choices:
        raise invalid_request(f"{field.name} must be one of {', '.join(field.choices)}.")
    if field.instead and says_something(value):
        raise not_done(field.name, field.instead)


def not_done(name: str, instead: str) -> ApiProblem:
    """400: the request asks for what this server does not do, and what to do instead."""
    return ApiProblem(
        400, "INVALID_PARAMETER_VALUE", f"{name} is not supported by this server. {instead}", field=name
    )


def says_something(value: Any) -> bool:
    """Whether a value holds anything but nothing, at any depth: `{"include": []}` does not."""
    return any(leaf not in (None, "", False) for leaf, _, is_key in _iterate_leaves(value) if not is_key)


def _fits_kind(kind: JsonKind, value: Any) -> bool:
    match kind:
        case JsonKind.TEXT:
            return isinstance(value, str)
        case JsonKind.FLAG:
            return isinstance(value, bool)
        case JsonKind.NUMBER:
            whole = isinstance(value, int) and not isinstance(value, bool)
            return whole or (isinstance(value, str) and value.isascii() and value.isdigit())
        case JsonKind.NAMES:
            return isinstance(value, list) and all(isinstance(item, str) and item for item in value)
        case JsonKind.LIST:
            return isinstance(value, list)
        case JsonKind.OBJECTS:
            return isinstance(value, list) and all(isinstance(item, dict) for item in value)
        case JsonKind.TEXTS:
            return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())
        case JsonKind.OBJECT:
            return isinstance(value, dict)


def check_texts(body: Any) -> None:
    """Raises ApiProblem 400 for a text that no database takes (with NUL, or half of a character), and for what is
    too deep to be written down again."""
    for leaf, depth, _ in _iterate_leaves(body):
        if depth > DEEPEST:
            raise invalid_request(f"The request is nested more than {DEEPEST} deep.")
        if isinstance(leaf, str) and ("\0" in leaf or any("\ud800" <= c <= "\udfff" for c in leaf)):
            raise invalid_request("A text holds NUL or half of a character (U+D800 to U+DFFF); take it out.")


def _iterate_leaves(value: Any) -> Iterator[tuple[Any, int, bool]]:
    """(value, how deep it is, whether it is a key) of each key, and of each value that holds no others."""
    left = [(value, 0)]
    while left:  # no recursion: what was sent may be as deep as it likes
        item, depth = left.pop()
        if isinstance(item, dict):
            left += [(value, depth + 1) for value in item.values()]
            yield from ((key, depth, True) for key in item)
        elif isinstance(item, list):
            left += [(value, depth + 1) for value in item]
        else:
            yield item, depth, False
