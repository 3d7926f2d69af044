"""The JSON API: positions looked up, chosen and sealed by a program, with the same refusals as pages and commands."""

import json
from typing import Any

import pytest
from django.test import Client

from recovery.models import AuditEntry, Recovery
from recovery.sources.base import StartChoice
from recovery.workflow import broker, studies, tasks
from tests import factories
from tests.unit.people.run import token_of
from tests.unit.workflow.rows import recovery
from tests.unit.workflow.test_positioning import found

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def sealings(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Sealings that were sent to a worker; nothing is looked up or sealed by itself."""
    sent: list[Any] = []
    monkeypatch.setattr(tasks.look_positions, "delay", lambda *args: None)
    monkeypatch.setattr(tasks.seal_plan, "delay", lambda *args: sent.append(args))
    monkeypatch.setattr(broker, "check", lambda: None)
    monkeypatch.setattr(studies, "read_positions", found)
    return sent


class Caller:
    """A program with a responder's token."""

    def __init__(self, commits: Any) -> None:
        self.commits = commits
        self.client, self.token = Client(), token_of("ada", "responder")  # type: ignore[arg-type]

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        sent = body if isinstance(body, (bytes, str)) else json.dumps({} if body is None else body)
        headers = {"Authorization": f"Bearer {self.token}", **headers}
        with self.commits(execute=True):
            answer = self.client.generic(
                method, f"/api/v1/{path}", data=sent, content_type="application/json", headers=headers
            )
        return answer.status_code, json.loads(answer.content)


@pytest.fixture
def caller(django_capture_on_commit_callbacks: Any) -> Caller:
    return Caller(django_capture_on_commit_callbacks)


@pytest.fixture
def open_one() -> Recovery:
    return recovery("diagnosing")


def answered(of: Recovery) -> None:
    """As a worker answers the look."""
    of.refresh_from_db()
    studies.look_positions(of.pk, of.choices["positions_look"]["ticket"])


def test_positions_are_looked_up_accepted_and_sealed(
    caller: Caller, open_one: Recovery, sealings: list[Any]
) -> None:
    at = f"recoveries/{open_one.label}"
    wish = {"position": ["0=earliest"]}
    code, said = caller.call("POST", f"{at}/positions", wish)
    assert (code, said["status"], said["asked"]) == (202, "working", {"0": {"earliest": True}})

    answered(open_one)
    code, said = caller.call("GET", f"{at}/positions")
    assert (code, said["status"], said["unmet"], said["chosen"]) == (200, "ready", [], {})
    assert len(said["sources"]) == len(said["repeated"]) == 1
    assert said["lost"] == []

    code, said = caller.call("POST", f"{at}/plan", wish)
    assert (code, said["error"]["code"]) == (409, "repeats_rows")
    assert "4 rows" in said["error"]["says"]
    assert sealings == []

    code, said = caller.call("POST", f"{at}/plan", {**wish, "accept_repeats": True})
    assert (code, said["sealing"]["status"], said["plan"]) == (202, "working", None)
    assert len(sealings) == 1
    open_one.refresh_from_db()
    assert open_one.choices["positions"] == {"0": {"earliest": True}}
    assert open_one.choices["strategy"] == "continue"
    assert open_one.choices["sealing"]["accept"] == ["repeats"]
    assert {e.via for e in AuditEntry.objects.filter(actor="ada").exclude(action="token.create")} == {"api"}


def test_all_is_every_source_that_was_looked_up(caller: Caller, open_one: Recovery) -> None:
    at, wish = f"recoveries/{open_one.label}/positions", {"position": ["all=latest"]}
    code, said = caller.call("POST", at, wish)
    assert (code, said["error"]["code"]) == (409, "not_looked")

    caller.call("POST", at)
    answered(open_one)
    code, said = caller.call("POST", at, wish)
    assert (code, said["asked"]) == (202, {"0": {"latest": True}})


def test_without_positions_every_source_goes_on_where_it_was_committed(
    caller: Caller, open_one: Recovery, sealings: list[Any]
) -> None:
    chosen = {"strategy": "continue", "positions": {"0": {"latest": True}}}
    Recovery.objects.filter(pk=open_one.pk).update(choices=chosen)
    code, _ = caller.call("POST", f"recoveries/{open_one.label}/plan", {"key": ["id"], "patch": {}})
    open_one.refresh_from_db()
    assert code == 202
    assert len(sealings) == 1
    assert open_one.choices["positions"] == {}
    assert open_one.choices["key"] == ["id"]


def test_a_choice_that_is_not_sent_stays(caller: Caller, open_one: Recovery) -> None:
    Recovery.objects.filter(pk=open_one.pk).update(choices={"strategy": "rewind", "key": ["id"]})
    caller.call("POST", f"recoveries/{open_one.label}/positions")
    open_one.refresh_from_db()
    assert (open_one.choices["strategy"], open_one.choices["key"]) == ("rewind", ["id"])


def test_what_is_below_is_left_out_and_taken_in_by_the_plan_alone(
    caller: Caller, open_one: Recovery, sealings: list[Any]
) -> None:
    for sent, kept in ((None, None), (False, "left"), (None, "left"), (True, None)):
        Recovery.objects.filter(pk=open_one.pk).update(state="diagnosing")
        open_one.refresh_from_db()
        choices = {k: v for k, v in open_one.choices.items() if k != "sealing"}
        Recovery.objects.filter(pk=open_one.pk).update(choices=choices)
        body = {} if sent is None else {"refresh_below": sent}
        code, said = caller.call("POST", f"recoveries/{open_one.label}/plan", body)
        assert code == 202, said
        open_one.refresh_from_db()
        assert open_one.choices.get("below") == kept


def test_a_recovery_is_told_with_its_sealed_plan(caller: Caller) -> None:
    row = factories.planned()
    sealed = row.plans.get()
    code, said = caller.call("GET", f"recoveries/{row.label}")
    assert (code, said["recovery"], said["state"], said["flow"]) == (200, row.label, "planned", row.flow.name)
    assert said["plan_hash"] == said["plan"]["plan_hash"] == sealed.hash
    assert said["sealing"] == {"status": "ready", "problem": None, "code": None, "costs": None}


def test_a_failed_look_says_why(caller: Caller, open_one: Recovery, monkeypatch: pytest.MonkeyPatch) -> None:
    from recovery.errors import Unreachable

    why = "Kafka does not answer."

    def away(flow: Any, wanted: dict[str, StartChoice], patch: Any = None) -> Any:
        raise Unreachable(why)

    monkeypatch.setattr(studies, "read_positions", away)
    caller.call("POST", f"recoveries/{open_one.label}/positions")
    answered(open_one)
    code, said = caller.call("GET", f"recoveries/{open_one.label}/positions")
    assert (code, said["status"], said["problem"]) == (200, "failed", why)


WRONG: list[tuple[str, Any, int, str]] = [
    ("positions", b"{", 400, "not JSON"),
    ("positions", b"[" * 100_000, 400, "not JSON"),
    ("positions", "[]", 400, "one JSON object"),
    ("positions", {"positon": []}, 400, "no field 'positon' here"),
    ("positions", {"position": "0=latest"}, 400, "list of strings"),
    ("positions", {"position": ["latest"]}, 400, "names no source"),
    ("positions", {"position": ["0=noon"]}, 400, "names no position"),
    ("positions", {"strategy": 7}, 400, "strategy has to be a string"),
    ("plan", {"accept_loss": "yes"}, 400, "true or false"),
    ("plan", {"patch": ["x"]}, 400, "by workspace path"),
    ("plan", {"patch": {"/a.sql": "\ud800"}}, 400, "half of a character, \\ud800"),
    ("plan", {"patch": {"/a\udc00.sql": "x"}}, 400, "half of a character, \\udc00"),
    ("plan", {"key": ["a\0b"]}, 400, "NUL character"),
    ("positions", {"position": ["0/orders-\ud83d=latest"]}, 400, "half of a character"),
    ("positions", {"position": ["0=time=0001-01-01T00:00:00+14:00"]}, 400, "outside of the years 1 to 9999"),
    ("positions?x=%00", {}, 400, "NUL character"),
]


@pytest.mark.parametrize(("where", "body", "code", "words"), WRONG)
def test_what_cannot_be_taken_is_refused_with_what_to_do(
    caller: Caller, open_one: Recovery, sealings: list[Any], where: str, body: Any, code: int, words: str
) -> None:
    status, said = caller.call("POST", f"recoveries/{open_one.label}/{where}", body)
    assert (status, words in said["error"]["says"]) == (code, True), said
    assert sealings == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"strategy": "guess"}, "blocked"),
        ({"position": ["0=latest"]}, "not_looked"),
        ({"confirm": ["x"]}, "no_pair"),
    ],
)
def test_a_choice_that_cannot_be_made_is_refused_by_its_code(
    caller: Caller, open_one: Recovery, sealings: list[Any], body: dict[str, Any], code: str
) -> None:
    status, said = caller.call("POST", f"recoveries/{open_one.label}/plan", body)
    assert (status, said["error"]["code"]) == (409, code), said
    assert sealings == []


