"""Stateful steps that were added, recovered by prime on a running instance: what was forecast is what came."""

import json
from collections import Counter
from collections.abc import Sequence
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

CODE = '''"""Sign-ups."""

from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()


@dp.table
def {name}():
    read = spark.readStream.schema("id LONG, at TIMESTAMP, city STRING").json("{folder}")
    return read{steps}
'''
EACH = '.select("id", "city")'
ONCE = '.select("id", "city").dropDuplicates(["id"])'
ROWS = '.select(F.col("at").alias("start"), "city", F.lit(1).cast("bigint").alias("count"))'
COUNTED = """.withWatermark("at", "10 minutes").groupBy(F.window("at", "{minutes}"), {by}).count().select(
        F.col("window.start").alias("start"), "city", "count")"""
WINDOWS = COUNTED.format(minutes="15 minutes", by='"city"')
"""By the first column of the select alone `city` is a key; of the next code it is a constant."""
TOGETHER = COUNTED.format(minutes="15 minutes", by='F.lit("all").alias("city")')


@dataclass(frozen=True)
class SignUp:
    """One line of the input. `at`: the time of the day, without seconds."""

    id: int
    at: str
    city: str = "Berlin"

    @property
    def line(self) -> str:
        return json.dumps({"id": self.id, "at": f"2026-11-22T{self.at}:00Z", "city": self.city}) + "\n"

    @property
    def window(self) -> str:
        hours, minutes = self.at.split(":")
        return f"{hours}:{int(minutes) // 15 * 15:02}"


def failed(stack: Stack, name: str, good: str, bad: str, batches: Sequence[Sequence[SignUp]]) -> Path:
    """The folder of the table of a pipeline whose last batch waits: its code was changed, and it has failed."""
    folder = stack.home / "incident" / name
    folder.mkdir(parents=True)

    def arrive(rows: Sequence[SignUp]) -> str:
        number = len(list(folder.iterdir()))
        (folder / f"{number}.json").write_text("".join(one.line for one in rows))
        return "sign-ups"

    wanted = WantedPipeline(name, f"db_{name}")
    *done, waiting = batches
    pipeline = ensure_pipeline(stack.client, wanted, CODE.format(name=name, folder=folder, steps=good))
    good_updates(stack.client, pipeline, len(done), lambda batch: arrive(done[batch]), ignore_progress)
    edit = Edit(wanted.source, CODE.format(name=name, folder=folder, steps=bad), "another step")
    failing_update(stack.client, pipeline, edit, lambda: arrive(waiting), ignore_progress)
    return stack.home / "warehouse" / f"db_{name}.db" / name


def prime(stack: Stack, name: str, *more: str) -> tuple[int, dict[str, Any]]:
    code, out, err = stack.manage("recover", name, "--strategy", "prime", "--json", *more, token="responder")
    assert out, err
    return code, json.loads(out)


def unproven(answer: dict[str, Any]) -> dict[str, Any]:
    return {c["code"]: c["why"] for c in answer["verification"] if c["ok"] is not True}


def grouped(rows: Sequence[SignUp], *, until: str) -> Counter[tuple[str, str, int]]:
    """A group a window and city, of windows that end up to `until`."""
    counts = Counter((one.window, one.city) for one in rows)
    return Counter((start, city, n) for (start, city), n in counts.items() if _end(start) <= until)


def _end(start: str) -> str:
    hours, minutes = (int(part) for part in start.split(":"))
    return f"{hours + (minutes + 15) // 60:02}:{(minutes + 15) % 60:02}"


def groups(place: Path) -> Counter[tuple[str, str, int]]:
    return Counter((r["start"].strftime("%H:%M"), r["city"], r["count"]) for r in tables.rows(place))


