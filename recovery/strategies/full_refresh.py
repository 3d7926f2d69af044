"""full-refresh: empty the table and read everything that can still be read, with the new code."""

from dataclasses import replace

from recovery.checkpoints.report import Finding, Severity
from recovery.contracts.amounts import Amount, Bound, RowAmount
from recovery.contracts.forecast import Forecast
from recovery.contracts.names import Strategy
from recovery.contracts.option import Blocker, BlockerCode, Option
from recovery.sinks.kinds import PlannedStart
from recovery.sources.base import Distance
from recovery.sources.comparing import ZERO
from recovery.strategies import common, repeats, sinks, sources, starts, state_rows
from recovery.strategies.base import Facts
from recovery.strategies.positions import positions


def judge(facts: Facts) -> Option:
    """The option, blocked or not, with what comes back and what can no longer be read."""
    new_rows, doubled = _new_rows(facts), _doubled(facts)
    return Option(
        strategy=Strategy.FULL_REFRESH,
        title="full-refresh",
        summary="Empty the table, read everything again"
        if sinks.is_table(facts)
        else "Reset the flow, send everything again",
        blocker=blocked(facts),
        forecast=Forecast(
            lost=_lost(facts),
            doubled=doubled,
            reread=forecast_reread(facts),
            new_rows=new_rows,
            table_after=new_rows if sinks.is_table(facts) else None,
            state=common.state_dropped(facts),
            seconds=common.seconds(facts, 3),
        ),
        findings=_findings(facts),
        steps=common.steps(
            facts.new_code.files != facts.code.files,
            common.rerun_anew(facts),
        ),
        criteria=common.criteria(
            facts,
            begins=common.expect_first_batch(facts),
            files=("new", common.all_there(facts)),
            before=0,
            rows=common.expect_rows("all", facts.new_code.key),
            repeats=common.repeats_of(doubled, facts.new_code),
            new_rows=new_rows,
        ),
        rollback="None: the table is emptied first. What cannot be read again is gone."
        if sinks.is_table(facts)
        else "None: what is written again cannot be taken back.",
        undoable=False,
        code_live="Yes",
        table_meanwhile="Empty until the update ends" if sinks.is_table(facts) else "Stays as it is",
        positions=positions(facts, after="start"),
    )


def blocked(facts: Facts) -> Blocker | None:
    """Why full-refresh cannot run here; None when it can."""
    if reason := common.any_block(facts, anew=True):
        return reason
    if facts.is_plain:
        says = (
            "Nothing empties the table of a plain program: it has no full refresh. By hand, with the stream stopped: "
            "move its table and its checkpoint away together, then start it."
        )
        return Blocker(code=BlockerCode.NO_REFRESH, says=says)
    if facts.writers:
        says = (
            f"{', '.join(facts.writers)} writes the same table. A full refresh empties it and starts over every flow "
            "that writes it, and only the rows of this one would be forecast and proven."
        )
        return Blocker(code=BlockerCode.REFRESH_SHARED_TABLE, says=says)
    if facts.new_code.operators is None:
        says = f"The code could not be analysed: {facts.new_code.problem}"
        return Blocker(code=BlockerCode.CODE_NOT_ANALYSED, says=says)
    failing = next((f for f in sources.anew(facts) if f.fails), None)
    if failing is not None:
        return Blocker(code=BlockerCode.READER_FAILS, says=failing.why)
    return None if sinks.is_table(facts) else _passed_over(facts)


def _passed_over(facts: Facts) -> Blocker | None:
    """Whether a sink that is not emptied takes batches from 0 on; why not."""
    risk = sinks.judge_risk(facts, _start(facts))
    if not risk.vanished:
        return None
    says = f"{risk.says} A full refresh begins with batch 0 and does not empty it. Choose continue."
    return Blocker(code=BlockerCode.SINK_NOT_EMPTIED, says=says)


def _nothing_again(facts: Facts) -> bool:
    """Whether each source begins behind all that is there, by its reader's own options."""
    begins = sources.anew(facts)
    return bool(begins) and all(f.again is False for f in begins)


