"""The programs: text of files as teams have them, which know nothing of Reprise. `@STEP@` is what an incident changes.

Each reads rows {id, v, at} (`at`: event time in seconds) and takes where its data lies from its arguments, its config
file or its own text.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

SCHEMA: Final = "id int, v string, at long"

FILES: Final = """\
import sys

from pyspark.sql import SparkSession, functions as F

base = sys.argv[1]
spark = SparkSession.builder.appName("orders").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
orders = spark.readStream.schema("id int, v string, at long").option("maxFilesPerTrigger", 1).json(f"{base}/in")
kept = orders.select("id", F.upper("v").alias("v"))@STEP@
query = (
    kept.writeStream.format("parquet").queryName("orders")
    .option("path", f"{base}/out").option("checkpointLocation", f"{base}/checkpoint")
    .trigger(availableNow=True).start()
)
query.awaitTermination()
"""

KAFKA: Final = """\
import argparse
import logging

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

log = logging.getLogger("orders")
ORDER = StructType([
    StructField("id", IntegerType()), StructField("v", StringType()), StructField("at", LongType()),
])


def parse_args():
    parser = argparse.ArgumentParser(description="Orders from Kafka into the lake")
    parser.add_argument("--brokers", required=True)
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--target", required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--format", default="parquet", choices=["parquet", "delta"])
    return parser.parse_args()


def read(spark: SparkSession, args) -> DataFrame:
    raw = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", args.brokers)
        .option("subscribe", args.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 1000)
        .load()
    )
    return raw.select(from_json(col("value").cast("string"), ORDER).alias("o")).select("o.id", "o.v")


