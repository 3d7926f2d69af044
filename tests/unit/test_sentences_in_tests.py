"""Tests ask for codes and values. Whole sentences in their asserts become fewer, never more.

Words may change without breaking a test, but for the one table that holds those of each code (`tests/unit/words`). What
is left outside of it are sentences that have no code yet; whoever gives them one lowers the number here.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
TABLE = TESTS / "unit/words"
WORDS = 4
"""From so many words on a text counts as a sentence."""
LEFT = {
    "browser": 1,
    "contract": 22,
    "integration": 53,
    "unit": 4,
    "unit/audit": 3,
    "unit/checkpoints": 24,
    "unit/damages": 1,
    "unit/deployed": 1,
    "unit/devtools": 1,
    "unit/diagnosis": 11,
    "unit/pages": 2,
    "unit/sources": 40,
    "unit/strategies": 35,
    "unit/verification": 4,
    "unit/workflow": 6,
}
"""Asserts that hold a sentence, by folder."""


def _texts(of: ast.AST) -> Iterator[str]:
    for node in ast.walk(of):
        if isinstance(node, ast.JoinedStr):
            yield "{}".join(
                v.value for v in node.values if isinstance(v, ast.Constant) and isinstance(v.value, str)
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def is_sentence(text: str) -> bool:
    told = re.sub(r"<[^>]*>", " ", text)
    return min(len(re.findall(r"[A-Za-z][A-Za-z'’-]*", told)), len(text.split())) >= WORDS


def sentences(source: str) -> list[int]:
    """Lines of the asserts that hold a sentence: `assert`, and the `match` of `pytest.raises`."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        asked: list[ast.AST] = []
        if isinstance(node, ast.Assert):
            asked = [node.test]
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "raises"
        ):
            asked = [k.value for k in node.keywords if k.arg == "match"]
        if any(is_sentence(text) for part in asked for text in _texts(part)):
            lines.append(asked[0].lineno)  # type: ignore[attr-defined]
    return lines


def folder(path: Path) -> str:
    parts = path.relative_to(TESTS).parts
    return "/".join(parts[:2]) if parts[0] == "unit" and len(parts) > 2 else parts[0]


def counted() -> dict[str, int]:
    """Sentences in asserts, by folder, but for the table of words."""
    found: dict[str, int] = {}
    for path in sorted(TESTS.rglob("*.py")):
        if (number := len(sentences(path.read_text("utf-8")))) and TABLE not in path.parents:
            found[folder(path)] = found.get(folder(path), 0) + number
    return found


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("assert 'Choose how far to go back' in page", [1]),
        ("assert page.one('how-far-not-chosen')", []),
        ("assert f'Step {kind} is never skipped' == says", [1]),
        ("with pytest.raises(Refused, match='has no plan in force'):\n    act()", [1]),
        ("assert '652 rows' in page", []),
        ("says = 'Choose how far to go back'", []),
    ],
)
def test_what_counts_as_a_sentence(source: str, lines: list[int]) -> None:
    assert sentences(source) == lines


def test_sentences_in_asserts_become_fewer() -> None:
    more = {name: number for name, number in counted().items() if number > LEFT.get(name, 0)}
    assert more == {}, f"Ask for a code or a value; left are {LEFT}"
