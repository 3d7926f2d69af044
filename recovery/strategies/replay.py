"""replay: table and reading go back to an earlier batch, and what came after it is read again.

For rows that are wrong: bad input that was repaired, a late fix, a bad deploy. The facts of a replay are those of after
the batch (`workflow.going_back`): what waits is all input after it. The table is put back first, so no row comes twice.
"""

from recovery.checkpoints.report import Finding, Severity
from recovery.contracts.amounts import Bound, RowAmount
from recovery.contracts.forecast import Forecast
from recovery.contracts.names import StepKind, Strategy
from recovery.contracts.option import Blocker, BlockerCode, Option
from recovery.contracts.steps import PlannedStep, RestoreArgs, SeedArgs
from recovery.sinks.earlier import EarlierTable
from recovery.strategies import common, mapped, sinks, sources, state_rows
from recovery.strategies.base import Facts, ReplayFacts
from recovery.strategies.positions import positions

NOWHERE = ReplayFacts(
    problem=Blocker(
        code=BlockerCode.TARGET_NEEDED,
        says="Say what it goes back to: a time, a version of the table or a batch.",
    )
)


def judge(facts: Facts) -> Option:
    """The option, blocked or not, with this flow's own numbers."""
    back, new_rows = facts.back or NOWHERE, facts.counts.waiting
    table = back.table
    kept = table.kept_rows if table else None
    forecast = Forecast(
        lost=_lost(facts, back),
        doubled=_doubled(facts, back),
        reread=RowAmount(
            rows=back.reread_rows, bound=Bound.EXACT, files=len(back.reread_files), why=_reread_why(back)
        ),
        new_rows=new_rows,
        table_after=None if kept is None or new_rows is None else kept + new_rows,
        state=_state(back),
        seconds=common.seconds(facts, 2, more=5.0),
    )
    return Option(
        strategy=Strategy.REPLAY,
        title="replay",
        summary="Go back to an earlier batch, read again from there",
        blocker=blocked(facts),
        forecast=forecast,
        findings=_findings(facts, back),
        steps=_steps(facts, back),
        criteria=common.criteria(
            facts,
            begins=common.expect_batch_after(back.batch, [s.offset_json for s in facts.checkpoint.sources]),
            files=("same", common.all_files(facts)),
            before=kept,
            rows=common.expect_rows("new", facts.new_code.key),
            repeats=common.repeats_of(forecast.doubled, facts.new_code),
            new_rows=new_rows,
        ),
        rollback=common.until_committed(
            back.batch, "the table is put back to what it holds now, and the old checkpoint is in use again."
        ),
        code_live="Yes",
        table_meanwhile="Readable, without the rows of the later batches",
        positions=positions(facts, after="same"),
        mapping=mapped.as_dict(facts),
    )


def blocked(facts: Facts) -> Blocker | None:
    """Why replay cannot run here; None when it can."""
    back = facts.back or NOWHERE
    reason = common.any_block(facts) or _of_program(facts) or sink_block(facts) or back.problem
    reason = reason or common.unread_code(facts)
    if reason:
        return reason
    if common.has_blocker(facts.checkpoint.findings):
        return common.damaged(facts)
    return (
        mapped.find_mismatch(facts, facts.checkpoint.sources, "Spark would refuse the checkpoint of then.")
        or _reordered(facts)
        or _gone(back)
        or sources.block(facts)
        or _stateful(facts)
    )


def _of_program(facts: Facts) -> Blocker | None:
    if not facts.is_plain:
        return None
    way = "reread" if facts.new_code.operators else "continue with another start position"
    says = f"Reprise does not put back the table of a plain program. To read rows again, choose {way}."
    return Blocker(code=BlockerCode.REPLAY_OF_PROGRAM, says=says)


def sink_block(facts: Facts) -> Blocker | None:
    """Why what the flow writes to cannot be put back; None when it can."""
    sink = facts.sink
    if sink.kind in ("files", "delta") and not sink.declared and not sink.by_function:
        return None
    return Blocker(
        code=BlockerCode.SINK_NOT_PUT_BACK,
        says=f"Rows that were written to {facts.dataset} cannot be taken back here, so what is read again would come "
        "twice. To read again all the same, choose continue with a start position and accept the repeats.",
    )


def _reordered(facts: Facts) -> Blocker | None:
    """The checkpoint of then is taken as it is, so its sources have to be those of the code, in their order."""
    if mapped.one_to_one(facts):
        return None
    says = "The code reads its sources in another order than the checkpoint; a replay takes the checkpoint as it is."
    return Blocker(code=BlockerCode.SOURCES_DIFFER, says=says)


def _gone(back: ReplayFacts) -> Blocker | None:
    """Input that is read again has to be there: else the rows of the removed batches would not come back."""
    if not back.gone:
        return None
    says = (
        f"{common.plural(len(back.gone), 'file')} that a later batch read {'is' if len(back.gone) == 1 else 'are'} "
        f"gone, such as {common.name_of(back.gone[0])}: rows would leave the table and not come back. Put the input "
        "back, or choose a later batch."
    )
    return Blocker(code=BlockerCode.INPUT_GONE, says=says)


def _stateful(facts: Facts) -> Blocker | None:
    """State of the batch would have to go back too. Spark keeps it only for a while: after five updates of a
    dropDuplicates its files were no longer whole."""
    if not facts.new_code.operators:
        return None
    return Blocker(
        code=BlockerCode.CODE_KEEPS_STATE,
        says=f"The code has {common.names(facts.new_code.operators)}, and its state of an earlier batch is not put "
        f"back in this version. To read everything again, {sources.say_all_again(facts)}.",
    )


