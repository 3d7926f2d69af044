"""Variables, settings and files for which code asks, and that are not there where it is studied (child only).

The code then takes a default. A run may take another value: the one that its shell, its scheduler or its cluster sets.
What the code may keep for later, in a function for Spark's workers too, is never replaced: such a function is pickled.
"""

import os
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark._globals import _NoValue

from recovery.spark.secrets import is_secret

_BETWEEN: Final = frozenset(
    (__name__, "os", "genericpath", "collections.abc", "pathlib", "recovery.spark.untouched")
)
"""Modules through which a question goes from the code that asks it."""
_OF_MACHINES: Final = frozenset(
    ("HOSTNAME", "JAVA_HOME", "LOGNAME", "PWD", "PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON", "SHELL", "SPARK_HOME",
     "TERM", "USER", "VIRTUAL_ENV")
)  # fmt: skip
"""Variables that say where code runs, and nothing of rows."""
EVERY_VARIABLE: Final = "every variable of the environment"
"""What code asks for that copies or goes through all of them."""
_noting: list["UnsetNames"] = []
_hooked: list[bool] = []


@dataclass
class UnsetNames:
    """Names that code asked for in vain, each once, in order. `own`: the files of that code. What others ask (pyspark,
    libraries) is their own matter."""

    own: Collection[str]
    variables: list[str] = field(default_factory=list)
    settings: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    def note(self, asked: Any, into: list[str]) -> None:
        """Where code of these files asks."""
        frame: Any = sys._getframe(1)
        while frame is not None and frame.f_globals.get("__name__") in _BETWEEN:
            frame = frame.f_back
        name = os.fsdecode(asked) if isinstance(asked, (str, bytes, os.PathLike)) else ""
        is_known = not name or name in into or name in _OF_MACHINES or is_secret(name)
        if frame is not None and frame.f_code.co_filename in self.own and not is_known:
            into.append(name)


@contextmanager
def noting_unset(names: UnsetNames) -> Iterator[None]:
    """Note meanwhile what the code asks for in vain."""
    from pyspark.sql.connect.conf import RuntimeConf

    if not _hooked:
        sys.addaudithook(_note_opened)
        _hooked.append(True)
    conf: Any = RuntimeConf
    environ, own_get, own_stat = type(os.environ), conf.get, os.stat
    os.environ.__class__ = _noting_environ(environ, names)
    conf.get, os.stat = _noting_setting(own_get, names), _noting_stat(own_stat, names)
    _noting.append(names)
    try:
        yield
    finally:
        _noting.pop()
        os.environ.__class__ = environ
        conf.get, os.stat = own_get, own_stat


def _note_opened(event: str, arguments: tuple[Any, ...]) -> None:
    """A file that is opened to be read, and is not there. Never raises: code would see it."""
    if not _noting or event != "open":
        return
    place, mode, _ = arguments
    reads = isinstance(mode, str) and not set(mode) & set("wax+")
    if reads and isinstance(place, (str, bytes, os.PathLike)) and not os.path.lexists(place):
        _noting[-1].note(place, _noting[-1].files)


def _noting_environ(environ: Any, names: UnsetNames) -> Any:
    class NotingEnviron(environ):  # type: ignore[misc]
        def __getitem__(self, name: str) -> Any:
            try:
                return super().__getitem__(name)
            except KeyError:
                names.note(name, names.variables)
                raise

        def __iter__(self) -> Any:
            names.note(EVERY_VARIABLE, names.variables)
            return super().__iter__()

        def __reduce_ex__(self, protocol: Any) -> Any:
            """A copy, and what is pickled, is Python's own."""
            return object.__new__, (environ,), dict(self.__dict__)

    return NotingEnviron


def _noting_setting(own_get: Any, names: UnsetNames) -> Any:
    def get(settings: Any, key: str, default: Any = _NoValue) -> Any:
        if default is not _NoValue and own_get(settings, key, None) is None:
            names.note(key, names.settings)
        return own_get(settings, key, default)

    return get


def _noting_stat(own_stat: Any, names: UnsetNames) -> Any:
    """What `exists` and `is_file` ask."""

    def stat(path: Any, **how: Any) -> Any:
        try:
            return own_stat(path, **how)
        except (FileNotFoundError, NotADirectoryError):
            names.note(path, names.files)
            raise

    return stat
