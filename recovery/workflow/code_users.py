"""Whose code a file is. A plan changes files of its own flow alone, and none that another environment runs by rules
that are not weaker: who may recover in development would change what production runs."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from django.db.models import Q

from recovery import reach
from recovery.approvals.rules import asks_less
from recovery.approvals.selectors import rule_for
from recovery.checkpoints.access import scheme_of
from recovery.errors import Refused, RepriseError
from recovery.models import Flow, Pipeline, Stream, StreamStart
from recovery.streams import files, imports

WORKSPACE: Final = "/Workspace"
"""A second name of the root of all workspace files."""


@dataclass(frozen=True)
class CodeUser:
    """A pipeline or stream that runs a file, or whose files cannot be read and may hold it."""

    name: str
    environment: str


def require_own_code(flow: Flow, paths: Iterable[str]) -> None:
    """Raises Refused for a file that this flow's plan may not change: `not_own_code` for one that its program does not
    consist of, `code_shared` for one that a stream or pipeline of another environment runs."""
    changed, own_environment = list(paths), flow.pipeline.environment
    stream = Stream.objects.select_related("pipeline__workspace").filter(pipeline=flow.pipeline_id).first()
    if stream is not None and changed:
        own = _list_own_files(stream)
        if foreign := [path for path in changed if real_path(path) not in own]:
            raise Refused(
                f"{foreign[0]} is not a file of the program of {stream}, so its plan cannot change it.",
                code="not_own_code",
            )
    for path, user in find_code_users(changed, but=flow.pipeline):
        is_weaker = asks_less(rule_for(user.environment), rule_for(own_environment))
        if user.environment != own_environment and not is_weaker:
            raise Refused(
                f"{path} is also code of {user.name} in {user.environment}, so a plan in {own_environment} cannot "
                f"change it. Plan the change for {user.name}, or give {flow.pipeline.name} a copy of the file.",
                code="code_shared",
            )


def find_code_users(paths: Iterable[str], *, but: Pipeline) -> Iterator[tuple[str, CodeUser]]:
    """Each of these files with each other pipeline at the same address, or stream of any workspace, whose code it is or
    may be. `but`: the pipeline whose code they are in any case."""
    wanted = {path: real_path(path) for path in paths}
    if not but.workspace.has_streams:
        others = Pipeline.objects.filter(
            workspace__url=but.workspace.url, workspace__removed_at=None, gone=False
        ).exclude(pipeline_id=but.pipeline_id)
        for other in others:
            named = _list_places(other.spec or {})
            yield from ((p, CodeUser(other.name, other.environment)) for p in wanted if _is_in(p, named))
        return
    streams = Stream.objects.filter(pipeline__gone=False, pipeline__workspace__removed_at=None).exclude(
        Q(program="") | Q(pipeline=but.pk)
    )
    for stream in streams.select_related("pipeline__workspace"):
        near = {path: real for path, real in wanted.items() if _is_within_reach(real, stream.program)}
        held = _list_real_files(stream) if near else set()
        user = CodeUser(stream.pipeline.name, stream.pipeline.environment)
        yield from ((path, user) for path, real in near.items() if held is None or real in held)


def real_path(path: str) -> str:
    """Without links, where it is one of this machine."""
    return path if scheme_of(path) else os.path.realpath(path)


def _list_own_files(stream: Stream) -> set[str]:
    """Those that it consists of now, and those that a start of it had: a plan may put them back."""
    with reach.reading(stream.pipeline.workspace):
        own = {*files.program_files(stream.program, stream.arguments)} if stream.program else set()
    for source in (
        StreamStart.objects.filter(stream=stream).exclude(source={}).values_list("source", flat=True)
    ):
        own.update(source)
    return {real_path(path) for path in own}


def _is_within_reach(real: str, program: str) -> bool:
    """Is it below a folder in which the files of a program are looked for?"""
    folder = real_path(program).rpartition("/")[0]
    return any(f"{real}/".startswith(f"{top}/") for top in imports.folders_above(folder))


def _list_real_files(stream: Stream) -> set[str] | None:
    """Those that it consists of now; None where they cannot be read: any may be one of them."""
    try:
        with reach.reading(stream.pipeline.workspace):
            return {real_path(path) for path in files.program_files(stream.program, stream.arguments)}
    except RepriseError:
        return None


def _list_places(spec: Mapping[str, Any]) -> list[str]:
    """The workspace files, folders and patterns that a pipeline names as its code. A file that is not in its folder may
    run and import what is beside it."""
    root = _plain_place(spec.get("root_path"))
    named = [root]
    for library in spec.get("libraries") or ():
        if not isinstance(library, Mapping):
            continue
        for kind, field in (("file", "path"), ("notebook", "path"), ("glob", "include")):
            value = library.get(kind)
            written = value.get(field) if isinstance(value, Mapping) else ""
            place = _plain_place(written)
            named.append(place)
            is_folder = isinstance(written, str) and written.rstrip("/").endswith("/**")
            if not is_folder and not (root and _is_in(place, [root])):
                folder = place.rpartition("/")[0]
                named.append(f"{folder}/*" if "*" in folder or not folder else folder)
    return [place for place in named if place.strip("/")]


def _plain_place(named: object) -> str:
    return named.removeprefix(WORKSPACE).rstrip("/").removesuffix("/**") if isinstance(named, str) else ""


def _is_in(path: str, places: Iterable[str]) -> bool:
    path = path.removeprefix(WORKSPACE)
    return any(
        path == place or path.startswith(f"{place}/") or PurePosixPath(path).match(place) for place in places
    )
