"""What the driver is told: alone on this machine, or with executors elsewhere."""

from pathlib import Path

import pytest

from recovery.errors import WrongUse
from recovery.server.driver import Settings


def test_a_driver_of_its_own_listens_on_the_loopback_address_only() -> None:
    told = Settings(Path("/h"), "local[2]", 0, "t").spark()

    assert (told["spark.driver.host"], told["spark.driver.bindAddress"]) == ("127.0.0.1", "127.0.0.1")
    assert told["spark.connect.grpc.binding.address"] == "127.0.0.1"


def test_executors_elsewhere_reach_the_driver_and_still_nobody_reaches_connect() -> None:
    told = Settings(Path("/h"), "spark://spark-master:7077", 0, "t", host="pipelines").spark()

    assert told["spark.master"] == "spark://spark-master:7077"
    assert told["spark.driver.host"] == "pipelines"
    assert told["spark.driver.bindAddress"] == "0.0.0.0"  # noqa: S104
    assert told["spark.connect.grpc.binding.address"] == "127.0.0.1"


def test_further_settings_win_over_ours() -> None:
    more = "# keys of the store\n\nspark.hadoop.fs.s3a.secret.key  a key with = and spaces\nspark.driver.memory 3g\n"
    told = Settings(Path("/h"), "local[2]", 0, "t", more=more).spark()

    assert told["spark.hadoop.fs.s3a.secret.key"] == "a key with = and spaces"
    assert told["spark.driver.memory"] == "3g"
    assert told["spark.ui.enabled"] == "false"


def test_a_setting_without_a_value_is_refused_and_not_shown() -> None:
    with pytest.raises(WrongUse, match="REPRISE_SPARK_CONF") as refused:
        Settings(Path("/h"), "local[2]", 0, "t", more="hunter2hunter2").spark()

    assert "hunter2" not in refused.value.sentence
