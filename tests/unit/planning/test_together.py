"""What was edited in one recovery is the code of all plans that are sealed with it, and who edited it is an author of
each."""

from typing import Any

import pytest

from recovery.contracts.choices import ValidationAnswer
from recovery.contracts.plan import PatchAuthor
from recovery.models import Plan, Recovery
from recovery.people.roles import Actor, Role
from recovery.planning.together import seal_plans
from recovery.workflow import broker, sealing
from tests.factories.joint import seal_plan_of
from tests.factories.together import broken_flows, open_for
from tests.refusals import refused
from tests.unit.planning.test_one_door import EDITED, PATH, gathered
from tests.unit.workflow.rows import RESPONDER, choose

pytestmark = pytest.mark.django_db
PATCH = {PATH: EDITED}
BOB = Actor("bob", Role.RESPONDER, 8)
CAT = Actor("cat", Role.RESPONDER, 9)


@pytest.fixture(autouse=True)
def no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans are sealed here, of facts that are not gathered."""
    monkeypatch.setattr(broker, "check", lambda: None)
    monkeypatch.setattr(broker, "send_on_commit", lambda task, *args: None)
    monkeypatch.setattr(sealing, "gather", gathered)
    monkeypatch.setattr(sealing, "validate", lambda flow, patch: ValidationAnswer(status="valid"))


def recoveries(*choices: dict[str, Any]) -> list[Recovery]:
    flows = broken_flows(len(choices))
    return [open_for(flow, **{"meant": "yes", **held}) for flow, held in zip(flows, choices, strict=True)]


def seal(*rows: Recovery) -> list[Recovery]:
    seal_plans(recovery_ids=[row.pk for row in rows], by=RESPONDER)
    for row in rows:
        row.refresh_from_db()
    return list(rows)


def sealed(row: Recovery) -> Plan:
    """As the worker seals that was asked."""
    return sealing.seal_recovery(recovery=row, by=RESPONDER)


@pytest.mark.parametrize("strategy", ["continue", None])
@pytest.mark.parametrize("place", [0, 1])
def test_who_edited_the_code_in_one_recovery_is_an_author_of_each_plan_that_has_it(
    strategy: str | None, place: int
) -> None:
    rows = recoveries({"strategy": "continue", "key": ["id"]}, {"strategy": "continue", "key": ["id"]})
    choose(rows[place], patch=PATCH, by=BOB)
    if strategy is None:
        held = Recovery.objects.get(pk=rows[place].pk).choices
        Recovery.objects.filter(pk=rows[place].pk).update(
            choices={name: value for name, value in held.items() if name != "strategy"}
        )
    for row in seal(*rows):
        assert sealed(row).contents.editors == (PatchAuthor(name="bob", user_id=8),)


def test_who_edited_the_same_in_two_recoveries_are_authors_of_both() -> None:
    rows = recoveries({"strategy": "continue"}, {"strategy": "continue"})
    for row, by in zip(rows, (BOB, CAT), strict=True):
        choose(row, patch=PATCH, by=by)
    for row in seal(*rows):
        assert {who.name for who in row.chosen.editors[PATH]} == {"bob", "cat"}


@pytest.mark.parametrize(
    "others", [{"strategy": "continue", "patch": {}}, {"strategy": "continue"}, {}, {"patch": {}}]
)
def test_an_edit_is_the_code_of_all_whatever_was_chosen_before(others: dict[str, Any]) -> None:
    rows = recoveries({"patch": PATCH}, others)
    assert [row.chosen.patch for row in seal(*rows)] == [PATCH] * 2


def test_an_edit_stays_out_of_a_plan_that_puts_the_code_back() -> None:
    rows = recoveries({"strategy": "continue", "patch": PATCH}, {"strategy": "revert"})
    assert [row.chosen.patch for row in seal(*rows)] == [PATCH, None]


def test_that_the_code_is_kept_stays_decided_where_no_one_edited_it() -> None:
    rows = recoveries({"patch": {}}, {"strategy": "continue"})
    assert [row.chosen.patch for row in seal(*rows)] == [{}, None]


def sealed_before(row: Recovery) -> None:
    seal_plan_of(row)
    Recovery.objects.filter(pk=row.pk).update(state="planned")


def test_the_edit_of_a_sealed_recovery_reaches_the_others_and_its_plan_stays() -> None:
    rows = recoveries({"strategy": "continue"}, {"strategy": "continue"})
    choose(rows[0], patch=PATCH, by=BOB)
    sealed_before(rows[0])
    done, other = seal(*rows)
    assert (done.state, done.chosen.sealing.status) == ("planned", "")
    assert (other.chosen.patch, other.chosen.editors) == (PATCH, done.chosen.editors)


def test_nothing_is_sealed_beside_a_plan_that_lacks_the_edit() -> None:
    rows = recoveries({"strategy": "continue", "patch": {}}, {"strategy": "continue", "patch": PATCH})
    sealed_before(rows[0])
    with refused("other_code"):
        seal(*rows)
    rows[1].refresh_from_db()
    assert rows[1].chosen.sealing.status == ""
