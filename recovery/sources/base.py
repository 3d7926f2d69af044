"""Positions of sources, and what an adapter of one kind of source answers. Pure: `live/` fetches the values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from recovery.contracts.amounts import Amount
from recovery.contracts.positions import PartMove as PartMove
from recovery.contracts.positions import Precision as Precision
from recovery.contracts.readers import NO_READER, ReaderOptions, SourceReader
from recovery.contracts.start_choice import StartChoice as StartChoice

if TYPE_CHECKING:
    from recovery.sources.input_ranges import InputRange

F_contra = TypeVar("F_contra", contravariant=True)


@dataclass(frozen=True)
class InputFile:
    """One file that the source lists now."""

    #: decoded URI
    path: str
    #: in bytes
    size: int
    #: ms since the epoch
    mtime_ms: int


@dataclass(frozen=True)
class Position:
    """The position of one source."""

    source: int | str
    kind: str
    #: Spark's offset line, byte for byte; None: nothing read yet
    offset_json: str | None
    label: str
    precision: Precision
    #: can the next input still be read? None: not known
    reachable: bool | None
    earliest: str | None = None
    latest: str | None = None
    #: False: batches are committed, and where the last one ended is not known; `label` says so
    is_known: bool = True


@dataclass(frozen=True)
class Distance:
    """What is between two positions of one source. None: not known for this source."""

    rows: Amount | None = None
    files: Amount | None = None
    bytes: Amount | None = None
    seconds: Amount | None = None


@dataclass(frozen=True)
class PositionPart:
    """The smallest thing with a position of its own: a partition of a topic, a table, a directory."""

    name: str
    #: the position in the source's form; None: no position yet
    value: str | None
    #: the position for people
    label: str


@dataclass(frozen=True)
class PartChange:
    """One part before and after."""

    part: str
    before: PositionPart | None
    after: PositionPart | None
    moved: PartMove


@dataclass(frozen=True)
class SourceRetention:
    """Whether everything after a position can still be read."""

    #: None: not known
    readable: bool | None
    #: one sentence for people
    why: str
    #: when retention takes the first of it, ms since the epoch; None: never, or not known
    until_ms: int | None = None
    #: what retention has taken
    lost: Distance | None = None
    #: the parts that are affected
    parts: tuple[str, ...] = ()
    #: True: unreadable data stops the stream or cuts it short. False: the stream skips it silently, as before
    stops: bool = True


@dataclass(frozen=True)
class EmptyStart:
    """Where a stream with an empty checkpoint begins, by the reader's own options."""

    #: whether it reads again what was read before, as far as that is kept; None: not known
    again: bool | None
    #: whether all of that is kept; None: not known
    whole: bool | None
    #: one sentence for people
    why: str
    #: it would not start at all
    fails: bool = False


@dataclass(frozen=True)
class StartOption:
    """How options of its reader start a stream with an empty checkpoint at a position."""

    #: False: the source has no such option, and `note` says why and what to do
    supported: bool
    precision: Precision
    #: Spark's own options
    options: Mapping[str, str] = field(default_factory=dict)
    #: the line to write
    code: str = ""
    #: where to write it
    place: str = ""
    #: rows on the boundary that it reads twice, unlike a seeded start; None: not known
    doubled: Amount | None = None
    #: rows on the boundary that it never reads; None: not known
    missed: Amount | None = None
    note: str = ""


@dataclass(frozen=True)
class StartCandidate:
    """A position that could be chosen, and what it costs compared with the committed one."""

    offset_json: str
    label: str
    precision: Precision
    #: never read
    lost: Distance
    #: read a second time
    reread: Distance
    changes: tuple[PartChange, ...] = ()
    #: part -> the sentence that names what was taken instead of the wish; nothing is clamped without one
    fallbacks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class InputSpans:
    """What a source yields around the committed position and the start; they are equal unless a start was chosen.

    None: no batch reader can read it, so its rows cannot be counted.
    """

    #: up to the committed position, as far as it is still there
    processed: "InputRange | None" = None
    #: from the start on
    waiting: "InputRange | None" = None
    #: committed, and after the start
    reread: "InputRange | None" = None
    #: not committed, and before the start
    skipped: "InputRange | None" = None
    #: not committed
    unread: "InputRange | None" = None
    #: all that is there now
    everything: "InputRange | None" = None


@dataclass(frozen=True)
class SourceFacts:
    """One source of a flow: its position, what it has read, what waits."""

    position: Position
    location: str
    #: files of committed batches; of file sources only, like `waiting`, `gone` and `ignored`
    processed: tuple[InputFile, ...] = ()
    #: files that Spark will read, in its order; one that was written again may be in `processed` too
    waiting: tuple[InputFile, ...] = ()
    #: processed files that no longer exist
    gone: tuple[str, ...] = ()
    max_files_per_trigger: int | None = None
    #: reader options that decide the listing
    options: ReaderOptions = field(default_factory=dict)
    #: unread files that Spark skips (maxFileAge, fileNameOnly)
    ignored: tuple[InputFile, ...] = ()
    #: the position that a person chose, with its cost; None: the committed one
    start: "StartCandidate | None" = None
    #: the position behind everything that is there now
    latest: str | None = None
    #: what is between start and latest
    unread: "Distance" = field(default_factory=lambda: Distance())
    spans: InputSpans = field(default_factory=InputSpans)
    #: of where the stream begins, as `option` is
    reach: "SourceRetention | None" = None
    option: "StartOption | None" = None
    #: what the real system reported, for `registry.source_kind_of(kind)`; None: not asked, or see `problem`
    facts: Any = None
    #: why the real system could not answer
    problem: str | None = None
    #: how the code reads it
    reader: SourceReader = NO_READER

    @property
    def begins(self) -> str | None:
        """The offset line after which the stream continues."""
        return self.start.offset_json if self.start else self.position.offset_json


class SourceKind(Protocol):
    """What every kind answers of its offset lines. Pure. A line that cannot be read raises Malformed."""

    @property
    def KIND(self) -> str: ...

    @property
    def UNIT(self) -> str:
        """What is counted in it, for people."""

    @property
    def CAN(self) -> Sequence[str]:
        """The fields of `StartChoice` by which a start can be chosen."""

    def list_parts(self, offset_json: str | None) -> tuple[PositionPart, ...]: ...

    def label_position(self, offset_json: str | None) -> str: ...

    def compare_positions(self, before: str | None, after: str | None) -> tuple[PartChange, ...]: ...

    def find_empty_start(self, options: ReaderOptions, facts: Any) -> EmptyStart: ...


class PositionedSource(SourceKind, Protocol[F_contra]):
    """What the module of a kind answers whose system is asked, `recovery/sources/<kind>.py`.

    `F` are frozen facts that `live/<kind>.py` fetched, with the time of asking in ms. `find_position` raises Refused
    for a wish out of bounds, and names the bounds.
    """

    def measure_distance(self, start: str | None, end: str | None, facts: F_contra) -> Distance: ...

    def judge_reach(self, offset_json: str | None, facts: F_contra) -> SourceRetention: ...

    def find_start_option(self, offset_json: str | None, facts: F_contra) -> StartOption: ...

    def find_position(
        self, wanted: StartChoice, committed: str | None, facts: F_contra
    ) -> StartCandidate: ...
