"""Keys that a table has more often than the code yields them, and their rows (child process only)."""

from collections.abc import Sequence
from typing import Any

from recovery.spark.comparable import equal_on, one_type, resolved


def repeated_keys(counts: Any) -> Any:
    """Those of tallied keys (n0: rows that the code yields, n1: rows of the table) that the table has too often."""
    return counts.where("n0 > 0 AND n1 > n0")


def count_differing(counts: Any, yields: Any, table: Any, key: Sequence[str]) -> int | None:
    """Of the keys that the table has too often, those whose rows are not equal in every column; None where its columns
    cannot be compared. `counts`: as of `repeated_keys`."""
    from pyspark.errors import AnalysisException

    columns = one_type([table], [table.columns])[0]
    whole = [f"w{n}" for n in range(len(columns))]
    values = [column.alias(name) for name, column in zip(whole, columns, strict=True)]
    rows = only_repeated(by_key(yields, table, key, values), repeated_keys(counts), key)
    names = _key_columns(key)
    kinds = rows.groupBy(*names, *whole).count().groupBy(*names).count()
    try:
        return int(kinds.where("count > 1").count())
    except AnalysisException:  # such as VARIANT, which Spark does not group by
        return None


def by_key(yields: Any, table: Any, key: Sequence[str], more: Sequence[Any]) -> Any:
    """The table's key as r0, r1, … of the type by which it is tallied with what the code yields, and `more` columns."""
    columns = [
        resolved(key, yields.columns, "What the code yields"),
        resolved(key, table.columns, "The table"),
    ]
    mine = one_type([yields, table], columns)[1]
    named = [column.alias(name) for name, column in zip(_key_columns(key), mine, strict=True)]
    return table.select(*named, *more)


def only_repeated(rows: Any, repeated: Any, key: Sequence[str]) -> Any:
    """Those of `rows` (`by_key`) whose key is one of `repeated` (k0, …), with its columns; NULL is a value."""
    pairs = [(name, f"k{n}") for n, name in enumerate(_key_columns(key))]
    return rows.join(repeated, equal_on(rows, repeated, pairs), "inner")


def _key_columns(key: Sequence[str]) -> list[str]:
    return [f"r{n}" for n in range(len(key))]
