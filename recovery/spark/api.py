"""Questions that only Spark can answer, each answered on the pipelines' side in a process and a session of its own.

Nothing here changes anything but `StudyRequest.write`, which writes to a folder that the caller names, and `restore`.
Every function raises `Unreachable` where no answer came that can be read, and `Refused` where the pipeline's own
code is what is in the way; both within the timeout given (`recovery.spark.asking` has their codes).
What comes back was written by other people's code: each field is of the type and within the bounds that it has here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from recovery.contracts.measured import (
    NOTHING_ABSENT,
    WHOLE_ROW,
    AbsentInputs,
    BoundedBy,
    BudgetBound,
    RowOrigin,
    Rows,
    Sample,
    TableMisfit,
    WholeComparison,
)
from recovery.contracts.readers import SourceReader
from recovery.contracts.value import Text
from recovery.errors import NotFound
from recovery.spark import scratch
from recovery.spark.asking import Answers, checked, sent
from recovery.spark.backups import (
    CommittedComparison,
    DeletedRows,
    FilledRows,
    FillToMeasure,
    TableGap,
    ToppedRows,
)

__all__ = [
    "WHOLE_ROW",
    "Answers",
    "BoundedBy",
    "BudgetBound",
    "Budgets",
    "CatalogState",
    "ChangesSince",
    "CommitRewrite",
    "DefinedRequest",
    "DefinitionMeasure",
    "Limit",
    "Measure",
    "MeasureRequest",
    "Rehearsal",
    "RehearsalRequest",
    "Replay",
    "RowOrigin",
    "RowValues",
    "Sample",
    "Study",
    "StudyRequest",
    "TableMisfit",
    "TablePlace",
    "TableRowCount",
    "WholeComparison",
    "WholeInput",
    "count",
    "defined",
    "location",
    "measure",
    "rehearse",
    "study",
    "table_location",
    "whereabouts",
]
STUDY_SECONDS = 120.0
MEASURE_SECONDS = 600.0
REHEARSAL_SECONDS = 1800.0
NAMED = "named by the responder"
FROM_CODE = "the columns of dropDuplicates in the code"
FROM_OLD_CODE = "the columns of dropDuplicates in the last good code"
FROM_STATE = "the columns of the dropDuplicates whose state the checkpoint has"


@dataclass(frozen=True)
class Limit:
    """`bytes` of data files and `seconds` up to which something is asked; None: no limit."""

    bytes: int | None = None
    seconds: float | None = None


NO_LIMIT: Final = Limit()


@dataclass(frozen=True)
class Budgets:
    """What a question may cost. `lookup`: finding the rows of the table that hold a key of the input or of new rows,
    one scan of its key columns. `grouping`: how often the whole table has each of its keys. `versions`: comparing two
    versions of a Delta table, or files that were rewritten with those in whose place they came."""

    lookup: Limit = NO_LIMIT
    grouping: Limit = NO_LIMIT
    versions: Limit = NO_LIMIT


UNBOUNDED: Final = Budgets()


@dataclass(frozen=True)
class StudyRequest:
    """What the code of one flow is, and what it yields over sets of input files.

    `answers`: who is asked. `files` maps workspace path to text, `root` is the pipeline's
    root path, `libraries` are the definition files in the pipeline's order. `flow` is
    `catalog.schema.flow` verbatim. `sets` maps a label to decoded input file URIs (`InputFile.path`).
    `key` None: the code's own, else the whole row. `table`: the flow's table, to count it and to
    find repeats. `by_file` also counts rows by input file. `write` maps labels to folders into
    which the rows of that set are written as parquet; the folder must not exist. `slices`: label -> index of the
    source in plan order, as text -> `input_ranges.InputRange.as_dict()`, for sources that are no files; a label has
    what `sets` and `slices` name under it together, and a source that it does not name yields no row. `variables`: the
    environment of the code (`recovery.variables`). `budgets`: what looking into the table may cost. `lacking`: a label
    whose rows are compared by key with the whole table; None: none. `committed`: the label of all committed input, of
    which the rows that the table lacks are counted; None: they are not.
    """

    answers: Answers
    files: Mapping[str, str]
    root: str
    libraries: tuple[str, ...]
    configuration: Mapping[str, str]
    catalog: str
    schema: str
    flow: str
    sets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    key: tuple[str, ...] | None = None
    table: str | None = None
    by_file: bool = False
    write: Mapping[str, str] | None = None
    slices: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    budgets: Budgets = UNBOUNDED
    lacking: str | None = None
    committed: str | None = None


NO_SUCH_COLUMN: Final = "no_such_column"
TYPES_DIFFER: Final = "types_differ"
UNSEEN_STREAM: Final = "unseen_stream"


@dataclass(frozen=True)
class Study:
    """What Spark says of the code, and rows counted. A label or number that is absent was not counted.

    `operators` outermost first by the names in a checkpoint's `_metadata`; None: the code cannot be
    analysed (`problem` says why). `sources` in the order of Spark's offset log. `rows`, `distinct`
    (different keys), `repeats` (rows whose key the table holds) and `fresh` (different keys that the
    table does not hold) by label. `notes` are facts that are no problem.
    `sink`: what the code declares with `create_sink` as the flow's target, {name, format, options}, the options as
    secret as those of a source; None: a table, or not known, as the code cannot be analysed.
    `computed`: those of the columns that the code computes (`explained.computed_columns`).
    `windows`: how rows are put into windows (`explained.windows`), "" where that cannot be known. `groups`: rows that
    come of one group of its aggregation (`explained.groups`).
    `problem_code`: NO_SUCH_COLUMN where the key that was asked for is not there; UNSEEN_STREAM where the plan reads a
    stream of which nothing is known, or one of a SQL text in whose place nothing can be put; other_checkpoint
    where no query of a plain program is known to have the checkpoint; unknown_place where it makes a path that only its
    own run has; "" for every other.
    `bounded`: budgets that were met; what they bound is absent. Without a key no one looks for repeats in the table.
    `rests_on`: what the answer rests on beside the request, the input that it names and the flow's table; None: not
    known, as the code cannot be analysed. `driver`: the run of Spark that answered (`CatalogState.driver`).
    `output_mode`: as the code writes; a pipeline's flow appends.
    `varies`: by what the state that the code builds of one input may differ from run to run: other relations,
    functions of people's own, such as yield another value each time or go by the order of rows; (): by nothing that the
    plan shows, None: not known. `watermarked`: whether the code names a watermark; None: not known. `lacking`,
    `committed`: as was asked; None: not compared. `absent`: what the code
    asks for and does not find where it is studied: it takes a default, and a run may take another value. Secrets are
    left out. `misfit`: of a file table by its path; None: none, or not looked at. `is_row_per_key`: whether each key
    that its dropDuplicates lets through is one row at most; None: it has none.
    """

    operators: tuple[Text, ...] | None = None
    sources: tuple[SourceReader, ...] = ()
    sink: Mapping[str, Any] | None = None
    dedupe: tuple[Text, ...] | None = None
    columns: tuple[Text, ...] = ()
    computed: tuple[Text, ...] = ()
    rows: Mapping[Text, Rows] = field(default_factory=dict)
    by_file: Mapping[Text, Rows] = field(default_factory=dict)
    distinct: Mapping[Text, Rows] = field(default_factory=dict)
    table_rows: Rows | None = None
    repeats: Mapping[Text, Rows] = field(default_factory=dict)
    problem: Text | None = None
    key: tuple[Text, ...] = ()
    key_from: Text = WHOLE_ROW
    fresh: Mapping[Text, Rows] = field(default_factory=dict)
    notes: tuple[Text, ...] = ()
    windows: Text = ""
    problem_code: Text = ""
    groups: Text = ""
    rests_on: tuple[Text, ...] | None = None
    driver: Text = ""
    bounded: tuple[BudgetBound, ...] = ()
    output_mode: Text = "append"
    varies: tuple[Text, ...] | None = None
    watermarked: bool | None = None
    lacking: TableGap | None = None
    committed: CommittedComparison | None = None
    absent: AbsentInputs = NOTHING_ABSENT
    misfit: TableMisfit | None = None
    is_row_per_key: bool | None = None


@dataclass(frozen=True)
class TableRowCount:
    """Rows of a table; None: there is no such table."""

    rows: Rows | None


@dataclass(frozen=True)
class TablePlace:
    """Where a table is, and when the catalog says it was made ("" where it does not say)."""

    location: Text
    made: Text


@dataclass(frozen=True)
class CatalogState:
    """What Spark's catalog says now. `driver` names the run of Spark that answers: another one after a restart."""

    driver: Text
    tables: Mapping[Text, TablePlace]


