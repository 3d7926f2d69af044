"""What a question brings to one process is bounded: no `collect` of rows whose number the data decides."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

ROOM: Final = Path(__file__).resolve().parents[3] / "recovery" / "spark"
BRINGS: Final = {"collect", "toPandas", "toLocalIterator", "toArrow", "tail"}
"""Methods of a DataFrame that bring its rows to the process that asks."""


class Held(StrEnum):
    """What holds the number of rows, where that is no aggregate of all rows."""

    LIMIT = "limit in the same call"
    FILES = "one row for each file that the request names"
    COMMAND = "the answer of a command: one row of numbers, or one a column"


ALLOWED: Final[dict[tuple[str, str], Held]] = {
    ("misread.py", "find_partitions"): Held.LIMIT,
    ("table_sides.py", "_same_rows"): Held.LIMIT,
    ("counting.py", "samples_of"): Held.LIMIT,
    ("origins.py", "_files_of"): Held.LIMIT,
    ("origins.py", "_lines_of"): Held.LIMIT,
    ("counting.py", "rows_by_file"): Held.FILES,
    ("catalog.py", "describe"): Held.COMMAND,  # DESCRIBE TABLE
    ("deduplicating.py", "_replace_once"): Held.COMMAND,  # MERGE
    ("filling.py", "latest_version"): Held.COMMAND,  # DESCRIBE HISTORY, LIMIT 1
    ("filling.py", "restore"): Held.COMMAND,  # RESTORE TABLE
}


@dataclass(frozen=True)
class Brought:
    """A call that brings rows. `before`: the methods before it in its chain, the nearest first."""

    file: str
    function: str
    method: str
    before: tuple[str, ...]

    @property
    def is_aggregate(self) -> bool:
        """One row, whatever the data: an `agg` of all rows, not of groups."""
        return self.before[:1] == ("agg",) and self.before[1:2] != ("groupBy",)


def brought() -> list[Brought]:
    return [
        Brought(path.name, function.name, call.func.attr, tuple(chain(call.func.value, function)))
        for path in sorted(ROOM.rglob("*.py"))
        for function in functions(ast.parse(path.read_text()))
        for call in own_calls(function)
        if isinstance(call.func, ast.Attribute) and call.func.attr in BRINGS
    ]


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def own_calls(function: ast.FunctionDef) -> Iterator[ast.Call]:
    """Its calls, without those of functions within it."""
    inner = {node for nested in functions(function) if nested is not function for node in ast.walk(nested)}
    return (n for n in ast.walk(function) if isinstance(n, ast.Call) and n not in inner)


def chain(value: ast.expr, function: ast.FunctionDef) -> Iterator[str]:
    """The methods of a chain of calls, through variables that are set once in the function."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        yield value.func.attr
        value = value.func.value
    if isinstance(value, ast.Name):
        is_set = [
            node.value
            for node in ast.walk(function)
            if isinstance(node, ast.Assign)
            and [ast.dump(t) for t in node.targets] == [ast.dump(as_target(value))]
        ]
        if len(is_set) == 1:
            yield from chain(is_set[0], function)


def as_target(name: ast.Name) -> ast.Name:
    return ast.Name(name.id, ast.Store())


def test_rows_are_collected_as_one_aggregate_or_where_it_is_listed_what_bounds_them() -> None:
    assert {(one.file, one.function) for one in brought() if not one.is_aggregate} == set(ALLOWED)


def test_what_is_listed_as_limited_has_its_limit_in_the_same_call() -> None:
    limited = [one for one in brought() if ALLOWED.get((one.file, one.function)) is Held.LIMIT]
    assert len(limited) == 5
    assert all("limit" in one.before for one in limited)


def test_rows_come_by_collect_alone() -> None:
    assert {one.method for one in brought()} == {"collect"}
