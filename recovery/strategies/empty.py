"""empty: a plain reset to an empty checkpoint beside a table that is kept; everything is read again from batch 0 on.

It runs only where no row is lost: where the sink takes each batch of the new query. What is read again is then in it a
second time, which a person has to accept. A file table passes over the numbers that it has, so there it stays blocked.
"""

from collections.abc import Sequence

from recovery.checkpoints.report import Finding
from recovery.contracts.amounts import Bound, RowAmount
from recovery.contracts.forecast import Forecast
from recovery.contracts.names import Strategy
from recovery.contracts.option import Blocker, BlockerCode, Option
from recovery.sinks.kinds import EmptyReset, StartRisk, empty_reset
from recovery.sources import file_facts
from recovery.sources.base import InputFile, SourceFacts
from recovery.strategies import common, repeats, sinks, sources, starts, state_rows
from recovery.strategies.base import Facts, KeyKind
from recovery.strategies.positions import positions


def judge(facts: Facts) -> Option:
    """The option, blocked or not, with the rows that the sink would swallow or write twice."""
    risk = sinks.judge_risk(facts, sinks.anew(facts))
    lost, doubled = _fate(facts, risk)
    doubled = state_rows.among(facts, doubled)
    if risk.vanished or not all(f.again and f.whole for f in sources.anew(facts)):
        lost = state_rows.with_state(facts, lost, read_again=any(f.again for f in sources.anew(facts)))
    reread = _reread(facts)
    new_rows = _new_rows(facts, risk, lost, doubled if risk.vanished else reread)
    return Option(
        strategy=Strategy.EMPTY,
        title="empty",
        summary="New empty checkpoint, keep the table",
        blocker=_hindrance(facts, risk) or _reason(facts, risk, lost, doubled),
        forecast=Forecast(
            lost=lost,
            doubled=doubled,
            reread=reread,
            new_rows=new_rows,
            table_after=common.table_after(facts, new_rows),
            state=common.state_dropped(facts),
            seconds=common.seconds(facts, 3),
        ),
        findings=_findings(facts, risk),
        steps=common.steps(facts.new_code.files != facts.code.files, common.rerun_from_nothing(facts)),
        criteria=common.criteria(
            facts,
            begins=common.expect_first_batch(facts),
            files=("again", common.all_there(facts)),
            before=facts.counts.table,
            rows=common.expect_rows("new", facts.new_code.key, again=True),
            repeats=common.repeats_of(doubled, facts.new_code),
            new_rows=new_rows,
        ),
        rollback="None: the update that makes the empty checkpoint runs on it at once, and what it writes again cannot "
        "be taken back.",
        undoable=False,
        code_live="Yes",
        table_meanwhile=common.readable(facts),
        positions=positions(facts, after="start"),
    )


def _hindrance(facts: Facts, risk: StartRisk) -> Blocker | None:
    """What bars a reset whatever it does to rows; None where nothing does."""
    if reason := common.any_block(facts, anew=True) or common.unread_code(facts):
        return reason
    if facts.is_plain:
        fate = (
            f"{_passed_over(facts, risk)} Their rows would be lost without an error."
            if risk.vanished
            else "Rows would come twice or be lost, as forecast."
        )
        says = "Nothing gives a plain program an empty checkpoint. Do not move its checkpoint away by hand either."
        return Blocker(code=BlockerCode.NO_REFRESH, says=f"{says} {fate}")
    failing = next((f for f in sources.anew(facts) if f.fails), None)
    if failing is not None:
        return Blocker(code=BlockerCode.READER_FAILS, says=failing.why)
    return _stateless(facts, risk)


def _findings(facts: Facts, risk: StartRisk) -> tuple[Finding, ...]:
    """What the sink makes of such a start, and which choices it leaves aside."""
    doubles = () if risk.vanished else sinks.findings(facts, sinks.anew(facts))
    return (*facts.sink.findings, *doubles, *starts.not_taken(facts), *sources.findings(facts, anew=True))


def _reread(facts: Facts) -> RowAmount:
    why, rows = f"Every committed {sources.unit(facts)} is read again.", facts.counts.processed
    if common.only_files(facts):
        return common.amount(rows, common.files_of(facts, "processed"), why)
    begins = sources.anew(facts)
    if any(f.again is None for f in begins):
        return RowAmount(
            rows=None, bound=Bound.UNKNOWN, why=" ".join(f.why for f in begins if f.again is None)
        )
    if not any(f.again for f in begins):
        return sources.nothing(" ".join(f.why for f in begins))
    return RowAmount(
        rows=rows,
        bound=Bound.EXACT,
        why=why,
        start="the first that is kept",
        end=sources.standing(facts),
    )


