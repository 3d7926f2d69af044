"""Runs a notebook that was exported as a Python file, with the notebooks that its `%run` cells name.

Python takes a magic for a comment. So `%run` is done, and a cell in another language is refused, before the first cell
runs. The server runs notebooks, a study runs them dry, and what sends a program's files along finds them: by one rule.
"""

import __future__

import importlib.util
import posixpath
import re
import shlex
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import reduce
from itertools import islice
from operator import or_
from types import CodeType
from typing import Final

MOST_DEEP: Final = 10
MOST_RUNS: Final = 100
MOST_BYTES: Final = 4 << 20
"""Of all notebooks that one file runs, each read once."""
MOST_LETTERS: Final = 4096
"""In what a `%run` names."""
_TEXT: Final = frozenset({"md", "md-sandbox"})
UNDECODABLE: Final = (SyntaxError, ValueError, LookupError)
"""What a file raises whose declared encoding it does not have, or Python does not have as text."""
_CELL: Final = re.compile(r"#\s*COMMAND\s*-{5,}")
_MAGIC: Final = re.compile(r"#\s*MAGIC\s+%(?P<name>[\w-]+)[ \t]*(?P<rest>.*)")
_STORE: Final = re.compile(r"[\w+.-]+://[^/]*")
_FUTURE: Final[int] = reduce(
    or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
)
"""Bits of a code's flags that `from __future__ import …` sets; they hold for the cells below, too."""
_DO: Final = {
    "sql": "Put it into a .sql file of its own, or call spark.sql(…).",
    "pip": "Install the library where the pipelines run.",
}


class NotebookCode(StrEnum):
    """Why a notebook is not run."""

    NOT_PYTHON = "NOTEBOOK_CELL_NOT_PYTHON"
    UNREADABLE = "NOTEBOOK_RUN_UNREADABLE"
    OUTSIDE = "NOTEBOOK_RUN_OUTSIDE"
    ABSENT = "NOTEBOOK_RUN_ABSENT"
    CYCLE = "NOTEBOOK_RUN_CYCLE"
    TOO_MUCH = "NOTEBOOK_RUN_TOO_MUCH"


class NotebookProblem(Exception):
    """A cell that is not run. `path`: its notebook; `line`: from 1; `says`: why, and what to do."""

    def __init__(self, code: NotebookCode, path: str, line: int, says: str) -> None:
        super().__init__(f"[{code}] {path}, line {line}: {says}")
        self.code, self.path, self.line, self.says = code, path, line, says


class AnyMagic:
    """In place of the names of magics: every one."""

    def __contains__(self, name: object) -> bool:
        return True


@dataclass(frozen=True)
class Magic:
    """A line of a notebook that is no Python, outside of its text cells. `rest`: what follows its name."""

    line: int
    name: str
    rest: str


@dataclass(frozen=True)
class Notebook:
    """`pieces`: its code, and in between the notebooks that it runs in its place."""

    pieces: tuple["CodeType | Notebook", ...]
    runs: int
    depth: int

    def run_cells(self, names: dict[str, object]) -> None:
        """Run every cell in one namespace."""
        for piece in self.pieces:
            if isinstance(piece, Notebook):
                piece.run_cells(names)
            else:
                exec(piece, names)  # noqa: S102  (running people's code is what both callers are for)


@dataclass
class NotebookReader:
    """Reads a notebook and all that it runs. `read`: the bytes of a file by its path, None where there is no such plain
    file; `root`: the folder that no `%run` leaves; `passed`: magics that are passed over; `compiled_as`: the name of a
    file in tracebacks."""

    root: str
    read: Callable[[str], bytes | None]
    passed: Container[str] = frozenset()
    compiled_as: Callable[[str], str] = str
    _stack: list[str] = field(default_factory=list)
    _known: dict[str, Notebook] = field(default_factory=dict)
    _bytes: int = 0

    def open_notebook(self, path: str, source: bytes) -> Notebook:
        """Raises NotebookProblem, SyntaxError."""
        self._stack.append(path)
        pieces, name = list[CodeType | Notebook](), self.compiled_as(path)
        text, start, flags, runs = _decode_source(name, source), 0, 0, 0
        lines = text.split("\n")
        for magic in list_magics(text):
            if magic.name != "run":
                self._refuse_magic(path, magic)
                continue
            flags |= _compile_into(pieces, name, lines, start, magic.line - 1, flags)
            other = self._open_other(path, magic)
            runs += other.runs
            if runs > MOST_RUNS:
                raise NotebookProblem(NotebookCode.TOO_MUCH, path, magic.line, _TOO_MUCH)
            pieces.append(other)
            start = magic.line
        _compile_into(pieces, name, lines, start, len(lines), flags)
        self._stack.pop()
        depths = [piece.depth for piece in pieces if isinstance(piece, Notebook)]
        return Notebook(tuple(pieces), runs + 1, max(depths, default=0) + 1)

    def _refuse_magic(self, path: str, magic: Magic) -> None:
        if magic.name in self.passed or magic.name in _TEXT:
            return
        do = _DO.get(magic.name, "Take it out, or write it in Python.")
        raise NotebookProblem(
            NotebookCode.NOT_PYTHON,
            path,
            magic.line,
            f"the cell %{magic.name} is not Python and is not run. {do}",
        )

    def _open_other(self, path: str, magic: Magic) -> Notebook:
        candidates = name_candidates(path, magic, self.root)
        if again := next((candidate for candidate in candidates if candidate in self._stack), None):
            says = f"{again} would run itself again. Take this %run out."
            raise NotebookProblem(NotebookCode.CYCLE, path, magic.line, says)
        other = next(
            filter(None, (self._find_notebook(candidate, path, magic) for candidate in candidates)), None
        )
        if other is None:
            says = (
                f"there is no notebook {candidates[0]}, or it is a link. Put it there, or name the right one."
            )
            raise NotebookProblem(NotebookCode.ABSENT, path, magic.line, says)
        if len(self._stack) + other.depth > MOST_DEEP:
            raise NotebookProblem(NotebookCode.TOO_MUCH, path, magic.line, _TOO_MUCH)
        return other

    def _find_notebook(self, candidate: str, path: str, magic: Magic) -> Notebook | None:
        if candidate not in self._known:
            source = self.read(candidate)
            if source is None:
                return None
            self._bytes += len(source)
            if len(self._stack) >= MOST_DEEP or self._bytes > MOST_BYTES:
                raise NotebookProblem(NotebookCode.TOO_MUCH, path, magic.line, _TOO_MUCH)
            self._known[candidate] = self.open_notebook(candidate, source)
        return self._known[candidate]


