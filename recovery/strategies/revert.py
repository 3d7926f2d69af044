"""revert: put the old code back; checkpoint, state and table stay as they are."""

from dataclasses import replace

from recovery.checkpoints.formats import Malformed
from recovery.contracts.forecast import Forecast
from recovery.contracts.names import Strategy
from recovery.contracts.option import Blocker, BlockerCode, Option
from recovery.sinks.kinds import PlannedStart
from recovery.sources import kafka_facts
from recovery.strategies import common, mapped, sinks, sources, starts
from recovery.strategies.base import Counts, Facts
from recovery.strategies.positions import positions
from recovery.strategies.provable import find_unprovable_rows


def put_back(facts: Facts) -> Facts:
    """The facts as the old code sees them: what it reads, one to one with the checkpoint's sources, and its rows."""
    if facts.old_code is None or facts.old_sources is None:
        return facts
    return replace(
        facts,
        sources=facts.old_sources,
        source_map=(),
        new_code=facts.old_code,
        counts=replace(facts.old_counts or Counts(), table=facts.counts.table),
        old_sources=None,
    )


def judge(facts: Facts) -> Option:
    """The option, blocked or not. Its sources and rows are those of the old code."""
    reason, facts = blocked(facts), put_back(facts)
    last, new_rows = facts.checkpoint.last_committed, _new_rows(facts)
    code = facts.old_code or facts.new_code
    start, of = _start(facts), sources.unit(facts)
    doubled = sinks.forecast_doubled(facts, start, f"No committed {of} is read again.")
    doubled = common.add_unknown_keys(facts, doubled, code, facts.old_counts or Counts())
    return Option(
        strategy=Strategy.REVERT,
        title="revert",
        summary="Put the old code back, keep the checkpoint",
        blocker=reason,
        forecast=Forecast(
            lost=sources.kept(
                facts, f"The checkpoint stays in use; every unread {of} is read.", planned=True
            ),
            doubled=doubled,
            reread=sources.again(facts, "Reading goes on where the last committed batch ended."),
            new_rows=new_rows,
            table_after=common.table_after(facts, new_rows),
            state=f"Kept: {common.state_keys(facts)}",
            seconds=common.seconds(facts, 2),
        ),
        findings=(
            *facts.sink.findings,
            *sinks.findings(facts, start),
            *sources.findings(facts),
            *find_unprovable_rows(facts, code),
        ),
        steps=common.steps(True, common.rerun(facts)),
        criteria=common.criteria(
            facts,
            begins=common.expect_batch_after(last, [s.offset_json for s in facts.checkpoint.sources]),
            files=("same", common.all_files(facts)),
            before=facts.counts.table,
            rows=common.expect_rows(
                "all",
                facts.old_code.key if facts.old_code else (),
                open_batch=sinks.find_open_batch(facts, start),
            ),
            repeats=common.repeats_of(doubled, code),
            new_rows=new_rows,
            code=facts.old_code,
        ),
        rollback=common.until_committed(last, "today's code is written back."),
        code_live="No, undone",
        table_meanwhile=common.readable(facts),
        positions=positions(facts, after="same"),
    )


def _start(facts: Facts) -> PlannedStart:
    """The old query goes on, with the batch that it had planned."""
    return sinks.start(facts, facts.checkpoint, sources.again(facts, ""), query_id_kept=True)


def _new_rows(facts: Facts) -> int | None:
    """Rows that the old code, with the state it kept, writes for the waiting files; None: cannot be known.

    dropDuplicates lets through the keys that it has not seen; other state decides by more than the input.
    """
    if facts.old_counts is None or facts.old_code is None or not mapped.one_to_one(facts):
        return None  # sources were looked at as the new code reads them
    if not facts.old_code.operators:
        return facts.old_counts.waiting
    return common.count_fresh_rows(facts, facts.old_code, facts.old_counts)


def blocked(facts: Facts) -> Blocker | None:
    """Why revert cannot run here; None when it can."""
    reason = common.any_block(facts) or starts.takes_no_start(facts, "revert")
    if reason:
        return reason
    if common.has_blocker(facts.checkpoint.findings):
        return common.damaged(facts)
    if facts.old_code is None:
        return Blocker(
            code=BlockerCode.OLD_CODE_UNKNOWN,
            says=f"The code of the last good {_run(facts)} is not known. Give it: edit it in, or name "
            "--strategy revert with --code or --patch.",
        )
    if facts.old_code.operators is None:
        says = f"The old code could not be analysed: {facts.old_code.problem}"
        return Blocker(code=BlockerCode.OLD_CODE_NOT_ANALYSED, says=says)
    stored = tuple(o.name for o in facts.checkpoint.state_operators)
    if facts.old_code.operators != stored:
        return Blocker(
            code=BlockerCode.STATE_DIFFERS,
            says=f"The code to put back has {common.names(facts.old_code.operators)}, the checkpoint holds state of "
            f"{common.names(stored)}: Spark would refuse it again.",
        )
    if dict(facts.old_code.files) == dict(facts.code.files):
        says = f"The code of the last good {_run(facts)} is today's code: there is nothing to put back."
        return Blocker(code=BlockerCode.NOTHING_TO_PUT_BACK, says=says)
    back = put_back(facts)
    return _sources_block(back) or planned_elsewhere(back) or sinks.block(back, _start(back))


def _run(facts: Facts) -> str:
    """What the code ran in."""
    return "run" if facts.is_plain else "update"


def _sources_block(back: Facts) -> Blocker | None:
    """Why the old code cannot go on over its sources; None when it can."""
    if back.old_problem:
        says = f"What the old code reads could not be looked at: {back.old_problem}"
        return Blocker(code=BlockerCode.OLD_SOURCES_UNKNOWN, says=says)
    return mapped.find_mismatch(
        back, back.checkpoint.sources, "Spark would refuse the old code too."
    ) or sources.block(back)


def planned_elsewhere(facts: Facts) -> Blocker | None:
    """Whether the code of today planned a batch over other topics, with which the old code would begin; why not.

    Such a batch has no end for the old topics' partitions: KafkaMicroBatchStream takes them for deleted and fails.
    """
    last = facts.checkpoint.last_committed
    ahead = [b for b in facts.checkpoint.batches if b["planned"] and last is not None and b["batch"] > last]
    for batch in ahead:
        for source, line in zip(facts.checkpoint.sources, batch["offsets"], strict=False):
            left_out = _topics(source.offset_json) - _topics(line) if source.kind == "kafka" else None
            if left_out:
                return Blocker(
                    code=BlockerCode.PLANNED_ELSEWHERE,
                    says=f"Batch {batch['batch']} was planned by today's code, without topic "
                    f"{', '.join(sorted(left_out))}, which the old code reads: it would fail on that batch. Choose "
                    "continue with the old code (--code, or edit it in): it starts behind the last committed batch.",
                )
    return None


def _topics(line: str | None) -> set[str]:
    try:
        return {topic for topic, _ in kafka_facts.parse_offsets(line)}
    except Malformed:
        return set()
