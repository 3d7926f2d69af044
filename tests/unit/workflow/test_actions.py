"""The doors: who may, when, and that a refusal changes nothing but the audit log."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from recovery.contracts.names import ChangeIntent
from recovery.contracts.plan import PatchAuthor
from recovery.errors import Denied, Refused, RepriseError
from recovery.models import AuditEntry, Recovery
from recovery.people.roles import Actor, Role
from recovery.planning import actions as planning
from recovery.workflow import actions, broker, sealing, tasks
from recovery.workflow.moves import halt_of, held_by
from tests import factories as f
from tests.refusals import refused
from tests.unit.workflow.rows import RESPONDER, VIEWER, choose, flow, plan, recovery

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    for task in (tasks.run_step, tasks.gather_facts, tasks.validate_patch, tasks.seal_plan):
        monkeypatch.setattr(task, "delay", lambda *args: None)
    monkeypatch.setattr(broker, "check", lambda: None)


def last() -> AuditEntry:
    entry = AuditEntry.objects.first()
    assert entry is not None
    return entry


def test_a_failed_flow_gets_one_recovery_and_only_one() -> None:
    failed = flow()
    first = actions.open_recovery(flow_id=failed.pk, by=RESPONDER)
    assert (first.state, last().action, last().outcome) == ("diagnosing", "recovery.open", "done")
    with pytest.raises(RepriseError, match=first.label):
        actions.open_recovery(flow_id=failed.pk, by=RESPONDER)
    assert last().outcome == "failed"
    with pytest.raises(IntegrityError), transaction.atomic():
        recovery(flow=failed)


def test_a_healthy_flow_is_left_alone() -> None:
    with refused("healthy"):
        actions.open_recovery(flow_id=flow("ok").pk, by=RESPONDER)
    assert Recovery.objects.count() == 0


ACTS: dict[str, Callable[[int], Any]] = {
    "recovery.stop": lambda pk: actions.request_stop(recovery_id=pk, by=VIEWER),
    "recovery.facts": lambda pk: actions.request_facts(recovery_id=pk, by=VIEWER),
    "recovery.strategy": lambda pk: choose(pk, strategy="continue", by=VIEWER),
    "recovery.meant": lambda pk: choose(pk, meant=ChangeIntent.YES, by=VIEWER),
    "recovery.keep": lambda pk: choose(pk, patch={}, by=VIEWER),
    "recovery.patch": lambda pk: choose(pk, patch={"/a.py": "x = 1"}, by=VIEWER),
    "recovery.validate": lambda pk: actions.request_validation(recovery_id=pk, by=VIEWER),
    "plan.seal": lambda pk: planning.request_plan(recovery_id=pk, by=VIEWER),
    "recovery.execute": lambda pk: actions.execute(recovery_id=pk, by=VIEWER),
    "plan.withdraw": lambda pk: actions.edit_again(recovery_id=pk, by=VIEWER),
    "recovery.halt": lambda pk: actions.stop_run(recovery_id=pk, by=VIEWER),
    "recovery.skip": lambda pk: actions.skip_step(recovery_id=pk, reason="x", by=VIEWER),
    "recovery.pause": lambda pk: actions.pause_run(recovery_id=pk, by=VIEWER),
    "recovery.cancel": lambda pk: actions.cancel(recovery_id=pk, reason="", by=VIEWER),
}


@pytest.mark.parametrize("action", sorted(ACTS))
def test_a_viewer_may_do_none_of_it_and_the_try_is_in_the_log(action: str) -> None:
    row = recovery("diagnosing")
    with refused("denied", Denied):
        ACTS[action](row.pk)
    row.refresh_from_db()
    assert row.version == 0
    assert (last().action, last().outcome, last().actor) == (action, "denied", "vic")


@pytest.mark.parametrize(
    ("progress", "batch"),
    [
        ({"batchId": 7, "timestamp": "2026-11-22T02:53:41.000Z", "numInputRows": 3}, 7),
        ({"batchId": 7, "timestamp": "2026-11-22T02:53:41.000Z", "durationMs": {"addBatch": 4}}, 7),
        ({"batchId": 8, "timestamp": "2026-11-22T02:53:41.000Z", "numInputRows": 0}, None),
        ({"batchId": 7, "timestamp": "2026-11-22T02:53:41.000Z", "numInputRows": 0}, None),
        ({"batchId": 7, "numInputRows": 3}, None),
        ({}, None),
    ],
    ids=[
        "rows were read",
        "a batch ran without rows",
        "a later look",
        "an idle look",
        "no time",
        "nothing seen",
    ],
)
def test_the_last_good_batch_is_noted_when_a_recovery_is_opened(
    progress: dict[str, Any], batch: int | None
) -> None:
    failed = flow()
    type(failed).objects.filter(pk=failed.pk).update(last_batch=7, last_progress=progress)
    noted = actions.open_recovery(flow_id=failed.pk, by=RESPONDER).diagnosis_value.last_good
    assert (noted and (noted.batch, noted.at)) == (batch and (batch, progress["timestamp"]))


def test_a_viewer_may_not_open_one_either() -> None:
    with pytest.raises(Denied):
        actions.open_recovery(flow_id=flow().pk, by=VIEWER)
    assert (last().action, last().outcome) == ("recovery.open", "denied")


def test_an_edit_that_does_not_parse_is_refused_by_line() -> None:
    row = recovery("diagnosing")
    with refused("does_not_parse"):
        choose(row.pk, patch={"/p/q.py": "x = 1\ndef ("}, by=RESPONDER)
    row.refresh_from_db()
    assert "patch" not in row.choices


def test_everybody_who_edited_a_file_of_the_patch_is_known_and_who_only_saved_it_is_not() -> None:
    ann, bob, cat = (Actor(name, Role.RESPONDER, n) for n, name in enumerate(("ann", "bob", "cat"), 1))
    row = recovery("diagnosing", choices={"strategy": "continue"})
    for by, files in (
        (ann, {"/p/a.py": "x = 1"}),
        (bob, {"/p/a.py": "x = 1", "/p/b.py": "y = 1"}),
        (cat, {"/p/a.py": "x = 1", "/p/b.py": "y = 2"}),
        (ann, {"/p/a.py": "x = 1", "/p/b.py": "y = 2"}),
    ):
        choose(row.pk, patch=files, by=by)
    row.refresh_from_db()
    names = {path: [e["name"] for e in who] for path, who in row.choices["editors"].items()}
    assert names == {"/p/a.py": ["ann"], "/p/b.py": ["bob", "cat"]}
    assert sealing._editors(row, {"/p/b.py": "y = 2"}) == (
        PatchAuthor(name="bob", user_id=2),
        PatchAuthor(name="cat", user_id=3),
    )
    assert sealing._editors(row, {}) == ()


def test_with_another_strategy_the_patch_goes_and_who_edited_it_too() -> None:
    row = recovery("diagnosing", choices={"strategy": "continue"})
    choose(row.pk, patch={"/p/a.py": "x = 1"}, by=RESPONDER)
    choose(row.pk, strategy="revert", key=[], by=RESPONDER)
    row.refresh_from_db()
    assert not {"patch", "editors"} & set(row.choices)


def test_browsers_line_ends_do_not_reach_the_source() -> None:
    row = recovery("diagnosing")
    choose(row.pk, patch={"/p/q.py": "x = 1\r\ny = 2\r\n"}, by=RESPONDER)
    row.refresh_from_db()
    assert row.choices["patch"] == {"/p/q.py": "x = 1\ny = 2\n"}


def test_whether_the_change_was_meant_is_kept_audited_and_chooses_nothing() -> None:
    row = recovery("diagnosing", choices={"strategy": "continue", "key": ["id"]})
    choose(row.pk, meant=ChangeIntent.NO, by=RESPONDER)
    row.refresh_from_db()
    assert row.choices == {"strategy": "continue", "key": ["id"], "meant": "no", "meant_by": RESPONDER.name}
    assert (last().action, last().outcome) == ("recovery.meant", "done")
    assert (last().before, last().after) == ({"meant": None}, {"meant": "no"})


def test_whether_the_change_was_meant_is_no_longer_changed_once_a_plan_is_sealed() -> None:
    row = recovery("planned")
    with pytest.raises(Refused):
        choose(row.pk, meant=ChangeIntent.NO, by=RESPONDER)


def test_a_blocked_strategy_cannot_be_chosen() -> None:
    row = recovery("diagnosing")
    Recovery.objects.filter(pk=row.pk).update(
        facts={"options": [f.option("empty", blocked="It would silently lose 8 rows.")]}
    )
    with refused("blocked"):
        choose(row.pk, strategy="empty", by=RESPONDER)


@pytest.mark.parametrize(
    "option",
    [
        {"strategy": "rewind", "blocked": "…", "blocker": {"code": "start_needed"}},
        {"strategy": "continue", "blocked": "…", "blocker": {"code": "sources_unconfirmed"}},
        {"strategy": "continue", "blocked": "…", "blocker": {"code": "code_keeps_state"}},
        {"strategy": "revert", "blocked": "…", "blocker": {"code": "old_code_unknown"}},
    ],
)
def test_what_a_later_step_settles_does_not_keep_a_strategy_from_being_chosen(option: dict[str, Any]) -> None:
    """A start that is given with it among them: the facts were gathered without it."""
    row = recovery("diagnosing")
    Recovery.objects.filter(pk=row.pk).update(facts={"options": [f.option(**option)]})

    choose(row.pk, strategy=option["strategy"], by=RESPONDER)

    row.refresh_from_db()
    assert row.choices["strategy"] == option["strategy"]


def test_a_plan_does_not_run_where_other_people_must_approve() -> None:
    row = recovery("planned", flow=flow(environment="production"))
    plan(row, "stop")
    with refused("needs_approval"):
        actions.execute(recovery_id=row.pk, by=RESPONDER)
    row.refresh_from_db()
    assert row.state == "planned"


def test_what_has_acted_can_no_longer_be_cancelled() -> None:
    row = recovery("needs_attention")
    plan(row, "patch")
    row.steps.update(state="done")
    with refused("touched"):
        actions.cancel(recovery_id=row.pk, reason="", by=RESPONDER)


def test_an_untouched_recovery_is_cancelled_and_frees_its_flow() -> None:
    failed = flow()
    row = actions.open_recovery(flow_id=failed.pk, by=RESPONDER)
    actions.cancel(recovery_id=row.pk, reason="opened by mistake", by=RESPONDER)
    row.refresh_from_db()
    assert (row.state, row.active) == ("cancelled", False)
    assert actions.open_recovery(flow_id=failed.pk, by=RESPONDER).pk != row.pk


def test_a_plan_that_does_not_exist_cannot_be_run() -> None:
    row = recovery("planned")
    with refused("no_plan"):
        actions.execute(recovery_id=row.pk, by=RESPONDER)


def test_an_unknown_recovery_is_said_so() -> None:
    with refused("not_found"):
        actions.execute(recovery_id=404, by=RESPONDER)


def test_a_sealed_plan_that_has_not_run_can_be_taken_back_and_edited_again() -> None:
    row = recovery("planned", choices={"strategy": "continue", "patch": {}})
    sealed = plan(row, "stop", "seed")
    actions.edit_again(recovery_id=row.pk, by=RESPONDER)
    row.refresh_from_db()
    sealed.refresh_from_db()
    assert (row.state, row.choices["strategy"]) == ("diagnosing", "continue")
    assert sealed.voided_at is not None
    assert [(d["what"], d["says"].split()[0]) for d in sealed.drift] == [("plan", "ada")]
    assert set(row.steps.values_list("state", flat=True)) == {"skipped"}
    assert (last().action, last().outcome, last().before["plan"]) == ("plan.withdraw", "done", sealed.hash)
    choose(row.pk, strategy="revert", by=RESPONDER)


@pytest.mark.parametrize("state", ["diagnosing", "running", "verifying", "needs_attention", "succeeded"])
def test_only_a_plan_that_waits_to_be_run_can_be_taken_back(state: str) -> None:
    row = recovery(state)
    sealed = plan(row, "stop")
    with refused("wrong_state"):
        actions.edit_again(recovery_id=row.pk, by=RESPONDER)
    sealed.refresh_from_db()
    assert sealed.voided_at is None


def test_a_plan_that_is_being_sealed_anew_is_not_taken_back() -> None:
    row = recovery("planned", choices={"sealing": {"status": "working"}})
    plan(row, "stop")
    with refused("sealing"):
        actions.edit_again(recovery_id=row.pk, by=RESPONDER)


@pytest.mark.parametrize("state", ["running", "verifying"])
def test_a_run_is_stopped_by_a_wish_that_its_steps_obey(state: str) -> None:
    row = recovery(state)
    actions.stop_run(recovery_id=row.pk, by=RESPONDER)
    row.refresh_from_db()
    assert (row.state, held_by(row.pk)) == (state, "ada")
    assert (last().action, last().outcome) == ("recovery.halt", "done")


@pytest.mark.parametrize("state", ["diagnosing", "planned", "needs_attention", "succeeded"])
def test_what_does_not_run_cannot_be_stopped(state: str) -> None:
    row = recovery(state)
    with refused("wrong_state"):
        actions.stop_run(recovery_id=row.pk, by=RESPONDER)
    assert held_by(row.pk) == ""


def test_resuming_a_stopped_run_takes_the_wish_back_and_wakes_the_step_that_waits() -> None:
    row = recovery("needs_attention", choices={"halt": {"by": "ada"}})
    plan(row, "stop", "seed")
    row.steps.filter(kind="stop").update(state="done")
    actions.execute(recovery_id=row.pk, by=RESPONDER)
    row.refresh_from_db()
    assert (row.state, held_by(row.pk)) == ("running", "")
    assert row.steps.get(kind="seed").woken_at is not None


def test_a_run_is_paused_by_a_wish_that_does_not_stop_what_runs() -> None:
    row = recovery("running")
    actions.pause_run(recovery_id=row.pk, by=RESPONDER)
    assert held_by(row.pk) == "", "an update that is watched goes on to its end"
    halt = halt_of(row.pk)
    assert (halt.by, halt.when) == ("ada", "step")
    assert (last().action, last().outcome) == ("recovery.pause", "done")


@pytest.mark.parametrize("state", ["planned", "verifying", "needs_attention", "succeeded"])
def test_what_has_no_further_step_to_begin_cannot_be_paused(state: str) -> None:
    row = recovery(state, active=state != "succeeded")
    with refused("wrong_state"):
        actions.pause_run(recovery_id=row.pk, by=RESPONDER)
    assert halt_of(row.pk).by == ""


def test_a_pause_does_not_soften_a_stop_and_a_stop_hardens_a_pause() -> None:
    row = recovery("running")
    actions.pause_run(recovery_id=row.pk, by=RESPONDER)
    actions.stop_run(recovery_id=row.pk, by=RESPONDER)
    assert held_by(row.pk) == "ada"
    with refused("stopping"):
        actions.pause_run(recovery_id=row.pk, by=RESPONDER)
    assert held_by(row.pk) == "ada"
