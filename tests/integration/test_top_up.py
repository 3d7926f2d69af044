"""Rows that a Delta table lacks are added once on real Spark: found by hand or by a proof."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from console.incident.data import File
from console.incident.making import put_files, run_update
from console.incident.updates import (
    CATALOG,
    Edit,
    WantedPipeline,
    ensure_pipeline,
    failing_update,
    good_updates,
    ignore_progress,
)
from tests.integration.test_kills import kill_when, resume, settled, steps
from tests.integration.test_replay import BATCHES, ROWS, Shop, of_delta, opened
from tests.stack import Stack, wait_for

pytestmark = pytest.mark.spark

ALL = range(1, BATCHES * ROWS + 1)


def top_up(shop: Shop, *options: str) -> tuple[int, dict[str, Any]]:
    return shop.ask("plan", shop.name, "--flow", shop.flow, "--strategy", "top-up", "--key", "id", *options)


def delete(shop: Shop, where: str) -> None:
    """What somebody did by hand."""
    DeltaTable(str(shop.table)).delete(where)


def verdicts(answer: dict[str, Any]) -> dict[str, Any]:
    return {c["code"]: c["ok"] for c in answer["verification"]}


def commit_of_fill(table: Path, recovery: str) -> Path | None:
    """The commit of the added rows in the table's log."""
    found = (p for p in table.glob("_delta_log/*.json") if f"reprise-{recovery}-" in p.read_text())
    return next(found, None)


def test_rows_that_somebody_deleted_are_added_once_and_what_waits_comes_once_too(stack: Stack) -> None:
    shop = opened(stack, "topup", delta=True, bad=False)
    code, refused = top_up(shop)
    assert (code, refused["error"]["code"]) == (1, "blocked"), "no row is missing"
    delete(shop, "id IN (2, 5)")
    shop.come(BATCHES)  # waits: none of a top-up's business

    code, told = top_up(shop)

    assert code == 0, told
    forecast = told["forecast"]
    assert [s["kind"] for s in told["steps"]] == ["stop", "fill", "verify"]
    assert [forecast[n]["rows"] for n in ("lost", "doubled")] == [0, 0]
    assert all(forecast[n]["exact"] for n in ("lost", "doubled"))
    assert (forecast["new_rows"], forecast["table_after"]) == (2, len(ALL))
    code, answer = shop.ask("execute", told["recovery"], "--wait")
    assert (code, answer["state"]) == (0, "succeeded"), answer
    assert set(verdicts(answer).values()) == {True}, answer["verification"]
    assert {"TABLE_HAS_EVERY_ROW", "CHECKPOINT_UNTOUCHED", "NO_KEY_TWICE"} <= set(verdicts(answer))
    assert (answer["measured"]["lost"], answer["measured"]["doubled"]) == (0, 0)
    assert of_delta(shop) == shop.wanted(BATCHES)
    assert run_update(stack.client, shop.pipeline_id) == ("COMPLETED", "")
    assert of_delta(shop) == shop.wanted(BATCHES + 1), "what waited comes once"
    code, refused = shop.ask("rollback", told["recovery"])
    assert (code, refused["error"]["code"]) == (1, "not_undoable"), "the next batch would leave the table"


def test_a_rollback_takes_the_added_rows_out_again(stack: Stack) -> None:
    shop = opened(stack, "topupback", delta=True, bad=False)
    delete(shop, "id = 4")
    before = of_delta(shop)
    recovery = top_up(shop)[1]["recovery"]
    assert shop.ask("execute", recovery, "--wait")[1]["state"] == "succeeded"
    assert of_delta(shop) == shop.wanted(BATCHES)

    code, answer = shop.ask("rollback", recovery)

    assert (code, answer["state"]) == (0, "rolled_back"), answer
    assert of_delta(shop) == before


def write_by_hand(shop: Shop, *ids: int) -> None:
    """Rows of another writer."""
    there = DeltaTable(str(shop.table)).to_pyarrow_table()
    rows = there.slice(0, 1).to_pylist()
    write_deltalake(
        str(shop.table),
        type(there).from_pylist([{**rows[0], "id": n} for n in ids], there.schema),
        mode="append",
    )


def test_a_table_that_something_else_wrote_meanwhile_voids_the_plan_and_gets_no_row(stack: Stack) -> None:
    shop = opened(stack, "topupvoid", delta=True, bad=False)
    delete(shop, "id = 4")
    recovery = top_up(shop)[1]["recovery"]
    write_by_hand(shop, 4)
    held = of_delta(shop)

    shop.ask("execute", recovery, "--wait")

    now = settled(stack, recovery)
    assert now["state"] == "diagnosing", now
    assert of_delta(shop) == held
    assert commit_of_fill(shop.table, recovery) is None