def main():
    args = parse_args()
    spark = (
        SparkSession.builder.appName("orders-from-kafka")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    orders = read(spark, args)@STEP@
    query = (
        orders.writeStream.format(args.format)
        .outputMode("append")
        .option("checkpointLocation", args.checkpoint)
        .trigger(availableNow=True)
        .start(args.target)
    )
    log.info("started %s", query.id)
    try:
        query.awaitTermination()
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
"""

PACKAGE: Final = {
    "jobs/run_orders.py": """\
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from shop.core import config
from shop.core.session import build_session
from shop.streams.orders import OrdersStream

if __name__ == "__main__":
    settings = config.load(os.environ.get("SHOP_ENV", "dev"))
    spark = build_session(settings["app"])
    queries = OrdersStream(spark, settings).start()
    for query in queries:
        query.awaitTermination()
""",
    "shop/__init__.py": "",
    "shop/core/__init__.py": "",
    "shop/core/config.py": """\
import json
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent.parent / "conf"


def load(env):
    with open(HERE / f"{env}.json") as file:
        return json.load(file)
""",
    "shop/core/session.py": """\
from pyspark.sql import SparkSession


def build_session(name):
    spark = (
        SparkSession.builder.appName(name)
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark
""",
    "shop/streams/__init__.py": "",
    "shop/streams/orders.py": """\
from pyspark.sql import functions as F

from ..core import config  # noqa: F401


class OrdersStream:
    def __init__(self, spark, settings):
        self.spark, self.settings = spark, settings

    def read(self):
        source = self.settings["source"]
        schema = "id int, v string, at long"
        frame = self.spark.readStream.format("kafka").options(**source).load()
        parsed = frame.select(F.from_json(F.col("value").cast("string"), schema).alias("r")).select("r.*")
        return parsed.select("id", "v")

    def start(self):
        orders = self.read()@STEP@
        orders = orders.withColumn("v", F.upper("v"))
        paths = self.settings["paths"]
        main = (
            orders.writeStream.format("delta").outputMode("append").queryName("orders")
            .option("checkpointLocation", paths["checkpoint"]).trigger(availableNow=True).start(paths["out"])
        )
        copy = (
            self.read().writeStream.format("parquet").queryName("raw")
            .option("checkpointLocation", paths["checkpoint"] + "-raw").option("path", paths["out"] + "-raw")
            .trigger(availableNow=True).start()
        )
        return [main, copy]
""",
}

WINDOWS: Final = """\
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
import sys

BASE = sys.argv[1]

spark = SparkSession.builder.appName("counts").config("spark.sql.shuffle.partitions", 1).getOrCreate()
spark.sparkContext.setLogLevel("ERROR")

events = (
    spark.readStream.format("json").schema("id int, v string, at long").option("maxFilesPerTrigger", "1")
    .load(BASE + "/in")
    .withColumn("time", F.timestamp_seconds("at"))
)
counts = (
    events.withWatermark("time", "10 seconds")
    @STEP@
    .select(F.unix_timestamp("window.start").alias("start"), "*").drop("window")
)
q = counts.writeStream.outputMode("append").format("parquet").option("path", BASE + "/out") \\
    .option("checkpointLocation", BASE + "/checkpoint").trigger(availableNow=True).start()
q.awaitTermination()
"""

FUNCTION: Final = """\
import sys

from pyspark.sql import SparkSession

root = sys.argv[1]
spark = (
    SparkSession.builder.appName("upserts")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.sql.shuffle.partitions", 1)
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")


def write(batch, number):
    batch.write.format("@FORMAT@").mode("append").save(root + "/out")


rows = spark.readStream.schema("id int, v string, at long").json(root + "/in").select("id", "v")@STEP@
stream = rows.writeStream.foreachBatch(write).option("checkpointLocation", root + "/checkpoint")
stream.trigger(availableNow=True).start()
spark.streams.awaitAnyTermination()
"""

CHANGES: Final = FUNCTION.replace("batch.write", "batch.selectExpr('id', 'concat(v, v) AS v').write").replace(
    "@FORMAT@", "delta"
)

UPSERT: Final = FUNCTION.replace(
    """    batch.write.format("@FORMAT@").mode("append").save(root + "/out")
""",
    """    if number == 0:
        batch.write.format("delta").save(root + "/out")
        return
    batch.createOrReplaceTempView("updates")
    batch.sparkSession.sql(
        f"MERGE INTO delta.`{root}/out` t USING updates s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
""",
)
"""The upsert of Delta's own pages."""

ENDLESS: Final = """\
import sys
import time

from pyspark.sql import SparkSession

base = sys.argv[1]
spark = SparkSession.builder.appName("endless").config("spark.sql.shuffle.partitions", 1).getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
rows = spark.readStream.schema("id int, v string, at long").json(base + "/in").select("id", "v")@STEP@
q = (
    rows.writeStream.format("parquet").option("path", base + "/out")
    .option("checkpointLocation", base + "/checkpoint").trigger(processingTime="1 second").start()
)
while True:
    time.sleep(1)
    if q.exception():
        raise q.exception()
"""

TABLES: Final = """\
import sys

from pyspark.sql import SparkSession

base = sys.argv[1]
spark = (
    SparkSession.builder.appName("tables")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.sql.shuffle.partitions", 1)
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
spark.sql(f"CREATE TABLE IF NOT EXISTS raw_orders USING delta LOCATION '{base}/raw'")
spark.sql(f"CREATE TABLE IF NOT EXISTS orders (id INT, v STRING) USING delta LOCATION '{base}/out'")
rows = spark.readStream.table("raw_orders").select("id", "v")@STEP@
q = (
    rows.writeStream.format("delta").option("checkpointLocation", f"{base}/checkpoint").outputMode("append")
    .trigger(availableNow=True).toTable("orders")
)
q.awaitTermination()
"""

JOIN: Final = """\
import sys

from pyspark.sql import SparkSession, functions as F

base = sys.argv[1]
spark = SparkSession.builder.appName("joined").config("spark.sql.shuffle.partitions", 1).getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
fields = "id int, v string, at long"
left = spark.readStream.schema(fields).json(f"{base}/in").select("id", "v")
right = spark.readStream.schema(fields).json(f"{base}/in2").select("id", F.col("v").alias("w"))
joined = @STEP@
query = (
    joined.writeStream.format("parquet").option("path", f"{base}/out")
    .option("checkpointLocation", f"{base}/checkpoint").trigger(availableNow=True).start()
)
query.awaitTermination()
"""


@dataclass(frozen=True)
class Program:
    """`files`: by path below the program's folder, `main` is the one that is started. `arguments`: with {base}, {topic}
    and {brokers}. `sink`, `source`: kinds. `in_files`: where rows come from: "files", "kafka", "delta"."""

    name: str
    files: Mapping[str, str]
    main: str
    arguments: tuple[str, ...] = ("{base}",)
    source: str = "files"
    sink: str = "parquet"
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_connectors(self) -> bool:
        return "kafka" in (self.source, self.sink) or any("delta" in text for text in self.files.values())


def _kafka(name: str, sink: str) -> Program:
    told = ("--brokers", "{brokers}", "--topic", "{topic}", "--target", "{base}/out")
    more = ("--checkpoint={base}/checkpoint", "--format", sink)
    return Program(name, {"job.py": KAFKA}, "job.py", (*told, *more), "kafka", sink)


SETTINGS: Final = """\
{"app": "orders", "source": {"kafka.bootstrap.servers": "{brokers}", "subscribe": "{topic}",
 "startingOffsets": "earliest"}, "paths": {"checkpoint": "{base}/checkpoint", "out": "{base}/out"}}
"""
PROGRAMS: Final = {
    program.name: program
    for program in (
        Program("files to parquet", {"orders_program.py": FILES}, "orders_program.py"),
        Program("files to delta", {"orders.py": FILES.replace("parquet", "delta")}, "orders.py", sink="delta"),
        _kafka("kafka to parquet", "parquet"),
        _kafka("kafka to delta", "delta"),
        Program(
            "package", PACKAGE, "jobs/run_orders.py", (), "kafka", "delta", config={"conf/dev.json": SETTINGS}
        ),
        Program("windows", {"counts.py": WINDOWS}, "counts.py"),
        Program("foreachBatch to parquet", {"up.py": FUNCTION.replace("@FORMAT@", "parquet")}, "up.py", sink="batches"),
        Program("foreachBatch to delta", {"up.py": FUNCTION.replace("@FORMAT@", "delta")}, "up.py", sink="delta"),
        Program("upsert to delta", {"up.py": UPSERT}, "up.py", sink="delta"),
        Program("function of values to delta", {"up.py": CHANGES}, "up.py", sink="delta"),
        Program("endless", {"endless.py": ENDLESS}, "endless.py"),
        Program("tables", {"tables.py": TABLES}, "tables.py", source="delta", sink="delta"),
        Program("join", {"joined.py": JOIN}, "joined.py"),
    )
}  # fmt: skip