@pytest.mark.parametrize(
    ("method", "path", "code", "name"),
    [
        ("GET", "recoveries/R-999999", 404, "not_found"),
        ("GET", "recoveries/R-²", 404, "not_found"),
        ("GET", "recoveries/R-1%00", 400, "wrong_use"),
        ("POST", "recoveries/R-999999/plan", 404, "not_found"),
        ("GET", "recoveries", 405, "wrong_method"),
        ("POST", "recoveries", 400, "wrong_use"),
    ],
)
def test_every_refusal_is_one_json_object(
    caller: Caller, method: str, path: str, code: int, name: str
) -> None:
    status, said = caller.call(method, path)
    assert (status, said["error"]["code"]) == (code, name)


@pytest.mark.parametrize("sent", ["", "Bearer", "Bearer nonsense", "Basic abc"])
def test_without_a_good_token_nothing_is_told(caller: Caller, open_one: Recovery, sent: str) -> None:
    status, said = caller.call("GET", f"recoveries/{open_one.label}", Authorization=sent)
    assert (status, said["error"]["code"]) == (401, "no_token")


def test_who_tries_many_tokens_has_to_wait(caller: Caller, open_one: Recovery) -> None:
    codes = [
        caller.call("GET", f"recoveries/{open_one.label}", Authorization=f"Bearer wrong{n}")[0]
        for n in range(31)
    ]
    assert codes == [401] * 30 + [429]


