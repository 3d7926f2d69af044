"""A number and what it is: counted, bounded, estimated or not known."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, Self

from pydantic import (
    ModelWrapValidatorHandler,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from recovery.contracts.value import Number, Value


class Bound(StrEnum):
    """What a number is, the surest first. Stored with amounts, and the word that people see."""

    EXACT = "exact"
    AT_MOST = "at most"
    """The true number is not above it."""
    AT_LEAST = "at least"
    """The true number is not below it."""
    ESTIMATE = "estimate"
    """The true number may be above or below."""
    UNKNOWN = "unknown"
    """There is no number."""

    @property
    def before_number(self) -> str:
        """What a sentence puts before the number: `at most `, `about `; "" before an exact one."""
        return {Bound.EXACT: "", Bound.ESTIMATE: "about "}.get(self, f"{self.value} ")

    def unless(self, exact: bool) -> "Bound":
        """`EXACT` where the number was counted, this bound where it was not."""
        return Bound.EXACT if exact else self


def joint_bound(bounds: Iterable[Bound]) -> Bound:
    """What the sum of such numbers is: bounds of both sides make an estimate."""
    inexact = set(bounds) - {Bound.EXACT}
    if Bound.UNKNOWN in inexact:
        return Bound.UNKNOWN
    return inexact.pop() if len(inexact) == 1 else Bound.ESTIMATE if inexact else Bound.EXACT


def may_happen(rows: int | None, bound: Bound) -> bool:
    """Whether there may be such rows at all: it is not known that there are none."""
    return rows != 0 or bound not in (Bound.EXACT, Bound.AT_MOST)


_OLD_AT_MOST: Final = "at most: "
"""How an upper bound was marked in `why` before bounds had a key of their own."""


class _Bounded(Value):
    """A number that may be a bound. It is stored with `exact`, which says what `bound` does, and is alone in amounts
    of older releases."""

    bound: Bound
    """What the number is."""
    why: str = ""
    """How the number was made, in words for people; no decision reads it."""

    @property
    def exact(self) -> bool:
        """Whether it was counted."""
        return self.bound is Bound.EXACT

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, given: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """From a call, or from what is stored."""
        if not isinstance(given, Mapping):
            return handler(given)
        old = "exact" in given and "bound" not in given
        fields = cls._fields_of({**given, **_bound_of_old(given)} if old else given)
        fields.pop("exact", None)
        made = handler(fields)
        if old:
            made.__pydantic_fields_set__.discard("bound")
        return made

    @model_serializer(mode="wrap")
    def _write(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        """As stored; for `codec.to_read_json` an amount that was stored without a bound as it was."""
        fields = handler(self)
        if info.exclude_unset and "bound" not in self.model_fields_set:
            fields["why"] = (_OLD_AT_MOST if self.bound is Bound.AT_MOST else "") + self.why
        return self._stored({**fields, "exact": self.exact})

    @classmethod
    def _fields_of(cls, stored: Mapping[str, Any]) -> dict[str, Any]:
        """The fields under the names that they have here."""
        return dict(stored)

    @classmethod
    def _stored(cls, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The fields under the names that they are stored with, in their order."""
        return _in_order(fields, ("value", "exact", "why", "bound"))


class Amount(_Bounded):
    """How much of one thing, and whether that was counted."""

    value: Number
    """The number."""
    bound: Bound = Bound.EXACT
    """What the number is."""


class ReadField(Value):
    """One column of a row, as people read it."""

    name: str
    """Its name."""
    text: str
    """What it holds."""


class OpenGroup(Value):
    """One group of a window, as the state has it."""

    key: tuple[ReadField, ...]
    """By what it is grouped, without the window itself; (): not readable, or by nothing else."""
    so_far: tuple[ReadField, ...]
    """What it has added up so far; (): not readable."""


class OpenWindow(Value):
    """So many groups of one window of an aggregation."""

    start_ms: Number
    """When it begins, in ms since 1970."""
    end_ms: Number | None
    """When it ends, in ms since 1970; None: of a session, whose end its key does not tell."""
    groups: Number
    """How many groups the state holds of it."""
    first: tuple[OpenGroup, ...] = ()
    """The first of them. Not stored where there are none."""

    @model_serializer(mode="wrap")
    def _write(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        stored: dict[str, object] = handler(self)
        if not self.first:
            stored.pop("first", None)
        return stored


class RowAmount(_Bounded):
    """So many rows of so many files, between two places of the input."""

    rows: Number | None
    """How many rows; None: not known, and then `bound` says so whatever it was given."""
    files: Number = 0
    """How many files they are in; 0 for sources that are no files."""
    start: str | None = None
    """The first place: a file's name, or the label of a position. Stored as `from`."""
    end: str | None = None
    """The last place. Stored as `to`."""
    windows: tuple[OpenWindow, ...] = ()
    """Of rows that only the state holds, the first windows. Not stored where there are none."""

    @property
    def possible(self) -> bool:
        """Whether there may be such rows at all."""
        return may_happen(self.rows, self.bound)

    def loosened(self, why: str | None = None) -> "RowAmount":
        """The same number as an estimate where it was exact, with another reason where one is given."""
        return self.bounded(Bound.ESTIMATE if self.exact else self.bound, self.why if why is None else why)

    def bounded(self, bound: Bound, why: str) -> "RowAmount":
        """The same number with another bound and its reason."""
        return self._with(bound=Bound.UNKNOWN if self.rows is None else bound, why=why)

    def numbered(self, rows: int, why: str) -> "RowAmount":
        """Another number of the same bound, with its reason."""
        return self._with(rows=rows, why=why)

    def in_windows(self, windows: tuple[OpenWindow, ...]) -> "RowAmount":
        """The same rows, with the windows that they are in."""
        return self._with(windows=windows)

    @property
    def without_groups(self) -> "RowAmount":
        """The same rows without what is in them: their keys and values are people's data."""
        return self.in_windows(tuple(w.model_copy(update={"first": ()}) for w in self.windows))

    def _with(self, **changed: Any) -> "RowAmount":
        return self.model_copy(update=changed)

    @classmethod
    def _fields_of(cls, stored: Mapping[str, Any]) -> dict[str, Any]:
        fields = {_ROW_FIELDS.get(key, key): value for key, value in stored.items()}
        return fields if fields.get("rows") is not None else {**fields, "bound": Bound.UNKNOWN}

    @classmethod
    def _stored(cls, fields: Mapping[str, Any]) -> dict[str, Any]:
        keys = {field: key for key, field in _ROW_FIELDS.items()}
        stored = {keys.get(field, field): value for field, value in fields.items()}
        if not stored.get("windows"):
            stored.pop("windows", None)
        return _in_order(stored, ("rows", "files", "from", "to", "exact", "why", "bound", "windows"))


_ROW_FIELDS: Final = {"from": "start", "to": "end"}


def _in_order(fields: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    return {key: fields[key] for key in keys if key in fields}


def _bound_of_old(fields: Mapping[str, Any]) -> dict[str, Any]:
    """`bound` and `why` of an amount that was stored before bounds had a key of their own."""
    why = str(fields.get("why") or "")
    if fields["exact"]:
        return {"bound": Bound.EXACT}
    if why.startswith(_OLD_AT_MOST):
        return {"bound": Bound.AT_MOST, "why": why.removeprefix(_OLD_AT_MOST)}
    return {"bound": Bound.ESTIMATE}