def _start(facts: Facts) -> PlannedStart:
    """Batch 0 as the sink meets it: what was read comes again, as far as the sources begin there and still have it."""
    found, begins = sinks.anew(facts), sources.anew(facts)
    if _nothing_again(facts):
        return replace(found, reread=ZERO, planned=None)
    if all(f.again and f.whole for f in begins) or found.reread.rows is None:
        return found
    rows = (
        None
        if any(f.again is None for f in begins)
        else Amount(value=found.reread.rows.value, bound=Bound.ESTIMATE)
    )
    return replace(found, reread=Distance(rows=rows))


def _difference(facts: Facts) -> int | None:
    """Rows the new code yields over the committed files, minus rows in the table now."""
    if facts.counts.processed is None or facts.counts.table is None:
        return None
    return facts.counts.processed - facts.counts.table


def has_rows_of_another_kind(facts: Facts) -> bool:
    """Whether one of old and new code makes its rows of groups, pairs or a state of its own and the other does not.

    Then a row of the table is no row of the new code, and their numbers do not compare. A step that writes each row as
    it comes changes how many there are, not what they are.
    """
    held = {o.name for o in facts.checkpoint.state_operators}
    made = set(facts.new_code.operators or ())
    return bool((held ^ made) - set(state_rows.WRITTEN_AT_ONCE))


def list_gone(facts: Facts) -> tuple[str, ...]:
    """Paths of files that were read and no longer exist."""
    return tuple(path for source in facts.sources for path in source.gone)


def _new_rows(facts: Facts) -> int | None:
    """All that the code yields over what can be read; None where an empty checkpoint would not begin there."""
    return facts.counts.everything if all(f.again for f in sources.anew(facts)) else None


def forecast_reread(facts: Facts) -> RowAmount:
    """Rows of committed input that are read a second time."""
    of, rows = sources.unit(facts), facts.counts.processed
    why = f"Every {of} that was committed and can still be read."
    if common.only_files(facts):
        return common.amount(rows, common.files_of(facts, "processed"), why)
    if stays := explain_not_again(facts):
        if _nothing_again(facts):
            return sources.nothing(stays)
        return RowAmount(rows=None, bound=Bound.UNKNOWN, why=stays)
    exact = rows is not None and all(
        f.whole for f in sources.anew(facts)
    )  # what retention takes, it goes on taking
    return RowAmount(
        rows=rows,
        bound=Bound.ESTIMATE.unless(exact),
        why=why,
        start="the first that is kept",
        end=sources.standing(facts),
    )


def explain_not_again(facts: Facts) -> str:
    """Why what was read is not read again, or no one can tell whether it is."""
    return " ".join(f.why for f in sources.anew(facts) if not f.again)


def _lost(facts: Facts) -> RowAmount:
    counted = _unless_inferred(facts, _what_leaves(facts))
    if not list_gone(facts) and all(f.again and f.whole for f in sources.anew(facts)):
        return counted  # what the state holds is made of rows that are all read again
    return state_rows.with_state(facts, counted, read_again=not _nothing_again(facts))


def _unless_inferred(facts: Facts, counted: RowAmount) -> RowAmount:
    """A count over files of which some count as read by a guess is no exact one."""
    if facts.repair is None or facts.repair.exact or not counted.exact:
        return counted
    why = f"{counted.why} Some of the files that count as read were inferred, in place of a lost log entry."
    return counted.loosened(why)


