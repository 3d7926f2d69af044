"""Stands for libraries that a program imports and that are not installed where it is studied (child process only).

They mostly write batches, send notes or read logins: what a query is seldom hangs on them. Where it does, it is refused
as everything else that only a run knows (`driver_only`). A program that tries an import and goes on without keeps its
own way: which one a run takes is its own matter.
"""

import ast
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Final

from recovery.spark.driver_only import DriverThing

_CAUGHT: Final = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


class AbsentModule(ModuleType):
    """Has every name, and knows nothing."""

    __path__: Sequence[str] = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return DriverThing(f"{self.__name__}.{name}")


class _Finder:
    """The last one that is asked for a module. `absent`: those that it stood in for."""

    def __init__(self, files: Collection[str], absent: list[str]) -> None:
        self._files, self._absent = files, absent

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        above = sys.modules.get(name.rpartition(".")[0])
        if not isinstance(above, AbsentModule):
            frame = _importing(sys._getframe(1))
            if (
                "." in name
                or frame is None
                or frame.f_code.co_filename not in self._files
                or _is_tried(frame)
            ):
                return None
        self._absent.append(name)
        return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return AbsentModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing in it."""


@contextmanager
def standing_in_for_absent(files: Collection[str], absent: list[str]) -> Iterator[None]:
    """Meanwhile a library that these files import and that is not there is stood in for; `absent` takes its name."""
    finder = _Finder(files, absent)
    sys.meta_path.append(finder)  # type: ignore[arg-type]
    try:
        yield
    finally:
        sys.meta_path.remove(finder)  # type: ignore[arg-type]
        for name in absent:
            sys.modules.pop(name, None)


def _importing(frame: FrameType | None) -> FrameType | None:
    """The frame of the code that imports."""
    while frame is not None and frame.f_globals.get("__name__", "").startswith("importlib"):
        frame = frame.f_back
    return frame


def _is_tried(frame: FrameType) -> bool:
    """Does the code go on by itself where this import fails?"""
    line = frame.f_lineno
    tree = ast.parse(Path(frame.f_code.co_filename).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Try) and node.body[0].lineno <= line <= (node.body[-1].end_lineno or 0):
            names = [n.id for h in node.handlers for n in ast.walk(h.type or h) if isinstance(n, ast.Name)]
            if any(h.type is None for h in node.handlers) or _CAUGHT & set(names):
                return True
    return False
