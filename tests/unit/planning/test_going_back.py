"""A recovery of a flow that does not fail, and what it goes back to."""

import pytest

from recovery.contracts.choices import ChoicesChange
from recovery.contracts.target import ReplayTarget
from recovery.diagnosis.healthy import NOTHING_FAILS
from recovery.models import AuditEntry
from recovery.planning.actions import update_choices
from recovery.planning.plan_now import fits_healthy
from recovery.workflow import actions, by_hand
from tests.refusals import refused
from tests.unit.workflow.rows import RESPONDER, flow, recovery

pytestmark = pytest.mark.django_db
TARGET = ReplayTarget(batch=4)


def test_a_healthy_flow_is_opened_only_where_a_person_says_so() -> None:
    healthy = flow("ok")
    with refused("healthy"):
        by_hand.open_or_go_on(healthy, by=RESPONDER)

    opened = by_hand.open_or_go_on(healthy, by=RESPONDER, healthy=True)

    known = opened.diagnosis_value
    assert (known.condition, known.damaged, known.severity) == (NOTHING_FAILS, "", 1)
    assert [one.strategy for one in known.advice] == ["top-up", "deduplicate", "replay", "full-refresh"]
    assert AuditEntry.objects.filter(action="recovery.open", outcome="done").count() == 1


def test_a_failed_flow_keeps_the_diagnosis_of_its_failure() -> None:
    opened = actions.open_recovery(flow_id=flow("failed").pk, by=RESPONDER, healthy=True)
    assert opened.diagnosis_value.condition != NOTHING_FAILS


@pytest.mark.parametrize(
    ("strategy", "positions", "kind", "says"),
    [
        ("top-up", (), "pipelines-api", True),
        ("deduplicate", (), "pipelines-api", True),
        ("replay", (), "pipelines-api", True),
        ("full-refresh", (), "pipelines-api", True),
        ("continue", (), "pipelines-api", False),
        ("continue", ("0=earliest",), "pipelines-api", False),
        ("continue", ("0=earliest",), "streams", True),
        ("continue", (), "streams", False),
        (None, ("0=earliest",), "streams", False),
    ],
)
def test_naming_the_strategy_says_that_nothing_has_to_fail(
    strategy: str | None, positions: tuple[str, ...], kind: str, says: bool
) -> None:
    of = flow("ok")
    of.pipeline.workspace.kind = kind
    assert fits_healthy(of, strategy, positions) is says


def test_only_a_replay_goes_back_to_something() -> None:
    of = recovery("diagnosing", choices={"strategy": "continue"})
    with refused("no_target"):
        update_choices(recovery_id=of.pk, change=ChoicesChange(target=TARGET), by=RESPONDER)
    of.refresh_from_db()
    assert of.chosen.target is None


def test_another_strategy_forgets_what_a_replay_was_to_go_back_to() -> None:
    of = recovery("diagnosing", choices={"strategy": "replay", "target": {"batch": 4}})
    assert of.chosen.target == TARGET
    update_choices(recovery_id=of.pk, change=ChoicesChange(strategy="continue"), by=RESPONDER)
    of.refresh_from_db()
    assert of.chosen.target is None
