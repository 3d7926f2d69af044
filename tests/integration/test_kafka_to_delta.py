"""The whole recovery from Kafka into a Delta table, on real Spark, broker and Celery: exactly once to the row."""

import json
import os
import signal
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable

from console.incident.clicks import PARTITIONS, Click, Clicks, list_clicks, make_topic, write_clicks
from console.incident.clicks_making import ClicksIncident
from console.incident.updates import run_update
from console.supervisor import kafka, processes
from tests.stack import Stack, wait_for

pytestmark = pytest.mark.spark

DEDUPLICATED = ('\n        .dropDuplicates(["click_id"])', "")
READ, WAITING = len(list_clicks().processed()), len(list_clicks().waiting)
DELAY, MINUTE = timedelta(minutes=2), timedelta(minutes=1)


def table(stack: Stack, incident: ClicksIncident) -> Path:
    _, schema, name = incident.table.split(".")
    return stack.home / "warehouse" / f"{schema}.db" / name


def rows(stack: Stack, incident: ClicksIncident) -> list[dict[str, Any]]:
    """Every row of the table as it is now, read without Spark."""
    return DeltaTable(str(table(stack, incident))).to_pyarrow_table().to_pylist()


def checkpoint(stack: Stack, incident: ClicksIncident, version: int) -> Path:
    root = stack.home / "storage" / incident.pipeline_id / "_checkpoints"
    return root / incident.table.replace(".", "/") / incident.name / str(version)


def ask(stack: Stack, *command: str, alone: bool = False) -> tuple[int, dict[str, Any]]:
    code, out, err = stack.manage(*command, "--json", token="responder", alone=alone)
    assert out, err
    return code, json.loads(out)


def recover(stack: Stack, incident: ClicksIncident, *more: str, alone: bool = False) -> dict[str, Any]:
    """A recovery of the incident from stop to proof; it must succeed."""
    code, answer = ask(stack, "recover", incident.name, "--flow", incident.flow, *more, alone=alone)
    assert (code, answer.get("state")) == (0, "succeeded"), answer
    assert all(c["ok"] is True for c in answer["verification"]), answer["verification"]
    return answer


def numbers(stack: Stack, incident: ClicksIncident) -> Counter[int]:
    """How often each click is in the table."""
    return Counter(row["click_id"] for row in rows(stack, incident))


def with_a_repeat() -> Clicks:
    """The clicks, of which the last good batch brings number 2 a second time, and the waiting ones number 3."""
    coming = list_clicks()
    again = {c["click_id"]: c for c in coming.processed()}
    return Clicks((coming.good[0], (*coming.good[1], again[2])), (*coming.waiting, again[3]))


def forecast_came_true(answer: dict[str, Any]) -> None:
    """To the row, over the whole table: what the plan leaves out is lost, and what it repeats is doubled."""
    forecast, measured = answer["forecast"], answer["measured"]
    assert [measured[n] for n in ("lost", "doubled")] == [forecast[n]["rows"] for n in ("lost", "doubled")]
    assert forecast["new_rows"] == measured["new_rows"]
    assert forecast["table_after"] == measured["table_rows"]


# -- rows as they come: a step of state is taken out ---------------------------------------------------------


