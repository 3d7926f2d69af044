"""What each criterion of a plan is held to, and what a proof measured of it: one value a code, with the keys that are
stored and sealed."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import (
    ConfigDict,
    GetPydanticSchema,
    JsonValue,
    RootModel,
    SerializerFunctionWrapHandler,
    ValidationError,
    WithJsonSchema,
    model_serializer,
)

from recovery.contracts.amounts import Bound
from recovery.contracts.refreshed import RefreshedDataset
from recovery.contracts.value import Flag, Number, Value


class GivenKeys(Value):
    """Written with the keys that it was given, and no others: what is sealed and stored keeps its bytes."""

    @model_serializer(mode="wrap")
    def _write_given(self, handler: SerializerFunctionWrapHandler) -> Mapping[str, object]:
        written: Mapping[str, object] = handler(self)
        return {name: field for name, field in written.items() if name in self.model_fields_set}


class ExpectedValue(GivenKeys):
    """What a plan holds a criterion to. A key of another release stays, and no reader uses it."""

    model_config = ConfigDict(extra="allow")


class MeasuredValue(GivenKeys):
    """What was measured of a criterion. A key of another release stays, and no reader uses it."""

    model_config = ConfigDict(extra="allow")


class ExpectedPosition(ExpectedValue):
    """Where the first new batch begins."""

    batch: Number | None = None
    """Its number; None: the first of all."""
    offsets: tuple[JsonValue, ...]
    """The offset of each source before it, as its checkpoint writes it; None: from the beginning."""


class ExpectedFiles(ExpectedValue):
    """Input that is in batches."""

    scope: str = ""
    """Of which checkpoint: `both`, `new` or `same` (`verification.evidence`)."""
    files: Number | None = None
    """How many files; 0: the sources have none."""


class ExpectedRowsBefore(ExpectedValue):
    """Rows that stay as they are."""

    rows: Number | None = None
    """How many; None: not known."""


class ExpectedGrowth(ExpectedValue):
    """By what the table grows: the rows of the new batches."""

    before: Number | None = None
    """Rows before the rerun; None: not known."""
    filled: Flag = False
    """Whether rows are filled back too."""


class ExpectedRows(ExpectedValue):
    """The rows of the new batches, each once."""

    scope: str = ""
    """Which rows: those of the `new` batches, `all`, or those that are `missing`."""
    key: tuple[str, ...] | None = None
    """The columns by which they are identified; (): the whole row; None: the plan named none."""
    whole_rows: Flag = False
    """Whether rows are compared in every column."""
    again: Flag = False
    """Whether rows that were read before are read again."""
    inferred: tuple[str, ...] = ()
    """Log entries whose files were inferred: which rows had to be there is open then."""
    filled: Flag = False
    """Whether rows that were filled back are among them."""
    open: Number | None = None
    """A batch that was planned and never committed, and that the table may have had all the same; None: there is none,
    or it is certain."""


class AcceptedRepeats(GivenKeys):
    """Rows beyond the first of their key that people accepted."""

    rows: Number | None
    """How many; None: not known."""
    bound: Bound
    """What that number is."""


NO_REPEATS: Final = AcceptedRepeats(rows=0, bound=Bound.EXACT)


class ExpectedKeys(ExpectedValue):
    """Keys that no new row has twice."""

    key: tuple[str, ...]
    """Their columns."""
    accepted: AcceptedRepeats | None = None
    """Rows that may repeat a key; None: none may."""


class ExpectedCounts(ExpectedValue):
    """Numbers of the forecast; None: it has no such number."""

    new_rows: Number | None = None
    """Rows that are written."""
    table_after: Number | None = None
    """Rows of the table after it."""
    lost: Number | None = None
    """Rows that are lost."""
    doubled: Number | None = None
    """Rows that are in the table twice."""


class ExpectedOthers(ExpectedValue):
    """What stays as it is beside the flow."""

    ran: tuple[str, ...] = ()
    """Places that the updates of the recovery write too, of which nothing is claimed."""


class ExpectedFill(ExpectedValue):
    """Rows of a backup that are filled back."""

    key: tuple[str, ...] = ()
    """The columns by which they are identified."""


class ExpectedInput(ExpectedValue):
    """Rows of the committed input, each of which the table has."""

    key: tuple[str, ...] = ()
    """The columns by which they are identified."""
    rows: Number | None = None
    """How many the code yields."""
    whole: Flag = True
    """Whether all committed input could be read."""


class ExpectedDeleted(ExpectedValue):
    """Rows that are deleted, each equal in every column to one that stays."""

    rows: Number | None = None
    """How many; None: not counted."""
    before: Number | None = None
    """Rows of the table before it; None: not counted."""


class ExpectedCheckpoint(ExpectedValue):
    """A checkpoint that stays as it is."""

    fingerprint: str | None = None
    """Of its files."""
    last_committed: Number | None = None
    """Its last committed batch; None: it has none."""


class ExpectedDatasets(ExpectedValue):
    """Datasets that are refreshed."""

    datasets: tuple[str, ...]
    """Their full names."""
    compared: tuple[str, ...] = ()
    """Those whose rows are compared with their definition."""


class ExpectedNothing(ExpectedValue):
    """A criterion that needs no value."""


class MeasuredPosition(MeasuredValue):
    """Where the first new batch began."""

    batch: Number | None
    """Its number; None: no batch was due."""
    offsets: tuple[JsonValue, ...]
    """The offset of each source before it."""


class MeasuredFiles(MeasuredValue):
    """Input files in batches."""

    files: Number
    """How many are in any."""
    missing: Number
    """How many are in none."""
    more_than_once: Number
    """How many are in several."""
    passed_over: Number = 0
    """How many the plan knew that Spark passes over (`maxFileAge`, `fileNameOnly`): their rows are in no table. Proofs
    of earlier releases did not count them."""
    positions: Mapping[str, JsonValue] = {}
    """Where sources that are no files ended, by their index."""


class MeasuredRowsBefore(MeasuredValue):
    """Rows of before, and their data files."""

    rows: Number | None
    """How many rows; None: not counted."""
    files: Number | None
    """How many files; None: the table's log names none."""
    touched: Number
    """How many of them were removed or changed."""
    rewritten: Number = 0
    """How many were rewritten without a change of rows."""
    vanished: Number | None = None
    """Rows that are no longer in the table."""
    misread: tuple[str, ...] = ()
    """Columns that new data files have with another type than those of before, or with a part less."""