def _what_leaves(facts: Facts) -> RowAmount:
    gone, difference, of = list_gone(facts), _difference(facts), sources.unit(facts)
    if not sinks.is_table(facts):
        return _left_unread(facts, 0, "What was written stays where it is.")
    if explain_not_again(facts):
        return _left_unread(facts, facts.counts.table, "The rows of the emptied table do not come back.")
    if has_rows_of_another_kind(facts):
        why = (
            "Old and new code make rows of different kinds (groups, pairs, a state of their own): the earlier ones "
            "leave the table, and their number does not compare with that of the new ones."
        )
        return RowAmount(rows=None, bound=Bound.UNKNOWN, why=why, files=len(gone))
    leaving = _count_leaving(facts)
    if gone:
        return RowAmount(
            rows=leaving,
            bound=Bound.ESTIMATE,
            why=f"{common.plural(len(gone), 'committed file')} can no longer be read; their rows leave the table.",
            files=len(gone),
            start=common.name_of(gone[0]),
            end=common.name_of(gone[-1]),
        )
    if broken := " ".join(f.why for f in sources.anew(facts) if not f.whole):
        unread = count_never_read(facts)
        rows = None if leaving is None or unread is None else leaving + unread
        return RowAmount(rows=rows, bound=Bound.ESTIMATE, why=f"{broken} Their rows leave the table.")
    if taken := sources.taken(facts):
        rows = None if leaving is None or taken.rows is None else leaving + taken.rows
        return RowAmount(rows=rows, bound=Bound.ESTIMATE, why=taken.why)
    if strange := _strangers(facts):
        return _of_others(facts, strange)
    if facts.counts.beyond:
        why = (
            f"{common.plural(facts.counts.beyond, 'row')} of the table have a key ({', '.join(facts.new_code.key)}) "
            f"that the new code yields over no {of}."
        )
        each_once = facts.counts.table_keys == facts.counts.table
        return RowAmount(rows=leaving, bound=Bound.AT_LEAST.unless(each_once), why=why)
    if leaving:
        return RowAmount(
            rows=leaving, bound=Bound.EXACT, why=f"The new code yields fewer rows over the same {of}s."
        )
    if not common.only_files(facts):
        if difference is None:
            return RowAmount(
                rows=None,
                bound=Bound.UNKNOWN,
                why="What was read could not be counted together with the table.",
            )
        return sources.nothing(" ".join(dict.fromkeys(f.why for f in sources.anew(facts))))
    return sources.nothing(f"All {common.plural(common.all_there(facts), 'file')} can still be read.")


def _left_unread(facts: Facts, leaving: int | None, stays: str) -> RowAmount:
    """What no one will have read, beside the `leaving` rows of an emptied table, which do not come back.

    Where a source begins behind what is there (`latest`), all that waits is passed over.
    """
    taken, why = sources.taken(facts), explain_not_again(facts)
    if not why:
        return taken or sources.kept(facts, stays)
    if not _nothing_again(facts):
        return RowAmount(rows=None, bound=Bound.UNKNOWN, why=f"{why} {stays}")
    gone, unread = 0 if taken is None else taken.rows, _unread(facts)
    rows = None if leaving is None or unread is None or gone is None else leaving + unread + gone
    exact = (
        rows is not None and taken is None and not sources.uncertain(facts) and not facts.new_code.operators
    )
    if unread is None:
        waits = " What waits is never read; how much that is, is not known."
    else:
        waits = f" Of what waits, {common.plural(unread, 'row')} are never read." if unread else ""
    reason = f" {taken.why}" if taken else ""
    return RowAmount(rows=rows, bound=Bound.ESTIMATE.unless(exact), why=f"{why}{waits} {stays}{reason}")


def _unread(facts: Facts) -> int | None:
    """Rows that wait behind the committed positions; None where they were counted from another start."""
    return None if any(starts.is_moved(s) for s in facts.sources) else facts.counts.waiting


def _count_leaving(facts: Facts) -> int | None:
    """Rows of the table that do not come back, at least: by their number, and by their keys where these were compared,
    for as many others may come."""
    difference, beyond = _difference(facts), facts.counts.beyond
    return beyond if difference is None else max(-difference, beyond or 0)


def _strangers(facts: Facts) -> int:
    """Rows of the table beyond those that the old code yields over what was read; negative: so many fewer."""
    old = facts.old_counts.processed if facts.old_counts else None
    return 0 if old is None or facts.counts.table is None else facts.counts.table - old


def _of_others(facts: Facts, strange: int) -> RowAmount:
    """A table that does not hold just what the old code wrote: which rows leave it cannot be known by numbers alone."""
    old = facts.old_counts.processed if facts.old_counts else None
    new = facts.counts.processed
    rows = None if old is None or new is None else max(0, strange) + max(0, old - new)
    if strange > 0:
        why = (
            f"The table holds {common.plural(strange, 'row')} more than the old code yields over the same input: of "
            "another writer, put in by hand, or doubled before. They leave it and do not come back."
        )
    else:
        why = (
            f"The table holds {common.plural(-strange, 'row')} fewer than the old code yields over the same input, so "
            "which of them leave it is not known."
        )
    return RowAmount(rows=rows, bound=Bound.ESTIMATE, why=why)


def count_never_read(facts: Facts) -> int | None:
    """Records that retention took before anyone read them; None: of files that are gone, or were written again,
    no one knows them."""
    if sources.gone_unread(facts) or sources.written_again(facts):
        return None
    lost = [s.reach.lost.rows for s in facts.sources if s.reach and s.reach.lost]
    return sum(rows.value for rows in lost if rows is not None)


