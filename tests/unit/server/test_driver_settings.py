"""What the driver is told: alone on this machine, or with executors elsewhere."""

from pathlib import Path

import pytest

from recovery.errors import WrongUse
from recovery.server.driver import Settings
from tests.refusals import refused


def test_a_driver_of_its_own_listens_on_the_loopback_address_only() -> None:
    told = Settings(Path("/h"), "local[2]", 0, "t").spark()

    assert (told["spark.driver.host"], told["spark.driver.bindAddress"]) == ("127.0.0.1", "127.0.0.1")
    assert told["spark.connect.grpc.binding.address"] == "127.0.0.1"


def test_nobody_else_on_the_machine_speaks_to_a_driver_and_its_own_executors() -> None:
    local = [Settings(Path("/h"), master, 0, "t").spark() for master in ("local[2]", "local[*]", "local")]
    assert [told["spark.authenticate"] for told in local] == ["true"] * 3
    for master in ("spark://spark-master:7077", "local-cluster[2,1,1024]", "yarn"):
        assert "spark.authenticate" not in Settings(Path("/h"), master, 0, "t").spark()


def test_executors_elsewhere_reach_the_driver_and_still_nobody_reaches_connect() -> None:
    told = Settings(Path("/h"), "spark://spark-master:7077", 0, "t", host="pipelines").spark()

    assert told["spark.master"] == "spark://spark-master:7077"
    assert told["spark.driver.host"] == "pipelines"
    assert told["spark.driver.bindAddress"] == "0.0.0.0"  # noqa: S104
    assert told["spark.connect.grpc.binding.address"] == "127.0.0.1"


def test_further_settings_win_over_ours() -> None:
    key = "a key with = and spaces"
    more = f"# keys of the store\n\nspark.hadoop.fs.s3a.secret.key  {key}\nspark.driver.memory 3g\n"
    told = Settings(Path("/h"), "local[2]", 0, "t", more=more).spark()

    assert told["spark.hadoop.fs.s3a.secret.key"] == key
    assert told["spark.driver.memory"] == "3g"
    assert told["spark.ui.enabled"] == "false"


def test_a_setting_without_a_value_is_refused_and_not_shown() -> None:
    with pytest.raises(WrongUse, match="REPRISE_SPARK_CONF") as refused:
        Settings(Path("/h"), "local[2]", 0, "t", more="hunter2hunter2").spark()

    assert "hunter2" not in refused.value.sentence


@pytest.mark.parametrize(
    ("archives", "delta"), [(["spark-sql-kafka-0-10_2.13-4.2.0.jar"], False), (["delta-spark_4.2.jar"], True)]
)
def test_connectors_are_on_the_class_path_and_delta_is_known_where_it_is(
    tmp_path: Path, archives: list[str], delta: bool
) -> None:
    for name in archives:
        (tmp_path / name).touch()
    told = Settings(Path("/h"), "local[2]", 0, "t", jars=str(tmp_path)).spark()

    assert told["spark.driver.extraClassPath"] == told["spark.executor.extraClassPath"] == f"{tmp_path}/*"
    assert ("spark.sql.catalog.spark_catalog" in told) is ("spark.sql.extensions" in told) is delta
    assert "spark.driver.extraClassPath" not in Settings(Path("/h"), "local[2]", 0, "t").spark()


def test_a_folder_without_archives_is_refused(tmp_path: Path) -> None:
    with refused("no_jars", WrongUse, names=(tmp_path,)):
        Settings(Path("/h"), "local[2]", 0, "t", jars=str(tmp_path)).spark()


def test_python_functions_get_rows_and_no_column_batches_which_hung_on_spark_4_2_0() -> None:
    told = Settings(Path("/h"), "local[2]", 0, "t").spark()
    assert told["spark.sql.execution.arrow.pythonUDF.columnarInput.enabled"] == "false"
