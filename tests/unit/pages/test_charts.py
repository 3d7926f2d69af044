"""Charts of batches: what is not known is drawn as nothing and said to be unknown, never as 0."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from console.presenters import charts
from console.presenters.flow import waiting_rows
from recovery.models import Flow, Recovery, Workspace
from recovery.pipelines.events import Batch, batches
from tests import factories as f
from tests import pipelines_api
from tests.pages import parse
from tests.pipelines_api import FLOW, serve
from tests.unit.pages.reading import text


def event(number: int, rows: Any = 3, *, second: int = 0, flow: str = FLOW, **more: Any) -> dict[str, Any]:
    body = {"id": "q", "batchId": number, "timestamp": f"2026-11-21T02:00:{second or number:02}.000Z",
            "numInputRows": rows, "durationMs": {"addBatch": 900, "triggerExecution": 1500},
            "sink": {"description": "FileSink", "numOutputRows": -1}, "stateOperators": [], "sources": [],
            **more}  # fmt: skip
    return {
        "id": f"b-{number}-{second}",
        "timestamp": body["timestamp"],
        "event_type": "stream_progress",
        "level": "METRICS",
        "message": f"batch {number}",
        "origin": {"flow_name": flow, "update_id": "u-3"},
        "details": {"stream_progress": {"progress_json": json.dumps(body)}},
    }


def batch(number: int, **values: Any) -> Batch:
    given = {"at": None, "rows_in": None, "rows_out": None, "seconds": None, "state_rows": None, **values}
    return Batch(number=number, **given)


def test_batches_come_oldest_first_and_once_each_without_those_of_other_flows() -> None:
    idle = event(2, 0, second=50, durationMs={"latestOffset": 3, "triggerExecution": 4})
    raw = [idle, event(2, 5), event(1), event(0), event(7, flow="spark_catalog.crm.other")]
    assert [(b.number, b.rows_in) for b in batches(raw, FLOW)] == [(0, 3), (1, 3), (2, 5)]


def test_a_new_query_counts_its_batches_anew() -> None:
    raw = [event(0), event(1), event(0, second=30, id="q2")]
    assert [b.number for b in batches(raw, FLOW)] == [0, 1, 0]


@pytest.mark.parametrize(
    ("more", "known"),
    [
        ({}, (3, None, 1.5, None)),  # a file sink says -1 rows: not known
        ({"sink": {"numOutputRows": 2}}, (3, 2, 1.5, None)),
        ({"stateOperators": [{"numRowsTotal": 4}, {"numRowsTotal": 5}]}, (3, None, 1.5, 9)),
        ({"stateOperators": [{"numRowsTotal": 4}, {}]}, (3, None, 1.5, None)),
        ({"durationMs": {}, "sink": None, "stateOperators": None}, (3, None, None, None)),
        ({"numInputRows": "3"}, (None, None, 1.5, None)),
    ],
)
def test_a_number_that_an_event_does_not_say_is_not_known(
    more: dict[str, Any], known: tuple[Any, ...]
) -> None:
    (found,) = batches([event(0, **more)], FLOW)
    assert (found.rows_in, found.rows_out, found.seconds, found.state_rows) == known


def test_what_no_batch_tells_has_no_chart_and_only_the_newest_batches_are_drawn() -> None:
    found = charts.of_batches([batch(n, rows_in=n, seconds=0.5) for n in range(9)])
    assert [c.name for c in found] == ["Rows read", "Batch duration"]
    assert [b.label for b in found[0].bars] == ["3", "4", "5", "6", "7", "8"]


def test_unknown_is_no_bar_zero_is_a_thin_one_and_waiting_rows_are_dashed() -> None:
    (found,) = charts.of_batches([batch(0, rows_in=4), batch(1, rows_in=0), batch(2)], 8)
    assert [(b.kind, b.value) for b in found.bars] == [
        ("bar", "4"),
        ("bar", "0"),
        ("none", "–"),
        ("wait", "8"),
    ]
    assert [b.height for b in found.bars[:2]] == [26.6, 2.0]
    assert re.findall(r"batch (\d): (\w+)", found.says) == [("0", "4"), ("1", "0"), ("2", "unknown")]
    assert "8 wait" in found.says
    assert all(0 <= b.x <= 200 - b.width for b in found.bars)


@pytest.mark.parametrize(
    ("value", "said"),
    [(9999, "9,999"), (12_345, "12 k"), (1_250_000, "1.2 M"), (3e9, "3.0 G"), (2.94, "2.9")],
)
def test_a_long_number_fits_under_its_bar_and_stands_in_full_in_the_words(value: float, said: str) -> None:
    assert charts.draw_chart("n", "u", [("0", value)]).bars[0].value == said


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Flow]:
    """The incident's flow, whose API tells of two batches."""
    monkeypatch.setattr(pipelines_api, "EVENTS", [event(1, 4), event(0, 5), *pipelines_api.EVENTS])
    token = tmp_path / "token"
    token.write_text("t")
    with serve() as api:
        flow = f.incident()
        Workspace.objects.update(url=api.url, token_ref=f"file:{token}")
        yield flow


