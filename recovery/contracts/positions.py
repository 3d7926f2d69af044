"""Where each source is before a recovery and after it, what is between, and which source goes on as which. Without
secrets: options of readers hold passwords, so none of them is taken over but those that a start needs."""

from collections.abc import Mapping
from enum import StrEnum

from pydantic import SerializerFunctionWrapHandler, model_serializer

from recovery.contracts.amounts import Amount, Bound
from recovery.contracts.value import Flag, Number, Value

FILES = "files"
"""The kind of a source of files."""


class Precision(StrEnum):
    """How well a start meets a position."""

    EXACT = "exact"
    AT_LEAST_ONCE = "at_least_once"
    AT_MOST_ONCE = "at_most_once"
    UNKNOWN = "unknown"


class PartMove(StrEnum):
    """How one part of a source differs between two positions."""

    SAME = "same"
    FORWARD = "forward"
    """What is between would not be read."""
    BACK = "back"
    """What is between would be read again."""
    NEW = "new"
    """The part is in the later position only."""
    GONE = "gone"
    """The part is in the earlier position only."""
    UNCLEAR = "unclear"


class Certainty(StrEnum):
    """How sure it is that a source goes on as another; the surest first."""

    CERTAIN = "certain"
    LIKELY = "likely"
    LAST_OF_KIND = "last_of_kind"
    """Nothing speaks for it but that no other of its kind is left."""


class InputBetween(Value):
    """How much input is between two positions. None: this source cannot tell."""

    rows: Amount | None = None
    """In rows."""
    files: Amount | None = None
    """In files."""
    bytes: Amount | None = None
    """In bytes."""
    seconds: Amount | None = None
    """In seconds of its own time."""

    @property
    def counts(self) -> tuple[Amount, ...]:
        """Rows and files, as far as the source can tell."""
        return tuple(amount for amount in (self.rows, self.files) if amount)


class LabelledPosition(Value):
    """One position."""

    label: str
    """For people."""
    offset_json: str | None
    """Spark's offset line, byte for byte; None: nothing was read yet."""
    name: str | None = None
    """The name of the newest file that was read; None: there is none, or it reads no files."""


