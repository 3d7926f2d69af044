"""The source of a pipeline: as the workspace holds it now, and as the last good update read it. Reads only."""

import hashlib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from typing import Any

from recovery.errors import NotFound, Refused
from recovery.pipelines.client import PROGRAMS, PipelinesClient
from recovery.spark.programs_words import is_plain_program


def read_code(client: PipelinesClient, spec: Mapping[str, Any]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Definition files (`libraries`) and every other .py/.sql file under `root_path`, as text by path; of what the API
    calls a program's own files the others too. None of a plain stream whose program was not named: what its code would
    do is then not known, and what needs no code can be planned all the same. Raises Refused."""
    root = (spec.get("root_path") or "").rstrip("/")
    libraries: list[str] = []
    items = _tree(client, root) if root else {}
    everything = list(items)
    for entry in spec.get("libraries") or []:
        if include := (entry.get("glob") or {}).get("include"):
            pattern = include.replace("/**", "/*") if include.endswith("**") else include
            base = include.split("*", 1)[0].rsplit("/", 1)[0]
            found = everything if root and base.startswith(root) else _tree(client, base)
            libraries += [p for p in found if fnmatch(p, pattern) and p.endswith((".py", ".sql"))]
        elif path := (entry.get("file") or entry.get("notebook") or {}).get("path"):
            libraries.append(path)
    read = [p for p, item in items.items() if _is_code(p, item, libraries)]
    wanted = dict.fromkeys([*libraries, *read])
    texts = {path: _text(client, path) for path in wanted}
    if not libraries and not is_plain_program(spec):
        raise Refused("The pipeline lists no source file (libraries), so its code cannot be read.")
    return tuple(dict.fromkeys(libraries)), texts


def _is_code(path: str, item: Mapping[str, object], libraries: Sequence[str]) -> bool:
    if isinstance(programs := item.get(PROGRAMS), list):
        return not set(programs).isdisjoint(libraries)
    return path.endswith((".py", ".sql"))


def _tree(client: PipelinesClient, root: str) -> dict[str, Mapping[str, object]]:
    """Every file below a folder, by path, as the API lists it."""
    found: dict[str, Mapping[str, object]] = {}
    for item in client.list_dir(root):
        found |= (
            _tree(client, item["path"]) if item.get("object_type") == "DIRECTORY" else {item["path"]: item}
        )
    return dict(sorted(found.items()))


def _text(client: PipelinesClient, path: str) -> str:
    try:
        return client.export(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused(f"{path} is not UTF-8 text, so it cannot be read as source.") from error


def read_sha256(client: PipelinesClient, path: str) -> str | None:
    """The sha256 of a file as the workspace holds it now; None: it has no such file."""
    try:
        return hashlib.sha256(client.export(path)).hexdigest()
    except NotFound:
        return None


def last_good_source(client: PipelinesClient, pipeline_id: str) -> dict[str, str] | None:
    """Definition files as the newest completed update read them, text by path; None: no one can tell."""
    for update in client.list_updates(pipeline_id, limit=25):
        if update.get("state") != "COMPLETED" or update.get("validate_only"):
            continue
        files = client.update_source(pipeline_id, update["update_id"])
        if files is None:
            return None
        try:
            return {path: text.decode("utf-8") for path, text in files.items()}
        except UnicodeDecodeError:
            return None
    return None
