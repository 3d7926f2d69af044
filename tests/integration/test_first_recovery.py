"""The whole recovery by hand, on real Spark, Celery and broker: every input row in the table exactly once."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from console.incident.data import File, make_change
from console.incident.making import Incident, put_files, run_update
from tests import tables
from tests.stack import Stack

pytestmark = pytest.mark.spark


def place(stack: Stack, incident: Incident, table: str = "") -> Path:
    _, schema, name = (table or incident.table).split(".")
    return stack.home / "warehouse" / f"{schema}.db" / name


def held(stack: Stack, incident: Incident) -> Counter[str]:
    return Counter(tables.key(r) for r in tables.rows(place(stack, incident)))


def wanted(incident: Incident) -> Counter[str]:
    return Counter(tables.key(r) for r in incident.arrivals.expected())


def checkpoint(stack: Stack, incident: Incident, version: int = 0) -> Path:
    flow = incident.flow.rsplit(".", 1)[1]
    root = stack.home / "storage" / incident.pipeline_id / "_checkpoints"
    return root / incident.table.replace(".", "/") / flow / str(version)


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def recover(stack: Stack, incident: Incident, *more: str, alone: bool = False) -> tuple[int, dict[str, Any]]:
    code, out, err = stack.manage(
        "recover", incident.name, "--flow", incident.flow, "--json", *more, token="responder", alone=alone
    )
    assert out, err
    return code, json.loads(out)


def view_rows(stack: Stack, incident: Incident) -> list[dict[str, Any]]:
    """What the data files of the view hold: a batch writes them, so they have no log."""
    name = incident.table.replace("_changes", "")
    files = sorted(place(stack, incident, name).glob("*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def view_in_list(stack: Stack, incident: Incident, *more: str) -> dict[str, Any]:
    """The view that people read, as `flows` lists it."""
    _, out, err = stack.manage("flows", "--fresh", "--json", *more, token="responder")
    assert out, err
    mine = [f for f in json.loads(out)["flows"] if f["pipeline"]["name"] == incident.name]
    return next(f for f in mine if f["flow_type"] == "MATERIALIZED_VIEW")


@pytest.mark.smoke
def test_continue_puts_every_row_into_the_table_exactly_once(stack: Stack) -> None:
    incident = stack.incident("first")
    before = tree(checkpoint(stack, incident))
    view = view_in_list(stack, incident, "--failing")
    assert (view["state"], view["behind"]["why"]) == ("empty", "emptied")
    assert view_rows(stack, incident) == [], "Spark did not empty it at set-up"
    code, answer = recover(stack, incident, alone=True)
    assert (code, answer["state"]) == (0, "succeeded"), answer
    assert held(stack, incident) == wanted(incident)
    assert all(c["ok"] is True for c in answer["verification"])
    assert len(answer["verification"]) == 10
    forecast, measured = answer["forecast"], answer["measured"]
    assert (forecast["lost"]["rows"], forecast["doubled"]["rows"], forecast["reread"]["rows"]) == (0, 0, 0)
    assert (measured["lost"], measured["doubled"], measured["table_rows"]) == (0, 0, 20)
    assert measured["key"] == ["customer_id", "sequence_num"], "that of the dropDuplicates that is gone"
    assert (measured["whole"]["files"], measured["whole"]["input_keys"], measured["whole"]["absent"]) == (
        7,
        20,
        0,
    )
    assert forecast["new_rows"] == measured["new_rows"] == 8
    _view_is_whole(stack, incident, answer)
    assert tree(checkpoint(stack, incident)) == before, "the old version was touched"


def _view_is_whole(stack: Stack, incident: Incident, answer: dict[str, Any]) -> None:
    """The view that people read holds the newest state of each customer, and everybody says so."""
    view = view_in_list(stack, incident)
    assert (view["state"], view["since"]) == ("ok", None)
    assert [(d["dataset"], d["effect"]) for d in answer["forecast"]["downstream"]] == [
        (view["dataset"], "refreshed")
    ]
    (below,) = answer["measured"]["downstream"]
    assert (below["status"], below["agrees"], answer["measured"]["left_behind"]) == ("COMPLETED", True, [])
    newest = newest_customers(stack, incident)
    assert shown_customers(stack, incident) == newest
    assert below["rows"] == len(newest) > 0


def newest_customers(stack: Stack, incident: Incident) -> list[tuple[Any, ...]]:
    """What the view should show, by the tables that it reads as they are now."""
    changes, first = (
        tables.rows(place(stack, incident)),
        "_snapshot".join(incident.table.rsplit("_changes", 1)),
    )
    newest = {
        r["customer_id"]: {**r, "operation": "UPSERT"} for r in tables.rows(place(stack, incident, first))
    }
    for row in sorted(changes, key=lambda r: r["sequence_num"]):
        newest[row["customer_id"]] = row
    return sorted((k, r["name"], r["city"]) for k, r in newest.items() if r["operation"] != "DELETE")


def shown_customers(stack: Stack, incident: Incident) -> list[tuple[Any, ...]]:
    """What the view shows, each row."""
    return sorted((r["customer_id"], r["name"], r["city"]) for r in view_rows(stack, incident))


def test_a_union_of_two_sources_with_compacted_logs_goes_on_where_each_stood(stack: Stack) -> None:
    incident = stack.incident("orders", schema="shop_eu", explicit_flows=False, sources=2, batches=12)
    sources = checkpoint(stack, incident) / "sources"
    assert list(sources.glob("*/*.compact")), "the logs were not compacted, so this proves nothing"
    code, answer = recover(stack, incident)
    assert (code, answer["state"]) == (0, "succeeded"), answer
    assert held(stack, incident) == wanted(incident)


def test_revert_keeps_the_state_and_loses_nothing(stack: Stack) -> None:
    incident = stack.incident("back")
    code, answer = recover(stack, incident, "--strategy", "revert")
    assert (code, answer["state"]) == (0, "succeeded"), answer
    assert held(stack, incident) == wanted(incident)
    assert stack.client.export(incident.source).decode() == incident.good_code
    assert answer["forecast"]["new_rows"] == answer["measured"]["new_rows"]


def test_a_full_refresh_brings_back_exactly_the_repeats_it_forecast(stack: Stack) -> None:
    incident = stack.incident("anew")
    code, answer = recover(stack, incident, "--strategy", "full-refresh", "--accept-repeats")
    assert (code, answer["state"]) == (0, "succeeded"), answer
    every = incident.arrivals.processed() + [r for f in incident.arrivals.waiting for r in f.records]
    assert held(stack, incident) == Counter(tables.key(r) for r in every)
    forecast = answer["forecast"]
    assert forecast["doubled"]["rows"] == len(every) - len(incident.arrivals.expected()) == 1
    assert forecast["reread"]["rows"] == len(incident.arrivals.processed())
    assert forecast["table_after"] == sum(held(stack, incident).values())
    assert (answer["measured"]["doubled"], answer["measured"]["table_rows"]) == (1, forecast["table_after"])


def test_an_empty_reset_loses_exactly_the_rows_for_which_it_is_blocked(stack: Stack) -> None:
    """The reset is done by the API, behind the console's back, on a pipeline that is there for this only."""
    incident = stack.incident("copy")
    code, out, _ = stack.manage(
        "plan", incident.name, "--flow", incident.flow, "--strategy", "empty", "--json", token="responder"
    )
    refusal = json.loads(out)["error"]["says"]
    assert code == 1
    client = stack.client
    update = client.start_update(incident.pipeline_id, reset_checkpoint_selection=[incident.flow])
    state, _ = run_update_to_end(stack, incident, update)
    assert state == "COMPLETED"
    lost = wanted(incident) - held(stack, incident)
    assert f"lose {sum(lost.values())} rows" in refusal
    assert sum(lost.values()) == 8