def test_continue_puts_every_waiting_click_into_the_table_exactly_once(stack: Stack) -> None:
    """A repeat of an old click among the waiting ones comes in as a second row: that is what the edit means."""
    incident = stack.clicks("single", steps=DEDUPLICATED, what="dropDuplicates", arrivals=with_a_repeat())
    before = numbers(stack, incident)
    assert before == Counter(range(1, READ + 1))
    committed = (checkpoint(stack, incident, 0) / "offsets" / "1").read_text().splitlines()[-1]

    answer = recover(stack, incident, "--accept-repeats", alone=True)
    assert (answer["measured"]["key"], answer["measured"]["doubled"]) == (["click_id"], 1)

    assert numbers(stack, incident) == before + Counter(range(READ + 1, READ + WAITING + 1)) + Counter([3])
    forecast_came_true(answer)
    assert answer["forecast"]["lost"]["exact"]
    assert (answer["forecast"]["lost"]["rows"], answer["forecast"]["new_rows"]) == (0, WAITING + 1)
    seeded = (checkpoint(stack, incident, 1) / "offsets" / "1").read_text().splitlines()[-1]
    assert seeded == committed, "the position must be the same to the byte"

    more = [{**c, "click_id": c["click_id"] + READ + WAITING} for c in list_clicks().waiting]
    write_clicks(incident.servers, incident.topic, [*incident.arrivals.all(), *more])
    assert run_update(stack.client, incident.pipeline_id) == ("COMPLETED", "")
    assert len(rows(stack, incident)) == len(incident.arrivals.all()) - 1 + WAITING


def test_an_empty_reset_writes_again_just_the_rows_that_it_forecast(stack: Stack) -> None:
    incident = stack.clicks("read_again", steps=DEDUPLICATED, what="dropDuplicates", arrivals=with_a_repeat())
    before = numbers(stack, incident)
    code, answer = ask(stack, "recover", incident.name, "--flow", incident.flow, "--strategy", "empty")
    assert (code, answer["error"]["code"]) == (1, "repeats_rows")
    assert numbers(stack, incident) == before

    answer = recover(stack, incident, "--strategy", "empty", "--accept-repeats")

    after = numbers(stack, incident)
    assert after == before + Counter(c["click_id"] for c in incident.arrivals.all())
    twice = sum(n - 1 for n in after.values())
    doubled = answer["forecast"]["doubled"]
    assert (doubled["rows"], doubled["bound"]) == (twice, "exact") == (READ + 2, "exact")
    assert (answer["forecast"]["lost"]["rows"], answer["forecast"]["lost"]["bound"]) == (0, "exact")
    forecast_came_true(answer)
    assert (checkpoint(stack, incident, 1) / "commits" / "0").exists()
    assert (checkpoint(stack, incident, 0) / "commits" / "1").exists(), "the old version stays"


# -- a position of one's own ------------------------------------------------------------------------------------


def arrived_at(incident: ClicksIncident, click: Click) -> datetime:
    """When Kafka was given this click."""
    partition = click["click_id"] % PARTITIONS
    before = [c for c in incident.arrivals.all() if c["click_id"] % PARTITIONS == partition]
    consumer = Consumer({"bootstrap.servers": incident.servers, "group.id": "tests", "log_level": 0})
    try:
        consumer.assign([TopicPartition(incident.topic, partition, before.index(click))])
        record = consumer.poll(30)
        assert record is not None
        assert json.loads(record.value()) == click
        return datetime.fromtimestamp(record.timestamp()[1] / 1000, UTC)
    finally:
        consumer.close()


def planned(stack: Stack, incident: ClicksIncident, position: str, accepted: str) -> dict[str, Any]:
    """The plan to start there; without the option that accepts the cost it must be refused."""
    wanted = ("plan", incident.name, "--flow", incident.flow, "--position", f"0={position}")
    assert ask(stack, *wanted)[0] == 1
    code, plan = ask(stack, *wanted, accepted)
    assert code == 0, plan
    return plan


