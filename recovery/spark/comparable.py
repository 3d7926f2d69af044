"""Columns of several frames as one type, so that values are equal where they are the same and nowhere else (child
process only; no row is read).

Spark itself makes one type of two wherever it can: fields of structs by their position, whole numbers as floating ones,
letters by a collation. Here fields go by their names, texts by their bytes, and a type is only widened where every
value of either side stays what it is. A value that the write into a narrower column changed then shows as a difference.
What no rule covers is not compared (`NotComparable`).
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from recovery.spark.session import quoted

WHOLE_DIGITS: Final = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
"""Whole numbers from narrow to wide, and how many digits a decimal needs for each."""
IN_FLOATING: Final = {"float": ("tinyint", "smallint"), "double": ("tinyint", "smallint", "int", "float")}
"""What each floating type holds without rounding."""
AS_TEXT: Final = ("tinyint", "smallint", "int", "bigint", "boolean", "date")
"""What a write into a text column spells in one way alone."""
MOST_DIGITS: Final = 38
_CHAR = re.compile(r"char\((\d+)\)")
_CHAR_METADATA = "__CHAR_VARCHAR_TYPE_STRING"


class NoSuchColumn(Exception):
    """The key names a column that the rows do not have, or more than one. One sentence."""


class NotComparable(Exception):
    """The types of a column do not let its values be compared. One sentence; `column` is its path, `types` are what the
    code yields and what the table has."""

    def __init__(self, column: str, mine: Any, theirs: Any) -> None:
        self.column, self.types = column, (_named(mine), _named(theirs))
        super().__init__(
            f"The column {column} is {self.types[0]} in what the code yields and {self.types[1]} in the table: one "
            "type does not hold the values of both without changing some, so the rows were not compared."
        )


class _Apart(Exception):
    """There is no common type."""


def resolved(key: Sequence[str], columns: Sequence[str], what: str) -> list[str]:
    """Names of `key` as `columns` spells them: each as it is written, else without case where that names one column.

    Spark keeps columns that differ in case alone apart where `spark.sql.caseSensitive` is set. Raises `NoSuchColumn`.
    """
    found = [_spelled(name, columns) for name in key]
    if absent := [name for name, spelled in zip(key, found, strict=True) if not spelled]:
        raise NoSuchColumn(f"{what} has no column {', '.join(absent)}; its columns are {', '.join(columns)}.")
    if unclear := [name for name, spelled in zip(key, found, strict=True) if len(spelled) > 1]:
        raise NoSuchColumn(
            f"{what} has several columns that {', '.join(unclear)} may mean; its columns are {', '.join(columns)}."
        )
    names = [spelled[0] for spelled in found]
    if len(set(names)) < len(set(key)):
        raise NoSuchColumn(
            f"{what} has fewer columns than {', '.join(key)} name; its columns are {', '.join(columns)}."
        )
    return names


def _spelled(name: str, columns: Sequence[str]) -> list[str]:
    return [name] if name in columns else [c for c in columns if c.lower() == name.lower()]


def alike(
    frames: Sequence[Any], columns: Sequence[Sequence[str]], *, by_collation: bool = False
) -> list[Any]:
    """These columns of each frame, and no others, as k0, k1, … of one type in all of them (`one_type`)."""
    every = one_type(frames, columns, by_collation=by_collation)
    return [named(frame, mine) for frame, mine in zip(frames, every, strict=True)]


def one_type(
    frames: Sequence[Any], columns: Sequence[Sequence[str]], *, by_collation: bool = False
) -> list[list[Any]]:
    """Expressions of these columns of each frame, of one type in all of them. The first is what the code yields.

    `by_collation`: texts keep the collation that the first frame has. Raises `NotComparable`.
    """
    fields = [_fields(frame, names) for frame, names in zip(frames, columns, strict=True)]
    wanted = [_one_type(every, by_collation) for every in zip(*fields, strict=True)]
    widths = [_width(every) for every in zip(*fields, strict=True)]
    return [[_converted(*one) for one in zip(mine, wanted, widths, strict=True)] for mine in fields]


def named(frame: Any, columns: Sequence[Any]) -> Any:
    """These expressions over a frame, as k0, k1, …"""
    return frame.select(*[column.alias(f"k{n}") for n, column in enumerate(columns)])


def collated(frame: Any, columns: Sequence[str]) -> dict[int, Any]:
    """Types of those of `columns` whose texts have a collation, by their place."""
    types = [field.dataType for field in _fields(frame, columns)]
    return {n: kind for n, kind in enumerate(types) if _bare(kind, True) != _bare(kind, False)}


def common_type(column: str, mine: Any, theirs: Any, *, by_collation: bool = False) -> Any:
    """The type that holds every value of both. `mine` is what the code yields. Raises `NotComparable`."""
    try:
        return _common(_bare(mine, by_collation), _bare(theirs, by_collation))
    except _Apart as error:
        path, one, other = error.args
        raise NotComparable(column + path, one, other) from None


def _fields(frame: Any, columns: Sequence[str]) -> list[Any]:
    by_name = {field.name: field for field in frame.schema.fields}
    return [by_name[name] for name in resolved(columns, list(by_name), "The compared rows")]


def _one_type(fields: Sequence[Any], by_collation: bool) -> Any:
    kind = _bare(fields[0].dataType, by_collation)
    for field in fields[1:]:
        kind = common_type(field.name, kind, field.dataType, by_collation=by_collation)
    return kind


def _bare(kind: Any, by_collation: bool) -> Any:
    """A type without what is no part of its values: nullability, metadata, the width of a text; and its collation."""
    from pyspark.sql import types as T

    if isinstance(kind, T.StringType):
        return T.StringType(kind.collation) if by_collation else T.StringType()
    if isinstance(kind, (T.CharType, T.VarcharType)):
        return T.StringType()
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_bare(kind.elementType, by_collation))
    if isinstance(kind, T.MapType):
        return T.MapType(_bare(kind.keyType, by_collation), _bare(kind.valueType, by_collation))
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(f.name, _bare(f.dataType, by_collation)) for f in kind.fields])
    return kind


def _common(our_type: Any, their_type: Any, path: str = "") -> Any:
    from pyspark.sql import types as T

    if our_type == their_type:
        return our_type
    if isinstance(our_type, T.NullType) or isinstance(their_type, T.NullType):
        return their_type if isinstance(our_type, T.NullType) else our_type
    if isinstance(our_type, T.StructType) and isinstance(their_type, T.StructType):
        return _common_struct(our_type, their_type, path)
    if isinstance(our_type, T.ArrayType) and isinstance(their_type, T.ArrayType):
        return T.ArrayType(_common(our_type.elementType, their_type.elementType, f"{path}.element"))
    if isinstance(our_type, T.MapType) and isinstance(their_type, T.MapType):
        key = _common(our_type.keyType, their_type.keyType, f"{path}.key")
        return T.MapType(key, _common(our_type.valueType, their_type.valueType, f"{path}.value"))
    if isinstance(their_type, T.StringType) and (
        isinstance(our_type, T.StringType) or _named(our_type) in AS_TEXT
    ):
        return our_type if isinstance(our_type, T.StringType) else their_type
    number = _common_number(our_type, their_type)
    if number is None:
        raise _Apart(path, our_type, their_type)
    return number


def _common_struct(mine: Any, theirs: Any, path: str) -> Any:
    """With the names and the order of the code's fields."""
    from pyspark.sql import types as T

    try:
        names = resolved(mine.names, theirs.names, "")
    except NoSuchColumn:
        raise _Apart(path, mine, theirs) from None
    if len(names) != len(theirs.names):
        raise _Apart(path, mine, theirs)
    by_name = {field.name: field.dataType for field in theirs.fields}
    return T.StructType(
        [
            T.StructField(field.name, _common(field.dataType, by_name[name], f"{path}.{field.name}"))
            for field, name in zip(mine.fields, names, strict=True)
        ]
    )


