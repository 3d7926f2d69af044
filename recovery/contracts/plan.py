"""The contents of a plan: what a recovery will do, to what, and what it relies on. Sealed by the hash of its JSON.

To add a field, see `docs/wiring.md`, *A new field of the plan*.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from recovery.contracts.acceptance import Accepted
from recovery.contracts.criteria import Criterion
from recovery.contracts.findings import Finding
from recovery.contracts.forecast import Forecast
from recovery.contracts.names import StepKind, Strategy
from recovery.contracts.positions import PositionChange
from recovery.contracts.start_choice import StartChoice
from recovery.contracts.steps import DeduplicateArgs, FillArgs, PlannedStep, RestoreArgs, SeedArgs
from recovery.contracts.target import ReplayTarget
from recovery.contracts.value import Flag, Number, Value

SCHEMA = 1
"""The number that plans are sealed with. Raise it when what a stored field means is changed, not for a new field."""


class PipelineName(Value):
    """The pipeline of the flow."""

    id: str
    """As the Pipelines API knows it."""
    name: str
    """Its name for people."""


class SinkPlace(Value):
    """Where the flow writes."""

    kind: str = "unknown"
    """The kind of sink (`sinks.registry`)."""
    declared: str = ""
    """The format of a sink that the code declares; "": it writes to a table of the catalog."""
    place: str = ""
    """Its location, or the name of the topic."""

    @property
    def is_declared(self) -> bool:
        """Whether the flow writes to a sink that its code declares, and to no table of the catalog."""
        return bool(self.declared)


class SealedDiagnosis(Value):
    """What was wrong when the plan was sealed; None where the diagnosis did not tell."""

    condition: str | None
    """Spark's error condition."""
    title: str | None
    """The cause in one sentence."""
    damaged: str | None
    """What is damaged; `nothing` where nothing is."""
    severity: Number | None
    """From 1 to 5."""


class Numbering(Value):
    """How the batches go on."""

    next_batch: Number
    """The number of the first new batch."""
    query_id: Literal["new", "kept"]
    """Whether the checkpoint keeps the id of its query."""


class PatchChange(Value):
    """One source file that the plan writes."""

    path: str
    """Its path in the workspace."""
    before_sha256: str
    """Of the file as it was when the plan was sealed."""
    after_sha256: str
    """Of the file as the plan writes it."""
    diff: str
    """The unified diff of both."""
    before: str = ""
    """The whole text before."""
    after: str = ""
    """The whole text after."""

    @property
    def without_texts(self) -> dict[str, str]:
        """As commands and reports print it: both texts are in the diff."""
        return {
            "path": self.path,
            "before_sha256": self.before_sha256,
            "after_sha256": self.after_sha256,
            "diff": self.diff,
        }


class PatchAuthor(Value):
    """A person who edited the code that the plan changes, and has no vote on it."""

    name: str
    """The name at that time."""
    user_id: Number | None
    """None: someone who is no user of this console."""


class CheckpointMark(Value):
    """The checkpoint that the plan was made on."""

    version: Number | None
    """Its version; None: it has one fixed place."""
    last_committed: Number | None
    """Its last committed batch; None: it has none."""
    fingerprint: str
    """sha256 over its logs."""


