"""What a notebook has that no program imports, while an exported one is studied (child process only).

A widget has the value that an argument `NAME=VALUE` gives, else its default, as in a run by hand.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from recovery.notebook_cells import Notebook
from recovery.spark.definitions import BadCode
from recovery.spark.driver_only import DriverThing, plain_text
from recovery.spark.untouched import Acts

PASSED: Final = frozenset({"pip"})
"""Magics that a study of a program passes over: stand-ins take the place of libraries that are not installed here."""


def run_as_main(notebook: Notebook, path: Path, names: Mapping[str, Any]) -> None:
    """Run a program as `__main__`, as a start by hand does, with these names."""
    own = sys.modules["__main__"]
    main = sys.modules["__main__"] = ModuleType("__main__")
    main.__dict__.update(names, __file__=str(path))
    try:
        notebook.run_cells(main.__dict__)
    finally:
        sys.modules["__main__"] = own


def notebook_names(spark: Any, context: Any, arguments: Sequence[str], acts: Acts) -> dict[str, Any]:
    """Name -> value. A program that gives one of these names to something of its own has its own."""
    return {
        "spark": spark,
        "sc": context,
        "dbutils": NotebookTools(arguments, acts),
        "display": _shown,
        "displayHTML": _shown,
    }


def _shown(*args: Any, **kwargs: Any) -> None:
    """Shows nothing."""


class NotebookTools(DriverThing):
    """In place of `dbutils`."""

    def __init__(self, arguments: Sequence[str], acts: Acts) -> None:
        super().__init__("dbutils")
        self.widgets = NotebookWidgets(arguments)
        self.fs = NotebookFiles(acts)
        self.secrets = NotebookSecrets("secrets")
        self.notebook = NotebookRun("another notebook")


class NotebookWidgets(DriverThing):
    def __init__(self, arguments: Sequence[str]) -> None:
        super().__init__("widgets")
        pairs = [argument.lstrip("-").partition("=") for argument in arguments]
        self._given = {name: value for name, equals, value in pairs if equals}
        self._defaults: dict[str, str] = {}

    def text(self, name: str, defaultValue: Any, *args: Any, **kwargs: Any) -> None:
        self._defaults[name] = str(defaultValue)

    dropdown = combobox = multiselect = text

    def get(self, name: str, *_: Any) -> str:
        for values in (self._given, self._defaults):
            if name in values:
                return values[name]
        raise BadCode(f"The notebook's widget {name} has no value: name it with --argument {name}=VALUE.")

    getArgument = get


class NotebookFiles(DriverThing):
    def __init__(self, acts: Acts) -> None:
        super().__init__("the files of the workspace")
        self._acts = acts

    def rm(self, path: str, *_: Any, **__: Any) -> bool:
        self._acts.removed.append(plain_text(path))
        return True

    def mv(self, path: str, *_: Any, **__: Any) -> bool:
        """From where it lay it is gone."""
        return self.rm(path)


class NotebookSecrets(DriverThing):
    def get(self, scope: str = "", key: str = "") -> DriverThing:
        return DriverThing(f"the secret {key}")


class NotebookRun(DriverThing):
    def exit(self, *_: Any) -> None:
        raise SystemExit(0)
