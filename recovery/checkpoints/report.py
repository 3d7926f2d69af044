"""What an inspection of a checkpoint says: frozen values, no I/O.

Terms are Spark's (StreamExecution, OffsetSeqLog, CommitLog, FileStreamSourceLog, OperatorStateMetadata).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from recovery.contracts.findings import Finding as Finding
from recovery.contracts.findings import Outcome as Outcome
from recovery.contracts.findings import Severity as Severity

SHOWN_ENTRIES = 100


@dataclass(frozen=True)
class SourceEntry:
    """One input file in a file source's log: URL-encoded URI as Spark wrote it, mtime in ms, log id."""

    path: str
    timestamp_ms: int
    batch_id: int


def _iterate_nothing() -> Iterator[SourceEntry]:
    return iter(())


@dataclass(frozen=True, eq=False)
class Entries:
    """Entries of a file source's log, in log order: the number and both ends at once, all of them when iterated.

    `first` holds the first hundred at most, `newest` the last one. A log of a million files is not held:
    iterating reads it again, and raises Unreachable where it is no longer what was counted.
    """

    count: int = 0
    first: tuple[SourceEntry, ...] = ()
    newest: SourceEntry | None = None
    read: Callable[[], Iterator[SourceEntry]] = _iterate_nothing

    @classmethod
    def from_entries(cls, entries: Iterable[SourceEntry]) -> "Entries":
        """Entries that are held."""
        held = tuple(entries)
        return cls(len(held), held[:SHOWN_ENTRIES], held[-1] if held else None, partial(iter, held))

    @property
    def oldest(self) -> SourceEntry | None:
        return self.first[0] if self.first else None

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[SourceEntry]:
        return self.read()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Entries):
            return NotImplemented
        return self.count == other.count and tuple(self) == tuple(other)


@dataclass(frozen=True)
class LostPosition:
    """That a source's position is not known, as the offset file of a committed batch is gone or cannot be read."""

    #: the committed batch
    batch: int
    #: the newest batch before it whose position is known; None: no file shows one
    known_batch: int | None = None
    #: the exact bytes of its offset line
    known_json: str | None = None


@dataclass(frozen=True)
class SourceProgress:
    """One source at the last committed batch."""

    index: int
    #: "files", or what positions.read_position tells
    kind: str
    #: the exact bytes of Spark's offset line; None: `-`
    offset_json: str | None
    #: of a file source: its own log id
    log_offset: int | None = None
    #: of a file source: log entries up to that id
    committed: Entries = field(default_factory=Entries)
    #: of a file source: log entries after it, which a failed restart may have left
    planned: Entries = field(default_factory=Entries)
    compacted: bool = False
    #: named sources (source evolution): the name, else None
    name: str | None = None
    #: the offset line's values, where its shape is known (positions.py)
    position: Mapping[str, Any] | None = None
    #: the directory below `sources/`; None: `name`, else `index`
    log: str | None = None
    #: index of the source whose log it is, where the code reads one source twice
    twin_of: int | None = None
    #: no such directory, or nothing in it
    bare: bool = False
    #: where it began, of a Kafka source that keeps that beside its line, while nothing is committed
    first_json: str | None = None
    #: why there is no line although a batch is committed
    lost: LostPosition | None = None

    @property
    def folder(self) -> str:
        """The source's own directory, whether it is there or not."""
        return f"sources/{self.log or self.name or self.index}"

    def as_dict(self) -> dict[str, Any]:
        """Plain values: counts and the ends of the log, never a hundred thousand entries."""
        return {
            "index": self.index,
            "name": self.name,
            "kind": self.kind,
            "offset_json": self.offset_json,
            "log_offset": self.log_offset,
            "committed_files": len(self.committed),
            "planned_files": len(self.planned),
            "oldest": asdict(self.committed.oldest) if self.committed.oldest else None,
            "newest": asdict(self.committed.newest) if self.committed.newest else None,
            "planned": [asdict(e) for e in self.planned.first],
            "compacted": self.compacted,
            "position": dict(self.position) if self.position is not None else None,
            "log": self.log or self.name or str(self.index),
            "twin_of": self.twin_of,
            "lost": asdict(self.lost) if self.lost else None,
        }


