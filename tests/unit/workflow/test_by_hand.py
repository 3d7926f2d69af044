"""What commands find in their way: an open recovery in each state, and what it says to do."""

import re
import time
from argparse import ArgumentParser
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from recovery.contracts.acceptance import Effect
from recovery.contracts.choices import ChoicesChange
from recovery.contracts.names import ChangeIntent
from recovery.errors import Refused, RepriseError, Unreachable
from recovery.management.commands import _acting
from recovery.models import AuditEntry, Flow, Pipeline, Recovery, Stream, StreamStart, Workspace
from recovery.people.roles import Actor
from recovery.planning import plan_now
from recovery.workflow import broker, by_hand, selectors
from recovery.workflow.steps.rollback import RollbackRefusal
from recovery.workflow.usual import UsualDuration, UsualOf
from tests import factories
from tests.unit.workflow.rows import RESPONDER, flow, plan, recovery

pytestmark = pytest.mark.django_db


def test_a_recovery_without_a_plan_is_gone_on_with() -> None:
    row = recovery("diagnosing")
    assert by_hand.open_or_go_on(row.flow, by=RESPONDER) == row


@pytest.mark.parametrize(
    ("state", "does"),
    [
        ("planned", "bin/manage plan --again"),
        ("running", "bin/manage stop"),
        ("verifying", "bin/manage stop"),
        ("needs_attention", "bin/manage execute"),
    ],
)
def test_one_that_is_further_is_refused_with_what_can_be_done(state: str, does: str) -> None:
    row = recovery(state)
    plan(row, "stop")
    with pytest.raises(RepriseError, match=does) as refused:
        by_hand.open_or_go_on(row.flow, by=RESPONDER)
    assert row.label in refused.value.sentence


@pytest.mark.parametrize(
    ("refusal", "offers"),
    [
        (None, True),
        (RollbackRefusal("Batch 4 was committed since."), False),
        (RollbackRefusal("The stream runs. Stop it first.", "running"), False),
        (Unreachable("The storage does not answer."), False),
    ],
    ids=["possible", "final", "while it runs", "not known"],
)
@pytest.mark.parametrize("made", [factories.not_proven, factories.unproven])
def test_a_rollback_is_named_only_where_it_is_possible(
    made: Callable[[], Recovery],
    refusal: RollbackRefusal | Unreachable | None,
    offers: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def find_refusal(recovery: Recovery) -> RollbackRefusal | None:
        if isinstance(refusal, Unreachable):
            raise refusal
        return refusal

    row = made()
    monkeypatch.setattr(selectors, "find_refusal", find_refusal)
    assert (f"bin/manage rollback {row.label}" in by_hand.name_ways_on(row)) == offers


def test_again_takes_the_sealed_plan_back_and_goes_on() -> None:
    row = recovery("planned")
    sealed = plan(row, "stop")
    assert by_hand.open_or_go_on(row.flow, by=RESPONDER, again=True).state == "diagnosing"
    sealed.refresh_from_db()
    assert sealed.voided_at is not None


def test_again_does_not_touch_what_runs() -> None:
    row = recovery("running")
    plan(row, "stop")
    with pytest.raises(RepriseError):
        by_hand.open_or_go_on(row.flow, by=RESPONDER, again=True)
    assert Recovery.objects.get(pk=row.pk).state == "running"


@pytest.mark.parametrize(
    ("running", "starts", "stops"), [(True, False, 1), (False, True, 1), (True, True, 1), (False, False, 0)]
)
def test_a_pipeline_is_stopped_where_it_runs_and_where_something_can_start_it(
    monkeypatch: pytest.MonkeyPatch, running: bool, starts: bool, stops: int
) -> None:
    row = recovery("diagnosing")
    monkeypatch.setattr(by_hand, "is_running", lambda flow: running)
    monkeypatch.setattr(by_hand, "can_start", lambda flow: starts)
    monkeypatch.setattr(by_hand, "_wait_for_step", lambda step_id, until, say: None)
    monkeypatch.setattr(broker, "check", lambda: None)
    by_hand.stop_first(flow=row.flow, recovery_id=row.pk, by=RESPONDER, say=lambda line: None)
    assert row.steps.filter(kind="stop").count() == stops


def test_the_options_of_a_plan_are_what_is_sealed(monkeypatch: pytest.MonkeyPatch) -> None:
    parser, sealed, of = ArgumentParser(), dict[str, Any](), recovery("diagnosing").flow
    _acting.plan_options(parser)
    given = "orders --strategy rewind --key a,b --position 0=earliest --position 1=latest --accept-loss --confirm 0->1"
    monkeypatch.setattr(plan_now, "make_plan", lambda **told: sealed.update(told))

    _acting.seal(of, vars(parser.parse_args(given.split())), {"/p/q.py": "x = 1"}, by=RESPONDER, again=True)

    assert sealed == {
        "flow": of, "again": True, "by": RESPONDER, "positions": ["0=earliest", "1=latest"],
        "accept": (Effect.LOSS,),
        "change": ChoicesChange(
            strategy="rewind", default_strategy=True, key=("a", "b"), patch={"/p/q.py": "x = 1"}, confirmed=("0->1",)
        ),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "flow", "strategy"),
    [
        ("orders --flow returns=prime", "returns", "prime"),
        ("orders --flow returns --strategy prime", "returns", "prime"),
        ("orders", None, None),
    ],
)
def test_one_flow_may_name_its_strategy_too(given: str, flow: str | None, strategy: str | None) -> None:
    parser = ArgumentParser()
    _acting.plan_options(parser)
    options = _acting.split_flow(vars(parser.parse_args(given.split())))
    assert (options["flow"], options["strategy"]) == (flow, strategy)


