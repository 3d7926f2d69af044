"""Replaces libraries that a program imports and that are not installed where it is studied (child process only).

They mostly write batches, send notes or read logins: what a query is seldom hangs on them. Where it does, it is refused
as everything else that only a run knows (`driver_only`). A program that tries an import and goes on without keeps its
own way: which one a run takes is its own matter.
"""

import ast
import linecache
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType
from typing import Any, Final

from recovery.spark.driver_only import DriverThing

_CAUGHT: Final = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


class AbsentModule(ModuleType):
    """Has every name, and knows nothing."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []

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
        part_of_one = isinstance(above, AbsentModule)
        if not part_of_one and ("." in name or not self._is_needed(sys._getframe(1))):
            return None
        self._absent.append(name)
        return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def _is_needed(self, frame: FrameType | None) -> bool:
        """Do these files import it, by themselves or by a library, and is no code on the way ready to go without?"""
        while frame is not None:
            if not frame.f_globals.get("__name__", "").startswith("importlib"):
                if _is_tried(frame):
                    return False
                if frame.f_code.co_filename in self._files:
                    return True
            frame = frame.f_back
        return False

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return AbsentModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing in it."""


@contextmanager
def standing_in_for_absent(files: Collection[str], absent: list[str]) -> Iterator[None]:
    """Meanwhile a library that these files import and that is not there is stood in for; `absent` takes its name."""
    finder = _Finder(files, absent)
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in absent:
            sys.modules.pop(name, None)


def _is_tried(frame: FrameType) -> bool:
    """Does the code go on by itself where this import fails?"""
    line, lines = frame.f_lineno, linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    for node in ast.walk(ast.parse("".join(lines))):
        if isinstance(node, ast.Try) and node.body[0].lineno <= line <= (node.body[-1].end_lineno or 0):
            names = [n.id for h in node.handlers for n in ast.walk(h.type or h) if isinstance(n, ast.Name)]
            if any(h.type is None for h in node.handlers) or _CAUGHT & set(names):
                return True
    return False
