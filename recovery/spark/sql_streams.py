"""Tables that a SQL text reads as streams, and the same text over something else in their place (child process only).

Pure: text in, text out. Where it is not certain what a word of the text is, nothing is put in the place of anything.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlparse
from sqlparse import tokens

from recovery.spark.catalog import name_parts
from recovery.spark.session import quoted

_WORD: Final = re.compile(r"[A-Za-z_]\w*|`[^`]+`")
_ENDS: Final = frozenset({")", ",", ";", "|>"})
# Words that begin what may follow a table without an alias; Spark takes none of them for an alias there.
_FOLLOWS: Final = frozenset(
    {
        "WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW", "LATERAL",
        "UNION", "EXCEPT", "MINUS", "INTERSECT", "JOIN", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "NATURAL", "ON",
        "USING",
    }
)  # fmt: skip
_CLAUSES: Final = frozenset({"WATERMARK", "TABLESAMPLE", "WITH", "PIVOT", "UNPIVOT"})


class Unclear(Exception):
    """What is behind a stream of the text is not certain. One sentence."""


@dataclass(frozen=True)
class _StreamReference:
    """`STREAM t` or `STREAM(t)`: the table's name as written, and the index of the first token behind it."""

    name: str
    end: int


def over_others(
    text: str, stand_in: Callable[[str], str], keep: Callable[[str], str] = lambda part: part
) -> str:
    """The text with `stand_in(name)` in place of each table that it reads as a stream, under the name that the table
    had there. `keep`: what becomes of all other parts. Raises `Unclear`."""
    flat, out, at = _flat(text), [], 0
    while at < len(flat):
        read = _read_at(flat, at)
        if read is None:
            out.append(keep(flat[at].value))
            at += 1
            continue
        alias = "" if _has_alias(flat, read) else f" AS {quoted(name_parts(read.name)[-1])}"
        out.append(f"{stand_in(read.name)}{keep(alias)}")
        at = read.end
    return "".join(out)


def _read_at(flat: Sequence[Any], at: int) -> _StreamReference | None:
    before = next((t.value.upper() for t in reversed(flat[:at]) if _says(t)), "")
    if flat[at].value.upper() != "STREAM" or before.split()[-1:] not in (["FROM"], ["JOIN"], [","]):
        return None
    begin = _next(flat, at + 1)
    within = begin < len(flat) and flat[begin].value == "("
    name, end = _name(flat, _next(flat, begin + 1) if within else begin)
    if within:
        close = _next(flat, end)
        if close >= len(flat) or flat[close].value != ")":
            return None  # a function, or a query
        end = close + 1
    return _StreamReference(name, end) if name else None


def _name(flat: Sequence[Any], at: int) -> tuple[str, int]:
    """A dotted name and the index behind it; "" where there is none."""
    parts: list[str] = []
    while at < len(flat):
        wanted = "." if len(parts) % 2 else None
        value = flat[at].value
        if (wanted and value != wanted) or (not wanted and not _WORD.fullmatch(value)):
            break
        parts.append(value)
        at += 1
    if len(parts) % 2 == 0:
        return "", at
    return "".join(parts), at


def _has_alias(flat: Sequence[Any], read: _StreamReference) -> bool:
    """Raises `Unclear` where the next word may be an alias or may be none."""
    at = _next(flat, read.end)
    if at >= len(flat) or flat[at].value in _ENDS:
        return False
    token = flat[at]
    word = token.value.upper().split()[0]
    if word in _FOLLOWS:
        return False
    if word == "AS" or (token.ttype in tokens.Name and word not in _CLAUSES):
        return True
    raise Unclear(
        f"What {token.value} means behind STREAM {read.name} is not known; give it an alias with AS."
    )


def _next(flat: Sequence[Any], at: int) -> int:
    while at < len(flat) and not _says(flat[at]):
        at += 1
    return at


def _says(token: Any) -> bool:
    return not token.is_whitespace and token.ttype not in tokens.Comment


def _flat(text: str) -> list[Any]:
    return [token for parsed in sqlparse.parse(text) for token in parsed.flatten()]  # type: ignore[no-untyped-call]