def test_who_stops_by_command_reads_what_the_step_asks_of_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    step = recovery("diagnosing").steps.create(
        kind="stop",
        ordinal=1,
        state="done",
        idempotency_key="k",
        log=[["2026-11-27T22:00:00", "Stop it now."]],
    )
    said: list[str] = []
    by_hand._wait_for_step(step.pk, time.monotonic() + 5, said.append)
    assert [line.split()[1:] for line in said] == [["stop", "Stop", "it", "now."]]


def test_the_source_of_the_workspace_is_named_as_what_runs() -> None:
    parser = ArgumentParser()
    _acting.plan_options(parser)
    for given, patch in (("orders", None), ("orders --keep-code", {})):
        assert _acting.read_change(vars(parser.parse_args(given.split())), None).patch == patch


MEANT = [
    (ChangeIntent.NO, "revert"),
    (ChangeIntent.YES, "continue"),
    (ChangeIntent.UNKNOWN, "continue"),
    (None, "continue"),
]


@pytest.mark.parametrize("named", ["orders", "R-1"])
@pytest.mark.parametrize(("meant", "strategy"), MEANT)
def test_whether_the_change_was_meant_names_the_strategy_where_no_one_does(
    monkeypatch: pytest.MonkeyPatch, named: str, meant: ChangeIntent | None, strategy: str
) -> None:
    parser, asked, of = ArgumentParser(), list[str](), recovery("diagnosing").flow
    _acting.plan_options(parser)
    given = [named, *(["--meant", meant.value] if meant else [])]

    def stop_there(flow: Flow, name: str, by: Actor) -> None:
        asked.append(name)
        raise Refused("Far enough.", code="stopped")

    monkeypatch.setattr(plan_now, "_require_plannable", stop_there)
    with pytest.raises(Refused):
        _acting.seal(of, vars(parser.parse_args(given)), None, by=RESPONDER)
    assert asked == [strategy]


def test_the_answer_that_an_open_recovery_holds_names_the_strategy_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, of = list[str](), recovery("diagnosing", choices={"meant": "no"}).flow
    monkeypatch.setattr(plan_now, "_require_plannable", lambda flow, name, by: asked.append(name))
    with pytest.raises(RepriseError):  # it takes no position
        plan_now.make_plan(
            flow=of, change=ChoicesChange(default_strategy=True), positions=["0=earliest"], by=RESPONDER
        )
    assert asked == ["revert"]


def test_a_file_of_a_folder_that_differs_in_line_ends_alone_is_no_edit(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"x = 1\ny = 2\n")
    (tmp_path / "b.py").write_bytes(b"x = 2\n")
    now = {"/p/a.py": "x = 1\r\ny = 2\r\n", "/p/b.py": "x = 1\n"}
    assert by_hand._folder(tmp_path, now, "/p", tuple(now)) == {"/p/b.py": "x = 2\n"}


