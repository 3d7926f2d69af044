"""Count and compare rows on Spark: everything about sets of files in one job (child process only).

Rows are told apart with GROUP BY, which is exact and treats NULL as a value; nothing is hashed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from recovery.spark.explained import reshuffles
from recovery.spark.paths import plain

SAMPLES = 10  # rows that are shown of each side of a difference


class NoSuchColumn(Exception):
    """The key names a column that the rows do not have. One sentence."""


def resolved(key: Sequence[str], columns: Sequence[str], what: str) -> list[str]:
    """Names of `key` as `columns` spells them (Spark compares names without case)."""
    spelled = {c.lower(): c for c in columns}
    absent = [k for k in key if k.lower() not in spelled]
    if absent:
        raise NoSuchColumn(f"{what} has no column {', '.join(absent)}; its columns are {', '.join(columns)}.")
    return [spelled[k.lower()] for k in key]


def flagged(frame: Any, columns: Sequence[str], mark: int, marks: int) -> Any:
    """The key columns as k0, k1, … and one counter of `marks` set to 1."""
    from pyspark.sql import functions as F

    keys = [F.col(_quoted(c)).alias(f"k{i}") for i, c in enumerate(columns)]
    flags = [F.lit(1 if i == mark else 0).cast("bigint").alias(f"n{i}") for i in range(marks)]
    return frame.select(*keys, *flags)


def tallied(frames: Sequence[Any], columns: Sequence[Sequence[str]]) -> Any:
    """One row per distinct key, with the number of rows of each frame as n0, n1, …"""
    from pyspark.sql import functions as F

    marks = len(frames)
    rows = [flagged(f, c, i, marks) for i, (f, c) in enumerate(zip(frames, columns, strict=True))]
    union = rows[0]
    for row in rows[1:]:
        union = union.unionAll(row)
    keys = [f"k{i}" for i in range(len(columns[0]))]
    return union.groupBy(*keys).agg(*[F.sum(f"n{i}").alias(f"n{i}") for i in range(marks)])


def set_counts(frames: Mapping[str, Any], key: Sequence[str], table: Any | None) -> dict[str, Any]:
    """Rows, distinct keys and keys the table already holds, for every labelled frame: one job."""
    from pyspark.sql import functions as F

    labels = list(frames)
    parts = [frames[label] for label in labels]
    columns = [resolved(key, f.columns, "What the code yields") for f in parts]
    if table is not None:
        parts.append(table)
        columns.append(resolved(key, table.columns, "The table"))
    counts = tallied(parts, columns)
    sums = []
    held = F.col(f"n{len(labels)}") > 0 if table is not None else F.lit(False)
    for i in range(len(labels)):
        n = F.col(f"n{i}")
        sums += [
            F.sum(n).alias(f"rows{i}"),
            F.count_if(n > 0).alias(f"distinct{i}"),
            F.sum(F.when(held, n).otherwise(0)).alias(f"repeats{i}"),
            F.count_if((n > 0) & ~held).alias(f"fresh{i}"),
        ]
    if table is not None:
        sums.append(F.sum(f"n{len(labels)}").alias("table"))
    row = counts.agg(*sums).collect()[0].asDict()
    out: dict[str, Any] = {
        name: {label: int(row[f"{name}{i}"] or 0) for i, label in enumerate(labels)}
        for name in ("rows", "distinct", "repeats", "fresh")
    }
    out["table_rows"] = int(row["table"] or 0) if table is not None else None
    return out


def rows_by_file(frame: Any, files: Sequence[str]) -> dict[str, int] | None:
    """Rows that each of `files` yields; None where rows of several files meet before they come out."""
    from pyspark.sql import functions as F

    if reshuffles(frame._explain_string(extended=True)):
        return None
    spelled = {plain(f): f for f in files}
    counts = dict.fromkeys(files, 0)
    for row in frame.select(F.input_file_name().alias("file")).groupBy("file").count().collect():
        name = spelled.get(plain(unquote(row["file"])))
        if name is None:
            return None  # a row whose file Spark does not know: the count by file would be wrong
        counts[name] += int(row["count"])
    return counts


@dataclass(frozen=True)
class Apart:
    """By what rows are told apart. `values`: columns by which expected and written rows are compared; `key`: columns of
    which no row of the table should have the same twice, all of them among `values`."""

    values: Sequence[str]
    key: Sequence[str]

    @classmethod
    def by(cls, key: Sequence[str]) -> "Apart":
        """Both by the same columns."""
        return cls(key, key)


def compare(
    old: Any | None, expected: Any, found: Any, apart: Apart, samples: int, *, whole: bool = False
) -> dict[str, Any]:
    """Multiset comparison of what is `expected` and what was written, and repeats of keys in the table: one job.

    `found` is what was written, and the table is that and `old`; or, with `whole`, it is the whole table as it is now,
    and written is what it has beyond `old`, what it had in `old` and has no more is `vanished`.
    Where rows differ, a second job fetches up to `samples` of them on each side.
    """
    from pyspark.sql import functions as F

    parts = [expected, found] + ([old] if old is not None else [])
    columns = [resolved(apart.values, f.columns, what) for f, what in zip(parts, _NAMES, strict=False)]
    counts = _differences(tallied(parts, columns), with_old=old is not None, whole=whole)
    row = _by_key(counts, apart).agg(*_sums(whole=whole)).collect()[0]
    out: dict[str, Any] = {name: int(value or 0) for name, value in row.asDict().items()}
    if not whole:
        del out["vanished"]
    out["samples"] = {
        side: samples_of(counts.where(F.col(side) > 0), apart.values, F.col(side), samples)
        if out[side]
        else []
        for side in ("missing", "extra")
    }
    return out


def _differences(counts: Any, *, with_old: bool, whole: bool) -> Any:
    """One row a distinct row: how often it was expected, found and there before, and what differs."""
    from pyspark.sql import functions as F

    none = F.lit(0).cast("bigint")
    e, f, o = F.col("n0"), F.col("n1"), F.col("n2") if with_old else none
    written = F.greatest(f - o, none) if whole else f
    return counts.select(
        *(c for c in counts.columns if c.startswith("k")),
        e.alias("e"),
        written.alias("written"),
        o.alias("o"),
        (f if whole else o + f).alias("held"),
        F.greatest(e - written, none).alias("missing"),
        F.greatest(written - e, none).alias("extra"),
        F.greatest(o - f, none).alias("vanished"),
    )


_AMOUNTS = ("e", "written", "o", "held", "missing", "extra", "vanished")


def _by_key(counts: Any, apart: Apart) -> Any:
    """The same, one row a key: rows that differ in other columns are put together."""
    from pyspark.sql import functions as F

    at = [n for n, column in enumerate(apart.values) if column.lower() in {k.lower() for k in apart.key}]
    if len(at) == len(apart.values):
        return counts
    return counts.groupBy(*[f"k{n}" for n in at]).agg(*[F.sum(a).alias(a) for a in _AMOUNTS])


def _sums(*, whole: bool) -> list[Any]:
    from pyspark.sql import functions as F

    none = F.lit(0)
    e, o, held, written = (F.col(name) for name in ("e", "o", "held", "written"))
    one = F.greatest(o, F.lit(1))  # what the table had of a key before, else the first of the rows that came
    return [
        F.sum(e).alias("expected_rows"),
        F.sum(written).alias("new_rows"),
        F.sum(o).alias("old_rows"),
        F.sum(held).alias("listed_rows"),
        F.sum("missing").alias("missing"),
        F.sum("extra").alias("extra"),
        F.sum("vanished").alias("vanished"),
        F.count_if(held > 0).alias("table_keys"),
        F.sum(F.greatest(held - 1, none)).alias("duplicates_in_table"),
        F.sum(F.greatest(o - 1, none)).alias("duplicates_before"),
        F.sum(F.greatest(o + e - 1, none)).alias("duplicates_expected"),
        F.sum(F.when(o > 0, e).otherwise(none)).alias("held_before"),
        F.count_if((written > 0) & (held > 1)).alias("keys_twice"),
        F.sum(F.when(written > 0, F.greatest(held - one, none)).otherwise(none)).alias("new_repeats"),
    ]


def whole_flow(every: Any, table: Any, key: Sequence[str], *, as_sets: bool) -> dict[str, Any]:
    """What the code yields over all input beside the whole table, the fields of `api.Whole`: one job.

    `as_sets`: only whether a key is there counts, not how often (the input may repeat one). Else rows are compared as
    a multiset.
    """
    from pyspark.sql import functions as F

    columns = [
        resolved(key, every.columns, "What the code yields"),
        resolved(key, table.columns, "The table"),
    ]
    counts = tallied([every, table], columns)
    none, i, t = F.lit(0), F.col("n0"), F.col("n1")
    absent = F.when((i > 0) & (t == 0), F.lit(1)).otherwise(none) if as_sets else F.greatest(i - t, none)
    doubled = F.greatest(t - 1, none) if as_sets else F.when(i > 0, F.greatest(t - i, none)).otherwise(none)
    row = counts.agg(
        F.sum(i).alias("input_rows"),
        F.count_if(i > 0).alias("input_keys"),
        F.sum(t).alias("table_rows"),
        F.count_if(t > 0).alias("table_keys"),
        F.sum(absent).alias("absent"),
        F.sum(doubled).alias("doubled"),
        F.sum(F.when(i == 0, t).otherwise(none)).alias("beyond"),
    ).collect()[0]
    out: dict[str, Any] = {name: int(value or 0) for name, value in row.asDict().items()}
    out["samples"] = samples_of(counts.where(absent > 0), key, absent, SAMPLES) if out["absent"] else []
    return out


_NAMES = ("What the code yields", "What the update wrote", "The table")


def samples_of(counts: Any, key: Sequence[str], amount: Any, limit: int) -> list[dict[str, Any]]:
    """Up to `limit` keys of tallied rows, as text, and how often `amount` says."""
    from pyspark.sql import functions as F

    fields = [F.col(f"k{i}").cast("string").alias(f"k{i}") for i in range(len(key))]
    rows = counts.select(*fields, amount.alias("times")).limit(limit).collect()
    return [{"key": {name: r[f"k{i}"] for i, name in enumerate(key)}, "times": int(r["times"])} for r in rows]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