def _steps(facts: Facts, back: ReplayFacts) -> tuple[PlannedStep, ...]:
    table = back.table or EarlierTable("files", back.batch or 0, 0, 0)
    restore = RestoreArgs(
        kind="delta" if table.kind == "delta" else "files",
        batch=table.batch,
        version=table.version,
        sealed_version=table.now_version,
        removed_batches=table.removed_batches,
        removed_files=table.removed_files,
        removed_rows=table.removed_rows,
        kept_rows=table.kept_rows,
    )
    seed = SeedArgs(
        action="go-back",
        last_committed=back.batch,
        from_version=facts.checkpoint.version,
        offsets=tuple(s.offset_json for s in facts.checkpoint.sources),
    )
    return common.steps(
        facts.new_code.files != facts.code.files,
        PlannedStep(
            kind=StepKind.RESTORE,
            says=f"Put {facts.dataset} back to what it held after batch {back.batch}: {_removed(table)} leave it.",
            args=restore,
        ),
        PlannedStep(
            kind=StepKind.SEED,
            says=f"Seed the next checkpoint version from batch {back.batch}, without state, new query id. The old "
            "version stays untouched.",
            args=seed,
        ),
        common.rerun(facts),
    )


def _removed(table: EarlierTable) -> str:
    rows = table.removed_rows
    batches = f"{table.removed_batches} {'batch' if table.removed_batches == 1 else 'batches'}"
    return f"{'rows' if rows is None else common.plural(rows, 'row')} of {batches}"


def _lost(facts: Facts, back: ReplayFacts) -> RowAmount:
    """Rows that leave the table and do not come back, and input that no one reads."""
    removed = back.table.removed_rows if back.table else None
    if held := [o.name for o in back.operators if o.name not in state_rows.WRITTEN_AT_ONCE]:
        why = (
            f"The state of {common.names(held)} at batch {back.batch} is not put back: rows that it held then, and no "
            "table had yet, are made of input that is not read again."
        )
        return RowAmount(rows=None, bound=Bound.UNKNOWN, why=why)
    if uncertain := sources.uncertain(facts):
        why = f"Whether all input after batch {back.batch} can still be read is not known (source "
        return RowAmount(rows=None, bound=Bound.UNKNOWN, why=f"{why}{uncertain[0].position.source}).")
    if back.changed:
        why = "Input that the later batches read was written again since: which of its rows are gone is not known."
        return RowAmount(rows=None, bound=Bound.UNKNOWN, why=why)
    again = back.reread_rows
    if removed is None or again is None:
        why = "What leaves the table and what the code yields over the same input were not both counted."
        return RowAmount(rows=None, bound=Bound.UNKNOWN, why=why)
    if again < removed:
        why = (
            f"{common.plural(removed, 'row')} leave the table; the code writes {again:,} of the same input as it is "
            "now."
        )
        return RowAmount(rows=removed - again, bound=Bound.EXACT, why=why)
    return sources.nothing(f"All input after batch {back.batch} can still be read.")


def _doubled(facts: Facts, back: ReplayFacts) -> RowAmount:
    """None by reading again, for the rows of the later batches leave the table first. Where a key is known by which the
    code drops no repeats, or a dropDuplicates goes, those of the input were not counted."""
    why = "The rows of the later batches leave the table before their input is read again."
    drops = facts.drops_dedupe or any(o.name in state_rows.DEDUPES for o in back.operators)
    if drops or (facts.new_code.key and sinks.is_table(facts)):
        return RowAmount(
            rows=0, bound=Bound.AT_LEAST, why=f"{why} Whether the input repeats a key was not counted."
        )
    return RowAmount(rows=0, bound=Bound.EXACT, why=why)


def _reread_why(back: ReplayFacts) -> str:
    if back.batch is None or back.committed is None:
        return "What is read again is not known before a batch is chosen."
    return f"What batches {back.batch + 1} to {back.committed} read, as the code yields it now."


def _state(back: ReplayFacts) -> str:
    return f"Dropped: {common.names([o.name for o in back.operators])}" if back.operators else "None to drop"


def _findings(facts: Facts, back: ReplayFacts) -> tuple[Finding, ...]:
    table, found = back.table, [*sources.findings(facts)]
    if table is None:
        return tuple(found)
    rows = _removed(table)
    found.append(
        Finding(
            "ROWS_LEAVE_TABLE",
            Severity.WARNING,
            f"{rows} leave {facts.dataset} before their input is read again; readers see that.",
            "Warn its readers. Until a new batch is committed, a rollback brings the rows back.",
        )
    )
    if table.kind == "files":
        found.append(
            Finding(
                "REMOVED_FILES_STAY",
                Severity.INFO,
                f"{common.plural(table.removed_files, 'data file')} of these batches stay in the table's folder, and "
                "the table's log no longer names them.",
                "Readers that list the folder instead of the log (not Spark) still see them.",
            )
        )
    else:
        found.append(
            Finding(
                "HISTORY_KEPT",
                Severity.INFO,
                f"The table goes back to version {table.version} as a new version; its history stays.",
                "Run VACUUM no earlier than when this recovery has ended: a rollback needs the files.",
            )
        )
    return tuple(found)
