"""backfill: keep a copy of the table, refresh it in full, fill back the rows that no input holds any more. Pure.

A row is filled back where its key is one that the new code does not yield over all input that is left. So each row of
the table must have a key of its own, its columns must be those of the code, and what the code leaves out on purpose
must not come back as a row whose input is gone.
"""

from typing import Final

from recovery.checkpoints.report import Finding, Severity
from recovery.contracts import codec
from recovery.contracts.amounts import Bound, RowAmount
from recovery.contracts.criteria import Criterion
from recovery.contracts.criterion_values import ExpectedFill, ExpectedGrowth, ExpectedRows
from recovery.contracts.forecast import Forecast
from recovery.contracts.names import StepKind, Strategy
from recovery.contracts.option import Blocker, BlockerCode, Option
from recovery.contracts.steps import PlannedStep
from recovery.sinks import delta
from recovery.strategies import common, full_refresh, sources, starts
from recovery.strategies.base import Facts
from recovery.strategies.positions import positions

FILLED: Final = "FILLED_ROWS_AS_BEFORE"
SAYS_FILLED: Final = "The rows that were filled back are in the table once each, as the backup has them."
SAYS: Final = {
    "TABLE_GREW_BY_NEW_BATCHES": "The table holds the rows of the new batches and those filled back, and no others.",
    "EVERY_ROW_ONCE": "Every row that the code yields, and every row that was filled back, is in the table once.",
}
BY_ROW: Final = ("dedupe",)
"""Steps with state whose rows are those of the input, one by one."""
BACK: Final = (
    "Until something else writes the table: it goes back to the version before the refresh, while Delta has its files; "
    "code and checkpoint go back with it."
)


def judge(facts: Facts) -> Option:
    """The option, blocked or not, with the rows that come from the input and those that come from the backup."""
    after = _table_after(facts)
    return Option(
        strategy=Strategy.BACKFILL,
        title="backfill",
        summary="Back the table up, refresh it, fill back what no input holds",
        blocker=blocked(facts),
        forecast=Forecast(
            lost=_lost(facts),
            doubled=_doubled(facts),
            reread=full_refresh.forecast_reread(facts),
            new_rows=after,
            table_after=after,
            state=common.state_dropped(facts),
            seconds=common.seconds(facts, 4),
        ),
        findings=_findings(facts),
        steps=_steps(facts),
        criteria=_criteria(facts, after),
        rollback=BACK,
        code_live="Yes",
        table_meanwhile="Empty, then without the filled rows, until the fill ends",
        positions=positions(facts, after="start"),
    )


def blocked(facts: Facts) -> Blocker | None:
    """Why backfill cannot run here; None when it can."""
    return full_refresh.blocked(facts) or _by_table(facts) or _by_code(facts) or _by_rows(facts)


def _by_table(facts: Facts) -> Blocker | None:
    if facts.sink.kind != delta.KIND or facts.sink.declared:
        says = (
            f"{facts.dataset} is no Delta table. Readers of a file table see only files that the stream's own log "
            "names, and a topic is not emptied: rows cannot be filled back exactly once. Choose full-refresh."
        )
        return Blocker(code=BlockerCode.BACKFILL_OF_TABLE, says=says)
    if not facts.scratch:
        says = "There is no folder that Spark and Reprise both reach, for the backup. Choose full-refresh."
        return Blocker(code=BlockerCode.NO_SCRATCH_PLACE, says=says)
    if facts.unfilled:
        says = (
            f"{facts.unfilled} has emptied this table and filled nothing back: its backup has the rows, and the table "
            "does not. Resume it or roll it back first."
        )
        return Blocker(code=BlockerCode.BACKFILL_UNFILLED, says=says)
    if passed_over := full_refresh.explain_not_again(facts):
        says = f"{passed_over} A refresh would skip what waits. Choose continue."
        return Blocker(code=BlockerCode.BACKFILL_PASSES_OVER, says=says)
    return None


