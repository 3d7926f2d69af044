"""deduplicate: rows that the table has more often than the code yields them are deleted, once. Pure.

What is expected is what the code of now yields over all input that the checkpoint has committed. Of a key that the
table has too often, as many rows stay as the code yields. Which ones does not matter where all of them are equal in
every column, so nothing is deleted that is not there once more; where they differ, a person has to say which is right.
Rows of keys that no input yields stay.
"""

from typing import Final

from recovery.checkpoints.report import Finding, Severity
from recovery.contracts.amounts import Bound, RowAmount
from recovery.contracts.criteria import Criterion
from recovery.contracts.criterion_values import (
    ExpectedCheckpoint,
    ExpectedCounts,
    ExpectedDeleted,
    ExpectedInput,
    ExpectedOthers,
    ExpectedValue,
)
from recovery.contracts.forecast import Forecast
from recovery.contracts.names import StepKind, Strategy
from recovery.contracts.option import Blocker, BlockerCode, Option
from recovery.contracts.steps import DeduplicateArgs, PlannedStep
from recovery.strategies import common, corrections, sources
from recovery.strategies.base import CommittedRows, Facts
from recovery.strategies.corrections import UnmetRequirement
from recovery.strategies.positions import positions
from recovery.strategies.top_up import CHECKPOINT_UNTOUCHED, HAS_EVERY_ROW
from recovery.strategies.top_up import SAYS as OF_TOP_UP

ONLY_REPEATS_DELETED: Final = "ONLY_REPEATS_DELETED"
REPEATED_BY_PROOF: Final = "ROWS_REPEATED_BY_PROOF"
"""The finding of an option that deletes rows which a proof found there too often."""
SAYS: Final = {
    ONLY_REPEATS_DELETED: "Only rows that repeat another were deleted: each is equal in every column to one that "
    "stays, and no row came.",
    HAS_EVERY_ROW: OF_TOP_UP[HAS_EVERY_ROW],
    "COUNTS_EQUAL_FORECAST": common.WORDS["COUNTS_EQUAL_FORECAST"],
    CHECKPOINT_UNTOUCHED: OF_TOP_UP[CHECKPOINT_UNTOUCHED],
    "NOTHING_ELSE_CHANGED": common.WORDS["NOTHING_ELSE_CHANGED"],
}
BACK: Final = (
    "Until something else writes the table, the next batch of the flow too: it goes back to the version before the "
    "rows were deleted, while Delta has its files."
)
NONE: Final = CommittedRows()

CODES: Final = corrections.CorrectionCodes(
    BlockerCode.DEDUPLICATE_INPUT_UNKNOWN, BlockerCode.DEDUPLICATE_COLUMNS
)
UNMET: Final[corrections.Words] = {
    UnmetRequirement.OF_PROGRAM: (
        BlockerCode.DEDUPLICATE_OF_PROGRAM,
        "Repeats in the table of a plain program are not deleted here yet. Delete them by hand.",
    ),
    UnmetRequirement.NO_OWN_DELTA_TABLE: (
        BlockerCode.DEDUPLICATE_OF_TABLE,
        "{dataset} is no Delta table that the flow writes by itself, so single rows cannot be deleted from it. Choose "
        "full-refresh.",
    ),
    UnmetRequirement.SHARED_TABLE: (
        BlockerCode.DEDUPLICATE_SHARED_TABLE,
        "{writers} writes the same table, so a row that seems to repeat may be another flow's. Delete the repeats by "
        "hand.",
    ),
    UnmetRequirement.BATCH_UNSETTLED: (
        BlockerCode.BATCH_UNSETTLED,
        "Batch {batch} is in the table, and the checkpoint has not committed it: its rows would count as repeats. "
        "Choose revert, which settles it, then deduplicate.",
    ),
    UnmetRequirement.OTHER_CODE: (
        BlockerCode.DEDUPLICATE_OTHER_CODE,
        "The code is not the one that wrote the table, so it may yield a row less often than was due. Keep the code "
        "as it is (--keep-code); where it was changed since the last good update, choose continue first, then "
        "deduplicate.",
    ),
    UnmetRequirement.OF_GROUPS: (
        BlockerCode.DEDUPLICATE_OF_GROUPS,
        "Rows are made of several rows of the input ({steps}), so how often each is due cannot be computed by itself. "
        "Choose full-refresh, or reread.",
    ),
    UnmetRequirement.NO_KEY: (
        BlockerCode.DEDUPLICATE_NO_KEY,
        "No key is known by which a row repeats another. Name the key (--key).",
    ),
    UnmetRequirement.INPUT_SKIPPED: (
        BlockerCode.DEDUPLICATE_INPUT_UNKNOWN,
        "An earlier recovery let a source begin elsewhere, so how often each row is due is not known. Delete the "
        "repeats by hand, or choose full-refresh.",
    ),
    UnmetRequirement.START_UNKNOWN: (
        BlockerCode.DEDUPLICATE_INPUT_UNKNOWN,
        "{source}: where the flow began to read is not known, nor how often each row is due. {why} Delete the repeats "
        "by hand.",
    ),
    UnmetRequirement.READ_AGAIN: (
        BlockerCode.DEDUPLICATE_READ_AGAIN,
        "{twice} Their rows would repeat once more. Run the flow first (continue), then deduplicate.",
    ),
    UnmetRequirement.UNCOUNTED: (
        BlockerCode.DEDUPLICATE_UNCOUNTED,
        "What the code yields over the committed input could not be compared by key ({key}) with the table, so which "
        "rows repeat is not known. Raise the limits for this flow, or choose full-refresh.",
    ),
    UnmetRequirement.COLLATION: (
        BlockerCode.DEDUPLICATE_COLLATION,
        "{collated} compares texts by a collation, by which repeats cannot be found. Name another key (--key), or "
        "choose full-refresh.",
    ),
}