@dataclass(frozen=True)
class WholeInput:
    """All input that was ever committed and can still be read: decoded URIs of files of all file sources together, and
    of other sources `input_ranges.InputRange.as_dict()` by their index in plan order, as text."""

    files: tuple[str, ...] = ()
    slices: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class MeasureRequest:
    """Compare what the code yields over the new input files with what the update wrote.

    `old_files` and `new_files`: data files that the sink's log names for the batches up to and after the reset.
    Of a Delta table `old_version` is its version before the rerun instead: what the update wrote is what the table has
    now beyond that; -1: nothing stood before (a full refresh), all of it is new. `study.sets` and `study.slices` name
    the new input: all labels together, nothing of it twice. `expected`: a folder of Parquet files with the rows that
    are expected, as a rehearsal wrote them, in place of what the code yields over the new input. `key` None: as in a
    study. `state_kept`: the rerun went on with the old dropDuplicates state, so rows whose key an old row of the table
    has are not expected again; it does not count beside `expected`. `topic`: where the flow sends records to Kafka,
    the offsets between which they lie, as `input_ranges.InputRange.as_dict()`: `since`, all that came since the rerun
    began, and `failed` (None: no batch was open), what a failed attempt of the batch that was planned and not committed
    may have sent before that; `margin`, what it may have sent before `failed`, if clocks disagree. `table`, files and
    version do not count then. `whole_rows`: expected and written rows are compared by all columns, and `key` only tells
    which of them repeat another. `whole`: compare the whole table with what the code yields over this input too; None:
    not asked. `since`: what the log of the Delta table says came after `old_version`; without it both versions are
    compared whole, within the budget for grouping. `filled`: rows of a backup were filled back after the update, which
    is compared too: by key as one of all rows, and in every column by itself. `topped`: the input is all that is
    committed, and what had to be written are rows of it whose key the table lacked at `old_version`. `deduplicated`:
    the same input, and rows that the table had too often at `old_version` were deleted; both versions are compared
    whole.
    """

    answers: Answers
    table: str
    old_files: tuple[str, ...]
    new_files: tuple[str, ...]
    study: StudyRequest
    old_version: int | None = None
    expected: str | None = None
    key: tuple[str, ...] | None = None
    state_kept: bool = False
    topic: Mapping[str, Any] | None = None
    whole_rows: bool = False
    whole: WholeInput | None = None
    since: "ChangesSince | None" = None
    budgets: Budgets = UNBOUNDED
    filled: FillToMeasure | None = None
    topped: bool = False
    deduplicated: bool = False


