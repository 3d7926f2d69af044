"""A seeded reset: the next checkpoint version with the old one's progress, or at positions that someone chose.

Its state is none, or that of another checkpoint. What a seed holds is in `seed_files`, which positions it may have in
`starts`, where its state comes from in `carrying`; how it gets into place, and what a crash leaves, in `placing`.
"""

import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from recovery.checkpoints import formats, publishing
from recovery.checkpoints.carried_state import carry_over, may_carry, state_of
from recovery.checkpoints.file_layout import lay_out, write_layout
from recovery.checkpoints.file_listing import MAX_SMALL_BYTES
from recovery.checkpoints.findings import BY_CODE
from recovery.checkpoints.inspection import judge_store
from recovery.checkpoints.planned_checkpoint import require_same_files
from recovery.checkpoints.publishing import (
    NextVersion,
    PreparedCheckpoint,
    SeedOutcome,
    SeedState,
    clean_leftovers,
    probe_outcome,
    publish_checkpoint,
    undo_publish,
    undo_refusal,
)
from recovery.checkpoints.report import CheckpointReport, SourceProgress
from recovery.checkpoints.seed_files import seed_layout
from recovery.checkpoints.starts import (
    SEEDABLE,
    SourceStart,
    check_starts,
    entries_at,
    moves_files,
    refuse_not_seedable,
)
from recovery.checkpoints.storage import Store, reaching
from recovery.checkpoints.table_progress import HELD_BY_THE_TABLE, reconcile_report
from recovery.checkpoints.undo_record import Guard
from recovery.checkpoints.uris import decode_uri
from recovery.errors import Refused

__all__ = [
    "SEEDABLE",
    "PreparedCheckpoint",
    "SeedOutcome",
    "SeedPlan",
    "SeedState",
    "SourceStart",
    "clean_leftovers",
    "plan_seed",
    "prepare_seed",
    "probe_outcome",
    "publish_checkpoint",
    "undo_publish",
    "undo_refusal",
]

LOST = "COMMITS_AHEAD"  # the offset file of the last committed batch is not there


@dataclass(frozen=True, kw_only=True)
class SeedPlan(NextVersion):
    """What a seed will hold."""

    #: the batch N after which it continues; the next one is N + 1
    batch: int
    #: the batch whose commit file is taken: N, or N - 1 if only the table has finished N; None: there is none
    commit_of: int | None
    #: of the old sources
    log_offsets: tuple[int | None, ...]
    #: of the sources that the seed has, as are its offsets
    committed_files: tuple[int, ...]
    #: where each source begins; None: the old ones, each at its position
    starts: tuple[SourceStart, ...] | None = field(default=None, repr=False)
    #: the one to set; None: unchanged
    watermark_ms: int | None = None
    #: the checkpoint whose state is carried over; None: no state
    state: str | None = None
    #: how many operators that state has
    operators: int = 0
    #: the batch whose offset file shows the form of the new one; None: `batch`
    form_of: int | None = None


def plan_seed(
    report: CheckpointReport,
    *,
    starts: Sequence[SourceStart] | None = None,
    watermark_ms: int | None = None,
    state: str | None = None,
    begins_at_given: bool = False,
) -> SeedPlan:
    """What a seed from this checkpoint would hold. Reads at most the logs whose files a start names, and `state`.

    `begins_at_given`: where the offset file of the last committed batch is lost, `starts` may stand in for it: no state
    depends on where that batch ended.

    Where the report's findings say that the table holds the planned batch, the seed goes on after that one: its
    rows are in the table, and under a new query its number would be skipped or its rows written twice.
    Raises Refused when nothing was ever committed, when a source is of a kind that cannot be seeded, when there is
    damage that a seed would carry on, or when a source cannot start where its start says; Unreachable when a log is
    no longer the one that was judged.
    """
    standing = reconcile_report(report)
    form_of = _find_form(report, starts or ()) if begins_at_given else None
    _refuse_damage(report, standing, watermark_ms, passed=() if form_of is None else (LOST,))
    if standing.last_committed is None:
        raise Refused(
            "Nothing was ever committed in this checkpoint, so there is no position to keep; an update starts "
            "from the beginning anyway.",
            code="nothing_committed",
        )
    batch = standing.last_committed
    if report.last_committed is None and (state is not None or watermark_ms is not None):
        raise Refused(
            f"The table has batch {batch}, and no batch was ever committed in this checkpoint, so the watermark after "
            f"it is not known, which state needs. Put the old code back (revert) and let it finish batch {batch}, or "
            "choose full-refresh.",
            code="batch_unsettled",
        )
    if watermark_ms is not None and watermark_ms < 0:
        raise Refused(f"A watermark is a time in ms since the epoch; {watermark_ms} is none.")
    if state is not None:
        may_carry(state, batch)
    if starts is None:
        _refuse_kinds(report)
    else:
        starts = check_starts(starts, standing.sources)
    return SeedPlan(
        from_version=report.version,
        batch=batch,
        commit_of=report.last_committed,
        offsets=tuple(s.offset_json for s in (standing.sources if starts is None else starts)),
        log_offsets=tuple(s.log_offset for s in standing.sources),
        committed_files=_count_committed_files(standing, starts, batch),
        fingerprint=report.fingerprint,
        location=report.location,
        starts=None if starts is None else tuple(starts),
        watermark_ms=watermark_ms,
        state=state,
        operators=0 if state is None else len(state_of(state).state_operators),
        form_of=form_of,
    )


