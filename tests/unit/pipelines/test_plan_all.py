"""`plan --strategy all` as a person types it: the whole table, and nothing is opened, chosen or sealed."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from django.utils import timezone

from recovery.errors import Unreachable
from recovery.management.commands import _ways
from recovery.models import (
    AuditEntry,
    EnvironmentRule,
    Flow,
    Person,
    Plan,
    Recovery,
    RoleIn,
    Stream,
    Workspace,
)
from recovery.people.roles import Role
from recovery.strategies.base import Facts
from recovery.strategies.catalogue import JUDGES
from recovery.workflow import diagnosing, ways
from tests import factories
from tests.unit.people.run import run, run_json, token_of
from tests.unit.pipelines.api import Api
from tests.unit.pipelines.stub import serving
from tests.unit.strategies.facts import facts

pytestmark = pytest.mark.django_db
ORDERS = "main.shop.orders_flow"


@pytest.fixture
def gathered() -> list[Mapping[str, Any]]:
    """With what the facts were gathered."""
    return []


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch, gathered: list[Mapping[str, Any]]) -> Iterator[None]:
    """A workspace with one failed flow, whose facts are those of the customers incident."""
    api = Api()
    shop = api.add("p1", "shop", storage="file:///nowhere/storage")
    shop.run("u1", {ORDERS: "COMPLETED"})
    shop.run("u2", {ORDERS: "FAILED"}, "FAILED")

    def gather(flow: Flow, **asked: Any) -> tuple[None, Facts]:
        gathered.append(asked)
        return None, facts(usual_update_seconds=7.0)

    monkeypatch.setenv("INVENTORY_TOKEN", "rp_x")
    monkeypatch.setattr(ways, "gather", gather)
    monkeypatch.setattr(diagnosing, "diagnose_flow", lambda flow: factories.DIAGNOSIS)
    with serving(api) as stub:
        Workspace.objects.create(
            name="here", url=stub.url, token_ref="env:INVENTORY_TOKEN", environment="development"
        )
        yield


@pytest.fixture
def token() -> str:
    return token_of("ada", Role.RESPONDER)


def test_every_strategy_is_one_option_and_nothing_is_opened_or_sealed(
    monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    code, told = run_json(monkeypatch, token, "plan", "shop", "--flow", "orders_flow", "--strategy", "all")

    assert code == 0, told
    assert (told["pipeline"], told["flow"], told["recovery"]) == ("shop", ORDERS, None)
    assert [one["strategy"] for one in told["options"]] == list(JUDGES)
    by_name = {one["strategy"]: one for one in told["options"]}
    assert by_name["continue"]["blocked"] is None
    assert by_name["continue"]["forecast"]["lost"]["rows"] == 0
    assert by_name["continue"]["effort"]["people"]["value"] == 1
    assert by_name["continue"]["undo"] | {"says": ""} == {"possible": True, "until_batch": 3, "says": ""}
    assert by_name["empty"]["blocked"]["code"] == "reset_loses"
    assert by_name["full-refresh"]["effort"]["table"] == "emptied"
    assert (Recovery.objects.count(), Plan.objects.count()) == (0, 0)
    kept = AuditEntry.objects.filter(action__startswith="recovery").values_list("action", "outcome")
    assert list(kept) == [("recovery.look", "done")]


def rule(**values: Any) -> None:
    """The rule of development, as an admin has changed it."""
    now = timezone.now()
    EnvironmentRule.objects.create(
        environment="development", expiry_hours=24, changed_by="root", changed_at=now, **values
    )


def changes(told: Mapping[str, Any]) -> dict[str, str | None]:
    return {one["condition"]: one["then"] for one in told["would_change"]}


@pytest.mark.parametrize(
    ("given", "recommended", "rule", "expected", "advised"),
    [
        ((), None, None, {"meant": "continue", "mistake": "revert", "not-sure": "call-the-owner"}, True),
        (("--meant", "yes"), "continue", 4,
         {"mistake": "revert", "not-sure": "call-the-owner", "unread-input-gone": None,
          "old-rows-follow": "full-refresh"}, False),
        (("--meant", "no"), "revert", 5,
         {"meant": "continue", "not-sure": "call-the-owner", "unread-input-gone": None}, False),
        (("--meant", "unknown"), None, None, {"meant": "continue", "mistake": "revert"}, True),
    ],
)  # fmt: skip
def test_the_recommendation_and_what_would_change_it_follow_the_answer(
    monkeypatch: pytest.MonkeyPatch,
    token: str,
    given: tuple[str, ...],
    recommended: str | None,
    rule: int | None,
    expected: dict[str, str | None],
    advised: bool,
) -> None:
    _, told = run_json(monkeypatch, token, "plan", "shop", "--strategy", "all", *given)
    assert (told["recommended"], told["rule"], bool(told["because"])) == (recommended, rule, True)
    assert changes(told) == expected
    assert all(one["if"] and one["because"] for one in told["would_change"])
    assert [(one["answer"], one["advised"]) for one in told["answers"]] == [
        ("do-nothing-yet", False),
        ("call-the-owner", advised),
    ]


def test_an_open_recovery_gives_its_answer_key_and_code_and_stays_as_it_is(
    monkeypatch: pytest.MonkeyPatch, token: str, gathered: list[Mapping[str, Any]]
) -> None:
    run(monkeypatch, token, "flows", "--fresh")
    of = factories.opened(Flow.objects.get(name=ORDERS))
    held = {"meant": "yes", "strategy": "rewind", "key": ["id"], "patch": {"/p/a.py": "x = 1"}}
    Recovery.objects.filter(pk=of.pk).update(choices=held)

    code, told = run_json(monkeypatch, token, "plan", of.label, "--strategy", "all")

    assert (code, told["recovery"], told["meant"], told["recommended"]) == (0, of.label, "yes", "continue")
    assert (gathered[0]["key"], gathered[0]["patch"], gathered[0]["strategy"]) == (
        ("id",), {"/p/a.py": "x = 1"}, "rewind",
    )  # fmt: skip
    of.refresh_from_db()
    assert (of.choices, of.state) == (held, "diagnosing")

    run_json(monkeypatch, token, "plan", of.label, "--strategy", "all", "--keep-code", "--key", "a,b")
    assert (gathered[1]["key"], gathered[1]["patch"]) == (("a", "b"), {})


@pytest.mark.parametrize(
    ("votes", "requester", "people"),
    [(2, False, {"value": 3, "bound": "exact"}), (2, True, {"value": 2, "bound": "at least"})],
)
def test_people_are_who_plans_and_who_votes(
    monkeypatch: pytest.MonkeyPatch, token: str, votes: int, requester: bool, people: dict[str, Any]
) -> None:
    rule(votes=votes, requester_may_vote=requester)
    _, told = run_json(monkeypatch, token, "plan", "shop", "--strategy", "all")
    found = told["options"][0]["effort"]["people"]
    assert {name: found[name] for name in people} == people


def test_a_strategy_that_the_rules_forbid_is_blocked_and_never_recommended(
    monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    rule(votes=0, strategies=["revert"])
    _, told = run_json(monkeypatch, token, "plan", "shop", "--strategy", "all", "--meant", "yes")
    by_name = {one["strategy"]: one for one in told["options"]}
    assert by_name["continue"]["blocked"]["code"] == "strategy_not_allowed"
    assert (told["recommended"], by_name["revert"]["blocked"]) == (None, None)


def test_whom_to_ask_is_the_recorded_owner(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    run(monkeypatch, token, "flows", "--fresh")
    flow = Flow.objects.get(name=ORDERS)
    Stream.objects.create(
        pipeline=flow.pipeline, checkpoint="/ck", owner="Team shop-core", adopted_at=timezone.now()
    )
    _, told = run_json(monkeypatch, token, "plan", "shop", "--strategy", "all")
    assert "Team shop-core" in told["answers"][1]["says"]


def test_as_text_it_is_a_table_with_reasons_and_says_that_nothing_was_chosen(
    monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    code, out, _ = run(monkeypatch, token, "plan", "shop", "--strategy", "all", "--meant", "yes")
    assert code == 0
    row = next(line for line in out.splitlines() if line.startswith("continue "))
    assert row.split("  ")[0] == "continue"
    assert "about 8 rows, 300 bytes" in row
    assert re.findall(r"until batch (\d+)", row) == ["3"]
    blocked = next(line for line in out.splitlines() if line.strip().startswith("empty "))
    assert re.findall(r"\d+ rows", blocked)[:1] == ["8 rows"]
    assert "Recommended: continue (rule 4)" in out
    assert out.rstrip().splitlines()[-1] == _ways.NOTHING_DONE


def test_ways_that_no_plain_stream_has_are_one_line(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    monkeypatch.setattr(ways, "gather", lambda flow, **asked: (None, facts(is_plain=True)))
    given = ("plan", "shop", "--strategy", "all")
    _, told = run_json(monkeypatch, token, *given)
    _, out, _ = run(monkeypatch, token, *given)
    codes = {one["strategy"]: one["blocked"]["code"] for one in told["options"] if one["blocked"]}
    lacking = {name for name, code in codes.items() if code in _ways.NOT_FOR_PLAIN}
    assert lacking == {"rebuild", "replay", "top-up", "deduplicate", "full-refresh", "backfill", "empty"}
    folded = [line for line in out.splitlines() if all(f"{name} ({codes[name]})" in line for name in lacking)]
    assert len(folded) == 1
    assert out.count(" cannot run: ") == len(codes) - len(lacking)


@pytest.mark.parametrize("option", ["--again", "--positions", "--accept-loss", "--accept-repeats"])
def test_what_chooses_something_does_not_go_with_it(
    monkeypatch: pytest.MonkeyPatch, token: str, option: str
) -> None:
    code, told = run_json(monkeypatch, token, "plan", "shop", "--strategy", "all", option)
    assert (code, told["error"]["code"]) == (2, "wrong_use")


def test_a_healthy_flow_has_no_way_out_to_look_for(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    run(monkeypatch, token, "flows", "--fresh")
    monkeypatch.setattr(diagnosing, "diagnose_broken", lambda flow: None)
    code, told = run_json(monkeypatch, token, "plan", "shop", "--strategy", "all")
    assert (code, told["error"]["code"]) == (1, "healthy")
    assert AuditEntry.objects.get(action="recovery.look").outcome == "failed"


def test_who_may_not_recover_there_has_no_code_run_there_either(
    monkeypatch: pytest.MonkeyPatch, token: str, gathered: list[Mapping[str, Any]]
) -> None:
    Workspace.objects.update(environment="production")
    ada = Person.objects.get(user__username="ada")
    RoleIn.objects.create(person=ada, environment="production", role="viewer")
    code, told = run_json(monkeypatch, token, "plan", "shop", "--strategy", "all")
    assert (code, told["error"]["code"], gathered) == (1, "denied", [])


def test_spark_that_is_away_is_exit_2_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    def away(flow: Flow, **asked: Any) -> None:
        raise Unreachable("Spark does not answer. Start it, then try again.")

    monkeypatch.setattr(ways, "gather", away)
    code, told = run_json(monkeypatch, token, "plan", "shop", "--strategy", "all")
    assert (code, told["error"]["code"]) == (2, "unreachable")
    assert Recovery.objects.count() == 0
