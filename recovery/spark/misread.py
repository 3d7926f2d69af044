"""Whether one schema reads the data files of before and the new ones, after a run and before it (child only).

A file sink checks no schema: a step that changes the type of a column writes files beside which the earlier ones can no
longer be read, or are read as null. Counts and keys do not show that.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

from recovery.spark.api import TableMisfit
from recovery.spark.catalog import path_of, table
from recovery.spark.code_flow import CodeFlow
from recovery.spark.paths import literal, plain
from recovery.spark.rehearsing import Request

WITH_FOOTERS = ("parquet", "orc")
"""Formats whose files tell the types of their columns without being read."""


def find_misread_columns(spark: Any, request: Request, place: Mapping[str, str]) -> Sequence[str]:
    """See `Measure.misread`; of a table by its path alone: one of a catalog has one schema, a Delta table checks it."""
    old, new = request.get("old_files"), request.get("new_files")
    if path_of(request["table"]) is None or place["provider"] not in WITH_FOOTERS or not (old and new):
        return ()
    # without `basePath` a partition's value, whose type is guessed from all values, is no column
    before, after = (
        spark.read.format(place["provider"]).load([literal(f) for f in files]).schema for files in (old, new)
    )
    return list_misread_columns(before, after)


def forecast_misfit(spark: Any, name: str, flow: CodeFlow) -> TableMisfit | None:
    """What the code would write otherwise than the files of the table have it; None: nothing, or it has none."""
    place = path_of(name)
    if place is None or place[0] not in WITH_FOOTERS or flow.partitions is None:
        return None
    held = table(spark, name)
    first = [] if held is None else held.selectExpr("input_file_name() AS file").limit(1).collect()
    if held is None or not first:
        return None
    before, after = (
        _partitions_of(unquote(plain(first[0]["file"])), unquote(plain(place[1]))),
        flow.partitions,
    )
    old, new = (
        [
            column
            for column in schema.fields
            if column.name.lower() not in {p.lower() for p in (*before, *after)}
        ]
        for schema in (held.schema, flow.schema)
    )
    columns = list_misread_columns(SimpleNamespace(fields=old), SimpleNamespace(fields=new))
    moved = [p.lower() for p in before] != [p.lower() for p in after]
    return TableMisfit(tuple(columns), before, after) if columns or moved else None


def _partitions_of(file: str, root: str) -> tuple[str, ...]:
    """Columns that the folders between a table and one of its data files name."""
    folders = file.removeprefix(root.rstrip("/")).strip("/").split("/")[:-1]
    return tuple(folder.partition("=")[0] for folder in folders if "=" in folder)


def list_misread_columns(before: Any, after: Any) -> list[str]:
    """Of two schemas. A column that only one of them has at the top is none: it is null in the other's files."""
    old, new = dict(_list_types(before)), dict(_list_types(after))
    return sorted(
        path
        for path, kind in old.items()
        if (new[path] != kind if path in new else path.rpartition(".")[0] in new)
    )


def _list_types(struct: Any, above: str = "") -> Iterator[tuple[str, str]]:
    """Each column with its type, and those inside of a struct, array or map; of one that holds others its kind."""
    for column in struct.fields:
        yield from _list_type(f"{above}{column.name}", column.dataType)


def _list_type(path: str, held: Any) -> Iterator[tuple[str, str]]:
    kind = held.typeName()
    yield path, kind if kind in ("struct", "array", "map") else held.simpleString()
    if kind == "struct":
        yield from _list_types(held, f"{path}.")
    elif kind == "array":
        yield from _list_type(f"{path}.element", held.elementType)
    elif kind == "map":
        yield from _list_type(f"{path}.key", held.keyType)
        yield from _list_type(f"{path}.value", held.valueType)
