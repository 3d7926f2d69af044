"""A plan that loses or repeats rows, or may, is sealed only where a person has accepted that, by name."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from recovery.contracts import codec
from recovery.contracts.acceptance import Acceptance, Accepted, Cost, Effect
from recovery.contracts.amounts import Bound, RowAmount
from recovery.contracts.choices import Requester, SealingAnswer
from recovery.errors import Refused
from recovery.models import AuditEntry, Plan, Recovery
from recovery.planning import choosing
from recovery.plans.accepted import costs_of
from recovery.sources.base import StartChoice
from recovery.strategies.base import Facts
from recovery.workflow import accepting, sealing, studies
from recovery.workflow.plan_basis import digest_basis
from tests.factories.acceptances import read_accepted
from tests.factories.judged import forecast_of
from tests.factories.plans import plan_contents
from tests.refusals import refused
from tests.unit.strategies.facts import facts
from tests.unit.strategies.test_state_rows import AGGREGATE, JOIN, stateful
from tests.unit.workflow.rows import RESPONDER, choose, recovery

pytestmark = pytest.mark.django_db
LOSS, REPEATS = Effect.LOSS, Effect.REPEATS
ADA = Requester(name="ada", role="responder", user_id=None, request_id="")
NINE = Cost(effect=LOSS, rows=9, bound=Bound.EXACT, why="so it is")
HELD = Accepted(
    loss=Acceptance(effect=LOSS, by="anna", reason="Nine old rows.", rows=9, bound=Bound.EXACT),
    repeats=Acceptance(effect=REPEATS, by="bert", reason="Three more.", rows=3, bound=Bound.AT_MOST),
)


def nothing(why: str = "") -> RowAmount:
    return RowAmount(rows=0, bound=Bound.EXACT, why=why)


def some(rows: int | None, exact: bool = False, bound: Bound = Bound.ESTIMATE) -> RowAmount:
    return RowAmount(rows=rows, bound=bound.unless(exact), why="so it is")


COSTS = [
    (nothing(), nothing(), ()),
    (some(9, True), nothing(), (LOSS,)),
    (some(None), nothing(), (LOSS,)),
    (some(0), nothing(), (LOSS,)),
    (some(0, bound=Bound.AT_MOST), some(0, bound=Bound.AT_MOST), ()),
    (some(3, bound=Bound.AT_MOST), some(4, bound=Bound.AT_LEAST), (LOSS, REPEATS)),
    (nothing(), some(None), (REPEATS,)),
]


@pytest.mark.parametrize(("lost", "doubled", "effects"), COSTS)
def test_what_a_forecast_costs_is_all_that_it_does_not_exclude(
    lost: RowAmount, doubled: RowAmount, effects: tuple[Effect, ...]
) -> None:
    told = forecast_of(lost=lost, doubled=doubled)
    assert tuple(c.effect for c in costs_of(told)) == effects
    assert tuple(codec.read(Cost, codec.to_json(c)) for c in costs_of(told)) == costs_of(told)


def test_a_plan_of_before_accepted_nothing() -> None:
    assert read_accepted(None) == read_accepted({}) == Accepted()


def of_options(**choices: Any) -> Recovery:
    return recovery("diagnosing", choices={"strategy": "continue", **choices})


@pytest.fixture
def gathered(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What gathering finds from now on; sealing is the product's own."""

    def finds(found: Facts) -> None:
        snapshot = SimpleNamespace(
            code=dict(found.new_code.files),
            checkpoint_place="/ck",
            table_place="/w",
            sink=found.sink,
            others={},
            preconditions=lambda: plan_contents().preconditions,
        )
        monkeypatch.setattr(sealing, "gather", lambda flow, **given: (snapshot, found))

    return finds


def sealed(of: Recovery, **accepted: Any) -> Plan:
    """As commands seal: the effects that are named are accepted of this very forecast."""
    of.refresh_from_db()
    return sealing.seal_recovery(
        recovery=of, by=RESPONDER, accept=[effect for effect in Effect if accepted.get(effect.value)]
    )


def kafka_away(found: Facts) -> Facts:
    """Nobody can tell whether what waits can still be read."""
    (source,) = found.sources
    return replace(found, sources=(replace(source, problem="It does not answer."),))


LOSING = {
    "open windows": (stateful((AGGREGATE, 9)), "continue", 9, Bound.EXACT),
    "buffered rows of a join": (stateful((JOIN, 28)), "continue", None, Bound.UNKNOWN),
    "a source that cannot be asked": (kafka_away(facts()), "continue", None, Bound.UNKNOWN),
    "input that is gone": (
        facts(sources=(replace(facts().sources[0], gone=("file:///in/changes-0000.json",)),)),
        "full-refresh",
        0,
        Bound.ESTIMATE,
    ),
}


