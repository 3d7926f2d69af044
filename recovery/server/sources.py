"""The definition files of an update: found through the spec's libraries, copied before anything runs.

The copy is what the update reads: an edit while it runs changes the next update, and the API can say
later which code an update ran (`x-reprise … /source`).
"""

import contextlib
import fnmatch
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recovery import foreign
from recovery.notebook_cells import choose_root, list_run_targets
from recovery.server.problems import ApiProblem
from recovery.server.specs import root_of
from recovery.server.workspace import LARGEST, WorkspaceFolder, read_without_links

MOST_FILES = 1000
MOST_KEPT = 10_000  # files and folders of a snapshot that is read
MOST_BYTES = 64 * 1024 * 1024
SUFFIXES = (".py", ".sql")


class NoDefinitions(Exception):
    """The libraries of a pipeline name nothing that can be run. The text says what."""


@dataclass(frozen=True)
class SourceSnapshot:
    """Copied definitions. `files`: (workspace path, copy) of each library file, in order; `root`: copy of root_path."""

    folder: Path
    root: Path
    files: tuple[tuple[str, Path], ...]


def library_paths(spec: dict[str, Any], workspace: WorkspaceFolder) -> list[str]:
    """Workspace paths of the files that define the graph, each once. Raises NoDefinitions."""
    root, paths = root_of(spec), []
    for library in spec["libraries"]:
        kind, inner = next(iter(library.items()))
        path = str(inner.get("path") or inner.get("include"))
        path = path if path.startswith("/") else f"{root.rstrip('/')}/{path}"
        paths += expand_glob(path, workspace) if kind == "glob" else [one_file(path, workspace)]
    if not paths:
        raise NoDefinitions("The pipeline's libraries name no .py or .sql file; add one to its settings.")
    return list(dict.fromkeys(paths))


def one_file(path: str, workspace: WorkspaceFolder) -> str:
    """The file that a library entry names; a notebook may be named without `.py`. Raises NoDefinitions."""
    for candidate in (path, f"{path}.py", f"{path}.sql"):
        try:
            if workspace.locate(candidate).is_file():
                return candidate
        except ApiProblem as problem:
            raise NoDefinitions(problem.message) from problem
    raise NoDefinitions(f"The source file {path} of this pipeline is not in the workspace.")


def expand_glob(include: str, workspace: WorkspaceFolder) -> list[str]:
    """Files of a glob, sorted. `folder/**` is everything beneath it. Raises NoDefinitions."""
    if not any(mark in include for mark in "*?["):
        return [one_file(include, workspace)]
    base = include.split("*")[0].rsplit("/", 1)[0] or "/"
    try:
        folder = workspace.locate(base)
    except ApiProblem as problem:
        raise NoDefinitions(problem.message) from problem
    paths = [workspace.path_of(file, like=include) for file in files_under(folder)]
    if include.endswith("/**"):
        include += "/*"
    pattern = include.replace("/**/", "/*").replace("**", "*")
    return [path for path in paths if fnmatch.fnmatchcase(path, pattern)]


def files_under(folder: Path) -> list[Path]:
    """Definition files beneath a folder, sorted; hidden folders, caches and links are left out."""
    files: list[Path] = []
    for at, folders, names in os.walk(folder, followlinks=False):
        folders[:] = sorted(n for n in folders if not n.startswith(".") and n != "__pycache__")
        here = (Path(at) / name for name in sorted(names) if not name.startswith("."))
        files += [file for file in here if file.suffix in SUFFIXES and not file.is_symlink()]
    return files


def take_snapshot(spec: dict[str, Any], workspace: WorkspaceFolder, folder: Path) -> SourceSnapshot:
    """Copy the libraries, and every .py and .sql file of root_path, into `folder`. Raises NoDefinitions."""
    libraries = library_paths(spec, workspace)
    root = root_of(spec)
    top = workspace.locate(root)
    helpers = [workspace.path_of(f, like=root) for f in files_under(top)] if top != workspace.root else []
    if len(helpers) > MOST_FILES:
        raise NoDefinitions(
            f"{root} holds {len(helpers)} source files; {MOST_FILES} are the most. Set root_path lower."
        )
    into, name = foreign.split(folder, 2)
    into.make_folder(_path_below(name, root))
    waiting, copied = [*libraries, *helpers][::-1], set[str]()
    while waiting:
        path = waiting.pop()
        if path in copied:
            continue
        copied.add(path)
        copy, content = _path_below(name, path), read_without_links(workspace.locate(path))
        into.make_folder(copy.rpartition("/")[0])
        into.write(copy, content)
        if not path.endswith(".sql") and len(copied) < MOST_FILES:
            waiting += [p for p in run_notebooks(path, content, root, workspace) if p not in copied]
    return SourceSnapshot(
        folder, folder / root.lstrip("/"), tuple((p, folder / p.lstrip("/")) for p in libraries)
    )


def run_notebooks(path: str, content: bytes, root: str, workspace: WorkspaceFolder) -> Iterator[str]:
    """Workspace paths of the notebooks that the `%run` cells of a file name, as far as they are there."""
    for candidates in list_run_targets(path, content, choose_root(path, root)):
        for candidate in candidates:
            with contextlib.suppress(ApiProblem):
                if workspace.locate(candidate).is_file():
                    yield candidate
                    break


def _path_below(folder: str, path: str) -> str:
    """A workspace path below a folder."""
    return "/".join([folder, *filter(None, path.split("/"))])


def read_snapshot(folder: Path) -> list[tuple[str, str, bytes]]:
    """(workspace path, sha256, bytes) of each file of a snapshot, sorted by path; empty when there is none.

    The update may have changed what is there: no link is followed. Raises OSError for more than a snapshot holds.
    """
    into, name = foreign.split(folder, 2)
    try:
        files = [file for file in into.files(name, most=MOST_KEPT) if not file.endswith(".pyc")]
    except FileNotFoundError:
        return []
    contents, room = [], MOST_BYTES
    for file in files:
        content = into.read(file, min(room, LARGEST))
        room -= len(content)
        contents.append((file.removeprefix(name), hashlib.sha256(content).hexdigest(), content))
    return contents
