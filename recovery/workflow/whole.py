"""What a proof of the whole table rests on: marks of its data files before the rerun, and all input that there is."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import unquote

from recovery.checkpoints.report import CheckpointReport
from recovery.checkpoints.uris import canonical_uri, decode_uri
from recovery.contracts.measured import NotWholeReason
from recovery.contracts.plan import PlanBody
from recovery.errors import RepriseError
from recovery.sinks.base import SinkReport
from recovery.sinks.live import delta
from recovery.sources.live import probe
from recovery.spark.api import WholeInput
from recovery.strategies.sinks import is_compared
from recovery.verification.evidence import OldFiles, WholeFlow, data_files
from recovery.workflow import inputs
from recovery.workflow.budgets import compare_bytes
from recovery.workflow.fingerprints import files_below
from recovery.workflow.flow_snapshot import FlowSnapshot
from recovery.workflow.inputs import list_files
from recovery.workflow.planned_inputs import held_of
from recovery.workflow.readers import Readers

Marks = Mapping[str, Sequence[int | None]]  # data file below the table -> bytes, mtime in ms
NOT_MARKED = "The earlier data files were not marked, so it is not known whether they are as they were."
UNKNOWN_PLACE = "An earlier data file is outside of the table's folder, so it was not read."


def mark_files(snapshot: FlowSnapshot) -> dict[str, list[int | None]] | None:
    """Bytes and time of every data file that the log of a file table names; None of any other sink, or where they
    cannot be listed."""
    if snapshot.sink.kind != "files" or snapshot.sink.declared or not snapshot.table_place:
        return None
    try:
        there = files_below(snapshot.table_place) or {}
    except RepriseError:
        return None
    names = (below(snapshot.table_place, path) for path in data_files(snapshot.sink))
    return {name: list(there[name]) for name in names if name in there}


def below(place: str, path: str) -> str:
    """The name of a data file below its table; the whole path where it lies elsewhere. Both decoded."""
    root = canonical_uri(decode_uri(place)).rstrip("/") + "/"
    full = canonical_uri(path)
    return full.removeprefix(root)


def old_files(snapshot: FlowSnapshot, before: SinkReport, marked: Marks | None) -> OldFiles:
    """The data files that the table had `before` the rerun, as they are now."""
    if before.version is not None:
        return _old_of_delta(snapshot.table_place, before.version)
    if snapshot.sink.kind != "files":
        return OldFiles(problem=f"What a sink of kind {snapshot.sink.kind} held before is not looked at.")
    stood = [below(snapshot.table_place, path) for path in data_files(before)]
    if marked is None or (stood and not marked):
        return OldFiles(problem=NOT_MARKED)
    if any("://" in name or name.startswith("file:") for name in stood):
        return OldFiles(problem=UNKNOWN_PLACE)
    try:
        there = files_below(snapshot.table_place) or {}
    except RepriseError as problem:
        return OldFiles(problem=f"The table's files could not be listed: {problem.sentence}")
    named = {below(snapshot.table_place, path) for path in data_files(snapshot.sink)}
    same = {name for name, mark in marked.items() if name in there and list(there[name]) == list(mark)}
    touched = tuple(name for name in stood if name not in same or name not in named)
    return OldFiles(files=len(stood), touched=touched)


def _old_of_delta(place: str, version: int) -> OldFiles:
    try:
        taken, named = delta.taken_since(place, version), delta.file_sizes(place)
        there = files_below(place) or {}
    except RepriseError as problem:
        return OldFiles(problem=problem.sentence)
    sizes = {_name_in(place, path): size for path, size in named.items()}
    if any(name.startswith("/") or "://" in name for name in sizes):
        return OldFiles(problem=UNKNOWN_PLACE)
    # the log does not know what became of a file beneath it, and not every file is read again
    other = tuple(name for name, size in sizes.items() if there.get(name, (None, None))[0] != size)
    return OldFiles(None, (*taken.touched, *other), taken.rewritten, (version, taken.latest))


def _name_in(place: str, path: str) -> str:
    """The name below its table of a data file as a Delta log writes it; decoded, and whole where it lies elsewhere."""
    whole = path.startswith(("/", "file:/")) or "://" in path
    return below(place, unquote(path)) if whole else unquote(path)


def table_bytes(snapshot: FlowSnapshot) -> int | None:
    """Bytes of the table's data; None: not known."""
    try:
        if snapshot.sink.kind == "delta":
            return delta.bytes_of(snapshot.table_place)
        there = files_below(snapshot.table_place) or {}
    except RepriseError:
        return None
    return sum(
        there.get(below(snapshot.table_place, path), (0, None))[0] for path in data_files(snapshot.sink)
    )