def _by_code(facts: Facts) -> Blocker | None:
    made = [o for o in facts.new_code.operators or () if o not in BY_ROW]
    if made or full_refresh.has_rows_of_another_kind(facts):
        what = common.names(made) if made else "what the old code had"
        says = (
            f"Rows are made of several rows of the input ({what}). A row whose input is gone in part would be computed "
            "from the rest, and be wrong, under the key of the whole one. Choose full-refresh, or copy the table "
            "by hand."
        )
        return Blocker(code=BlockerCode.BACKFILL_OF_GROUPS, says=says)
    if not facts.new_code.key:
        says = (
            "No key is known, so a row that the new code computes with another value would be there twice. Name the "
            "key (--key)."
        )
        return Blocker(code=BlockerCode.BACKFILL_NO_KEY, says=says)
    return None


def _by_rows(facts: Facts) -> Blocker | None:
    counts = facts.counts
    key = ", ".join(facts.new_code.key)
    if counts.beyond is None or counts.table is None or counts.table_keys is None:
        says = (
            f"The rows of the table could not be compared by key ({key}) with all input that is left, so which of them "
            "would be filled back is not known. Raise the limits for this flow, or choose full-refresh."
        )
        return Blocker(code=BlockerCode.BACKFILL_UNCOUNTED, says=says)
    if counts.table_keys != counts.table:
        says = (
            f"{common.plural(counts.table - counts.table_keys, 'row')} of the table repeat a key ({key}), so which "
            "one to fill back is not known. Name a key that each row has alone (--key)."
        )
        return Blocker(code=BlockerCode.BACKFILL_KEY_REPEATS, says=says)
    if counts.unfit:
        says = (
            f"The rows of the table do not fit what the new code yields: {', '.join(counts.unfit)} is missing on one "
            "side, or has another type. Keep these columns in the code, or choose full-refresh."
        )
        return Blocker(code=BlockerCode.BACKFILL_COLUMNS, says=says)
    if left_out := _left_out(facts):
        says = (
            f"The new code leaves out {common.plural(left_out, 'row')} of input that is still there; they would be "
            "filled back as if their input were gone. Choose full-refresh, or keep them in the code."
        )
        return Blocker(code=BlockerCode.BACKFILL_LEFT_OUT, says=says)
    return None


def _is_other_code(facts: Facts) -> bool:
    return facts.old_code is None or dict(facts.old_code.files) != dict(facts.new_code.files)


def _left_out(facts: Facts) -> int:
    """Rows of the table that the old code yields over what was read and is left, and the new code does not; by their
    numbers. 0 also where the old code's are not known."""
    old = facts.old_counts.beyond if facts.old_counts else None
    if old is None or facts.counts.beyond is None or not _is_other_code(facts):
        return 0
    return max(0, facts.counts.beyond - old)


def _table_after(facts: Facts) -> int | None:
    everything, beyond = facts.counts.everything, facts.counts.beyond
    return None if everything is None or beyond is None else everything + beyond


def _lost(facts: Facts) -> RowAmount:
    if taken := sources.taken(facts):
        unread = full_refresh.count_never_read(facts)
        return RowAmount(
            rows=unread, bound=Bound.ESTIMATE if unread is not None else Bound.UNKNOWN, why=taken.why
        )
    if facts.counts.beyond is None:
        why = "Which rows of the table would be filled back was not counted."
        return RowAmount(rows=None, bound=Bound.UNKNOWN, why=why)
    if "dedupe" in {*(facts.new_code.operators or ()), *(o.name for o in facts.checkpoint.state_operators)}:
        why = (
            "Each key of the table is computed again or filled back. Where the input of a key's first row is gone and "
            "a repeat of it is left, the repeat takes its place."
        )
        return sources.nothing(why)  # which of its repeats a dropDuplicates keeps is open by its own rule
    return sources.nothing("Each row of the table is computed again or filled back.")


