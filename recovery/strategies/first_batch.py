"""continue, of a flow whose very first batch crashed: nothing was processed, so it begins again where it began.

Neither the old code nor its state is needed, and the batch is cut again. Where the sink has the batch, continue goes on
after it instead (`checkpoints.table_progress`).
"""

from dataclasses import replace

from recovery.checkpoints.report import CheckpointReport, Finding, Severity
from recovery.checkpoints.table_progress import is_first_batch_open, reconcile_report
from recovery.contracts.amounts import Bound, RowAmount
from recovery.contracts.forecast import Forecast
from recovery.contracts.names import StepKind, Strategy
from recovery.contracts.option import Blocker, BlockerCode, Option
from recovery.contracts.steps import PlannedStep, SeedArgs
from recovery.sinks.kinds import PlannedStart
from recovery.sources.base import EmptyStart, SourceFacts
from recovery.strategies import common, mapped, sinks, sources, starts
from recovery.strategies.base import Counts, Facts
from recovery.strategies.positions import positions

BEGINS_AGAIN = "BEGINS_AGAIN"
NOTHING_AGAIN = "Nothing was committed, so nothing is read a second time."


def is_open(facts: Facts) -> bool:
    """Whether batch 0 was planned and is finished neither in the checkpoint nor in the table."""
    return is_first_batch_open(facts.checkpoint)


def count_processed(report: CheckpointReport, counts: Counts) -> Counts:
    """The counts, with no row processed where nothing was: what is before the start of a Kafka source is none."""
    return replace(counts, processed=0) if is_first_batch_open(report) else counts


def judge(facts: Facts, doubled: RowAmount) -> Option:
    """The option, blocked or not. `doubled`: rows that come a second time, as for any seeded reset."""
    rows, before = _new_rows(facts), _rows_before(facts)
    lost = starts.add_passed_over(facts, _lost(facts))
    return Option(
        strategy=Strategy.CONTINUE,
        title="continue",
        summary="Begin again where the flow began: nothing was committed",
        blocker=_block(facts),
        forecast=Forecast(
            lost=lost,
            doubled=doubled,
            reread=sources.nothing(NOTHING_AGAIN),
            new_rows=rows,
            table_after=None if rows is None or before is None else before + rows,
            state="None: no batch was committed",
            seconds=common.seconds(facts, 2, more=1.0),
        ),
        findings=_findings(facts),
        steps=common.steps(
            facts.new_code.files != facts.code.files,
            PlannedStep(
                kind=StepKind.SEED,
                says="Put an empty checkpoint version into place, in which each source begins where it began, with a "
                f"new query id. {common.describe_old(facts)}",
                args=_seed(facts),
            ),
            common.rerun(facts),
        ),
        criteria=common.criteria(
            facts,
            begins=common.expect_first_batch(facts),
            files=("both", common.all_there(facts)),
            before=before,
            rows=common.expect_rows(
                "new", facts.new_code.key, open_batch=sinks.find_open_batch(facts, _start(facts))
            ),
            repeats=common.repeats_of(doubled, facts.new_code),
            new_rows=rows,
        ),
        rollback=common.until_committed(None, common.describe_way_back(facts)),
        code_live="Yes",
        table_meanwhile=common.readable(facts),
        positions=positions(facts, after="start"),
    )


def _seed(facts: Facts) -> SeedArgs:
    return SeedArgs(action="begin", from_version=facts.checkpoint.version, sources=mapped.old_of(facts))


def _start(facts: Facts) -> PlannedStart:
    """Batch 0 of a new query; the sink may hold some of what the crashed one wrote."""
    return sinks.start(
        facts, reconcile_report(facts.checkpoint), sources.nothing(NOTHING_AGAIN), query_id_kept=False
    )