def judge(facts: Facts) -> Option:
    """The option, blocked or not, with the rows that it deletes."""
    held, table = facts.counts.committed, facts.counts.table
    deleted = None if held is None else held.extra
    after = None if table is None or deleted is None else table - deleted
    return Option(
        strategy=Strategy.DEDUPLICATE,
        title="deduplicate",
        summary="Delete the rows that the table has too often, once",
        blocker=find_blocker(facts),
        forecast=Forecast(
            lost=_lost(facts),
            doubled=_doubled(facts),
            reread=corrections.forecast_reread(
                facts, "to find the rows that repeat; the flow itself reads nothing again."
            ),
            new_rows=0,
            table_after=after,
            state="Stays as it is",
            seconds=common.seconds(facts, 1),
        ),
        findings=_findings(facts),
        steps=_steps(facts, deleted),
        criteria=_criteria(facts, after),
        rollback=BACK,
        code_live="Unchanged",
        table_meanwhile=common.readable(facts),
        positions=positions(facts, after="same"),
    )


def find_blocker(facts: Facts) -> Blocker | None:
    """Why deduplicate cannot run here; None when it can."""
    return (
        corrections.block(facts, Strategy.DEDUPLICATE, UNMET, CODES)
        or _judge_whole(facts)
        or _judge_rows(facts)
    )


def _judge_whole(facts: Facts) -> Blocker | None:
    """Of input that is gone nothing is due, so its rows would count as repeats."""
    if not corrections.is_cut(facts):
        return None
    says = (
        "Not all committed input can be read: a row that seems to repeat may come from what is gone. Bring that back, "
        "or delete the repeats by hand."
    )
    return Blocker(code=BlockerCode.DEDUPLICATE_INPUT_GONE, says=says)


def _judge_rows(facts: Facts) -> Blocker | None:
    """Why the key does not tell which rows repeat others, or which of them stay."""
    held, key = facts.counts.committed or NONE, ", ".join(facts.new_code.key)
    if not held.extra:
        return Blocker(
            code=BlockerCode.NOTHING_REPEATED, says="The table has no row more often than the code yields it."
        )
    if held.unsettled is None:
        says = (
            f"The rows are identified by {key}, and what dropDuplicates lets through is changed after it or goes by "
            "other columns, so how often each row is due is not known. Use the key of the code, or choose full-refresh."
        )
        return Blocker(code=BlockerCode.DEDUPLICATE_FIRST_NOT_KNOWN, says=says)
    if held.short:
        says = (
            f"The table has {common.plural(held.short, 'row')} of its keys ({key}) fewer than the code yields, so the "
            "key does not identify single rows. Name a key that each row has alone (--key)."
        )
        return Blocker(code=BlockerCode.DEDUPLICATE_KEY_REPEATS, says=says)
    if held.differing is None:
        says = (
            f"The rows of a key ({key}) that the table has too often could not be compared in every column, so whether "
            "they are equal is not known. Delete the repeats by hand, or choose full-refresh."
        )
        return Blocker(code=BlockerCode.DEDUPLICATE_UNCOUNTED, says=says)
    if held.differing:
        says = (
            f"Of {common.plural(held.differing, 'key')} ({key}) that the table has too often, the rows differ in other "
            "columns; which of them are right, nothing here shows. Delete the wrong ones by hand, or name a key that "
            "each row has alone (--key)."
        )
        return Blocker(code=BlockerCode.DEDUPLICATE_ROWS_DIFFER, says=says)
    return None


