"""What the refresh made of the datasets downstream: the events of its update, and Spark's comparison of each view."""

from collections.abc import Mapping
from dataclasses import replace

from recovery.contracts.criterion_values import ExpectedDatasets
from recovery.contracts.names import StepKind
from recovery.contracts.refreshed import NotCompared, RefreshedDataset
from recovery.contracts.results import UpdateResult
from recovery.contracts.steps import UpdateArgs
from recovery.errors import RepriseError
from recovery.models import Plan
from recovery.pipelines.events import statuses
from recovery.pipelines.workspaces import questions_service
from recovery.spark.api import DefinedRequest, DefinitionMeasure, defined
from recovery.strategies.base import checkpoint_watched, table_watched
from recovery.verification.below import DONE
from recovery.workflow.flow_snapshot import NO_COUNTS, FlowSnapshot, other_fingerprints, request_for
from recovery.workflow.joining import plans_together


def list_refreshed(plan: Plan) -> dict[str, str]:
    """Datasets that a plan refreshes, each with the flow that writes it; none where it has no such step."""
    refresh = plan.contents.find_step(StepKind.REFRESH)
    args = refresh.args_as(UpdateArgs) if refresh else UpdateArgs()
    return dict(zip(args.refresh, args.flows, strict=True))


def without_refreshed(plan: Plan, others: Mapping[str, str | None]) -> dict[str, str | None]:
    """Fingerprints of other places without those that the plan itself refreshes, and without what the plans that run
    together with it write: each of them is proven on its own."""
    written: dict[str, str] = {}
    for one in plans_together(plan):
        written |= list_refreshed(one)
        if one.pk != plan.pk:
            written[one.contents.dataset] = one.contents.flow
    ours = {table_watched(name) for name in written} | {checkpoint_watched(flow) for flow in written.values()}
    return {name: print_ for name, print_ in others.items() if name not in ours}


def of_together(plan: Plan, others: Mapping[str, str | None]) -> dict[str, str | None]:
    """Of these fingerprints, those of what the plans that run together with this one write."""
    written = [other.contents for other in plans_together(plan) if other.pk != plan.pk]
    watched = {table_watched(body.dataset) for body in written}
    watched |= {checkpoint_watched(body.flow) for body in written}
    return {name: print_ for name, print_ in others.items() if name in watched}


def read_together(plan: Plan, snapshot: FlowSnapshot) -> dict[str, str | None] | None:
    """The same, read now; None where the plan runs alone. The shared update is over, and no later one of this plan may
    write there: a table that was proven before would change after its proof."""
    return None if plans_together(plan) == [plan] else of_together(plan, other_fingerprints(snapshot))


def measure_refreshed(
    snapshot: FlowSnapshot, plan: Plan, result: UpdateResult
) -> tuple[RefreshedDataset, ...] | None:
    """Each dataset that the plan refreshes, after it. `result`: of its step, empty where that
    was not done."""
    if not list_refreshed(plan):
        return ()
    if not (update_id := result.update_id):
        return None
    told = snapshot.client.events(snapshot.flow.pipeline.pipeline_id, filter=f"update_id = '{update_id}'")
    said = statuses(told, update_id)
    compared = {
        name
        for criterion in plan.contents.criteria
        if isinstance(criterion.expected, ExpectedDatasets)
        for name in criterion.expected.compared
    }
    tables = {d.dataset for d in plan.contents.forecast.downstream if not d.view}
    found = []
    for dataset, flow in list_refreshed(plan).items():
        why = _not_compared(dataset in compared, table=dataset in tables)
        status = said[flow].status if flow in said else ""
        one = RefreshedDataset(
            dataset=dataset,
            status=status,
            compared=dataset in compared,
            not_compared=why,
            view=dataset not in tables,
        )
        found.append(_compared(snapshot, one, flow) if one.compared and one.status == DONE else one)
    return tuple(found)


def _not_compared(compared: bool, *, table: bool) -> NotCompared:
    if compared:
        return NotCompared.NONE
    return NotCompared.READS_STREAM if table else NotCompared.DEFINED_IN_SQL


def _compared(snapshot: FlowSnapshot, one: RefreshedDataset, flow: str) -> RefreshedDataset:
    study = replace(request_for(snapshot, snapshot.code, NO_COUNTS, ()), flow=flow, table=None)
    answers = questions_service(snapshot.flow.pipeline.workspace, snapshot.flow.pipeline.environment)
    try:
        found = defined(DefinedRequest(answers, one.dataset, study))
    except RepriseError as problem:
        found = DefinitionMeasure(problem=problem.sentence)
    return RefreshedDataset(
        dataset=one.dataset,
        status=one.status,
        compared=one.compared,
        not_compared=one.not_compared,
        view=one.view,
        rows=found.rows,
        expected_rows=found.expected_rows,
        missing=found.missing,
        extra=found.extra,
        problem=found.problem or "",
        unsure=found.unsure,
        left_out=found.left_out,
        rows_unsure=found.rows_unsure,
        table_only=found.table_only,
    )