@pytest.mark.parametrize("name", LOSING)
def test_a_plan_that_loses_rows_or_may_is_sealed_only_where_that_is_accepted(
    gathered: Any, name: str
) -> None:
    found, strategy, rows, bound = LOSING[name]
    gathered(found)
    of = of_options(strategy=strategy)
    for accepted in ({}, {"repeats": True}):
        with refused("loses_rows", accepting.NotAccepted) as no:
            sealed(of, **accepted)
        assert LOSS.flag in no.value.flags
        assert (no.value.costs[0].rows, no.value.costs[0].bound) == (rows, bound)
    body = sealed(of, loss=True, repeats=True).body
    held = read_accepted(body["accepted"])
    assert held.loss == Acceptance(effect=LOSS, by=RESPONDER.name, reason="", rows=rows, bound=bound)
    assert (held.repeats is not None) is (body["forecast"]["doubled"]["rows"] != 0)
    of.refresh_from_db()
    assert read_accepted(of.choices["accepted"]) == held


def test_a_plan_that_repeats_rows_is_sealed_only_where_that_is_accepted(gathered: Any) -> None:
    gathered(facts())  # a full refresh brings the repeat back that dropDuplicates had removed
    of = of_options(strategy="full-refresh")
    with refused("repeats_rows", accepting.NotAccepted) as no:
        sealed(of, loss=True)
    assert no.value.flags == ("--accept-repeats",)
    assert read_accepted(sealed(of, repeats=True).body["accepted"]).repeats


def test_both_are_asked_at_once(gathered: Any) -> None:
    found = facts(sources=(replace(facts().sources[0], gone=("file:///in/changes-0000.json",)),))
    gathered(found)
    with pytest.raises(accepting.NotAccepted) as no:
        sealed(of_options(strategy="full-refresh"))
    assert no.value.flags == ("--accept-loss", "--accept-repeats")


def test_what_was_accepted_and_costs_nothing_is_in_no_plan(gathered: Any) -> None:
    gathered(facts())
    assert read_accepted(sealed(of_options(), loss=True, repeats=True).body["accepted"]) == Accepted()


def test_the_way_on_from_a_strategy_that_needs_a_start_is_named(gathered: Any) -> None:
    found = stateful((AGGREGATE, 9))
    other = replace(found.new_code, files={"/p/q.py": "x"}, operators=(AGGREGATE,))
    gathered(replace(found, new_code=other, code=other))
    with pytest.raises(Refused) as no:
        sealed(of_options(strategy="rewind"))
    assert (no.value.code, no.value.flags) == ("blocked", ("--position",))


TAKEN_BACK = {
    "strategy": lambda pk: choose(pk, strategy="revert", by=RESPONDER),
    "key": lambda pk: choose(pk, strategy="continue", key=["id"], by=RESPONDER),
    "sources": lambda pk: choose(pk, confirmed=["0->"], by=RESPONDER),
    "code": lambda pk: choose(pk, patch={"/p/a.py": "x = 2"}, by=RESPONDER),
    "positions": lambda pk: choose(pk, positions={}, by=RESPONDER),
}


@pytest.mark.parametrize("name", TAKEN_BACK)
def test_another_choice_takes_it_back(name: str) -> None:
    refused_once = {"status": "failed", "costs": [codec.to_json(NINE)]}
    of = of_options(
        patch={"/p/a.py": "x = 1"},
        positions={"0": {"latest": True}},
        accepted=codec.to_json(HELD),
        sealing=refused_once,
    )
    TAKEN_BACK[name](of.pk)
    of.refresh_from_db()
    assert read_accepted(of.choices.get("accepted")) == Accepted()
    assert accepting.costs_to_accept(of) == ()  # it was asked of another plan


SAVED_AGAIN = {
    "code": lambda pk: choose(pk, patch={"/p/a.py": "x = 1"}, by=RESPONDER),
    "strategy and key": lambda pk: choose(pk, strategy="continue", key=["id"], by=RESPONDER),
    "sources": lambda pk: choose(pk, confirmed=["0->"], by=RESPONDER),
}


@pytest.mark.parametrize("name", SAVED_AGAIN)
def test_the_same_choice_saved_again_keeps_it(name: str) -> None:
    of = of_options(patch={"/p/a.py": "x = 1"}, key=["id"], confirmed=["0->"], accepted=codec.to_json(HELD))
    SAVED_AGAIN[name](of.pk)
    of.refresh_from_db()
    assert read_accepted(of.choices["accepted"]) == HELD


