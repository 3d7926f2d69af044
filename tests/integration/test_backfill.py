"""A table whose oldest input is gone, recovered by backfill: what is left is computed again, the rest is as before."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from console.incident.clicks_making import DELTA
from console.incident.data import File
from console.incident.making import put_files
from console.incident.updates import (
    CATALOG,
    Edit,
    WantedPipeline,
    ensure_pipeline,
    failing_update,
    good_updates,
    ignore_progress,
)
from tests.integration.test_kills import kill_when, resume, steps
from tests.stack import Stack, wait_for

pytestmark = pytest.mark.spark

CODE = """from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()


@dp.table()
def {name}() -> DataFrame:
    changes = spark.readStream.format("json").schema("shop BIGINT, n BIGINT").load({base!r})
    return changes.dropDuplicates({key}).withColumn("made_by", F.lit({made_by!r}))
"""
OLD, NEW = ('["shop", "n"]', "old code"), ('["n"]', "new code")
FILES = ((1, 2, 3, 4), (5, 6, 7), (8, 9))
"""Numbers of the rows in each file. The first is deleted after it was read, the last waits."""
GONE = FILES[0]


@dataclass(frozen=True)
class Shops:
    """A failed pipeline whose table has rows of a file that is gone."""

    pipeline_id: str
    name: str
    flow: str
    table: Path

    def rows(self) -> list[tuple[int, str]]:
        """Every row of the table as it is now, read without Spark."""
        held = DeltaTable(str(self.table)).to_pyarrow_table().to_pylist()
        return sorted((row["n"], row["made_by"]) for row in held)


def file(number: int) -> File:
    rows = tuple({"shop": n % 2, "n": n} for n in FILES[number])
    return File("changes", f"changes-{number}.json", rows)


def make_shops(stack: Stack, name: str, new: tuple[str, str] = NEW) -> Shops:
    base = stack.home / "incident" / name
    old_code, new_code = (
        CODE.format(name=name, base=f"file:{base}/changes", key=key, made_by=by) for key, by in (OLD, new)
    )
    wanted = WantedPipeline(name, f"db_{name}", configuration=DELTA)
    pipeline = ensure_pipeline(stack.client, wanted, old_code)

    def come(number: int) -> str:
        put_files((file(number),), base)
        return "rows"

    good_updates(stack.client, pipeline, 2, come, ignore_progress)
    failing_update(
        stack.client, pipeline, Edit(wanted.source, new_code, "key"), lambda: come(2), ignore_progress
    )
    (base / "changes" / file(0).name).unlink()
    (base / "changes" / f".{file(0).name}.crc").unlink(missing_ok=True)
    flow = f"{CATALOG}.db_{name}.{name}"
    return Shops(pipeline, name, flow, stack.home / "warehouse" / f"db_{name}.db" / name)


AFTER = sorted(
    [*((n, "old code") for n in GONE), *((n, "new code") for numbers in FILES[1:] for n in numbers)]
)
"""What the table holds after a backfill: rows of the file that is gone as they were, all others by the new code."""


def ask(stack: Stack, *command: str) -> tuple[int, dict[str, Any]]:
    code, out, err = stack.manage(*command, "--json", token="responder")
    assert out, err
    return code, json.loads(out)


def plan(stack: Stack, shops: Shops) -> dict[str, Any]:
    code, told = ask(stack, "plan", shops.name, "--flow", shops.flow, "--strategy", "backfill")
    assert code == 0, told
    return told


def verdicts(answer: dict[str, Any]) -> dict[str, Any]:
    return {c["code"]: c["ok"] for c in answer["verification"]}


def settled(stack: Stack, recovery: str) -> dict[str, Any]:
    """The recovery once nothing of it moves by itself any more: it ended, or waits for a person."""

    def quiet_now() -> dict[str, Any] | None:
        now = steps(stack, recovery)
        unasked = any(s["state"] == "unknown" and not s["evidence"] for s in now["steps"])
        return None if unasked or now["state"] in ("running", "verifying") else now

    found: dict[str, Any] = wait_for(quiet_now, "the recovery to settle", 500)
    return found


def backups(stack: Stack, shops: Shops, recovery: str) -> list[Path]:
    root = stack.home / "storage" / shops.pipeline_id / "_backups" / recovery
    return [path.parent for path in root.glob("*/*/backup.json")]


def test_every_key_is_there_once_and_rows_of_a_deleted_file_are_as_before(stack: Stack) -> None:
    shops = make_shops(stack, "backfilled")
    told = plan(stack, shops)
    forecast = told["forecast"]
    assert [s["kind"] for s in told["steps"]] == ["stop", "table-backup", "rerun", "fill", "verify"]
    for effect in ("lost", "doubled"):
        assert (forecast[effect]["rows"], forecast[effect]["exact"]) == (0, True), forecast
    assert forecast["table_after"] == len(AFTER)

    code, answer = ask(stack, "execute", told["recovery"], "--wait")

    assert (code, answer["state"]) == (0, "succeeded"), answer
    assert shops.rows() == AFTER
    assert set(verdicts(answer).values()) == {True}, answer["verification"]
    assert {"FILLED_ROWS_AS_BEFORE", "COUNTS_EQUAL_FORECAST", "NO_KEY_TWICE"} <= set(verdicts(answer))
    measured = {c["code"]: c["measured"] for c in answer["verification"]}
    assert measured["FILLED_ROWS_AS_BEFORE"]["filled"] == len(GONE)
    assert [answer["measured"][name] for name in ("lost", "doubled")] == [0, 0]
    assert len(backups(stack, shops, told["recovery"])) == 1, "it stays until somebody signs off"


def commit_of_fill(shops: Shops, recovery: str) -> Path | None:
    """The commit of the fill in the table's log."""
    found = (p for p in shops.table.glob("_delta_log/*.json") if f"reprise-{recovery}-" in p.read_text())
    return next(found, None)


