"""Files of the workspace API, in one folder on disk. No path climbs out of it, and no link is followed.

`/Workspace/Users/x` is another spelling of `/Users/x`: clients use both, and are answered in their own.
"""

import hashlib
import os
import shutil
import stat
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recovery.server.problems import ApiProblem, invalid_request

LARGEST = 10 * 1024 * 1024
LONGEST_NAME = 255  # bytes that a file system takes; a draft's name is shorter
LONGEST_PATH = 3000  # characters
HEADERS = {"PYTHON": "# Databricks notebook source", "SQL": "-- Databricks notebook source"}
ALIAS = "/Workspace"
SUFFIXES = {".py": "PYTHON", ".sql": "SQL"}


@dataclass(frozen=True)
class WorkspaceFolder:
    """`/Users/x` is `root/Users/x`."""

    root: Path

    def locate(self, path: str) -> Path:
        """The file or folder behind a workspace path, there or not.

        Raises ApiProblem 400 for a path that is relative, climbs with `..`, or meets a symbolic link:
        a link would let a reader of the workspace read the machine.
        """
        if not path.startswith("/") or "\0" in path:
            raise invalid_request(f"Path ({path}) should start with '/'.")
        parts = [part for part in path.split("/") if part]
        if any(part in (".", "..") for part in parts):
            raise invalid_request(f"Path ({path}) may not contain '.' or '..'.")
        if self.is_alias(path):
            parts = parts[1:]
        if (
            any(len(part.encode(errors="replace")) > LONGEST_NAME for part in parts)
            or len(path) > LONGEST_PATH
        ):
            raise invalid_request(
                f"Path ({path[:200]}…) has a name of more than {LONGEST_NAME} bytes, or is too long."
            )
        place = self.root
        for part in parts:
            place = place / part
            if place.is_symlink():
                raise invalid_request(
                    f"Path ({path}) meets a symbolic link, which this workspace never follows."
                )
        return place

    def is_alias(self, path: str) -> bool:
        """Whether a path begins with the other spelling of the root. A real folder of that name keeps its own."""
        first = next((part for part in path.split("/") if part), "")
        return f"/{first}" == ALIAS and not (self.root / first).is_dir()

    def check_not_alias(self, file: Path) -> None:
        """Raises ApiProblem 400 where making this file or folder would hide every path of the other spelling."""
        top = self.root / ALIAS.lstrip("/")
        if file.is_relative_to(top) and not top.is_dir():
            raise invalid_request(
                f"{ALIAS} is another spelling of the root folder; nothing in it may have that name."
            )

    def check_new(self, path: str, file: Path) -> None:
        """Raises ApiProblem 400 for a name that nothing new may have: it hides `/Workspace`, or holds a control
        character, with which a name shows as another one in a terminal or a log."""
        self.check_not_alias(file)
        if not path.isprintable():
            raise invalid_request("A path may not hold control characters or others that cannot be seen.")

    def path_of(self, file: Path, *, like: str = "/") -> str:
        """The workspace path of a file that `locate` gave, in the spelling of the path that was asked for (`like`)."""
        relative = file.relative_to(self.root).as_posix()
        plain = "/" if relative == "." else f"/{relative}"
        return f"{ALIAS}{plain}".rstrip("/") if self.is_alias(like) else plain

    def require_existing(self, path: str) -> Path:
        """As `locate`, for something that is there. Raises ApiProblem 404."""
        file = self.locate(path)
        if not file.exists():
            raise ApiProblem(404, "RESOURCE_DOES_NOT_EXIST", f"Path ({path}) doesn't exist.")
        return file

    def status(self, path: str) -> dict[str, Any]:
        """ObjectInfo of the API: path, object_type, object_id, times in ms, size and language of files."""
        return self.describe(self.require_existing(path), like=path)

    def describe(self, file: Path, *, like: str = "/") -> dict[str, Any]:
        """ObjectInfo of a file or folder that is there. `like`: the path that was asked for."""
        facts, path = file.stat(), self.path_of(file)
        info: dict[str, Any] = {
            "path": self.path_of(file, like=like),
            "object_type": "DIRECTORY" if file.is_dir() else "FILE",
            "object_id": int.from_bytes(hashlib.sha256(path.encode()).digest()[:6]),
            "created_at": int(facts.st_ctime * 1000),
            "modified_at": facts.st_mtime_ns // 1_000_000,
        }
        if file.is_file():
            info["size"] = facts.st_size
            if language := notebook_language(file):
                info |= {"object_type": "NOTEBOOK", "language": language}
        return info

    def children(self, path: str) -> list[dict[str, Any]]:
        """ObjectInfo of everything right under a folder; a file lists itself."""
        folder = self.require_existing(path)
        if not folder.is_dir():
            return [self.describe(folder, like=path)]
        seen = sorted(child for child in folder.iterdir() if not child.is_symlink())
        return [self.describe(child, like=path) for child in seen if not child.name.startswith(".reprise-")]

    def read(self, path: str) -> bytes:
        """The bytes of a file. Raises ApiProblem 404, or 400 for a folder."""
        file = self.require_existing(path)
        if file.is_dir():
            raise invalid_request(f"Path ({path}) is a directory; only files and notebooks can be exported.")
        return read_without_links(file)

    def write(self, path: str, content: bytes, *, fmt: str, language: str, overwrite: bool) -> Path:
        """Store a file (FILE for RAW and AUTO, NOTEBOOK for SOURCE without extension) in one step.

        Raises ApiProblem 400 (too large, unknown format, no folder, type mismatch, RESOURCE_ALREADY_EXISTS).
        """
        if len(content) > LARGEST:
            raise ApiProblem(400, "MAX_NOTEBOOK_SIZE_EXCEEDED", f"File size imported is ({len(content)} bytes), "
                             f"exceeded max size ({LARGEST} bytes)")  # fmt: skip
        path, content = as_stored(path, content, fmt=fmt, language=language)
        file = self.locate(path)
        self.check_new(path, file)
        self.check_target(file, path, content, overwrite=overwrite)
        draft = file.with_name(f".reprise-{uuid.uuid4().hex}")
        try:
            with draft.open("wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            draft.replace(file)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise ApiProblem(
                500, "INTERNAL_ERROR", f"The workspace cannot store {path}: {error.strerror}."
            ) from error
        return file

    def check_target(self, file: Path, path: str, content: bytes, *, overwrite: bool) -> None:
        """Whether `content` may go to `file`. Raises ApiProblem as the service does."""
        if not file.parent.is_dir():
            parent = self.path_of(file.parent, like=path)
            raise ApiProblem(404, "RESOURCE_DOES_NOT_EXIST", f"The parent folder ({parent}) does not exist.")
        if file.is_dir():
            raise ApiProblem(400, "RESOURCE_ALREADY_EXISTS", f"Path ({path}) already exists as a directory.")
        if not file.exists():
            return
        if not overwrite:
            raise ApiProblem(400, "RESOURCE_ALREADY_EXISTS", f"Path ({path}) already exists.")
        asked = "NOTEBOOK" if language_of(file.name, content) else "FILE"
        actual = self.describe(file)["object_type"]
        if asked != actual:
            raise invalid_request(
                f"Cannot overwrite the asset at {path} due to type mismatch (asked: {asked}, actual: {actual})."
            )

    def make_folder(self, path: str) -> None:
        """The folder and its parents. Raises ApiProblem 400 when a file is in the way."""
        folder = self.locate(path)
        self.check_new(path, folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise ApiProblem(400, "RESOURCE_ALREADY_EXISTS", f"Path ({path}) is not a folder.") from error

    def delete(self, path: str, *, recursive: bool) -> None:
        """Remove a file or folder. Raises ApiProblem 400 DIRECTORY_NOT_EMPTY without `recursive`."""
        file = self.require_existing(path)
        if file == self.root:
            raise invalid_request("The root folder cannot be deleted.")
        if file.is_dir() and any(file.iterdir()) and not recursive:
            raise ApiProblem(400, "DIRECTORY_NOT_EMPTY", f"Folder ({path}) is not empty")
        if file.is_dir():
            shutil.rmtree(file)
        else:
            file.unlink()


def read_without_links(file: Path) -> bytes:
    """The bytes of a regular file; a link put there since the path was checked is refused by the kernel."""
    try:
        with os.fdopen(os.open(file, os.O_RDONLY | os.O_NOFOLLOW), "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise invalid_request(f"{file.name} is not a regular file.")
            return stream.read()
    except OSError as error:
        raise invalid_request(f"{file.name} cannot be read: {error.strerror}.") from error


def language_of(name: str, content: bytes) -> str | None:
    """The language of a notebook, by its first line; None for a plain file (a name with an extension)."""
    if Path(name).suffix:
        return None
    first = content.split(b"\n", 1)[0].strip().decode(errors="replace")
    return next((language for language, header in HEADERS.items() if first == header), None)


def notebook_language(file: Path) -> str | None:
    """As `language_of`, reading no more than the first line needs."""
    if file.suffix:
        return None
    with file.open("rb") as stream:
        return language_of(file.name, stream.read(200))


def as_stored(path: str, content: bytes, *, fmt: str, language: str) -> tuple[str, bytes]:
    """Path and bytes as the workspace keeps them. Raises ApiProblem 400 for a format it does not know.

    AUTO takes a `.py`/`.sql` file that begins with the notebook header for a notebook, and drops the
    extension, as the service does. SOURCE adds a missing header to a notebook.
    """
    if fmt not in ("AUTO", "RAW", "SOURCE"):
        raise invalid_request(f"Import format {fmt} is not supported here; use AUTO, RAW or SOURCE.")
    suffix = Path(path).suffix
    first = content.split(b"\n", 1)[0].strip().decode(errors="replace")
    if fmt == "AUTO" and suffix in SUFFIXES and first == HEADERS[SUFFIXES[suffix]]:
        return path.removesuffix(suffix), content
    if fmt == "SOURCE" and not suffix:
        if language not in HEADERS:
            raise invalid_request("A notebook needs language PYTHON or SQL.")
        if first != HEADERS[language]:
            content = f"{HEADERS[language]}\n".encode() + content
    return path, content
