"""Records that a flow sent to a Kafka topic, beside those that it had to send (child process only).

A record of a topic does not say which batch wrote it. What an update sent is told by offsets: it came after those that
were noted before the update, as whatever others sent meanwhile did.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from recovery.spark import counting, explained
from recovery.spark.api import NAMED, WHOLE_ROW, Measure
from recovery.spark.replay import CannotReplay
from recovery.spark.slicing import kafka_options

COLUMNS = ["key", "value"]  # what a record is compared by; headers and partition are not looked at
STATE_KEPT = (
    "Which rows the kept state of dropDuplicates lets through shows in the rows of a table; a topic has none, "
    "so its records cannot be compared."
)


def read_records(spark: Any, sink: Mapping[str, Any] | None, part: Mapping[str, Any]) -> Any:
    """Key and value, as bytes, of the committed records of a slice. Raises `CannotReplay`."""
    if sink is None or sink["format"] != "kafka":
        raise CannotReplay("The code does not send this flow's rows to Kafka any more.")
    told = {name: value for name, value in sink["options"].items() if name.lower().startswith("kafka.")}
    told = {n: v for n, v in told.items() if n.lower() != "kafka.isolation.level"}
    options = {**kafka_options(told, part), "kafka.isolation.level": "read_committed"}
    if not any(part["start"].values()):
        return spark.createDataFrame([], "key binary, value binary")
    return spark.read.format("kafka").options(**options).load().select(*COLUMNS)


def choose_key(given: Sequence[str] | None, text: str) -> tuple[list[str], list[str], str]:
    """The columns that are compared, and what a measure says of them: (compared, key, who says so).

    Raises `CannotReplay` for a key that records do not have, and for code whose values differ at every run.
    """
    named = [name.lower() for name in given or ()]
    if strange := sorted(set(named) - set(COLUMNS)):
        raise CannotReplay(
            f"Records of a topic have no column {', '.join(strange)}: identify them by key, by value, or by both."
        )
    anew = explained.computed_anew(text)
    if anew and "value" in (named or COLUMNS):
        raise CannotReplay(
            f"The code computes what differs at every run ({', '.join(anew)}), so its records can be counted and not "
            "compared. Identify them by key, where the key does not hold it."
        )
    if named:
        return named, named, NAMED
    return COLUMNS, [], WHOLE_ROW


def make_records(frame: Any) -> Any:
    """What a flow yields as the records that Spark makes of it: key (NULL where there is none) and value, as bytes."""
    from pyspark.sql import functions as F

    spelled = {name.lower(): name for name in frame.columns}
    if "value" not in spelled:
        raise CannotReplay("What the code yields has no column value, which is what is sent to Kafka.")
    cast = [
        F.col(f"`{spelled[n]}`").cast("binary") if n in spelled else F.lit(None).cast("binary")
        for n in COLUMNS
    ]
    return frame.select(*(column.alias(name) for column, name in zip(cast, COLUMNS, strict=True)))


def compare_records(
    expected: Any,
    found: Any,
    failed: Any | None,
    key: Sequence[str],
    samples: int,
    *,
    margin: Any | None = None,
) -> Measure:
    """Multiset comparison of what was to be sent, what came, and what a failed attempt had sent: one job. `margin`:
    what it had sent if clocks disagree."""
    from pyspark.sql import functions as F

    parts = [expected, found, *(part for part in (failed, margin) if part is not None)]
    counts = counting.tallied(parts, [list(key)] * len(parts))
    none, e, f = F.lit(0), F.col("n0"), F.col("n1")
    before = F.col("n2") if failed is not None else none
    earlier = F.col(f"n{len(parts) - 1}") if margin is not None else none
    missing, extra = F.greatest(e - f, none), F.greatest(f - e, none)
    sums = counts.agg(
        F.sum(e).alias("expected_rows"),
        F.sum(f).alias("new_rows"),
        F.sum(missing).alias("missing"),
        F.sum(extra).alias("extra"),
        F.sum(F.when(e == 0, f).otherwise(none)).alias("strange"),
        F.sum(F.when(e > 0, extra).otherwise(none)).alias("repeated"),
        F.sum(F.least(e, before)).alias("failed_rows"),
        F.sum(F.least(F.greatest(e - before, none), earlier)).alias("margin_rows"),
    )
    row = counting.whole_numbers(sums.collect()[0])
    return Measure(
        expected_rows=row["expected_rows"],
        new_rows=row["new_rows"],
        missing=row["missing"],
        extra=row["extra"],
        strange=row["strange"],
        repeated=row["repeated"],
        failed_rows=None if failed is None else row["failed_rows"],
        margin_rows=None if margin is None else row["margin_rows"],
        samples={
            side: counting.samples_of(counts.where(amount > 0), key, amount, samples) if row[side] else ()
            for side, amount in (("missing", missing), ("extra", extra))
        },
    )
