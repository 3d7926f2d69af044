"""`flows` and `diagnose` as a person types them, against an API over real HTTP."""

import re
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.utils import timezone

from console.presenters.flow import header_badge, list_facts
from recovery.contracts import codec
from recovery.contracts.diagnosis import Advice, Diagnosis
from recovery.contracts.measured import Measured
from recovery.contracts.names import ChangeIntent
from recovery.management.commands import diagnose
from recovery.management.commands._base import plain
from recovery.models import Flow, Pipeline, Recovery, Workspace
from recovery.people.roles import Role
from recovery.workflow.waiting import WaitingFiles
from tests import factories as f
from tests.unit.people.run import run, run_json, token_of
from tests.unit.pipelines.api import Api
from tests.unit.pipelines.stub import Stub, serving

pytestmark = pytest.mark.django_db
ORDERS, VIEW = "main.shop.orders_flow", "main.shop.orders"


@pytest.fixture
def api() -> Api:
    api = Api()
    shop = api.add("p1", "shop")
    shop.run("u1", {ORDERS: "COMPLETED", VIEW: "COMPLETED"})
    shop.run("u2", {ORDERS: "FAILED", VIEW: "SKIPPED"}, "FAILED")
    return api


@pytest.fixture(autouse=True)
def stub(api: Api, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    """The one workspace."""
    monkeypatch.setenv("INVENTORY_TOKEN", "rp_x")
    with serving(api) as stub:
        Workspace.objects.create(
            name="here", url=stub.url, token_ref="env:INVENTORY_TOKEN", environment="staging"
        )
        yield stub


@pytest.fixture
def token() -> str:
    return token_of("ada", Role.VIEWER)


def test_flows_lists_what_a_workspace_has_that_was_never_polled(
    monkeypatch: pytest.MonkeyPatch, token: str, api: Api
) -> None:
    code, found = run_json(monkeypatch, token, "flows")
    assert code == 0
    assert [(f["flow"], f["state"], f["history"]) for f in found["flows"]] == [
        (VIEW, "ok", ["ok", "none"]),
        (ORDERS, "failed", ["ok", "failed"]),
    ]
    assert found["flows"][1]["pipeline"] == {"id": "p1", "name": "shop", "state": "IDLE"}
    assert found["workspaces"][0]["problem"] is None
    assert [f["flow"] for f in run_json(monkeypatch, token, "flows", "--failing")[1]["flows"]] == [ORDERS]


def test_flows_lists_among_what_fails_a_view_that_is_empty_or_stale(
    monkeypatch: pytest.MonkeyPatch, token: str, api: Api
) -> None:
    run(monkeypatch, token, "flows")
    since = timezone.now()
    late = {"behind_since": since, "behind_why": "emptied", "behind_update": "u2"}
    Flow.objects.filter(name=VIEW).update(state="empty", **late)

    _, found = run_json(monkeypatch, token, "flows", "--failing")

    assert [(x["flow"], x["state"]) for x in found["flows"]] == [(VIEW, "empty"), (ORDERS, "failed")]
    assert found["flows"][0]["since"] == since.isoformat()
    assert found["flows"][0]["behind"] == {"why": "emptied", "update": "u2"}
    assert found["flows"][1]["since"] == found["flows"][1]["failing_since"]


def test_flows_shows_what_contradicts_a_flow_that_is_ok(
    monkeypatch: pytest.MonkeyPatch, token: str, api: Api
) -> None:
    run(monkeypatch, token, "flows")
    Flow.objects.filter(name=ORDERS).update(state="ok")
    f.into(f.opened(Flow.objects.get(name=ORDERS)), "unproven")

    _, listed = run_json(monkeypatch, token, "flows")
    assert [(x["flow"], x["state"], x["doubt"] and x["doubt"]["code"]) for x in listed["flows"]] == [
        (VIEW, "ok", None),
        (ORDERS, "ok", "not-proven"),
    ]
    assert "ok, not proven" in run(monkeypatch, token, "flows")[1]


@pytest.mark.parametrize(
    ("state", "measured", "listed"),
    [
        ("unproven", {}, ["not-proven"]),
        ("succeeded", codec.to_json(f.proof(doubled=5, doubled_before=5)), ["table-differs"]),
        ("succeeded", codec.to_json(f.proof(doubled=6, doubled_accepted={"rows": 6, "bound": "exact"})), []),
    ],
    ids=["not proven", "differs", "as accepted"],
)
def test_failing_lists_a_flow_whose_table_nobody_vouches_for_and_names_what_was_accepted(
    monkeypatch: pytest.MonkeyPatch, token: str, api: Api, state: str, measured: object, listed: list[str]
) -> None:
    run(monkeypatch, token, "flows")
    Pipeline.objects.update(judged="ok", failure={})
    Flow.objects.update(state="ok")
    recovery = f.into(f.opened(Flow.objects.get(name=ORDERS)), state, measured=measured)

    _, found = run_json(monkeypatch, token, "flows", "--failing")
    assert [(x["state"], x["doubt"]["code"]) for x in found["flows"]] == [("ok", code) for code in listed]
    out = run(monkeypatch, token, "flows", "--failing")[1]
    (line,) = [line for line in out.splitlines() if line.startswith("Flow ")]
    assert (ORDERS in line, recovery.label in line) == (True, True)
    assert "was seen" not in out


@pytest.mark.parametrize("judged", ["unknown", ""])
def test_an_unknown_pipeline_is_named_in_words_beside_flows_that_are_ok(
    monkeypatch: pytest.MonkeyPatch, token: str, api: Api, judged: str
) -> None:
    run(monkeypatch, token, "flows")
    Flow.objects.update(state="ok")
    Pipeline.objects.update(judged=judged, failure={})

    out = run(monkeypatch, token, "flows")[1]

    (line,) = [line for line in out.splitlines() if line.startswith("Pipeline ")]
    assert name_and_state(line) == ("shop", "unknown")


def name_and_state(line: str) -> tuple[str, str]:
    """Of a line about a whole pipeline: `Pipeline shop (staging) is ok: …`."""
    words = line.split()
    return words[1], words[4].rstrip(":")


@pytest.mark.parametrize(
    ("judged", "failure"),
    [("unknown", {}), ("", {}), ("running", {"update_id": "u2", "phase": "before"})],
    ids=["not known", "never judged", "runs after a failure"],
)
def test_failing_names_in_words_every_pipeline_that_its_json_lists(
    monkeypatch: pytest.MonkeyPatch, token: str, api: Api, judged: str, failure: dict[str, str]
) -> None:
    run(monkeypatch, token, "flows")
    Flow.objects.update(state="ok")
    Pipeline.objects.update(judged=judged, failure=failure)

    _, found = run_json(monkeypatch, token, "flows", "--failing")
    first = run(monkeypatch, token, "flows", "--failing")[1].splitlines()[0]

    assert ([f["flow"] for f in found["flows"]], [p["name"] for p in found["pipelines"]]) == ([], ["shop"])
    assert name_and_state(first) == ("shop", judged or "unknown")


def test_a_pipeline_without_flows_is_in_the_list_that_people_read(
    monkeypatch: pytest.MonkeyPatch, token: str, api: Api
) -> None:
    run(monkeypatch, token, "flows")
    Flow.objects.all().delete()
    Pipeline.objects.update(judged="ok", failure={})
    assert name_and_state(run(monkeypatch, token, "flows")[1]) == ("shop", "ok")


def test_flows_answers_from_the_last_poll_with_its_age_and_fresh_asks(
    monkeypatch: pytest.MonkeyPatch, token: str, api: Api
) -> None:
    run(monkeypatch, token, "flows")
    api.pipelines["p1"].run("u3", {ORDERS: "COMPLETED", VIEW: "COMPLETED"})
    Workspace.objects.update(polled_at=timezone.now() - timedelta(seconds=90))

    _, found = run_json(monkeypatch, token, "flows")

    assert [f["state"] for f in found["flows"]] == ["ok", "failed"]
    assert 90 <= found["workspaces"][0]["age_seconds"] < 100
    assert run(monkeypatch, token, "flows")[1].splitlines()[-1].startswith("As of 1 min 3")
    _, found = run_json(monkeypatch, token, "flows", "--fresh")
    assert [f["state"] for f in found["flows"]] == ["ok", "ok"]
    assert found["workspaces"][0]["age_seconds"] < 10


def test_flows_asks_no_workspace_that_was_polled(
    monkeypatch: pytest.MonkeyPatch, token: str, api: Api, stub: Stub
) -> None:
    run(monkeypatch, token, "flows")
    stub.asked.clear()
    run(monkeypatch, token, "flows")
    assert stub.asked == []
    run(monkeypatch, token, "flows", "--fresh")
    assert "GET /api/2.0/pipelines" in stub.paths()


def test_a_poll_of_one_pipeline_makes_the_list_no_younger(
    monkeypatch: pytest.MonkeyPatch, token: str, api: Api
) -> None:
    run(monkeypatch, token, "flows")
    Workspace.objects.update(polled_at=timezone.now() - timedelta(seconds=90))
    run(monkeypatch, token, "diagnose", "shop")
    assert run_json(monkeypatch, token, "flows")[1]["workspaces"][0]["age_seconds"] >= 90


def test_flows_of_several_workspaces_says_the_age_of_each(
    monkeypatch: pytest.MonkeyPatch, token: str, api: Api
) -> None:
    Workspace.objects.create(name="there", url="http://127.0.0.1:1", token_ref="env:INVENTORY_TOKEN")
    code, out, _ = run(monkeypatch, token, "flows")
    assert code == 2
    assert next(line for line in out.splitlines() if "not be asked" in line).split()[1] == "there"
    age = out.splitlines()[-1]
    assert ("here 0 s ago" in age, "there never polled" in age) == (True, True)


def test_flows_is_calm_to_read_and_says_what_to_type_next(
    monkeypatch: pytest.MonkeyPatch, token: str, api: Api
) -> None:
    _, out, err = run(monkeypatch, token, "flows")
    lines = out.splitlines()
    head = "PIPELINE ENVIRONMENT FLOW STATE SINCE LAST RUNS READABLE UNTIL WHY"
    assert lines[0].split() == head.split()
    assert lines[0].index("STATE") == lines[1].index("ok ") == lines[2].index("failed")
    assert lines[-3].endswith(f"diagnose p1 --flow {ORDERS}")
    assert re.search(r" \d s ago\.", lines[-1])
    assert "--fresh" in lines[-1]
    assert err == ""


def test_flows_of_a_workspace_that_is_away_are_the_last_seen_ones(
    monkeypatch: pytest.MonkeyPatch, token: str, api: Api
) -> None:
    run(monkeypatch, token, "flows")
    Workspace.objects.update(url="http://127.0.0.1:1")
    assert run(monkeypatch, token, "flows", "--fresh")[0] == 2
    code, out, _ = run(monkeypatch, token, "flows")
    assert code == 2
    assert ORDERS in out
    away = next(line for line in out.splitlines() if "could not be asked" in line)
    assert (away.split()[1], "last seen" in away) == ("here", True)
    Workspace.objects.all().delete()
    assert "No workspace" in run(monkeypatch, token, "flows")[1]


def test_diagnose_is_bad_news_for_a_failing_flow(
    monkeypatch: pytest.MonkeyPatch, token: str, api: Api
) -> None:
    code, found = run_json(monkeypatch, token, "diagnose", "shop")
    assert code == 1
    assert (found["flow"], found["state"], found["environment"]) == (ORDERS, "failed", "staging")
    assert "dropDuplicates" in found["diagnosis"]["title"]
    assert found["doubt"] is None
    code, out, _ = run(monkeypatch, token, "diagnose", "p1", "--flow", "orders_flow")
    assert code == 1
    assert (
        out.index("Damaged    nothing")
        < out.index("\nDo\n")
        < out.index("\nDo not\n")
        < out.index("\nSpark says\n")
    )
    assert "bin/manage plan" not in out, "its workspace manages the checkpoint"
    assert "reset_checkpoint_selection" in out


def test_diagnose_names_the_command_of_each_answer_to_whether_the_change_was_meant(
    monkeypatch: pytest.MonkeyPatch, token: str, api: Api
) -> None:
    api.pipelines["p1"].spec["storage"] = "file:///nowhere/storage"
    _, out, _ = run(monkeypatch, token, "diagnose", "p1", "--flow", "orders_flow")
    plan = f"bin/manage plan p1 --flow {ORDERS} --strategy"
    assert (f"{plan} continue --meant yes" in out, f"{plan} revert --meant no" in out) == (True, True)


@pytest.mark.parametrize(
    ("state", "word"), [("failed", "Failing"), ("running", "State"), ("unknown", "State")]
)
def test_diagnose_calls_failing_what_the_page_of_the_flow_does(state: str, word: str) -> None:
    flow = f.failed_flow(state=state)
    said = diagnose.text(flow, Diagnosis()).splitlines()
    (line,) = [line for line in said if line.startswith(("Failing", "State"))]
    moment, badge = f"{flow.failing_since:%H:%M:%S}", header_badge(flow, timezone.now())
    assert line.split()[0] == word
    assert (moment in line) == (moment in badge.word) == (state == "failed")


def test_a_flow_that_fails_since_a_time_that_no_one_knows_is_not_called_well() -> None:
    flow, now = f.failed_flow(failing_since=None), timezone.now()
    (fact,) = [
        fact
        for fact in list_facts(flow, None, None, WaitingFiles(at=now), now)
        if fact.name == "Failing since"
    ]
    assert fact.value == "not known"


NONE = "all"  # no advice is a strategy, so the command that compares every one is named
YES, NO, UNKNOWN = ChangeIntent.YES, ChangeIntent.NO, ChangeIntent.UNKNOWN


@pytest.mark.parametrize(
    ("advice", "lines"),
    [
        ([Advice("Start the broker.")], [NONE]),
        ([Advice("Start the broker."), Advice("Drop the state.", "continue")], ["continue"]),
        ([Advice("Keep it.", "continue", YES), Advice("Back.", "revert", NO)], ["continue", "revert"]),
        ([Advice("Rename it back.", right_if=YES), Advice("Back.", "revert", NO)], ["revert"]),
        ([Advice("Rename it back.", right_if=YES), Advice("Ask its owner.", right_if=NO)], [NONE]),
        ([Advice("As it was stored before.", right_if=UNKNOWN)], [NONE]),
        ([], [NONE]),
    ],
)
def test_diagnose_says_what_is_next_or_that_no_strategy_is(advice: list[Advice], lines: list[str]) -> None:
    said = diagnose.next_lines(f.failed_flow(), Diagnosis(advice=tuple(advice)))
    named = [line for line in said if "--strategy" in line]
    assert [line.split("--strategy ")[1].split()[0] for line in named] == lines


def test_diagnose_is_good_news_for_a_healthy_flow(
    monkeypatch: pytest.MonkeyPatch, token: str, api: Api
) -> None:
    code, found = run_json(monkeypatch, token, "diagnose", "shop", "--flow", VIEW)
    assert (code, found["diagnosis"]) == (0, None)
    assert "is not failing" in run(monkeypatch, token, "diagnose", "shop", "--flow", VIEW)[1]


@pytest.mark.parametrize(
    ("proof", "answer"),
    [
        (f.proof(doubled=5, doubled_before=5), (1, "table-differs")),
        (f.proof(doubled=6, doubled_accepted={"rows": 6, "bound": "exact"}), (0, "as-accepted")),
        (f.proof(), (0, None)),
    ],
    ids=["differs", "as accepted", "proven"],
)
def test_diagnose_of_a_flow_that_is_ok_names_what_contradicts_it(
    monkeypatch: pytest.MonkeyPatch, token: str, api: Api, proof: Measured, answer: tuple[int, str | None]
) -> None:
    run(monkeypatch, token, "flows")
    Pipeline.objects.update(judged="ok", failure={})
    Flow.objects.update(state="ok", error=[])
    f.into(f.opened(Flow.objects.get(name=ORDERS)), "succeeded", measured=codec.to_json(proof))

    code, found = run_json(monkeypatch, token, "diagnose", "shop", "--flow", ORDERS)
    assert (code, found["doubt"] and found["doubt"]["code"]) == answer
    said = run(monkeypatch, token, "diagnose", "shop", "--flow", ORDERS)[1]
    assert (found["doubt"] is not None) == ("But: " in said)


@pytest.mark.parametrize(
    ("state", "active", "is_named"),
    [
        ("awaiting_approval", True, True),
        ("unproven", False, True),
        ("succeeded", False, False),
        ("cancelled", False, False),
    ],
)
@pytest.mark.parametrize("name", [VIEW, ORDERS])
def test_diagnose_names_the_recovery_that_is_open_or_ended_without_proof(
    name: str, state: str, active: bool, is_named: bool, monkeypatch: pytest.MonkeyPatch, token: str, api: Api
) -> None:
    run_json(monkeypatch, token, "flows", "--fresh")
    recovery = Recovery.objects.create(
        flow=Flow.objects.get(name=name), state=state, active=active, created_by="ada"
    )
    _, found = run_json(monkeypatch, token, "diagnose", "shop", "--flow", name)
    assert found["recovery"] == ({"recovery": recovery.label, "state": state} if is_named else None)
    assert (recovery.label in run(monkeypatch, token, "diagnose", "shop", "--flow", name)[1]) == is_named


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(("nothing",), "There is no pipeline 'nothing'."), (("shop", "--flow", "zzz"), "has no flow 'zzz'")],
)
def test_diagnose_of_what_is_not_there_is_exit_2(
    monkeypatch: pytest.MonkeyPatch, token: str, api: Api, arguments: tuple[str, ...], says: str
) -> None:
    code, found = run_json(monkeypatch, token, "diagnose", *arguments)
    assert (code, found["error"]["code"]) == (2, "not_found")
    assert says in found["error"]["says"]


@pytest.mark.parametrize(
    ("text", "said"), [("Put `a` or `b` back.", "Put a or b back."), ("one ` alone", "one ` alone")]
)
def test_code_in_a_sentence_is_plain_on_a_terminal(text: str, said: str) -> None:
    assert plain(text) == said