def _common_number(mine: Any, theirs: Any) -> Any | None:
    from pyspark.sql import types as T

    names = _named(mine), _named(theirs)
    if all(name in WHOLE_DIGITS for name in names):
        return max(mine, theirs, key=lambda kind: WHOLE_DIGITS[_named(kind)])
    for kind, name in ((mine, names[1]), (theirs, names[0])):
        if name in IN_FLOATING.get(_named(kind), ()):
            return kind
    if set(names) == {"float", "int"}:
        return T.DoubleType()
    sizes = [_digits(kind) for kind in (mine, theirs)]
    if None in sizes:
        return None
    before, after = (max(size[n] for size in sizes if size) for n in (0, 1))
    return T.DecimalType(before + after, after) if before + after <= MOST_DIGITS else None


def _digits(kind: Any) -> tuple[int, int] | None:
    """Digits before and after the point of an exact number; None: it is none."""
    from pyspark.sql import types as T

    if isinstance(kind, T.DecimalType):
        return kind.precision - kind.scale, kind.scale
    digits = WHOLE_DIGITS.get(_named(kind))
    return None if digits is None else (digits, 0)


def _width(fields: Sequence[Any]) -> int:
    """How wide a CHAR column of any of these tables is, which pads what is written; 0: none is one."""
    marks = [_CHAR.fullmatch(str((field.metadata or {}).get(_CHAR_METADATA, ""))) for field in fields]
    return max((int(mark[1]) for mark in marks if mark), default=0)


