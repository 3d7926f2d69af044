"""Which files a question may name: those of the data that pipelines work on, and nothing of the server's own.

Defence before the jail, not in place of it: the code of a pipeline names files of its own, which only the jail bounds.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from recovery.checkpoints.access import OPENED
from recovery.server.confinement import Confinement, PathAccess
from recovery.server.problems import ApiProblem

STORES: Final = OPENED | {"dbfs"}  # what Spark of Databricks calls its own
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


def refuse_paths_beyond(request: Mapping[str, Any], confinement: Confinement) -> None:
    """Raises ApiProblem 403 for a question that names a file where pipelines' code may not write, or no place of data.

    Where code may write, data is: what it may only read are the programs and settings of the machine. Links of
    folders are followed.
    """
    sight = confinement.sights()

    @cache
    def may_hold_data(folder: Path) -> bool:
        return sight(folder) is PathAccess.WRITABLE

    for path in paths_of(request):
        scheme = _SCHEME.match(path)
        kind = scheme.group(1).lower() if scheme else ""
        if kind not in STORES or "::" in path or "\0" in path:
            raise _refuse_path(path)
        if kind in ("", "file"):
            local = "/" + path[scheme.end() :].lstrip("/") if scheme else path
            place = Path(local)
            if not local.startswith("/") or ".." in place.parts or not may_hold_data(place.parent):
                raise _refuse_path(path)


def paths_of(request: Mapping[str, Any]) -> Iterator[str]:
    """Every file and folder that a question names, in the form in which `recovery.spark.api` writes it.

    A field of another kind than its own is no path here; what answers the question refuses it.
    """
    for name in ("scratch", "expected", "backup", "location"):
        yield from _iterate_texts(request.get(name))
    for name in ("old_files", "new_files", "files"):
        if isinstance(request.get(name), list):
            yield from _iterate_texts(request[name])
    for name in ("sets", "write"):
        yield from _iterate_texts(request.get(name))
    for name in ("slices", "topic"):
        yield from _of_slices(request.get(name))
    for name in ("study", "whole", "filled"):
        if isinstance(request.get(name), dict):
            yield from paths_of(request[name])


def _of_slices(held: Any) -> Iterator[str]:
    """Files of slices, however deep they lie: label, source, slice."""
    if isinstance(held, dict):
        yield from _iterate_texts(held.get("files"))
        for value in held.values():
            yield from _of_slices(value)


def _iterate_texts(held: Any) -> Iterator[str]:
    if isinstance(held, str):
        yield held
    elif isinstance(held, list):
        for value in held:
            yield from _iterate_texts(value)
    elif isinstance(held, dict):
        yield from _iterate_texts(list(held.values()))


def _refuse_path(path: str) -> ApiProblem:
    text = f"This server lets no question name {path[:200]!r}: pipelines keep no data there."
    return ApiProblem(403, "PERMISSION_DENIED", text)
