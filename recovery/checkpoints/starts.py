"""Where each source of the new code starts, said by someone: what may be said, and what its log then holds. Pure.

Facts (seen on Spark 4.2, tests/integration/test_seeds_on_spark.py): a source goes on after its line in the newest
offset file, wherever that is, as long as the line before is the same; a file source reads what its log does not name,
and numbers the next entry by the newest one of its log, not by the line; `-` is a source of which nothing was read.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from recovery.checkpoints import positions
from recovery.checkpoints.formats import MAX_SOURCES, Malformed, json_of, log_offset
from recovery.checkpoints.report import SourceEntry, SourceProgress
from recovery.checkpoints.uris import decode_uri
from recovery.contracts.steps import SeededSource, SkippedFile
from recovery.errors import Refused

# Kinds whose line, with what the checkpoint keeps in the source's own directory, is the whole position. A source that
# is not known here is one of them where that directory is empty: its line is all that Spark has of it (Python sources).
SEEDABLE = ("files", "kafka", "delta", "rate", "rate-micro-batch")
WHY_NOT = {
    "iceberg": "it keeps where it began in a file that must fit the table's snapshots, which was not tried",
    "auto-loader": "it keeps what it has read in a database of its own (RocksDB) that is not read here",
    "pubsub": "it keeps what it has read in a database of its own (RocksDB) that is not read here",
    "kinesis": "it keeps more than its line, in a form that is known from documents alone",
}
MAX_NUMBER = 2**63 - 1 - 100  # of a Java long; Delta keeps the highest hundred for itself


@dataclass(frozen=True)
class SourceStart:
    """Where source `index` of the new code, in plan order, starts."""

    index: int
    #: index of the checkpoint's source that it continues; None: a new source
    old: int | None
    #: the offset line after which it continues; None: `-`, so that the reader's own options decide
    offset_json: str | None
    #: decoded URIs of committed files that are read again
    again: tuple[str, ...] = ()
    #: files that count as read
    skip: tuple[SourceEntry, ...] = ()
    #: of a new source, where sources are named; a continuing one keeps its name
    name: str | None = None

    @property
    def key(self) -> str:
        """In offset format 2 what its line begins with, and in both the name of its directory below `sources/`."""
        return self.name or str(self.index)

    @property
    def log_id(self) -> int | None:
        """The newest id that its log may hold, where it is a file source with a line."""
        return log_offset(self.offset_json)

    def to_args(self) -> SeededSource:
        """As a sealed step holds it."""
        return SeededSource(
            index=self.index,
            old=self.old,
            offset_json=self.offset_json,
            again=self.again,
            skip=tuple(SkippedFile(**asdict(entry)) for entry in self.skip),
            name=self.name,
        )

    @classmethod
    def from_args(cls, sealed: SeededSource) -> "SourceStart":
        """Back from `to_args`."""
        skip = tuple(SourceEntry(entry.path, entry.timestamp_ms, entry.batch_id) for entry in sealed.skip)
        return cls(sealed.index, sealed.old, sealed.offset_json, sealed.again, skip, sealed.name)


def check_starts(starts: Sequence[SourceStart], old: Sequence[SourceProgress]) -> tuple[SourceStart, ...]:
    """The starts in plan order, with the names that they keep. Raises Refused for what Spark could not go on from."""
    ordered = sorted(starts, key=lambda s: s.index)
    if not ordered or [s.index for s in ordered] != list(range(len(ordered))) or len(ordered) > MAX_SOURCES:
        indexes = ", ".join(str(s.index) for s in ordered) or "none"
        raise Refused(
            f"Every source of the new code needs one start, by its number from 0 on; given were {indexes}.",
            code="not_seedable",
        )
    continued = [s.old for s in ordered if s.old is not None]
    if len(set(continued)) < len(continued):
        raise Refused("Two starts continue one source of the checkpoint.", code="not_seedable")
    named = any(s.name for s in old)
    return tuple(_check_start(start, old, named) for start in ordered)


def why_not_seedable(source: SourceProgress) -> str | None:
    """Why this source of a checkpoint cannot go on in another one; None when it can.

    A Delta source's log of schemas names the checkpoint that it belongs to, and is refused in any other (Delta's
    DeltaSourceMetadataTrackingLog.create). Only such a source has positions at a change of the schema.
    """
    name = source.name or source.index
    if source.kind == "delta" and (source.position or {}).get("sourceVersion") == 3:
        return (
            f"Source {name} is at a change of its table's schema. Let the old code read past it, then seed."
        )
    if source.kind in SEEDABLE or (
        source.kind == "unknown" and source.bare and _is_object_or_number(source.offset_json)
    ):
        return None
    why = f": {WHY_NOT[source.kind]}" if source.kind in WHY_NOT else ""
    return (
        f"Source {name} is of a kind that this version cannot seed{why}; it seeds {', '.join(SEEDABLE)}, and sources "
        "of which the checkpoint holds nothing but a line of JSON."
    )


def refuse_not_seedable(source: SourceProgress) -> None:
    """Raises Refused (`at_schema_change`, `kind_not_seedable`) for a source that cannot go on in another checkpoint."""
    if why := why_not_seedable(source):
        raise Refused(why, code="at_schema_change" if source.kind == "delta" else "kind_not_seedable")


def entries_at(start: SourceStart, held: Iterable[SourceEntry], batch: int) -> list[SourceEntry]:
    """What a file source's log holds at a start after `batch`, by log id. `held`: the committed entries.

    Raises Refused. After batch 0 a restart asks for every log id from 0 on, after a later one for none.
    """
    again = set(start.again)
    entries_then, missing, kept = [], set(again), set()
    for entry in held:
        path = decode_uri(entry.path)
        missing.discard(path)
        if path not in again:
            entries_then.append(entry)
            kept.add(path)
    if missing:
        raise _cannot_start(start, f"{min(missing)} is to be read again, and is not in its log")
    for entry in start.skip:
        path = decode_uri(entry.path)
        if path in kept:
            raise _cannot_start(start, f"{path} is to be skipped, and is in its log once already")
        kept.add(path)
        entries_then.append(entry)
    reached = -1 if start.log_id is None else start.log_id
    beyond = next((e for e in entries_then if not 0 <= e.batch_id <= reached), None)
    if beyond is not None:
        raise _cannot_start(
            start,
            f"{decode_uri(beyond.path)} has log id {beyond.batch_id}, which its line, at {reached}, does not take in",
        )
    if reached >= 0 and not entries_then:
        raise _cannot_start(
            start, f"its line is at log id {reached}, and no file is left that counts as read"
        )
    gaps = set(range(reached + 1)) - {e.batch_id for e in entries_then} if batch == 0 else ()
    if gaps:
        raise _cannot_start(
            start,
            f"no file has log id {min(gaps)}, for which a restart after batch 0 asks",
            code="log_id_missing",
        )
    return sorted(entries_then, key=lambda e: e.batch_id)


def moves_files(start: SourceStart, source: SourceProgress) -> bool:
    """Whether a file source's log will name other files than those that are committed."""
    return bool(start.again or start.skip) or start.log_id != source.log_offset


