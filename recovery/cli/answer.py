"""What a command answers: one JSON object or calm text, and exit code 0, 1 or 2.

0: good; 1: the answer is bad news or a refusal; 2: wrong use, or something that the answer needs is not reachable.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from recovery.errors import RepriseError
from recovery.names import shown


@dataclass(frozen=True)
class CommandAnswer:
    """What a command found. `data` is what --json prints; `exit_code` 1 when it is bad news."""

    data: Mapping[str, object]
    text: str
    exit_code: int = 0


def say_refusal(error: RepriseError) -> str:
    """The sentence of an expected failure, with the options that go on in spite of it."""
    return f"{error.sentence} Go on with {' '.join(error.flags)}." if error.flags else error.sentence


def refusal_json(error: RepriseError) -> dict[str, object]:
    """`{error: {code, says}}`, and `flags` where there are some: what --json prints of an expected failure."""
    flags = {"flags": error.flags} if error.flags else {}
    return {"error": {"code": error.code, "says": say_refusal(error), **flags}}


def wrong_use_json(message: str) -> dict[str, object]:
    """What --json prints where the arguments themselves are wrong."""
    return {"error": {"code": "wrong_use", "says": message}}


def plain(text: str) -> str:
    """A sentence with `code` in it, without the marks, safe on a terminal."""
    return shown(re.sub(r"`([^`\n]+)`", r"\1", text))
