"""revert: put the old code back; checkpoint, state and table stay as they are."""

from recovery.sinks.kinds import Start
from recovery.strategies import common, mapped, sinks, sources, starts
from recovery.strategies.base import Facts, Forecast, Option
from recovery.strategies.positions import positions


def judge(facts: Facts) -> Option:
    """The option, blocked or not. Its rows are counted with the old code."""
    last, new_rows = facts.checkpoint.last_committed, _new_rows(facts)
    table, start, of = facts.counts.table, _start(facts), sources.unit(facts)
    return Option(
        strategy="revert",
        title="revert",
        summary="Put the old code back, keep the checkpoint",
        blocked=blocked(facts),
        forecast=Forecast(
            lost=sources.kept(facts, f"The checkpoint stays in use; every unread {of} is read."),
            doubled=sinks.doubled(facts, start, f"No committed {of} is read again."),
            reread=sources.nothing("Reading goes on where the last committed batch ended."),
            new_rows=new_rows,
            table_after=None if new_rows is None or table is None else table + new_rows,
            state=f"Kept: {common.state_keys(facts)}",
            seconds=None if facts.usual_update_seconds is None else facts.usual_update_seconds * 2,
        ),
        findings=(*facts.sink.findings, *sinks.findings(facts, start), *sources.findings(facts)),
        steps=common.steps(
            True,
            common.rerun(facts),
        ),
        criteria=common.criteria(
            facts,
            {
                "FIRST_BATCH_AT_POSITION": {
                    "batch": None if last is None else last + 1,
                    "offsets": [s.offset_json for s in facts.checkpoint.sources],
                },
                "EACH_FILE_ONCE": {
                    "scope": "same",
                    "files": sum(len(s.processed) + len(s.waiting) for s in facts.sources),
                },
                "TABLE_GREW_BY_NEW_BATCHES": {"before": table},
                "EVERY_ROW_ONCE": {
                    "scope": "all",
                    "key": list(facts.old_code.key) if facts.old_code else [],
                },
                **common.counted(new_rows),
                "NOTHING_ELSE_CHANGED": {},
                "FURTHER_UPDATE_ADDS_NOTHING": {},
            },
        ),
        rollback=f"Until batch {0 if last is None else last + 1} is committed: the code of today is written back.",
        code_live="No, undone",
        table_meanwhile="Readable" + ("" if table is None else f", {common.plural(table, 'row')}"),
        positions=positions(facts, after="same"),
    )


def _start(facts: Facts) -> Start:
    """The old query goes on, with the batch that it had planned."""
    return sinks.start(facts, facts.checkpoint, sources.nothing(""), query_id_kept=True)


def _new_rows(facts: Facts) -> int | None:
    """Rows that the old code, with the state it kept, writes for the waiting files; None: cannot be told.

    dropDuplicates lets through the keys that it has not seen; other state decides by more than the input.
    """
    if facts.old_counts is None or facts.old_code is None or not mapped.one_to_one(facts):
        return None  # sources were looked at as the new code reads them
    if not facts.old_code.operators:
        return facts.old_counts.waiting
    return facts.old_counts.fresh_waiting if facts.old_code.operators == ("dedupe",) else None


def blocked(facts: Facts) -> str | None:
    """Why revert cannot run here; None when it can."""
    reason = common.any_block(facts) or starts.takes_no_start(facts, "revert") or sources.block(facts)
    if reason:
        return reason
    if facts.old_code is None:
        return "The code of the last good update is not known. Give it: edit it in, or use --code or --patch."
    if facts.old_code.operators is None:
        return f"The old code could not be analysed: {facts.old_code.problem}"
    if common.has_blocker(facts.checkpoint.findings):
        return f"The checkpoint itself is damaged: {facts.checkpoint.blockers[0].says}"
    stored = tuple(o.name for o in facts.checkpoint.state_operators)
    if facts.old_code.operators != stored:
        return (
            f"The code to put back has {common.names(facts.old_code.operators)}, the checkpoint holds state of "
            f"{common.names(stored)}: Spark would refuse it again."
        )
    if dict(facts.old_code.files) == dict(facts.code.files):
        return "The code of the last good update is the code of today: there is nothing to put back."
    return sinks.block(facts, _start(facts))
