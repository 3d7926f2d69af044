"""What Review shows of each planned step: what the plan expects of it, and how long such steps took before."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from console.presenters import expected_steps
from console.presenters.reviewing import plan_view
from recovery.contracts.names import StepKind
from recovery.contracts.plan import PlanBody
from recovery.models import Recovery, Step
from recovery.workflow.usual import UsualDuration, UsualOf
from tests import factories as f
from tests.factories.plans import plan_contents
from tests.pages import parse
from tests.unit.pages.reading import text

SHA = "ab12cd34" + "0" * 56
FIXED = {"code": "COUNTS_EQUAL_FORECAST", "says": "", "expected": {"new_rows": 8}}
FILE = {"path": "/a.py", "before_sha256": "0" * 64, "after_sha256": SHA, "diff": ""}
LOST = {"rows": 3, "files": 0, "from": None, "to": None, "exact": True, "why": "", "bound": "exact"}
WAITING = [{"path": f"file:/in/{n}", "size": 1, "mtime_ms": None} for n in range(3)]
PLACE = {"label": "", "offset_json": None, "name": None}
READ = [{"source": 0, "location": "", "kind": "files", "before": PLACE, "after": PLACE}]


def planned(kind: str, args: dict[str, Any] | None = None, **changes: Any) -> PlanBody:
    return plan_contents(steps=[{"kind": kind, "says": "", "args": args or {}}], **changes)


@pytest.mark.parametrize(
    ("plan", "parts"),
    [
        pytest.param(planned("stop"), ["nothing runs", "as sealed"], id="stop"),
        pytest.param(
            planned("backup", preconditions={"code": {"/a.py": SHA}}), ["1 source file", "batch 2"], id="backup"
        ),
        pytest.param(planned("table-backup", table_rows=12), ["12 rows"], id="table backup"),
        pytest.param(planned("table-backup"), ["every row"], id="table backup, not counted"),
        pytest.param(planned("patch", patch=[FILE]), ["ab12cd34"], id="patch"),
        pytest.param(
            planned("restore", {"kind": "delta", "batch": 4, "version": 7, "removed_batches": 2, "removed_files": 3,
                                "kept_rows": 90}),
            ["batch 4", "90 rows"], id="restore",
        ),
        pytest.param(planned("seed"), ["version 1", "batch 3", "version 0 untouched"], id="seed"),
        pytest.param(
            planned("seed", preconditions={"checkpoint": {"version": None}}), ["batch 3", "set aside"],
            id="seed of a checkpoint with one place",
        ),
        pytest.param(
            planned("rerun", criteria=[FIXED], forecast={"new_rows": 8}, waiting_files=WAITING, positions=READ),
            ["batch 3", "8 rows", "3 files"], id="rerun",
        ),
        pytest.param(planned("rerun", forecast={"new_rows": 8}), ["batch 3", "not known"], id="rerun, no exact count"),
        pytest.param(planned("fill", {"rows": 2}), ["2 rows"], id="fill"),
        pytest.param(planned("deduplicate", {"rows": 60}), ["60 rows"], id="deduplicate"),
        pytest.param(planned("refresh", {"refresh": ["c.s.view", "c.s.copy"]}), ["view, copy"], id="refresh"),
        pytest.param(planned("verify", criteria=[FIXED]), ["1 criterion holds"], id="verify"),
        pytest.param(planned("verify", criteria=[FIXED, FIXED], forecast={"lost": LOST}),
                     ["2 criteria hold", "3 rows lost"], id="verify, as accepted"),
    ],
)  # fmt: skip
def test_each_step_shows_what_the_plan_expects_of_it(plan: PlanBody, parts: list[str]) -> None:
    shown = expected_steps.expect_result(plan, plan.steps[0])
    assert [part for part in parts if part not in shown] == []


def test_no_kind_of_step_is_without_its_expectation() -> None:
    kinds = [kind for kind in StepKind if kind is not StepKind.ROLLBACK]
    assert [kind for kind in kinds if kind not in expected_steps.EXPECTATIONS] == []


def usual(seconds: float) -> UsualDuration:
    return UsualDuration(seconds, seconds, seconds, 2, UsualOf.FLOW)


@pytest.mark.parametrize(
    ("history", "code"),
    [
        ({"stop": 1.0, "rerun": 5.0}, "all"),
        ({"rerun": 5.0}, "some"),
        ({}, "none"),
    ],
)  # fmt: skip
def test_a_total_time_is_told_only_where_each_step_has_run_before(
    history: dict[str, float], code: str
) -> None:
    plan = plan_contents(steps=[{"kind": kind, "says": "", "args": {}} for kind in ("stop", "rerun")])
    total = expected_steps.total_time(plan, {kind: usual(s) for kind, s in history.items()})
    assert (total.code, total.seconds) == (code, 6.0 if code == "all" else 5.0 if code == "some" else None)


@pytest.mark.django_db
def test_review_shows_the_usual_time_of_this_flow_before_the_run_and_none_after(responder: Client) -> None:
    made = f.planned()
    earlier = Recovery.objects.create(
        flow=made.flow, state="succeeded", active=False, created_by="ada", owner="ada"
    )
    now = timezone.now()
    for number, kind in enumerate(s.kind for s in made.plans.get().contents.steps):
        given = {"started_at": now - timedelta(seconds=2), "ended_at": now, "idempotency_key": f"k-{number}"}
        Step.objects.create(
            recovery=earlier, plan=made.plans.get(), ordinal=number, kind=kind, state="done", **given
        )
    address = f"/recoveries/{made.pk}/review"
    page = parse(text(responder, address))
    count = len(made.plans.get().contents.steps)
    assert page.value("total-all") == str(2.0 * count)
    assert len(page.all("td", data_label="Expected")) == len(page.all("td", data_label="Usual")) == count
    Recovery.objects.filter(pk=made.pk).update(state="succeeded", active=False)
    assert parse(text(responder, address)).all("td", data_label="Usual") == []


@pytest.mark.django_db
def test_a_review_without_history_shows_what_is_expected_all_the_same() -> None:
    shown = plan_view(f.planned().plans.get())
    assert all(step.expected for step in shown.steps)
    assert shown.total is None