class NextInput(Value):
    """What is read first from a position."""

    name: str | None = None
    """The first file, or the label of the position; None: not known, or nothing waits."""
    mtime_ms: Number | None = None
    """When that file was written, in ms since 1970; None: not known, or no file."""
    files: Number = 0
    """How many files wait; 0 for sources that are no files."""
    rows: Number | None = None
    """How many rows wait; None: not counted."""
    exact: Flag = False
    """Whether they were counted."""
    bound: Bound | None = None
    """What the number is, where `exact` does not tell it; None, and then not stored, where that does."""

    @property
    def rows_bound(self) -> Bound:
        """What the number of rows is; where nothing else is noted, one that was not counted is an estimate."""
        return self.bound or Bound.ESTIMATE.unless(self.exact)

    @model_serializer(mode="wrap")
    def _write(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        fields: dict[str, object] = handler(self)
        return {name: value for name, value in fields.items() if name != "bound" or value is not None}


class ReadableInput(Value):
    """Whether what waits can be read."""

    ok: Flag | None = None
    """None: not known. Of files, False is said too where a file that was read is gone."""
    says: str = ""
    """A part of a sentence: … can be read now; only … can still be read."""


class MovedPart(Value):
    """One part of a source before and after."""

    part: str
    """Its name."""
    before: str | None
    """Where it was; None: it was not there."""
    after: str | None
    """Where it starts; None: it is no longer there."""
    moved: PartMove
    """How they differ."""


class InputRetention(Value):
    """Whether all that comes after a position can still be read."""

    readable: Flag | None = None
    """None: not known."""
    why: str = ""
    """One sentence for people."""
    until_ms: Number | None = None
    """When retention will take the first of it, in ms since 1970; None: never, or not known."""


class OptionStart(Value):
    """How a stream with an empty checkpoint would be started at a position, by options of its reader."""

    supported: Flag
    """Whether the source has such an option."""
    precision: Precision
    """How well it meets the position."""
    options: Mapping[str, str] = {}
    """Spark's own names and their values; none of them is a secret."""
    code: str = ""
    """The line to write."""
    place: str = ""
    """Where to write it."""
    doubled: Amount | None = None
    """Rows on the boundary that such a start reads twice, against a seeded one; None: not known."""
    missed: Amount | None = None
    """Rows on the boundary that it never reads; None: not known."""
    note: str = ""
    """Where there is no such option, why, and what to do."""


class PositionChange(Value):
    """One source before a recovery and after it. The defaults are for options and plans of before."""

    source: Number | str
    """The name by which the checkpoint knows it, else its index there."""
    location: str = ""
    """Where the code reads it from."""
    kind: str = FILES
    """The kind of source (`sources.registry`)."""
    before: LabelledPosition
    """Where it is."""
    after: LabelledPosition
    """Where it goes on."""
    next: NextInput = NextInput()
    """What is read first from there."""
    readable: ReadableInput = ReadableInput()
    """Whether what waits can be read."""
    parts: tuple[MovedPart, ...] = ()
    """Its parts, those that move first."""
    more_parts: Number = 0
    """How many parts that do not move are left out."""
    lost: InputBetween | None = None
    """What is never read; None: not noted."""
    reread: InputBetween | None = None
    """What is read a second time; None: not noted."""
    fallbacks: Mapping[str, str] = {}
    """Parts that do not start as wished, and why."""
    option: OptionStart | None = None
    """The same start by options of the reader; None: it was not asked for."""
    reach: InputRetention | None = None
    """Whether what waits can still be read, as the source says; None: it was not asked."""

    @property
    def is_files(self) -> bool:
        """Whether it is a source of files."""
        return self.kind == FILES

    @property
    def until_ms(self) -> int | None:
        """When retention will take the first of what waits; None: never, or not known."""
        return self.reach.until_ms if self.reach else None


class SourcePair(Value):
    """A source of the checkpoint that goes on as one of the code."""

    old: str
    """The name by which the checkpoint knows it, else its index there."""
    new: str
    """Its index in the code, or its name."""
    certainty: Certainty
    """How sure that is."""
    why: str
    """One sentence for people."""
    confirm: str = ""
    """What a person has to say yes to; "": nothing."""

    @property
    def key(self) -> str:
        """What is confirmed by it."""
        return f"{self.old}->{self.new}"


class AddedSource(Value):
    """A source of the code of which nothing was read. It has no start until a person chooses one."""

    new: str
    """Its index in the code, or its name."""
    asks: str
    """What a person is asked."""


class DroppedSource(Value):
    """A source of the checkpoint that none of the code continues."""

    old: str
    """The name by which the checkpoint knows it, else its index there."""
    unread: InputBetween | None = None
    """What is then never read; None: not known."""
    says: str
    """The same for people."""

    @property
    def key(self) -> str:
        """What is confirmed by it."""
        return f"{self.old}->"


class SourceMapping(Value):
    """Which source goes on as which: every old one is in a pair or dropped, every new one in a pair or added."""

    pairs: tuple[SourcePair, ...] = ()
    """Sources that go on."""
    added: tuple[AddedSource, ...] = ()
    """New ones."""
    dropped: tuple[DroppedSource, ...] = ()
    """Old ones that end."""
    notes: tuple[str, ...] = ()
    """What is to be known of it, for people."""
    unconfirmed: tuple[str, ...] = ()
    """Keys that a person has yet to confirm."""

    @property
    def confirmable(self) -> tuple[str, ...]:
        """Keys that a person has to confirm, whether that was done or not."""
        return (*(pair.key for pair in self.pairs if pair.confirm), *(one.key for one in self.dropped))


class ShownPart(Value):
    """One part at one position."""

    name: str
    """Its name."""
    value: str | None
    """The position as the source says it; None: it has none yet."""
    label: str
    """The same for people."""


class ShownPlace(Value):
    """One position with its parts."""

    label: str
    """For people."""
    offset_json: str | None
    """Spark's offset line; None: nothing was read yet."""
    parts: tuple[ShownPart, ...] = ()
    """Each part at it."""

    def part(self, name: str) -> ShownPart | None:
        """The part of this name; None: it has none."""
        return next((part for part in self.parts if part.name == name), None)


class ShownRetention(InputRetention):
    """The same, with what is affected."""

    lost: InputBetween | None = None
    """What retention has taken already; None: not known."""
    parts: tuple[str, ...] = ()
    """The parts that are affected."""


class ShownSource(Value):
    """What is known of one source's position, and of the start that a person looks at."""

    source: str
    """Its index in the code, by which wishes name it."""
    kind: str
    """The kind of source (`sources.registry`)."""
    location: str
    """Where the code reads it from, without the name of a user."""
    committed: ShownPlace
    """Where it is."""
    after: ShownPlace
    """Where it is to start; without a wish where it is."""
    changes: tuple[MovedPart, ...] = ()
    """Its parts before and after, as the source says positions."""
    lost: InputBetween
    """What is never read."""
    reread: InputBetween
    """What is read a second time."""
    unread: InputBetween
    """What waits after the start."""
    fallbacks: Mapping[str, str] = {}
    """Parts that do not start as wished, and why."""
    precision: Precision
    """How well the start meets the wish."""
    reach: ShownRetention
    """Whether all after the start can still be read."""
    option: OptionStart | None
    """The same start by options of the reader; None: it was not asked for."""
    can: tuple[str, ...]
    """The forms of wishes that this source can take."""
    problem: str | None
    """Why a wish cannot be met; None: it can."""
