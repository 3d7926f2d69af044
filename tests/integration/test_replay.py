"""Going back to an earlier batch on real Spark: a healthy flow whose rows are wrong, made right from there on."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from console.incident.data import File
from console.incident.making import put_files, run_update
from console.incident.updates import WantedPipeline, create_pipeline
from tests import tables
from tests.integration.test_kills import kill_when, resume, settled, steps
from tests.stack import Stack, wait_for

pytestmark = pytest.mark.spark

CODE = """from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()


@dp.table()
def {name}() -> DataFrame:
    rows = spark.readStream.format("json").schema("id BIGINT, price DOUBLE").load("file:{base}/orders")
    return rows{step}.selectExpr("id", "CAST(price * {factor} AS BIGINT) AS cents")
"""
BATCHES, ROWS, GOOD_UNTIL = 4, 3, 1
"""Updates that ran, rows of each, and the last one by the right code."""


@dataclass(frozen=True)
class Shop:
    """A pipeline whose updates all completed, the later ones by code that is wrong."""

    stack: Stack
    name: str
    pipeline_id: str
    source: str
    base: Path
    step: str = ""

    @property
    def flow(self) -> str:
        return f"spark_catalog.db_{self.name}.{self.name}"

    @property
    def table(self) -> Path:
        return self.stack.home / "warehouse" / f"db_{self.name}.db" / self.name

    def code(self, factor: int) -> str:
        return CODE.format(name=self.name, base=self.base, factor=factor, step=self.step)

    def come(self, batch: int, *, repeat: int = 0) -> None:
        """The orders of one batch arrive, and this one once more."""
        first = batch * ROWS + 1
        ids = [*range(first, first + ROWS), *([repeat] if repeat else [])]
        records = tuple({"id": n, "price": n + 0.5} for n in ids)
        put_files((File("orders", f"orders-{batch:04d}.json", records),), self.base)

    def ask(self, *command: str) -> tuple[int, dict[str, Any]]:
        code, out, err = self.stack.manage(*command, "--json", token="responder")
        assert out, err
        return code, json.loads(out)

    def wanted(self, batches: int) -> Counter[str]:
        """What a batch of the right code computes over the orders of so many batches."""
        return Counter(
            tables.key({"id": n, "cents": int((n + 0.5) * 100)}) for n in range(1, batches * ROWS + 1)
        )


def of_files(shop: Shop) -> Counter[str]:
    return Counter(tables.key(row) for row in tables.rows(shop.table))


def of_delta(shop: Shop) -> Counter[str]:
    return Counter(tables.key(row) for row in DeltaTable(str(shop.table)).to_pyarrow_table().to_pylist())


def opened(stack: Stack, name: str, *, delta: bool, step: str = "", bad: bool = True) -> Shop:
    """The shop after its updates; from the third on the price is ten times too small, where `bad`."""
    base = stack.home / "incident" / name
    wanted = WantedPipeline(
        name, f"db_{name}", configuration={"spark.sql.sources.default": "delta"} if delta else {}
    )
    draft = Shop(stack, name, "", wanted.source, base, step)
    draft.come(0)
    shop = Shop(
        stack, name, create_pipeline(stack.client, wanted, draft.code(100)), wanted.source, base, step
    )
    for batch in range(BATCHES):
        shop.come(batch)
        if bad and batch == GOOD_UNTIL + 1:
            stack.client.import_file(shop.source, shop.code(10).encode(), overwrite=True)
        assert run_update(stack.client, shop.pipeline_id) == ("COMPLETED", "")
    return shop


def repaired(shop: Shop, tmp_path: Path) -> tuple[str, str]:
    """The option with the right code."""
    folder = tmp_path / "transformations"
    folder.mkdir()
    (folder / f"{shop.name}.py").write_text(shop.code(100))
    return "--code", str(tmp_path)


HELD: dict[str, Callable[[Shop], Counter[str]]] = {"files": of_files, "delta": of_delta}


@pytest.mark.parametrize("kind", HELD)
def test_a_bad_deploy_is_made_right_from_the_last_good_batch_on(
    stack: Stack, kind: str, tmp_path: Path
) -> None:
    shop = opened(stack, f"replay_{kind}", delta=kind == "delta")
    held = HELD[kind]
    assert held(shop) != shop.wanted(BATCHES)
    code, refused = shop.ask("plan", shop.name, "--flow", shop.flow)
    assert (code, refused["error"]["code"]) == (1, "healthy")
    shop.come(BATCHES)

    target = ("--strategy", "replay", "--to", f"batch={GOOD_UNTIL}", *repaired(shop, tmp_path))
    code, answer = shop.ask("recover", shop.name, "--flow", shop.flow, *target)

    assert (code, answer.get("state")) == (0, "succeeded"), answer
    assert all(c["ok"] is True for c in answer["verification"]), answer["verification"]
    assert held(shop) == shop.wanted(BATCHES + 1)
    forecast, measured = answer["forecast"], answer["measured"]
    again, new = (BATCHES - GOOD_UNTIL - 1) * ROWS, (BATCHES - GOOD_UNTIL) * ROWS
    assert [forecast[n]["rows"] for n in ("lost", "doubled", "reread")] == [0, 0, again]
    assert all(forecast[n]["exact"] for n in ("lost", "doubled", "reread"))
    assert (forecast["new_rows"], measured["new_rows"]) == (new, new)
    assert (measured["lost"], measured["doubled"]) == (0, 0)
    assert forecast["table_after"] == measured["table_rows"] == (BATCHES + 1) * ROWS
    shop.come(BATCHES + 1)
    assert run_update(stack.client, shop.pipeline_id) == ("COMPLETED", "")
    assert held(shop) == shop.wanted(BATCHES + 2)


def planned(shop: Shop, tmp_path: Path) -> str:
    target = ("--strategy", "replay", "--to", f"batch={GOOD_UNTIL}", *repaired(shop, tmp_path))
    code, answer = shop.ask("plan", shop.name, "--flow", shop.flow, *target)
    assert code == 0, answer
    return str(answer["recovery"])


def put_back(shop: Shop, label: str) -> Callable[[], bool]:
    """Whether the table has been put back: by the old log beside it, or by a further version."""
    if (shop.table / "_delta_log").is_dir():
        before = DeltaTable(str(shop.table)).version()
        return lambda: DeltaTable(str(shop.table)).version() > before
    return (shop.table / f".reprise-{label}-log-before").exists


@pytest.mark.parametrize("kind", HELD)
def test_a_run_that_is_paused_before_a_new_batch_is_rolled_back_to_the_table_of_before(
    stack: Stack, kind: str, tmp_path: Path
) -> None:
    shop, held = opened(stack, f"undone_{kind}", delta=kind == "delta"), HELD[kind]
    before, label = held(shop), planned(shop, tmp_path)
    is_put_back = put_back(shop, label)
    assert shop.ask("execute", label)[0] == 0
    wait_for(is_put_back, "the table put back", 120)
    shop.ask("pause", label)
    assert settled(stack, label)["state"] == "needs_attention"
    assert held(shop) == shop.wanted(GOOD_UNTIL + 1)

    code, answer = shop.ask("rollback", label)

    assert (code, answer["state"]) == (0, "rolled_back"), answer
    assert held(shop) == before
    assert stack.client.export(shop.source).decode() == shop.code(10)
    assert run_update(stack.client, shop.pipeline_id) == ("COMPLETED", "")
    assert held(shop) == before


@pytest.mark.alone
def test_a_worker_killed_after_the_table_was_put_back_is_resumed_to_exactly_once(
    stack: Stack, tmp_path: Path
) -> None:
    shop = opened(stack, "replay_killed", delta=False)
    label = planned(shop, tmp_path)

    kill_when(stack, label, put_back(shop, label))

    if settled(stack, label)["state"] == "needs_attention":
        resume(stack, label)
    assert steps(stack, label)["state"] == "succeeded"
    assert of_files(shop) == shop.wanted(BATCHES)
