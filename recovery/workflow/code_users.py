"""Whose code a file is. A plan changes files of its own flow alone, and none that another environment runs by rules
that are not weaker: who may recover in development would change what production runs."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

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
    changed = list(paths)
    stream = Stream.objects.select_related("pipeline__workspace").filter(pipeline=flow.pipeline_id).first()
    if stream is not None and changed:
        own = _list_own_files(stream)
        if foreign := [path for path in changed if real_path(path) not in own]:
            raise Refused(
                f"{foreign[0]} is no file of the program of {stream}, so its plan does not change it.",
                code="not_own_code",
            )
    own_environment = flow.pipeline.environment
    for path in changed:
        for user in find_code_users(path, but=flow.pipeline):
            is_weaker = asks_less(rule_for(user.environment), rule_for(own_environment))
            if user.environment != own_environment and not is_weaker:
                raise Refused(
                    f"{path} is also code of {user.name} in {user.environment}, so no plan of {own_environment} "
                    f"changes it. Plan the change for {user.name}, or give {flow.pipeline.name} a copy of the file.",
                    code="code_shared",
                )


def find_code_users(path: str, *, but: Pipeline | None = None) -> Iterator[CodeUser]:
    """The other pipelines of the workspace and streams of all workspaces whose code this file is or may be. `but`: the
    pipeline whose code it is in any case; None: a file that no one has yet."""
    if but is not None and not but.workspace.has_streams:
        for other in Pipeline.objects.filter(workspace=but.workspace_id, gone=False).exclude(pk=but.pk):
            if _may_read(other.spec or {}, path):
                yield CodeUser(other.name, other.environment)
        return
    real = real_path(path)
    streams = Stream.objects.filter(pipeline__gone=False, pipeline__workspace__removed_at=None).exclude(
        program=""
    )
    if but is not None:
        streams = streams.exclude(pipeline=but.pk)
    for stream in streams.select_related("pipeline__workspace"):
        if _is_within_reach(real, stream.program) and _consists_of(stream, real):
            yield CodeUser(stream.pipeline.name, stream.pipeline.environment)


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


def _consists_of(stream: Stream, real: str) -> bool:
    try:
        with reach.reading(stream.pipeline.workspace):
            listed = files.program_files(stream.program, stream.arguments)
    except RepriseError:
        return True  # it may be one of them
    return real in {real_path(path) for path in listed}


def _may_read(spec: Mapping[str, Any], path: str) -> bool:
    """Does a pipeline name this workspace file, its folder, or a root folder that it is in?"""
    named = [spec.get("root_path")]
    for library in spec.get("libraries") or ():
        if not isinstance(library, Mapping):
            continue
        for kind, field in (("file", "path"), ("notebook", "path"), ("glob", "include")):
            value = library.get(kind)
            named.append(value.get(field) if isinstance(value, Mapping) else None)
    path = path.removeprefix(WORKSPACE)
    places = [
        text.removeprefix(WORKSPACE).rstrip("/").removesuffix("/**")
        for text in named
        if isinstance(text, str) and text.removeprefix(WORKSPACE).strip("/")
    ]
    return any(
        path == place or path.startswith(f"{place}/") or PurePosixPath(path).match(place) for place in places
    )
