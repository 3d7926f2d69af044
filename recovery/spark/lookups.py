"""Which rows of a large table may hold a key of a few other rows (child process only).

The table is never grouped and its columns beyond the key are not read. What its statistics exclude is not opened: the
least and the greatest key are pushed down as filters, by which Delta leaves out files, Iceberg manifests and Parquet
row groups. What is left is scanned once, beside a broadcast set of hashes; a hash only lets rows through, and whoever
asks compares those by value.
"""

import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from recovery.spark.api import BoundedBy, BudgetBound, Budgets, Limit
from recovery.spark.explained import scanned_bytes

BROADCAST_KEYS: Final = 2_000_000
"""Hashes up to which each executor gets all of them (16 bytes each); above it Spark shuffles what it has scanned."""
AGAIN_SECONDS: Final = 1.0  # an interrupt meets only what runs at that moment
ORDERED: Final = frozenset(("tinyint", "smallint", "int", "bigint", "date", "string"))
"""Types by whose least and greatest value rows are left out: a client holds these values exactly as Spark does. A time
is told in the client's zone, a decimal in as few digits as it needs, and statistics pass over NaN."""
HASHED: Final = ORDERED | {"boolean", "binary", "float", "double", "timestamp", "timestamp_ntz"}
LONGEST: Final = 200  # letters of a text that rows are left out by


def budgets_of(request: Mapping[str, Any]) -> Budgets:
    """Those of a request; without any there is no limit."""
    return Budgets(**{name: Limit(**limit) for name, limit in (request.get("budgets") or {}).items()})


class OverBudget(Exception):
    """What was to be asked is larger, or took longer, than its budget."""

    def __init__(self, bounded: BudgetBound) -> None:
        super().__init__(bounded.by.value)
        self.bounded = bounded


def check_size(frame: Any, budget: Limit, by: BoundedBy) -> None:
    """Raise `OverBudget` where reading `frame` opens more bytes than the budget has. An unknown size passes."""
    if budget.bytes is None:
        return
    size = scanned_bytes(frame._explain_string(mode="cost"))
    if size is not None and size > budget.bytes:
        raise OverBudget(BudgetBound(by, size, budget.bytes))


@contextmanager
def limited(spark: Any, budget: Limit, by: BoundedBy) -> Iterator[None]:
    """What Spark is asked within is interrupted when the time is over. Raises `OverBudget` then."""
    from pyspark.errors import PySparkException

    if budget.seconds is None:
        yield
        return
    tag, done, late = f"reprise-{uuid.uuid4().hex}", threading.Event(), threading.Event()

    def watch() -> None:
        if done.wait(budget.seconds):
            return
        late.set()
        while not done.is_set():
            spark.interruptTag(tag)
            done.wait(AGAIN_SECONDS)

    watcher = threading.Thread(target=watch, daemon=True)
    spark.addTag(tag)
    watcher.start()
    try:
        yield
    except PySparkException as error:
        if not late.is_set():
            raise
        raise OverBudget(BudgetBound(by, None, None, int(budget.seconds))) from error
    finally:
        done.set()
        spark.removeTag(tag)
        watcher.join(AGAIN_SECONDS)


def occurring(rows: Any, keys: Any, names: Sequence[str]) -> Any:
    """Rows that may have what a row of `keys` has in its columns `names`: all that do, and a few more of equal hashes.

    Both frames have these columns. Columns that Spark cannot hash alike on both sides are not looked at; all rows are
    given back where there is no other.
    """
    from pyspark.sql import functions as F

    usable = [n for n in names if _alike(rows, keys, n)]
    if not usable:
        return rows
    ordered = [n for n in usable if _type(keys, n) in ORDERED]
    sums = [F.count(F.lit(1)).alias("keys")]
    for i, n in enumerate(ordered):
        sums += [
            F.min(n).alias(f"low{i}"),
            F.max(n).alias(f"high{i}"),
            F.count_if(F.col(n).isNull()).alias(f"null{i}"),
        ]
    counts = keys.agg(*sums).collect()[0]
    if not counts["keys"]:
        return rows.where("false")
    for i, n in enumerate(ordered):
        low, high = counts[f"low{i}"], counts[f"high{i}"]
        if _exact(low) and _exact(high):
            rows = rows.where(_between(n, low, high, null=counts[f"null{i}"] > 0))
    hashes = keys.select(F.xxhash64(*usable).alias("__hash")).distinct()
    if counts["keys"] <= BROADCAST_KEYS:
        hashes = F.broadcast(hashes)
    return rows.withColumn("__hash", F.xxhash64(*usable)).join(hashes, "__hash", "left_semi").drop("__hash")


def _exact(bound: Any) -> bool:
    """Whether the client holds a bound as Spark does: of a text, bytes that are no UTF-8 come as other letters."""
    return not isinstance(bound, str) or (bound.isascii() and len(bound) <= LONGEST)


def _between(name: str, low: Any, high: Any, *, null: bool) -> Any:
    from pyspark.sql import functions as F

    column = F.col(name)
    if low is None:
        return column.isNull()
    within = (column >= F.lit(low)) & (column <= F.lit(high))
    return within | column.isNull() if null else within


def _type(frame: Any, name: str) -> str:
    return str(frame.schema[name].dataType.simpleString())


def _alike(rows: Any, keys: Any, name: str) -> bool:
    """Whether equal values of both have equal hashes: one type on both sides, and one that is compared by its bytes."""
    held_type = _type(keys, name)
    return held_type == _type(rows, name) and (held_type in HASHED or held_type.startswith("decimal"))
