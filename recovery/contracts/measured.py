"""What a proof measured: every criterion, what became of rows, and of what reads the table. Stored with the recovery
as `recovery.measured`, and sent by `recover` and the report."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, Self

from annotated_types import Ge, MaxLen
from pydantic import ModelWrapValidatorHandler, model_validator

from recovery.contracts import criterion_values
from recovery.contracts.amounts import Bound
from recovery.contracts.criterion_values import ExpectedRows
from recovery.contracts.forecast import Downstream
from recovery.contracts.refreshed import RefreshedDataset
from recovery.contracts.value import DataRow, Flag, Number, Text, Value

Rows = Annotated[int, Ge(0)]
"""So many of what was counted."""
Sample = Annotated[tuple[DataRow, ...], MaxLen(1000)]
"""Rows that show what a number counts."""
WHOLE_ROW: Final = "the whole row"
"""Where the key comes from of rows that are compared in every column."""
EVERY_ROW_ONCE: Final = "EVERY_ROW_ONCE"
"""The criterion that looks at new rows."""
NO_KEY_TWICE: Final = "NO_KEY_TWICE"
"""The criterion that looks for new rows whose key the table has more than once."""


class BoundedBy(StrEnum):
    """What a budget kept from being asked, or being asked whole."""

    LOOKUP = "lookup"
    """Which rows of before have a key of the new rows."""
    GROUPING = "grouping"
    """Which keys the whole table has, and how often."""
    REWRITTEN = "rewritten"
    """Whether files that were rewritten hold the rows of those in whose place they came."""
    VERSIONS = "versions"
    """Two whole versions of a Delta table."""
    VALUES = "values"
    """Columns beyond the key of new rows."""


# Those that Spark answers with are plain dataclasses: an answer may come from a newer release, and what is not known of
# it is left out. As parts of a `Value` they refuse unknown keys as it does.


@dataclass(frozen=True)
class BudgetBound:
    """A budget that was met."""

    by: BoundedBy
    """What it kept from being asked."""
    size: int | None = None
    """Bytes of data files to read; None: it was not that."""
    limit: int | None = None
    """Bytes up to which they are read; None: it was not that."""
    seconds: int | None = None
    """How long it was asked for; None: it was not that."""


@dataclass(frozen=True)
class AbsentInputs:
    """What code asks for beside its streams, and what is not there where it is studied, by name."""

    variables: tuple[Text, ...] = ()
    """Variables of the environment."""
    settings: tuple[Text, ...] = ()
    """Settings of Spark."""
    files: tuple[Text, ...] = ()
    """Files that it looks for or opens."""

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.variables, *self.settings, *self.files)


NOTHING_ABSENT: Final = AbsentInputs()


@dataclass(frozen=True)
class TableMisfit:
    """How code would write files beside which those of a table by its path can no longer be read."""

    columns: tuple[Text, ...] = ()
    """Columns, nested ones too, that it writes with another type, or no longer."""
    before: tuple[Text, ...] = ()
    """Columns that name the folders of the table's files, where the code's have others."""
    after: tuple[Text, ...] = ()
    """Columns that name the folders of the code's files."""
    kinds: tuple[Text, ...] = ()
    """The formats of the table's files and of the code's, where these differ."""
    retention: Text = ""
    """After which time Spark drops files from the table's log, by an option of the code's sink; "": never."""


@dataclass(frozen=True)
class RowOrigin:
    """A file that yields a missing row."""

    sample: Rows
    """Which of the samples of missing rows."""
    file: Text
    """A decoded URI, as the request names it."""
    lines: tuple[Rows, ...] = ()
    """The lines that can have yielded it, counted from 1, a few at most; (): not known."""
    of: Rows | None = None
    """How many lines the file has; None: not known."""