def _find_form(report: CheckpointReport, starts: Sequence[SourceStart]) -> int | None:
    """The batch whose offset file shows the form of a new one, where the newest offset file alone is lost and no source
    keeps a log that a given position would have to fit; None elsewhere. Raises Refused (`position_lost`) unless every
    source that goes on has a position of its own."""
    batch, form_of = report.last_committed, report.last_planned
    if form_of is None or batch != form_of + 1 or all(f.code != LOST for f in report.findings):
        return None
    if any(source.lost is None or source.kind == "files" for source in report.sources):
        return None
    if starts and all(start.offset_json is not None for start in starts if start.old is not None):
        return form_of
    raise Refused(
        f"Batch {batch} is committed, and where it ended is not known: offsets/{batch} is gone. Put it back from a "
        f"backup, or name the position of every source: the progress event of batch {batch} in the event log shows it "
        "(endOffset).",
        code="position_lost",
    )


def _refuse_damage(
    report: CheckpointReport, standing: CheckpointReport, watermark_ms: int | None, passed: Collection[str]
) -> None:
    for damage in report.findings:
        if damage.code in passed:
            continue
        if damage.code in HELD_BY_THE_TABLE and standing is not report:
            continue
        if damage.code == "WATERMARK_AHEAD" and watermark_ms is not None:
            continue
        kind = BY_CODE.get(damage.code)
        if damage.code != "CHECKPOINT_EMPTY" and kind and not kind.seed and damage.code != "SOURCE_UNKNOWN":
            raise Refused(
                f"The checkpoint cannot be seeded from: {damage.says} {damage.do}", code="not_seedable"
            )


def _refuse_kinds(report: CheckpointReport) -> None:
    for source in report.sources:
        refuse_not_seedable(source)


def _count_committed_files(
    standing: CheckpointReport, starts: Sequence[SourceStart] | None, batch: int
) -> tuple[int, ...]:
    """How many files each source's log will hold as committed."""
    if starts is None:
        return tuple(len(s.committed) for s in standing.sources)
    return tuple(
        _count_held_files(s, None if s.old is None else standing.sources[s.old], batch) for s in starts
    )


def _count_held_files(start: SourceStart, old: SourceProgress | None, batch: int) -> int:
    if old is not None and (old.kind != "files" or not moves_files(start, old)):
        return len(old.committed)
    return len(entries_at(start, old.committed if old else (), batch))


def prepare_seed(
    location: str, plan: SeedPlan, *, recovery: str, fence: int, guard: Guard
) -> PreparedCheckpoint:
    """Write the seed beside the version in use and read it back; see `placing.prepare_checkpoint`."""
    query_id = str(uuid.uuid4())
    judged: list[CheckpointReport] = []

    def write(old: Store, new: Store) -> None:
        layout = seed_layout(
            old,
            plan.batch,
            plan.log_offsets,
            query_id,
            commit_of=plan.commit_of,
            starts=plan.starts,
            watermark_ms=plan.watermark_ms,
            form_of=plan.form_of,
        )
        if plan.state is not None:
            target = old.location if plan.to_version is None else f"{old.parent().location}/{plan.to_version}"
            carry_over(layout, plan.state, plan.batch, target)
            judged.append(judge_store(lay_out(layout, old, target)))
        write_layout(layout, new, guard)

    def check(report: CheckpointReport) -> None:
        """State may name the place where it will lie (transformWithState): judged as if it were there already."""
        for prepared_report in judged:
            require_same_files(prepared_report, report)
        _require_planned_content(plan, query_id, judged[0] if judged else report)
        with reaching(report.location):
            _equal_watermark(plan, Store.open(report.location))

    return publishing.prepare_checkpoint(
        location,
        plan,
        recovery=recovery,
        fence=fence,
        query_id=query_id,
        guard=guard,
        build=write,
        check=check,
    )


def _require_planned_content(plan: SeedPlan, query_id: str, report: CheckpointReport) -> None:
    """The new checkpoint, read by the same reader as any other, says what the plan says."""
    seen = (
        report.query_id,
        report.last_committed,
        report.last_planned,
        tuple(s.offset_json for s in report.sources),
        tuple(len(s.committed) for s in report.sources),
        sum(len(s.planned) for s in report.sources),
        len(report.state_operators),
    )
    wanted = (query_id, plan.batch, plan.batch, plan.offsets, plan.committed_files, 0, plan.operators)
    if seen != wanted or report.blockers:
        reason = report.blockers[0].says if report.blockers else f"wanted {wanted}, found {seen}"
        raise _not_as_planned(reason)
    for start, source in zip(plan.starts or (), report.sources, strict=bool(plan.starts)):
        _equal_files(start, source)


def _equal_files(start: SourceStart, source: SourceProgress) -> None:
    """Files to be read again are not in the log, files to be skipped are."""
    if not start.again and not start.skip:
        return
    held = {decode_uri(e.path) for e in source.committed}
    wrong = held.intersection(start.again) or {decode_uri(e.path) for e in start.skip} - held
    if wrong:
        raise _not_as_planned(f"{min(wrong)} of source {start.key} is not as wanted")


def _equal_watermark(plan: SeedPlan, made: Store) -> None:
    if plan.watermark_ms is None:
        return
    numbers: Iterable[int] = (plan.batch - 1, plan.batch) if plan.batch else (plan.batch,)
    headers = [
        formats.parse_offsets(made.read(f"offsets/{n}", MAX_SMALL_BYTES)).watermark_ms for n in numbers
    ]
    commit = formats.parse_commit(made.read(f"commits/{plan.batch}", MAX_SMALL_BYTES)).watermark_ms
    if {*headers, commit} != {plan.watermark_ms}:
        raise _not_as_planned(f"wanted watermark {plan.watermark_ms}, found {[*headers, commit]}")


def _not_as_planned(reason: str) -> Refused:
    return Refused(
        f"The prepared checkpoint does not read back as planned: {reason} It was removed.",
        code="not_as_planned",
    )
