"""Two flows of one pipeline that one edit broke: planned, approved and run together, by one update, each proven."""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from console.incident.data import File, Record, make_change
from console.incident.making import put_files
from console.incident.updates import ENDED, WantedPipeline, ensure_pipeline, run_update
from tests import tables
from tests.stack import Stack, wait_for

pytestmark = pytest.mark.spark

CODE = """
from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

BASE = {base}
CHANGE = "customer_id BIGINT, sequence_num BIGINT, operation STRING, name STRING, city STRING"
spark = SparkSession.active()


def changes(folder: str) -> DataFrame:
    return spark.readStream.format("json").schema(CHANGE).load(f"{{BASE}}/{{folder}}"){step}


dp.create_streaming_table("{name}_orders")
dp.create_streaming_table("{name}_returns")
dp.create_streaming_table("{name}_visits")


@dp.append_flow(target="{name}_orders")
def {name}_orders_flow() -> DataFrame:
    return changes("orders")


@dp.append_flow(target="{name}_returns")
def {name}_returns_flow() -> DataFrame:
    return changes("returns")


@dp.append_flow(target="{name}_visits")
def {name}_visits_flow() -> DataFrame:
    return spark.readStream.format("json").schema(CHANGE).load(f"{{BASE}}/visits")
"""
STEP = '.dropDuplicates(["customer_id", "sequence_num"])'
FOLDERS = ("orders", "returns", "visits")
FIRST = {"orders": range(1, 6), "returns": range(11, 14), "visits": range(21, 24)}
LATER = {"orders": range(6, 9), "returns": range(14, 19)}


def file_of(folder: str, number: int, records: Sequence[Record]) -> File:
    return File(folder, f"{number:04d}.json", tuple(records))


def table_at(stack: Stack, name: str, folder: str) -> Path:
    return stack.home / "warehouse" / "joint.db" / f"{name}_{folder}"


def held(stack: Stack, name: str, folder: str) -> Counter[str]:
    return Counter(tables.key(row) for row in tables.rows(table_at(stack, name, folder)))


def wanted(folder: str) -> Counter[str]:
    numbers = [*FIRST[folder], *LATER.get(folder, ())]
    return Counter(tables.key(make_change(number)) for number in numbers)


def digest(folder: Path) -> str:
    """Of every file in it, with its name."""
    made = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        made.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() + b"\0")
    return made.hexdigest()


def make_broken(stack: Stack, name: str, environment: str) -> str:
    """The pipeline's id: three flows, of which an edit breaks two; input of both waits."""
    base = stack.home / "incident" / name
    pipeline = WantedPipeline(name, "joint", environment)
    good, edited = (CODE.format(base=json.dumps(f"file:{base}"), name=name, step=s) for s in (STEP, ""))
    made = ensure_pipeline(stack.client, pipeline, good)
    put_files(tuple(file_of(f, 1, [make_change(n) for n in FIRST[f]]) for f in FOLDERS), base)
    assert run_update(stack.client, made)[0] == "COMPLETED"
    stack.client.import_file(pipeline.source, edited.encode(), overwrite=True)
    put_files(tuple(file_of(f, 2, [make_change(n) for n in some]) for f, some in LATER.items()), base)
    for folder in LATER:  # each fails for itself: the first failure of an update cuts the others off
        update = stack.client.start_update(made, refresh_selection=[f"spark_catalog.joint.{name}_{folder}"])
        ended = wait_for(
            lambda update=update: (s := stack.client.get_update(made, update)["state"]) in ENDED and s,
            f"{folder} did not fail",
            120,
        )
        assert ended == "FAILED"
    return made


def asked(stack: Stack, who: str, *command: str) -> tuple[int, dict[str, Any]]:
    code, out, err = stack.manage(*command, "--json", token=who)
    assert out, err
    return code, json.loads(out)


def test_two_flows_that_one_edit_broke_are_approved_once_and_recovered_by_one_update(stack: Stack) -> None:
    name = "joint"
    pipeline = make_broken(stack, name, "staging")
    before = {u["update_id"] for u in stack.client.list_updates(pipeline, limit=100)}
    visits = stack.home / "storage" / pipeline / "_checkpoints" / "spark_catalog" / "joint" / f"{name}_visits"
    untouched = digest(visits), digest(table_at(stack, name, "visits"))
    flows = ("--flow", f"{name}_orders_flow", "--flow", f"{name}_returns_flow")

    code, plan = asked(
        stack, "responder", "plan", name, *flows, "--strategy", "continue", "--reason", "ticket 17"
    )
    assert code == 0, plan
    group, (first, second) = plan["joint_plan"], plan["recoveries"]
    assert [r["approvals"]["awaits"]["code"] for r in (first, second)] == ["needs_approval"] * 2
    alone = {
        "approver": ["approve", first["recovery"], "--reason", "it"],
        "responder": ["execute", second["recovery"]],
    }
    for who, act in alone.items():
        code, said = asked(stack, who, *act)
        assert (code, said["error"]["code"]) == (1, "joint")

    voted = ("approve", group, "--reason", "The numbers match.", "--plan", plan["plan_hash"])
    code, vote = asked(stack, "approver", *voted)
    assert (code, [r["state"] for r in vote["recoveries"]]) == (0, ["approved", "approved"])

    code, answer = asked(stack, "responder", "execute", group, "--wait")
    assert (code, [r["state"] for r in answer["recoveries"]]) == (0, ["succeeded"] * 2), answer
    for folder, one in zip(LATER, answer["recoveries"], strict=True):
        assert held(stack, name, folder) == wanted(folder)
        assert [c["code"] for c in one["verification"] if c["ok"] is not True] == []
        assert one["forecast"]["new_rows"] == one["measured"]["new_rows"] == len(LATER[folder])
    assert (digest(visits), digest(table_at(stack, name, "visits"))) == untouched

    updates = [u for u in stack.client.list_updates(pipeline, limit=100) if u["update_id"] not in before]
    selected = [
        sorted(t.rsplit(".", 1)[-1] for t in u["refresh_selection"])
        for u in updates
        if not u["validate_only"]
    ]
    both = [f"{name}_orders", f"{name}_returns"]
    assert selected == [[both[1]], [both[0]], both], "one update for both, then the further one of each proof"
    assert asked(stack, "auditor", "audit", "verify")[0] == 0
