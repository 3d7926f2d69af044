"""The whole recovery of a flow that writes to a sink its code declares, on real Spark, broker and Celery."""

import json
import threading
from collections import Counter
from typing import Any

import pytest

from console.incident.clicks import list_clicks
from tests.sink_flows import FLOW, SINK, SinkFlow, fail, send
from tests.stack import Stack

pytestmark = pytest.mark.spark

READ, WAITING = len(list_clicks().processed()), len(list_clicks().waiting)


def ask(stack: Stack, *command: str) -> tuple[int, dict[str, Any]]:
    code, out, err = stack.manage(*command, "--json", token="responder")
    assert out, err
    return code, json.loads(out)


def recover(stack: Stack, made: SinkFlow, strategy: str = "continue") -> dict[str, Any]:
    """From stop to proof, however that ends; rows may be sent again, of the batch that the failed update planned."""
    wanted = ("--flow", FLOW, "--strategy", strategy, "--accept-repeats")
    _, answer = ask(stack, "recover", made.name, *wanted)
    assert "verification" in answer, answer
    return answer


def open_criteria(answer: dict[str, Any]) -> dict[str, bool | None]:
    """Criteria that do not hold, by code: False or None."""
    return {c["code"]: c["ok"] for c in answer["verification"] if c["ok"] is not True}


def value(number: int) -> tuple[str, str]:
    page = next(c["page"] for c in list_clicks().all() if c["click_id"] == number)
    return str(number), json.dumps({"click_id": number, "page": page}, separators=(",", ":"))


def failed(stack: Stack, name: str, **how: Any) -> SinkFlow:
    return fail(stack.client, stack.demo["kafka"], name, **how)


def test_continue_sends_every_waiting_click_exactly_once_and_the_topic_proves_it(stack: Stack) -> None:
    made = failed(stack, "sent")
    before = Counter(made.sent())
    assert before == Counter(value(n) for n in range(1, READ + 1))

    answer = recover(stack, made)

    assert answer["state"] == "succeeded", answer
    assert Counter(made.sent()) - before == Counter(value(n) for n in range(READ + 1, READ + WAITING + 1))
    forecast, measured = answer["forecast"], answer["measured"]
    assert (forecast["new_rows"], forecast["table_after"], forecast["lost"]["rows"]) == (WAITING, None, 0)
    assert (forecast["doubled"]["rows"], forecast["doubled"]["exact"]) == (WAITING, False), "at most"
    assert (measured["new_rows"], measured["lost"], measured["doubled"]) == (WAITING, 0, 0)
    assert open_criteria(answer) == {}


def test_what_a_failed_attempt_had_sent_is_found_and_what_others_send_is_not_called_proven(
    stack: Stack,
) -> None:
    """Another writer sends all the time: that voids no plan. A waiting click was in the topic before the rerun."""
    made = failed(stack, "shared")
    send(made.servers, made.topic, [value(READ + 1)])
    done = threading.Event()

    def keep_sending() -> None:
        while not done.wait(0.2):
            send(made.servers, made.topic, [("other", "of another writer")])

    writer = threading.Thread(target=keep_sending)
    writer.start()
    try:
        answer = recover(stack, made)
    finally:
        done.set()
        writer.join()

    assert answer["state"] == "needs_attention", answer
    assert open_criteria(answer) == {
        "EVERY_ROW_ONCE": False, "COUNTS_EQUAL_FORECAST": None, "FURTHER_UPDATE_ADDS_NOTHING": None
    }  # fmt: skip
    rows = next(c for c in answer["verification"] if c["code"] == "EVERY_ROW_ONCE")["measured"]
    assert (rows["expected"], rows["missing"], rows["sent_by_a_failed_attempt"]) == (WAITING, 0, 1)
    assert rows["of_others"] > 0
    assert Counter(made.sent())[value(READ + 1)] == 2


def test_a_full_refresh_sends_everything_again_and_leaves_the_pipelines_table_alone(stack: Stack) -> None:
    made = failed(stack, "sent_again", with_table=True)

    answer = recover(stack, made, "full-refresh")

    assert answer["state"] == "succeeded", answer
    assert answer["forecast"]["doubled"]["rows"] == READ + WAITING, "at most: the planned batch too"
    assert Counter(made.sent()) == Counter(
        value(n) for n in (*range(1, READ + 1), *range(1, READ + WAITING + 1))
    )
    others = next(c for c in answer["verification"] if c["code"] == "NOTHING_ELSE_CHANGED")
    ran = {name.rpartition(".")[2] for name in others["measured"]["ran"]}
    assert (others["measured"]["watched"], ran) == (0, {"kept"}), "the table's flow ran too"
    versions = stack.home / "storage" / made.pipeline_id / "_checkpoints"
    assert sorted(p.name for p in (versions / SINK / FLOW).iterdir()) == ["0", "1"]
    (table,) = versions.glob("spark_catalog/*/kept/kept")
    assert [p.name for p in table.iterdir()] == ["0"], "the table's own checkpoint was not reset"


def test_into_a_sink_of_which_nothing_is_known_a_recovery_runs_and_is_never_called_proven(
    stack: Stack,
) -> None:
    made = failed(stack, "nowhere", kind="noop")

    answer = recover(stack, made)

    assert answer["state"] == "needs_attention", answer
    assert open_criteria(answer) == {"EVERY_ROW_ONCE": None}
