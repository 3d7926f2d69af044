"""Where the files of a plain program are laid down for a question, and which places it means by paths from there.

A program makes paths from `__file__`, and puts folders above its own on `sys.path`. So each file is below `tree` by its
whole real path, and a path into `tree` is the real one behind it. What the program opens by a relative path is below
`started`, its working folder: a path into that is relative to where the stream is started.
"""

import os
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from recovery.spark.definitions import write_files
from recovery.spark.paths import plain

MOST_PARENTS: Final = 3
"""So many folders above a program may be those from which its imports resolve, as `recovery.streams.imports`."""
ELSEWHERE: Final = (
    "The program makes a path from its home folder or from another place that a study does not have. "
    "Spell the place in full, or pass it as an argument."
)
COPY: Final = (
    " A study runs a copy of the program's own files and has no others. Spell the place in full, or pass it as an "
    "argument."
)


@dataclass(frozen=True)
class LaidProgram:
    """`files`: real path -> file; `roots`: folders from which the program imports, the nearest first; `tree`: "" where
    the real folder of the program is not certain."""

    files: Mapping[str, Path]
    roots: tuple[str, ...]
    folder: str
    started: str
    tree: str = ""

    def real_place(self, place: str) -> str:
        """The place that the program means by this one; relative where it is below the folder of its start."""
        spelled = posixpath.normpath(plain(place)) if place else ""
        for folder in _spellings(self.tree):
            if _is_below(spelled, folder):
                scheme = "file://" if place.lower().startswith("file:") else ""
                return scheme + (spelled.removeprefix(folder) or "/")
        for folder in _spellings(self.started):
            if _is_below(spelled, folder):
                return spelled.removeprefix(folder).lstrip("/") or "."
        return place

    def is_elsewhere(self, place: str) -> bool:
        """Is it a place of the question only, which no run of the program has?"""
        real = posixpath.normpath(plain(self.real_place(place))) if place else ""
        return any(_is_below(real, folder) for folder in _spellings(self.folder))

    def hide_own_places(self, sentence: str) -> str:
        """A sentence without the places of the question."""
        places = [s for place in (self.tree, self.started, self.folder) for s in _spellings(place)]
        if not any(place in sentence for place in places):
            return sentence
        for place in places:
            sentence = sentence.replace(f"{place}/", "/" if place in _spellings(self.tree) else "")
            sentence = sentence.replace(place, "its folder")
        return f"{sentence.rstrip('.')}.{COPY}"


def lay_down(files: Mapping[str, str], root: str, libraries: tuple[str, ...], folder: Path) -> LaidProgram:
    """Write the files of a program for a question whose folder this is."""
    started = folder / "started"
    started.mkdir(exist_ok=True)
    if not all(name.startswith("/") and os.path.realpath(name) == name for name in libraries):
        beside = write_files(
            files, root, folder / "files"
        )  # apart: a path from there is no path from its start
        parents = [str(beside[name].parent) for name in libraries if name in beside]
        return LaidProgram(
            beside, tuple(dict.fromkeys([*parents, str(folder / "files")])), str(folder), str(started)
        )
    write_files(files, root, started)
    tree = folder / "tree"
    placed = write_files(files, "", tree)
    roots = [str(place) for name in libraries if name in placed for place in _above(placed[name], tree)]
    if root.strip("/"):
        roots.append(str(tree / root.strip("/")))
    return LaidProgram(placed, tuple(dict.fromkeys(roots)), str(folder), str(started), str(tree))


def _above(file: Path, tree: Path) -> list[Path]:
    """The folders from which a program's imports may resolve: its own, then those above it."""
    above = list(file.parents)[: MOST_PARENTS + 1]
    return [place for place in above if place != tree and place.is_relative_to(tree)] or [tree]


def _is_below(place: str, folder: str) -> bool:
    return place == folder or place.startswith(f"{folder}/")


def _spellings(folder: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys([folder, os.path.realpath(folder)])) if folder else ()
