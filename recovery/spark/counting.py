"""Count and compare rows on Spark (child process only).

Rows are distinguished by GROUP BY, which is exact and treats NULL as a value; no hash decides. Before that, columns are
brought to one type (`comparable`). What is grouped are the
new rows, and those of the table that may have a key of theirs (`lookups`).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from recovery.spark.api import BoundedBy, BudgetBound, Budgets, Limit, Measure, Sample, WholeComparison
from recovery.spark.comparable import NoSuchColumn, NotComparable, alike, collated, resolved
from recovery.spark.explained import reads_by_file
from recovery.spark.lookups import OverBudget, check_size, limited, occurring
from recovery.spark.paths import plain

__all__ = ["NoSuchColumn", "NotComparable", "alike", "resolved"]
SAMPLES = 20  # rows that are shown of each side of a difference


def table_only(columns: Sequence[str], table: Any) -> list[str]:
    """Columns of a table that are not among these: what the code yields says nothing of them."""
    known = {name.lower() for name in columns}
    return [name for name in table.columns if name.lower() not in known]


def tallied(frames: Sequence[Any], columns: Sequence[Sequence[str]], *, by_collation: bool = False) -> Any:
    """One row per distinct key (k0, k1, …), with the number of rows of each frame as n0, n1, …

    The first frame is what the code yields. `by_collation`: as in `comparable.alike`. Raises `NotComparable`.
    """
    return _tallied(alike(frames, columns, by_collation=by_collation))


def _tallied(rows: Sequence[Any]) -> Any:
    """The same of rows whose columns are of one type."""
    from pyspark.sql import functions as F

    marks = len(rows)
    flagged = [
        frame.select("*", *[F.lit(int(i == mark)).cast("bigint").alias(f"n{i}") for i in range(marks)])
        for mark, frame in enumerate(rows)
    ]
    union = flagged[0]
    for more in flagged[1:]:
        union = union.unionAll(more)
    return union.groupBy(*rows[0].columns).agg(*[F.sum(f"n{i}").alias(f"n{i}") for i in range(marks)])


@dataclass(frozen=True)
class SetCounts:
    """What was counted of labelled frames, each number by its label."""

    rows: Mapping[str, int]
    distinct: Mapping[str, int]
    """Different keys."""
    repeats: Mapping[str, int]
    """Rows whose key the table holds already; {}: the table was not asked."""
    fresh: Mapping[str, int]
    """Different keys that the table does not hold; {}: it was not asked."""
    bounded: tuple[BudgetBound, ...] = ()
    """Budgets that were met."""


def set_counts(
    spark: Any,
    frames: Mapping[str, Any],
    key: Sequence[str],
    table: Any | None,
    limit: Limit,
    *,
    by_collation: bool = False,
) -> SetCounts:
    """Rows, distinct keys and keys that the table holds already, of every labelled frame.

    The table is asked for the keys of the frames alone, and not at all where that would go over `limit`, or where there
    is no table. `by_collation`: texts of the key are equal as their collation has it, not by bytes. Raises
    `NoSuchColumn`, `NotComparable`.
    """
    labels = list(frames)
    parts = [frames[label] for label in labels]
    columns = [resolved(key, f.columns, "What the code yields") for f in parts]
    if table is None:
        return _sum_sets(labels, tallied(parts, columns, by_collation=by_collation), held=None)
    columns.append(resolved(key, table.columns, "The table"))
    *rows, held = alike([*parts, table], columns, by_collation=by_collation)
    counts, keys = _tallied(rows), key_names(key)
    try:
        with looking_up(spark, counts, held, keys, limit) as hits:
            beside = add_counter(counts, hits, keys)
            return _sum_sets(labels, beside, held=f"n{len(labels)}")
    except OverBudget as over:
        return replace(_sum_sets(labels, counts, held=None), bounded=(over.bounded,))


def _sum_sets(labels: Sequence[str], counts: Any, *, held: str | None) -> SetCounts:
    """`held`: the counter of the table's rows; None: it is not among `counts`."""
    from pyspark.sql import functions as F

    sums = []
    for i in range(len(labels)):
        n = F.col(f"n{i}")
        sums += [F.sum(n).alias(f"rows{i}"), F.count_if(n > 0).alias(f"distinct{i}")]
        if held is not None:
            is_held = F.col(held) > 0
            sums.append(F.sum(F.when(is_held, n).otherwise(0)).alias(f"repeats{i}"))
            sums.append(F.count_if((n > 0) & ~is_held).alias(f"fresh{i}"))
    row = whole_numbers(counts.agg(*sums).collect()[0])

    def by_label(name: str) -> dict[str, int]:
        return {label: row[f"{name}{i}"] for i, label in enumerate(labels) if f"{name}{i}" in row}

    return SetCounts(by_label("rows"), by_label("distinct"), by_label("repeats"), by_label("fresh"))