@dataclass(frozen=True)
class CommitRewrite:
    """What one commit of a Delta table put in the place of what, and says that it changed no row: the data files of
    either side as `input_ranges.InputRange.as_dict()`, `size` in bytes of all of them."""

    gone: Mapping[str, Any]
    came: Mapping[str, Any]
    size: int


@dataclass(frozen=True)
class ChangesSince:
    """What the log of a Delta table says of the commits after a version, none of which took a row away: the data files
    that came with rows, as `input_ranges.InputRange.as_dict()`, and those that were rewritten."""

    written: Mapping[str, Any]
    rewritten: tuple[CommitRewrite, ...] = ()


@dataclass(frozen=True)
class RowValues:
    """Written rows that are identified by a key, beside every row that the code makes of the new input, in all columns.
    `rows`: those that equal none of these; None: not compared. `differing`: columns in which a row with their key has
    another value.
    `left_out`: columns that were not compared, as two runs of the code fill them otherwise; `other_types`: nor these,
    as one type does not hold both sides' values; `absent`: columns that the table does not have, so nothing was
    compared. `rests_on_more`: rows differ, and may do so by more than the code: a function of Python, a file or table
    that it reads, the day of its run, a format that does not keep each value. `bounded`: the budget that was met."""

    rows: Rows | None = None
    differing: tuple[Text, ...] = ()
    left_out: tuple[Text, ...] = ()
    other_types: tuple[Text, ...] = ()
    absent: tuple[Text, ...] = ()
    rests_on_more: bool = False
    bounded: BudgetBound | None = None


