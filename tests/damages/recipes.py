"""What a frozen place was made by, as a digest: other code or other settings make another place."""

import ast
import hashlib
import inspect
import json
import textwrap
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from types import FunctionType
from typing import Any

from tests.damages import bases
from tests.damages.bases import Base, Place

WITH_EVERY_BASE = (Place.put, Place.input, Place.stream, bases.make)


def of_base(base: Base) -> str:
    """Digest of a base: its query, what is done before and after, and how its rows are read."""
    values = {f.name: getattr(base, f.name) for f in fields(base)}
    functions = [value for value in values.values() if isinstance(value, FunctionType)]
    settings = {name: value for name, value in values.items() if not isinstance(value, FunctionType)}
    return _digest(code_of(*functions), repr(settings))


def of_code(*functions: Callable[..., Any]) -> str:
    """Digest of these functions and of what they use below tests/damages."""
    return _digest(code_of(*functions), "")


def code_of(*functions: Callable[..., Any]) -> dict[str, str]:
    """Name -> text, of these functions, of those that make every base, and of all that they name."""
    code: dict[str, str] = {}
    for function in (*WITH_EVERY_BASE, *functions):
        _gather(function, code)
    return code


def plain(source: str) -> str:
    """Python without comments, docstrings, and the way in which lines are broken."""
    tree = ast.parse(textwrap.dedent(source))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def _digest(code: dict[str, str], settings: str) -> str:
    return hashlib.sha256(json.dumps([settings, sorted(code.items())]).encode()).hexdigest()


def _gather(function: Callable[..., Any], code: dict[str, str]) -> None:
    function = inspect.unwrap(function)
    name = f"{function.__module__}.{function.__qualname__}"
    if name in code:
        return
    code[name], words = _read(function)
    for word in words:
        used = function.__globals__.get(word)  # type: ignore[attr-defined]
        if isinstance(used, FunctionType) and used.__module__.startswith("tests.damages"):
            _gather(used, code)
        elif isinstance(used, str | int | float | tuple | dict):
            code[f"{function.__module__}.{word}"] = repr(used)


@cache
def _read(function: Callable[..., Any]) -> tuple[str, list[str]]:
    """Its plain text, and the names in it: most bases are made by the same functions."""
    text = plain(inspect.getsource(function))
    return text, sorted({node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)})
