"""Variables and settings for which code asks, and that have no value where it is studied (child only).

The code then takes a default. A run may take another value: the one that its shell, its scheduler or its cluster sets.
"""

import os
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from recovery.spark.secrets import is_secret

_BETWEEN = frozenset((__name__, "os", "collections.abc"))
"""Modules through which a question goes from the code that asks it."""
_NO_DEFAULT = object()


@dataclass
class UnsetNames:
    """Names that code asked for, each once, in order."""

    variables: list[str] = field(default_factory=list)
    settings: list[str] = field(default_factory=list)


@contextmanager
def noting_unset(files: Collection[str], found: UnsetNames) -> Iterator[None]:
    """Note meanwhile what code of these files asks for. What others ask (pyspark, libraries) is their own matter."""
    from pyspark.sql.connect.conf import RuntimeConf

    kind, own_get = type(os.environ), RuntimeConf.get

    class NotingEnviron(kind):  # type: ignore[misc,valid-type]
        def __getitem__(self, name: str) -> str:
            try:
                return str(super().__getitem__(name))
            except KeyError:
                _note(str(name), found.variables, files)
                raise

    def get(settings: Any, key: str, default: Any = _NO_DEFAULT) -> Any:
        if default is _NO_DEFAULT:
            return own_get(settings, key)
        if own_get(settings, key, None) is None:
            _note(str(key), found.settings, files)
        return own_get(settings, key, default)

    os.environ.__class__ = NotingEnviron
    conf: Any = RuntimeConf
    conf.get = get
    try:
        yield
    finally:
        os.environ.__class__ = kind
        conf.get = own_get


def _note(name: str, into: list[str], files: Collection[str]) -> None:
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") in _BETWEEN:
        frame = frame.f_back  # type: ignore[assignment]
    if frame is not None and frame.f_code.co_filename in files and name not in into and not is_secret(name):
        into.append(name)
