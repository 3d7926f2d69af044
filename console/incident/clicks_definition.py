"""The source of the second incident, `transformations/clicks_by_minute.py`: as it ran well, and as it was edited."""

import json

TEMPLATE = '''"""The clicks on the pages of the shop, counted minute by minute.

Clicks arrive in Kafka as JSON. A minute is written once no click of it is expected any more.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

SERVERS = {servers}
CLICK = "click_id BIGINT, page STRING, country STRING, at TIMESTAMP"

spark = SparkSession.active()


@dp.table(comment={comment})
def {table}() -> DataFrame:
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", SERVERS)
        .option("subscribe", {topic})
        .option("startingOffsets", "earliest")
        .load()
        .select(F.from_json(F.col("value").cast("string"), CLICK).alias("click"))
        .select("click.*"){steps}
    )
'''
COMMENT = "Clicks on each page, minute by minute"
COUNTED = """
        .withWatermark("at", "2 minutes")
        .groupBy(F.window("at", "1 minute").alias("minute"), {columns})
        .agg(F.count("*").alias("clicks"))
        .select("minute.start", {columns}, "clicks")"""


def counting_steps(*columns: str) -> str:
    """The steps that count clicks by minute and by these columns."""
    return COUNTED.format(columns=", ".join(json.dumps(column) for column in columns))


GOOD, EDITED = counting_steps("page"), counting_steps("page", "country")


def write_definition(*, table: str, servers: str, topic: str, steps: str, comment: str = COMMENT) -> str:
    """The whole file; `steps`: what it does to the stream of clicks, each on a line of its own."""
    return TEMPLATE.format(
        table=table,
        servers=json.dumps(servers),
        topic=json.dumps(topic),
        steps=steps,
        comment=json.dumps(comment),
    )
