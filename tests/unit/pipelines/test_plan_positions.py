"""`plan --position` and `--positions` as a person types them: costs are told, and refused until accepted."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from recovery.contracts.acceptance import Cost, Effect
from recovery.contracts.amounts import Bound
from recovery.errors import Refused, Unreachable
from recovery.models import AuditEntry, Flow, Person, Plan, Recovery, RoleIn, Workspace
from recovery.people.roles import Actor, Role
from recovery.sources import kafka
from recovery.sources.base import Position, Precision, SourceFacts, StartChoice
from recovery.workflow import by_hand, sealing, studies
from tests import factories
from tests.factories import positions as at
from tests.unit.people.run import run, run_json, token_of
from tests.unit.pipelines.api import Api
from tests.unit.pipelines.stub import serving

pytestmark = pytest.mark.django_db
ORDERS = "main.shop.orders_flow"
TIME = "2026-11-22T03:00:00Z"


def found(flow: Any, wanted: Mapping[str, StartChoice], patch: Any = None) -> list[SourceFacts]:
    """Two topics' worth of sources, as `gather.read_positions` answers."""
    line, told = at.topic()
    sources = []
    for n in range(2):
        wish = wanted.get(str(n))
        start, problem = None, None
        try:
            start = kafka.find_position(wish, line, told) if wish else None
        except Refused as refusal:
            problem = refusal.sentence
        position = Position(n, "kafka", line, kafka.label_position(line), Precision.EXACT, True)
        facts = {
            "facts": told,
            "option": kafka.find_start_option(line, told),
            "reach": kafka.judge_reach(line, told),
        }
        sources.append(SourceFacts(position, at.TOPIC, start=start, problem=problem, **facts))
    return sources


