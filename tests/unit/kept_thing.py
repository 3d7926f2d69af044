"""What a run of test_shared.py shares: in a module that its processes import at once."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest


@contextlib.contextmanager
def thing() -> Iterator[dict[str, Any]]:
    """Something that writes down when it starts and when it is ended."""
    book = Path(os.environ["THING_BOOK"])
    with book.open("a") as pen:
        pen.write("start\n")
    yield {"pid": os.getpid()}
    with book.open("a") as pen:
        pen.write("end\n")


@contextlib.contextmanager
def broken() -> Iterator[dict[str, Any]]:
    """Something that does not start."""
    raise OSError("no room for it")
    yield {}


def config(folder: Path | None = None) -> Any:
    """As pytest's: of a worker where a folder is given."""
    worker = {"workerinput": {"shared": str(folder)}} if folder else {}
    return SimpleNamespace(stash=pytest.Stash(), **worker)
