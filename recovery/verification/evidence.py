"""What was measured before and after the rerun, as frozen values; and what to ask Spark to compare.

The workflow gathers these. None means "could not be measured", and is never read as "nothing".
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from recovery.checkpoints.report import CheckpointReport, SourceEntry, SourceProgress
from recovery.checkpoints.uris import decode_uri
from recovery.contracts.measured import ChangedFiles, NotWholeReason
from recovery.contracts.refreshed import RefreshedDataset
from recovery.sinks.base import SinkReport
from recovery.spark.api import Measure


@dataclass(frozen=True)
class FirstBatch:
    """The first batch that the rerun committed, as its progress event says.

    `start_offsets` per source in plan order: Spark's JSON text or the same as an object, None at the start.
    """

    batch: int
    start_offsets: tuple[Any, ...]


@dataclass(frozen=True)
class ReachedPosition:
    """How far the rerun came in a source that is no file source. Offset lines as Spark writes them.

    `start` as planned; `end` as committed; `left_empty`: nothing lies between `end` and what was there right before the
    rerun (None: could not be asked). `measured`: start and end of what the measure replayed; None: it did not.
    `arrived`: something came after the plan was sealed, and was read.
    """

    kind: str
    start: str | None
    end: str | None
    left_empty: bool | None
    measured: tuple[str | None, str | None] | None = None
    arrived: bool = False


UNSEEN: Final = "UNSEEN"
"""State of an update of which nothing shows that it began."""


@dataclass(frozen=True)
class FurtherUpdate:
    """One more update after the rerun. `arrived`: input files listed after it that were not before it, and that it may
    have read. `waited`: files that it has read, or sources that it has read on, whenever their input came."""

    state: str  # COMPLETED, FAILED, CANCELED, …, or UNSEEN
    rows_before: int | None
    rows_after: int | None
    files_before: tuple[str, ...] | None  # data files the sink's log names
    files_after: tuple[str, ...] | None
    arrived: tuple[str, ...] = ()
    waited: tuple[str, ...] = ()


@dataclass(frozen=True)
class OldFiles:
    """The data files that the table had right before the rerun, as they are after it.

    `files`: how many there were; None: of a Delta table, which tells by its commits. `touched`: names of those that the
    table's log names no more, that are gone, or whose size or time is another; of a Delta table those that a commit
    since took away with their rows. `rewritten`: taken away by a commit that says it changed no row (OPTIMIZE).
    `versions`: of a Delta table, before and after. `problem`: why it could not be told; "": it could.
    """

    files: int | None = None
    touched: tuple[str, ...] = ()
    rewritten: int = 0
    versions: tuple[int, int] | None = None
    problem: str = ""


@dataclass(frozen=True)
class WholeFlow:
    """What the whole flow was compared over: `files` of all input that was ever committed and is there, `gone` of it;
    `others`: sources that are no files, `cut` of them have lost earlier input, or may have. `size`: bytes of input and
    table together; None: not known. `why` not None: it was not compared."""

    files: int = 0
    gone: int = 0
    others: int = 0
    cut: int = 0
    size: int | None = None
    why: NotWholeReason | None = None

    @property
    def partial(self) -> bool:
        """Whether input that was read may be missing from what was compared."""
        return bool(self.gone or self.cut)


FROM_NOTHING: Final = ("new", "again")
"""Scopes whose checkpoint began empty: all that it holds was read by the rerun."""


@dataclass(frozen=True)
class KeptRows:
    """The rows of a backup when it was made, and their digest."""

    rows: int
    digest: str


@dataclass(frozen=True)
class Evidence:
    """Everything a verdict may look at.

    `scope`: "both" (a seeded version goes on after the old one), "same" (the old version goes on),
    "new" (a new version began at nothing, and so did the table), "again" (a new version began at
    nothing, beside a table that was kept). `old` and `sink_before` were read before anything was
    changed, `new` and `sink_after` after the rerun. `listed` holds the decoded URIs of every input file
    known when the plan was sealed, by source index, plus those listed right before the rerun; files
    that Spark ignores for their age are left out. `arrived_rows`: rows that the code yields over the
    files that arrived after the plan was sealed (`arrivals`); None: not counted.
    """

    scope: str
    old: CheckpointReport | None
    new: CheckpointReport | None
    listed: Mapping[int, tuple[str, ...]] | None
    first_batch: FirstBatch | None
    sink_before: SinkReport | None
    sink_after: SinkReport | None
    measure: Measure | None
    measured_inputs: tuple[str, ...] = ()  # input files that the measure replayed
    measured_files: tuple[str, ...] = ()  # new data files that the measure read
    others_before: Mapping[str, str | None] | None = None
    others_after: Mapping[str, str | None] | None = None
    further: FurtherUpdate | None = None
    planned: Mapping[int, tuple[str, ...]] | None = None  # as sealed, where `listed` has later files too
    passed_over: tuple[str, ...] = ()  # files that Spark was not to read, by the plan
    arrived_rows: int | None = None
    reached: Mapping[int, ReachedPosition] = field(default_factory=dict)  # sources that are no file sources
    below: (
        tuple[RefreshedDataset, ...] | None
    ) = ()  # datasets downstream after the refresh; None: it was not done
    measured_since: int | None = None  # version of a Delta table beyond which the measure looked
    old_files: OldFiles | None = None
    whole_flow: WholeFlow | None = None  # None: nobody tried to compare it
    backup: KeptRows | None = None  # as it was made; None: none was
    changed_files: ChangedFiles | None = None  # None: the source files could not be listed, or there are none
    owners: Mapping[str, str] = field(
        default_factory=dict
    )  # of files that are named, where the storage tells
    by_function: bool = False  # a function of the code writes the table
    drops_repeats: bool = False  # a step of the code drops repeats (dropDuplicates)
    replaced_files: int = 0  # read again as other files, where the plan knew how many rows it loses


@dataclass(frozen=True)
class BatchedFiles:
    """Input files by source index, one entry for each time a committed batch holds them."""

    before: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    after: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


def batches(scope: str, old: CheckpointReport, new: CheckpointReport) -> BatchedFiles:
    """Files of committed batches before and after the rerun began.

    Entries are told apart by the source's own log id: a seeded version repeats the old entries up to
    `log_offset`; what the rerun read has higher ids. Compacted logs keep the id of each entry. A
    version that does not begin with exactly the old entries was not seeded from them: all it holds
    was read by the rerun, whatever its ids.
    """
    if scope in FROM_NOTHING:
        return BatchedFiles({}, {s.index: _paths(s.committed) for s in new.sources})
    stood = {s.index: s for s in old.sources}
    after = {s.index: _paths(_added(stood.get(s.index), s)) for s in new.sources}
    return BatchedFiles({s.index: _paths(s.committed) for s in old.sources}, after)


def _added(old: SourceProgress | None, new: SourceProgress) -> tuple[SourceEntry, ...]:
    edge, held = old.log_offset if old else None, tuple(new.committed)
    if old is None or edge is None:
        return held
    kept = Counter((e.path, e.batch_id) for e in held if e.batch_id <= edge)
    if kept != Counter((e.path, e.batch_id) for e in old.committed):
        return held
    return tuple(e for e in held if e.batch_id > edge)


def new_inputs(scope: str, old: CheckpointReport, new: CheckpointReport) -> tuple[str, ...]:
    """Decoded URIs of the input files that the rerun committed: the set to replay in a measure."""
    return tuple(sorted({p for paths in batches(scope, old, new).after.values() for p in paths}))


def is_folder_read_unevenly(scope: str, old: CheckpointReport, new: CheckpointReport) -> bool:
    """Whether a file that one source read in the rerun was read by another source before it, and not since. A file is
    replayed for every reader of its folder, so what the one source alone yields of it cannot be computed."""
    files = batches(scope, old, new)
    return any(
        not {*paths}.isdisjoint({*before} - {*files.after.get(other, ())})
        for source, paths in files.after.items()
        for other, before in files.before.items()
        if other != source
    )


def data_files(report: SinkReport) -> tuple[str, ...]:
    """Every data file that the sink's log names, compacted or not."""
    return tuple(sorted({*report.older, *(f for files in report.batches.values() for f in files)}))


def new_data_files(scope: str, before: SinkReport, after: SinkReport) -> tuple[str, ...]:
    """Data files that the rerun's batches wrote. A full refresh began with an empty table.

    None of a Delta table, which is measured by its versions: its log names files of many writers.
    """
    if after.version is not None:
        return ()
    stood = set() if scope == "new" else set(data_files(before))
    return tuple(f for f in data_files(after) if f not in stood)


def measured_from(scope: str, before: SinkReport) -> int | None:
    """The version of a Delta table beyond which the rerun's rows lie: -1 where it began empty. None: a file table."""
    if before.version is None:
        return None
    return -1 if scope == "new" else before.version


def arrivals(evidence: Evidence) -> tuple[str, ...]:
    """Input files that the rerun read and the sealed plan did not know."""
    if evidence.old is None or evidence.new is None:
        return ()
    known = evidence.planned if evidence.planned is not None else evidence.listed or {}
    seen = {p for paths in known.values() for p in paths}
    return tuple(p for p in new_inputs(evidence.scope, evidence.old, evidence.new) if p not in seen)


def _paths(entries: Iterable[SourceEntry]) -> tuple[str, ...]:
    return tuple(decode_uri(e.path) for e in entries)
