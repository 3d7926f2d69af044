"""A windowed aggregation is taken out: its open windows are in no table, and nobody loses them unasked."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from console.incident.updates import (
    Edit,
    WantedPipeline,
    ensure_pipeline,
    failing_update,
    good_updates,
    ignore_progress,
)
from tests import tables
from tests.stack import Stack

pytestmark = pytest.mark.spark
NAME = "signups"
CODE = '''"""Sign-ups."""

from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()


@dp.table
def signups():
    read = spark.readStream.schema("at TIMESTAMP, city STRING").json("{folder}")
    return read.withWatermark("at", "10 minutes"){steps}
'''
COUNTED = """.groupBy(F.window("at", "15 minutes"), "city").count().select(
        F.col("window.start").alias("start"), "city", "count")"""
EACH = '.select(F.col("at").alias("start"), "city", F.lit(1).cast("bigint").alias("count"))'
GOOD = (("12:00", "12:10", "12:20"), ("12:30", "12:46", "13:00"))
"""Times of sign-ups by update. The watermark is 12:50 then, so the windows of 12:45 and 13:00 are open."""
CITIES = ("Berlin", "Osaka")
OPEN = 2 * len(CITIES)


@dataclass(frozen=True)
class SignUps:
    """The failed pipeline: three windows of two cities are in its table, two are open, two sign-ups wait."""

    place: Path

    @property
    def rows(self) -> list[dict[str, Any]]:
        return tables.rows(self.place)


def failed(stack: Stack) -> SignUps:
    folder = stack.home / "incident" / NAME
    folder.mkdir(parents=True)

    def arrive(*times: str) -> str:
        told = [{"at": f"2026-11-22T{at}:00Z", "city": city} for at in times for city in CITIES]
        number = len(list(folder.iterdir()))
        (folder / f"{number}.json").write_text("".join(json.dumps(one) + "\n" for one in told))
        return "sign-ups"

    wanted = WantedPipeline(NAME, f"db_{NAME}")
    pipeline = ensure_pipeline(stack.client, wanted, CODE.format(folder=folder, steps=COUNTED))
    good_updates(stack.client, pipeline, len(GOOD), lambda batch: arrive(*GOOD[batch]), ignore_progress)
    edit = Edit(wanted.source, CODE.format(folder=folder, steps=EACH), "no windows")
    failing_update(stack.client, pipeline, edit, lambda: arrive("13:05"), ignore_progress)
    return SignUps(stack.home / "warehouse" / f"db_{NAME}.db" / NAME)


def ask(stack: Stack, command: str, *more: str) -> tuple[int, dict[str, Any]]:
    code, out, err = stack.manage(command, NAME, *more, "--json", token="responder")
    assert out, err
    return code, json.loads(out)


def test_open_windows_are_lost_only_where_that_is_accepted_and_are_as_many_as_was_forecast(
    stack: Stack,
) -> None:
    made = failed(stack)
    before = made.rows
    for command in ("plan", "recover"):
        code, answer = ask(stack, command)
        assert (code, answer["error"]["code"], answer["error"]["flags"]) == (
            1,
            "loses_rows",
            ["--accept-loss"],
        )
    assert made.rows == before

    code, answer = ask(stack, "recover", "--accept-loss")

    assert (code, answer["state"]) == (0, "succeeded"), answer
    lost = answer["forecast"]["lost"]
    assert (lost["rows"], lost["bound"]) == (OPEN, "exact")
    assert answer["measured"]["lost"] == OPEN
    # each sign-up is in one row, but for those that were read into the windows that were open
    read, waiting = sum(len(times) for times in GOOD) * len(CITIES), len(CITIES)
    assert sum(row["count"] for row in made.rows) == read - OPEN + waiting