def whole_numbers(row: Any) -> dict[str, int]:
    """Sums and counts of one row by their names; a sum over no row is 0."""
    return {name: int(value or 0) for name, value in row.asDict().items()}


def key_names(key: Sequence[str]) -> list[str]:
    """What `comparable.alike` calls these columns."""
    return [f"k{i}" for i in range(len(key))]


@contextmanager
def looking_up(spark: Any, counts: Any, rows: Any, names: Sequence[str], limit: Limit) -> Iterator[Any]:
    """Those of `rows` that may have what `counts` has in its columns `names`. What is computed within is interrupted
    when its time is over. Raises `OverBudget`.

    `counts` is kept meanwhile, so that the input is read and the code is run once.
    """
    from pyspark.storagelevel import StorageLevel

    kept = counts.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        with limited(spark, limit, BoundedBy.LOOKUP):
            hits = occurring(rows, kept, names)
            check_size(hits, limit, BoundedBy.LOOKUP)
            yield hits
    finally:
        kept.unpersist()


def add_counter(counts: Any, hits: Any, names: Sequence[str]) -> Any:
    """Tallied rows with one more counter: how many of `hits` equal them. Other counters of a hit alone are 0."""
    from pyspark.sql import functions as F

    none = F.lit(0).cast("bigint")
    marks = [c for c in counts.columns if c not in names]
    more = f"n{len(marks)}"
    rows = counts.select(*names, *marks, none.alias(more)).unionAll(
        hits.select(*names, *[none.alias(m) for m in marks], F.lit(1).cast("bigint").alias(more))
    )
    return rows.groupBy(*names).agg(*[F.sum(m).alias(m) for m in (*marks, more)])


def rows_by_file(frame: Any, files: Sequence[str]) -> dict[str, int] | None:
    """Rows that each of `files` yields; None where a row does not come out before another file may be read."""
    from pyspark.sql import functions as F

    if not reads_by_file(frame._explain_string(extended=True)):
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
class ComparedColumns:
    """What distinguishes rows. `values`: columns by which expected and written rows are compared; `key`: columns of
    which no row of the table should have the same twice, all of them among `values`.

    Values are compared by the bytes of their texts. `by_collation`: texts of the key are the same where their collation
    says so, as for the dropDuplicates of the flow, whose columns it is.
    """

    values: Sequence[str]
    key: Sequence[str]
    by_collation: bool = False

    @classmethod
    def by(cls, key: Sequence[str], *, by_collation: bool = False) -> "ComparedColumns":
        """Both by the same columns."""
        return cls(key, key, by_collation)

    @property
    def at(self) -> list[int]:
        """Where the columns of the key stand among the values."""
        places = {column: n for n, column in enumerate(self.values)}
        return sorted(places[name] for name in resolved(self.key, self.values, "The compared rows"))

    @property
    def by_key_alone(self) -> bool:
        return len(self.at) == len(self.values)


@dataclass(frozen=True)
class _Sides:
    """Rows that are compared: columns of one type, and the types by which those of the key are compared where these
    are others."""

    rows: list[Any]
    collations: dict[int, Any]

    def key(self, apart: ComparedColumns) -> list[Any]:
        """The columns of the key, under their own names."""
        from pyspark.sql import functions as F

        columns = {n: F.col(f"k{n}") for n in apart.at}
        return [
            (c.cast(self.collations[n]) if n in self.collations else c).alias(f"k{n}")
            for n, c in columns.items()
        ]


def _brought(parts: Sequence[Any], apart: ComparedColumns) -> _Sides:
    columns = [resolved(apart.values, f.columns, what) for f, what in zip(parts, _NAMES, strict=False)]
    alone = apart.by_key_alone
    rows = alike(parts, columns, by_collation=apart.by_collation and alone)
    own = collated(parts[0], columns[0]) if apart.by_collation and not alone else {}
    return _Sides(rows, {n: kind for n, kind in own.items() if n in apart.at})


