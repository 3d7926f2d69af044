"""Unread input on the flow page, in the inventory, on the command line and among the metrics."""

import json
import re
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from recovery.models import Flow
from recovery.people import actions
from recovery.people.roles import SYSTEM
from recovery.pipelines import retention
from recovery.workflow.waiting import WaitingFiles
from tests import factories as f
from tests.pages import asked
from tests.unit.pages.reading import text

pytestmark = pytest.mark.django_db

GONE = {
    "readable": False, "until": None, "why": "2 data files were deleted, as VACUUM does.",
    "lost": {"rows": {"value": 4, "exact": True, "why": ""}},
}  # fmt: skip


def words(client: Client, address: str) -> str:
    """What people read, without tags."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", text(client, address)))


@pytest.mark.parametrize(
    ("values", "waiting"),
    [
        ({}, "120 rows"),
        ({"problem": "The broker does not answer."}, "not known"),
        ({"seen_at": None, "unread": {}}, "not known"),
    ],
)
def test_what_waits_is_the_same_among_the_facts_and_in_the_panel(
    values: dict[str, Any], waiting: str, responder: Client
) -> None:
    flow = f.flow(state="stopped")
    f.source(flow, **values)
    assert re.search(rf"Waiting\s*{waiting}", words(responder, f"/flows/{flow.pk}"))


def test_of_two_sources_of_which_one_was_not_counted_it_is_not_known_what_waits(responder: Client) -> None:
    flow = f.flow(state="stopped")
    f.source(flow)
    f.source(flow, 1, seen_at=None, unread={})
    assert re.search(r"Waiting\s*not known", words(responder, f"/flows/{flow.pk}"))


def no_file(**values: Any) -> Flow:
    """A flow of which a look two minutes ago saw no file that waits."""
    flow = f.flow(state="failed")
    f.source(flow, kind="files", unread={"files": {"value": 0, "exact": True, "why": ""}}, **values)
    return flow


def listed(files: int, *, filtered: bool = True) -> WaitingFiles:
    return WaitingFiles(timezone.now(), files=files, read=9, filtered=filtered)


@pytest.mark.parametrize(
    ("shown", "later"),
    [(listed(3), True), (listed(0), False), (listed(3, filtered=False), False)],
)
def test_what_was_listed_later_wins_over_the_look_that_saw_another_number(
    responder: Client, monkeypatch: pytest.MonkeyPatch, shown: WaitingFiles, *, later: bool
) -> None:
    flow = no_file()
    monkeypatch.setattr(
        "console.pages.flow.read_waiting_files", lambda flow: replace(shown, at=timezone.now())
    )
    page = asked(responder, f"/flows/{flow.pk}")
    assert ("counted-later" in page.codes) is later
    assert ("nothing" in page.row("orders").cell("Waits")) is not later
    asks_again = re.search(
        r'hx-get="([^"]*part=unread[^"]*)"', responder.get(f"/flows/{flow.pk}").content.decode()
    )
    assert asks_again
    address = re.sub("v=[^&]*", "v=", asks_again[1].replace("&amp;", "&"))
    assert ("counted-later" in responder.get(address).content.decode()) is later


def test_a_look_after_the_listing_wins_over_it(responder: Client) -> None:
    flow = no_file()
    before = (timezone.now() - timedelta(minutes=3)).isoformat()
    part = responder.get(f"/flows/{flow.pk}", {"part": "unread", "listed": before}).content.decode()
    assert "nothing" in part
    assert responder.get(f"/flows/{flow.pk}", {"part": "unread", "listed": "2026-13-45"}).status_code == 200


IN_FIVE_HOURS = re.compile(r"\d\d:\d\d(:\d\d)? UTC, in 5 h 1\d min")


def test_the_flow_page_says_position_what_waits_and_until_when(responder: Client) -> None:
    flow = f.flow(state="stopped")
    f.source(flow)

    page = asked(responder, f"/flows/{flow.pk}")
    row = page.row("orders")

    assert re.findall(r"(\d) at (\d+)", row.cell("Position")) == [("0", "2310"), ("1", "77")]
    assert row.cell("Waits").startswith("120 rows")
    assert IN_FIVE_HOURS.search(row.cell("Readable until"))
    assert page.value("unread") == "soon"
    assert "orders at broker-1.corp.example:9092" in page.one("input-at-risk").text


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (GONE, "Not readable"),
        (GONE, "4 rows gone"),
        (GONE, "can no longer be read: 4 rows."),
        ({"until": f.ago(hours=2)}, "Retention may take unread input of orders"),
        ({"until": None, "unread": {"rows": {"value": 0, "exact": True, "why": ""}}}, "nothing"),
        (
            {"unread": {"rows": {"value": 9, "exact": False, "why": "at most: markers take offsets"}}},
            "at most 9 rows",
        ),
        ({"unread": {"rows": {"value": 9, "exact": False, "why": "by size"}}}, "about 9 rows"),
        (
            {"problem": "Kafka does not answer."},
            "not known since, because: Kafka does not answer.",
        ),
        (
            {"seen_at": None, "readable": None, "until": None, "why": "", "problem": "It is away."},
            "Because: It is away.",
        ),
        (
            {"asked_at": None, "seen_at": None, "readable": None, "until": None, "why": ""},
            "It was not read yet.",
        ),
    ],
)
def test_what_is_gone_estimated_or_not_known_is_said_as_that(
    responder: Client, values: dict[str, Any], says: str
) -> None:
    flow = f.flow(state="stopped")
    f.source(flow, **values)

    assert says in words(responder, f"/flows/{flow.pk}")


def test_files_that_a_running_stream_passes_over_are_counted_without_an_alarm(responder: Client) -> None:
    flow = f.flow(state="running")
    f.source(flow, **GONE | {"kind": "files", "lost": {"files": {"value": 3, "exact": True, "why": ""}}})

    page = asked(responder, f"/flows/{flow.pk}")
    assert page.value("unread") == "passed"
    assert "3 files gone" in page.text
    assert "input-at-risk" not in page.codes
    assert "3 files passed over" in words(responder, "/?show=all")
    assert asked(responder, "/").one("nothing-needs-attention")


def test_without_a_studied_code_the_page_says_why_nobody_knows_and_a_view_has_no_such_panel(
    responder: Client,
) -> None:
    flow = f.flow()
    view = f.view(flow.pipeline)

    assert (
        asked(responder, f"/flows/{flow.pk}")
        .one("input-not-known")
        .text.endswith(retention.not_learned(flow))
    )
    assert "Unread input" not in words(responder, f"/flows/{view.pk}")


def test_the_panel_is_asked_for_alone_and_answers_nothing_when_nothing_is_new(responder: Client) -> None:
    flow = f.flow(state="stopped")
    f.source(flow)
    version = re.search(r"part=unread&amp;v=([0-9a-f]+)", text(responder, f"/flows/{flow.pk}"))
    assert version is not None

    same = responder.get(f"/flows/{flow.pk}?part=unread&v={version[1]}")
    f.source(flow, **GONE)
    other = responder.get(f"/flows/{flow.pk}?part=unread&v={version[1]}")

    assert same.status_code in (200, 204)  # 200 when the quarter minute ended in between
    assert other.status_code == 200
    assert b"<html" not in other.content
    assert b"4 rows gone" in other.content


def names(page: str) -> list[str]:
    return re.findall(r'class="name" href="[^"]*">([^<]*)<', page)


@pytest.fixture
def several() -> None:
    """Stopped flows: one that goes soon, one whose input is gone, one with days left, one that nobody studied."""
    owner = f.pipeline()
    f.source(f.flow(owner, "a_soon", state="stopped"))
    f.source(f.flow(owner, "b_gone", state="stopped"), **GONE)
    f.source(f.flow(owner, "c_days", state="stopped"), until=f.ago(days=-3))
    f.flow(owner, "d_unknown", state="stopped")


def test_input_at_risk_needs_attention_and_can_be_filtered_and_sorted_by(
    responder: Client, several: None
) -> None:
    assert names(text(responder, "/")) == ["a_soon", "b_gone"]
    assert "Flows2 need attention" in words(responder, "/recoveries")
    assert names(text(responder, "/?show=at-risk&sort=until")) == ["b_gone", "a_soon"]
    assert names(text(responder, "/?show=not-running&sort=until")) == [
        "b_gone", "a_soon", "c_days", "d_unknown",
    ]  # fmt: skip
    page = words(responder, "/")
    assert IN_FIVE_HOURS.search(page.partition("Not for long")[2][:60])
    assert re.search(r"Not readable\s*4 rows", page)


def test_the_inventory_costs_the_same_however_many_flows_and_sources_there_are(responder: Client) -> None:
    def cost() -> int:
        with CaptureQueriesContext(connection) as made:
            assert responder.get("/?show=all").status_code == 200
        return len(made)

    owner = f.pipeline()
    f.source(f.flow(owner, "first"))
    cost()  # the first page of a session costs more
    one = cost()
    for number in range(4):
        f.source(f.flow(owner, f"flow_{number}"), 2)

    assert cost() == one


def test_the_inventory_does_not_read_what_is_encrypted(responder: Client, several: None) -> None:
    with CaptureQueriesContext(connection) as made:
        responder.get("/?show=all")

    assert not [q["sql"] for q in made if '"reader"' in q["sql"]]


def flows(monkeypatch: pytest.MonkeyPatch, *options: str) -> str:
    owner = f.person("viewer", "reader")
    monkeypatch.setenv("REPRISE_TOKEN", actions.create_token(owner=owner, name="t", by=SYSTEM))
    out = StringIO()
    call_command("flows", *options, stdout=out)
    return out.getvalue()


def test_the_command_lists_it_for_people(monkeypatch: pytest.MonkeyPatch, several: None) -> None:
    found = flows(monkeypatch)

    assert "READABLE UNTIL" in found
    lines = {
        line.split()[2].rsplit(".", 1)[-1]: line for line in found.splitlines() if "spark_catalog" in line
    }
    assert IN_FIVE_HOURS.search(lines["a_soon"])
    assert lines["b_gone"].endswith("gone")
    assert lines["d_unknown"].endswith("not known")


def test_the_command_tells_it_to_programs(monkeypatch: pytest.MonkeyPatch, several: None) -> None:
    found = {
        one["flow"].rsplit(".", 1)[-1]: one["unread"]
        for one in json.loads(flows(monkeypatch, "--json"))["flows"]
    }

    assert (found["d_unknown"]["standing"], found["d_unknown"]["sources"]) == ("unknown", [])
    assert found["d_unknown"]["problem"] == retention.not_learned(Flow.objects.get(short="d_unknown"))
    assert (found["b_gone"]["standing"], found["b_gone"]["seconds_left"], found["b_gone"]["until"]) == (
        "gone",
        0,
        None,
    )
    assert found["a_soon"]["standing"] == "soon"
    assert 18_600 < found["a_soon"]["seconds_left"] <= 18_720
    (source,) = found["a_soon"]["sources"]
    assert (source["place"], source["unread"]["rows"]["value"]) == (
        "orders at broker-1.corp.example:9092",
        120,
    )
    assert "reader" not in source


@pytest.mark.parametrize(("minutes", "since"), [(0, "3"), (2, "")])
def test_input_that_was_read_before_the_newest_batch_is_marked(
    responder: Client, minutes: int, since: str
) -> None:
    flow = f.flow()
    f.source(flow, asked_at=f.ago(minutes=1))
    committed = {"timestamp": f.ago(minutes=minutes).isoformat()}
    Flow.objects.filter(pk=flow.pk).update(last_batch=3, last_progress=committed)

    marked = asked(responder, f"/flows/{flow.pk}").all(data_code="batch-since")
    assert [since in one.text for one in marked] == ([True] if since else [])


def gauges(client: Client, name: str) -> dict[str, float]:
    """A metric's values by the last part of the flow's name."""
    lines = client.get("/metrics").content.decode().splitlines()
    return {
        line.split('flow="', 1)[1].split('"')[0].rsplit(".", 1)[-1]: float(line.rsplit(" ", 1)[1])
        for line in lines
        if line.startswith(f"{name}{{")
    }


def test_the_metrics_say_what_is_left(client: Client, several: None) -> None:
    found = gauges(client, "reprise_flow_input_readable_until_seconds")

    assert gauges(client, "reprise_flow_input_unknown") == {"d_unknown": 1.0}
    assert set(found) == {"a_soon", "b_gone", "c_days"}
    assert found["b_gone"] == 0
    assert 18_600 < found["a_soon"] <= 18_720


def test_code_that_could_not_be_studied_is_said_and_is_no_promise(
    responder: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = f.flow(f.pipeline(), "changed", state="stopped")
    f.source(flow, until=None)
    why = "name 'spark_' is not defined."
    Flow.objects.filter(pk=flow.pk).update(code_seen_at=f.ago(minutes=7), code_problem=why)

    unknown = asked(responder, f"/flows/{flow.pk}").one("input-not-known")
    assert why in unknown.text
    assert unknown.one("of-the-code-before")
    page = words(responder, f"/flows/{flow.pk}")
    assert "7 min ago" in page.partition("Code studied")[2][:80]
    assert "not known" in words(responder, "/?show=all")
    assert "changed" in gauges(responder, "reprise_flow_input_unknown")
    assert flows(monkeypatch).splitlines()[1].rstrip().endswith("not known")


def test_what_is_at_risk_stays_so_though_the_code_could_not_be_studied(responder: Client) -> None:
    flow = f.flow(state="stopped")
    f.source(flow)
    Flow.objects.filter(pk=flow.pk).update(code_problem="It is away.")

    assert "Not for long" in words(responder, f"/flows/{flow.pk}")


def test_where_nothing_is_studied_in_the_background_the_page_waits_for_a_recovery(
    responder: Client, settings: Any
) -> None:
    settings.REPRISE_STUDY_SECONDS = 0

    flow = f.flow()

    assert (
        asked(responder, f"/flows/{flow.pk}")
        .one("input-not-known")
        .text.endswith(retention.not_learned(flow))
    )