def run_update_to_end(stack: Stack, incident: Incident, update: str) -> tuple[str, str]:
    from tests.stack import wait_for

    ended = ("COMPLETED", "FAILED", "CANCELED")
    state = wait_for(
        lambda: next(
            (s for s in [stack.client.get_update(incident.pipeline_id, update)["state"]] if s in ended), None
        ),
        "the update's end",
    )
    return state, update


def test_files_that_arrive_after_the_plan_are_read_and_said(stack: Stack) -> None:
    """New input is no drift: it is read once, counted apart, and the forecast is still held."""
    incident = stack.incident("late")
    code, out, err = stack.manage("plan", incident.name, "--flow", incident.flow, "--json", token="responder")
    assert code == 0, err
    first = incident.arrivals.waiting[0]
    late = type(first)(first.folder, "later-0001.json", ({**first.records[0], "sequence_num": 900},))
    put_files((late,), incident.base)
    recovery = json.loads(out)["recovery"]
    code, out, err = stack.manage("execute", recovery, "--wait", "--json", token="responder")
    answer = json.loads(out)
    assert (code, answer["state"]) == (0, "succeeded"), answer
    assert held(stack, incident) == wanted(incident) + Counter([tables.key(late.records[0])])
    said = next(c for c in answer["verification"] if c["code"] == "COUNTS_EQUAL_FORECAST")
    assert "1 row of files that came later" in said["why"]


