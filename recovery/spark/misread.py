"""Whether one schema reads the data files of before and the new ones, after a run and before it (child only).

A file sink checks no schema: a step that changes the type of a column writes files beside which the earlier ones can no
longer be read, or are read as null. Counts and keys do not show that.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

from recovery.checkpoints.uris import path_in_store
from recovery.spark.api import TableMisfit
from recovery.spark.catalog import path_of
from recovery.spark.code_flow import CodeFlow
from recovery.spark.paths import literal
from recovery.spark.rehearsing import Request

WITH_FOOTERS = ("parquet", "orc")
"""Formats whose files tell the types of their columns without being read."""


def find_misread_columns(
    spark: Any, request: Request, place: Mapping[str, str]
) -> tuple[Sequence[str], Sequence[str]]:
    """`Measure.misread` and `Measure.lacking`; of a table by its path alone: one of a catalog has one schema, a Delta
    table checks it."""
    old, new = request.get("old_files"), request.get("new_files")
    if path_of(request["table"]) is None or place["provider"] not in WITH_FOOTERS or not (old and new):
        return (), ()
    # without `basePath` a partition's value, whose type is guessed from all values, is no column
    before, after = (
        spark.read.format(place["provider"]).load([literal(f) for f in files]).schema for files in (old, new)
    )
    return list_misread_columns(before, after), list_lacking_columns(before, after)


def forecast_misfit(flow: CodeFlow, name: str, held: Any | None) -> TableMisfit | None:
    """How the code would write other files than the table has; None: not so, or not known. `held`: the table."""
    place, sink = path_of(name), flow.sink or {}
    options = {name.lower(): value for name, value in (sink.get("options") or {}).items()}
    if held is None or place is None or _root_of(options.get("path", "")) != _root_of(place[1]):
        return None
    kind, written = place[0], str(sink.get("format"))
    misfit = TableMisfit(retention="" if written == "delta" else options.get("retention", ""))
    if written != kind:
        misfit = replace(misfit, kinds=(kind, written))
    elif kind in WITH_FOOTERS:
        misfit = _add_columns(misfit, flow, held, place[1])
    return misfit if misfit != TableMisfit() else None


def _add_columns(misfit: TableMisfit, flow: CodeFlow, held: Any, root: str) -> TableMisfit:
    """With types and folders, where these are known."""
    before, after = find_partitions(held, root), flow.partitions
    if before is None or after is None:
        return misfit
    folders = {column.lower() for column in (*before, *after)}
    old, new = (
        SimpleNamespace(fields=[column for column in schema.fields if column.name.lower() not in folders])
        for schema in (held.schema, flow.schema)
    )
    misfit = replace(misfit, columns=(*list_misread_columns(old, new), *list_lacking_columns(old, new)))
    moved = [column.lower() for column in before] != [column.lower() for column in after]
    return replace(misfit, before=before, after=after) if moved else misfit


def _root_of(place: str) -> str:
    return path_in_store(place).rstrip("/")


def find_partitions(held: Any, root: str) -> tuple[str, ...] | None:
    """Columns by which the files of a table lie in folders, by one of its files; None: no file, or not known."""
    first = held.selectExpr("input_file_name() AS file").limit(1).collect()
    return list_partitions(first[0]["file"], root) if first else None


def list_partitions(file: str, root: str) -> tuple[str, ...] | None:
    """Columns that the folders between a table and one of its data files name; None: the file is not in the table.

    `file`: as `input_file_name` has it, a URI; `root`: a path or URI, as it is. Spark escapes names once more.
    """
    path, top = unquote(path_in_store(file)), f"{_root_of(root)}/"
    if not path.startswith(top):
        return None
    folders = path.removeprefix(top).split("/")[:-1]
    return tuple(unquote(folder.partition("=")[0]) for folder in folders if "=" in folder)


def list_misread_columns(before: Any, after: Any) -> list[str]:
    """Of two schemas: columns of the earlier one that have another type now, or lack a part. Names are the same in any
    case, as Parquet and ORC are read."""
    old, new = dict(_list_types(before)), dict(_list_types(after))
    return sorted(
        path
        for path, kind in old.items()
        if (new[path] != kind if path in new else path.rpartition(".")[0] in new)
    )


def list_lacking_columns(before: Any, after: Any) -> list[str]:
    """Of two schemas: columns that the later one lacks as a whole. Spark takes the schema of a table from one of its
    files: by that of a new one, such a column is shown for no row (ParquetUtils.inferSchema)."""
    names = {column.name.lower() for column in after.fields}
    return sorted(column.name for column in before.fields if column.name.lower() not in names)


def _list_types(struct: Any, above: str = "") -> Iterator[tuple[str, str]]:
    """Each column with its type, and those inside of a struct, array or map; of one that holds others its kind."""
    for column in struct.fields:
        yield from _list_type(f"{above}{column.name}", column.dataType)


def _list_type(path: str, held: Any) -> Iterator[tuple[str, str]]:
    kind, path = held.typeName(), path.lower()
    yield path, kind if kind in ("struct", "array", "map") else held.simpleString().partition(" collate ")[0]
    if kind == "struct":
        yield from _list_types(held, f"{path}.")
    elif kind == "array":
        yield from _list_type(f"{path}.element", held.elementType)
    elif kind == "map":
        yield from _list_type(f"{path}.key", held.keyType)
        yield from _list_type(f"{path}.value", held.valueType)
