"""top-up: rows that the table lacks are read from the input once more and written once. Pure.

What is expected is what the code of now yields over all input that the checkpoint has committed, and no further: what
waits is read by the next update. A row is written where no row of the table has its key. So each missing row must have
a key of its own, and what is there must be there as often as the code yields it: else nothing shows which row lacks.
"""

from typing import Final

from recovery.checkpoints.report import Finding, Severity
from recovery.contracts import codec
from recovery.contracts.amounts import Bound, RowAmount
from recovery.contracts.criteria import Criterion
from recovery.contracts.criterion_values import (
    AcceptedRepeats,
    ExpectedCheckpoint,
    ExpectedCounts,
    ExpectedGrowth,
    ExpectedInput,
    ExpectedKeys,
    ExpectedOthers,
    ExpectedRows,
    ExpectedRowsBefore,
    ExpectedValue,
)
from recovery.contracts.forecast import Forecast
from recovery.contracts.names import StepKind, Strategy
from recovery.contracts.option import Blocker, BlockerCode, Option
from recovery.contracts.steps import FillArgs, PlannedStep
from recovery.strategies import common, corrections, full_refresh, sources
from recovery.strategies.base import CommittedRows, Facts
from recovery.strategies.corrections import UnmetRequirement
from recovery.strategies.positions import positions

HAS_EVERY_ROW: Final = "TABLE_HAS_EVERY_ROW"
CHECKPOINT_UNTOUCHED: Final = "CHECKPOINT_UNTOUCHED"
MISSING_BY_PROOF: Final = "ROWS_MISSING_BY_PROOF"
"""The finding of an option that adds rows which a proof did not find."""
SAYS: Final = {
    "ROWS_OF_BEFORE_UNTOUCHED": common.WORDS["ROWS_OF_BEFORE_UNTOUCHED"],
    "TABLE_GREW_BY_NEW_BATCHES": "The table grew by exactly the rows that were added.",
    "EVERY_ROW_ONCE": "Each row that was missing is in the table once.",
    "NO_KEY_TWICE": "No key of a row that was added is in the table twice.",
    HAS_EVERY_ROW: "The whole table has each row that the code yields over the committed input, as often as it does.",
    "COUNTS_EQUAL_FORECAST": common.WORDS["COUNTS_EQUAL_FORECAST"],
    CHECKPOINT_UNTOUCHED: "The checkpoint of the flow is as it was.",
    "NOTHING_ELSE_CHANGED": common.WORDS["NOTHING_ELSE_CHANGED"],
}
BACK: Final = (
    "Until something else writes the table, the next batch of the flow too: it goes back to the version before the "
    "rows were added, while Delta has its files."
)
NONE: Final = CommittedRows()

CODES: Final = corrections.CorrectionCodes(BlockerCode.TOP_UP_INPUT_UNKNOWN, BlockerCode.TOP_UP_COLUMNS)
UNMET: Final[corrections.Words] = {
    UnmetRequirement.OF_PROGRAM: (
        BlockerCode.TOP_UP_OF_PROGRAM,
        "The table of a plain program is not topped up here yet. Go back by --position (continue), and accept the "
        "repeats.",
    ),
    UnmetRequirement.NO_OWN_DELTA_TABLE: (
        BlockerCode.TOP_UP_OF_TABLE,
        "{dataset} is no Delta table that the flow writes by itself, so rows cannot be added once and no more. Choose "
        "full-refresh, or continue with a start position.",
    ),
    UnmetRequirement.SHARED_TABLE: (
        BlockerCode.TOP_UP_SHARED_TABLE,
        "{writers} writes the same table, so a key that is there may be that of another flow's row. Add the rows by "
        "hand.",
    ),
    UnmetRequirement.BATCH_UNSETTLED: (
        BlockerCode.BATCH_UNSETTLED,
        "Batch {batch} is in the table, and the checkpoint has not committed it. Choose revert, which settles it, then "
        "top-up.",
    ),
    UnmetRequirement.OTHER_CODE: (
        BlockerCode.TOP_UP_OTHER_CODE,
        "The code is not the one that wrote the table, so it may yield rows that were never due. Keep the code as it "
        "is (--keep-code); where it was changed since the last good update, choose continue first, then top-up.",
    ),
    UnmetRequirement.OF_GROUPS: (
        BlockerCode.TOP_UP_OF_GROUPS,
        "Rows are made of several rows of the input ({steps}), so a row that is missing cannot be computed by itself. "
        "Choose full-refresh, or reread.",
    ),
    UnmetRequirement.NO_KEY: (
        BlockerCode.TOP_UP_NO_KEY,
        "No key is known by which a row is missing or there. Name the key (--key).",
    ),
    UnmetRequirement.INPUT_SKIPPED: (
        BlockerCode.TOP_UP_INPUT_UNKNOWN,
        "An earlier recovery let a source begin elsewhere: rows that were left out on purpose would come in. Add the "
        "missing ones by hand, or choose full-refresh.",
    ),
    UnmetRequirement.START_UNKNOWN: (
        BlockerCode.TOP_UP_INPUT_UNKNOWN,
        "{source}: where the flow began to read is not known, and rows from before that were never due. {why} Add the "
        "missing rows by hand.",
    ),
    UnmetRequirement.READ_AGAIN: (
        BlockerCode.TOP_UP_READ_AGAIN,
        "{twice} Their rows would come a second time after a top-up. Run the flow first (continue), then top-up.",
    ),
    UnmetRequirement.UNCOUNTED: (
        BlockerCode.TOP_UP_UNCOUNTED,
        "What the code yields over the committed input could not be compared by key ({key}) with the table, so which "
        "rows are missing is not known. Raise the limits for this flow, or choose full-refresh.",
    ),
    UnmetRequirement.COLLATION: (
        BlockerCode.TOP_UP_COLLATION,
        "{collated} compares texts by a collation, by which missing rows cannot be found. Name another key (--key), or "
        "choose full-refresh.",
    ),
}