def seals(*, recovery: Recovery, by: Actor, accept: Any = None) -> Plan:
    return factories.sealed(recovery)


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A workspace with one failed flow; sources that are looked at; a seal without Spark."""
    api = Api()
    shop = api.add("p1", "shop", storage="file:///nowhere/storage")
    shop.run("u1", {ORDERS: "COMPLETED"})
    shop.run("u2", {ORDERS: "FAILED"}, "FAILED")
    monkeypatch.setenv("INVENTORY_TOKEN", "rp_x")
    monkeypatch.setattr(studies, "read_positions", found)
    monkeypatch.setattr(sealing, "seal_recovery", seals)
    monkeypatch.setattr(by_hand.actions.diagnosing, "diagnose_flow", lambda flow: factories.DIAGNOSIS)
    with serving(api) as stub:
        Workspace.objects.create(
            name="here", url=stub.url, token_ref="env:INVENTORY_TOKEN", environment="development"
        )
        yield


def part(out: str, number: int) -> list[str]:
    """Of one partition: before, after, and the way that it moves."""
    return next(
        line.split()[1:4] for line in out.splitlines() if line.split()[:1] == [f"{at.TOPIC}-{number}"]
    )


@pytest.fixture
def token() -> str:
    return token_of("ada", Role.RESPONDER)


def test_positions_are_printed_with_what_they_cost_and_nothing_is_opened(
    monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    code, out, _ = run(monkeypatch, token, "plan", "shop", "--positions", "--position", "0=latest")
    assert code == 0
    assert f"Source 0  kafka  {at.TOPIC}" in out
    assert part(out, 0) == ["500", "750", "ahead,"]
    assert "never read  753 rows" in out
    assert ("--accept-loss: Source 0: 753 rows" in out, "--accept-repeats" in out) == (True, False)
    assert "3 parts unchanged" in out
    assert out.rstrip().endswith("changed or chosen.")
    assert Recovery.objects.count() == 0
    assert list(
        AuditEntry.objects.filter(action__startswith="recovery").values_list("action", "outcome")
    ) == [("recovery.look", "done")]


def test_who_may_not_recover_there_has_no_code_run_there_either(
    monkeypatch: pytest.MonkeyPatch, token: str, tmp_path: Path
) -> None:
    Workspace.objects.update(environment="production")
    ada = Person.objects.get(user__username="ada")
    RoleIn.objects.create(person=ada, environment="production", role="viewer")
    monkeypatch.setattr(studies, "read_positions", lambda *asked: pytest.fail("Spark was asked"))
    code, answer = run_json(monkeypatch, token, "plan", "shop", "--positions", "--code", str(tmp_path))
    assert (code, answer["error"]["code"]) == (1, "denied")
    assert AuditEntry.objects.get(action="recovery.look").outcome == "denied"


def test_a_source_of_which_records_are_gone_is_not_said_to_be_read_once(
    monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    line, told = at.topic(gone=1)

    def gone(flow: Any, wanted: Mapping[str, StartChoice], patch: Any = None) -> list[SourceFacts]:
        position = Position(0, "kafka", line, kafka.label_position(line), Precision.EXACT, True)
        return [SourceFacts(position, at.TOPIC, facts=told, reach=kafka.judge_reach(line, told))]

    monkeypatch.setattr(studies, "read_positions", gone)
    _, out, _ = run(monkeypatch, token, "plan", "shop", "--positions")
    assert "Not certain: Source 0" in out
    assert "left out" not in out


def test_as_json_it_is_one_object_with_every_part(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    code, told = run_json(monkeypatch, token, "plan", "shop", "--positions", "--position", "all=earliest")
    assert (code, told["flow"], told["lost"], len(told["repeated"])) == (0, ORDERS, [], 2)
    assert [len(one["changes"]) for one in told["sources"]] == [3, 3]
    assert told["api"]["body"]["reset_checkpoint_selection"] == [ORDERS]


def test_the_call_that_loses_rows_at_a_table_of_files_is_not_offered_to_programs(
    monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    run_json(monkeypatch, token, "flows", "--fresh")
    sink = {"kind": "files", "declared": "", "place": "/table"}
    factories.opened(Flow.objects.get(name=ORDERS), facts=factories.facts(sink=sink))
    _, told = run_json(monkeypatch, token, "plan", "shop", "--positions")
    assert told["api"] is None


def test_one_source_is_an_exception_from_all(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    given = ("--position", "all=earliest", "--position", "1=committed")
    _, told = run_json(monkeypatch, token, "plan", "shop", "--positions", *given)
    assert [c["moved"] for c in told["sources"][0]["changes"]] == ["back"] * 3
    assert [c["moved"] for c in told["sources"][1]["changes"]] == ["same"] * 3


def test_one_partition_is_given_a_time_and_the_others_stay(
    monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    noon = f"time={datetime.fromtimestamp(at.NOON / 1000, UTC).isoformat(timespec='milliseconds')}"
    code, out, _ = run(
        monkeypatch, token, "plan", "shop", "--positions", "--position", f"0/{at.TOPIC}-1={noon}"
    )
    assert code == 0
    assert part(out, 1) == ["500", "700", "ahead,"]
    assert "never read  200 rows" in out
    assert "2 parts unchanged" in out

    given = ("--position", f"0/{at.TOPIC}-1=600", "--position", "0=earliest")
    code, told = run_json(monkeypatch, token, "plan", "shop", *given, "--accept-repeats", "--accept-loss")
    assert code == 0, told
    chosen = AuditEntry.objects.get(action="recovery.positions", outcome="done")
    wish = {"earliest": True, "parts": {f"{at.TOPIC}-1": {"by_hand": "600"}}}
    assert chosen.after == {"positions": {"0": wish}, "accepted": ["loss", "repeats"]}
    assert f"source 0 at earliest, {at.TOPIC}-1=600" in chosen.says


def test_a_plan_is_sealed_with_the_positions_that_were_given(
    monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    code, told = run_json(monkeypatch, token, "plan", "shop", "--position", "0=earliest", "--accept-repeats")
    assert code == 0, told
    chosen = AuditEntry.objects.get(action="recovery.positions", outcome="done")
    assert chosen.after == {"positions": {"0": {"earliest": True}}, "accepted": ["repeats"]}


REFUSED: dict[str, tuple[tuple[str, ...], int, str, str]] = {
    "a loss": (("0=latest",), 1, "loses_rows", "Source 0: 753 rows never read"),
    "repeats": (("0=earliest",), 1, "repeats_rows", "rows read a second time"),
    "another source": (("7=latest",), 1, "no_source", "There is no source 7 here. Sources: 0, 1."),
    "no wish": (("0=tomorrow",), 2, "no_position", "'tomorrow' names no position."),
    "no source": (("latest",), 2, "no_source_named", "'latest' names no source. Write it as 0=latest"),
    "twice": (("0=latest", "0=earliest"), 2, "two_positions", "Source 0 is given two positions."),
    "a part out of bounds": (
        (f"0/{at.TOPIC}-1=9",),
        1,
        "no_such_position",
        f"9 of {at.TOPIC}-1 is not between 100 and 751",
    ),
    "no such part": (
        (f"0/{at.TOPIC}-7=600",),
        1,
        "no_such_position",
        f"not read by this source: {at.TOPIC}-7",
    ),
    "a part of all": (("all/a-1=600",), 2, "rest_unclear", "Parts go with a source by its number"),
    "a time without a zone": ((f"0=time={TIME[:-1]}",), 2, "no_zone", "names no zone"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_taken_is_refused_and_leaves_no_recovery_open(
    monkeypatch: pytest.MonkeyPatch, token: str, name: str
) -> None:
    given, exit_code, reason, says = REFUSED[name]
    told = [part for one in given for part in ("--position", one)]
    code, answer = run_json(monkeypatch, token, "plan", "shop", *told)
    assert (code, answer["error"]["code"]) == (exit_code, reason)
    assert says in answer["error"]["says"]
    assert not Recovery.objects.filter(active=True).exists()
    assert Plan.objects.count() == 0


def test_every_missing_acceptance_is_named_at_once_and_the_same_call_with_them_is_taken(
    monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    costs = (Cost(effect=Effect.LOSS, rows=9, bound=Bound.EXACT, why="The state holds them."),)
    monkeypatch.setattr(sealing, "costs_from", lambda recovery, wishes: costs)
    call = ("plan", "shop", "--position", "0=earliest")
    _, refused = run_json(monkeypatch, token, *call)
    flags = {"--accept-loss", "--accept-repeats"}
    assert (refused["error"]["code"], set(refused["error"]["flags"])) == ("repeats_rows", flags)
    code, told = run_json(monkeypatch, token, *call, *refused["error"]["flags"])
    assert (code, told["recovery"]) == (0, Recovery.objects.get(active=True).label)


def test_a_strategy_without_positions_says_which_have_them(
    monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    code, answer = run_json(
        monkeypatch, token, "plan", "shop", "--strategy", "revert", "--position", "0=latest"
    )
    assert (code, answer["error"]["code"]) == (2, "wrong_use")
    assert re.findall("revert|continue|reread", answer["error"]["says"]) == ["revert", "continue", "reread"]


def test_a_recovery_stands_for_its_flow_and_a_plan_without_positions_takes_them_back(
    monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    run(monkeypatch, token, "plan", "shop", "--position", "0=earliest", "--accept-repeats")
    of = Recovery.objects.get()
    Recovery.objects.filter(pk=of.pk).update(
        choices={"strategy": "continue", "positions": {"0": {"earliest": True}}}
    )
    code, _ = run_json(monkeypatch, token, "plan", of.label, "--again")
    assert code == 0
    assert AuditEntry.objects.filter(action="recovery.positions").first().after == {"positions": {}}  # type: ignore[union-attr]


def test_what_a_recovery_has_chosen_stays_where_no_option_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    run(monkeypatch, token, "plan", "shop")
    of, asked, sealed = Recovery.objects.get(), list[Any](), list[dict[str, Any]]()
    held = {"strategy": "rewind", "key": ["id"], "patch": {"/p/a.py": "x = 1"}}
    Recovery.objects.filter(pk=of.pk).update(choices=held)
    monkeypatch.setattr(studies, "read_positions", lambda flow, wanted, patch: asked.append(patch) or [])

    def noted(*, recovery: Recovery, by: Actor, accept: Any = None) -> Plan:
        sealed.append({name: recovery.choices[name] for name in held})
        return seals(recovery=recovery, by=by)

    monkeypatch.setattr(sealing, "seal_recovery", noted)
    run(monkeypatch, token, "plan", of.label, "--positions")
    run(monkeypatch, token, "plan", of.label, "--again")
    Recovery.objects.filter(pk=of.pk).update(choices=held)
    run(monkeypatch, token, "plan", "shop", "--again")  # its open recovery

    assert asked == [held["patch"]]
    assert sealed == [held, held]


def test_an_ended_recovery_does_not_stand_for_the_open_one_of_its_flow(
    monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    run(monkeypatch, token, "plan", "shop")
    first = Recovery.objects.get()
    run(monkeypatch, token, "cancel", first.label, "--reason", "no more")
    run(monkeypatch, token, "plan", "shop")
    second = Recovery.objects.get(active=True)

    code, answer = run_json(monkeypatch, token, "plan", first.label, "--again")

    assert (code, second.plans.filter(voided_at=None).count()) == (1, 1)
    assert answer["error"]["code"] == "another_is_open"
    assert first.label in answer["error"]["says"]
    assert second.label in answer["error"]["says"]


def test_a_recovery_and_a_flow_of_another_name_are_not_both_meant(
    monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    run(monkeypatch, token, "plan", "shop")
    of = Recovery.objects.get()
    factories.flow(of.flow.pipeline, "others_flow", name="main.shop.others_flow")
    code, answer = run_json(monkeypatch, token, "plan", of.label, "--flow", "others_flow", "--positions")
    assert code in (1, 2)
    assert "others_flow" in answer["error"]["says"]


def test_a_source_that_does_not_answer_is_exit_2_and_its_sentence(
    monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    why = "Spark does not answer. Start it, then try again."

    def away(flow: Any, wanted: Mapping[str, StartChoice], patch: Any = None) -> list[SourceFacts]:
        raise Unreachable(why)

    monkeypatch.setattr(studies, "read_positions", away)
    code, answer = run_json(monkeypatch, token, "plan", "shop", "--positions")
    assert (code, answer["error"]["says"]) == (2, why)


def test_a_wish_that_its_source_cannot_meet_is_bad_news(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    why = "Nobody could ask it."

    def refused(flow: Any, wanted: Mapping[str, StartChoice], patch: Any = None) -> list[SourceFacts]:
        position = Position(0, "unknown", "7", "7", Precision.UNKNOWN, None)
        return [SourceFacts(position, "somewhere", problem=why if wanted else None)]

    monkeypatch.setattr(studies, "read_positions", refused)
    code, out, _ = run(monkeypatch, token, "plan", "shop", "--positions", "--position", "0=json=8")
    assert code == 1
    assert f"Source 0: {why}" in out
    code, out, _ = run(monkeypatch, token, "plan", "shop", "--positions", "--position", "all=latest")
    assert code == 2


def test_help_shows_examples(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run(monkeypatch, None, "plan", "--help")
    shown = capsys.readouterr().out
    assert any(
        line.startswith("  plan R-12 ") and "all=time=2026-11-22T03:00:00Z" in line
        for line in shown.splitlines()
    )


def test_which_source_is_which_is_confirmed_by_command_too(
    monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    code, _ = run_json(monkeypatch, token, "plan", "shop", "--confirm", "0->1", "--confirm", "1->")
    assert code == 0
    assert AuditEntry.objects.get(action="recovery.sources").after == {"confirmed": ["0->1", "1->"]}
