"""Texts that cannot be kept: PostgreSQL takes no NUL, and no page that shows half of a character can be sent."""

from collections.abc import Iterable, Iterator
from typing import Any


def text_problem(body: Any) -> str:
    """What is wrong with a text in it, at any depth, in one sentence; empty when nothing is."""
    return next(filter(None, map(_text_problem, _iterate_texts(body))), "")


def _iterate_texts(body: Any) -> Iterator[str]:
    left = [body]
    while left:  # no recursion: what was sent may be as deep as it likes
        item = left.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            left += [*item, *item.values()]
        elif isinstance(item, Iterable):
            left += item


def _text_problem(text: str) -> str:
    if "\0" in text:
        return "What was sent holds a NUL character, which no text here may hold. Take it out, then send it again."
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(text[error.start]):04x}"
        return (
            f"What was sent holds half of a character, {half}, which cannot be written as UTF-8. Take it out."
        )
    return ""