def _lost(facts: Facts) -> RowAmount:
    if facts.counts.committed is None or corrections.is_cut(facts):
        return RowAmount(rows=None, bound=Bound.UNKNOWN, why="Which rows repeat others is not known.")
    return sources.nothing("Each row that is deleted is equal in every column to one that stays.")


def _doubled(facts: Facts) -> RowAmount:
    if facts.counts.committed is None or corrections.is_cut(facts):
        return RowAmount(rows=None, bound=Bound.UNKNOWN, why="Which rows repeat others is not known.")
    return sources.nothing("Each key of the input is then in the table as often as the code yields it.")


def _steps(facts: Facts, deleted: int | None) -> tuple[PlannedStep, ...]:
    rows = "the repeats" if deleted is None else common.plural(deleted, "repeated row")
    delete = PlannedStep(
        kind=StepKind.DEDUPLICATE,
        says=f"Read the committed input once more, and delete {rows} of {facts.dataset} in one commit.",
        args=DeduplicateArgs(rows=deleted or 0),
    )
    return common.steps(False, delete)


def _criteria(facts: Facts, after: int | None) -> tuple[Criterion, ...]:
    held, report = facts.counts.committed or NONE, facts.checkpoint
    expected: dict[str, ExpectedValue] = {
        ONLY_REPEATS_DELETED: ExpectedDeleted(rows=held.extra, before=facts.counts.table),
        HAS_EVERY_ROW: ExpectedInput(key=tuple(facts.new_code.key), rows=held.rows, whole=True),
        **({} if after is None else {"COUNTS_EQUAL_FORECAST": ExpectedCounts(table_after=after)}),
        CHECKPOINT_UNTOUCHED: ExpectedCheckpoint(
            fingerprint=report.fingerprint, last_committed=report.last_committed
        ),
        "NOTHING_ELSE_CHANGED": ExpectedOthers(),
    }
    return tuple(Criterion(code=code, says=SAYS[code], expected=value) for code, value in expected.items())


def _findings(facts: Facts) -> tuple[Finding, ...]:
    held = facts.counts.committed or NONE
    findings: list[Finding] = []
    if facts.found_repeated:
        says = f"A proof of this recovery found {common.plural(facts.found_repeated, 'row')} there too often."
        do = "Those that are equal to another in every column are deleted."
        findings.append(Finding(REPEATED_BY_PROOF, Severity.INFO, says, do))
    if held.absent:
        says = f"The table also lacks {common.plural(held.absent, 'row')} of the input, so the proof will not hold yet."
        do = "Add them by a further plan of the same recovery (top-up)."
        findings.append(Finding("ROWS_STILL_MISSING", Severity.WARNING, says, do))
    if held.beyond:
        says = f"{common.plural(held.beyond, 'row')} of the table come from no input; they stay."
        do = "Look who wrote them, and whether they repeat others under other keys."
        findings.append(Finding("ROWS_OF_NO_INPUT", Severity.WARNING, says, do))
    if facts.old_code is None:
        says = "The code of the last good update is not known, so whether today's code wrote the table is not either."
        do = "Look at what the code did before."
        findings.append(Finding("OLD_CODE_NOT_KNOWN", Severity.WARNING, says, do))
    says = (
        "A stream that reads this table from Delta fails at the commit that deletes rows, unless it skips it "
        "(skipChangeCommits). It has read the repeats already, and keeps them."
    )
    do = "Refresh such readers in full, or let them skip the commit; those outside of the workspace are not known."
    findings.append(Finding("STREAM_READERS_FAIL", Severity.WARNING, says, do))
    says = "Flow and checkpoint stay as they are: what waits is read by the next update, and a failure stays."
    findings.append(
        Finding("FLOW_STAYS", Severity.INFO, says, "Start the pipeline when the rows are proven.")
    )
    return tuple(findings)