def _new_rows(facts: Facts, risk: StartRisk, lost: RowAmount, again: RowAmount) -> int | None:
    """By how much the table grows: what waits, less what is lost, and what is written `again`; None: not known."""
    counts = facts.counts
    if counts.waiting is None or lost.rows is None or again.rows is None or not lost.exact:
        return None
    if not facts.new_code.operators and not common.files_of(facts, "ignored"):
        return counts.waiting - lost.rows + again.rows
    # what waits may repeat what is read again, and then comes out once; what Spark ignores now comes in too
    return None if risk.vanished or lost.rows else counts.everything


def _stateless(facts: Facts, risk: StartRisk) -> Blocker | None:
    """A batch that the sink passes over is not run at all, so that the state of the next one is missing.

    Seen on 4.2: CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS in the first batch that is not passed over.
    """
    if not facts.new_code.operators or not risk.vanished:
        return None
    return Blocker(
        code=BlockerCode.RESET_LEAVES_NO_STATE,
        says=f"{_passed_over(facts, risk)} Those leave no state, so the update would fail with the first batch after "
        "them; without one, all that waits would be lost silently.",
    )


def _fate(facts: Facts, risk: StartRisk) -> tuple[RowAmount, RowAmount]:
    """What is lost and what comes twice. Where damage hides what was read, no one can tell."""
    report = facts.checkpoint
    mended = facts.repair is not None and facts.repair.complete
    if not report.sources and report.blockers and not mended:
        unsure = RowAmount(
            rows=None, bound=Bound.UNKNOWN, why=f"What was read is not known: {report.blockers[0].says}"
        )
        return unsure, unsure
    return _by_file(facts, risk) if common.only_files(facts) else _by_count(facts, risk)


def _by_count(facts: Facts, risk: StartRisk) -> tuple[RowAmount, RowAmount]:
    """Sources that are no lists of files: which rows fall into which batch is not known."""
    begins = sources.anew(facts)
    if any(f.again is None for f in begins):
        unsure = RowAmount(
            rows=None, bound=Bound.UNKNOWN, why=" ".join(f.why for f in begins if f.again is None)
        )
        return unsure, unsure
    if risk.vanished:
        return (
            RowAmount(rows=None, bound=Bound.UNKNOWN, why=_passed_over(facts, risk)),
            RowAmount(
                rows=None,
                bound=Bound.UNKNOWN,
                why="Rows in batches that the table does not have yet come twice.",
            ),
        )
    unread = [f for f in begins if not f.again]
    if not unread:
        doubled = sinks.forecast_doubled(
            facts, sinks.anew(facts), "What is read again changes nothing there."
        )
        lost = sources.taken(facts) or sources.nothing(f"Every unread {sources.unit(facts)} is read.")
        return lost, _with_repeats(facts, doubled)
    if len(begins) > 1:
        unsure = RowAmount(rows=None, bound=Bound.UNKNOWN, why=" ".join(f.why for f in unread))
        return unsure, unsure
    rows = facts.counts.waiting
    return RowAmount(rows=rows, bound=Bound.EXACT, why=unread[0].why), sources.nothing(
        "Nothing that was read is read again."
    )


def _by_file(facts: Facts, risk: StartRisk) -> tuple[RowAmount, RowAmount]:
    if not risk.vanished:
        return _never_read(facts), _with_repeats(facts, _written_again(facts))
    if any(_by_size(s) for s in facts.sources):
        why = f"{_passed_over(facts, risk)} Which files those hold is decided by maxBytesPerTrigger."
        unsure = RowAmount(rows=None, bound=Bound.UNKNOWN, why=why)
        return unsure, unsure
    # each source adds so many files to a batch as its own limit says, from its own beginning
    fates = [_fate_of(s, risk) for s in facts.sources]
    # a planned batch whose number the sink has is in it, and not lost where it is passed over
    exact = not facts.new_code.operators and sinks.anew(facts).planned not in risk.vanished
    swallowed = tuple(f for fate in fates for f in fate["swallowed_waiting"])
    doubled = tuple(f for fate in fates for f in fate["doubled"])
    return (
        _never_read(facts)
        if sources.gone_unread(facts) and not swallowed
        else common.amount(
            _rows(facts, swallowed),
            swallowed,
            _passed_over(facts, risk)
            if swallowed
            else "No unread file falls into a batch number that the table already has.",
            Bound.ESTIMATE.unless((exact and not sources.gone_unread(facts)) or not swallowed),
        ),
        common.amount(
            _rows(facts, doubled),
            doubled,
            "Committed files that land in batch numbers which the table does not have yet."
            if doubled
            else "Files read again fall into batch numbers that the table skips.",
            Bound.ESTIMATE.unless(exact or not doubled),
        ),
    )


