"""The sources of a flow as a plan needs them: which of the code is which of the checkpoint, and what to count."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from recovery.checkpoints.report import CheckpointReport, SourceProgress
from recovery.contracts.readers import NO_READER, SourceReader
from recovery.errors import Refused
from recovery.sinks.base import SinkReport
from recovery.sources import delta, file_facts, files, mapping, registry
from recovery.sources.base import InputFile, SourceFacts, StartChoice
from recovery.sources.delta_facts import DeltaFacts
from recovery.sources.input_ranges import InputRange
from recovery.sources.live import delta as live_delta
from recovery.sources.live import files as live_files
from recovery.sources.live import probe

LABELS = ("processed", "waiting", "everything", "reread", "skipped")
RECORD_BYTES = 1000  # what a record of Kafka is taken for, where a limit in bytes has to be kept


@dataclass(frozen=True)
class Inputs:
    """The sources of the code in plan order, and which source of the checkpoint each of them goes on as.

    `old`: index in the checkpoint, None for a source that was added. One to one where nothing was added, removed or
    changed places.
    """

    sources: tuple[SourceFacts, ...]
    old: tuple[int | None, ...]


@dataclass(frozen=True)
class CountRequest:
    """What Spark shall count, by label: files of all sources together, and slices by the index of their source."""

    sets: Mapping[str, tuple[str, ...]]
    slices: Mapping[str, Mapping[str, Mapping[str, Any]]]

    def only(self, label: str) -> "CountRequest":
        """What stands under one label."""
        held = {label: self.slices[label]} if label in self.slices else {}
        return CountRequest({label: self.sets[label]}, held)

    @property
    def only_files(self) -> bool:
        return not any(self.slices.values())


def inputs_of(
    report: CheckpointReport,
    readers: Sequence[SourceReader],
    *,
    wishes: Mapping[str, StartChoice] | None = None,
    noted: Mapping[str, Mapping[str, str]] | None = None,
) -> Inputs:
    """Every source, looked at. `wishes` by the index of the source, `noted` (ids of Kafka topics) by that of the
    checkpoint's source, both as text.

    Where the code could not be analysed (`readers` empty) the checkpoint's own sources are told, without a place.
    Raises Refused for a wish about a source that there is not, Unreachable for input files that cannot be listed.
    """
    wanted = dict(wishes or {})
    paired = match_sources(report, readers)
    if strange := sorted(set(wanted) - {str(n) for n in range(len(paired))}):
        raise Refused(f"There is no source {', '.join(strange)}; the code has {len(paired)}, counted from 0.")
    found = tuple(
        probe.probe_source(
            progress,
            readers[n] if n < len(readers) else NO_READER,
            wanted=wanted.get(str(n)),
            noted=(noted or {}).get(str(old)),
        )
        for n, (old, progress) in enumerate(paired)
    )
    if _unreadable(report):
        found = tuple(
            replace(s, spans=replace(s.spans, processed=None, waiting=None, unread=None)) for s in found
        )
    return Inputs(found, tuple(old for old, _ in paired))


def _unreadable(report: CheckpointReport) -> bool:
    """Whether damage hides what was read: then no one can tell what was committed and what waits."""
    return not report.sources and bool(report.blockers)


def identify_tables(
    readers: Sequence[SourceReader], held: Sequence[SourceProgress]
) -> tuple[SourceReader, ...]:
    """The sources of the code, of Delta tables with `table_id`: the one thing by which a checkpoint knows its tables.

    Not asked where there is one source on each side: there is nothing to tell apart.
    """
    if len(readers) < 2 and len(held) < 2:
        return tuple(readers)
    return tuple(_identify_table(reader) for reader in readers)


def _identify_table(reader: SourceReader) -> SourceReader:
    if registry.kind_of_format(reader.format or "parquet") != delta.KIND:
        return reader
    return replace(reader, table_id=live_delta.table_id(reader.place) if reader.place else None)


def match_sources(
    report: CheckpointReport, readers: Sequence[SourceReader]
) -> list[tuple[int | None, SourceProgress]]:
    """For each source of the code: the checkpoint's source that it goes on as, and its progress under the new index.

    By their order, as Spark takes them, unless their number, kinds or places differ or a certain pair says otherwise.
    """
    held = list(report.sources)
    if not readers:
        return [(s.index, s) for s in held]
    new = [mapping.new_source(n, reader) for n, reader in enumerate(readers)]
    old = [mapping.old_source(s) for s in held]
    proposal = mapping.propose_mapping(old, new)
    keys = {s.name or str(s.index): s for s in held}
    to = {p.new: keys[p.old] for p in proposal.pairs}
    crossed = [p for p in proposal.pairs if p.certainty is mapping.Certainty.CERTAIN and p.old != p.new]
    same = len(held) == len(new) and all(
        ("unknown" in (s.kind, n.kind) or s.kind == n.kind) and not mapping.is_elsewhere(s, n)
        for s, n in zip(old, new, strict=True)
    )
    if same and not [p for p in crossed if keys[p.old].index != int(p.new)]:
        return [(s.index, s) for s in held]
    return [_progress(n, to.get(n.key)) for n in new]


def _progress(new: mapping.NewSource, old: SourceProgress | None) -> tuple[int | None, SourceProgress]:
    if old is None:
        return None, SourceProgress(int(new.key), new.kind, None)
    return old.index, replace(old, index=int(new.key), log=old.folder.removeprefix("sources/"))


def plan_counts(sources: Sequence[SourceFacts], limit: int, labels: Sequence[str] = LABELS) -> CountRequest:
    """What Spark shall count, up to `limit` bytes. Above it the committed input is left out: counting it would read all
    of it, and the page then says that it was not counted instead of making somebody wait."""
    sets: dict[str, tuple[str, ...]] = {}
    slices: dict[str, dict[str, Mapping[str, Any]]] = {}
    for label in labels:
        spans: list[InputRange | None] = [getattr(s.spans, label) for s in sources]
        held = [s for s in spans if s is not None]
        if len(held) < len(spans) or _too_large(label, sources, limit) or _are_at_odds(sources, held):
            continue
        if label in ("reread", "skipped") and all(s.empty for s in held):
            continue
        sets[label] = tuple(dict.fromkeys(path for s in held for path in s.files))
        slices[label] = {str(n): s.as_dict() for n, s in enumerate(held) if s.kind != "files"}
    return CountRequest(sets, slices if any(slices.values()) else {})


def plan_moved_counts(sources: Sequence[SourceFacts], limit: int) -> CountRequest:
    """What a start elsewhere leaves out or reads again, where files alone are read: only Spark knows their rows."""
    told = plan_counts(sources, limit)
    labels = ("reread", "skipped") if told.only_files and sources else ()
    return CountRequest({label: told.sets[label] for label in labels if told.sets.get(label)}, {})


def with_rows(
    sources: Sequence[SourceFacts], wishes: Mapping[str, StartChoice], rows: Mapping[str, int]
) -> list[SourceFacts]:
    """The same, and what the starts of file sources cost in rows, by the rows of each file."""
    found = []
    for n, source in enumerate(sources):
        held, wish = source.facts, wishes.get(str(n))
        if source.start is not None and wish is not None and isinstance(held, file_facts.FileSourceFacts):
            start = files.find_position(wish, source.position.offset_json, replace(held, rows=rows))
            source = replace(source, start=start)
        found.append(source)
    return found


def marks(sources: Sequence[SourceFacts]) -> dict[str, tuple[int, int]]:
    """Size and time of the input files as they lie there now, by path.

    None of a source whose place is the table of a file sink: its log tells what a file was when it was written.
    """
    found = {}
    for source in sources:
        if source.position.kind == "files" and source.location and not live_files.by_log(source.location):
            for file in (*source.processed, *source.waiting, *source.ignored):
                found[file.path] = (file.size, file.mtime_ms)
    return found


def _are_at_odds(sources: Sequence[SourceFacts], spans: Sequence[InputRange]) -> bool:
    """Whether a file is read by two sources and is in the span of one of them alone: files are named for all sources
    together, so both would count it."""
    every = {path for span in spans for path in span.files}
    for source, span in zip(sources, spans, strict=True):
        known = (*source.processed, *source.waiting, *source.ignored)
        if span.kind == "files" and (every & {f.path for f in known}) - set(span.files):
            return True
    return False


def _too_large(label: str, sources: Sequence[SourceFacts], limit: int) -> bool:
    """`processed` is only told together with all that is there: one is not worth the reading without the other."""
    of = "everything" if label == "processed" else label
    return sum(bytes_of(s, getattr(s.spans, of)) for s in sources) > limit


def bytes_of(source: SourceFacts, span: InputRange | None) -> float:
    """What is really read for a span; infinity where no one can say."""
    if span is None:
        return 0
    if span.kind == "kafka":
        offsets = (max(0, span.end[t][p] - at) for t, held in span.start.items() for p, at in held.items())
        return RECORD_BYTES * sum(offsets)
    if isinstance(source.facts, DeltaFacts):
        return _bytes_of_delta(source.facts, span)
    sizes = {f.path: f.size for f in (*source.processed, *source.waiting, *source.ignored)}
    return sum(sizes.get(path, 0) for path in span.files)


def _bytes_of_delta(facts: DeltaFacts, span: InputRange) -> float:
    """The files of a slice that can be read by themselves; else every version that they have to be picked out of."""
    if span.changes is not None:
        versions = range(span.changes[0], span.changes[1] + 1)
        return sum(f.size for v in versions if v in facts.commits for f in facts.commits[v].files)
    if not span.direct:
        whole = [facts.size_of(version) for version, _ in span.versions]
        return sum(math.inf if size is None else size for size in whole)
    lists = (*(c.files for c in facts.commits.values()), *facts.snapshots.values())
    sizes = {f.path: f.size for held in lists for f in held}
    return sum(sizes.get(path, 0) for _, paths in span.versions for path in paths)


def compared_labels(sink: SinkReport, wanted: CountRequest, *, is_new: bool) -> tuple[str | None, str | None]:
    """The input that the table is compared with by key, as `lacking` and `committed` of a study. The first for rows
    that a fill would bring back: of the new code all that is left, of the old one what was read of it. The second for
    rows that the table lacks, of the new code. None of a sink that is not filled."""
    fills = sink.kind == "delta" and not sink.declared
    labels = ("everything", "processed") if is_new else ("processed", None)
    lacking, committed = (label if fills and label in wanted.sets else None for label in labels)
    return lacking, committed


def list_files(path: str, options: Mapping[str, Any]) -> tuple[InputFile, ...]:
    """The input files of one source as Spark would list them now; none where the place is not known."""
    return live_files.list_files(path, options=options) if path else ()