class MeasuredGrowth(MeasuredValue):
    """Rows of the table before and after the rerun."""

    before: Number
    """Before it."""
    after: Number
    """After it."""
    new_batches: Number
    """Rows of the new batches."""
    vanished: Number | None = None
    """Rows that are no longer in the table."""


class MeasuredFilledGrowth(MeasuredValue):
    """Rows of a table to which rows were filled back."""

    new_batches: Number
    """Rows of the new batches."""
    filled: Number
    """By how many rows the fill let it grow."""
    after: Number
    """Rows of the table."""


class MeasuredRowsOnce(MeasuredValue):
    """Rows that were expected and rows that were written. Each number is None where it was not measured."""

    expected: Number | None
    """Rows that had to be written."""
    found: Number | None
    """Rows that were."""
    missing: Number | None
    """Rows that are not there."""
    extra: Number | None
    """Rows that are there too often, or otherwise."""
    repeats_added: Number | None
    """Rows beyond one per key that the rerun put there."""
    repeats_expected: Number | None = None
    """Those that the input explains."""
    held_before: Number | None = None
    """Those of them whose key the table held before."""
    key: tuple[str, ...] = ()
    """The columns by which rows are identified; (): the whole row."""
    table_only: tuple[str, ...] = ()
    """Columns that the code does not yield, which were not compared."""
    values_compared: Flag | None = None
    """Whether the columns beyond the key were compared; None: rows are compared in every column anyway."""
    other_values: Number | None = None
    """New rows that equal no row that the code makes of the new input; None: not compared so."""
    differing: tuple[str, ...] = ()
    """Columns in which those have another value."""
    left_out: tuple[str, ...] = ()
    """Columns that were not compared, as two runs of the code fill them otherwise, or as their types differ."""
    absent: tuple[str, ...] = ()
    """Columns that the table does not have."""


