"""Two flows of one pipeline that one edit broke: planned, approved and run together, by one update, each proven; with a
kill in the middle, taken back, and with a Delta table next to one of files."""

import hashlib
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from console.incident.clicks_making import DELTA
from console.incident.data import File, Record, make_change
from console.incident.making import put_files
from console.incident.updates import ENDED, WantedPipeline, ensure_pipeline, run_update
from tests import tables
from tests.integration.test_kills import family_of, kill_when, steps
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


dp.create_streaming_table("{name}_orders", format="parquet")
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


def checkpoint_at(stack: Stack, pipeline: str, name: str, folder: str) -> Path:
    """The folder of its versions."""
    root = stack.home / "storage" / pipeline / "_checkpoints" / "spark_catalog" / "joint"
    return root / f"{name}_{folder}" / f"{name}_{folder}_flow"


def held(stack: Stack, name: str, folder: str) -> Counter[str]:
    place = table_at(stack, name, folder)
    is_delta = (place / "_delta_log").is_dir()
    rows = DeltaTable(str(place)).to_pyarrow_table().to_pylist() if is_delta else tables.rows(place)
    return Counter(tables.key(row) for row in rows)


def wanted(folder: str) -> Counter[str]:
    numbers = [*FIRST[folder], *LATER.get(folder, ())]
    return Counter(tables.key(make_change(number)) for number in numbers)


def digest(folder: Path) -> str:
    """Of every file in it, with its name."""
    made = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        made.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() + b"\0")
    return made.hexdigest()


def code_of(stack: Stack, name: str, step: str) -> str:
    return CODE.format(base=json.dumps(f"file:{stack.home / 'incident' / name}"), name=name, step=step)


def make_broken(stack: Stack, name: str, environment: str = "development", **configuration: str) -> str:
    """The pipeline's id: three flows, of which an edit breaks two; input of both waits."""
    base = stack.home / "incident" / name
    pipeline = WantedPipeline(name, "joint", environment, configuration)
    good, edited = (code_of(stack, name, step) for step in (STEP, ""))
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


def plan_together(stack: Stack, name: str, *more: str, returns: str = "") -> tuple[str, list[str]]:
    """The labels of the joint plan and of its two recoveries. `returns`: `=STRATEGY` of the second flow."""
    flows = ("--flow", f"{name}_orders_flow", "--flow", f"{name}_returns_flow{returns}")
    code, plan = asked(stack, "responder", "plan", name, *flows, "--strategy", "continue", *more)
    assert code == 0, plan
    return plan["joint_plan"], [one["recovery"] for one in plan["recoveries"]]


def settled(stack: Stack, labels: Sequence[str]) -> list[dict[str, Any]]:
    """Each recovery, once none of them runs and what a silent step did was found out."""

    def rests() -> list[dict[str, Any]] | None:
        now = [steps(stack, label) for label in labels]
        unknown = any(s["state"] == "unknown" and not s["evidence"] for one in now for s in one["steps"])
        return None if unknown or {one["state"] for one in now} & {"running", "verifying"} else now

    resting: list[dict[str, Any]] = wait_for(rests, "the recoveries to settle", 400)
    return resting


def selections_since(stack: Stack, pipeline: str, before: set[str]) -> list[list[str]]:
    """What each update since then selected, the newest first."""
    updates = [u for u in stack.client.list_updates(pipeline, limit=100) if u["update_id"] not in before]
    return [
        sorted(t.rsplit(".", 1)[-1] for t in u["refresh_selection"])
        for u in updates
        if not u["validate_only"]
    ]


def updates_of(stack: Stack, pipeline: str) -> set[str]:
    return {u["update_id"] for u in stack.client.list_updates(pipeline, limit=100)}


def test_two_flows_that_one_edit_broke_are_approved_once_and_recovered_by_one_update(stack: Stack) -> None:
    name = "joint"
    pipeline = make_broken(stack, name, "staging")
    before = updates_of(stack, pipeline)
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

    both = [f"{name}_orders", f"{name}_returns"]
    selected = selections_since(stack, pipeline, before)
    assert selected == [[both[1]], [both[0]], both], "one update for both, then the further one of each proof"
    assert asked(stack, "auditor", "audit", "verify")[0] == 0