def _check_start(start: SourceStart, old: Sequence[SourceProgress], named: bool) -> SourceStart:
    if start.old is None:
        _refuse_new(start)
        if named is not bool(start.name):
            does = (
                "names its sources: name this one too"
                if named
                else "names no source, so this one has no name"
            )
            raise _cannot_start(
                start, f"the checkpoint {does}", code="name_missing" if named else "names_no_source"
            )
        return start
    if not 0 <= start.old < len(old):
        raise _cannot_start(start, f"the checkpoint has no source {start.old} that it could continue")
    source = old[start.old]
    refuse_not_seedable(source)
    if start.offset_json is not None and start.offset_json != source.offset_json:
        _refuse_line(start, source.kind)
    if source.kind != "files":
        _refuse_files(start)
    elif start.offset_json is None and start.again == () and len(source.committed):
        raise _cannot_start(
            start, "it has no line, and files of its log count as read: name them as read again"
        )
    return replace(start, name=source.name)


def _refuse_new(start: SourceStart) -> None:
    """A new source may have a line where it shows its kind, or none."""
    if start.again:
        raise _cannot_start(start, "it is new, so no file was read that could be read again")
    if start.offset_json is None:
        _refuse_files(start)
        return
    kind = "files" if start.log_id is not None else positions.read_position(start.offset_json, None)[0]
    if kind not in ("files", "kafka", "delta", "rate-micro-batch"):
        raise _cannot_start(
            start, "it is new, and its line is not one of files, Kafka, Delta or rate-micro-batch"
        )
    _refuse_line(start, kind)
    if kind != "files":
        _refuse_files(start)


