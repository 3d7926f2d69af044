"""Rows that a Delta table has too often are deleted once on real Spark: found by hand or by a proof."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from console.incident.making import run_update
from tests.integration.test_kills import kill_when, resume, settled
from tests.integration.test_replay import BATCHES, ROWS, Shop, of_delta, opened
from tests.integration.test_top_up import (
    FILES,
    commit_of_fill,
    failed_proof,
    numbers,
    verdicts,
    write_by_hand,
)
from tests.stack import Stack, wait_for

pytestmark = pytest.mark.spark

ALL = range(1, BATCHES * ROWS + 1)


def deduplicate(shop: Shop, *options: str) -> tuple[int, dict[str, Any]]:
    return shop.ask(
        "plan", shop.name, "--flow", shop.flow, "--strategy", "deduplicate", "--key", "id", *options
    )


def repeat(table: Path, column: str, *values: int) -> None:
    """What somebody did by hand: rows of the table once more."""
    there = DeltaTable(str(table)).to_pyarrow_table()
    rows = [row for value in values for row in there.to_pylist() if row[column] == value]
    write_deltalake(str(table), type(there).from_pylist(rows, there.schema), mode="append")


def test_rows_that_somebody_repeated_are_deleted_once_and_what_waits_comes_once_too(stack: Stack) -> None:
    shop = opened(stack, "dedup", delta=True, bad=False)
    code, refused = deduplicate(shop)
    assert (code, refused["error"]["code"]) == (1, "blocked"), "no row is there too often"
    repeat(shop.table, "id", 2, 5, 5)
    shop.come(BATCHES)  # waits: none of this strategy's business

    code, planned = deduplicate(shop)

    assert code == 0, planned
    forecast = planned["forecast"]
    assert [s["kind"] for s in planned["steps"]] == ["stop", "deduplicate", "verify"]
    assert [(forecast[n]["rows"], forecast[n]["exact"]) for n in ("lost", "doubled")] == [(0, True)] * 2
    assert (forecast["new_rows"], forecast["table_after"]) == (0, len(ALL))
    code, answer = shop.ask("execute", planned["recovery"], "--wait")
    assert (code, answer["state"]) == (0, "succeeded"), answer
    assert set(verdicts(answer).values()) == {True}, answer["verification"]
    assert {"ONLY_REPEATS_DELETED", "TABLE_HAS_EVERY_ROW", "CHECKPOINT_UNTOUCHED"} <= set(verdicts(answer))
    assert (answer["measured"]["lost"], answer["measured"]["doubled"]) == (0, 0)
    assert of_delta(shop) == shop.wanted(BATCHES)
    assert run_update(stack.client, shop.pipeline_id) == ("COMPLETED", "")
    assert of_delta(shop) == shop.wanted(BATCHES + 1), "what waited comes once"
    code, refused = shop.ask("rollback", planned["recovery"])
    assert (code, refused["error"]["code"]) == (1, "not_undoable"), "the next batch would leave the table"


def test_a_rollback_brings_the_repeats_back(stack: Stack) -> None:
    shop = opened(stack, "dedupback", delta=True, bad=False)
    repeat(shop.table, "id", 4)
    before = of_delta(shop)
    recovery = deduplicate(shop)[1]["recovery"]
    assert shop.ask("execute", recovery, "--wait")[1]["state"] == "succeeded"
    assert of_delta(shop) == shop.wanted(BATCHES)

    code, answer = shop.ask("rollback", recovery)

    assert (code, answer["state"]) == (0, "rolled_back"), answer
    assert of_delta(shop) == before


def test_a_table_that_something_else_wrote_meanwhile_voids_the_plan_and_loses_no_row(stack: Stack) -> None:
    shop = opened(stack, "dedupvoid", delta=True, bad=False)
    repeat(shop.table, "id", 4)
    recovery = deduplicate(shop)[1]["recovery"]
    repeat(shop.table, "id", 4)
    held = of_delta(shop)

    shop.ask("execute", recovery, "--wait")

    assert settled(stack, recovery)["state"] == "diagnosing"
    assert of_delta(shop) == held
    assert commit_of_fill(shop.table, recovery) is None


def test_rows_that_differ_and_input_that_is_gone_are_a_persons_business(stack: Stack) -> None:
    shop = opened(stack, "dedupdiffer", delta=True, bad=False)
    write_by_hand(shop, 3)  # the key of one row with the values of another
    code, refused = deduplicate(shop)
    assert (code, refused["error"]["code"]) == (1, "blocked")
    assert "1 key (id)" in refused["error"]["says"]
    DeltaTable(str(shop.table)).delete("id = 3")
    repeat(shop.table, "id", 4)
    (shop.base / "orders" / "orders-0003.json").unlink()
    code, refused = deduplicate(shop, "--accept-loss", "--accept-repeats")
    assert (code, refused["error"]["code"]) == (1, "blocked"), "what repeats may come from what is gone"


@pytest.mark.alone
def test_a_worker_that_is_killed_after_the_deletion_resumes_and_deletes_nothing_twice(stack: Stack) -> None:
    shop = opened(stack, "dedupkilled", delta=True, bad=False)
    repeat(shop.table, "id", 1, 12)
    recovery = deduplicate(shop)[1]["recovery"]

    kill_when(stack, recovery, lambda: commit_of_fill(shop.table, recovery) is not None)

    if settled(stack, recovery)["state"] == "needs_attention":
        resume(stack, recovery)
    wait_for(lambda: settled(stack, recovery)["state"] == "succeeded", "the proof", 300)
    assert of_delta(shop) == shop.wanted(BATCHES)


def repeat_one_and_delete_another(table: Path) -> None:
    repeat(table, "n", 9)
    DeltaTable(str(table)).delete("n = 8")


def test_repeats_and_missing_rows_of_a_proof_are_corrected_by_two_further_plans_of_the_same_recovery(
    stack: Stack,
) -> None:
    recovery, _, table = failed_proof(stack, "dedupproof", repeat_one_and_delete_another)

    def plan_and_run(strategy: str) -> dict[str, Any]:
        code, out, err = stack.manage("plan", recovery, "--strategy", strategy, "--json", token="responder")
        assert code == 0, (out, err)
        assert json.loads(out)["recovery"] == recovery
        _, out, _ = stack.manage("execute", recovery, "--wait", "--json", token="responder")
        return dict(json.loads(out))

    first = plan_and_run("deduplicate")
    assert first["state"] == "needs_attention", "a row is missing still, so nothing is proven"
    assert (verdicts(first)["ONLY_REPEATS_DELETED"], verdicts(first)["TABLE_HAS_EVERY_ROW"]) == (True, False)
    second = plan_and_run("top-up")

    assert second["state"] == "succeeded", second
    assert set(verdicts(second).values()) == {True}, second["verification"]
    assert numbers(table) == Counter(n for one in FILES for n in one)
