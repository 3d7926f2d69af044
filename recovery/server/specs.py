"""Pipeline settings: what a request may say, and what the server fills in.

The answered spec always holds `catalog`, `schema` (or `target`) and `storage`, so that a reader of the
API alone can find every checkpoint.
"""

import re
from pathlib import Path, PurePosixPath
from typing import Any

from recovery.names import is_plain, shown
from recovery.server.fields import SPEC, not_done, says_something
from recovery.server.problems import invalid_request
from recovery.server.storage_symlink import is_plain as is_plain_path

LIBRARIES = {"file": "path", "notebook": "path", "glob": "include"}
NOT_OF_CLUSTERS = {
    "spark_conf": "Put Spark's settings into configuration.",
    "init_scripts": "Install what pipelines need in this server's own Python.",
}
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
OWN_VARIABLES = ("SPARK_", "PYSPARK_")
LONGEST_NAME = 255
SECRET = re.compile(r"\{\{\s*secrets/")
NAME = re.compile(r"[A-Za-z0-9_]+\Z")
DEFAULT_CATALOG = "spark_catalog"
DEFAULT_SCHEMA = "default"


def database_of(spec: dict[str, Any]) -> str:
    """The database that unqualified names of a pipeline stand in."""
    return str(spec.get("schema") or spec.get("target") or DEFAULT_SCHEMA)


def read_spec(body: dict[str, Any], *, pipeline_id: str, home: Path) -> dict[str, Any]:
    """The complete spec of a create or edit request whose fields were checked. Raises ApiProblem 400 for the first
    thing wrong.

    Fields that change nothing here are kept and answered; what is not of the spec (`dry_run`) is left out.
    """
    kept = (field.name for field in SPEC if not field.instead)
    spec = {key: body[key] for key in kept if body.get(key) is not None}
    check_name(spec.get("name", ""))
    if spec.get("continuous"):
        raise invalid_request(
            "Continuous pipelines are not supported here; set continuous to false and start updates."
        )
    spec["configuration"] = read_configuration(spec.get("configuration", {}))
    check_clusters(spec.get("clusters", []))
    spec["libraries"] = read_libraries(spec.get("libraries", []))
    spec |= {"id": pipeline_id, "continuous": False, "development": bool(spec.get("development", False))}
    spec.setdefault("catalog", DEFAULT_CATALOG)
    if spec.get("schema") and spec.get("target"):
        raise invalid_request("Give schema or target, not both.")
    if not spec.get("schema") and not spec.get("target"):
        spec["schema"] = DEFAULT_SCHEMA
    for key in ("catalog", "schema", "target"):
        if key in spec and not NAME.match(spec[key]):
            raise invalid_request(f"{key} {spec[key]!r} may hold only letters, digits and '_'.")
    if (root := spec.get("root_path")) and not root.startswith("/"):
        raise invalid_request(f"root_path {root!r} must be a workspace path, which starts with '/'.")
    spec["storage"] = read_storage(spec.get("storage"), pipeline_id=pipeline_id, home=home)
    return spec


def check_name(name: str) -> None:
    """Raises ApiProblem 400 for a name that no one could see or tell from another."""
    if not name.strip():
        raise invalid_request("A pipeline needs a name.")
    if not is_plain(name):
        raise invalid_request(f"The name '{shown(name)}' holds a character that cannot be seen; take it out.")
    if len(name) > LONGEST_NAME:
        raise invalid_request(f"A pipeline's name is of at most {LONGEST_NAME} characters.")


def read_configuration(value: Any) -> dict[str, str]:
    """Spark settings as text to text. Raises ApiProblem 400."""
    for key, item in value.items():
        if isinstance(item, dict | list) or item is None:
            raise invalid_request(f"configuration {key!r} must be text.")
        refuse_secret(f"configuration {key!r}", item)
    return {key: str(v).lower() if isinstance(v, bool) else str(v) for key, v in value.items()}


def read_libraries(value: Any) -> list[dict[str, dict[str, str]]]:
    """`file`, `glob` and `notebook` entries. Raises ApiProblem 400 for others (jars come with the driver)."""
    for entry in value:
        kind, inner = next(iter(entry.items()), ("", None))
        path = inner.get(LIBRARIES.get(kind, "")) if isinstance(inner, dict) and len(inner) == 1 else None
        if len(entry) != 1 or not isinstance(path, str) or not path:
            raise invalid_request(
                "Each library must be file{path}, glob{include} or notebook{path}, and no more."
            )
    return list(value)


def check_clusters(clusters: list[dict[str, Any]]) -> None:
    """All updates run on the server's own Spark. Of a cluster only its environment variables count; what else would
    change what code does is refused. Raises ApiProblem 400."""
    for cluster in clusters:
        for name, instead in NOT_OF_CLUSTERS.items():
            if says_something(cluster.get(name)):
                raise not_done(f"clusters {name}", instead)
        variables = cluster.get("spark_env_vars") or {}
        if not isinstance(variables, dict):
            raise invalid_request("spark_env_vars must be an object of texts.")
        for name, value in variables.items():
            if not isinstance(value, str) or not VARIABLE.match(name):
                raise invalid_request(
                    "spark_env_vars must be an object of texts, each named as a shell names variables."
                )
            if name.startswith(OWN_VARIABLES):
                raise not_done(
                    f"The variable {name}", "Names that begin with SPARK_ or PYSPARK_ are the server's own."
                )
            refuse_secret(f"The variable {name}", value)


def refuse_secret(where: str, value: Any) -> None:
    """A reference to a secret scope would reach the code as it is written. Raises ApiProblem 400."""
    if isinstance(value, str) and SECRET.search(value):
        raise not_done(where, "There are no secret scopes here: {{secrets/…}} would stay as it is written.")


def read_storage(value: str | None, *, pipeline_id: str, home: Path) -> str:
    """The storage root as a URI; Spark refuses one without a scheme. Raises ApiProblem 400."""
    if not value:
        return f"file:{home / 'storage' / pipeline_id}"
    if value.startswith("/"):
        value = f"file:{value}"
    if not re.match(r"[a-z][a-z0-9+.-]*:/", value):
        raise invalid_request(f"storage {value!r} must be an absolute URI such as file:/data/pipeline.")
    if not is_plain_path(value):
        raise invalid_request(
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