def input_of(
    snapshot: FlowSnapshot, contents: PlanBody, readers: Readers, old: CheckpointReport
) -> tuple[WholeFlow | None, WholeInput | None]:
    """All input that was ever committed, before the rerun or by it, and can still be read; and how much that is.

    The second is None where the whole flow is not to be compared: the first says why. Both None: the sink has no table.
    """
    if snapshot.sink.declared or not is_compared(snapshot.sink) or not snapshot.table_place:
        return None, None
    kinds = [source.kind for source in contents.inputs]
    if sorted(s.kind for s in old.sources) != sorted(kinds):
        return WholeFlow(why=NotWholeReason.OTHER_SOURCES), None
    try:
        told, asked = _within(snapshot, contents, readers, old, compare_bytes(snapshot.flow.name))
    except RepriseError:  # what cannot be listed or asked takes nothing from the rest of the proof
        return WholeFlow(why=NotWholeReason.NOT_READABLE), None
    return told, None if told.why else asked


def committed_input(
    snapshot: FlowSnapshot, contents: PlanBody, readers: Readers
) -> tuple[WholeFlow, WholeInput | None]:
    """All input that the checkpoint has committed and that can still be read, however much it is. The second is None
    where it is not known: the first says why. Raises Unreachable."""
    told, asked = _files(snapshot, contents, snapshot.checkpoint)
    told, asked = _with_others(snapshot, contents, readers, snapshot.checkpoint, told, asked)
    return told, None if told.why else asked


def _within(
    snapshot: FlowSnapshot, contents: PlanBody, readers: Readers, old: CheckpointReport, limit: int
) -> tuple[WholeFlow, WholeInput]:
    told, asked = _files(snapshot, contents, old)
    if told.size is not None and told.size <= limit:
        told, asked = _with_others(snapshot, contents, readers, old, told, asked)
    table = table_bytes(snapshot) if told.why is None else None
    told = replace(told, size=None if told.size is None or table is None else told.size + table)
    if told.why is None and (told.size is None or told.size > limit):
        told = replace(told, why=NotWholeReason.OVER_BUDGET)
    return told, asked


def _files(snapshot: FlowSnapshot, contents: PlanBody, old: CheckpointReport) -> tuple[WholeFlow, WholeInput]:
    files, gone, size = [], 0, 0
    for n, source in contents.file_inputs:
        there = {f.path: f.size for f in list_files(source.location, source.options)}
        held = [held_of(report, n, source) for report in (old, snapshot.checkpoint)]
        ever = dict.fromkeys(decode_uri(e.path) for s in held if s for e in s.committed)
        files += [path for path in ever if path in there]
        gone += sum(path not in there for path in ever)
        size += sum(there.get(path, 0) for path in ever)
    return WholeFlow(files=len(files), gone=gone, size=size), WholeInput(tuple(files))


def _with_others(
    snapshot: FlowSnapshot,
    contents: PlanBody,
    readers: Readers,
    old: CheckpointReport,
    told: WholeFlow,
    asked: WholeInput,
) -> tuple[WholeFlow, WholeInput]:
    """The same and what sources that are no files have of what was committed."""
    slices, size, cut = {}, float(told.size or 0), 0
    for n, source in contents.other_inputs:
        progress = held_of(snapshot.checkpoint, n, source)
        if progress is None:
            return replace(told, why=NotWholeReason.NOT_READABLE), asked
        facts = probe.probe_source(progress, readers.find_reader(str(n)), noted=source.topic_ids)
        span = facts.spans.processed
        if span is None or facts.problem:
            return replace(told, why=NotWholeReason.NOT_READABLE), asked
        slices[str(n)] = span.as_dict()
        size += inputs.bytes_of(facts, span)
        before = held_of(old, n, source)
        cut += not probe.keeps_all(facts, before.offset_json if before else None)
    known = int(size) if size < float("inf") else None
    return replace(told, others=len(slices), cut=cut, size=known), replace(asked, slices=slices)