def _block(facts: Facts) -> Blocker | None:
    reason = common.any_block(facts) or common.unread_code(facts) or _start_chosen(facts)
    if reason:
        return reason
    failing = next((begun.why for begun in _begun(facts) if begun.fails), None)
    if failing is not None:
        return Blocker(code=BlockerCode.READER_FAILS, says=failing)
    # where one keeps its start, it has to be known which goes on as which
    if any(s.first_json is not None for s in facts.checkpoint.sources):
        reason = mapped.block(facts) or sources.block(facts)
    return reason or sinks.block(facts, _start(facts))


def _start_chosen(facts: Facts) -> Blocker | None:
    chosen = [s for s in facts.sources if starts.is_moved(s)]
    if not chosen:
        return None
    return Blocker(
        code=BlockerCode.START_NOT_TAKEN,
        says="No batch was ever committed, so each source begins where the flow began: no other start can be chosen. "
        "Say it in the options of the reader, in the code.",
    )


def _keeps_start(facts: Facts, source: SourceFacts, old: int | None) -> bool:
    """Whether the checkpoint holds where this source began, so that it begins there again."""
    held = next((s for s in facts.checkpoint.sources if s.index == old), None)
    return held is not None and held.first_json is not None and source.position.offset_json == held.first_json


def _begun(facts: Facts) -> list[EmptyStart]:
    """Where those sources begin that the checkpoint does not say it of: where their readers' options say."""
    triples = zip(facts.sources, sources.anew(facts), mapped.old_of(facts), strict=True)
    return [begun for source, begun, old in triples if not _keeps_start(facts, source, old)]


def _lost(facts: Facts) -> RowAmount:
    """Input that an update would have read and that this one cannot."""
    if gone := sources.gone_unread(facts):
        why = f"{common.plural(len(gone), 'planned file')} {'is' if len(gone) == 1 else 'are'} gone."
        return RowAmount(rows=None, bound=Bound.UNKNOWN, why=why, files=len(gone))
    if _has_files_without_log(facts):
        why = (
            "The table has files and no log of batches. Readers no longer see them once batch 0 is committed: rows of "
            "the crashed attempt, which come again, or of something else."
        )
        rows = facts.counts.table
        return RowAmount(rows=rows, bound=Bound.UNKNOWN if rows is None else Bound.AT_MOST, why=why)
    if unsure := [begun.why for begun in _begun(facts) if not (begun.again and begun.whole)]:
        return RowAmount(rows=None, bound=Bound.UNKNOWN, why=" ".join(dict.fromkeys(unsure)))
    return sources.kept(
        facts, f"Nothing was committed; every {sources.unit(facts)} is read from the beginning."
    )


def _is_new_file_table(facts: Facts) -> bool:
    return facts.sink.kind == "files" and facts.sink.head is None


def _rows_before(facts: Facts) -> int | None:
    """Rows that stay in the table. A file table has those that its log names, and it names none yet."""
    return 0 if _is_new_file_table(facts) else facts.counts.table


def _has_files_without_log(facts: Facts) -> bool:
    """Whether readers of a file table see rows now that no log names."""
    seen = any(f.code == "SINK_WITHOUT_LOG" for f in facts.checkpoint.findings)
    return _is_new_file_table(facts) and (seen or bool(facts.counts.table))


def _new_rows(facts: Facts) -> int | None:
    """Rows that the code writes of all there is, from empty state; None: not counted."""
    code, counts = facts.new_code, facts.counts
    if common.files_of(facts, "ignored"):  # an empty checkpoint takes them too
        return counts.everything if not code.operators else None
    counted = not code.operators or code.operators == ("dedupe",) or counts.rehearsed
    return counts.waiting if counted else None


def _findings(facts: Facts) -> tuple[Finding, ...]:
    begins = Finding(
        BEGINS_AGAIN,
        Severity.INFO,
        "Batch 0, the first of all, was not finished: nothing is committed, so no position and no state is lost.",
        "Nothing to do: the flow begins again where it began, and the batch is cut anew.",
    )
    return (
        begins,
        *facts.sink.findings,
        *sinks.findings(facts, _start(facts)),
        *sources.findings(facts, anew=True),
    )