def test_a_key_that_was_processed_before_passes_and_was_forecast_to_the_row(stack: Stack) -> None:
    """Two of five waiting rows repeat a row of the table, one repeats another that waits."""
    batches = [
        [SignUp(n, "12:00") for n in (1, 2, 3)],
        [SignUp(n, "12:00") for n in (4, 5)],
        [SignUp(n, "12:00") for n in (2, 5, 6, 7, 6)],
    ]
    place = failed(stack, "primededupe", EACH, ONCE, batches)
    before = Counter(r["id"] for r in tables.rows(place))
    code, answer = prime(stack, "primededupe")
    assert (code, answer["error"]["code"]) == (1, "repeats_rows")
    assert Counter(r["id"] for r in tables.rows(place)) == before

    code, answer = prime(stack, "primededupe", "--accept-repeats")

    assert (code, answer["state"]) == (0, "succeeded"), answer
    after = Counter(r["id"] for r in tables.rows(place))
    assert after - before == Counter([2, 5, 6, 7])
    forecast, measured = answer["forecast"], answer["measured"]
    twice = sum(n - 1 for n in after.values())
    assert [(forecast[k]["rows"], forecast[k]["bound"]) for k in ("lost", "doubled", "reread")] == [
        (0, "exact"), (twice, "exact"), (0, "exact"),
    ]  # fmt: skip
    assert (forecast["new_rows"], forecast["table_after"]) == (4, sum(after.values()))
    assert (measured["lost"], measured["doubled"], measured["table_rows"]) == (0, twice, sum(after.values()))
    assert unproven(answer) == {}


FIRST = [SignUp(n, at) for n, at in enumerate(("12:00", "12:05", "12:20"))]
SECOND = [SignUp(n, at) for n, at in enumerate(("12:21", "12:35", "12:50"))]
THIRD = [SignUp(n, at) for n, at in enumerate(("12:36", "12:51", "13:20"))]


def test_windows_that_were_added_count_what_was_never_read_alone(stack: Stack) -> None:
    """The window of 12:45 lacks the row of 12:50, which the table has as a row of its own."""
    place = failed(stack, "primewindows", ROWS, WINDOWS, (FIRST, SECOND, THIRD))
    before = groups(place)
    code, answer = prime(stack, "primewindows")
    assert (code, answer["error"]["code"]) == (1, "loses_rows")

    code, answer = prime(stack, "primewindows", "--accept-loss")

    assert (code, answer["state"]) == (0, "succeeded"), answer
    came = groups(place) - before
    assert before - groups(place) == Counter()
    assert came == grouped(THIRD, until="13:10")
    forecast, measured = answer["forecast"], answer["measured"]
    assert (forecast["lost"]["rows"], forecast["lost"]["bound"]) == (None, "unknown")
    assert (forecast["doubled"]["rows"], forecast["doubled"]["bound"]) == (0, "exact")
    assert forecast["new_rows"] == measured["new_rows"] == came.total() == 2
    assert measured["lost"] is None
    assert unproven(answer) == {}


def test_windows_by_another_key_lose_just_the_groups_that_the_old_state_held(stack: Stack) -> None:
    """The watermark is 12:40 when the code is changed: the windows of 12:30 and 12:45 are open."""
    place = failed(stack, "primekeys", WINDOWS, TOGETHER, (FIRST, SECOND, THIRD))
    before = groups(place)
    assert before == grouped([*FIRST, *SECOND], until="12:40")

    code, answer = prime(stack, "primekeys", "--accept-loss")

    assert (code, answer["state"]) == (0, "succeeded"), answer
    came = groups(place) - before
    new = [SignUp(one.id, one.at, "all") for one in THIRD]
    assert came == grouped(new, until="13:10")
    forecast, measured = answer["forecast"], answer["measured"]
    lost = grouped([*FIRST, *SECOND], until="23:59") - before
    assert (forecast["lost"]["rows"], forecast["lost"]["bound"]) == (lost.total(), "exact") == (2, "exact")
    assert measured["lost"] == lost.total()
    assert forecast["new_rows"] == measured["new_rows"] == came.total() == 2
    assert unproven(answer) == {}