def _never_read(facts: Facts) -> RowAmount:
    gone = sources.gone_unread(facts)
    if not gone:
        return sources.nothing("Every file that is there is read.")
    why = f"{common.plural(len(gone), 'planned file')} {'is' if len(gone) == 1 else 'are'} gone."
    return RowAmount(
        rows=None,
        bound=Bound.UNKNOWN,
        why=why,
        files=len(gone),
        start=common.name_of(gone[0]),
        end=common.name_of(gone[-1]),
    )


def _by_size(source: SourceFacts) -> bool:
    return any(name.lower() == "maxbytespertrigger" for name in source.options)


def _fate_of(source: SourceFacts, risk: StartRisk) -> EmptyReset:
    """An empty checkpoint takes the files too that Spark ignores now."""
    unread = (*source.waiting, *source.ignored)
    limit, newest_first = source.max_files_per_trigger, file_facts.latest_first(source.options)
    return empty_reset(risk, source.processed, unread, limit, latest_first=newest_first)


def _written_again(facts: Facts) -> RowAmount:
    """What a sink that passes over nothing has twice, a planned batch that it may hold among it, with its files."""
    doubled = sinks.forecast_doubled(facts, sinks.anew(facts), "No file was read yet.")
    again = common.files_of(facts, "processed") if doubled.rows != 0 else ()
    counted = common.amount(doubled.rows, again, doubled.why, doubled.bound)
    return counted.loosened() if facts.new_code.operators and again else counted


def _with_repeats(facts: Facts, doubled: RowAmount) -> RowAmount:
    """Where a key is known: all new rows beyond the first of their key, those too that wait."""
    code, counts = facts.new_code, facts.counts
    by_code = not code.operators or (code.operators == ("dedupe",) and code.key_kind is KeyKind.CODE)
    if not repeats.are_told_by_key(facts):
        return repeats.with_uncounted(facts, doubled)
    if doubled.rows is None or not by_code:
        return doubled
    if counts.everything is None or counts.fresh_everything is None:
        return doubled.bounded(
            Bound.ESTIMATE, f"{doubled.why} Whether what waits repeats a key was not counted."
        )
    rows, key = counts.everything - counts.fresh_everything, ", ".join(code.key)
    why = (
        f"{doubled.why} {common.plural(rows, 'new row')} repeat a key ({key}) of the table or of each other."
    )
    exact = sinks.forecast_doubled(facts, sinks.anew(facts), "").exact
    return doubled.numbered(rows, why).bounded(Bound.AT_MOST.unless(exact), why)


def _passed_over(facts: Facts, risk: StartRisk) -> str:
    head = risk.vanished.stop - 1
    return f"The table's log already has batches 0 to {head}; it silently skips new batches of those numbers."


def _rows(facts: Facts, files: Sequence[InputFile]) -> int | None:
    rows = [facts.counts.by_file.get(f.path) for f in files]
    return None if None in rows else sum(r for r in rows if r is not None)


def _reason(facts: Facts, risk: StartRisk, lost: RowAmount, doubled: RowAmount) -> Blocker | None:
    """Why it would lose rows, or may; None where none is lost, and so many are doubled as a person may accept."""
    if lost.files or lost.rows:
        return Blocker(code=BlockerCode.RESET_LOSES, says=f"It would silently lose {_many(lost)}: {lost.why}")
    if not risk.vanished and doubled.rows is not None and not lost.possible:
        return sinks.block(facts, sinks.anew(facts))
    if risk.vanished and (doubled.files or doubled.rows):
        says = f"It would double {_many(doubled)}: {doubled.why}"
        return Blocker(code=BlockerCode.RESET_DOUBLES, says=says)
    if lost.possible or doubled.rows is None:
        why = lost.why if lost.possible else doubled.why
        says = f"What it would lose and double is not known: {why} Choose continue, which reads on from its position."
        return Blocker(code=BlockerCode.RESET_UNTOLD, says=says)
    says = "No row is lost only if the batches come out equal by chance. Choose continue: the same rows, for certain."
    return Blocker(code=BlockerCode.RESET_BY_CHANCE, says=says)


def _many(of: RowAmount) -> str:
    if of.rows is None:
        return "rows"
    return f"{of.bound.before_number}{common.plural(of.rows, 'row')}"