class MeasuredRecordsOnce(MeasuredValue):
    """Records that had to be sent to a topic, and those that came. Each number is None where it was not measured."""

    expected: Number | None
    """Records that had to be sent."""
    found: Number | None
    """Records that came."""
    missing: Number | None
    """Records that are not there."""
    repeated: Number | None
    """Expected ones that are there too often."""
    sent_by_a_failed_attempt: Number | None = None
    """Those that were sent before."""
    perhaps_sent_by_a_failed_attempt: Number | None = None
    """Those that were sent before if clocks disagree."""
    of_others: Number | None = None
    """Records that equal no expected one."""
    key: tuple[str, ...] = ()
    """The parts of a record by which they are identified; (): key and value."""
    other_values: Number | None = None
    """Records that are identified by one part, and equal none that the code makes; None: not compared."""
    left_out: tuple[str, ...] = ()
    """Parts that were not compared, as two runs of the code fill them otherwise."""


class MeasuredKeys(MeasuredValue):
    """New rows whose key the table has more than once."""

    rows: Number
    """How many rows."""
    keys: Number
    """How many keys."""
    accepted: Number | None = None
    """Rows that the plan accepts."""
    table_keys: Number | None
    """Different keys of the table; None: not counted."""
    key: tuple[str, ...] = ()
    """The columns of the key."""


class MeasuredOtherRecords(MeasuredValue):
    """Records that others sent, or that are wrong."""

    records: Number | None
    """Records that came."""
    of_others: Number | None
    """Those that equal no expected one."""


class MeasuredCounts(MeasuredValue):
    """What the forecast named, as measured."""

    new_rows: Number | None = None
    """Rows that were written."""
    table_after: Number | None = None
    """Rows of the table."""
    lost: Number | None = None
    """Rows that are missing."""
    doubled: Number | None = None
    """Rows that are there too often."""


class MeasuredOthers(MeasuredValue):
    """Other checkpoints and tables."""

    watched: Number
    """How many were looked at."""
    changed: tuple[str, ...]
    """Those that changed, came or went."""
    ran: tuple[str, ...] = ()
    """Those that the updates of the recovery write too."""


class MeasuredEnd(MeasuredValue):
    """How the further update ended, where it did not complete."""

    state: str
    """As the Pipelines API names it."""


class MeasuredFurther(MeasuredValue):
    """What the further update changed."""

    rows_before: Number | None
    """Rows before it."""
    rows_after: Number | None
    """Rows after it."""
    data_files: Number
    """Data files that came or went."""


class MeasuredFill(MeasuredValue):
    """Rows of a backup that the new code does not yield, and what is in the table of them after the fill."""

    due: Number
    """Rows that had to be filled back."""
    filled: Number
    """Rows that were filled back."""
    missing: Number
    """Rows of the backup that are not in the table as they were."""
    extra: Number
    """Rows that are in the table too often or otherwise."""
    backup_rows: Number
    """Rows that the backup holds."""
    key: tuple[str, ...]
    """The columns by which rows were identified."""


class MeasuredInput(MeasuredValue):
    """Rows of the committed input beside the whole table."""

    rows: Number
    """How many the code yields."""
    missing: Number
    """By how many the table has too few."""
    extra: Number
    """By how many it has too many."""
    beyond: Number
    """Rows of the table that come of no input."""
    key: tuple[str, ...] = ()
    """The columns by which rows are identified."""


class MeasuredDeleted(MeasuredValue):
    """The version of the table before rows were deleted beside the one of now, in every column."""

    deleted: Number
    """By how many it has fewer of rows that were there."""
    vanished: Number
    """Different rows of which none is left."""
    added: Number
    """By how many it has more of any row."""
    before: Number
    """Rows of the version before."""


class MeasuredCheckpoint(MeasuredValue):
    """The checkpoint as it is now."""

    fingerprint: str
    """Of its files."""
    last_committed: Number | None
    """Its last committed batch; None: it has none."""


class MeasuredDataset(GivenKeys, RefreshedDataset):
    """A dataset downstream, with the keys that were stored of it."""


class MeasuredDatasets(RootModel[tuple[MeasuredDataset, ...]]):
    """Each dataset downstream after its refresh."""

    model_config = ConfigDict(frozen=True)


