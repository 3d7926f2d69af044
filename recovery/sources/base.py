"""Positions: a source's position, in its own words and in people's.

A source adapter answers about one kind of source. Pure: it gets values that `live/` fetched.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from recovery.contracts.amounts import Amount
from recovery.contracts.choices import Wanted as Wanted
from recovery.contracts.positions import Moved as Moved
from recovery.contracts.positions import Precision as Precision

if TYPE_CHECKING:
    from recovery.sources.input_ranges import Slice

F_contra = TypeVar("F_contra", contravariant=True)


@dataclass(frozen=True)
class InputFile:
    """One file that the source lists now: decoded URI, size in bytes, mtime in ms since the epoch."""

    path: str
    size: int
    mtime_ms: int


@dataclass(frozen=True)
class Position:
    """The position of one source. `offset_json` is Spark's offset line, byte for byte (None: nothing read yet)."""

    source: int | str
    kind: str
    offset_json: str | None
    label: str
    precision: Precision
    reachable: bool | None  # can what comes next still be read? None: not known
    earliest: str | None = None
    latest: str | None = None


@dataclass(frozen=True)
class Distance:
    """What is between two positions of one source. None: this source cannot tell."""

    rows: Amount | None = None
    files: Amount | None = None
    bytes: Amount | None = None
    seconds: Amount | None = None


@dataclass(frozen=True)
class Part:
    """The smallest thing of a source that has a position of its own: a partition of a topic, a table, a directory.

    `value` is the position as the source says it, None when the part has none yet; `label` is for people.
    """

    name: str
    value: str | None
    label: str


@dataclass(frozen=True)
class Change:
    """One part before and after."""

    part: str
    before: Part | None
    after: Part | None
    moved: Moved


@dataclass(frozen=True)
class Reach:
    """Can everything after a position still be read? None: not known. `why` is one sentence for people.

    `until_ms`: when retention will take the first of it, ms since the epoch (None: never, or not known). `lost`:
    what retention has taken already. `parts`: the parts that are affected. `stops`: where something cannot be read,
    whether a stream is stopped or cut short by that; False where it passes over it as it always did, recovered or not.
    """

    readable: bool | None
    why: str
    until_ms: int | None = None
    lost: Distance | None = None
    parts: tuple[str, ...] = ()
    stops: bool = True


@dataclass(frozen=True)
class EmptyStart:
    """Where a stream with an empty checkpoint begins, by the reader's own options.

    `again`: whether it reads what was read before, as far as that is kept. `whole`: whether all of that is kept. None:
    not known. `fails`: it would not start at all. `why` is one sentence for people.
    """

    again: bool | None
    whole: bool | None
    why: str
    fails: bool = False


@dataclass(frozen=True)
class StartOption:
    """How a stream with an empty checkpoint would be started at a position, by options of its reader.

    `options` are Spark's own; `code` is the line to write and `place` says where. `doubled` and `missed`: rows on
    the boundary that such a start reads twice or never, against a seeded start (None: not known). Where the
    source has no such option `supported` is False and `note` says why and what to do.
    """

    supported: bool
    precision: Precision
    options: Mapping[str, str] = field(default_factory=dict)
    code: str = ""
    place: str = ""
    doubled: Amount | None = None
    missed: Amount | None = None
    note: str = ""


@dataclass(frozen=True)
class Candidate:
    """A position that could be chosen, and what it costs against the one that was committed.

    `lost`: never read, `reread`: read a second time. `fallbacks`: parts for which the wish could not be met as
    said, with the sentence that says what was taken in its place: nothing is clamped without one.
    """

    offset_json: str
    label: str
    precision: Precision
    lost: Distance
    reread: Distance
    changes: tuple[Change, ...] = ()
    fallbacks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Spans:
    """What a source yields around two positions: where it was committed, and where the stream starts.

    They are the same unless another was chosen. `processed`: up to the committed position, as far as it is still
    there; `waiting`: from the start on; `reread`: committed, and after the start; `skipped`: not committed, and before
    the start; `unread`: not committed; `everything`: all that is there now. None: it cannot be handed to a batch
    reader, so that its rows cannot be counted.
    """

    processed: "Slice | None" = None
    waiting: "Slice | None" = None
    reread: "Slice | None" = None
    skipped: "Slice | None" = None
    unread: "Slice | None" = None
    everything: "Slice | None" = None


@dataclass(frozen=True)
class SourceFacts:
    """One source of a flow: its position, what it has read, what waits.

    `processed` are the files of committed batches, `waiting` the listed files that Spark will read (one that was
    written again since may be in both), in the order in which it would; `gone` are processed files that no longer
    exist, `ignored` those that Spark passes over (maxFileAge, fileNameOnly). These are of
    file sources alone; of every kind are those below.

    `start`: the position that a person chose, with what it costs; None: where it was committed. `latest`: the position
    behind everything that is there now. `unread`: what is between start and latest. `reach` and `option`: of where
    the stream begins. `facts`: what the real system said, as `registry.source_kind_of(kind)` takes it; None: it
    was not asked, or `problem` says why it could not answer.
    `described`: {format, path, options, location} of the reader in the code.
    """

    position: Position
    location: str
    processed: tuple[InputFile, ...] = ()
    waiting: tuple[InputFile, ...] = ()
    gone: tuple[str, ...] = ()
    max_files_per_trigger: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # reader options that decide the listing
    ignored: tuple[InputFile, ...] = ()  # unread, and passed over by Spark (maxFileAge, fileNameOnly)
    start: "Candidate | None" = None
    latest: str | None = None
    unread: "Distance" = field(default_factory=lambda: Distance())
    spans: Spans = field(default_factory=Spans)
    reach: "Reach | None" = None
    option: "StartOption | None" = None
    facts: Any = None
    problem: str | None = None
    described: Mapping[str, Any] = field(default_factory=dict)

    @property
    def begins(self) -> str | None:
        """The offset line after which the stream continues."""
        return self.start.offset_json if self.start else self.position.offset_json


class SourceKind(Protocol[F_contra]):
    """What every kind of source answers, as functions of a module: `recovery/sources/<kind>.py`. Pure.

    `F` are the facts that `live/<kind>.py` fetched from the real system: frozen, with the time of asking in ms. An
    `offset_json` is Spark's own offset line; one that cannot be read raises Malformed (checkpoints.formats), and a
    wish that is out of bounds raises Refused with the bounds in its sentence.

    `UNIT`: what is counted in it, in people's word.
    """

    KIND: str
    UNIT: str

    @property
    def CAN(self) -> Sequence[str]:
        """The fields of `Wanted` that `find_position` answers; it raises Refused for the others."""

    def list_parts(self, offset_json: str | None) -> tuple[Part, ...]: ...

    def label_position(self, offset_json: str | None) -> str: ...

    def compare_positions(self, before: str | None, after: str | None) -> tuple[Change, ...]: ...

    def measure_distance(self, start: str | None, end: str | None, facts: F_contra) -> Distance: ...

    def judge_reach(self, offset_json: str | None, facts: F_contra) -> Reach: ...

    def find_start_option(self, offset_json: str | None, facts: F_contra) -> StartOption: ...

    def find_position(self, wanted: Wanted, committed: str | None, facts: F_contra) -> Candidate: ...

    def find_empty_start(self, options: Mapping[str, Any], facts: F_contra | None) -> EmptyStart: ...
