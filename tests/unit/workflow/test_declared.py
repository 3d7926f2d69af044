"""Which sink a flow without a table writes to: told by its code, by the last good one, or refused."""

from collections.abc import Mapping
from typing import Any

import pytest
from django.utils import timezone

from recovery.checkpoints.report import CheckpointReport
from recovery.errors import Refused
from recovery.models import Flow, Pipeline, Stream, Workspace
from recovery.spark.api import Study
from recovery.workflow import declared
from recovery.workflow.steps.rerun import selected

REPORT = CheckpointReport("/c", "structured-streaming", 0, "q", 1, 2)
NOOP = {"name": "s", "format": "noop", "options": {}}
TELLS = Study(operators=(), sink=NOOP)
TABLE = Study(operators=())
BROKEN = Study(problem="x.py, line 3: no")
CASES = [
    ("today's code tells", (TELLS,), None),
    ("the last good one tells", (BROKEN, TELLS), None),
    ("there is no good one", (BROKEN, None), "line 3: no"),
    (
        "it writes a table",
        (TABLE, TELLS),
        "declares no sink of that name, so there is nothing to recover into.$",
    ),
]


@pytest.mark.parametrize(("answers", "refused"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_the_first_code_that_can_be_analysed_says_where_the_flow_writes(
    answers: tuple[Study | None, ...], refused: str | None
) -> None:
    """Code is named by its place among the answers."""
    codes = tuple((lambda n=n, a=a: None if a is None else {"n": str(n)}) for n, a in enumerate(answers))

    def ask(code: Mapping[str, str]) -> Study:
        answer = answers[int(code["n"])]
        assert answer is not None
        return answer

    def look() -> declared.DeclaredSink:
        return declared.find_declared_sink("clicks_out", REPORT, lambda _: REPORT, ask, codes)

    if refused:
        with pytest.raises(Refused, match=refused):
            look()
        return
    assert (look().told, look().place, look().sink.declared) == (NOOP, "", "noop")


def batch(number: int, ms: int | None, *, committed: bool = False) -> dict[str, Any]:
    return {"batch": number, "planned": True, "committed": committed, "timestamp_ms": ms}


@pytest.mark.parametrize(
    ("batches", "last", "since"),
    [
        ((batch(1, 20, committed=True), batch(0, 10, committed=True)), 1, None),
        ((batch(2, 30), batch(1, 20, committed=True)), 1, 30),
        ((batch(3, 40), batch(2, 30), batch(1, 20)), 1, 30),
        ((batch(0, 5),), None, 5),
        ((batch(2, None),), 1, 0),
    ],
    ids=["none", "one", "the oldest of two", "the first of all", "its file cannot be read"],
)
def test_an_open_batch_was_planned_then(
    batches: tuple[dict[str, Any], ...], last: int | None, since: int | None
) -> None:
    report = CheckpointReport("/c", "structured-streaming", 0, "q", last, 3, batches=batches)
    assert declared.open_since(report) == since


@pytest.mark.parametrize(("tables", "body"), [(["a.b.c"], {"refresh_selection": ["a.b.c"]}), ([], {})])
def test_without_a_table_to_name_the_whole_pipeline_is_updated(
    tables: list[str], body: dict[str, Any]
) -> None:
    assert selected(tables) == body


@pytest.mark.django_db
def test_every_flow_that_the_code_has_runs_with_a_declared_sink_whatever_is_known_of_it() -> None:
    """One of which no update was read was left out, and the proof then claimed that nothing else had changed."""
    here = Workspace.objects.create(
        name="w", url="http://127.0.0.1:1", token_ref="env:X", environment="staging"
    )
    now = timezone.now()
    completed = {"update_id": "u1", "state": "COMPLETED", "flows": {"a.b.orders": {"outcome": "ok"}}}
    pipeline = Pipeline.objects.create(
        workspace=here, pipeline_id="p", name="p", state="IDLE", seen_at=now, updates=[completed]
    )
    states = {"sink": "failed", "orders": "unknown", "users": "ok", "removed": "unknown"}
    flows = {
        short: Flow.objects.create(
            pipeline=pipeline,
            name=f"a.b.{short}",
            short=short,
            dataset=f"a.b.{short}",
            state=state,
            updated_at=now,
        )
        for short, state in states.items()
    }
    assert [one.short for one in declared.find_flows_beside(flows["sink"])] == ["orders", "users"]
    assert declared.find_flows_beside(flows["sink"])[0].places == (
        "checkpoint a.b.orders",
        "table a.b.orders",
    )


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("program", "arguments", "names"),
    [("/srv/jobs.py", ["--all"], ["logins"]), ("/srv/jobs.py", ["--one"], []), ("", ["--all"], [])],
    ids=["one program", "other arguments", "no program is named"],
)
def test_streams_of_one_program_are_started_together(
    program: str, arguments: list[str], names: list[str]
) -> None:
    here = Workspace.objects.create(name="streams", kind="streams", environment="development")
    for name, given in (("orders", ["--all"]), ("logins", arguments)):
        pipeline = Pipeline.objects.create(
            workspace=here, pipeline_id=name, name=name, seen_at=timezone.now()
        )
        Flow.objects.create(pipeline=pipeline, name=name, short=name, updated_at=timezone.now())
        Stream.objects.create(
            pipeline=pipeline,
            checkpoint=f"/c/{name}",
            program=program,
            arguments=given,
            adopted_at=timezone.now(),
        )
    assert [flow.short for flow in declared.find_streams_beside(Flow.objects.get(name="orders"))] == names