@dataclass(frozen=True)
class Measure:
    """Rows as measured. `problem` not None: the comparison could not be made, its numbers are None. `problem_code`:
    TYPES_DIFFER where a column has other types on both sides, "" for every other problem.

    `table_rows` by a fresh session through the catalog, `listed_rows` in the files of the sink's log, or in the
    version of before and the files that came since (they must agree). `missing` / `extra`: rows of the exact multiset
    difference between `expected_rows` and `new_rows`. `repeats_added`: rows that the rerun put into the table beyond
    one per key; `duplicates_explained` of them come with the expected rows: `held_before` of these repeat a key that
    the table held before the rerun, the others one that the new input itself repeats. `duplicates_in_table`: rows
    beyond one per key in the whole table; of these `duplicates_before` stood there before. `table_keys`: different keys
    in the table. `keys_twice`: those of new rows that it has more than once; `new_repeats`: new rows beyond the first
    of their key, rows of before included.
    `vanished`: rows that the Delta table had at `old_version` and has no more, by the key like all others: 0 where its
    log says that no commit took one away, and what was rewritten was compared; None for a file table.
    `misread`: columns, nested ones too, that new data files of a table by its path have with another type than those of
    before, or with a part less: no one schema reads both, so a reader gets other values in either, or none. `lacking`:
    columns that such files lack as a whole: a reader that takes the schema from one of them gets none of the others'.
    `values`: the columns beyond the key, where rows are compared by a key alone and none were filled back or added;
    None: they are not.
    `bounded`: budgets that were met; the numbers that they bound are None. `table_only`: columns that the table has and
    the code does not yield: no number here speaks of them.
    Of a topic `new_rows` are its records since the rerun began. `strange`: those among them that are none of the
    expected rows, so another writer's or wrong ones; `repeated`: expected rows that stand there more often than
    expected; `failed_rows`: expected rows that a failed attempt had sent before, `margin_rows` further ones that it may
    have sent if clocks disagree. None for a table.
    `sources`: of the code that was run over the new input, as in a study, its options as secret; () where not told.
    `origins`: where the samples of missing rows come from, as far as that is known.
    """

    table_rows: Rows | None = None
    listed_rows: Rows | None = None
    old_rows: Rows | None = None
    new_rows: Rows | None = None
    expected_rows: Rows | None = None
    missing: Rows | None = None
    extra: Rows | None = None
    duplicates_in_table: Rows | None = None
    duplicates_before: Rows | None = None
    duplicates_explained: Rows | None = None
    repeats_added: int | None = None
    held_before: Rows | None = None
    table_keys: Rows | None = None
    keys_twice: Rows | None = None
    new_repeats: Rows | None = None
    vanished: Rows | None = None
    strange: Rows | None = None
    repeated: Rows | None = None
    failed_rows: Rows | None = None
    margin_rows: Rows | None = None
    misread: tuple[Text, ...] = ()
    lacking: tuple[Text, ...] = ()
    table_only: tuple[Text, ...] = ()
    key: tuple[Text, ...] = ()
    key_from: Text = WHOLE_ROW
    samples: Mapping[Text, Sample] = field(default_factory=dict)
    problem: Text | None = None
    notes: tuple[Text, ...] = ()
    sources: tuple[SourceReader, ...] = ()
    whole: WholeComparison | None = None
    bounded: tuple[BudgetBound, ...] = ()
    problem_code: Text = ""
    filled: FilledRows | None = None
    topped: ToppedRows | None = None
    deleted: DeletedRows | None = None
    origins: tuple[RowOrigin, ...] = ()
    values: RowValues | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def looked_up(self) -> bool:
        """Whether rows of before were asked for the keys of the new ones."""
        return all(one.by is not BoundedBy.LOOKUP for one in self.bounded)


@dataclass(frozen=True)
class DefinedRequest:
    """Compare what a dataset holds with what its definition yields over the tables now. `study.flow` is its flow,
    `table` the dataset, both by full name."""

    answers: Answers
    table: str
    study: StudyRequest


@dataclass(frozen=True)
class DefinitionMeasure:
    """`rows` the dataset holds, `expected_rows` its definition yields, `missing` and `extra` of their exact multiset
    difference. `problem` not None: they could not be compared; `problem_code`: as in `Measure`. `unsure`: functions,
    steps and columns by which two runs of the definition may differ over the same tables, where they may explain this
    difference; `rows_unsure`: in the number of rows too. `left_out`: columns that were not compared, as their
    values differ by themselves; `table_only`: nor were these, which the definition does not yield."""

    rows: Rows | None = None
    expected_rows: Rows | None = None
    missing: Rows | None = None
    extra: Rows | None = None
    problem: Text | None = None
    unsure: tuple[Text, ...] = ()
    left_out: tuple[Text, ...] = ()
    rows_unsure: bool = False
    problem_code: Text = ""
    table_only: tuple[Text, ...] = ()


@dataclass(frozen=True)
class Replay:
    """Input that was processed: the state is built of it, and the rows that it yields go nowhere.

    `next_ms`: the watermark at which the batch after it begins, as the checkpoint's last commit set it. `first`: the
    state has to be of version 1, as it is to stand behind the first batch of all; else it is of version 2.
    """

    input: WholeInput
    next_ms: int | None = None
    first: bool = False