def test_to_read_again_is_not_to_write_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start before the committed position may repeat rows in the table, or not: only a forecast knows."""
    of = of_options()
    monkeypatch.setattr(choosing, "_require_looked_up", lambda *given: None)  # it was looked up
    choose(of.pk, positions={"0": StartChoice(earliest=True)}, accept={Effect.REPEATS}, by=RESPONDER)
    of.refresh_from_db()
    assert of.choices["positions"] == {"0": {"earliest": True}}
    with refused("repeats_rows", accepting.NotAccepted):
        accepting.accepted_of(
            of,
            forecast_of(doubled=some(60, True)),
            effects=None,
            by=RESPONDER,
        )


ENOUGH = [
    (9, Bound.EXACT, 9, Bound.EXACT, True),
    (9, Bound.EXACT, 8, Bound.EXACT, True),
    (9, Bound.EXACT, 9000, Bound.EXACT, False),
    (9, Bound.EXACT, 9, Bound.ESTIMATE, False),
    (9, Bound.EXACT, None, Bound.UNKNOWN, False),
    (9, Bound.AT_MOST, 9, Bound.EXACT, True),
    (9, Bound.AT_MOST, 9, Bound.AT_LEAST, False),
    (0, Bound.ESTIMATE, 1, Bound.EXACT, False),
    (None, Bound.UNKNOWN, 9000, Bound.EXACT, True),
    (None, None, 9, Bound.EXACT, False),  # of before, when no number was kept
]


@pytest.mark.parametrize(("rows", "bound", "now", "now_is", "enough"), ENOUGH)
def test_an_acceptance_covers_no_more_rows_and_no_weaker_number_than_were_accepted(
    rows: int | None, bound: Bound | None, now: int | None, now_is: Bound, enough: bool
) -> None:
    held = Accepted(loss=Acceptance(effect=LOSS, by="anna", reason="", rows=rows, bound=bound))
    assert read_accepted(codec.to_json(held)) == held
    assert held.allows(Cost(effect=LOSS, rows=now, bound=now_is, why="")) is enough
    assert not held.allows(Cost(effect=REPEATS, rows=1, bound=Bound.EXACT, why=""))


def test_a_plan_names_the_person_of_each_effect_and_refuses_more_than_they_accepted(gathered: Any) -> None:
    gathered(stateful((AGGREGATE, 9)))
    of = of_options(accepted=codec.to_json(HELD))
    body = sealing.seal_recovery(recovery=of, by=RESPONDER).body
    assert read_accepted(body["accepted"]) == Accepted(loss=HELD.loss)
    gathered(stateful((AGGREGATE, 9000)))
    of = of_options(accepted=codec.to_json(HELD))
    with refused("loses_rows", accepting.NotAccepted) as no:
        sealing.seal_recovery(recovery=of, by=RESPONDER)
    assert [(c.effect, c.rows) for c in no.value.costs] == [(LOSS, 9000)]


def test_what_was_accepted_before_numbers_were_kept_is_asked_again_before_it_is_sealed(gathered: Any) -> None:
    before = {"loss": True, "repeats": False, "by": "anna", "reason": "Nine old rows."}
    held = read_accepted(before)
    assert held == Accepted(loss=Acceptance(effect=LOSS, by="anna", reason="Nine old rows."))
    gathered(stateful((AGGREGATE, 9)))
    with refused("loses_rows", accepting.NotAccepted):
        sealing.seal_recovery(recovery=of_options(accepted=before), by=RESPONDER)


def test_what_a_command_accepts_is_an_act_of_its_own_in_the_log(gathered: Any) -> None:
    gathered(stateful((AGGREGATE, 9)))
    body = sealed(of_options(), loss=True).body
    (entry,) = AuditEntry.objects.filter(action="recovery.accept")
    assert (entry.outcome, entry.actor) == ("done", "ada")
    assert (entry.after or {})["accepted"] == body["accepted"]


def test_a_refusal_that_a_worker_meets_tells_the_page_what_to_accept(gathered: Any) -> None:
    gathered(stateful((AGGREGATE, 9)))
    of = of_options()
    ticket = studies.begin(of, "sealing", SealingAnswer(by=ADA, basis=digest_basis(of)))
    studies.seal_plan(of.pk, ticket)
    of.refresh_from_db()
    told = of.choices["sealing"]
    (cost,) = (codec.read(Cost, c) for c in told["costs"])
    assert (told["code"], cost.effect, cost.rows, cost.bound) == ("loses_rows", LOSS, 9, Bound.EXACT)


def test_a_worker_accepts_what_the_call_that_asked_it_named(gathered: Any) -> None:
    gathered(stateful((AGGREGATE, 9)))
    of = of_options()
    ticket = studies.begin(of, "sealing", SealingAnswer(by=ADA, basis=digest_basis(of), accept=(LOSS,)))
    studies.seal_plan(of.pk, ticket)
    of.refresh_from_db()
    assert of.choices["sealing"]["status"] == "ready"
    assert read_accepted(of.plans.get().body["accepted"]).loss == Acceptance(
        effect=LOSS, by="ada", reason="", rows=9, bound=Bound.EXACT
    )


def test_what_a_plan_of_other_choices_cost_is_not_asked(
    gathered: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gathered(stateful((AGGREGATE, 9)))
    of, finds = of_options(), sealing.gather

    def meanwhile(flow: Any, **given: Any) -> Any:
        choose(of.pk, strategy="continue", key=["id"], by=RESPONDER)
        return finds(flow, **given)

    monkeypatch.setattr(sealing, "gather", meanwhile)
    studies.seal_plan(of.pk, studies.begin(of, "sealing", SealingAnswer(by=ADA, basis=digest_basis(of))))
    of.refresh_from_db()
    told = of.choices["sealing"]
    assert (told["code"], told["costs"]) == ("choices_changed", [])