class SinkMark(Value):
    """How far the sink was when the plan was sealed."""

    head: Number | None
    """The newest batch that it has; None: it has none, or remembers none."""
    fingerprint: str
    """Changes with every batch."""
    declared: str | None = None
    """The format of a sink that the code declares. Not stored for a table."""

    @model_serializer(mode="wrap")
    def _write(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        stored: dict[str, Any] = handler(self)
        if self.declared is None:
            stored.pop("declared", None)
        return stored


class Preconditions(Value):
    """What the plan relies on. It is read again at execution, and any drift voids the plan."""

    checkpoint: CheckpointMark
    """The flow's checkpoint."""
    code: Mapping[str, str]
    """sha256 of each source file, by path."""
    settings: Mapping[str, str] = {}
    """sha256 of each part of the pipeline's settings that its code reads. Plans from before these
    were kept have none."""
    sink: SinkMark
    """The flow's sink."""
    active_update: str | None
    """The update that runs; None: none does."""


class WaitingFile(Value):
    """An input file that was not read yet."""

    path: str
    """Its decoded URI."""
    size: Number
    """In bytes."""
    mtime_ms: Number | None
    """In ms since 1970."""


class PlannedInput(Value):
    """One source as the steps need to know it."""

    source: Number | str
    """The name by which the checkpoint knows it, else its index there."""
    kind: str = "files"
    """The kind of source (`sources.registry`)."""
    location: str
    """Where the code reads it from."""
    options: Mapping[str, str] = {}
    """The reader's options, of a file source alone: others hold passwords."""
    waiting: tuple[str, ...] = ()
    """Paths of the files that the rerun reads."""
    gone: tuple[str, ...] = ()
    """Paths of files that were read and no longer exist."""
    ignored: tuple[str, ...] = ()
    """Paths of files that Spark passes over."""
    start: str | None
    """The offset line after which reading goes on; None: from nothing."""
    latest: str | None = None
    """The offset line behind everything that there was; None: not known."""
    topic_ids: Mapping[str, str] = {}
    """The id of each Kafka topic that the positions are of."""

    @property
    def is_files(self) -> bool:
        """Whether it is a file source."""
        return self.kind == "files"

    @property
    def is_named(self) -> bool:
        """Whether the checkpoint knows it by a name, and not by its index."""
        return isinstance(self.source, str) and not self.source.isdigit()


class PlanBody(Value):
    """Everything that a plan fixes. What a field's default is, older plans are read as."""

    schema_number: Annotated[Number, Field(alias="schema", ge=0, le=SCHEMA)] = 0
    """The number of this shape. 0: sealed before plans had one; keys that are not known here were dropped."""
    recovery: str
    """Its label, `R-12`."""
    workspace: str
    """The name of the workspace."""
    environment: str
    """The pipeline's environment, whose rules approve the plan."""
    pipeline: PipelineName
    """The pipeline of the flow."""
    flow: str
    """The flow's full name."""
    dataset: str
    """The full name of what the flow writes."""
    checkpoint_place: str
    """Where the flow's checkpoint is."""
    table_place: str
    """Where the flow's table is; "": there is none."""
    sink: SinkPlace = SinkPlace()
    """Where the flow writes."""
    other_tables: Mapping[str, str] = {}
    """Where the other tables of the pipeline are, by name."""
    diagnosis: SealedDiagnosis
    """What was wrong."""
    strategy: Strategy
    """What it does about it."""
    key: tuple[str, ...]
    """The columns by which rows are told apart; (): all of them."""
    key_from: str
    """Where the key comes from, for people."""
    written_by_function: Flag = False
    """Whether a function of the code writes the table (foreachBatch): what that makes of a row, it alone knows."""
    whole_rows: Flag = False
    """Whether rows are compared in every column, and counted by `key`."""
    proof: Number = 1
    """The edition of the criteria (`verification.criteria.EDITION`)."""
    positions: tuple[PositionChange, ...]
    """Each source before and after."""
    numbering: Numbering
    """How the batches go on."""
    state: Literal["keep", "drop", "rebuild"]
    """What becomes of the state; rebuild: dropped, and built by a replay of what was processed."""
    code_operators: tuple[str, ...] | None = None
    """Spark's names of the stateful operators of the code that the plan runs; None: not known."""
    rehearsed: Flag | None = None
    """Whether the flow's own query was run over a copy of the waiting input, to count the rows that come; None: not
    noted, as in plans of before."""
    state_held: str | None = None
    """What the state held, for people: `12 keys`."""
    watermark_ms: Number | None = None
    """The watermark of the last committed batch, in ms since 1970; None: it has none."""
    patch: tuple[PatchChange, ...]
    """The source files that it writes."""
    editors: tuple[PatchAuthor, ...] = ()
    """Who edited them."""
    forecast: Forecast
    """What it will do to rows."""
    accepted: Accepted = Accepted()
    """What people accepted of its costs."""
    table_rows: Number | None
    """How many rows the table had; None: not known, or there is no table."""
    preconditions: Preconditions
    """What it relies on."""
    waiting_files: tuple[WaitingFile, ...] = ()
    """The input files that were not read yet."""
    wishes: Mapping[str, StartChoice] = {}
    """The start positions that a person chose, by source."""
    target: ReplayTarget | None = None
    """Of a replay, where a person said that it goes back to. Not stored for any other."""
    inputs: tuple[PlannedInput, ...] = ()
    """The sources, in the order of the code."""
    gathered_at: str
    """When the facts were read, in ISO form."""
    steps: tuple[PlannedStep, ...]
    """What it does, in order."""
    criteria: tuple[Criterion, ...]
    """What its proof measures."""
    rollback: str
    """How it is undone and until when, for people."""
    findings: tuple[Finding, ...]
    """What a person should know."""

    @property
    def is_runnable(self) -> bool:
        """Whether it names its inputs and tables. Plans of the first release do not, and can be read only."""
        return {"inputs", "other_tables"} <= self.model_fields_set

    def find_step(self, kind: StepKind) -> PlannedStep | None:
        """Its first step of this kind; None: it has none."""
        return next((step for step in self.steps if step.kind is kind), None)

    @property
    def seed_args(self) -> SeedArgs | None:
        """The arguments of its seed; None where it has no seed."""
        seed = self.find_step(StepKind.SEED)
        return seed.args_as(SeedArgs) if seed else None

    @property
    def restore_args(self) -> RestoreArgs | None:
        """The arguments of its restore; None where it puts no table back."""
        restore = self.find_step(StepKind.RESTORE)
        return restore.args_as(RestoreArgs) if restore else None

    @property
    def fill_args(self) -> FillArgs | None:
        """The arguments of its fill; None where it fills nothing."""
        fill = self.find_step(StepKind.FILL)
        return fill.args_as(FillArgs) if fill else None

    @property
    def is_topped_up(self) -> bool:
        """Whether it writes rows of the input that the table lacks, and starts no update of the flow."""
        fill = self.fill_args
        return fill is not None and fill.rows_of == "input"

    @property
    def deduplicate_args(self) -> DeduplicateArgs | None:
        """The arguments of its deduplicate; None where it takes no repeats out."""
        deduplicate = self.find_step(StepKind.DEDUPLICATE)
        return deduplicate.args_as(DeduplicateArgs) if deduplicate else None

    @property
    def corrects_table(self) -> bool:
        """Whether it changes rows of the table by itself, and starts no update of the flow."""
        return self.is_topped_up or self.deduplicate_args is not None

    @property
    def changing_step(self) -> StepKind:
        """The step that changes the rows of the table."""
        if self.is_topped_up:
            return StepKind.FILL
        return StepKind.RERUN if self.deduplicate_args is None else StepKind.DEDUPLICATE

    @property
    def other_inputs(self) -> tuple[tuple[int, PlannedInput], ...]:
        """The inputs that are no files, each with its index here, by which readers and looks know it."""
        return tuple((n, source) for n, source in enumerate(self.inputs) if not source.is_files)

    @property
    def file_inputs(self) -> tuple[tuple[int, PlannedInput], ...]:
        """The file sources, each with its index here."""
        return tuple((n, source) for n, source in enumerate(self.inputs) if source.is_files)

    @property
    def ignored_files(self) -> tuple[str, ...]:
        """The input files that Spark passes over, of all file sources."""
        return tuple(path for _, source in self.file_inputs for path in source.ignored)

    @property
    def table_places(self) -> dict[str, str]:
        """Where each table is, by name; "" of a sink that the code declares, which is asked for each time."""
        own = "" if self.sink.is_declared else self.table_place
        return {self.dataset: own, **self.other_tables}

    @property
    def reviewed_code(self) -> dict[str, str]:
        """sha256 of each source file as the plan's own update must read it, by path: as sealed, but for its patch."""
        return {**self.preconditions.code, **{change.path: change.after_sha256 for change in self.patch}}