def test_input_that_repeats_a_key_or_is_gone_is_never_called_whole(stack: Stack) -> None:
    """A key that is read twice and lacks; a file whose rows the table may lack; a row under no input's key."""
    shop = opened(stack, "topupwrong", delta=True, bad=False)
    shop.come(BATCHES, repeat=2)
    assert run_update(stack.client, shop.pipeline_id) == ("COMPLETED", "")
    delete(shop, "id IN (2, 3)")
    assert is_blocked(shop), "which of both rows of a key is missing, the key does not tell"

    write_by_hand(shop, 2, 2)
    (shop.base / "orders" / "orders-0003.json").unlink()
    code, refused = top_up(shop)
    assert (code, refused["error"]["code"]) == (1, "loses_rows"), "what is gone may be missing"
    code, told = top_up(shop, "--again", "--accept-loss")
    assert code == 0, told
    assert told["forecast"]["lost"]["rows"] is None
    assert told["forecast"]["new_rows"] == 1

    write_by_hand(shop, 2)
    code, again = top_up(shop, "--again", "--accept-loss", "--accept-repeats")
    assert (code, again["error"]["code"]) == (1, "blocked"), "the table has a key too often"


def is_blocked(shop: Shop) -> bool:
    code, answer = top_up(shop, "--accept-loss", "--accept-repeats")
    return code == 1 and answer["error"]["code"] == "blocked"


@pytest.mark.alone
def test_a_worker_that_is_killed_after_the_write_resumes_and_adds_nothing_twice(stack: Stack) -> None:
    shop = opened(stack, "topupkilled", delta=True, bad=False)
    delete(shop, "id IN (1, 12)")
    recovery = top_up(shop)[1]["recovery"]

    kill_when(stack, recovery, lambda: commit_of_fill(shop.table, recovery) is not None)

    if settled(stack, recovery)["state"] == "needs_attention":
        resume(stack, recovery)
    wait_for(lambda: settled(stack, recovery)["state"] == "succeeded", "the proof", 300)
    assert of_delta(shop) == shop.wanted(BATCHES)


CODE = """from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()


@dp.table()
def {name}() -> DataFrame:
    return spark.readStream.format("json").schema("shop BIGINT, n BIGINT").load({base!r}){step}
"""
FILES = ((1, 2, 3, 4), (5, 6, 7), (8, 9))


def delete_last(table: Path) -> None:
    """What somebody did to the table before it was proven."""
    DeltaTable(str(table)).delete("n = 9")


def failed_proof(
    stack: Stack, name: str, change: Callable[[Path], None] = delete_last
) -> tuple[str, str, Path]:
    """Recovery, pipeline and table of a flow whose proof does not hold for what somebody changed meanwhile."""
    base = stack.home / "incident" / name
    old, new = (
        CODE.format(name=name, base=f"file:{base}/changes", step=step)
        for step in ('.dropDuplicates(["n"])', "")
    )
    wanted = WantedPipeline(name, f"db_{name}", configuration={"spark.sql.sources.default": "delta"})
    pipeline = ensure_pipeline(stack.client, wanted, old)

    def come(number: int) -> str:
        rows = tuple({"shop": n % 2, "n": n} for n in FILES[number])
        put_files((File("changes", f"changes-{number}.json", rows),), base)
        return "rows"

    good_updates(stack.client, pipeline, 2, come, ignore_progress)
    failing_update(
        stack.client, pipeline, Edit(wanted.source, new, "no dedupe"), lambda: come(2), ignore_progress
    )
    table = stack.home / "warehouse" / f"db_{name}.db" / name
    code, out, err = stack.manage(
        "plan", name, "--flow", f"{CATALOG}.db_{name}.{name}", "--strategy", "continue", "--key", "n", "--json",
        token="responder",
    )  # fmt: skip
    assert code == 0, (out, err)
    recovery = json.loads(out)["recovery"]
    assert stack.manage("execute", recovery, "--json", token="responder")[0] == 0
    wait_for(lambda: state_of(stack, recovery, "rerun") != "pending", "the rerun", 120)
    assert stack.manage("pause", recovery, "--json", token="responder")[0] == 0
    wait_for(lambda: state_of(stack, recovery, "rerun") == "done", "the end of the rerun", 120)
    change(table)
    code, out, _ = stack.manage("execute", recovery, "--wait", "--json", token="responder")
    assert (code, json.loads(out)["state"]) == (1, "needs_attention"), out
    return recovery, pipeline, table


def state_of(stack: Stack, recovery: str, kind: str) -> str:
    return next(str(step["state"]) for step in steps(stack, recovery)["steps"] if step["kind"] == kind)


def numbers(table: Path) -> Counter[int]:
    return Counter(row["n"] for row in DeltaTable(str(table)).to_pyarrow_table().to_pylist())


def test_a_row_that_a_proof_did_not_find_is_added_by_a_further_plan_of_the_same_recovery(
    stack: Stack,
) -> None:
    recovery, _, table = failed_proof(stack, "topupproof")
    ask = lambda *command: stack.manage(*command, "--json", token="responder")  # noqa: E731
    code, out, err = ask("plan", recovery, "--strategy", "top-up")
    told = json.loads(out)
    assert code == 0, (told, err)
    assert told["recovery"] == recovery
    assert told["forecast"]["new_rows"] == 1
    code, out, _ = ask("cancel", recovery)
    assert code == 0, out
    assert settled(stack, recovery)["state"] == "needs_attention", "the plan before is in force again"

    assert ask("plan", recovery, "--strategy", "top-up")[0] == 0
    code, out, _ = ask("execute", recovery, "--wait")

    answer = json.loads(out)
    assert (code, answer["state"]) == (0, "succeeded"), answer
    assert set(verdicts(answer).values()) == {True}, answer["verification"]
    assert numbers(table) == Counter(n for numbers in FILES for n in numbers)