def test_a_row_that_is_removed_after_the_fill_is_found_and_the_recovery_is_not_green(stack: Stack) -> None:
    shops = make_shops(stack, "tampered")
    recovery = plan(stack, shops)["recovery"]
    assert ask(stack, "execute", recovery)[0] == 0
    wait_for(lambda: commit_of_fill(shops, recovery), "the fill", 120)
    DeltaTable(str(shops.table)).delete(f"n = {GONE[0]}")

    now = settled(stack, recovery)

    assert now["state"] == "needs_attention", now
    last = now["steps"][-1]
    assert (last["kind"], last["state"], last["code"]) == ("verify", "failed", "written_by_others"), now[
        "reason"
    ]
    code, refused = ask(stack, "rollback", recovery)
    assert (code, refused["error"]["code"]) == (1, "not_undoable"), (
        "what somebody deleted is not brought back"
    )


def test_a_rollback_puts_the_table_and_the_checkpoint_back(stack: Stack) -> None:
    shops = make_shops(stack, "putback")
    before = shops.rows()
    assert before == sorted((n, "old code") for numbers in FILES[:2] for n in numbers)
    recovery = plan(stack, shops)["recovery"]
    assert ask(stack, "execute", recovery, "--wait")[1]["state"] == "succeeded"
    assert shops.rows() == AFTER

    code, answer = ask(stack, "rollback", recovery)

    assert (code, answer["state"]) == (0, "rolled_back"), answer
    assert shops.rows() == before
    root = (
        stack.home
        / "storage"
        / shops.pipeline_id
        / "_checkpoints"
        / shops.flow.replace(".", "/")
        / shops.name
    )
    assert [path.name for path in root.iterdir() if path.name.isdigit()] == ["0"]
    assert backups(stack, shops, recovery), "the backup stays"


MOMENTS: dict[str, Callable[[Stack, Shops, str], Any]] = {
    "copying": lambda stack, shops, of: list(
        (stack.home / "storage" / shops.pipeline_id / "_backups" / of).glob("*/*/rows-*")
    ),
    "kept": lambda stack, shops, of: backups(stack, shops, of),
    "filled": lambda stack, shops, of: commit_of_fill(shops, of),
}


@pytest.mark.alone
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_worker_that_is_killed_resumes_and_doubles_nothing(stack: Stack, moment: str) -> None:
    shops = make_shops(stack, f"killed{moment}")
    recovery = plan(stack, shops)["recovery"]

    kill_when(stack, recovery, lambda: bool(MOMENTS[moment](stack, shops, recovery)))

    if settled(stack, recovery)["state"] == "needs_attention":
        resume(stack, recovery)
    assert shops.rows() == AFTER
    assert len(backups(stack, shops, recovery)) == 1
