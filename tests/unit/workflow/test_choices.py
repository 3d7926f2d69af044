"""What a person chose is what is sealed, in that person's name, and no choice is lost to another made at once."""

from collections.abc import Callable
from typing import Any

import pytest

from recovery.contracts.choices import ValidationAnswer
from recovery.errors import Refused
from recovery.models import AuditEntry, Plan, Recovery
from recovery.people.roles import Actor, Role
from recovery.planning import actions as planning
from recovery.workflow import broker, sealing, studies, tasks
from recovery.workflow.plan_basis import digest_basis
from tests.factories.plans import plan_contents
from tests.unit.workflow.rows import RESPONDER, choose, recovery

pytestmark = pytest.mark.django_db
OTHER = Actor("bob", Role.RESPONDER, 2)
CHANGES: dict[str, Callable[[int], Any]] = {
    "strategy": lambda pk: choose(pk, strategy="revert", by=OTHER),
    "key": lambda pk: choose(pk, strategy="continue", key=["zip"], by=OTHER),
    "patch": lambda pk: choose(pk, patch={"/p/a.py": "x = 2"}, by=OTHER),
}


@pytest.fixture(autouse=True)
def no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks.seal_plan, "delay", lambda *args: None)
    monkeypatch.setattr(broker, "check", lambda: None)


@pytest.fixture
def asked() -> Recovery:
    """A recovery whose plan RESPONDER has asked for."""
    row = recovery("diagnosing", choices={"strategy": "continue", "key": ["id"]})
    planning.request_plan(recovery_id=row.pk, by=RESPONDER)
    row.refresh_from_db()
    return row


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_choices_that_changed_after_a_plan_was_asked_for_are_not_sealed_in_its_name(
    asked: Recovery, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed: list[Any] = []
    monkeypatch.setattr(sealing, "seal_recovery", lambda **given: sealed.append(given))
    CHANGES[name](asked.pk)

    studies.seal_plan(asked.pk, asked.choices["sealing"]["ticket"])

    asked.refresh_from_db()
    assert sealed == []
    assert asked.choices["sealing"]["status"] == "failed"
    assert "were changed while its plan was being sealed" in asked.choices["sealing"]["problem"]


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_choices_that_change_while_the_worker_looks_are_not_those_of_the_plan(
    asked: Recovery, name: str
) -> None:
    CHANGES[name](asked.pk)

    with pytest.raises(Refused, match="seal again"):
        sealing._write(asked, plan_contents(), RESPONDER)

    assert Plan.objects.count() == 0


def test_a_look_or_a_validation_in_between_is_no_other_choice(asked: Recovery) -> None:
    before = digest_basis(asked)
    studies.keep_answer(asked, "validation", ValidationAnswer(status="valid"))
    asked.refresh_from_db()
    assert digest_basis(asked) == before


def test_of_two_choices_at_once_both_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    row = recovery("diagnosing", choices={"strategy": "continue"})
    read = planning.get

    def slowly(recovery_id: int) -> Recovery:
        found = read(recovery_id)
        monkeypatch.setattr(planning, "get", read)
        choose(recovery_id, patch={"/p/a.py": "x = 2"}, by=OTHER)
        return found

    monkeypatch.setattr(planning, "get", slowly)
    choose(row.pk, strategy="continue", key=["id"], by=RESPONDER)

    row.refresh_from_db()
    assert (row.choices["patch"], row.choices["key"]) == ({"/p/a.py": "x = 2"}, ["id"])
    assert list(AuditEntry.objects.values_list("outcome", flat=True)) == ["done", "done"]
