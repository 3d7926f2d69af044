"""The demo's plain stream, which knows nothing of Reprise: it fails, is adopted, and is recovered by its commands."""

import json
from pathlib import Path
from typing import Any

import pytest

from console.incident.orders_making import ARRIVALS, OrdersIncident, make_orders
from tests import tables
from tests.stack import Stack

pytestmark = pytest.mark.spark


def answered(stack: Stack, *words: str, token: str = "admin") -> tuple[int, dict[str, Any]]:
    code, out, err = stack.manage(*words, "--json", token=token, seconds=700)
    assert out, err
    return code, json.loads(out)


def adopted(stack: Stack, made: OrdersIncident) -> dict[str, Any]:
    code, told = answered(
        stack, "adopt", made.checkpoint, "--name", f"orders-{Path(made.folder).name}", "--sink", made.table,
        "--event-log", made.event_log, "--program", made.program, "--argument", made.folder,
        "--start", made.command("start"), "--stop", made.command("stop"), "--running", made.command("running"),
        "--environment", "development",
    )  # fmt: skip
    assert code == 0, told
    return told


def test_a_program_whose_step_was_taken_out_is_recovered_to_proof(stack: Stack, tmp_path: Path) -> None:
    made = make_orders(folder=tmp_path / "orders")
    stream = adopted(stack, made)
    assert stream["state"] == "failed"
    code, told = answered(stack, "diagnose", stream["pipeline"])
    assert code == 1, told
    assert told["diagnosis"]["condition"] == "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
    code, answer = answered(
        stack, "recover", stream["pipeline"], "--flow", stream["flow"], "--strategy", "continue"
    )
    assert (code, answer.get("state")) == (0, "succeeded"), answer
    ids = sorted(row["order_id"] for row in tables.rows(Path(made.table)))
    assert ids == sorted({order for arrival in ARRIVALS for order in arrival})
    assert all(c["ok"] is True for c in answer["verification"])
    assert [answer["forecast"][k]["rows"] for k in ("lost", "doubled", "reread")] == [0, 0, 0]