def planned_over_http(stack: Stack, incident: ClicksIncident, position: str, accepted: str) -> dict[str, Any]:
    """The same by a program with a token: looked up, refused while the cost is not accepted, sealed by a worker."""
    headers = {"Authorization": f"Bearer {stack.demo['users']['responder']['token']}"}
    at, wanted = f"{stack.demo['console_url']}/api/v1/recoveries", {"position": [f"0={position}"]}

    def call(method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        answer = requests.request(method, f"{at}{path}", json=body, headers=headers, timeout=60)
        return answer.status_code, answer.json()

    code, opened = call("POST", "", {"pipeline": incident.name, "flow": incident.flow})
    assert code == 201, opened
    label = opened["recovery"]
    assert call("POST", f"/{label}/positions", wanted)[0] == 202
    looked = wait_for(
        lambda: (said := call("GET", f"/{label}/positions")[1])["status"] != "working" and said, "a look", 120
    )
    assert looked["status"] == "ready", looked
    assert looked["lost"] or looked["repeated"]
    assert call("POST", f"/{label}/plan", wanted)[0] == 409
    assert call("POST", f"/{label}/plan", {**wanted, accepted: True})[0] == 202
    sealed = wait_for(
        lambda: (said := call("GET", f"/{label}")[1])["sealing"]["status"] != "working" and said,
        "a plan",
        120,
    )
    assert sealed["plan"], sealed
    return dict(sealed["plan"])


def executed(stack: Stack, plan: dict[str, Any]) -> dict[str, Any]:
    _, answer = ask(stack, "execute", plan["recovery"], "--wait")
    assert answer["state"] == "succeeded", answer
    return answer


def test_an_earlier_position_doubles_exactly_the_rows_that_were_forecast(stack: Stack) -> None:
    """From the time at which the second good update's clicks had not yet arrived: all of them are read again."""
    incident = stack.clicks("earlier", steps=DEDUPLICATED, what="dropDuplicates")
    second = incident.arrivals.good[1]
    since = min(arrived_at(incident, c) for c in second[:PARTITIONS])

    plan = planned(stack, incident, f"time={since.isoformat()}", "--accept-repeats")

    assert plan["forecast"]["doubled"] | {"why": "", "from": "", "to": ""} == {
        "rows": len(second), "files": 0, "from": "", "to": "", "exact": True, "why": "",
        "bound": "exact",
    }  # fmt: skip
    assert plan["forecast"]["reread"]["rows"] == len(second)
    assert plan["forecast"]["table_after"] == READ + len(second) + WAITING
    answer = executed(stack, plan)
    forecast_came_true(answer)
    assert numbers(stack, incident) == Counter(range(1, READ + WAITING + 1)) + Counter(
        c["click_id"] for c in second
    )


def test_a_later_position_loses_exactly_the_rows_that_were_forecast(stack: Stack) -> None:
    """Ten clicks of each partition are passed over, by hand; a position beyond the end is refused with the bound."""
    incident = stack.clicks("later", steps=DEDUPLICATED, what="dropDuplicates")
    beyond = json.dumps({incident.topic: dict.fromkeys(map(str, range(PARTITIONS)), 10_000)})
    wanted = ("--flow", incident.flow, "--position", f"0=json={beyond}", "--accept-loss")
    code, refused = ask(stack, "plan", incident.name, *wanted)
    assert code in (1, 2)
    assert "120" in refused["error"]["says"], refused
    at = {str(partition): READ // PARTITIONS + 10 for partition in range(PARTITIONS)}

    plan = planned_over_http(stack, incident, f"json={json.dumps({incident.topic: at})}", "accept_loss")

    assert plan["forecast"]["lost"]["rows"] == 10 * PARTITIONS
    answer = executed(stack, plan)
    forecast_came_true(answer)
    passed_over = range(READ + 1, READ + 10 * PARTITIONS + 1)
    assert numbers(stack, incident) == Counter(range(1, READ + WAITING + 1)) - Counter(passed_over)


# -- the demo's incident: the aggregation was changed ---------------------------------------------------------


def at(click: Click) -> datetime:
    return datetime.strptime(click["at"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def minute(click: Click) -> datetime:
    return at(click).replace(second=0)


def watermark(sequence: list[Click]) -> datetime:
    return max(at(c) for c in sequence) - DELAY


def counted(sequence: list[Click], *columns: str) -> Counter[tuple[Any, ...]]:
    """Clicks by minute and by these columns."""
    return Counter((minute(c), *(c[column] for column in columns)) for c in sequence)


def written(stack: Stack, incident: ClicksIncident) -> Counter[tuple[Any, ...]]:
    """Rows of the table: how often (minute, page, country or None, clicks) is there."""
    return Counter(
        (r["start"].astimezone(UTC), r["page"], r.get("country"), r["clicks"]) for r in rows(stack, incident)
    )


def closed(sequence: list[Click], mark: datetime, *columns: str) -> Counter[tuple[Any, ...]]:
    """The rows that Spark writes for the minutes that end up to `mark`."""
    found = counted(sequence, *columns)
    pad = (None,) * (2 - len(columns))
    return Counter((*key, *pad, n) for key, n in found.items() if key[0] + MINUTE <= mark)


def test_a_full_refresh_counts_every_minute_anew(stack: Stack) -> None:
    incident = stack.clicks("recount")

    accepted = ("--accept-loss", "--accept-repeats")
    answer = recover(stack, incident, "--strategy", "full-refresh", "--key", "start,page,country", *accepted)

    every = incident.arrivals.all()
    assert written(stack, incident) == closed(every, watermark(every), "page", "country")
    assert answer["measured"]["table_rows"] == sum(written(stack, incident).values())


def test_a_rewind_counts_the_open_minutes_anew_and_leaves_the_closed_ones_as_they_are(
    stack: Stack,
) -> None:
    """Minutes that were written stay as the old code counted them; all later ones are whole, by the new code.

    Clicks of the minutes that were written come late, and are no loss: that is proven, so the forecast is exact.
    """
    incident = stack.clicks("rewound")
    read, every = incident.arrivals.processed(), incident.arrivals.all()
    before = closed(read, watermark(read), "page")
    assert written(stack, incident) == before
    code, told = ask(stack, "diagnose", incident.name, "--flow", incident.flow)
    assert code == 1, "a flow that has failed is bad news"
    assert "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE" in json.dumps(told)

    back = ("--position", "0=earliest", "--accept-repeats")
    answer = recover(stack, incident, "--strategy", "rewind", "--key", "start,page,country", *back)

    later = closed(every, watermark(every), "page", "country") - closed(
        every, watermark(read), "page", "country"
    )
    assert written(stack, incident) == before + later
    for amount in (answer["forecast"]["lost"], answer["forecast"]["doubled"]):
        assert (amount["rows"], amount["exact"]) == (0, True), amount
    assert "COUNTS_EQUAL_FORECAST" in {c["code"] for c in answer["verification"]}
    forecast_came_true(answer)


# -- the broker as a child -------------------------------------------------------------------------------------


def test_the_demo_says_where_its_broker_is(stack: Stack) -> None:
    says = stack.demo

    assert processes.is_alive(says["pids"]["kafka"])
    assert kafka.is_serving(int(says["kafka"].rpartition(":")[2]))
    assert [line for line in stack.log().splitlines() if "Kafka ready" in line]


@pytest.mark.alone
def test_a_broker_that_is_killed_is_started_again_at_its_port_with_its_records(stack: Stack) -> None:
    servers = stack.demo["kafka"]
    make_topic(servers, "kept")
    write_clicks(servers, "kept", list_clicks().waiting)
    before = stack.demo["pids"]["kafka"]

    os.kill(before, signal.SIGKILL)

    wait_for(lambda: stack.demo["pids"]["kafka"] != before, "the broker started again")
    wait_for(lambda: "Kafka ready again" in stack.log(), "the broker ready again", 90)
    assert stack.demo["kafka"] == servers
    write_clicks(
        servers, "kept", list_clicks().waiting
    )  # waits for the leaders; what is there is not written again
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "tests", "log_level": 0})
    ends = [consumer.get_watermark_offsets(TopicPartition("kept", n), 30)[1] for n in range(PARTITIONS)]
    consumer.close()
    assert sum(ends) == WAITING