def judge(facts: Facts) -> Option:
    """The option, blocked or not, with the rows that it adds."""
    held = facts.counts.committed
    added = None if held is None else held.absent
    return Option(
        strategy=Strategy.TOP_UP,
        title="top-up",
        summary="Add the rows that the table lacks, once",
        blocker=find_blocker(facts),
        forecast=Forecast(
            lost=_lost(facts),
            doubled=_doubled(facts),
            reread=corrections.forecast_reread(
                facts, "to find the rows that lack; the flow itself reads nothing again."
            ),
            new_rows=added,
            table_after=common.table_after(facts, added),
            state="Stays as it is",
            seconds=common.seconds(facts, 1),
        ),
        findings=_findings(facts),
        steps=_steps(facts, added),
        criteria=_criteria(facts, added),
        rollback=BACK,
        code_live="Unchanged",
        table_meanwhile=common.readable(facts),
        positions=positions(facts, after="same"),
    )


def find_blocker(facts: Facts) -> Blocker | None:
    """Why top-up cannot run here; None when it can."""
    return corrections.block(facts, Strategy.TOP_UP, UNMET, CODES) or _judge_rows(facts)


def _judge_rows(facts: Facts) -> Blocker | None:
    held, key = facts.counts.committed or NONE, ", ".join(facts.new_code.key)
    if not held.absent and not held.short and held.unsettled == 0:
        of = ", of input that can still be read" if corrections.is_cut(facts) else ""
        return Blocker(code=BlockerCode.NOTHING_MISSING, says=f"No row is missing from the table{of}.")
    return _judge_key(held, key)


def _judge_key(held: CommittedRows, key: str) -> Blocker | None:
    """Why the key does not tell which rows are missing."""
    if held.extra:
        says = (
            f"The table has {common.plural(held.extra, 'row')} more of its keys ({key}) than the code yields, so it "
            "would still be wrong with the missing rows. Choose deduplicate first, or full-refresh."
        )
        return Blocker(code=BlockerCode.TOP_UP_TABLE_REPEATS, says=says)
    if held.short or held.absent != held.absent_keys:
        repeats = held.short or held.absent - held.absent_keys
        says = (
            f"{common.plural(repeats, 'row')} of the input repeat a key ({key}) of a missing row or of the table, so "
            "the key does not tell which of them is missing. Name a key that each row has alone (--key)."
        )
        return Blocker(code=BlockerCode.TOP_UP_KEY_REPEATS, says=says)
    if held.unsettled is None:
        says = (
            f"The rows are identified by {key}, and what dropDuplicates lets through is changed after it or goes by "
            "other columns, so which row is missing is not known. Use the key of the code, or choose full-refresh."
        )
        return Blocker(code=BlockerCode.TOP_UP_FIRST_NOT_KNOWN, says=says)
    if held.unsettled:
        says = (
            f"Of {common.plural(held.unsettled, 'missing key')} ({key}) the input has several rows that differ; which "
            "of them came first, as dropDuplicates lets it through, is not known. Add them by hand, or choose "
            "full-refresh."
        )
        return Blocker(code=BlockerCode.TOP_UP_FIRST_NOT_KNOWN, says=says)
    return None


def _lost(facts: Facts) -> RowAmount:
    if gone := full_refresh.list_gone(facts):
        why = (
            f"{common.plural(len(gone), 'committed file')} can no longer be read; how many of their rows the table "
            "lacks is not known."
        )
        return common.amount(None, (), why, Bound.UNKNOWN).model_copy(update={"files": len(gone)})
    if corrections.is_cut(facts):
        why = " ".join(f.why for f in sources.anew(facts) if not f.whole)
        says = f"{why} How many rows of earlier input the table lacks is not known."
        return RowAmount(rows=None, bound=Bound.UNKNOWN, why=says)
    if facts.counts.committed is None:
        return RowAmount(rows=None, bound=Bound.UNKNOWN, why="What the table lacks was not counted.")
    return sources.nothing("All committed input can be read: each row that the table lacks is added.")