def _doubled(facts: Facts) -> RowAmount:
    repeats = facts.counts.repeats_everything
    if repeats is None:
        why = "Rows of the input that repeat a key were not counted."
        return RowAmount(rows=None, bound=Bound.UNKNOWN, why=why)
    if not repeats:
        return sources.nothing(
            "The table is emptied first, and only rows whose key it lacks are filled back."
        )
    key = ", ".join(facts.new_code.key)
    says = (
        f"{common.plural(repeats, 'row')} of all that is read repeat a key ({key}), and the code keeps them."
    )
    return RowAmount(rows=repeats, bound=Bound.EXACT, why=says)


def _steps(facts: Facts) -> tuple[PlannedStep, ...]:
    """As a full refresh, with the copy before anything is changed, and the fill right after the update."""
    planned = common.steps(facts.new_code.files != facts.code.files, common.rerun_anew(facts))
    beyond = facts.counts.beyond
    keep = PlannedStep(
        kind=StepKind.TABLE_BACKUP,
        says=f"Copy {facts.dataset} into a folder next to its storage; count and compare the copy.",
    )
    rows = "the rows" if beyond is None else common.plural(beyond, "row")
    fill = PlannedStep(
        kind=StepKind.FILL,
        says=f"Fill back {rows} of the backup whose key {facts.dataset} then lacks, in one commit.",
    )
    found: list[PlannedStep] = []
    for step in planned:
        found += (
            [keep, step] if step.kind in (StepKind.PATCH, StepKind.RERUN) and keep not in found else [step]
        )
        found += [fill] if step.kind is StepKind.RERUN else []
    return tuple(found)


def _criteria(facts: Facts, after: int | None) -> tuple[Criterion, ...]:
    """As of a full refresh, where the rows that were filled back are expected too."""
    code = facts.new_code
    criteria = common.criteria(
        facts,
        begins=common.expect_first_batch(facts),
        files=("new", common.all_there(facts)),
        before=0,
        rows=common.expect_rows("all", code.key),
        repeats=common.repeats_of(_doubled(facts), code),
        new_rows=after,
    )
    filled = Criterion(code=FILLED, says=SAYS_FILLED, expected=ExpectedFill(key=code.key))
    return (*(_with_filled(c) for c in criteria), filled)


def _with_filled(criterion: Criterion) -> Criterion:
    expected = criterion.expected
    if not isinstance(expected, ExpectedGrowth | ExpectedRows):
        return criterion
    return Criterion(
        code=criterion.code, says=SAYS[criterion.code], expected=codec.change(expected, filled=True)
    )


def _findings(facts: Facts) -> tuple[Finding, ...]:
    findings = [*starts.not_taken(facts), *sources.findings(facts, anew=True)]
    if gone := (*full_refresh.list_gone(facts), *sources.gone_unread(facts)):
        says = f"{common.plural(len(gone), 'input file')} that the source's log names no longer exist."
        do = "Their rows are filled back from the backup, as they are in the table now."
        findings.append(Finding("INPUT_GONE", Severity.INFO, says, do, file=gone[0]))
    says = f"{facts.dataset} is empty, fills again during the update, and gets the rest back after it; readers see it."
    findings.append(Finding("TABLE_EMPTIED", Severity.WARNING, says, "Warn its readers, or choose continue."))
    if facts.counts.beyond:
        says = (
            f"{common.plural(facts.counts.beyond, 'row')} stay as the old code wrote them: no input that is left "
            "yields their keys."
        )
        findings.append(
            Finding("OLDER_ROWS_STAY", Severity.INFO, says, "Rows of the input are computed by the new code.")
        )
    if (
        _is_other_code(facts)
        and facts.counts.beyond
        and (not facts.old_counts or facts.old_counts.beyond is None)
    ):
        says = "The rows of the old code could not be compared, so a row that the new code leaves out may come back."
        do = "If the new code leaves rows out on purpose, choose full-refresh."
        findings.append(Finding("LEFT_OUT_NOT_KNOWN", Severity.WARNING, says, do))
    return tuple(findings)