@dataclass(frozen=True)
class WholeComparison:
    """What the code yields over all input that is there, beside the whole table: by key where one is known, else by the
    whole row."""

    input_rows: Rows | None = None
    """Rows that the code yields. Each number is None where it was not compared."""
    input_keys: Rows | None = None
    """Different keys of them."""
    table_rows: Rows | None = None
    """Rows of the table."""
    table_keys: Rows | None = None
    """Different keys of them."""
    absent: Rows | None = None
    """Keys that no row of the table has; without a key, rows that the table has fewer times than the input."""
    doubled: Rows | None = None
    """Rows of the table beyond one per key; without a key, rows that it has more often than the input."""
    beyond: Rows | None = None
    """Rows of the table that the code yields over no input."""
    samples: Sample = ()
    """Some of them."""
    problem: Text | None = None
    """Why it was not compared, for people; None: it was."""
    problem_code: Text = ""
    """TYPES_DIFFER where a column has other types on both sides, "" for every other problem."""


class NotWholeReason(StrEnum):
    """Why the whole flow was not compared."""

    OVER_BUDGET = "over-budget"
    OTHER_SOURCES = "other-sources"
    """The code reads other sources than the old one."""
    NOT_READABLE = "not-readable"
    """A source cannot be read again in batch."""
    NOT_COMPARED = "not-compared"
    """Spark could not compare."""


@dataclass(frozen=True)
class ComparedWhole(WholeComparison):
    """All input that is still there beside the whole table, and what was compared."""

    files: int = 0
    """Files of all input that was ever committed and is there."""
    gone: int = 0
    """Files of it that are gone."""
    others: int = 0
    """Sources that are no files."""
    cut: int = 0
    """Those of them that have lost earlier input, or may have."""
    size: int | None = None
    """Bytes of input and table together; None: not known."""
    why: NotWholeReason | None = None
    """Why it was not compared, and the numbers are None; None: it was."""

    @property
    def partial(self) -> bool:
        """Whether input that was read may be missing from what was compared."""
        return bool(self.gone or self.cut)


@dataclass(frozen=True)
class FileMark:
    """What a file was at one moment."""

    size: int | None = None
    """In bytes; None: not known."""
    mtime_ms: int | None = None
    """When it was last written, in ms since 1970; None: not known."""

    def differs_from(self, other: "FileMark") -> bool:
        """Do two marks show another file? A store that keeps whole seconds is compared by these."""
        if None not in (self.size, other.size) and self.size != other.size:
            return True
        if self.mtime_ms is None or other.mtime_ms is None:
            return False
        if self.mtime_ms % 1000 and other.mtime_ms % 1000:
            return self.mtime_ms != other.mtime_ms
        return self.mtime_ms // 1000 != other.mtime_ms // 1000


@dataclass(frozen=True)
class ChangedFile:
    """A file of the new input that was written again."""

    path: str
    """A decoded URI."""
    sealed: FileMark | None
    """As it was when the plan was sealed, or when an earlier batch read it."""
    read: FileMark
    """As it was when Spark listed it to be read, which keeps the time alone."""
    now: FileMark | None
    """As it was when this was measured; None: it was gone."""

    @property
    def since_read(self) -> bool:
        """Was it written again, or removed, after Spark had listed it? Else between the seal and that."""
        return self.now is None or self.read.differs_from(self.now)


@dataclass(frozen=True)
class ChangedFiles:
    """Files of the new input that were written again since the plan was sealed."""

    number: int = 0
    """How many."""
    looked_at: int = 0
    """How many were compared."""
    first: tuple[ChangedFile, ...] = ()
    """The first of them."""
    replaced: int = 0
    """How many of them an earlier batch had read as another file. Rows that only that file had are read no more."""


@dataclass(frozen=True)
class MeasuredRows:
    """So many rows, as measured."""

    rows: int | None
    """None: not known."""
    bound: Bound
    """What that number is."""


class AcceptedRows(Value):
    """Rows that the plan forecast and people accepted."""

    rows: Number | None = 0
    """None: not known."""
    bound: Bound = Bound.EXACT
    """What that number is."""