EXPECTED: Final[Mapping[str, type[ExpectedValue]]] = {
    "FIRST_BATCH_AT_POSITION": ExpectedPosition,
    "EACH_FILE_ONCE": ExpectedFiles,
    "ROWS_OF_BEFORE_UNTOUCHED": ExpectedRowsBefore,
    "TABLE_GREW_BY_NEW_BATCHES": ExpectedGrowth,
    "EVERY_ROW_ONCE": ExpectedRows,
    "NO_KEY_TWICE": ExpectedKeys,
    "COUNTS_EQUAL_FORECAST": ExpectedCounts,
    "NOTHING_ELSE_CHANGED": ExpectedOthers,
    "FURTHER_UPDATE_ADDS_NOTHING": ExpectedNothing,
    "FILLED_ROWS_AS_BEFORE": ExpectedFill,
    "TABLE_HAS_EVERY_ROW": ExpectedInput,
    "ONLY_REPEATS_DELETED": ExpectedDeleted,
    "CHECKPOINT_UNTOUCHED": ExpectedCheckpoint,
    "DOWNSTREAM_AGREES": ExpectedDatasets,
}
"""What a criterion of each code is held to."""
_MEASURED: Final[Mapping[str, Sequence[type[MeasuredValue | MeasuredDatasets]]]] = {
    "FIRST_BATCH_AT_POSITION": (MeasuredPosition,),
    "EACH_FILE_ONCE": (MeasuredFiles,),
    "ROWS_OF_BEFORE_UNTOUCHED": (MeasuredRowsBefore,),
    "TABLE_GREW_BY_NEW_BATCHES": (MeasuredFilledGrowth, MeasuredGrowth),
    "EVERY_ROW_ONCE": (MeasuredRowsOnce, MeasuredRecordsOnce),
    "NO_KEY_TWICE": (MeasuredKeys,),
    "COUNTS_EQUAL_FORECAST": (MeasuredOtherRecords, MeasuredCounts),
    "NOTHING_ELSE_CHANGED": (MeasuredOthers,),
    "FURTHER_UPDATE_ADDS_NOTHING": (MeasuredEnd, MeasuredFurther),
    "FILLED_ROWS_AS_BEFORE": (MeasuredFill,),
    "TABLE_HAS_EVERY_ROW": (MeasuredInput,),
    "ONLY_REPEATS_DELETED": (MeasuredDeleted,),
    "CHECKPOINT_UNTOUCHED": (MeasuredCheckpoint,),
    "DOWNSTREAM_AGREES": (MeasuredDatasets,),
}
"""What may have been measured of a criterion of each code; the first that fits is it."""

# The contract that holds the code reads the value; here it is taken, and written, as what it is.
_AS_READ: Final = GetPydanticSchema(lambda _source, handler: handler(Any))
Expected = Annotated[
    ExpectedValue | Mapping[str, object],
    _AS_READ,
    WithJsonSchema({"type": "object", "additionalProperties": True}),
]
"""JSON where the code is not known here, or another release gave it another shape."""
Measured = Annotated[
    MeasuredValue | MeasuredDatasets | Mapping[str, object] | Sequence[object] | None,
    _AS_READ,
    WithJsonSchema({}),
]
"""As `Expected`; None: nothing was measured."""


def read_expected(code: str, given: Any) -> Any:
    """The value of a criterion's code; `given` as it is where it is one, or where none fits its very bytes."""
    if isinstance(given, ExpectedValue) or code not in EXPECTED:
        return given
    return _read_first((EXPECTED[code],), given)


def read_measured(code: str, given: Any) -> Any:
    """As `read_expected`, of what was measured."""
    if given is None or isinstance(given, MeasuredValue | MeasuredDatasets):
        return given
    return _read_first(_MEASURED.get(code, ()), given)


def _read_first(kinds: Sequence[type[ExpectedValue | MeasuredValue | MeasuredDatasets]], given: Any) -> Any:
    for kind in kinds:
        try:
            value = kind.model_validate(given)
            if _text_of(value.model_dump(mode="json")) == _text_of(given):
                return value
        except (ValidationError, TypeError, ValueError):
            continue
    return given


def _text_of(value: Any) -> str:
    """Unlike Python's own `==`, this tells 1 from 1.0 and from true."""
    return json.dumps(value, sort_keys=True)
