"""The pipeline's source, `transformations/customers.py`: as it ran well, and as it was edited."""

import json
from dataclasses import dataclass

from console.incident.data import change_folders

HEAD = '''"""The customers of the shop: the newest state of each one, from a stream of changes.

Change files arrive as JSON in {places}, snapshots of the old system in snapshot/.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

BASE = {base}
CHANGE = "customer_id BIGINT, sequence_num BIGINT, operation STRING, name STRING, city STRING"
CUSTOMER = "customer_id BIGINT, name STRING, city STRING"

spark = SparkSession.active()

'''

EXPLICIT = """
dp.create_streaming_table("{table}", comment="Every change of a customer, once")


@dp.append_flow(target="{table}")
def {flow}() -> DataFrame:
    return (
{query}
    )


dp.create_streaming_table("{snapshot}", comment="The customers of the old system")


@dp.append_flow(target="{snapshot}")
def {snapshot_flow}() -> DataFrame:
    return spark.readStream.format("json").schema(CUSTOMER).load(f"{{BASE}}/snapshot")

"""

DEFAULT = """
@dp.table(comment="Every change of a customer, once")
def {table}() -> DataFrame:
    return (
{query}
    )


@dp.table(comment="The customers of the old system")
def {snapshot}() -> DataFrame:
    return spark.readStream.format("json").schema(CUSTOMER).load(f"{{BASE}}/snapshot")

"""

VIEW = """
@dp.materialized_view(comment="The newest state of each customer; deleted ones are left out")
def {view}() -> DataFrame:
    columns = ["customer_id", "sequence_num", "operation", "name", "city"]
    changes = spark.read.table("{table}").select(*columns)
    first = spark.read.table("{snapshot}").select(
        "customer_id", F.lit(0).alias("sequence_num"), F.lit("UPSERT").alias("operation"), "name", "city"
    )
    newest = F.max(F.struct("sequence_num", "operation", "name", "city")).alias("newest")
    return (
        changes.unionByName(first)
        .groupBy("customer_id")
        .agg(newest)
        .where(F.col("newest.operation") != "DELETE")
        .select("customer_id", "newest.name", "newest.city")
    )
"""

DEDUPLICATE = '        .dropDuplicates(["customer_id", "sequence_num"])'


@dataclass(frozen=True)
class Variant:
    """Which pipeline to write. `view` names the materialized view; tables and flows are called after it."""

    view: str = "customers"
    explicit_flows: bool = True
    sources: int = 1

    @property
    def table(self) -> str:
        return f"{self.view}_changes"

    @property
    def snapshot(self) -> str:
        return f"{self.view}_snapshot"

    @property
    def flow(self) -> str:
        """Name of the flow that will fail; by default a flow is called as its table."""
        return f"{self.view}_incremental_flow" if self.explicit_flows else self.table


def reading_line(folder: str) -> str:
    return f'spark.readStream.format("json").schema(CHANGE).load(f"{{BASE}}/{folder}")'


def change_query(sources: int, *, deduplicate: bool) -> str:
    """The stream of changes, one line a step."""
    first, *others = change_folders(sources)
    lines = [
        f"        {reading_line(first)}",
        *[f"        .unionByName({reading_line(other)})" for other in others],
    ]
    return "\n".join([*lines, DEDUPLICATE] if deduplicate else lines)


def write_definition(variant: Variant, base: str, *, deduplicate: bool) -> str:
    """The whole file. Without `deduplicate` it is the edit that breaks the flow: nothing else differs."""
    body = EXPLICIT if variant.explicit_flows else DEFAULT
    return (HEAD + body + VIEW).format(
        base=json.dumps(base),
        places=" and ".join(f"{folder}/" for folder in change_folders(variant.sources)),
        query=change_query(variant.sources, deduplicate=deduplicate),
        view=variant.view,
        table=variant.table,
        snapshot=variant.snapshot,
        flow=variant.flow,
        snapshot_flow=f"{variant.view}_snapshot_flow",
    )
