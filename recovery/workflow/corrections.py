"""Corrections of a table: rows that it lacks are added (top-up), or rows that it has too often are deleted
(deduplicate). They are asked of Spark, found in the table's log, measured, and put back.

The flow starts no update, and its checkpoint stays: what is expected is what the code of now yields over all input that
the checkpoint has committed. So the proof needs no further update either, and looks at the whole table.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from django.conf import settings

from recovery.approvals.selectors import plan_in_force
from recovery.contracts.criterion_values import ExpectedRows
from recovery.contracts.plan import PlanBody
from recovery.errors import OutcomeUnknown, Refused
from recovery.models import Plan, Recovery
from recovery.pipelines.workspaces import questions_service
from recovery.sinks.base import SinkReport
from recovery.sinks.live import delta, earlier
from recovery.spark.api import Measure, MeasureRequest, StudyRequest, WholeInput, measure
from recovery.spark.backups import (
    CorrectionRequest,
    FillAnswer,
    delete_repeats,
    top_up,
)
from recovery.verification.evidence import Evidence
from recovery.workflow import backups, whole
from recovery.workflow.budgets import budgets
from recovery.workflow.evidence import came_since
from recovery.workflow.flow_snapshot import FlowSnapshot, request_for
from recovery.workflow.inputs import CountRequest
from recovery.workflow.noted_version import read_noted_version
from recovery.workflow.readers import Readers
from recovery.workflow.steps.base import Context

SCOPE = "same"  # no batch is new, and the checkpoint is the one of before


def add_missing(
    snapshot: FlowSnapshot, contents: PlanBody, *, before: int, app_id: str, timeout: float
) -> FillAnswer:
    """Have Spark write the rows that version `before` of the table lacks. Raises Refused where the input cannot be read
    once more, Unreachable."""
    fill = contents.fill_args
    assert fill is not None, "only a plan that fills adds rows"
    assert fill.rows is not None, "a plan is sealed with the number of rows that it adds"
    read, committed = whole.committed_input(snapshot, contents, Readers(lambda: snapshot))
    if committed is None:
        raise Refused(f"The committed input cannot be read again ({read.why}).", code="unreadable")
    asked = _ask_correction(snapshot, contents, committed, before=before, app_id=app_id, rows=fill.rows)
    return top_up(asked, timeout=timeout)


def delete_repeated(
    snapshot: FlowSnapshot, contents: PlanBody, *, before: int, app_id: str, timeout: float
) -> FillAnswer:
    """Have Spark delete the rows that version `before` of the table has too often. Raises Refused where not all input
    can be read once more, Unreachable."""
    args = contents.deduplicate_args
    assert args is not None, "only a plan that deduplicates deletes rows"
    read, committed = whole.committed_input(snapshot, contents, Readers(lambda: snapshot))
    if committed is None or read.partial:
        raise Refused(
            f"Not all committed input can be read again ({read.why or 'some of it is gone'}), so it is not known "
            "which rows repeat.",
            code="unreadable",
        )
    asked = _ask_correction(snapshot, contents, committed, before=before, app_id=app_id, rows=args.rows)
    return delete_repeats(asked, timeout=timeout)


def _ask_correction(
    snapshot: FlowSnapshot, contents: PlanBody, committed: WholeInput, *, before: int, app_id: str, rows: int
) -> CorrectionRequest:
    return CorrectionRequest(
        answers=questions_service(snapshot.flow.pipeline.workspace, snapshot.flow.pipeline.environment),
        table=contents.dataset,
        location=snapshot.table_place,
        before=before,
        study=study_of(snapshot, contents, committed),
        key=contents.key,
        app_id=app_id,
        rows=rows,
    )


def study_of(snapshot: FlowSnapshot, contents: PlanBody, committed: WholeInput) -> StudyRequest:
    """The code of now over all committed input."""
    slices = {"committed": committed.slices} if committed.slices else {}
    return request_for(
        snapshot, snapshot.code, CountRequest({"committed": committed.files}, slices), contents.key
    )


def written_by_others(plan: Plan, since: int) -> tuple[int, ...]:
    """Versions of the table after `since` in which anything but this plan changed rows: the flow itself counts."""
    app_id = backups.app_id(plan.contents, plan)
    commits = delta.commits_since(plan.contents.table_place, since)
    return tuple(c.version for c in commits if c.moves and app_id not in c.apps)


def collect(
    snapshot: FlowSnapshot,
    contents: PlanBody,
    *,
    version: int,
    others_before: Mapping[str, str | None],
    others_after: Mapping[str, str | None],
) -> Evidence:
    """Evidence of a correction. `version`: of the table before it."""
    read, committed = whole.committed_input(snapshot, contents, Readers(lambda: snapshot))
    before = SinkReport(snapshot.sink.kind, snapshot.sink.location, None, version=version)
    if committed is None:
        measured = Measure(problem=f"The committed input cannot be read again ({read.why}).")
    else:
        measured = _measure_table(snapshot, contents, committed, version)
    return Evidence(
        scope=SCOPE,
        old=snapshot.checkpoint,
        new=snapshot.checkpoint,
        listed=None,
        first_batch=None,
        sink_before=before,
        sink_after=snapshot.sink,
        measure=measured,
        measured_since=version,
        # where rows are deleted, both versions are compared whole
        old_files=whole.old_files(snapshot, before, None) if contents.is_topped_up else None,
        whole_flow=read,
        others_before=others_before,
        others_after=others_after,
    )


def _measure_table(
    snapshot: FlowSnapshot, contents: PlanBody, committed: WholeInput, version: int
) -> Measure:
    adds = contents.is_topped_up
    expected = [c.expected for c in contents.criteria if isinstance(c.expected, ExpectedRows)]
    asked = MeasureRequest(
        answers=questions_service(snapshot.flow.pipeline.workspace, snapshot.flow.pipeline.environment),
        table=contents.dataset,
        old_files=(),
        new_files=(),
        old_version=version,
        study=study_of(snapshot, contents, committed),
        key=contents.key,
        whole_rows=any(rows.whole_rows for rows in expected),
        whole=committed,
        since=came_since(snapshot.table_place, version) if adds else None,
        budgets=budgets(snapshot.flow.name),
        topped=adds,
        deduplicated=not adds,
    )
    return measure(asked, timeout=settings.REPRISE_MEASURE_SECONDS)


@dataclass(frozen=True)
class Correction:
    """What the plan in force has added to the table, or deleted. `since`: its version before, `made`: that with it."""

    plan: Plan
    since: int
    made: int

    @property
    def place(self) -> str:
        """Where the table is."""
        return self.plan.contents.table_place


def correction_of(recovery: Recovery) -> Correction | None:
    """What the plan in force has added or deleted; None where it does not, or has not yet. Raises Unreachable."""
    plan = plan_in_force(recovery)
    if plan is None or not plan.contents.corrects_table:
        return None
    since = read_noted_version(recovery, plan)
    made = None if since is None else backups.find_commit(plan, since)
    return None if since is None or made is None else Correction(plan, since, made)


def refusal(corrected: Correction) -> str | None:
    """Why the table cannot be put back, in one sentence; None when it can, or is. Reads only."""
    between = tuple(v for v in written_by_others(corrected.plan, corrected.since) if v < corrected.made)
    try:
        earlier.put_back_to(corrected.place, version=corrected.since, after=corrected.made)
    except Refused:
        made = f"The table was written after version {corrected.made}, which this plan made"
        return f"{made}; putting it back would lose that."
    if between:
        return f"Version {between[0]} of the table was written by something else; putting it back would lose that."
    return None


def put_back(context: Context, corrected: Correction) -> None:
    """Put the table back to the version before; nothing where it is. Raises Refused where Delta no longer has the
    version's files."""
    context.watch.guard()
    if earlier.put_back_to(corrected.place, version=corrected.since, after=corrected.made) is None:
        backups.ask_restore(context.flow, corrected.plan.contents, corrected.since)
        if earlier.put_back_to(corrected.place, version=corrected.since, after=corrected.made) is None:
            raise OutcomeUnknown("The table's log has no commit that puts it back.", code="not_restored")
    context.log(f"The table holds what version {corrected.since} held: what this plan did to it is undone.")
