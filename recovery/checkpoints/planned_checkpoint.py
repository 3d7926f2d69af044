"""A plan of a new checkpoint that is laid out in memory and judged: what repair, rollback and transplant share.

`prepare` writes it beside the checkpoint in use and reads it back; `placing` puts it into place.
"""

from dataclasses import dataclass

from recovery.checkpoints import publishing
from recovery.checkpoints.file_layout import Layout, write_layout
from recovery.checkpoints.publishing import NextVersion, PreparedCheckpoint
from recovery.checkpoints.report import CheckpointReport
from recovery.checkpoints.storage import Store
from recovery.checkpoints.undo_record import Guard
from recovery.errors import Refused


@dataclass(frozen=True, kw_only=True)
class LaidPlan(NextVersion):
    """`after`: the report of the checkpoint that the layout will give, judged before a byte is written."""

    after: CheckpointReport
    layout: Layout


def target_of(report: CheckpointReport, store: Store, version: int | None) -> str:
    """Where the next checkpoint will lie: beside version `version` of a flow, or in the one fixed place."""
    return report.location if version is None else f"{store.parent().location}/{version + 1}"


def prepare_layout(
    location: str, plan: LaidPlan, *, recovery: str, fence: int, guard: Guard
) -> PreparedCheckpoint:
    """Write the laid-out checkpoint beside the one in use and read it back; see `publishing.prepare_checkpoint`."""
    query_id = plan.after.query_id
    assert query_id is not None, "a layout without a query id is refused when it is planned"
    return publishing.prepare_checkpoint(
        location,
        plan,
        recovery=recovery,
        fence=fence,
        query_id=query_id,
        guard=guard,
        build=lambda old, new: write_layout(plan.layout, new, guard),
        check=lambda report: require_same_files(plan.after, report),
    )


def require_same_files(planned: CheckpointReport, report: CheckpointReport) -> None:
    """Names, sizes and log contents are those that were judged. Raises Refused otherwise."""
    if report.exact_fingerprint != planned.exact_fingerprint:
        raise Refused(
            "The prepared checkpoint does not read back as planned: its files differ from those that were judged. "
            "It was removed.",
            code="not_as_planned",
        )
