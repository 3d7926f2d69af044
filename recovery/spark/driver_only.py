"""Replaces what only a running driver has, while a plain program is studied (child process only).

A program may name such a thing, call it and log it. Where it decides by it, or makes a place or an option of it, what a
run would do is not known: that is refused, and nothing is guessed.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType, ModuleType
from typing import Any, Final, NoReturn

from recovery.spark.definitions import UNKNOWN_PLACE, BadCode
from recovery.spark.replay import messages_in

_TOLD: Final = re.compile("⟦([^⟦⟧]*)⟧")


class DriverText(str):
    """The text of what only a run has: it can be logged and put into another text, and nothing hangs on it unseen."""

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        refuse_decision(str(self).strip("⟦⟧"))

    def _stay(self, *_: Any) -> "DriverText":
        return self

    _refused: Any = _refuse
    _same: Any = _stay
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _refused
    __getitem__ = __iter__ = __len__ = __contains__ = _refused
    startswith = endswith = split = rsplit = splitlines = partition = rpartition = _refused
    find = rfind = index = rindex = count = isdigit = isnumeric = isdecimal = isalpha = isalnum = _refused
    lower = upper = casefold = title = capitalize = strip = lstrip = rstrip = _same
    replace = removeprefix = removesuffix = _same


class Decisions:
    """Refusals of what would have hung on a running driver, also those that the program caught. `made`: them."""

    def __init__(self) -> None:
        self.made: list[BadCode] = []


_noting: list[Decisions] = []


@contextmanager
def noting_decisions(decisions: Decisions) -> Iterator[None]:
    """Meanwhile a program that catches such a refusal, and goes another way than its runs, has gone on unknown."""
    _noting.append(decisions)
    try:
        yield
    finally:
        _noting.remove(decisions)


def refuse_decision(what: str) -> NoReturn:
    """Raises `BadCode`."""
    problem = BadCode(
        f"What the program does depends on {what}, which only a run of it has.", code=UNKNOWN_PLACE
    )
    if _noting and not _only_logs(sys._getframe(1)):
        _noting[-1].made.append(problem)
    raise problem


def _only_logs(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__") == "logging":
            return True
        frame = frame.f_back
    return False


class DriverThing:
    """It takes every call and says nothing."""

    def __init__(self, name: Any = "a running driver", *_: Any, **__: Any) -> None:
        self._told = str(name)

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        return (DriverBase,)

    def __enter__(self) -> "DriverThing":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was opened."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return DriverThing(name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return DriverThing(self._told)

    def __getitem__(self, key: Any) -> Any:
        return DriverThing(self._told)

    def __str__(self) -> str:
        return DriverText(f"⟦{self._told}⟧")

    def __repr__(self) -> str:
        return f"⟦{self._told}⟧"

    __fspath__ = __repr__

    def __format__(self, spec: str) -> str:
        return self.__str__()

    def _refuse(self, *_: Any) -> NoReturn:
        refuse_decision(self._told)

    __bool__ = __iter__ = __len__ = __contains__ = __int__ = __float__ = __index__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __add__ = __radd__ = __mul__ = __rmul__ = __sub__ = _refuse
    __rsub__ = __truediv__ = __floordiv__ = __mod__ = __eq__ = __ne__ = _refuse
    __reduce_ex__ = _refuse  # a function of the program would take it along to its rows

    def __hash__(self) -> int:
        """`typing` asks for it; a program that looks something up by it goes by what is not known."""
        if sys._getframe(1).f_globals.get("__name__", "").partition(".")[0] in sys.stdlib_module_names:
            return object.__hash__(self)
        refuse_decision(self._told)


class DriverBase(DriverThing):
    """The base of a class of the program whose own base is not here: that one may fill its fields with anything."""

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and name not in object.__getattribute__(self, "__dict__"):
            kind = type(self)
            own = (
                vars(base)[name] for base in kind.__mro__ if name in vars(base) and base is not DriverThing
            )
            default = next(own, None)
            if default is not None and not callable(default) and not hasattr(default, "__get__"):
                return DriverThing(f"{kind.__name__}.{name}")
        return super().__getattribute__(name)


def refuse_driver_things(texts: Mapping[str, Any]) -> None:
    """`texts`: what a text is for -> it. Raises `BadCode` where only a run can say one, or an option has no value."""
    for name, given in texts.items():
        text = plain_text(given)
        if text == "None" and name.startswith("the option"):
            raise BadCode(
                f"The program gives {name} no value: an argument or a variable of the environment may be missing. "
                "Name it with --argument, or in the start command (env NAME=VALUE …).",
                code=UNKNOWN_PLACE,
            )
        if unknown := _TOLD.search(text):
            raise BadCode(
                f"The program makes {name} of {unknown[1]}, which only a run of it has. Pass it as an argument or "
                "name it in the environment.",
                code=UNKNOWN_PLACE,
            )


def plain_text(value: Any) -> str:
    """Its text, which can be looked at."""
    return str(str(value))


def is_of_driver(text: str) -> bool:
    """Whether only a run has a part of it."""
    return bool(_TOLD.search(text))


def refuse_in_rows(plan: Any) -> None:
    """Raises `BadCode` where a plan, a message of Connect, has in a value, an expression or a name what only a run can
    say. Options of readers, which may be logins, are judged where they are loaded."""
    for message in messages_in(plan):
        for field, value in message.ListFields():
            if field.type == field.TYPE_STRING:
                for text in [value] if isinstance(value, str) else value:
                    refuse_driver_things({"a value of its rows": text})


class JavaThing(DriverThing):
    """What Py4J leads to. By Hadoop's FileSystem a program removes and renames places: `removed` takes them.

    `place`: the first text of the call that gave it, as `Path(text)`."""

    def __init__(self, name: str, removed: list[str], place: str = "") -> None:
        super().__init__(name)
        self._removed, self._place = removed, place

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return JavaThing(name, self._removed, self._place)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        named = [place for place in map(_place_of, args) if place]
        if self._told in _TAKES:
            self._removed += named[:1]
        return JavaThing(self._told, self._removed, named[0] if named else self._place)

    def __getitem__(self, key: Any) -> Any:
        return self


def _place_of(argument: Any) -> str:
    return (
        argument._place if isinstance(argument, JavaThing) else argument if isinstance(argument, str) else ""
    )


_TAKES: Final = frozenset(
    {"delete", "deleteOnExit", "rename", "moveToTrash", "moveFromLocalFile", "fullyDelete"}
)
"""Methods of Hadoop after which their first place is gone."""


class DriverContext(DriverThing):
    """In place of a SparkContext: of its settings it knows those that the program has named."""

    def __init__(
        self,
        settings: Mapping[str, str],
        version: Callable[[], str] | None = None,
        removed: list[str] | None = None,
    ) -> None:
        super().__init__("SparkContext")
        self._settings, self._version = settings, version
        self._jvm = self._gateway = self._jsc = JavaThing("Java", [] if removed is None else removed)

    @property
    def version(self) -> Any:
        return self._version() if self._version else DriverThing("version")

    def getConf(self) -> "DriverContext":
        return self

    def get(self, key: str, defaultValue: Any = None) -> Any:
        """A default is the program's own guess: a run may be given the setting with its start."""
        return self._settings.get(key, DriverThing(f"the setting {key}"))


