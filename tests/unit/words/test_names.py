"""Names of one word, and words that say little, may only become fewer (docs/style.md)."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parents[3]
#: of public functions and methods of the product, in per cent
ONE_WORD_NAMES: Final = 40.0
#: in docstrings of the product
AVOIDED_WORDS: Final = 497
AVOIDED = re.compile(r"\b(?:told|anew|nobody|stands)\b", re.IGNORECASE)
SPEAKS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def product() -> Iterator[ast.Module]:
    for room in ("console", "recovery"):
        for path in sorted((ROOT / room).rglob("*.py")):
            if "migrations" not in path.parts:
                yield ast.parse(path.read_text())


def is_public(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    decorators = " ".join(map(ast.unparse, function.decorator_list))
    return not function.name.startswith("_") and "property" not in decorators and ".setter" not in decorators


def public_functions(body: Iterable[ast.stmt]) -> Iterator[str]:
    """Names of functions and methods; a property is a noun, and none of them."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from public_functions(node.body)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_public(node):
            yield node.name


def test_names_of_one_word_become_fewer() -> None:
    names = [name for tree in product() for name in public_functions(tree.body)]
    assert 100 * sum("_" not in name for name in names) / len(names) <= ONE_WORD_NAMES


def test_words_to_avoid_become_fewer_in_docstrings() -> None:
    texts = (
        ast.get_docstring(node) for tree in product() for node in ast.walk(tree) if isinstance(node, SPEAKS)
    )
    assert sum(len(AVOIDED.findall(text)) for text in texts if text) <= AVOIDED_WORDS