def _doubled(facts: Facts) -> RowAmount:
    held = facts.counts.committed
    if held is None:
        return RowAmount(rows=None, bound=Bound.UNKNOWN, why="What the table lacks was not counted.")
    if held.beyond and not corrections.is_cut(facts):
        why = (
            f"{common.plural(held.beyond, 'row')} of the table come from no input: other code, or a person, may have "
            "written the missing ones under other keys."
        )
        return RowAmount(rows=min(held.absent, held.beyond), bound=Bound.AT_MOST, why=why)
    return sources.nothing("No row of the table has a key of a row that is added.")


def _steps(facts: Facts, added: int | None) -> tuple[PlannedStep, ...]:
    rows = "the missing rows" if added is None else f"the {common.plural(added, 'missing row')}"
    fill = PlannedStep(
        kind=StepKind.FILL,
        says=f"Read the committed input once more, and add {rows} to {facts.dataset} in one commit.",
        args=FillArgs(rows_of="input", rows=added),
    )
    return common.steps(False, fill)


def _criteria(facts: Facts, added: int | None) -> tuple[Criterion, ...]:
    table, key, held = facts.counts.table, tuple(facts.new_code.key), facts.counts.committed or NONE
    missing = ExpectedRows(scope="missing", key=key)
    if facts.new_code.varies == ():
        missing = codec.change(missing, whole_rows=True)
    counts: dict[str, ExpectedValue] = {}
    if added is not None:
        after = common.table_after(facts, added)
        counts["COUNTS_EQUAL_FORECAST"] = ExpectedCounts(new_rows=added, table_after=after)
    expected: dict[str, ExpectedValue] = {
        "ROWS_OF_BEFORE_UNTOUCHED": ExpectedRowsBefore(rows=table),
        "TABLE_GREW_BY_NEW_BATCHES": ExpectedGrowth(before=table),
        "EVERY_ROW_ONCE": missing,
        "NO_KEY_TWICE": ExpectedKeys(key=key, accepted=AcceptedRepeats(rows=0, bound=Bound.EXACT)),
        HAS_EVERY_ROW: ExpectedInput(key=key, rows=held.rows, whole=not corrections.is_cut(facts)),
        **counts,
        CHECKPOINT_UNTOUCHED: ExpectedCheckpoint(
            fingerprint=facts.checkpoint.fingerprint, last_committed=facts.checkpoint.last_committed
        ),
        "NOTHING_ELSE_CHANGED": ExpectedOthers(),
    }
    return tuple(Criterion(code=code, says=SAYS[code], expected=value) for code, value in expected.items())


def _findings(facts: Facts) -> tuple[Finding, ...]:
    held = facts.counts.committed or NONE
    findings: list[Finding] = []
    if facts.found_missing:
        says = (
            f"A proof of this recovery did not find {common.plural(facts.found_missing, 'row')} in the table."
        )
        do = "They are added from the input, as far as it yields them."
        findings.append(Finding(MISSING_BY_PROOF, Severity.INFO, says, do))
    if gone := full_refresh.list_gone(facts):
        says = f"{common.plural(len(gone), 'input file')} that the source's log names no longer exist."
        do = "What the table lacks of them cannot be added. Bring them back first if you can."
        findings.append(Finding("INPUT_GONE", Severity.WARNING, says, do, file=gone[0]))
    if held.beyond:
        says = f"{common.plural(held.beyond, 'row')} of the table come from no input that is left; they stay."
        do = "Look whether they are rows that are missing, under other keys."
        severity = Severity.INFO if corrections.is_cut(facts) else Severity.WARNING
        findings.append(Finding("ROWS_OF_NO_INPUT", severity, says, do))
    if facts.new_code.varies != ():
        varies = ", ".join(facts.new_code.varies or ("what is not known",))
        says = f"What the code yields also depends on {varies}: a row may come with other values than it had then."
        do = "Look at what was added; it is compared by its key alone."
        findings.append(Finding("ROWS_MAY_DIFFER", Severity.WARNING, says, do))
    if facts.old_code is None:
        says = "The code of the last good update is not known, so whether today's code wrote the table is not either."
        findings.append(
            Finding("OLD_CODE_NOT_KNOWN", Severity.WARNING, says, "Look at what the code did before.")
        )
    says = "Flow and checkpoint stay as they are: what waits is read by the next update, and a failure stays."
    findings.append(
        Finding("FLOW_STAYS", Severity.INFO, says, "Start the pipeline when the rows are proven.")
    )
    return tuple(findings)