class ContextClass:
    """In place of the class SparkContext."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = settings

    def __call__(self, *args: Any, **kwargs: Any) -> DriverContext:
        return DriverContext(self._settings)

    getOrCreate = __call__

    _active_spark_context = None
    _jvm = None
    _gateway = None


class UnstartedStreams(DriverThing):
    """In place of a session's StreamingQueryManager: no query of it runs."""

    active: Sequence[Any] = ()

    def awaitAnyTermination(self, timeout: Any = None) -> bool:
        return True


class UnstartedQuery(DriverThing):
    """A query that was not started: it is over at once."""

    isActive = False
    lastProgress = None
    recentProgress: Sequence[Any] = ()
    id = runId = "00000000-0000-0000-0000-000000000000"
    name = None

    def awaitTermination(self, timeout: Any = None) -> bool:
        return True

    def exception(self) -> None:
        return None


def delta_table(spark: Any) -> type:
    """The class DeltaTable: its tables can be read, and nothing is done to them."""

    class DeltaTable(DriverThing):
        def __init__(self, frame: Any = None) -> None:
            super().__init__("a Delta table")
            self._frame = frame

        def toDF(self) -> Any:
            return self._frame

        def alias(self, name: str) -> "DeltaTable":
            return DeltaTable(self._frame.alias(name))

        @classmethod
        def forPath(cls, session: Any, path: str, *_: Any) -> "DeltaTable":
            return cls(spark.read.format("delta").load(path))

        @classmethod
        def forName(cls, session: Any, name: str) -> "DeltaTable":
            return cls(spark.read.table(name))

        @classmethod
        def isDeltaTable(cls, session: Any, path: str) -> bool:
            from pyspark.errors import PySparkException

            with suppress(PySparkException):
                return spark.read.format("delta").load(path).schema is not None
            return False

    for name in ("create", "createIfNotExists", "createOrReplace", "replace", "convertToDelta"):
        setattr(DeltaTable, name, DriverThing("a Delta table"))
    return DeltaTable


@contextmanager
def standing_in_for_delta(spark: Any) -> Iterator[None]:
    """The package `delta`. Its own modules, which could change tables, are given back where they are there."""
    own = {name: module for name, module in sys.modules.items() if _is_of_delta(name)}
    for name in own:
        del sys.modules[name]
    sys.modules.update(_modules_of_delta(spark))
    try:
        yield
    finally:
        for name in [name for name in sys.modules if _is_of_delta(name)]:
            del sys.modules[name]
        sys.modules.update(own)


def _is_of_delta(name: str) -> bool:
    return name.partition(".")[0] == "delta"


def _modules_of_delta(spark: Any) -> dict[str, ModuleType]:
    """`import *` takes from them what it takes from the package's own."""
    import typing

    from pyspark.sql import Column, DataFrame, SparkSession, functions, types

    module = ModuleType("delta")
    module.__path__ = []
    modules = {"delta": module}
    for name in ("tables", "pip_utils", "exceptions"):
        modules[f"delta.{name}"] = part = ModuleType(f"delta.{name}")
        setattr(module, name, part)
    given = {name: getattr(types, name) for name in ("DataType", "StructField", "StructType")}
    given |= {
        name: getattr(typing, name) for name in ("Any", "Dict", "Iterable", "List", "Optional", "Union")
    }
    given |= {"Column": Column, "DataFrame": DataFrame, "SparkSession": SparkSession, "functions": functions}
    given |= {"DeltaTable": delta_table(spark), "configure_spark_with_delta_pip": _as_it_is}
    for name in ("DeltaMergeBuilder", "DeltaOptimizeBuilder", "DeltaTableBuilder", "IdentityGenerator"):
        given[name] = type(name, (DriverThing,), {})
    for part in modules.values():
        vars(part).update(given)
    return modules


def _as_it_is(spark_session_builder: Any, *_: Any, **__: Any) -> Any:
    return spark_session_builder
