"""Looks whether all that was processed of a flow's sources is still there as it was (`sources.replaying`)."""

from collections.abc import Sequence

from recovery.errors import RepriseError
from recovery.sources import delta, files
from recovery.sources.base import SourceFacts
from recovery.sources.delta_facts import DeltaFacts, DeltaOffset
from recovery.sources.input_ranges import InputRange
from recovery.sources.live import delta as live_delta
from recovery.sources.live.file_source_facts import require_place
from recovery.sources.live.probe import MOST_COMMITS
from recovery.sources.replaying import GapCode, ProcessedInput, ReplayGap, processed_files, processed_versions


def measure_processed(sources: Sequence[SourceFacts]) -> ProcessedInput:
    """Of all sources of the code, in plan order. Asks the logs of Delta tables; raises nothing for a source."""
    held = [_range_of_source(index, source) for index, source in enumerate(sources)]
    gaps = tuple(held_range for held_range, _ in held if isinstance(held_range, ReplayGap))
    ranges = {
        index: held_range for index, (held_range, _) in enumerate(held) if isinstance(held_range, InputRange)
    }
    sizes = [size for _, size in held]
    return ProcessedInput(
        files=tuple(path for part in ranges.values() for path in part.files),
        slices={str(n): part for n, part in ranges.items() if part.kind != files.KIND},
        size=None if None in sizes or gaps else sum(size for size in sizes if size is not None),
        gaps=gaps,
    )


def _range_of_source(index: int, source: SourceFacts) -> tuple[InputRange | ReplayGap, int | None]:
    """One source, and the bytes of it; None: not known."""
    if source.problem:
        return ReplayGap(index, GapCode.UNKNOWN, f"Source {index}: {source.problem}"), None
    if source.position.kind == files.KIND:
        return processed_files(index, source), sum(f.size for f in source.processed)
    if source.position.kind == delta.KIND and isinstance(source.facts, DeltaFacts):
        return _of_delta(index, source, source.facts)
    says = f"Source {index}: where a source of kind {source.position.kind} first began is not known here."
    return ReplayGap(index, GapCode.UNKNOWN, says), None


def _of_delta(
    index: int, source: SourceFacts, known: DeltaFacts
) -> tuple[InputRange | ReplayGap, int | None]:
    if known.latest >= MOST_COMMITS:
        says = f"Source {index}: its table has more than {MOST_COMMITS:,} commits, which are not opened for this."
        return ReplayGap(index, GapCode.UNKNOWN, says), None
    place, options = require_place(source.reader), source.reader.options
    first = DeltaOffset(known.table_id, 0).as_json()  # from there on its files are looked for
    try:
        every = live_delta.read_table(place, offsets=[first], options=options, known=known, since=0)
    except RepriseError as problem:
        return ReplayGap(index, GapCode.UNKNOWN, f"Source {index}: {problem.sentence}"), None
    processed = processed_versions(index, source.position.offset_json, every)
    if isinstance(processed, ReplayGap) or not processed.direct:
        return processed, None if isinstance(processed, ReplayGap) or processed.versions else 0
    sizes = {f.path: f.size for commit in every.commits.values() for f in commit.files}
    return processed, sum(sizes.get(path, 0) for _, paths in processed.versions for path in paths)