def compare(
    spark: Any,
    old: Any | None,
    expected: Any,
    found: Any,
    apart: ComparedColumns,
    samples: int,
    budgets: Budgets,
) -> Measure:
    """Multiset comparison of what is `expected` and what was written (`found`), repeats of keys in the table that this
    and `old` make, and what was bounded.

    The new rows are compared by themselves. `old` is asked for their keys alone; and for all of its own, as far as the
    budget for grouping goes. What is bounded is None.
    """
    sides = _brought([expected, found] + ([] if old is None else [old]), apart)
    counts = _tallied(sides.rows[:2])
    if old is None:
        new = _count_differences(
            _differences(counts, with_old=False, whole=False), apart, sides, samples, before=True
        )
        return replace(
            new.measure,
            table_keys=new.fresh_keys,
            duplicates_in_table=new.measure.repeats_added,
            duplicates_before=0,
        )
    bounded: list[BudgetBound] = []
    held, names = sides.rows[2], key_names(apart.values)
    hashed = [f"k{n}" for n in apart.at if n not in sides.collations]
    try:
        with looking_up(spark, counts, held, hashed, budgets.lookup) as hits:
            beside = _differences(add_counter(counts, hits, names), with_old=True, whole=False)
            new = _count_differences(beside, apart, sides, samples, before=True)
    except OverBudget as over:
        bounded.append(over.bounded)
        found_alone = _differences(counts, with_old=False, whole=False)
        new = _count_differences(found_alone, apart, sides, samples, before=False)
    measure = new.measure
    try:
        measure = _add_keys_of(spark, held.select(*sides.key(apart)), budgets.grouping, new)
    except OverBudget as over:
        bounded.append(over.bounded)
    return replace(measure, bounded=tuple(bounded))


def compare_versions(old: Any, expected: Any, found: Any, apart: ComparedColumns, samples: int) -> Measure:
    """As `compare`, where `found` is the whole table as it is now: written is what it has beyond `old`, and what it had
    in `old` and has no more is `vanished`. Both are grouped whole."""
    from pyspark.sql import functions as F

    sides = _brought([expected, found, old], apart)
    counts = _differences(_tallied(sides.rows), with_old=True, whole=True)
    new = _count_differences(counts, apart, sides, samples, before=True)
    sums = _by_key(counts, apart, sides).agg(
        F.sum("o").alias("old_rows"),
        F.sum("held").alias("listed_rows"),
        F.sum("vanished").alias("vanished"),
        F.count_if(F.col("held") > 0).alias("table_keys"),
        F.sum(F.greatest(F.col("held") - 1, F.lit(0))).alias("duplicates_in_table"),
        F.sum(F.greatest(F.col("o") - 1, F.lit(0))).alias("duplicates_before"),
    )
    row = whole_numbers(sums.collect()[0])
    return replace(
        new.measure,
        old_rows=row["old_rows"],
        listed_rows=row["listed_rows"],
        vanished=row["vanished"],
        table_keys=row["table_keys"],
        duplicates_in_table=row["duplicates_in_table"],
        duplicates_before=row["duplicates_before"],
        repeats_added=row["duplicates_in_table"] - row["duplicates_before"],
    )


@dataclass(frozen=True)
class _Differences:
    """What differs between the rows that were expected and those that were written."""

    measure: Measure
    fresh_keys: int | None
    """Different keys that only new rows have; None: rows of before were not looked at."""


def _add_keys_of(spark: Any, keys: Any, limit: Limit, new: _Differences) -> Measure:
    """With different `keys` of the whole table, and rows beyond one per key in it, before and now.

    Raises `OverBudget`.
    """
    from pyspark.sql import functions as F

    check_size(keys, limit, BoundedBy.GROUPING)
    with limited(spark, limit, BoundedBy.GROUPING):
        grouped = keys.groupBy(*keys.columns).agg(F.count(F.lit(1)).alias("o"))
        sums = grouped.agg(F.count(F.lit(1)).alias("keys"), F.sum("o").alias("rows"))
        row = whole_numbers(sums.collect()[0])
    before, added = row["rows"] - row["keys"], new.measure.repeats_added
    if new.fresh_keys is None or added is None:
        return replace(new.measure, duplicates_before=before)
    return replace(
        new.measure,
        duplicates_before=before,
        duplicates_in_table=before + added,
        table_keys=row["keys"] + new.fresh_keys,
    )


def _count_differences(
    counts: Any, apart: ComparedColumns, sides: _Sides, samples: int, *, before: bool
) -> _Differences:
    """What differs, with samples. `before`: rows of before are among the counts, so that repeats of them are known.

    Where rows differ, a second job fetches up to `samples` of them on each side.
    """
    from pyspark.sql import functions as F

    sums = _by_key(counts, apart, sides).agg(*_sums(), *(_repeats() if before else ()))
    row = whole_numbers(sums.collect()[0])
    measure = Measure(
        expected_rows=row["expected_rows"],
        new_rows=row["new_rows"],
        missing=row["missing"],
        extra=row["extra"],
        repeats_added=row.get("repeats_added"),
        duplicates_explained=row.get("duplicates_explained"),
        held_before=row.get("held_before"),
        keys_twice=row.get("keys_twice"),
        new_repeats=row.get("new_repeats"),
        samples={
            side: samples_of(counts.where(F.col(side) > 0), apart.values, F.col(side), samples)
            if row[side]
            else ()
            for side in ("missing", "extra")
        },
    )
    return _Differences(measure, row.get("fresh_keys"))


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


