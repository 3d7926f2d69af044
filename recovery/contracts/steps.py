"""The steps of a plan, as they are fixed when it is sealed, and the arguments of each kind of them."""

from collections.abc import Mapping
from typing import Final, Literal, TypeVar

from pydantic import ValidationInfo, field_serializer, field_validator

from recovery.contracts.names import StepKind
from recovery.contracts.value import Flag, Number, Value

A = TypeVar("A", bound=Value)


class UpdateArgs(Value):
    """What the one update of a rerun or a refresh is asked for. Only what is set is stored."""

    full_refresh: tuple[str, ...] = ()
    """Tables that it empties and reads again."""
    refresh: tuple[str, ...] = ()
    """Tables that it updates; () without `full_refresh`: the whole pipeline."""
    reset: tuple[str, ...] = ()
    """Flows that get an empty checkpoint."""
    flows: tuple[str, ...] = ()
    """Of a refresh, the flow that writes each of its tables."""

    @property
    def is_reset(self) -> bool:
        """Whether the update throws progress or rows away."""
        return bool(self.full_refresh or self.reset)


class SkippedFile(Value):
    """A file that counts as read, as a file source's log has it."""

    path: str
    """Its URI, encoded as Spark wrote it."""
    timestamp_ms: Number
    """When it was last changed, in ms since 1970."""
    batch_id: Number
    """The entry of the log that names it."""


class SeededSource(Value):
    """Where one source of the code starts in the new checkpoint."""

    index: Number
    """Its number, in plan order."""
    old: Number | None
    """The number of the checkpoint's source that it continues; None: it is new."""
    offset_json: str | None
    """The offset line after which it continues; None: the reader's own options decide."""
    again: tuple[str, ...] = ()
    """Decoded URIs of committed files that are read again."""
    skip: tuple[SkippedFile, ...] = ()
    """Files that count as read."""
    name: str | None = None
    """Of a new source, where sources are named; a continuing one keeps its name."""


class DamageMending(Value):
    """One damage of a checkpoint, and what a repair does about it."""

    code: str
    """The finding's code."""
    file: str
    """The damaged file, below the checkpoint."""
    says: str
    """What is so."""
    how: str
    """What the new version has instead."""
    exact: Flag = True
    """False: inferred; nothing proves it, so that a person has to check the file."""


class SeedArgs(Value):
    """What checkpoint a seed puts into place. Only what is set is stored."""

    action: Literal["repair", "go-back", "begin"] | None = None
    """`repair`: the old one with its damage mended; `go-back`: the old one as it was after `last_committed`; `begin`:
    one that begins where the old one did, in which nothing was committed; None: a new one that goes on from it."""
    last_committed: Number | None = None
    """The batch after which it goes on; None: from nothing."""
    from_version: Number | None = None
    """The version that it is made from; None: the checkpoint has one fixed place."""
    starts: tuple[SeededSource, ...] | None = None
    """Where each source starts; None: all after the last committed batch."""
    state: str | None = None
    """`prime`: empty state of the code's shape; `rebuild`: that of a replay; None: none."""
    watermark_ms: Number | None = None
    """The watermark that empty state begins with, in ms since 1970; None: that of the checkpoint."""
    offsets: tuple[str | None, ...] = ()
    """Of a repair, the offset line of each source."""
    query_id: str | None = None
    """Of a repair, the id of the query, where the old file of it is lost."""
    operators: tuple[str, ...] = ()
    """Of a repair, Spark's names of the stateful operators of the code."""
    sources: tuple[Number | None, ...] = ()
    """Of a beginning, for each source of the code the one of the old checkpoint that it goes on as; None: none."""
    mendings: tuple[DamageMending, ...] = ()
    """Of a repair, each damage and its mending."""


class RestoreArgs(Value):
    """To what a restore puts the flow's table back."""

    kind: Literal["files", "delta"]
    """The kind of the table, which decides how: by its log of batches, or by a version of its own."""
    batch: Number
    """The last batch that stays."""
    version: Number | None = None
    """Of a Delta table, the version that it is put back to."""
    sealed_version: Number | None = None
    """Of a Delta table, its version when the plan was sealed."""
    removed_batches: Number
    """How many batches leave the table."""
    removed_files: Number
    """How many of the table's data files leave it. Those of a file table stay in its folder, and no log names them."""
    removed_rows: Number | None = None
    """How many rows leave the table; None: not known."""
    kept_rows: Number | None = None
    """How many rows stay; None: not known."""


class FillArgs(Value):
    """Which rows a fill writes. Only what is set is stored."""

    rows_of: Literal["backup", "input"] = "backup"
    """`backup`: rows that the plan has kept; `input`: what the code yields over all input that is committed."""
    rows: Number | None = None
    """How many the table lacked when the plan was sealed; where it lacks another number, nothing is written. None: any
    number is written."""


class DeduplicateArgs(Value):
    """How many rows a deduplicate deletes."""

    rows: Number
    """How many the table had too often when the plan was sealed; where it has another number, none is deleted."""


class NoArgs(Value):
    """A step of any other kind needs none."""


StepArgs = UpdateArgs | SeedArgs | RestoreArgs | FillArgs | DeduplicateArgs | NoArgs
ARGS: Final[Mapping[StepKind, type[StepArgs]]] = {
    StepKind.RERUN: UpdateArgs,
    StepKind.REFRESH: UpdateArgs,
    StepKind.SEED: SeedArgs,
    StepKind.RESTORE: RestoreArgs,
    StepKind.FILL: FillArgs,
    StepKind.DEDUPLICATE: DeduplicateArgs,
}


class PlannedStep(Value):
    """One step of a plan."""

    kind: StepKind
    """What it does."""
    says: str
    """The same for people, in a sentence."""
    args: StepArgs = NoArgs()
    """How it does it, by its kind (`ARGS`). Only what is set is stored; where nothing is, it may be `NoArgs`."""

    @field_validator("args", mode="before")
    @classmethod
    def _read_args(cls, given: object, info: ValidationInfo) -> object:
        kind = ARGS.get(info.data["kind"], NoArgs) if given and "kind" in info.data else NoArgs
        return kind.model_validate(dict(given)) if isinstance(given, Mapping) else given

    @field_serializer("args")
    def _write_args(self, args: StepArgs) -> dict[str, object]:
        return args.model_dump(mode="json", exclude_unset=True)

    def args_as(self, kind: type[A]) -> A:
        """Its arguments as a value of this kind; the defaults where it has none. Raises ValueError without defaults."""
        return self.args if isinstance(self.args, kind) else kind()
