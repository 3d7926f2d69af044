"""What code touches while it is defined is noted: then an answer rests on more than the code."""

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from recovery.spark.touching import imports_beside, watching


class Client:
    """A client of Spark Connect, whose questions go through `_stub`."""

    def __init__(self) -> None:
        self._stub: Any = SimpleNamespace(ExecutePlan=lambda: "rows", Config=lambda: "a setting")

    def collect(self) -> Any:
        return self._stub.ExecutePlan()


def touched_by(code: Callable[[Any], Any], folder: Path) -> set[str]:
    spark, touched = SimpleNamespace(client=Client()), set[str]()
    with watching(spark, folder, touched):
        code(spark)
    return touched


def test_code_that_only_defines_touches_nothing(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("x = 1\n")

    def define(spark: Any) -> None:
        import colorsys  # noqa: F401

        (tmp_path / "helper.py").read_text()

    sys.modules.pop("colorsys", None)
    assert touched_by(define, tmp_path) == set()


def test_a_file_beside_the_code_is_noted(tmp_path: Path) -> None:
    prices, code = tmp_path / "prices.json", tmp_path / "code"
    prices.write_text("{}")
    code.mkdir()
    assert touched_by(lambda spark: prices.read_text(), code) == {f"open {prices.resolve()}"}
    assert touched_by(lambda spark: list(tmp_path.iterdir()), code) == {f"os.listdir {tmp_path.resolve()}"}


def test_a_file_below_the_project_is_noted_though_python_searches_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "var").mkdir()
    prices = tmp_path / "var" / "prices.json"
    prices.write_text("{}")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert touched_by(lambda spark: prices.read_text(), tmp_path / "code") == {f"open {prices.resolve()}"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import json\nfrom pyspark import pipelines as dp\nimport helper, shared.rules", set()),
        ("import pyarrow.parquet as pq", {"import pyarrow.parquet"}),
        ("def f():\n    from etl_lib import prices", {"import etl_lib"}),
        ("import importlib", {"import importlib"}),
        ("x = __import__('psycopg2')", {"import __import__"}),
        ("from . import helper", set()),
        ("def (", {"import /p/code.py"}),
    ],
)
def test_a_library_of_others_is_noted_as_it_may_reach_or_become_anything(text: str, names: set[str]) -> None:
    files = {"/p/code.py": text, "/p/helper.py": "", "/p/shared/rules.py": "", "/p/view.sql": "SELECT 1"}
    assert imports_beside(files) == names


def test_a_process_is_noted(tmp_path: Path) -> None:
    found = touched_by(lambda spark: subprocess.run([sys.executable, "-c", ""], check=True), tmp_path)
    assert "subprocess.Popen" in found


def test_a_connection_is_noted(tmp_path: Path) -> None:
    def connect(spark: Any) -> None:
        with socket.socket() as client, pytest.raises(OSError, match="refused"):
            client.connect(("127.0.0.1", 9))

    assert touched_by(connect, tmp_path) == {"socket.connect"}


def test_a_question_to_spark_is_noted_and_answered(tmp_path: Path) -> None:
    assert touched_by(lambda spark: spark.client.collect(), tmp_path) == {"Spark ExecutePlan"}


def test_a_setting_of_the_session_rests_on_nothing_else(tmp_path: Path) -> None:
    assert touched_by(lambda spark: spark.client._stub.Config(), tmp_path) == set()


def test_nothing_is_noted_afterwards(tmp_path: Path) -> None:
    spark, touched = SimpleNamespace(client=Client()), set[str]()
    with watching(spark, tmp_path / "code", touched):
        pass
    spark.client.collect()
    (tmp_path / "later").write_text("x")
    assert touched == set()