def _doubled(facts: Facts) -> RowAmount:
    return state_rows.among(facts, _unless_inferred(facts, _with_repeats(facts, _what_comes(facts))))


def _with_repeats(facts: Facts, doubled: RowAmount) -> RowAmount:
    """Where a key is known: all rows beyond one per key, those too that wait. An emptied table need not be asked."""
    rows = facts.counts.repeats_everything
    if not facts.new_code.key or not sinks.is_table(facts):
        return repeats.with_uncounted(facts, doubled)
    if not doubled.exact or rows == doubled.rows:
        return doubled
    if rows is None:
        why = f"{doubled.why} Whether what waits repeats a key was not counted."
        return doubled.bounded(Bound.AT_LEAST, why) if facts.drops_dedupe else doubled
    key = ", ".join(facts.new_code.key)
    says = f"{common.plural(rows, 'row')} of all that is read repeat a key ({key}), and the code keeps them."
    return doubled.numbered(rows, f"{doubled.why} {says}")


def _what_comes(facts: Facts) -> RowAmount:
    difference = _difference(facts)
    if not sinks.is_table(facts):
        return sinks.forecast_doubled(facts, _start(facts), "Nothing is written again.")
    if _nothing_again(facts):
        return sources.nothing("The table is emptied first, and nothing is read again.")
    whole = not list_gone(facts) and all(f.again and f.whole for f in sources.anew(facts))
    if whole and has_rows_of_another_kind(facts):
        why = "The table is emptied first. Which of the new rows repeat what it had cannot be compared."
        return RowAmount(rows=None, bound=Bound.UNKNOWN, why=why)
    if not whole:
        why = f"Not known exactly: not every committed {sources.unit(facts)} can be read."
        return RowAmount(rows=None, bound=Bound.UNKNOWN, why=why)
    if difference is None:
        why = "The table is emptied first. Which rows differ from those of the old code was not counted."
        return RowAmount(rows=None, bound=Bound.UNKNOWN, why=why)
    if strange := _strangers(facts):
        came = max(0, difference + max(0, strange))
        why = (
            "The table does not hold just the rows that the old code yields over the same input, so which rows come "
            "that were not in it is not known."
        )
        return RowAmount(rows=came, bound=Bound.ESTIMATE, why=why)
    if difference <= 0:
        return sources.nothing("The table is emptied first.")
    removed = any(o.name == "dedupe" for o in facts.checkpoint.state_operators)
    why = "Rows that the old code had left out come back"
    why += ": repeats that dropDuplicates had removed." if removed else "."
    return RowAmount(rows=difference, bound=Bound.EXACT, why=why)


def _findings(facts: Facts) -> tuple[Finding, ...]:
    findings = [*_without_table(facts), *starts.not_taken(facts), *sources.findings(facts, anew=True)]
    if gone := (*list_gone(facts), *sources.gone_unread(facts)):
        findings.append(
            Finding(
                "INPUT_GONE",
                Severity.WARNING,
                f"{common.plural(len(gone), 'input file')} that the source's log names no longer exist.",
                "Back the table up first, or choose continue, which keeps those rows.",
                file=gone[0],
            )
        )
    if facts.unfilled:
        says = f"{facts.unfilled} has emptied this table and filled nothing back: only its backup has those rows."
        do = "Resume it or roll it back first, or fill them back by hand."
        findings.append(Finding("ROWS_IN_BACKUP", Severity.WARNING, says, do))
    if sinks.is_table(facts):
        says = f"{facts.dataset} is emptied at the start and fills again during the update; readers see that."
        findings.append(
            Finding("TABLE_EMPTIED", Severity.WARNING, says, "Warn its readers, or choose continue.")
        )
    return tuple(findings)


def _without_table(facts: Facts) -> tuple[Finding, ...]:
    """A sink that is no table keeps all that was written: the refresh resets the checkpoint alone."""
    if sinks.is_table(facts):
        return ()
    says = f"{facts.dataset} is no table: a full refresh resets its checkpoint, and what was written stays."
    finding = Finding("SINK_NOT_EMPTIED", Severity.WARNING, says, "Clear it first, or choose continue.")
    return (finding, *sinks.findings(facts, _start(facts)))