def _converted(field: Any, wanted: Any, width: int) -> Any:
    from pyspark.sql import functions as F

    have = _bare(field.dataType, True)
    column = _reordered(F.col(quoted(field.name)), have, wanted)
    column = column if have == wanted else column.cast(wanted)
    return F.when(F.length(column) < width, F.rpad(column, width, " ")).otherwise(column) if width else column


def _reordered(column: Any, have: Any, want: Any) -> Any:
    """With the fields of its structs in the order of `want`, as a cast goes by position."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    if not _moved(have, want):
        return column
    if isinstance(have, T.ArrayType):
        return F.transform(column, lambda one: _reordered(one, have.elementType, want.elementType))
    if isinstance(have, T.MapType):

        def entry(one: Any) -> Any:
            key = _reordered(one["key"], have.keyType, want.keyType)
            return F.struct(
                key.alias("key"), _reordered(one["value"], have.valueType, want.valueType).alias("value")
            )

        return F.map_from_entries(F.transform(F.map_entries(column), entry))
    by_name = {field.name: field.dataType for field in have.fields}
    fields = [
        _reordered(column.getField(name), by_name[name], field.dataType).alias(field.name)
        for name, field in zip(resolved(want.names, have.names, ""), want.fields, strict=True)
    ]
    return F.when(column.isNotNull(), F.struct(*fields))


def _moved(have: Any, want: Any) -> bool:
    from pyspark.sql import types as T

    if isinstance(have, T.StructType) and isinstance(want, T.StructType):
        names = resolved(want.names, have.names, "")
        return names != have.names or any(
            _moved(mine.dataType, theirs.dataType)
            for mine, theirs in zip(have.fields, want.fields, strict=True)
        )
    if isinstance(have, T.ArrayType) and isinstance(want, T.ArrayType):
        return _moved(have.elementType, want.elementType)
    if isinstance(have, T.MapType) and isinstance(want, T.MapType):
        return _moved(have.keyType, want.keyType) or _moved(have.valueType, want.valueType)
    return False


def _named(kind: Any) -> str:
    return str(kind.simpleString())


def equal_on(rows: Any, others: Any, pairs: Iterable[tuple[str, str]]) -> Any:
    """The condition of a join: each pair of columns, one of either side, has equal values; NULL is one."""
    same = [rows[column].eqNullSafe(others[other]) for column, other in pairs]
    condition = same[0]
    for more in same[1:]:
        condition = condition & more
    return condition
