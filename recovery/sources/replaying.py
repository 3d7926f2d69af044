"""All that was processed of a flow's sources, so that it can be replayed: exactly that, or why it cannot be had. Pure.

A replay that leaves one processed row out, or reads one that never was processed, builds other state than the flow
would have: rows then come twice, or not at all. So what is not known counts as missing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from recovery.checkpoints.formats import Malformed
from recovery.sources import delta_facts, file_facts, input_ranges, kept
from recovery.sources.base import SourceFacts
from recovery.sources.comparing import count_noun
from recovery.sources.delta_facts import DeltaFacts, DeltaOffset
from recovery.sources.file_facts import FileSourceFacts
from recovery.sources.input_ranges import InputRange


class GapCode(StrEnum):
    """Why what was processed of a source cannot be replayed."""

    GONE = "gone"  # some of it is no longer there
    CHANGED = "changed"  # something else may be there in its place
    UNKNOWN = "unknown"  # which rows it was is not known


@dataclass(frozen=True)
class ReplayGap:
    """One source that cannot be replayed, and why."""

    #: its index in the code
    source: int
    code: GapCode
    #: the reason, one sentence for people
    says: str


@dataclass(frozen=True)
class ProcessedInput:
    """What was processed, of all sources together; with a gap it is not all of it."""

    #: decoded URIs of all file sources together, in the order in which they were read
    files: tuple[str, ...] = ()
    #: of every other source, by its index in the code, as text
    slices: Mapping[str, InputRange] = field(default_factory=dict)
    #: bytes to be read for it; None: not known
    size: int | None = None
    gaps: tuple[ReplayGap, ...] = ()

    @property
    def pieces(self) -> int:
        """Files that are read: input files, and data files of Delta tables."""
        versions = (version for part in self.slices.values() for version in part.versions)
        return len(self.files) + sum(len(paths) for _, paths in versions)


def processed_files(index: int, source: SourceFacts) -> InputRange | ReplayGap:
    """Of a source that reads files: those that its log names, as long as they are there as they were."""
    held = source.facts
    if not isinstance(held, FileSourceFacts):
        return ReplayGap(index, GapCode.UNKNOWN, f"Source {index}: its files could not be listed.")
    if source.gone:
        says = f"Source {index}: {count_noun(len(source.gone), 'file')} that it has read is no longer there, such as"
        return ReplayGap(index, GapCode.GONE, f"{says} {_last_part(source.gone[0])}.")
    paths = {f.path for f in source.processed}
    if other := [f.path for f in file_facts.list_rewritten(held) if f.path in paths]:
        says = f"Source {index}: {count_noun(len(other), 'file')} that it has read was written again since, such as"
        return ReplayGap(index, GapCode.CHANGED, f"{says} {_last_part(other[0])}.")
    return InputRange("files", files=tuple(f.path for f in source.processed))


def processed_versions(index: int, committed: str | None, facts: DeltaFacts) -> InputRange | ReplayGap:
    """Of a source that reads a Delta table: the files that its commits brought, from the first version on.

    `facts` with all commits, and the files looked for.
    """
    if committed is None:
        return InputRange("delta")
    if facts.earliest > 0:
        says = f"Source {index}: the log of its table begins with version {facts.earliest}; earlier ones were cleaned."
        return ReplayGap(index, GapCode.GONE, says)
    try:
        whole, at = kept.by_delta(None, committed, facts), delta_facts.parse_offset(committed)
    except Malformed as problem:
        return ReplayGap(
            index, GapCode.UNKNOWN, f"Source {index}: its position cannot be read: {problem.why}."
        )
    if not whole or at.initial or facts.reading.change_feed:
        says = (
            f"Source {index}: it is not known which rows of its table were read: rows were taken out of it, a change "
            "feed is read, or reading did not begin with its first version."
        )
        return ReplayGap(index, GapCode.UNKNOWN, says)
    read = input_ranges.of_delta(DeltaOffset(facts.table_id, 0).as_json(), committed, facts)
    if read is None:
        return ReplayGap(
            index, GapCode.UNKNOWN, f"Source {index}: its log does not show which files were read."
        )
    gone = [path for _, paths in read.versions for path in paths if path in facts.gone]
    if gone:
        says = f"Source {index}: {count_noun(len(gone), 'data file')} that it has read is no longer there, such as"
        return ReplayGap(index, GapCode.GONE, f"{says} {_last_part(gone[0])}.")
    return read


def _last_part(path: str) -> str:
    return path.rsplit("/", 1)[-1]