class JudgedCriterion(Value):
    """One criterion of a proof."""

    code: str
    """Which one; stable."""
    says: str = ""
    """The same for people, in a sentence."""
    expected: criterion_values.Expected | None = None
    """What the plan held it to; each code has its own. None: the plan fixed nothing."""
    measured: criterion_values.Measured = None
    """What was measured; each code has its own. None: nothing."""
    ok: Flag | None = None
    """True: proven; False: measured and not so; None: it could not be measured."""
    why: str = ""
    """One or more whole sentences for people."""

    def measured_number(self, name: str) -> int | None:
        """This number of what any release measured; None: it has none, or it is not known."""
        held = self.measured
        number = held.get(name) if isinstance(held, Mapping) else getattr(held, name, None)
        return number if isinstance(number, int) else None

    @model_validator(mode="before")
    @classmethod
    def _read(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        code, fields = str(given.get("code")), dict(given)
        if fields.get("expected") is not None:
            fields["expected"] = criterion_values.read_expected(code, fields["expected"])
        if fields.get("measured") is not None:
            fields["measured"] = criterion_values.read_measured(code, fields["measured"])
        return fields


class Verdict(Value):
    """Whether a recovery is proven."""

    verified: Flag = False
    """Every criterion was measured and every one holds."""
    criteria: tuple[JudgedCriterion, ...] = ()
    """Each, in the order of the plan."""

    @property
    def failed(self) -> tuple[JudgedCriterion, ...]:
        """The criteria that were measured and do not hold."""
        return tuple(one for one in self.criteria if one.ok is False)

    @property
    def holding(self) -> int:
        """How many criteria hold."""
        return sum(one.ok is True for one in self.criteria)

    @property
    def unproven(self) -> tuple[str, ...]:
        """Codes of the criteria that do not hold, or could not be measured."""
        return tuple(one.code for one in self.criteria if one.ok is not True)


class MeasuredBelow(Value):
    """What became of what reads the table."""

    downstream: tuple[RefreshedDataset, ...] = ()
    """Each dataset that the plan refreshed."""
    left_behind: tuple[Downstream, ...] = ()
    """What the plan left as it was."""


class MeasuredOutcome(Value):
    """What became of rows; each number is None where it is not known."""

    new_rows: Number | None = None
    """Rows that the rerun wrote."""
    expected_rows: Number | None = None
    """Rows that it had to write."""
    before_rows: Number | None = None
    """Rows of the table before it."""
    table_rows: Number | None = None
    """Rows of the table."""
    table_keys: Number | None = None
    """Different keys of the table."""
    lost: Number | None = None
    """Rows that had to be in the table and are not, those included that the plan gave up as accepted; with a key and
    the whole flow compared, those too that were lost long ago."""
    lost_bound: Bound = Bound.UNKNOWN
    """What that number is; an estimate with those of long ago: earlier code may have left them out."""
    lost_before: Number | None = None
    """Those of them that were so before the rerun; None where no comparison of the whole flow can know it, or the table
    was too large to be grouped: `lost` is then a lower bound."""
    lost_accepted: AcceptedRows = AcceptedRows()
    """Rows that the plan gave up."""
    doubled: Number | None = None
    """Rows of the whole table beyond one per key; without a key those beyond what the input has, as far as that was
    compared."""
    doubled_bound: Bound = Bound.UNKNOWN
    """What that number is: at least so many, where not every row could be compared."""
    doubled_before: Number | None = None
    """Those of them that were so before the rerun, as `lost_before`."""
    doubled_accepted: AcceptedRows = AcceptedRows()
    """Rows that the plan wrote again."""
    strange: Number | None = None
    """Of a topic, records that equal no expected one."""
    repeats_added: Number | None = None
    """With a key, rows that the rerun put there beyond one per key."""
    key: tuple[str, ...] = ()
    """The columns by which rows were identified; (): all of them."""
    key_from: str = WHOLE_ROW
    """Where the key comes from, for people."""
    samples: Mapping[str, tuple[DataRow, ...]] = {}
    """Rows that are missing, too many or there twice, by which of these."""
    notes: tuple[str, ...] = ()
    """What was noticed while it was measured, for people."""
    whole: ComparedWhole | None = None
    """All input that is there beside the whole table; None: that was not tried."""
    bounded: tuple[BudgetBound, ...] = ()
    """Budgets that were met."""
    origins: tuple[RowOrigin, ...] = ()
    """Where the samples of missing rows come from."""
    changed_files: ChangedFiles | None = None
    """Of the new input; None: not known."""
    owners: Mapping[str, str] = {}
    """Owners of the files that `origins` and `changed_files` name, by decoded URI."""

    @property
    def lost_now(self) -> MeasuredRows:
        """Rows that this recovery lost: without those of before, which alone are an estimate."""
        if self.lost is None:
            return MeasuredRows(None, Bound.UNKNOWN)
        return MeasuredRows(self.lost - (self.lost_before or 0), self.lost_accepted.bound)

    @property
    def lost_before_bound(self) -> Bound:
        """Earlier code may have left such rows out; that there are none was counted."""
        if self.lost_before is None:
            return Bound.UNKNOWN
        return Bound.ESTIMATE if self.lost_before else Bound.EXACT

    @property
    def doubled_now(self) -> MeasuredRows:
        """Rows that this recovery doubled: without those of before."""
        if self.repeats_added is not None:
            return MeasuredRows(max(0, self.repeats_added), Bound.EXACT)
        if self.doubled is None:
            return MeasuredRows(None, Bound.UNKNOWN)
        return MeasuredRows(max(0, self.doubled - (self.doubled_before or 0)), self.doubled_bound)


class ReachedInput(Value):
    """How far one input of the plan was read when it was measured."""

    source: Number | str
    """As the plan names it."""
    offset_json: str | None
    """Spark's offset line; None: nothing was read, or the checkpoint has no such source."""


class Measured(MeasuredOutcome, MeasuredBelow, Verdict):
    """A proof, as it is stored."""

    at: str | None = None
    """When it was measured, in ISO form; None: it was not noted."""
    reached: tuple[ReachedInput, ...] = ()
    """How far the checkpoint had come then, in the order of the plan's inputs; (): not noted, or no update ran."""
    last_batch: Number | None = None
    """The last batch that it had committed; None: as `reached`, or it had none."""

    def criterion(self, code: str) -> JudgedCriterion | None:
        """The criterion of this code; None: the proof has none."""
        return next((one for one in self.criteria if one.code == code), None)

    @model_validator(mode="wrap")
    @classmethod
    def _read_measured(cls, given: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """From a call, or from what any release stored.

        Proofs before there were bounds counted among the new rows alone: their numbers are lower bounds. Repeats that
        such a proof accepted are those that its criterion on rows had counted.
        """
        if not isinstance(given, Mapping):
            return handler(given)
        fields = dict(given)
        if "doubled_accepted" not in fields:
            again = _repeats_added(fields.get("criteria") or ())
            fields["doubled_accepted"] = {"rows": again, "bound": Bound.EXACT}
            if again:
                fields["doubled"] = (fields.get("doubled") or 0) + again
        for name in ("lost", "doubled"):
            least = Bound.UNKNOWN if fields.get(name) is None else Bound.AT_LEAST
            fields.setdefault(f"{name}_bound", least)
        whole = fields.get("whole")
        if isinstance(whole, Mapping):
            # before it was asked what other sources had lost, any may have lost some
            fields["whole"] = {"cut": whole.get("others", 0), **whole} if whole else None
        made = handler(fields)
        made.__pydantic_fields_set__.intersection_update(given)
        return made


def _repeats_added(criteria: Iterable[Any]) -> int:
    for criterion in map(JudgedCriterion.model_validate, criteria):
        if isinstance(criterion.expected, ExpectedRows) and criterion.expected.again:
            return criterion.measured_number("repeats_added") or 0
    return 0
