"""A seeded reset: the next checkpoint version with the old one's progress, without its state.

What it holds is in `seed_files`; how it gets into place, and what a crash leaves, in `placing`.
"""

import uuid
from dataclasses import dataclass

from recovery.checkpoints import placing
from recovery.checkpoints.findings import BY_CODE
from recovery.checkpoints.layout import write_layout
from recovery.checkpoints.placing import (
    NextVersion,
    Prepared,
    SeedOutcome,
    SeedState,
    clean,
    probe,
    publish,
    undo,
    undo_refusal,
)
from recovery.checkpoints.reconciled import HELD_BY_THE_TABLE, reconciled
from recovery.checkpoints.report import CheckpointReport
from recovery.checkpoints.seed_files import seed_layout
from recovery.checkpoints.storage import Store
from recovery.checkpoints.undo_record import Guard
from recovery.errors import Refused

__all__ = [
    "Prepared",
    "SeedOutcome",
    "SeedPlan",
    "SeedState",
    "clean",
    "plan_seed",
    "prepare",
    "probe",
    "publish",
    "undo",
    "undo_refusal",
]

# Kinds whose offset line, taken over as it is, is the whole position (files: with the log of what was read).
SEEDABLE = ("files", "kafka", "delta")


@dataclass(frozen=True, kw_only=True)
class SeedPlan(NextVersion):
    """What a seed will hold. `batch`: the batch N after which it goes on; the next one will be N + 1.

    `commit_of`: the batch whose commit file is taken: N, or N - 1 where only the table has finished N.
    """

    batch: int
    commit_of: int
    log_offsets: tuple[int | None, ...]
    committed_files: tuple[int, ...]


def plan_seed(report: CheckpointReport) -> SeedPlan:
    """What a seed from this checkpoint would hold. Pure.

    Where the report's findings say that the table holds the planned batch, the seed goes on after that one: its
    rows are in the table, and under a new query its number would be skipped or its rows written twice.
    Raises Refused when nothing was ever committed, when a source is of a kind that cannot be seeded, or when there is
    damage that a seed would carry on.
    """
    standing = reconciled(report)
    for found in report.findings:
        if found.code in HELD_BY_THE_TABLE and standing is not report:
            continue
        kind = BY_CODE.get(found.code)
        if found.code != "CHECKPOINT_EMPTY" and kind and not kind.seed and found.code != "SOURCE_UNKNOWN":
            raise Refused(
                f"The checkpoint cannot be seeded from: {found.says} {found.do}", code="not_seedable"
            )
    if report.last_committed is None:
        raise Refused(
            "Nothing was ever committed in this checkpoint, so there is no position to keep; an update starts "
            "from the beginning anyway.",
            code="not_seedable",
        )
    unknown = next((s for s in report.sources if s.kind not in SEEDABLE), None)
    if unknown is not None:
        raise Refused(
            f"Source {unknown.name or unknown.index} is of a kind that this version cannot seed; it seeds "
            f"{', '.join(SEEDABLE)}.",
            code="not_seedable",
        )
    _refuse_schema_log(report)
    return SeedPlan(
        from_version=report.version,
        batch=standing.last_committed or 0,
        commit_of=report.last_committed,
        offsets=tuple(s.offset_json for s in standing.sources),
        log_offsets=tuple(s.log_offset for s in standing.sources),
        committed_files=tuple(len(s.committed) for s in standing.sources),
        fingerprint=report.fingerprint,
        location=report.location,
    )


def _refuse_schema_log(report: CheckpointReport) -> None:
    """A Delta source's log of schemas names the checkpoint that it belongs to, and is refused in any other.

    Source: DeltaSourceMetadataTrackingLog.create. Only such a source has positions at a change of the schema.
    """
    for source in report.sources:
        if source.kind == "delta" and (source.position or {}).get("sourceVersion") == 3:
            raise Refused(
                f"Source {source.name or source.index} stands at a change of its table's schema. Let the old code "
                "read past it, then seed.",
                code="not_seedable",
            )


def prepare(location: str, plan: SeedPlan, *, recovery: str, fence: int, guard: Guard) -> Prepared:
    """Write the seed beside the version in use and read it back; see `placing.prepare`."""
    query_id = str(uuid.uuid4())

    def write(old: Store, new: Store) -> None:
        write_layout(
            seed_layout(old, plan.batch, plan.log_offsets, query_id, commit_of=plan.commit_of), new, guard
        )

    def check(found: CheckpointReport) -> None:
        _equal(plan, query_id, found)

    return placing.prepare(
        location,
        plan,
        recovery=recovery,
        fence=fence,
        query_id=query_id,
        guard=guard,
        build=write,
        check=check,
    )


def _equal(plan: SeedPlan, query_id: str, found: CheckpointReport) -> None:
    """The new checkpoint, read by the same reader as any other, says what the plan says."""
    seen = (
        found.query_id,
        found.last_committed,
        found.last_planned,
        tuple(s.offset_json for s in found.sources),
        tuple(len(s.committed) for s in found.sources),
        sum(len(s.planned) for s in found.sources),
        len(found.state_operators),
    )
    wanted = (query_id, plan.batch, plan.batch, plan.offsets, plan.committed_files, 0, 0)
    if seen != wanted or found.blockers:
        reason = found.blockers[0].says if found.blockers else f"wanted {wanted}, found {seen}"
        raise Refused(f"The prepared checkpoint does not read back as planned: {reason} It was removed.")
