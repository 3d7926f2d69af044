"""What a source yields between two positions, so that a batch reader can be handed exactly that. Pure.

A slice is plain JSON (`as_dict`), for it goes to the process that asks Spark and, in a plan, into the database.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from recovery.sources import kafka_facts
from recovery.sources.delta_facts import DataFile, DeltaFacts, DeltaOffset
from recovery.sources.delta_facts import parse_offset as parse_delta
from recovery.sources.kafka_facts import KafkaFacts


@dataclass(frozen=True)
class InputRange:
    """What is between two positions of one source. Only the fields of its kind are set."""

    kind: str
    #: files: decoded URIs
    files: tuple[str, ...] = ()
    #: kafka: topic -> partition -> first offset that is read
    start: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    #: kafka: topic -> partition -> first offset that is not read; every partition is named
    end: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    #: delta: version -> paths (as the log writes them) that the stream reads in the table's state at it; of a
    #: change feed the snapshot that it begins with
    versions: tuple[tuple[int, tuple[str, ...]], ...] = ()
    #: delta: read as Parquet, these files yield the same; else the whole version has to be read to pick their
    #: rows
    direct: bool = False
    #: delta: first and last version whose changes a change feed reads
    changes: tuple[int, int] | None = None
    #: delta: when the snapshot of a change feed was committed
    snapshot_ms: int | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing is in it."""
        spans = ((t, p, at) for t, held in self.start.items() for p, at in held.items())
        held = self.files or self.versions or self.changes
        return not held and all(self.end[t][p] <= at for t, p, at in spans)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "kind": self.kind,
            "files": list(self.files),
            "start": {t: dict(held) for t, held in self.start.items()},
            "end": {t: dict(held) for t, held in self.end.items()},
            "versions": [[version, list(paths)] for version, paths in self.versions],
            "direct": self.direct,
            "changes": None if self.changes is None else list(self.changes),
            "snapshot_ms": self.snapshot_ms,
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "InputRange":
        """The slice of an `as_dict`."""
        changes = body.get("changes")
        return cls(
            body["kind"],
            files=tuple(body["files"]),
            start=body["start"],
            end=body["end"],
            versions=tuple((version, tuple(paths)) for version, paths in body["versions"]),
            direct=body.get("direct", False),
            changes=None if changes is None else (changes[0], changes[1]),
            snapshot_ms=body.get("snapshot_ms"),
        )


def of_kafka(start: str | None, end: str | None, facts: KafkaFacts) -> InputRange | None:
    """Records from `start` up to `end`. Without a start every partition begins at its lowest offset. One that a start
    does not name came after it and begins at 0, or is no longer read by the code and has none of them.

    None where not known: a partition or topic is not the one that was read, or records of it are gone.
    """
    first, last = kafka_facts.parse_offsets(start), kafka_facts.parse_offsets(end)
    held: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for key in sorted(key for key in last if not first or key in first or facts.reads(key)):
        partition = facts.partition(key)
        if partition is None:
            return None
        named = {kafka_facts.EARLIEST: partition.low, kafka_facts.LATEST: partition.high}
        unnamed = 0 if first else partition.low
        begins, stops = (named.get(o, o) for o in (first.get(key, unnamed), last[key]))
        if not facts.comparable(key, begins) or begins < partition.low:
            return None
        topic, number = key
        held.setdefault(topic, {})[str(number)] = begins
        ends.setdefault(topic, {})[str(number)] = max(begins, stops)
    return InputRange("kafka", start=held, end=ends)


def of_delta(start: str | None, end: str | None, facts: DeltaFacts) -> InputRange | None:
    """Files that a stream reads after `start` and up to `end`, by the version in which it reads them.

    `start` None is where an empty checkpoint would begin. None where the facts do not hold them, where a change feed
    is within a version, and where the table is another one. Nothing where `end` is not after `start`.
    """
    before = facts.fresh() if start is None else parse_delta(start)
    after = None if end is None else parse_delta(end)
    if before is None or after is None or facts.reading.exclude:
        return None
    if {before.table_id, after.table_id} != {facts.table_id}:
        return None
    read = _versions_between(before, after, facts)
    if read is None:
        return None
    if facts.reading.change_feed:
        return _read_change_feed(before, read, facts)
    versions = tuple((v, tuple(f.path for f in files)) for v, files in read)
    return InputRange(
        "delta", versions=_merge_versions(versions, facts), direct=_can_read_directly(read, facts)
    )


def _read_change_feed(before: DeltaOffset, read: "Files", facts: DeltaFacts) -> InputRange | None:
    """The snapshot that a change feed begins with, and the changes of whole versions: Spark gives no part of one."""
    head = tuple(
        (v, tuple(f.path for f in files)) for v, files in read if before.initial and v == before.version
    )
    changed = [(v, files) for v, files in read if not (before.initial and v == before.version)]
    at_ms = facts.times.get(before.version)
    if (head and at_ms is None) or any(len(files) < len(facts.commits[v].files) for v, files in changed):
        return None
    span = (changed[0][0], changed[-1][0]) if changed else None  # versions between them change no row
    return InputRange("delta", versions=head, changes=span, snapshot_ms=at_ms if head else None)


MOST_DIRECT = 5000  # files; each is looked for by Spark, which takes the whole of a version from the log
Versions = tuple[tuple[int, tuple[str, ...]], ...]
Files = tuple[tuple[int, tuple[DataFile, ...]], ...]


def _can_read_directly(read: Files, facts: DeltaFacts) -> bool:
    """Whether each file can be read by itself: it is plain, and the table has the metadata that it had then."""
    first = min((v for v, _ in read), default=facts.latest)
    same = all(
        v in facts.commits and facts.commits[v].schema is None for v in range(first + 1, facts.latest + 1)
    )
    files = [f for _, held in read for f in held]
    return facts.plain and same and len(files) <= MOST_DIRECT and all(f.plain for f in files)


def _versions_between(before: DeltaOffset, after: DeltaOffset, facts: DeltaFacts) -> Files | None:
    first, head = before.version, []
    if before.initial:
        snapshot = facts.snapshots.get(before.version)
        if snapshot is None or (after.initial and after.version != before.version):
            return None
        upto = after.read if after.initial else len(snapshot)
        head = [(before.version, snapshot[before.read : upto])]
        if after.initial:
            return tuple((v, files) for v, files in head if files)
        first += 1
    elif after.initial:
        return None
    last = min(after.version if after.read else after.version - 1, facts.latest)
    if any(v not in facts.commits for v in range(first, last + 1)):
        return None
    for v in range(first, last + 1):
        skip = before.read if v == before.version else 0
        upto = after.read if v == after.version else len(facts.commits[v].files)
        head.append((v, facts.commits[v].files[skip:upto]))
    return tuple((v, files) for v, files in head if files)


def _merge_versions(read: Versions, facts: DeltaFacts) -> Versions:
    """All at one version, where nothing was taken out of the table since: one question instead of many."""
    last = max((v for v, _ in read), default=0)
    after = range(min((v for v, _ in read), default=0) + 1, last + 1)
    if len(read) < 2 or any(facts.commits[v].removed for v in after if v in facts.commits):
        return read
    return ((last, tuple(path for _, paths in read for path in paths)),)