@dataclass(frozen=True)
class RehearsalRequest:
    """Run the flow's own streaming query over exactly what `study.sets` and `study.slices` name, into a scratch folder.

    For flows whose rows depend on state: the same operators, settings and watermark rules as in the update, over a copy
    of the input. `scratch` is a folder that does not exist yet and that both Spark and Reprise reach. `watermark_ms`:
    the watermark to begin with (None: none was reached). Without any input it leaves empty state of the code's shape.
    `study.sets` and `study.slices` name the input in the order in which Spark reads it. `conf`: settings of the header
    of the checkpoint's last committed offset file (partitions, provider and formats of state); None: the session's.
    `replay`: what the query reads before, in one batch at that watermark, for the state to begin with; None: it begins
    with empty state.
    """

    study: StudyRequest
    scratch: str
    watermark_ms: int | None = None
    conf: Mapping[str, str] | None = None
    replay: Replay | None = None


@dataclass(frozen=True)
class Rehearsal:
    """What came out. `rows` written to `output` (Parquet), `checkpoint` with the state; `watermark_ms` at the end.

    `late`: rows that stateful steps dropped behind the watermark (of an aggregate, groups of rows of one task);
    `later`: of those, in batches that ran at a later watermark than the one to begin with. The
    rehearsal reads in the batches in which an update reads the same input: then an update drops the same rows. `why`
    not "": it could not, and `rows` is an estimate; see docs/rehearsal.md. `problem` not None: it could not be run, and
    what it left in `scratch` is still there.
    """

    rows: Rows | None = None
    watermark_ms: int | None = None
    late: Rows | None = None
    later: Rows | None = None
    output: Text = ""
    checkpoint: Text = ""
    problem: Text | None = None
    batches: Rows | None = None
    why: Text = ""


def study(request: StudyRequest, *, timeout: float = STUDY_SECONDS) -> Study:
    """Analyse one flow's code and count what it yields. `timeout` in seconds."""
    return as_study(request.answers.ask("study", sent(request), seconds=timeout))


def as_study(answer: Mapping[str, Any]) -> Study:
    """An answer's JSON as a value. Raises `Unreachable` (`answer_unreadable`) where it has another shape."""
    return checked(Study, answer)


def measure(request: MeasureRequest, *, timeout: float = MEASURE_SECONDS) -> Measure:
    """Compare expected and written rows, and count the table. `timeout` in seconds."""
    return checked(Measure, request.answers.ask("measure", sent(request), seconds=timeout))


def defined(request: DefinedRequest, *, timeout: float = MEASURE_SECONDS) -> DefinitionMeasure:
    """Compute a view by a read and compare it with what it holds. `timeout` in seconds."""
    return checked(DefinitionMeasure, request.answers.ask("defined", sent(request), seconds=timeout))


def rehearse(request: RehearsalRequest, *, timeout: float = REHEARSAL_SECONDS) -> Rehearsal:
    """Run the flow over a copy of its input. `timeout` in seconds, for all of it; see `recovery.spark.scratch`.

    Raises `Refused` where the scratch folder is there already. `scratch.clear_scratch` removes it afterwards.
    """
    return checked(Rehearsal, scratch.rehearse_flow(request, timeout=timeout, ask=request.study.answers.ask))


def count(
    answers: Answers,
    table: str,
    configuration: Mapping[str, str],
    *,
    files: Sequence[str] | None = None,
    timeout: float = STUDY_SECONDS,
) -> int | None:
    """Rows of a table by a fresh session with the pipeline's configuration; None where there is no such table. `files`:
    those of its data files alone, as decoded URIs. Raises `Refused` where Spark cannot read it."""
    request: dict[str, object] = {"table": table, "configuration": dict(configuration)}
    if files is not None:
        request["files"] = list(files)
    return checked(TableRowCount, answers.ask("count", request, seconds=timeout)).rows


def whereabouts(answers: Answers, tables: Sequence[str], *, timeout: float = STUDY_SECONDS) -> CatalogState:
    """Which run of Spark answers, and where these of its tables lie; one that it does not know is left out."""
    return checked(CatalogState, answers.ask("places", {"tables": list(tables)}, seconds=timeout))


def table_location(answers: Answers, table: str, *, timeout: float = STUDY_SECONDS) -> str | None:
    """Where the catalog says the table's files are; None where there is no such table."""
    place = whereabouts(answers, [table], timeout=timeout).tables.get(table)
    return None if place is None else place.location


def location(answers: Answers, table: str, *, timeout: float = STUDY_SECONDS) -> str:
    """As `table_location`. Raises `NotFound` where there is no such table."""
    place = table_location(answers, table, timeout=timeout)
    if place is None:
        raise NotFound(f"Spark knows no table {table}; check its catalog, schema and name.")
    return place