@dataclass(frozen=True)
class Column:
    """A column of a state key or value; `type` as SQL names it (`bigint`, `struct<start:timestamp>`)."""

    name: str
    type: str


@dataclass(frozen=True)
class StateSchema:
    """Key and value of one store, or of one column family in it (transformWithState: a state variable)."""

    store: str
    family: str
    key: tuple[Column, ...]
    value: tuple[Column, ...]
    file: str


@dataclass(frozen=True)
class StateVersion:
    """What one version added: deltas, changelogs and zips, in bytes. SST files belong to no single version."""

    version: int
    files: int
    size_bytes: int


@dataclass(frozen=True)
class StateOperator:
    """One stateful operator: id and name from its metadata, the rest from its files."""

    operator_id: int
    name: str
    partitions: int
    stores: tuple[str, ...] = ("default",)
    provider: str | None = None
    key_columns: tuple[str, ...] = ()
    size_bytes: int | None = None
    files: int = 0
    #: "hdfs" or "rocksdb", by the files
    layout: str | None = None
    #: 2: file names carry ids
    state_format: int | None = None
    metadata_version: int | None = None
    #: by metadata, else by the headers after a repartition, for all alike; 0: not recorded
    metadata_partitions: int = 0
    #: the state version that a restart loads (batch + 1)
    version: int | None = None
    #: keys at that version; None: no file shows it
    rows: int | None = None
    schemas: tuple[StateSchema, ...] = ()
    #: committed batches whose state is whole by its files' names, ascending; a rollback can end at these
    back: tuple[int, ...] = ()
    growth: tuple[StateVersion, ...] = ()
    properties: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CheckpointReport:
    """The whole judgement of one checkpoint directory. Readable: no blocker among the findings."""

    location: str
    #: "structured-streaming" | "none"
    format: str
    #: SDP: number of the checkpoint version (directory name), else None
    version: int | None
    query_id: str | None
    last_committed: int | None
    last_planned: int | None
    sources: tuple[SourceProgress, ...] = ()
    state_operators: tuple[StateOperator, ...] = ()
    findings: tuple[Finding, ...] = ()
    #: newest first: {batch, planned, committed, offsets[], timestamp_ms}
    batches: tuple[dict[str, Any], ...] = ()
    conf: dict[str, str] = field(default_factory=dict)
    #: sha256 over logs, schemas, partitions; equal = the stream has not moved
    fingerprint: str = ""
    #: the same with every state file's name and size
    exact_fingerprint: str = ""
    size_bytes: int = 0
    #: {at_least, before}: Spark versions that the header proves
    written_by: dict[str, str | None] | None = None
    #: names in a commit of format v3
    sinks: tuple[str, ...] = ()
    #: that the newest commit has set, ms since the epoch; None: no commit tells
    watermark_ms: int | None = None
    #: at which the newest committed batch ran: windows that end by then were written
    closed_ms: int | None = None

    @property
    def blockers(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.severity is Severity.BLOCKER)

    @property
    def outcome(self) -> Outcome:
        """What the next run will come to: the worst outcome among the findings, in the order of Outcome."""
        order = list(Outcome)
        return min((f.outcome for f in self.findings), key=order.index, default=Outcome.GOES_ON)

    def as_dict(self) -> dict[str, Any]:
        """The object that `inspect --json` prints."""
        plain = replace(self, sources=(), findings=())
        out = asdict(plain)
        out["sources"] = [s.as_dict() for s in self.sources]
        out["findings"] = [f.as_dict() for f in self.findings]
        out["outcome"] = self.outcome.value
        return out