_TOO_MUCH: Final = (
    f"notebooks run each other {MOST_DEEP} deep, {MOST_RUNS} times or with {MOST_BYTES >> 20} MB at most. Import "
    "modules instead."
)


def list_magics(text: str) -> Iterator[Magic]:
    """Lines that are no Python; of text cells (`%md`) none."""
    begun, is_text = False, False
    for number, line in enumerate(text.split("\n"), 1):
        if _CELL.match(line):
            begun = is_text = False
        elif magic := _MAGIC.match(line):
            if not begun:
                is_text = magic["name"] in _TEXT
            begun = True
            if not is_text:
                yield Magic(number, magic["name"], magic["rest"].strip())


def name_candidates(path: str, magic: Magic, root: str) -> tuple[str, ...]:
    """The files that a `%run` of this notebook may mean, the likeliest first. Raises NotebookProblem."""
    try:
        words = shlex.split(magic.rest[: MOST_LETTERS + 1])  # takes the square of the length
    except ValueError:
        words = []
    if len(words) != 1 or "$" in magic.rest or len(magic.rest) > MOST_LETTERS:
        says = "%run needs the path of one notebook and no arguments. Give the widgets of that notebook defaults."
        raise NotebookProblem(NotebookCode.UNREADABLE, path, magic.line, says)
    store, rest = _split_store(path)
    target = store + posixpath.normpath(posixpath.join(posixpath.dirname(rest), words[0]))
    if words[0].startswith(("/", "~")) or ":" in words[0] or not _is_in(target, root):
        says = f"%run {words[0]} leaves the folder {root}. Move that notebook into it, and name it by a relative path."
        raise NotebookProblem(NotebookCode.OUTSIDE, path, magic.line, says)
    return (target,) if target.endswith(".py") else (f"{target}.py", target)


def _split_store(path: str) -> tuple[str, str]:
    """`s3a://bucket` and `/a/b.py` of a file in a store; nothing and the path of a local one."""
    store = _STORE.match(path)
    return (store[0], path[store.end() :]) if store else ("", path)


def list_run_targets(path: str, source: bytes, root: str) -> Iterator[tuple[str, ...]]:
    """Of each `%run` that a notebook may do, the files that it may mean, each once; no more than it could run."""
    with suppress(*UNDECODABLE):
        runs = (magic for magic in list_magics(importlib.util.decode_source(source)) if magic.name == "run")
        seen = set[tuple[str, ...]]()
        for magic in islice(runs, MOST_RUNS):
            with suppress(NotebookProblem):
                candidates = name_candidates(path, magic, root)
                if candidates not in seen:
                    seen.add(candidates)
                    yield candidates


def choose_root(path: str, root: str) -> str:
    """The folder that no `%run` of a file leaves: the pipeline's, or the file's own where that is not in it, or where
    the pipeline has none but the root of all."""
    return root if root.strip("/") and _is_in(path, root) else posixpath.dirname(path)


def _is_in(path: str, root: str) -> bool:
    """Of the root of all, which is no one's folder, only what is in none."""
    if root == "/":
        return posixpath.dirname(path) == "/"
    return path.startswith(f"{root.rstrip('/')}/") if root else not path.startswith(("/", ".."))


def _decode_source(name: str, source: bytes) -> str:
    try:
        return importlib.util.decode_source(source)
    except UNDECODABLE as error:
        with suppress(ValueError, LookupError):
            compile(source, name, "exec", dont_inherit=True)  # names file and line
        raise SyntaxError(f"{name} cannot be decoded: {error}") from error


def _compile_into(
    pieces: list[CodeType | Notebook], name: str, lines: list[str], start: int, end: int, flags: int
) -> int:
    """Compile some lines, which keep their numbers. Returns the flags for the lines below."""
    code = compile(
        "\n" * start + "\n".join(lines[start:end]) + "\n", name, "exec", flags=flags, dont_inherit=True
    )
    pieces.append(code)
    return int(code.co_flags & _FUTURE)