def _by_key(counts: Any, apart: ComparedColumns, sides: _Sides) -> Any:
    """The same, one row a key: rows that differ in other columns are put together."""
    from pyspark.sql import functions as F

    if apart.by_key_alone:
        return counts
    return counts.groupBy(*sides.key(apart)).agg(*[F.sum(a).alias(a) for a in _AMOUNTS])


def _sums() -> list[Any]:
    from pyspark.sql import functions as F

    return [
        F.sum("e").alias("expected_rows"),
        F.sum("written").alias("new_rows"),
        F.sum("missing").alias("missing"),
        F.sum("extra").alias("extra"),
    ]


def _repeats() -> list[Any]:
    """Sums over keys; one that no new row has adds nothing to any of them."""
    from pyspark.sql import functions as F

    none = F.lit(0)
    e, o, held, written = (F.col(name) for name in ("e", "o", "held", "written"))
    one = F.greatest(o, F.lit(1))  # what the table had of a key before, else the first of the rows that came
    stood = F.greatest(o - 1, none)
    return [
        F.sum(F.greatest(held - 1, none) - stood).alias("repeats_added"),
        F.sum(F.greatest(o + e - 1, none) - stood).alias("duplicates_explained"),
        F.sum(F.when(o > 0, e).otherwise(none)).alias("held_before"),
        F.count_if((written > 0) & (held > 1)).alias("keys_twice"),
        F.sum(F.when(written > 0, F.greatest(held - one, none)).otherwise(none)).alias("new_repeats"),
        F.count_if((held > 0) & (o == 0)).alias("fresh_keys"),
    ]


def whole_flow(
    every: Any, table: Any, key: Sequence[str], *, as_sets: bool, by_collation: bool = False
) -> WholeComparison:
    """What the code yields over all input beside the whole table: one job.

    `as_sets`: only whether a key is there counts, not how often (the input may repeat one). Else rows are compared as
    a multiset. `by_collation`: as in `comparable.alike`.
    """
    from pyspark.sql import functions as F

    columns = [
        resolved(key, every.columns, "What the code yields"),
        resolved(key, table.columns, "The table"),
    ]
    counts = tallied([every, table], columns, by_collation=by_collation)
    none, i, t = F.lit(0), F.col("n0"), F.col("n1")
    absent = F.when((i > 0) & (t == 0), F.lit(1)).otherwise(none) if as_sets else F.greatest(i - t, none)
    doubled = F.greatest(t - 1, none) if as_sets else F.when(i > 0, F.greatest(t - i, none)).otherwise(none)
    sums = counts.agg(
        F.sum(i).alias("input_rows"),
        F.count_if(i > 0).alias("input_keys"),
        F.sum(t).alias("table_rows"),
        F.count_if(t > 0).alias("table_keys"),
        F.sum(absent).alias("absent"),
        F.sum(doubled).alias("doubled"),
        F.sum(F.when(i == 0, t).otherwise(none)).alias("beyond"),
    )
    row = whole_numbers(sums.collect()[0])
    samples = samples_of(counts.where(absent > 0), key, absent, SAMPLES) if row["absent"] else ()
    return WholeComparison(
        input_rows=row["input_rows"],
        input_keys=row["input_keys"],
        table_rows=row["table_rows"],
        table_keys=row["table_keys"],
        absent=row["absent"],
        doubled=row["doubled"],
        beyond=row["beyond"],
        samples=samples,
    )


_NAMES = ("What the code yields", "What was written", "The table")


def samples_of(counts: Any, key: Sequence[str], amount: Any, limit: int) -> Sample:
    """Up to `limit` keys of tallied rows, as text, and how often `amount` says."""
    from pyspark.sql import functions as F

    fields = [F.col(f"k{i}").cast("string").alias(f"k{i}") for i in range(len(key))]
    rows = counts.select(*fields, amount.alias("times")).limit(limit).collect()
    return tuple(
        {"key": {name: r[f"k{i}"] for i, name in enumerate(key)}, "times": int(r["times"])} for r in rows
    )
