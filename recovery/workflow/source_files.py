"""Were the files of the new input written again since the plan was sealed? And whose are those that a proof names?"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from recovery.checkpoints.report import CheckpointReport
from recovery.checkpoints.storage import Store
from recovery.checkpoints.uris import decode_uri
from recovery.contracts.measured import ChangedFile, ChangedFiles, FileMark
from recovery.contracts.plan import PlanBody, PlannedInput
from recovery.errors import RepriseError
from recovery.sources.live import files as live_files
from recovery.verification.evidence import Evidence
from recovery.workflow.inputs import list_files
from recovery.workflow.planned_inputs import held_of

SHOWN: Final = 20  # files that are kept of those that changed


@dataclass(frozen=True)
class _Moments:
    """Of one file source: its new files as they were at three moments, by decoded URI."""

    sealed: Mapping[str, FileMark]
    read: Mapping[str, FileMark]
    now: Mapping[str, FileMark]


def add_changed_files(
    evidence: Evidence, contents: PlanBody, new: CheckpointReport, *, before: CheckpointReport | None
) -> Evidence:
    """With input files that were written again, and the owners of these and of files that missing rows come from.
    `before`: as `find_changed` takes it."""
    changed = find_changed(contents, new, evidence.measured_inputs, before=before)
    named = [file.path for file in changed.first] if changed else []
    if evidence.measure:
        named += [origin.file for origin in evidence.measure.origins]
    is_loss_known = contents.forecast.lost.rows is not None  # else people accepted that it is not
    replaced = changed.replaced if changed and is_loss_known else 0
    return replace(evidence, changed_files=changed, owners=owners_of(named), replaced_files=replaced)


def find_changed(
    contents: PlanBody,
    new: CheckpointReport,
    inputs: Iterable[str],
    *,
    before: CheckpointReport | None = None,
) -> ChangedFiles | None:
    """Of these input files, which the rerun has read, those that were written again; None where they cannot be listed.

    `before`: the checkpoint that the plan was made on. Its log tells what a file was that the rerun has read again.
    A source whose place is the table of a file sink is not looked at: its log tells what a file was when it was
    written, not what it is.
    """
    wanted = frozenset(inputs)
    read_before = _marks_of(before, wanted)
    waiting = {f.path: FileMark(f.size, f.mtime_ms) for f in contents.waiting_files}
    sealed = {**read_before, **waiting}
    found: dict[str, ChangedFile] = {}
    looked_at = 0
    try:
        for n, source in contents.file_inputs:
            moments = _moments(new, n, source, wanted, sealed)
            looked_at += len(moments.read)
            found |= {f.path: f for f in _changed(moments)}
    except RepriseError:
        return None
    if not looked_at:
        return None
    replaced = sum(
        path in found and mark.differs_from(found[path].read) for path, mark in read_before.items()
    )
    first = tuple(found[path] for path in sorted(found)[:SHOWN])
    return ChangedFiles(len(found), looked_at, first, replaced)


def _marks_of(report: CheckpointReport | None, wanted: frozenset[str]) -> dict[str, FileMark]:
    """What each of these files was when a batch of this checkpoint read it."""
    sources = [] if report is None else [source for source in report.sources if source.kind == "files"]
    named = ((decode_uri(e.path), e.timestamp_ms) for source in sources for e in source.committed)
    return {path: FileMark(None, at) for path, at in named if path in wanted}


def _moments(
    new: CheckpointReport,
    n: int,
    source: PlannedInput,
    wanted: frozenset[str],
    sealed: Mapping[str, FileMark],
) -> _Moments:
    held = held_of(new, n, source)
    if held is None or held.kind != "files" or live_files.by_log(source.location):
        return _Moments({}, {}, {})
    named = ((decode_uri(e.path), e.timestamp_ms) for e in held.committed)
    read = {path: FileMark(None, at) for path, at in named if path in wanted}
    there = {f.path: FileMark(f.size, f.mtime_ms) for f in list_files(source.location, source.options)}
    return _Moments(sealed, read, there)


def _changed(moments: _Moments) -> Iterable[ChangedFile]:
    for path, read in moments.read.items():
        sealed, now = moments.sealed.get(path), moments.now.get(path)
        if (
            now is None
            or read.differs_from(now)
            or (sealed is not None and (sealed.differs_from(read) or sealed.differs_from(now)))
        ):
            yield ChangedFile(path, sealed, read, now)


def owners_of(paths: Iterable[str]) -> dict[str, str]:
    """Who owns each of these files, where the storage tells: of local files their login name."""
    found = {}
    for path in dict.fromkeys(paths):
        folder, _, name = path.rpartition("/")
        try:
            owner = Store.open(folder or "/").owner(name)
        except RepriseError:
            continue
        if owner:
            found[path] = owner
    return found
