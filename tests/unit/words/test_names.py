"""Names of one word, and words that say little, may only become fewer; a class name is used once (docs/style.md)."""

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parents[3]
#: of public functions and methods of the product, in per cent
ONE_WORD_NAMES: Final = 21.7
#: of private ones
ONE_WORD_PRIVATE_NAMES: Final = 30.5
#: in docstrings of the product
AVOIDED_WORDS: Final = 109
AVOIDED = re.compile(r"\b(?:told|anew|nobody|stands|lies|whence|shall|mend|mends|mended)\b", re.IGNORECASE)
#: variables and parameters of the product that name nothing
EMPTY_NAMES: Final = 568
EMPTY = {"found", "told", "one", "of", "there", "theirs", "mine", "his", "thing"}
#: names that several classes of the product may have: Django wants the first of each command; the second is a table of
#: the console and one of the Pipelines server, and to rename a table takes a migration
SHARED_CLASS_NAMES: Final = {"Command", "Pipeline"}
SPEAKS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def product() -> Iterator[ast.Module]:
    for room in ("console", "recovery"):
        for path in sorted((ROOT / room).rglob("*.py")):
            if "migrations" not in path.parts:
                yield ast.parse(path.read_text())


@dataclass
class Named:
    """The names and docstrings of the product."""

    functions: list[str] = field(default_factory=list)
    variables: list[str] = field(default_factory=list)
    docstrings: list[str] = field(default_factory=list)
    classes: Counter[str] = field(default_factory=Counter)


@functools.cache
def names_of_product() -> Named:
    """Read once for every test here: to parse the product takes seconds."""
    named = Named()
    for tree in product():
        named.functions += function_names(tree.body)
        named.classes.update(node.name for node in tree.body if isinstance(node, ast.ClassDef))
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                named.variables.append(node.id)
            elif isinstance(node, ast.arg):
                named.variables.append(node.arg)
            elif isinstance(node, SPEAKS) and (text := ast.get_docstring(node)):
                named.docstrings.append(text)
    return named


def has_own_name(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Is its name a choice of ours, and that of an act? A property is a noun; `__enter__` is Python's."""
    decorators = " ".join(map(ast.unparse, function.decorator_list))
    return "property" not in decorators and ".setter" not in decorators and not function.name.startswith("__")


def function_names(body: Iterable[ast.stmt]) -> Iterator[str]:
    """Names of functions and methods."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from function_names(node.body)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and has_own_name(node):
            yield node.name


def share_of_one_word(names: list[str]) -> float:
    return 100 * sum("_" not in name.strip("_") for name in names) / len(names)


def test_names_of_one_word_become_fewer() -> None:
    names = names_of_product().functions
    assert share_of_one_word([name for name in names if not name.startswith("_")]) <= ONE_WORD_NAMES
    assert share_of_one_word([name for name in names if name.startswith("_")]) <= ONE_WORD_PRIVATE_NAMES


def test_variables_that_name_nothing_become_fewer() -> None:
    assert sum(name in EMPTY for name in names_of_product().variables) <= EMPTY_NAMES


def test_words_to_avoid_become_fewer_in_docstrings() -> None:
    assert sum(len(AVOIDED.findall(text)) for text in names_of_product().docstrings) <= AVOIDED_WORDS


def test_a_class_name_is_used_once() -> None:
    names = names_of_product().classes
    assert {name for name, times in names.items() if times > 1} == SHARED_CLASS_NAMES
