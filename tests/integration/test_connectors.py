"""bin/demo --connectors: the driver of the Pipelines server reads Kafka and writes Delta."""

from pathlib import Path

import pytest

from tests.kafka import KafkaBroker
from tests.stack import start

pytestmark = pytest.mark.spark


def test_the_demo_s_spark_reads_kafka_and_keeps_delta_tables(
    home: Path, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.topic("of-the-demo")
    kafka.put("of-the-demo", range(5))
    running = start(home, "--no-incident", "--connectors")
    try:
        monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.remote(running.demo["spark_remote"]).create()
        options = {"kafka.bootstrap.servers": kafka.address, "subscribe": "of-the-demo"}
        read = (
            spark.read.format("kafka")
            .options(**options)
            .load()
            .selectExpr("cast(cast(value as string) as int) as n")
        )
        read.write.format("delta").saveAsTable("of_the_demo")
        assert sorted(row.n for row in spark.table("of_the_demo").collect()) == [0, 1, 2, 3, 4]
        told = spark.sql("DESCRIBE DETAIL of_the_demo").collect()
        assert [row.format for row in told] == ["delta"]
        spark.stop()
        assert "Connectors ready" in running.log()
    finally:
        assert running.end() == 0