@pytest.mark.alone
@pytest.mark.parametrize("moment", ["seed", "rerun"])
def test_a_worker_killed_in_the_middle_is_resumed_and_every_flow_ends_exactly_once(
    stack: Stack, moment: str
) -> None:
    name = f"jointkill{moment}"
    pipeline = make_broken(stack, name)
    before = updates_of(stack, pipeline)
    group, labels = plan_together(stack, name)
    undo = checkpoint_at(stack, pipeline, name, "returns") / f".reprise-{labels[1]}.undo.json"
    moments: dict[str, Callable[[], bool]] = {
        "seed": undo.exists,  # the first flow has its new checkpoint, the second one is being given its own
        "rerun": lambda: updates_of(stack, pipeline) != before,
    }
    kill_when(stack, group, moments[moment])
    if any(one["state"] == "needs_attention" for one in settled(stack, labels)):
        code, answer = asked(stack, "responder", "execute", group, "--wait")
        assert code == 0, answer
    assert [one["state"] for one in settled(stack, labels)] == ["succeeded"] * 2
    assert [held(stack, name, folder) for folder in LATER] == [wanted(folder) for folder in LATER]
    both = [f"{name}_orders", f"{name}_returns"]
    assert selections_since(stack, pipeline, before) == [[both[1]], [both[0]], both], "no update was repeated"
    for folder in LATER:
        versions = [
            p.name for p in checkpoint_at(stack, pipeline, name, folder).iterdir() if p.name.isdigit()
        ]
        assert sorted(versions) == ["0", "1"], "a reset was done twice"


def edit_when(stack: Stack, group: str, seen: Callable[[], bool], path: str, text: str) -> None:
    """Start the plans, and edit a file of the workspace at the first moment that `seen` is true: the worker is held
    meanwhile, so nothing comes in between."""
    assert asked(stack, "responder", "execute", group)[0] == 0
    family = family_of(stack.demo["pids"]["worker"])
    until = time.monotonic() + 60
    while not seen():
        assert time.monotonic() < until, "the moment to edit at never came"
    for pid in family:
        os.kill(pid, signal.SIGSTOP)
    try:
        stack.client.import_file(path, text.encode(), overwrite=True)
    finally:
        for pid in family:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.alone
def test_both_checkpoints_and_the_source_go_back_and_a_new_joint_plan_recovers_both(
    stack: Stack, tmp_path: Path
) -> None:
    name = "jointback"
    pipeline = make_broken(stack, name)
    path = WantedPipeline(name, "joint").source
    edited = code_of(stack, name, "")
    patched = f"{edited}\n# Without the step.\n"
    (tmp_path / f"{name}.py").write_text(patched)
    group, labels = plan_together(stack, name, "--code", str(tmp_path))
    places = [checkpoint_at(stack, pipeline, name, folder) for folder in LATER]

    def state() -> list[str]:
        return [digest(place / "0") for place in places] + [digest(table_at(stack, name, f)) for f in FOLDERS]

    before, updates = state(), updates_of(stack, pipeline)
    undo = places[1] / f".reprise-{labels[1]}.undo.json"
    edit_when(stack, group, undo.exists, path, f"{patched}# Someone else.\n")
    stands = settled(stack, labels)
    assert [one["state"] for one in stands] == ["needs_attention"] * 2, stands
    assert (stands[0]["by_kind"]["rerun"]["state"], updates_of(stack, pipeline)) == ("failed", updates), (
        stands
    )
    stack.client.import_file(path, patched.encode(), overwrite=True)

    code, answer = asked(stack, "responder", "rollback", group, "--reason", "wrong code")
    assert (code, [one["state"] for one in answer["recoveries"]]) == (0, ["rolled_back"] * 2), answer
    assert stack.client.export(path).decode() == edited
    assert state() == before
    for place in places:
        assert [p.name for p in place.iterdir() if p.name.isdigit()] == ["0"]

    code, answer = asked(stack, "responder", "execute", plan_together(stack, name)[0], "--wait")
    assert (code, [one["state"] for one in answer["recoveries"]]) == (0, ["succeeded"] * 2), answer
    assert [held(stack, name, folder) for folder in LATER] == [wanted(folder) for folder in LATER]


@pytest.mark.parametrize("returns", ["continue", "full-refresh"])
def test_a_delta_table_and_one_of_files_are_written_by_one_update_each_exactly_once(
    stack: Stack, returns: str
) -> None:
    name = f"jointdelta{returns[:4]}"
    pipeline = make_broken(stack, name, **DELTA)
    assert (table_at(stack, name, "orders") / "_spark_metadata").is_dir()
    assert (table_at(stack, name, "returns") / "_delta_log").is_dir()
    before = updates_of(stack, pipeline)
    group, _ = plan_together(stack, name, returns=f"={returns}")
    code, answer = asked(stack, "responder", "execute", group, "--wait")
    assert (code, [one["state"] for one in answer["recoveries"]]) == (0, ["succeeded"] * 2), answer
    for folder, one in zip(LATER, answer["recoveries"], strict=True):
        assert held(stack, name, folder) == wanted(folder)
        assert one["forecast"]["new_rows"] == one["measured"]["new_rows"]
    shared = next(
        u for u in reversed(stack.client.list_updates(pipeline, limit=100)) if u["update_id"] not in before
    )
    selected = [
        [t.rsplit(".", 1)[-1] for t in shared[k] or ()]
        for k in ("refresh_selection", "full_refresh_selection")
    ]
    both = [f"{name}_orders", f"{name}_returns"]
    assert selected == ([both, []] if returns == "continue" else [both[:1], both[1:]])
