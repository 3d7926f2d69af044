"""What every mending looks at and changes: the files as they would be, the reader's report, what else is known."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from recovery.checkpoints import formats
from recovery.checkpoints.file_layout import Layout, lay_out
from recovery.checkpoints.file_listing import MAX_SMALL_BYTES
from recovery.checkpoints.formats import CommitFile, Malformed, OffsetFile
from recovery.checkpoints.report import CheckpointReport
from recovery.checkpoints.storage import Store, TooLarge
from recovery.numbers import whole


@dataclass(frozen=True)
class ListedInput:
    """What is in a source's place now: (URL-encoded URI as Spark writes it, mtime in ms) per file.

    `max_files`: the reader's maxFilesPerTrigger; None: it takes all that is there.
    """

    files: tuple[tuple[str, int], ...]
    max_files: int | None = None


@dataclass(frozen=True)
class KnownFacts:
    """What is known besides the checkpoint itself. Everything may be left out."""

    #: to take where the file that held the old one is lost
    new_query_id: str | None = None
    #: "files" for a table with `_spark_metadata`
    sink_kind: str | None = None
    #: the newest batch of that table
    sink_head: int | None = None
    #: Spark's names by id
    operators: tuple[str, ...] = ()
    #: by source key (index or name)
    listings: Mapping[str, ListedInput] = field(default_factory=dict)


@dataclass(frozen=True)
class UnrepairedDamage:
    """Damage that stays, and why it cannot be repaired. `blocker`: Spark fails at it, or rows are lost or doubled."""

    code: str
    file: str | None
    says: str
    why: str
    blocker: bool = True

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class CannotRepair(Exception):
    """Why this damage cannot be repaired, in one sentence."""


@dataclass
class RepairWork:
    """`old`: the damaged checkpoint. `report`: of the layout as it is now. `target`: where the new one will lie."""

    old: Store
    layout: Layout
    report: CheckpointReport
    known: KnownFacts
    target: str

    def read(self, name: str) -> bytes:
        """Bytes of a file of the layout. Malformed: gone or too large."""
        try:
            return lay_out(self.layout, self.old).read(name, MAX_SMALL_BYTES)
        except FileNotFoundError as error:
            raise Malformed("it is missing") from error
        except TooLarge as error:
            raise Malformed(f"it has {error.size} bytes") from error

    def offsets(self, batch: int) -> OffsetFile | None:
        """A batch's offset file; None: missing or not readable."""
        try:
            parsed = formats.parse_offsets(self.read(f"offsets/{batch}"))
        except Malformed:
            return None
        return parsed if parsed.sources else None

    def commit(self, batch: int) -> CommitFile | None:
        try:
            return formats.parse_commit(self.read(f"commits/{batch}"))
        except Malformed:
            return None

    def batches(self, folder: str) -> list[int]:
        """Batch ids of offsets/ or commits/, ascending."""
        return sorted(n for name in self.layout.names(folder) if (n := whole(name)) is not None)

    def in_sink(self, batch: int) -> bool | None:
        """Does the table hold this batch? None: not known."""
        if self.known.sink_kind != "files":
            return None
        return self.known.sink_head is not None and self.known.sink_head >= batch