def test_a_plan_that_is_made_again_counts_what_has_come_since(stack: Stack) -> None:
    """What Spark said for the first plan is used again for the second; a new file is what asks again."""
    incident = stack.incident("again")

    def planned(*more: str) -> int:
        code, out, err = stack.manage(
            "plan", "again", "--flow", incident.flow, "--json", *more, token="responder"
        )
        assert code == 0, err
        rows: int = json.loads(out)["forecast"]["new_rows"]
        return rows

    first = planned()
    assert planned("--again") == first
    put_files((File("changes", "late.json", (make_change(900), make_change(901))),), incident.base)
    assert planned("--again") == first + 2


def test_the_next_ordinary_update_goes_on_and_refreshes_the_view(stack: Stack) -> None:
    incident = stack.incident("after")
    assert recover(stack, incident)[0] == 0
    first = incident.arrivals.waiting[0]
    more = type(first)(first.folder, "more-0001.json", ({**first.records[0], "sequence_num": 901},))
    put_files((more,), incident.base)
    state, why = run_update(stack.client, incident.pipeline_id)
    assert state == "COMPLETED", why
    assert held(stack, incident) == wanted(incident) + Counter([tables.key(more.records[0])])


def test_a_rollback_before_the_rerun_puts_the_old_version_back(stack: Stack, tmp_path: Path) -> None:
    """The patch breaks only when it runs, so the seed is in place and no batch was committed."""
    incident = stack.incident("undo")
    broken = incident.failing_code.replace(
        "from pyspark import pipelines as dp",
        "import time\n\nfrom pyspark import pipelines as dp\n\nBORN = time.time()",
    )
    folder = tmp_path / "undo-code"
    folder.mkdir()
    (folder / f"{incident.name}.py").write_text(broken)
    code, out, err = stack.manage(
        "plan", incident.name, "--flow", incident.flow, "--code", str(folder), "--json", token="responder"
    )
    assert code == 0, err
    plan = json.loads(out)
    moved = incident.base / incident.arrivals.waiting[0].folder
    away = moved.with_name("away")
    assert plan["patch"][0]["path"] == incident.source
    _fail_the_rerun(stack, plan["recovery"], moved, away)
    code, out, err = stack.manage("rollback", plan["recovery"], "--json", token="responder")
    assert (code, json.loads(out)["state"]) == (0, "rolled_back"), err
    assert stack.client.export(incident.source).decode() == incident.failing_code
    assert not checkpoint(stack, incident, 1).exists()
    assert recover(stack, incident)[0] == 0
    assert held(stack, incident) == wanted(incident)


def _fail_the_rerun(stack: Stack, recovery: str, inputs: Path, away: Path) -> None:
    """The input folder vanishes between plan and run: the update fails before its first batch."""
    inputs.rename(away)
    try:
        code, out, _ = stack.manage("execute", recovery, "--wait", "--json", token="responder")
        answer = json.loads(out)
        states = {s["kind"]: s["state"] for s in answer["steps"]}
        assert (code, answer["state"], states["seed"], states["rerun"]) == (
            1,
            "needs_attention",
            "done",
            "failed",
        ), answer
    finally:
        away.rename(inputs)


def test_the_audit_log_tells_the_whole_story_and_its_chain_holds(stack: Stack) -> None:
    code, out, err = stack.manage("audit", "verify", "--json", token="auditor")
    assert (code, json.loads(out)["ok"]) == (0, True), err
