"""The filter languages of the API, as plain values: nothing here knows the database.

Events: `timestamp`, `id`, `update_id`, `level` compared with literals, joined by AND. Other columns are
refused as the service refuses them (`event_type` cannot be filtered on). Pipelines: one
`name LIKE '%x%'` or `notebook='<path>'`.
"""

import re
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime

from recovery.server.problems import invalid_request

OPERATORS = {
    "timestamp": frozenset({">", ">=", "<", "<=", "="}),
    "id": frozenset({"=", "IN"}),
    "update_id": frozenset({"=", "IN"}),
    "level": frozenset({"=", "IN"}),
}
LEVELS = frozenset({"INFO", "WARN", "ERROR", "METRICS"})
TOKEN = re.compile(r"\s*(?:('(?:[^']|'')*')|([A-Za-z_][A-Za-z0-9_.]*)|(<=|>=|!=|<>|=|<|>)|([(),]))")


@dataclass(frozen=True)
class FilterCondition:
    """`column operator values`; values are text, or one int of milliseconds for `timestamp`."""

    column: str
    operator: str
    values: tuple[str | int, ...]


@dataclass(frozen=True)
class FilterToken:
    """One word of a filter: kind is literal, name, operator or mark."""

    kind: str
    text: str


def split_tokens(text: str) -> list[FilterToken]:
    """Split a filter into words. Raises ApiProblem 400 at the first character that is none."""
    words, at = [], 0
    end = len(text.rstrip())
    while at < end:
        match = TOKEN.match(text, at)
        if not match:
            raise invalid_request(f"The filter cannot be read at {text[at:].strip()[:40]!r}.")
        literal, name, operator, mark = match.groups()
        if literal is not None:
            words.append(FilterToken("literal", literal[1:-1].replace("''", "'")))
        elif name is not None:
            words.append(FilterToken("name", name))
        else:
            words.append(FilterToken("operator", operator) if operator else FilterToken("mark", mark))
        at = match.end()
    return words


def parse_milliseconds(literal: str) -> int:
    """`YYYY-MM-DDTHH:MM:SS.mmmZ` as milliseconds since 1970. Raises ApiProblem 400."""
    try:
        moment = datetime.fromisoformat(literal.strip())
    except ValueError as error:
        raise invalid_request(f"{literal!r} is not a timestamp such as 2026-03-02T10:15:07.120Z.") from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


class FilterWords:
    """The words of one filter, taken from the left."""

    def __init__(self, text: str) -> None:
        self.rest = deque(split_tokens(text))

    def take_word(self, kind: str, what: str) -> str:
        """The next word, which must be of this kind. Raises ApiProblem 400 naming what is missing."""
        if not self.rest or self.rest[0].kind != kind:
            shown = repr(self.rest[0].text) if self.rest else "the end"
            raise invalid_request(f"The filter needs {what} where it has {shown}.")
        return self.rest.popleft().text

    def take_operator(self) -> str:
        """A comparison, `IN` or `LIKE`."""
        if self.rest and self.rest[0].kind == "name" and self.rest[0].text.upper() in ("IN", "LIKE"):
            return self.rest.popleft().text.upper()
        return self.take_word("operator", "an operator")

    def take_literals(self) -> tuple[str, ...]:
        """`('a', 'b')`."""
        if self.take_word("mark", "'('") != "(":
            raise invalid_request("The filter needs '(' after IN.")
        values = [self.take_word("literal", "a quoted value")]
        while (mark := self.take_word("mark", "',' or ')'")) == ",":
            values.append(self.take_word("literal", "a quoted value"))
        if mark != ")":
            raise invalid_request("The filter's list needs ')' at its end.")
        return tuple(values)


def parse_condition(words: FilterWords) -> FilterCondition:
    """One comparison. Raises ApiProblem 400 where the service does."""
    column = words.take_word("name", "a column")
    operator = words.take_operator()
    allowed = OPERATORS.get(column)
    if allowed is None or operator not in allowed:
        raise invalid_request(f"Operation '{operator}' not allowed on '{column}'.")
    values = words.take_literals() if operator == "IN" else (words.take_word("literal", "a quoted value"),)
    if column == "level" and (wrong := set(values) - LEVELS):
        raise invalid_request(
            f"{sorted(wrong)[0]!r} is not an event level; levels are {', '.join(sorted(LEVELS))}."
        )
    if column == "timestamp":
        return FilterCondition(column, operator, (parse_milliseconds(values[0]),))
    return FilterCondition(column, operator, values)


def parse_events_filter(text: str) -> tuple[FilterCondition, ...]:
    """Every condition of an events filter; an empty filter has none. Raises ApiProblem 400."""
    words = FilterWords(text)
    conditions: list[FilterCondition] = []
    while words.rest:
        if conditions and words.take_word("name", "AND").upper() != "AND":
            raise invalid_request("The filter's conditions can be joined by AND only.")
        conditions.append(parse_condition(words))
    return tuple(conditions)


def parse_pipelines_filter(text: str) -> FilterCondition | None:
    """The one condition of a pipelines filter, or None. Raises ApiProblem 400."""
    words = FilterWords(text)
    if not words.rest:
        return None
    column, operator = words.take_word("name", "a column"), words.take_operator()
    if (column, operator) not in (("name", "LIKE"), ("name", "="), ("notebook", "=")):
        raise invalid_request(f"Operation '{operator}' not allowed on '{column}'.")
    value = words.take_word("literal", "a quoted value")
    if words.rest:
        raise invalid_request("A pipelines filter holds one condition; composite filters are not supported.")
    return FilterCondition(column, operator, (value,))


def matches_like(pattern: str, text: str) -> bool:
    """SQL LIKE: `%` is any text, `_` any one character, upper and lower case are the same."""
    first, *others = [_pattern_of_piece(piece) for piece in pattern.split("%")]
    if not others:
        return first.fullmatch(text) is not None
    begun = first.match(text)
    if begun is None:
        return False
    at = begun.end()
    for piece in others[:-1]:  # each where it fits first: none after it has less room by that
        met = piece.search(text, at)
        if met is None:
            return False
        at = met.end()
    length = len(pattern.rpartition("%")[2])
    return len(text) - length >= at and others[-1].fullmatch(text, len(text) - length) is not None


def _pattern_of_piece(piece: str) -> re.Pattern[str]:
    """What is between two `%`: a text of one length, with `_` for any character."""
    plain = "".join("." if c == "_" else re.escape(c) for c in piece)
    return re.compile(plain, re.IGNORECASE | re.DOTALL)