def test_a_plan_that_no_storage_lets_run_is_refused_before_anything_is_opened() -> None:
    kept = flow()
    Pipeline.objects.filter(pk=kept.pipeline_id).update(spec={})
    kept.pipeline.refresh_from_db()
    with pytest.raises(Refused) as refusal:
        plan_now.make_plan(flow=kept, change=ChoicesChange(strategy="continue"), by=RESPONDER)
    assert refusal.value.code == "no_storage"
    assert Recovery.objects.count() == 0
    assert AuditEntry.objects.filter(action="recovery.open", outcome="failed").count() == 1


def of_program(row: Recovery) -> Recovery:
    Workspace.objects.update(kind="streams")
    return Recovery.objects.get(pk=row.pk)


@pytest.mark.parametrize(
    ("made", "strategy"),
    [
        (factories.rows_missing, "top-up"),
        (factories.rows_repeated, "deduplicate"),
        (partial(factories.rows_missing, kind="files"), None),
        (lambda: of_program(factories.rows_repeated()), None),
        (factories.not_proven, None),
    ],
    ids=[
        "rows are missing",
        "rows repeat",
        "no table that can be added to",
        "a plain program's table",
        "steps are left",
    ],
)
def test_a_proof_that_does_not_hold_names_the_command_that_corrects_the_table(
    made: Callable[[], Recovery], strategy: str | None
) -> None:
    row = made()
    last = _acting.ended(row).text.splitlines()[-1]
    planned = re.search(r"bin/manage plan (\S+) --strategy (\S+)", last)
    assert (planned and planned.groups()) == (strategy and (row.label, strategy))
    assert f"execute {row.label}" in last


@pytest.mark.parametrize("is_usual", [True, False], ids=["ran before", "never ran"])
def test_a_step_that_says_nothing_for_a_while_is_said_to_run(
    monkeypatch: pytest.MonkeyPatch, is_usual: bool
) -> None:
    row = recovery("running")
    step = row.steps.create(kind="rerun", ordinal=1, state="running", idempotency_key="k")
    step.started_at = timezone.now() - timedelta(seconds=40)
    step.save()
    usual = {"rerun": UsualDuration(30.4, 20, 40, 3, UsualOf.FLOW)} if is_usual else {}
    monkeypatch.setattr(by_hand, "usual_steps", lambda flow: usual)
    monkeypatch.setattr(by_hand, "SILENCE_SECONDS", 0)
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        row.steps.update(state="done")
        Recovery.objects.update(state="succeeded")

    by_hand.wait(row, say=say, timeout=5)
    (line,) = said
    ran, *usually = map(int, re.findall(r"(\d+) s\b", line))
    assert line.split()[1] == "rerun"
    assert 40 <= ran < 50
    assert usually == ([30] if is_usual else [])


@pytest.mark.parametrize(
    ("state", "lasts", "usually"),
    [("WAITING_FOR_RESOURCES", 20, []), ("RUNNING", 40, [30])],
    ids=["not started", "started"],
)
def test_a_step_that_waits_for_a_person_to_start_the_stream_is_not_said_to_run(
    monkeypatch: pytest.MonkeyPatch, state: str, lasts: int, usually: list[int]
) -> None:
    now = timezone.now()
    made = factories.flow(
        factories.pipeline(factories.workspace("streams", kind="streams"), "orders"), "orders"
    )
    stream = Stream.objects.create(pipeline=made.pipeline, checkpoint="/data/orders", adopted_at=now)
    StreamStart.objects.create(
        stream=stream, update_id="start-1", asked_at=now - timedelta(seconds=20), batch_before=2, by_hand=True
    )
    step = recovery("running", flow=made).steps.create(
        kind="rerun", ordinal=1, state="running", idempotency_key="k", started_at=now - timedelta(seconds=40),
        result={"update_id": "start-1", "watched": {"began": now.isoformat(), "state": state}},
    )  # fmt: skip
    said: list[str] = []
    by_hand._say_still_running(
        [step], {"rerun": UsualDuration(30.4, 20, 40, 3, UsualOf.FLOW)}, lambda line: said.append(line)
    )
    ran, *rest = map(int, re.findall(r"(\d+) s\b", said[0]))
    assert lasts <= ran < lasts + 10
    assert rest == usually
    assert ("Runs" in said[0]) == bool(usually)
