"""Facts, forecast and the shape of a strategy: facts -> steps, forecast, criteria, rollback. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from recovery.checkpoints.held import HeldState
from recovery.checkpoints.repair import RepairPlan
from recovery.checkpoints.report import CheckpointReport, Finding, StateOperator
from recovery.contracts.measured import NOTHING_ABSENT, AbsentInputs, TableMisfit
from recovery.contracts.option import Blocker
from recovery.contracts.readers import SourceReader
from recovery.sinks.base import SinkReport
from recovery.sinks.earlier import EarlierTable
from recovery.sources.base import Distance, SourceFacts
from recovery.sources.replaying import ProcessedInput
from recovery.strategies.readers import DownstreamReader


class OutputMode(StrEnum):
    """How a query writes (Spark's OutputMode): which rows of its state are in the sink already."""

    APPEND = "append"  # a group is written once, when it can no longer change
    UPDATE = "update"  # whatever changed is written by each batch
    COMPLETE = "complete"  # all of it is written by each batch


class GroupRows(StrEnum):
    """Rows that the code writes for one group of its aggregation (`spark.explained.groups`)."""

    ONE = "one"
    AT_MOST_ONE = "at most one"
    UNKNOWN = ""


class KeyKind(StrEnum):
    """From where the key is known by which rows are distinguished."""

    NAMED = "named"  # by a person
    CODE = "code"  # the columns of the code's own dropDuplicates
    OLD_CODE = "old-code"  # those of a dropDuplicates that the last good code had, and this one has no more
    STATE = "state"  # those of a dropDuplicates whose state the checkpoint has, where the last good code is not known
    WHOLE_ROW = "whole-row"  # none is known


def checkpoint_watched(flow: str) -> str:
    """How a flow's checkpoint is called among what a recovery watches beside its own flow."""
    return f"checkpoint {flow}"


def table_watched(dataset: str) -> str:
    """The same of a table."""
    return f"table {dataset}"


@dataclass(frozen=True)
class CoUpdatedFlow:
    """Another flow that the updates of a recovery run too, and what it writes: full names; `short` is for people."""

    flow: str
    dataset: str
    short: str

    @property
    def places(self) -> tuple[str, ...]:
        """What it changes, as a recovery watches it."""
        return (checkpoint_watched(self.flow), *([table_watched(self.dataset)] if self.dataset else []))


@dataclass(frozen=True)
class CodeFacts:
    """Source of the pipeline as the workspace holds it, and what Spark says this flow's query is.

    `files` maps workspace path to text. `operators` are the stateful operators of the flow's query
    by Spark's names, outermost first; None: the code could not be analysed (`problem` says why).
    """

    files: Mapping[str, str]
    operators: tuple[str, ...] | None
    problem: str | None = None
    problem_code: str = ""  # of `spark.api.Study`
    sources: tuple[SourceReader, ...] = ()  # in plan order
    key: tuple[str, ...] = ()  # columns by which rows are told apart; () = the whole row
    key_from: str = "the whole row"  # who says so, in words
    key_kind: KeyKind = KeyKind.WHOLE_ROW
    windows: str = ""  # how rows are put into windows, as a digest; "": that cannot be told
    groups: GroupRows = GroupRows.UNKNOWN
    varies: tuple[str, ...] | None = None  # by what its state may differ from run to run; None: not known
    watermarked: bool | None = None  # whether it names a watermark; None: not known
    is_row_per_key: bool | None = None  # each key of its dropDuplicates is at most one row; None: not known
    absent: AbsentInputs = NOTHING_ABSENT  # what it asks for in vain where it is studied
    misfit: TableMisfit | None = (
        None  # how it writes other files than the table has; None: not so, or not known
    )


@dataclass(frozen=True)
class CommittedRows:
    """What the code yields over all committed input that can still be read, beside the whole table, by key.

    `rows` that it yields; `absent`: those of them whose key no row of the table has, under `absent_keys` different
    keys; `short`: rows by which the table has a key that it holds fewer times than the code yields it; `extra`: more
    often, under `extra_keys` different keys, of which `differing` have rows in the table that are not equal in every
    column; None: there is no such key, or that was not compared. `beyond`: rows of the table whose key the code yields
    over nothing. `unsettled`: absent keys of which a dropDuplicates may have let through another row than the one that
    is yielded now; None: not known.
    `collated`: columns of the key that compare texts by a collation, `unfit`: columns that do not fit those of the
    table; with either, nothing was counted.
    """

    rows: int = 0
    absent: int = 0
    absent_keys: int = 0
    short: int = 0
    extra: int = 0
    extra_keys: int = 0
    differing: int | None = None
    beyond: int = 0
    unsettled: int | None = 0
    collated: tuple[str, ...] = ()
    unfit: tuple[str, ...] = ()


@dataclass(frozen=True)
class Counts:
    """Rows counted on Spark just now. None: could not be counted.

    `processed` / `waiting` / `everything`: rows the code yields over the files already committed, the
    unread ones, and both together (which differs from their sum where the code drops repeats).
    `table`: rows the table holds. `repeats_waiting`: waiting rows whose key is in the table already.
    `waiting` counts from where the stream shall start (`SourceFacts.begins`).
    `swallowed(files)`-style questions of the empty strategy are answered from `by_file`.
    """

    table: int | None = None
    processed: int | None = None
    waiting: int | None = None
    everything: int | None = None
    repeats_waiting: int | None = None
    fresh_waiting: int | None = None  # different keys among the waiting rows that the table does not hold
    fresh_everything: int | None = None  # the same among the rows of `everything`
    repeats_everything: int | None = (
        None  # rows of `everything` beyond one per key; None where no key is known
    )
    reread: int | None = None  # rows of committed input that a chosen start reads again
    skipped: int | None = None  # rows of unread input that a chosen start never reads
    rehearsed: bool = False  # `waiting` is what a rehearsal of the code's own query wrote, from empty state
    rehearsed_late: int | None = (
        None  # rows that it dropped behind the watermark; of a window, groups of them
    )
    rehearsed_later: int | None = None  # of those, behind a later watermark than it began with
    unread_late: int | None = None  # the same of a rehearsal over the rows that were never read alone
    rehearsed_why: str = ""  # why an update may write fewer rows; "": it writes the same
    rebuilt: int | None = None  # `waiting` with the state that a replay of what was processed builds
    by_file: Mapping[str, int] = field(default_factory=dict)
    table_keys: int | None = None  # different keys in the table
    beyond: int | None = None  # rows of the table whose key the code does not yield over what is left
    unfit: tuple[str, ...] = ()  # columns of which the table's rows are not as the code's
    committed: CommittedRows | None = None  # by key beside the table; None: not compared


@dataclass(frozen=True)
class ReplayFacts:
    """What a replay goes back to. `Facts.checkpoint` and `Facts.sources` are then those of after the batch.

    `committed`: the last batch that the checkpoint has committed now. `operators`: its stateful operators now, with the
    batches to which their state can go back. `table`: what the flow's table would be put back to. `problem`: why it
    cannot be; the other fields are then as far as they were found. `reread_files`: files of the later batches that are
    still there, `gone` those that are not; `changed`: one was written again since it was read. `reread_rows`: rows that
    the new code yields over what the later batches read; None: not counted.
    """

    batch: int | None = None
    committed: int | None = None
    operators: tuple[StateOperator, ...] = ()
    table: EarlierTable | None = None
    problem: Blocker | None = None
    reread_files: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    changed: bool = False
    reread_rows: int | None = None


@dataclass(frozen=True)
class Facts:
    """Everything a decision may look at; gathered once, by `workflow.gather`.

    `sources`: those of the new code, in plan order. One that the checkpoint does not have has no committed position.
    `old_sources`: those of the old code, where it reads otherwise (`revert.put_back`). `held`: what the state of the
    checkpoint's operators holds where the next batch goes on; an operator that is not among them was not counted.
    `output_mode`: how the code of now writes; None: not known. `state_mode`: how the code wrote that made the state of
    the checkpoint, so which of its rows are in the table already; None: not known.
    """

    gathered_at: str
    workspace: str
    environment: str
    pipeline_id: str
    pipeline: str
    flow: str  # verbatim, as the API sends it
    dataset: str  # catalog.schema.table
    active_update: str | None
    last_update: str | None
    checkpoint: CheckpointReport
    sink: SinkReport
    sources: tuple[SourceFacts, ...]
    old_code: CodeFacts | None  # of the last good update, where known
    code: CodeFacts  # as deployed
    new_code: CodeFacts  # with the proposed patch (equal to `code` without one)
    counts: Counts  # with new_code
    old_counts: Counts | None = None  # with old_code
    old_sources: tuple[SourceFacts, ...] | None = None  # as old_code reads them; None: as new_code does
    old_problem: str = ""  # why they could not be looked at
    others: Mapping[str, str] = field(default_factory=dict)  # other flows and tables -> fingerprint
    usual_update_seconds: float | None = None
    rows_per_second: float | None = None  # that this flow reads, by its newest batch; None: not known
    repair: RepairPlan | None = None  # None: nothing in the checkpoint is damaged
    beside: tuple[
        CoUpdatedFlow, ...
    ] = ()  # flows that run too: with a declared sink, which no selection can name; with a plain stream's program
    between: tuple[Finding, ...] = ()  # what other flows share with this one and must not
    source_map: tuple[
        int | None, ...
    ] = ()  # of each of `sources`: its index in the checkpoint; () = one to one
    confirmed: tuple[
        str, ...
    ] = ()  # keys of `mapping.MappingProposal.unconfirmed` that a person has confirmed
    unread_of: Mapping[int, Distance] = field(
        default_factory=dict
    )  # what waits in a checkpoint's source that the new code leaves behind, by index
    yields_of: Mapping[int, int] = field(default_factory=dict)  # rows that the old code would write of it
    held: tuple[HeldState, ...] = ()
    output_mode: OutputMode | None = None
    state_mode: OutputMode | None = None
    readers: tuple[
        DownstreamReader, ...
    ] = ()  # datasets downstream of the flow's table, in an order in which they can run
    refresh_below: bool = True  # False: a person leaves them as they are
    not_counted: tuple[Finding, ...] = ()  # what a budget kept from being counted
    is_plain: bool = False  # a program of its own, which no Pipelines API runs
    state_refused: bool = False  # the flow fails because its code stores other columns than its state has
    processed: ProcessedInput | None = None  # what a replay would read; None: nobody looked
    scratch: bool = True  # whether there is a place where the code can be run over a copy of its input
    back: ReplayFacts | None = None  # what a replay goes back to; None: no one has said
    recovery: str = ""  # label of the one that asks; "": none is open
    unfilled: str = ""  # the recovery that emptied the table and filled nothing back yet; "": none
    skipped_before: bool = False  # whether an earlier recovery made a source begin elsewhere
    writers: tuple[str, ...] = ()  # other flows that write the flow's table, by their short names
    found_missing: int | None = (
        None  # rows that a proof of the open recovery did not find; None: none says so
    )
    found_repeated: int | None = None  # rows that a proof found there too often; None: none says so
    drops_dedupe: bool = False  # a dropDuplicates that stopped repeats of its key is not in the new code
