"""What a replay goes back to: the batch, the checkpoint and the table as they were after it; and whether an earlier
recovery let a source begin elsewhere. Reads only."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from recovery.checkpoints.report import CheckpointReport, SourceProgress
from recovery.checkpoints.transplant import plan_rollback
from recovery.checkpoints.uris import decode_uri
from recovery.contracts.option import Blocker, BlockerCode
from recovery.contracts.readers import NO_READER, SourceReader
from recovery.contracts.target import ReplayTarget
from recovery.errors import Refused, RepriseError
from recovery.models import Flow, Step
from recovery.pipelines.workspaces import questions_service
from recovery.sinks.earlier import EarlierTable
from recovery.sinks.live import earlier
from recovery.sources.base import SourceFacts
from recovery.sources.comparing import format_time
from recovery.sources.live import probe
from recovery.spark.api import Study, StudyRequest, count
from recovery.strategies.base import Facts, ReplayFacts
from recovery.workflow import inputs
from recovery.workflow.inputs import CountRequest
from recovery.workflow.kept_studies import Mark

if TYPE_CHECKING:
    from recovery.workflow.flow_snapshot import FlowSnapshot
    from recovery.workflow.gather import Ask

CODES: Final = {
    code.value: code
    for code in (
        BlockerCode.TARGET_NOT_FOUND,
        BlockerCode.BATCH_NOT_KEPT,
        BlockerCode.SINK_NOT_PUT_BACK,
        BlockerCode.OTHER_WRITERS,
    )
}
"""Codes of refusals, by what they are as blockers."""


@dataclass(frozen=True)
class EarlierCheckpoint:
    """What was found, and the checkpoint as it was after the batch; None: it could not be gone back to."""

    back: ReplayFacts
    checkpoint: CheckpointReport | None = None


def find_earlier(snapshot: "FlowSnapshot", target: ReplayTarget) -> EarlierCheckpoint:
    """What `target` names, and what checkpoint and table were then. What cannot be gone back to is a problem of the
    answer. Raises Unreachable."""
    report: CheckpointReport = snapshot.checkpoint
    back = ReplayFacts(committed=report.last_committed, operators=report.state_operators)
    try:
        batch = _batch(snapshot, target)
        back = replace(back, batch=batch)
        _require_later(report, batch)
        after = plan_rollback(snapshot.checkpoint_place, batch, state=False).after
        # as it will lie there: the version in use is the one that it is made from
        after = replace(after, version=report.version)
        return EarlierCheckpoint(replace(back, table=_table(snapshot, batch)), after)
    except Refused as refusal:
        code = CODES.get(refusal.code, BlockerCode.BATCH_NOT_KEPT)
        return EarlierCheckpoint(replace(back, problem=Blocker(code=code, says=refusal.sentence)))
    except _NothingAfter as nothing:
        return EarlierCheckpoint(
            replace(back, problem=Blocker(code=BlockerCode.NOTHING_AFTER, says=str(nothing)))
        )


class _NothingAfter(Exception):
    """No batch came after the one that was named."""


def _batch(snapshot: "FlowSnapshot", target: ReplayTarget) -> int:
    """The last batch that stays. Raises Refused (`target_not_found`)."""
    report: CheckpointReport = snapshot.checkpoint
    if target.batch is not None:
        return target.batch
    if target.version is not None:
        if snapshot.sink.kind != "delta" or report.query_id is None:
            raise Refused(
                "Only a Delta table has versions. Name a time or a batch.",
                code=BlockerCode.TARGET_NOT_FOUND.value,
            )
        return earlier.batch_at(snapshot.table_place, report.query_id, target.version)
    at_ms = target.at_ms or 0
    known = [b for b in report.batches if b["committed"] and b["timestamp_ms"] is not None]
    then = [b["batch"] for b in known if b["timestamp_ms"] <= at_ms]
    if not then:
        oldest = min((b["timestamp_ms"] for b in known), default=None)
        since = "none" if oldest is None else f"the oldest began at {format_time(oldest)}"
        raise Refused(
            f"No batch that the checkpoint keeps began at or before {format_time(at_ms)}: {since}.",
            code=BlockerCode.TARGET_NOT_FOUND.value,
        )
    return int(max(then))


def _require_later(report: CheckpointReport, batch: int) -> None:
    newest = max((n for n in (report.last_committed, report.last_planned) if n is not None), default=-1)
    if batch >= newest:
        raise _NothingAfter(
            f"Batch {batch} is the last one, so there is nothing after it to read again."
            if batch == newest
            else f"There is no batch {batch} yet: the last one is {newest}."
        )


def _table(snapshot: "FlowSnapshot", batch: int) -> EarlierTable | None:
    """The table as it was after the batch, counted; None of a sink that cannot be put back (`replay.sink_block`)."""
    if snapshot.sink.declared or not snapshot.table_place:
        return None
    if snapshot.sink.kind == "delta" and snapshot.checkpoint.query_id:
        return earlier.of_delta(snapshot.table_place, snapshot.checkpoint.query_id, batch)
    if snapshot.sink.kind != "files":
        return None
    table = earlier.of_files(snapshot.table_place, batch)
    return replace(table, kept_rows=_rows(snapshot, table.kept_files), rows=_rows(snapshot, None))


def _rows(snapshot: "FlowSnapshot", files: tuple[str, ...] | None) -> int | None:
    """Rows of the table, or of some of its data files; None where Spark cannot count them."""
    flow = snapshot.flow
    service = questions_service(flow.pipeline.workspace, flow.pipeline.environment)
    try:
        return count(service, flow.dataset, snapshot.spec.get("configuration") or {}, files=files)
    except RepriseError:
        return None


@dataclass(frozen=True)
class LaterInput:
    """What the later batches read. `counted`: what to count (None: a source cannot tell); `files` that are there,
    `gone` that are not; `changed`: one of them was written again since it was read."""

    counted: CountRequest | None
    files: tuple[str, ...]
    gone: tuple[str, ...]
    changed: bool


def read_later(
    snapshot: "FlowSnapshot", sources: tuple[SourceFacts, ...], readers: Sequence[SourceReader]
) -> LaterInput:
    """What the later batches read. `sources`: as they stood after the batch; `snapshot` has them as they are now."""
    now: CheckpointReport = snapshot.checkpoint
    files: list[str] = []
    gone: list[str] = []
    changed = False
    slices: dict[str, Mapping[str, object]] = {}
    for n, (source, held) in enumerate(zip(sources, now.sources, strict=False)):
        if held.kind == "files":
            there = {f.path: f.mtime_ms for f in source.waiting}  # not `ignored`: Spark passes those over
            later = _later_files(held, source)
            files += [path for path in later if path in there]
            gone += [path for path in later if path not in there]
            changed = changed or any(path in there and there[path] != ms for path, ms in later.items())
            continue
        reader = readers[n] if n < len(readers) else NO_READER
        start, noted = source.position.offset_json, snapshot.noted.get(str(held.index))
        part = probe.range_between(reader, held.kind, start, held.offset_json, noted=noted)
        if part is None:
            return LaterInput(None, tuple(files), tuple(gone), changed)
        slices[str(n)] = part.as_dict()
    label = {"reread": slices} if slices else {}
    return LaterInput(CountRequest({"reread": tuple(files)}, label), tuple(files), tuple(gone), changed)


def _later_files(held: SourceProgress, then: SourceFacts) -> dict[str, int]:
    """Files of the later batches, and their time when they were read, in ms."""
    before = {f.path for f in then.processed} | set(then.gone)
    entries = ((decode_uri(e.path), e.timestamp_ms) for e in held.committed)
    return {path: ms for path, ms in entries if path not in before}


def facts_of_then(
    snapshot: "FlowSnapshot",
    target: ReplayTarget,
    facts_at: Callable[["FlowSnapshot", "Ask"], Facts],
    request_for: Callable[[CountRequest], StudyRequest],
    ask: "Ask",
) -> Facts:
    """The facts of after the batch that a replay goes back to: what came later waits, and the table has not got it.

    `facts_at`: the facts of a snapshot; `request_for`: what the new code is asked over some input. The table is not
    looked into for repeats: it holds rows that leave it.
    """
    earlier = find_earlier(snapshot, target)

    def without_table(request: StudyRequest, files: Mapping[str, Mark]) -> Study:
        return ask(replace(request, table=None), files)

    found = facts_at(replace(snapshot, checkpoint=earlier.checkpoint or snapshot.checkpoint), without_table)
    back = earlier.back
    if earlier.checkpoint is not None:
        later = read_later(snapshot, found.sources, found.new_code.sources)
        rows = None
        if later.counted is not None:
            answer = without_table(request_for(later.counted), inputs.marks(found.sources))
            rows = answer.rows.get("reread")
        back = replace(
            back, reread_files=later.files, gone=later.gone, changed=later.changed, reread_rows=rows
        )
    table = back.table
    return replace(found, back=back, counts=replace(found.counts, table=table.rows if table else None))


def skipped_before(flow: Flow) -> bool:
    """Whether a recovery has seeded this flow at positions that a person chose: its log then does not tell what was
    processed."""
    seeds = Step.objects.filter(recovery__flow=flow, kind="seed", state="done", plan__isnull=False)
    return any(
        step.plan is not None and step.plan.body.get("wishes") for step in seeds.select_related("plan")
    )
