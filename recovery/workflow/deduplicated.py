"""Rows that a plan deletes from its table as it has them too often: asked of Spark, and measured.

As with a top-up (`topped`) the flow starts no update and its checkpoint stays, so the proof needs no further update.
"""

from collections.abc import Mapping

from django.conf import settings

from recovery.contracts.plan import PlanBody
from recovery.errors import Refused
from recovery.pipelines.workspaces import questions_service
from recovery.sinks.base import SinkReport
from recovery.spark.api import Measure, MeasureRequest, WholeInput, measure
from recovery.spark.backups import DeduplicateRequest, Filled, deduplicate
from recovery.verification.evidence import Evidence
from recovery.workflow import whole
from recovery.workflow.budgets import budgets
from recovery.workflow.flow_snapshot import Scene
from recovery.workflow.readers import Readers
from recovery.workflow.topped import SCOPE, study_of


def delete(scene: Scene, contents: PlanBody, *, before: int, app_id: str, timeout: float) -> Filled:
    """Have Spark delete the rows that version `before` of the table has too often. Raises Refused where the input
    cannot be read once more, Unreachable."""
    args = contents.deduplicate_args
    assert args is not None, "only a plan that deduplicates deletes rows"
    read, committed = whole.committed_input(scene, contents, Readers(lambda: scene))
    if committed is None or read.partial:
        raise Refused(
            f"Not all committed input can be read once more ({read.why or 'some of it is gone'}), so which rows repeat "
            "is not known.",
            code="unreadable",
        )
    return deduplicate(
        DeduplicateRequest(
            answers=questions_service(scene.flow.pipeline.workspace, scene.flow.pipeline.environment),
            table=contents.dataset,
            location=scene.table_place,
            before=before,
            study=study_of(scene, contents, committed),
            key=contents.key,
            app_id=app_id,
            rows=args.rows,
        ),
        timeout=timeout,
    )


def collect(
    scene: Scene,
    contents: PlanBody,
    *,
    version: int,
    others_before: Mapping[str, str | None],
    others_after: Mapping[str, str | None],
) -> Evidence:
    """Evidence of a deduplicate. `version`: of the table before it."""
    read, committed = whole.committed_input(scene, contents, Readers(lambda: scene))
    if committed is None:
        measured = Measure(problem=f"The committed input cannot be read once more ({read.why}).")
    else:
        measured = _measure_versions(scene, contents, committed, version)
    return Evidence(
        scope=SCOPE,
        old=scene.checkpoint,
        new=scene.checkpoint,
        listed=None,
        first_batch=None,
        sink_before=SinkReport(scene.sink.kind, scene.sink.location, None, version=version),
        sink_after=scene.sink,
        measure=measured,
        measured_since=version,
        whole_flow=read,
        others_before=others_before,
        others_after=others_after,
    )


def _measure_versions(scene: Scene, contents: PlanBody, committed: WholeInput, version: int) -> Measure:
    asked = MeasureRequest(
        answers=questions_service(scene.flow.pipeline.workspace, scene.flow.pipeline.environment),
        table=contents.dataset,
        old_files=(),
        new_files=(),
        old_version=version,
        study=study_of(scene, contents, committed),
        key=contents.key,
        whole=committed,
        budgets=budgets(scene.flow.name),
        deduplicated=True,
    )
    return measure(asked, timeout=settings.REPRISE_MEASURE_SECONDS)
