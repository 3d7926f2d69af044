"""Who reads a flow's table as the inventory knows it, which update refreshes them, and what of that is no change."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from recovery.contracts import codec
from recovery.contracts.criteria import Criterion
from recovery.contracts.forecast import DatasetKind, Downstream, DownstreamEffect
from recovery.contracts.names import StepKind
from recovery.contracts.results import UpdateResult
from recovery.contracts.steps import PlannedStep
from recovery.errors import Refused
from recovery.models import Plan
from recovery.strategies.downstream import AGREES
from recovery.strategies.readers import DownstreamReader
from recovery.workflow import refreshed
from recovery.workflow.below import readers_of
from recovery.workflow.plan_basis import digest_basis
from recovery.workflow.steps import refresh
from tests import factories as f
from tests.factories.judged import forecast_of
from tests.factories.plans import plan_body
from tests.unit.workflow.rows import RESPONDER, choose
from tests.unit.workflow.test_rerun import context, run  # noqa: F401


@pytest.mark.django_db
def test_readers_are_found_through_views_and_in_other_pipelines_of_the_workspace() -> None:
    failed = f.failed_flow()
    late = {"state": "empty", "behind_why": "emptied"}
    view = f.view(failed.pipeline, **late)
    copy = f.flow(failed.pipeline, "copy", inputs=[failed.dataset], flow_type="APPEND")
    other = f.pipeline(name="sales")
    report = f.view(other, "report", inputs=[view.dataset])
    f.view(f.pipeline(f.workspace("another"), name="far"), "far", inputs=[failed.dataset])
    f.flow(failed.pipeline, "unrelated")

    found = readers_of(failed)

    assert set(found[:2]) == {
        DownstreamReader(
            view.dataset,
            view.name,
            view=True,
            state="empty",
            emptied=True,
            inputs=(failed.dataset,),
        ),
        DownstreamReader(copy.dataset, copy.name, view=False, inputs=(failed.dataset,)),
    }
    assert found[2:] == (
        DownstreamReader(report.dataset, report.name, view=True, pipeline="sales", inputs=(view.dataset,)),
    )


@pytest.mark.django_db
def test_two_pipelines_may_have_a_temporary_view_of_one_name() -> None:
    """The view of a pipeline made later hides no reader, and makes none."""
    failed = f.failed_flow()
    total = f.view(failed.pipeline, "total", inputs=["tv"])
    f.flow(failed.pipeline, "tv", name="tv", dataset="tv", inputs=[failed.dataset], flow_type="VIEW")
    other = f.pipeline(name="later")
    f.flow(other, "tv", name="tv", dataset="tv", inputs=["spark_catalog.other.t"], flow_type="VIEW")
    f.view(other, "foreign", inputs=["tv"])

    assert readers_of(failed) == (
        DownstreamReader(total.dataset, total.name, view=True, inputs=(failed.dataset,)),
    )


@pytest.mark.django_db
def test_what_two_pipelines_write_is_named_once_and_as_ones_own() -> None:
    failed = f.failed_flow()
    own = f.view(failed.pipeline, "twice", inputs=[failed.dataset])
    f.view(f.pipeline(name="twin"), "twice", inputs=[failed.dataset])
    assert [(r.dataset, r.pipeline) for r in readers_of(failed)] == [(own.dataset, "")]


@pytest.mark.django_db
def test_whether_what_is_below_is_refreshed_is_a_choice_that_the_plan_rests_on() -> None:
    recovery = f.opened(f.incident())
    before = digest_basis(recovery)
    for refreshes in (False, True):
        choose(recovery.pk, refresh_below=refreshes, by=RESPONDER)
        recovery.refresh_from_db()
        assert recovery.chosen.refresh_below is refreshes
        assert (digest_basis(recovery) == before) is refreshes


def test_the_refresh_selects_what_is_below_and_is_started_once(context: Any) -> None:  # noqa: F811
    asked: list[dict[str, Any]] = []
    start = context.client._start
    context.client._start = lambda pipeline, **body: (asked.append(body), start(pipeline, **body))[1]
    context.step.args = {"refresh": ["v", "w"], "flows": ["v", "w"]}
    with pytest.raises(Refused):
        run(context, refresh)
    assert asked == [{"refresh_selection": ["v", "w"]}]
    assert codec.read(UpdateResult, context.step.result).started == ("u-1",)
    noted = {"newest_before": "u-0", "asked": context.step.result["asked"]}
    context.step.result = {**noted, "updates": []}  # its worker was killed before it could note the id
    with pytest.raises(Refused):
        run(context, refresh)
    assert len(asked) == 1
    assert refresh.probe(context.step).outcome == "repeat"


def refreshing(flows: dict[str, str], downstream: Sequence[Downstream] = ()) -> Plan:
    """A plan that refreshes these datasets, each with its flow; none of them can be compared."""
    args = {"refresh": list(flows), "flows": list(flows.values())}
    step = PlannedStep(kind=StepKind.REFRESH, says="", args=args)
    criterion = Criterion(code=AGREES, says="", expected={"datasets": list(flows), "compared": []})
    body = plan_body(
        steps=[codec.to_json(step)] if flows else [],
        criteria=[codec.to_json(criterion)],
        forecast=codec.to_json(forecast_of(downstream=tuple(downstream))),
    )
    return Plan(body=body)


def test_what_the_plan_itself_refreshes_is_no_change_beside_it() -> None:
    plan = refreshing({"c.s.v": "c.s.v_flow"})
    others: dict[str, str | None] = {"table c.s.v": "1", "checkpoint c.s.v_flow": "2", "table c.s.w": "3"}
    assert refreshed.without_refreshed(plan, others) == {"table c.s.w": "3"}
    assert refreshed.without_refreshed(refreshing({}), others) == others


def test_why_a_dataset_is_not_compared_is_measured_with_it() -> None:
    kinds = {"c.s.copy": "table", "c.s.sql": "view"}
    planned = [
        Downstream(dataset=name, effect=DownstreamEffect.REFRESHED, kind=DatasetKind(kind))
        for name, kind in kinds.items()
    ]
    plan = refreshing({name: name for name in kinds}, planned)
    snapshot: Any = SimpleNamespace(
        client=SimpleNamespace(events=lambda *_, **__: []),
        flow=SimpleNamespace(pipeline=SimpleNamespace(pipeline_id="p")),
    )
    found = refreshed.measure_refreshed(snapshot, plan, UpdateResult(update_id="u-1"))
    assert found is not None
    assert [dataset.not_compared for dataset in found] == ["reads_stream", "defined_in_sql"]


def test_a_refresh_that_was_not_done_is_not_measured() -> None:
    snapshot: Any = SimpleNamespace()
    assert refreshed.measure_refreshed(snapshot, refreshing({"v": "v"}), UpdateResult()) is None
    assert refreshed.measure_refreshed(snapshot, refreshing({}), UpdateResult()) == ()


@pytest.mark.django_db
def test_a_reader_names_what_it_also_reads_and_is_behind() -> None:
    failed = f.failed_flow()
    f.view(failed.pipeline, "other", inputs=[], state="stale", behind_why="left_out")
    f.view(failed.pipeline, "well", inputs=[])
    named = [f"spark_catalog.crm.{name}" for name in ("other", "well")]
    f.view(failed.pipeline, "both", inputs=[failed.dataset, *named])
    assert [r.late_inputs for r in readers_of(failed)] == [(named[0],)]