def _refuse_files(start: SourceStart) -> None:
    if start.again or start.skip:
        raise _cannot_start(start, "only a file source with a line has files to be read again or skipped")


def _refuse_line(start: SourceStart, kind: str) -> None:
    """A line that no one wrote yet must be one that the source can go on from."""
    line = start.offset_json or ""
    try:
        problem = _find_line_problem(line, kind)
    except Malformed as error:
        problem = f"it cannot be read: {error.why}"
    if problem or "\n" in line or "\r" in line:
        raise _cannot_start(
            start,
            f"its line {line[:200]} is not one of a source of kind {kind}: {problem or 'it has two lines'}",
        )


def _find_line_problem(line: str, kind: str) -> str | None:
    body = json_of(line)
    if kind == "files":
        at = log_offset(line)
        return None if at is not None and -1 <= at < MAX_NUMBER else "it has no logOffset of -1 or more"
    if kind == "rate":
        return None if type(body) is int and 0 <= body < MAX_NUMBER else "it is no number of seconds"
    if kind == "unknown":
        return None if isinstance(body, dict) else "it is no JSON object"
    read, position = positions.read_position(line, None)
    if read != kind or position is None:
        return f"it is of kind {read}"
    if kind == "kafka":
        return _find_kafka_problem(position)
    return _find_delta_problem(position) if kind == "delta" else _find_counter_problem(position)


def _find_kafka_problem(position: Mapping[str, Any]) -> str | None:
    """Numbers alone. In an offset file Spark fails at -1 (latest), and takes -2 (earliest) for what a task finds first.

    So a batch that runs again may then read another range (seen on 4.2).
    """
    named = next(
        (f"{t}-{p}" for t, held in position.items() for p, o in held.items() if not 0 <= o <= MAX_NUMBER),
        None,
    )
    return f"partition {named} needs its offset as a number of 0 or more" if named else None


def _find_delta_problem(position: Mapping[str, Any]) -> str | None:
    if position["sourceVersion"] != 1:
        return "only sourceVersion 1 can be taken to another checkpoint, since a log of schemas cannot"
    if not 0 <= position["reservoirVersion"] < MAX_NUMBER or not -1 <= position["index"] < MAX_NUMBER:
        return f"version {position['reservoirVersion']}, index {position['index']} is no position"
    return None


def _find_counter_problem(position: Mapping[str, Any]) -> str | None:
    bad = next((key for key, value in position.items() if not 0 <= value < MAX_NUMBER), None)
    return f"{bad} is out of bounds" if bad else None


def _is_object_or_number(offset_json: str | None) -> bool:
    """A JSON object; a number alone may be a socket's, which can read nothing again."""
    if offset_json is None:
        return True
    try:
        return isinstance(json_of(offset_json), dict)
    except Malformed:
        return False


def _cannot_start(start: SourceStart, why: str, code: str = "not_seedable") -> Refused:
    return Refused(f"Source {start.key} cannot start there: {why}.", code=code)
