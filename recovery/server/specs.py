"""Pipeline settings: what a request may say, and what the server fills in.

The answered spec always holds `catalog`, `schema` (or `target`) and `storage`, so that a reader of the
API alone can find every checkpoint.
"""

import re
from pathlib import Path, PurePosixPath
from typing import Any

from recovery.server.alias import is_plain
from recovery.server.problems import invalid

FIELDS = (
    *(
        "name",
        "catalog",
        "schema",
        "target",
        "storage",
        "root_path",
        "parent_path",
        "libraries",
        "configuration",
    ),
    *("continuous", "development", "serverless", "photon", "edition", "channel", "clusters", "environment"),
    *("event_log", "filters", "notifications", "tags", "trigger", "restart_window", "deployment"),
    *("budget_policy_id", "usage_policy_id"),
)
NAME = re.compile(r"[A-Za-z0-9_]+\Z")
DEFAULT_CATALOG = "spark_catalog"
DEFAULT_SCHEMA = "default"


def database_of(spec: dict[str, Any]) -> str:
    """The database that unqualified names of a pipeline stand in."""
    return str(spec.get("schema") or spec.get("target") or DEFAULT_SCHEMA)


def read_spec(body: dict[str, Any], *, pipeline_id: str, home: Path) -> dict[str, Any]:
    """The complete spec of a create or edit request. Raises ApiProblem 400 for the first thing wrong.

    Fields that the API knows and this server has no use for are kept and answered; unknown ones are dropped.
    """
    spec = {key: body[key] for key in FIELDS if body.get(key) is not None}
    check_texts(spec)
    if not str(spec.get("name", "")).strip():
        raise invalid("A pipeline needs a name.")
    if spec.get("continuous"):
        raise invalid(
            "Continuous pipelines are not supported here; set continuous to false and start updates."
        )
    spec["configuration"] = read_configuration(spec.get("configuration", {}))
    spec["libraries"] = read_libraries(spec.get("libraries", []))
    spec |= {"id": pipeline_id, "continuous": False, "development": bool(spec.get("development", False))}
    spec.setdefault("catalog", DEFAULT_CATALOG)
    if spec.get("schema") and spec.get("target"):
        raise invalid("Give schema or target, not both.")
    if not spec.get("schema") and not spec.get("target"):
        spec["schema"] = DEFAULT_SCHEMA
    for key in ("catalog", "schema", "target"):
        if key in spec and not NAME.match(spec[key]):
            raise invalid(f"{key} {spec[key]!r} may hold only letters, digits and '_'.")
    spec["storage"] = read_storage(spec.get("storage"), pipeline_id=pipeline_id, home=home)
    return spec


def check_texts(spec: dict[str, Any]) -> None:
    """Text fields hold text. Raises ApiProblem 400."""
    for key in ("name", "catalog", "schema", "target", "storage", "root_path"):
        if key in spec and not isinstance(spec[key], str):
            raise invalid(f"{key} must be text.")
    if not isinstance(spec.get("tags", {}), dict):
        raise invalid("tags must be an object of texts.")
    if (root := spec.get("root_path")) and not root.startswith("/"):
        raise invalid(f"root_path {root!r} must be a workspace path, which starts with '/'.")


def read_configuration(value: Any) -> dict[str, str]:
    """Spark settings as text to text. Raises ApiProblem 400."""
    if not isinstance(value, dict):
        raise invalid("configuration must be an object of texts.")
    for key, item in value.items():
        if isinstance(item, dict | list) or item is None:
            raise invalid(f"configuration {key!r} must be text.")
    return {key: str(v).lower() if isinstance(v, bool) else str(v) for key, v in value.items()}


def read_libraries(value: Any) -> list[dict[str, dict[str, str]]]:
    """`file`, `glob` and `notebook` entries. Raises ApiProblem 400 for others (jars come with the driver)."""
    if not isinstance(value, list):
        raise invalid("libraries must be a list.")
    libraries = []
    for entry in value:
        for kind, key in (("file", "path"), ("notebook", "path"), ("glob", "include")):
            inner = entry.get(kind) if isinstance(entry, dict) else None
            if isinstance(inner, dict) and isinstance(inner.get(key), str) and inner[key]:
                libraries.append({kind: {key: inner[key]}})
                break
        else:
            raise invalid("Each library must be file{path}, glob{include} or notebook{path}.")
    return libraries


def read_storage(value: str | None, *, pipeline_id: str, home: Path) -> str:
    """The storage root as a URI; Spark refuses one without a scheme. Raises ApiProblem 400."""
    if not value:
        return f"file:{home / 'storage' / pipeline_id}"
    if value.startswith("/"):
        value = f"file:{value}"
    if not re.match(r"[a-z][a-z0-9+.-]*:/", value):
        raise invalid(f"storage {value!r} must be an absolute URI such as file:/data/pipeline.")
    if not is_plain(value):
        raise invalid(
            f"storage {value!r} may not hold spaces or '%': Spark would write its checkpoints elsewhere."
        )
    return value.rstrip("/")


def root_of(spec: dict[str, Any]) -> str:
    """The workspace folder that helper modules are imported from: `root_path`, else beside the first file."""
    if spec.get("root_path"):
        return str(spec["root_path"]).rstrip("/") or "/"
    for library in spec["libraries"]:
        path = next(iter(next(iter(library.values())).values()))
        if path.startswith("/"):
            return (
                str(PurePosixPath(path.removesuffix("/**")).parent)
                if "glob" not in library
                else glob_root(path)
            )
    return "/"


def glob_root(include: str) -> str:
    """The folder of a glob before its first wildcard."""
    parts = PurePosixPath(include).parts
    fixed = [part for index, part in enumerate(parts) if not any("*" in p for p in parts[: index + 1])]
    return str(PurePosixPath(*fixed)) if fixed else "/"