def test_another_site_cannot_act_through_a_browser_that_is_signed_in(open_one: Recovery) -> None:
    client = Client(enforce_csrf_checks=True)
    answer = client.post(f"/api/v1/recoveries/{open_one.label}/plan", "{}", content_type="application/json")
    assert answer.status_code == 401


@pytest.mark.parametrize(
    ("meant", "strategy"), [("no", "revert"), ("yes", "continue"), ("unknown", "continue")]
)
def test_whether_the_change_was_meant_names_the_strategy_where_no_one_does(
    caller: Caller, open_one: Recovery, meant: str, strategy: str
) -> None:
    assert caller.call("POST", f"recoveries/{open_one.label}/plan", {"meant": meant})[0] == 202
    open_one.refresh_from_db()
    assert open_one.choices["strategy"] == strategy


def test_every_way_out_is_shown_by_the_rows_that_were_counted_and_counted_again_on_demand(
    caller: Caller, open_one: Recovery, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(tasks.gather_facts, "delay", lambda *args: sent.append(args))
    at = f"recoveries/{open_one.label}/ways"
    assert caller.call("GET", at) == (200, {"status": "none", "problem": None, "ways": None})

    Recovery.objects.filter(pk=open_one.pk).update(
        facts=factories.facts(), diagnosis=factories.judged.STORED_DIAGNOSIS, choices={"meant": "yes"}
    )
    code, said = caller.call("GET", at)
    assert (code, said["status"], said["ways"]["recommended"]) == (200, "ready", "continue")
    assert [one["effort"]["steps"] for one in said["ways"]["options"]] == [5, 5, 3, 3]

    code, said = caller.call("POST", at)
    assert (code, said["status"], len(sent)) == (202, "working", 1)