@pytest.mark.django_db
def test_the_flow_page_draws_its_batches_and_what_waits_once_that_is_counted(
    responder: Client, seen: Flow
) -> None:
    page = responder.get(f"/flows/{seen.pk}").content.decode()
    assert [bar.text for bar in parse(page).all("figure")[0].all(class_="axis")[0].all("b")] == ["5", "4"]
    assert "ch-wait" not in page
    f.at_offset(seen)
    page = responder.get(f"/flows/{seen.pk}").content.decode()
    assert [bar.text for bar in parse(page).all("figure")[0].all(class_="axis")[0].all("b")] == [
        "5",
        "4",
        "8",
    ]
    assert parse(page).one("rows-wait")


@pytest.mark.django_db
def test_a_flow_page_without_its_workspace_says_what_is_not_known_and_why(responder: Client) -> None:
    page = responder.get(f"/flows/{f.incident().pk}").content.decode()
    assert "Not known: " in page
    assert "<dt>Waiting</dt><dd>not known<small>" in "".join(line.strip() for line in page.splitlines())
    assert "ch-bar" not in page


@pytest.mark.django_db
def test_the_table_is_shown_with_the_newest_count_and_who_made_it(responder: Client) -> None:
    proven = f.verified()
    page = responder.get(f"/flows/{proven.flow_id}").content.decode()
    assert "20 rows<small>" in page
    assert f"by {proven.label}" in page


@pytest.mark.django_db
def test_the_inventory_says_what_waited_when_it_was_counted_and_nothing_before(responder: Client) -> None:
    recovery = f.opened()
    assert "waited at" not in text(responder, "/")
    type(recovery).objects.filter(pk=recovery.pk).update(facts=f.facts())
    assert "8 rows waited at " in text(responder, "/")
    facts = f.facts(waiting_rows=2)
    facts["options"][0]["positions"] = [{**f.position(), "kind": "kafka", "next": {"rows": 90}}]
    type(recovery).objects.filter(pk=recovery.pk).update(facts=facts)
    assert "90 rows waited at " in text(responder, "/")


def counted(**values: Any) -> Recovery:
    """An open recovery that counted three minutes ago: 12 rows in the table, 8 that wait."""
    recovery = f.opened()
    type(recovery).objects.filter(pk=recovery.pk).update(facts=f.facts(), **values)
    return recovery


def facts_of(client: Client, recovery: Recovery) -> Mapping[str, tuple[str, str, str]]:
    """Value, small print and code of the facts of a flow's page, by name."""
    return {
        fact.name: (fact.value, fact.small, fact.code)
        for fact in client.get(f"/flows/{recovery.flow_id}").context["facts"]
    }


@pytest.mark.django_db
def test_what_waits_is_what_the_open_recovery_counted_while_nothing_ran_since(responder: Client) -> None:
    facts = facts_of(responder, counted())
    assert (facts["Waiting"][0], facts["Files"][0], facts["Table"][0]) == (
        "8 rows",
        "4 read, 3 not",
        "12 rows",
    )


@pytest.mark.django_db
def test_once_the_rerun_began_nothing_is_said_to_wait_and_the_table_was_counted_before_it(
    responder: Client,
) -> None:
    recovery = counted()
    f.step(recovery, "rerun", "running")
    facts = facts_of(responder, recovery)
    assert facts["Waiting"][0] == "not known"
    assert "Files" not in facts
    assert (facts["Table"][0], facts["Table"][2]) == ("12 rows", "counted-before-rerun")


@pytest.mark.django_db
def test_a_batch_that_was_committed_later_makes_the_counts_old_too(responder: Client) -> None:
    recovery = counted()
    late = {"batchId": 3, "timestamp": f.ago(minutes=1).isoformat()}
    Flow.objects.filter(pk=recovery.flow_id).update(last_progress=late, last_batch=3)
    facts = facts_of(responder, recovery)
    assert (facts["Waiting"][0], "Files" in facts) == ("not known", False)
    assert facts["Table"][2] == "counted-before-batch"


@pytest.mark.django_db
def test_a_proof_that_measured_later_says_how_many_rows_the_table_has(responder: Client) -> None:
    recovery = counted(measured=f.measured(verified=False))
    f.step(recovery, "rerun", "done")
    table = facts_of(responder, recovery)["Table"]
    assert table[0] == "18 rows"
    assert table[1].endswith(f"by {recovery.label}")


@pytest.mark.django_db
@pytest.mark.parametrize(("begun", "waiting"), [(False, 8), (True, None)])
def test_no_bar_of_waiting_rows_is_drawn_once_a_rerun_began(*, begun: bool, waiting: int | None) -> None:
    recovery = counted()
    if begun:
        f.step(recovery, "rerun", "running")
    recovery.refresh_from_db()
    assert waiting_rows(recovery) == waiting


@pytest.mark.django_db
def test_diagnose_says_that_rows_wait_until_a_rerun_began(responder: Client) -> None:
    recovery = counted()
    assert "8 rows" in text(responder, f"/recoveries/{recovery.pk}/diagnose")
    f.step(recovery, "rerun", "running")
    assert "8 rows" not in text(responder, f"/recoveries/{recovery.pk}/diagnose")
