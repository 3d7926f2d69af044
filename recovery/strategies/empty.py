"""empty: a plain reset to an empty checkpoint. Shown with the rows it would lose; never run from here."""

from recovery.sinks.files import empty_reset
from recovery.strategies import common
from recovery.strategies.base import Amount, Facts, Forecast, Option, StepSpec


def judge(facts: Facts) -> Option:
    """The option: always blocked, with the rows that a file sink would swallow or write twice."""
    lost, doubled = _fate(facts)
    waiting = facts.counts.waiting
    known = None not in (waiting, lost.rows, doubled.rows)
    new_rows = (waiting or 0) - (lost.rows or 0) + (doubled.rows or 0) if known else None
    table = facts.counts.table
    return Option(
        strategy="empty",
        title="empty",
        summary="New empty checkpoint, keep the table",
        blocked=_reason(facts, lost, doubled),
        forecast=Forecast(
            lost=lost,
            doubled=doubled,
            reread=common.amount(
                facts.counts.processed,
                common.files_of(facts, "processed"),
                "Every committed file is read again.",
            ),
            new_rows=new_rows,
            table_after=None if new_rows is None or table is None else table + new_rows,
            state=f"Dropped: {common.state_keys(facts)}"
            if facts.checkpoint.state_operators
            else "None to drop",
        ),
        findings=facts.sink.findings,
        steps=common.steps(False, StepSpec("rerun", "Start from an empty checkpoint.")),
        criteria=(),
        rollback="Until batch 0 is committed.",
        code_live="Yes",
        table_meanwhile="Readable",
        positions=common.positions(facts, after="start"),
    )


def _fate(facts: Facts) -> tuple[Amount, Amount]:
    """What the sink would swallow and what it would write twice, in rows of the new code."""
    limits = {s.max_files_per_trigger for s in facts.sources}
    limit = next(iter(limits)) if len(limits) == 1 else None
    fate = empty_reset(
        facts.sink, common.files_of(facts, "processed"), common.files_of(facts, "waiting"), limit
    )
    exact = not facts.new_code.operators and (limits == {None} or len(facts.sources) == 1)
    swallowed, doubled = tuple(fate["swallowed_waiting"]), tuple(fate["doubled"])
    head = facts.sink.head
    return (
        common.amount(
            _rows(facts, swallowed),
            swallowed,
            f"The table's log already has batches 0 to {head}; it silently skips new batches of those numbers."
            if swallowed
            else "No unread file falls into a batch number that the table already has.",
            exact=exact or not swallowed,
        ),
        common.amount(
            _rows(facts, doubled),
            doubled,
            "Committed files that land in batch numbers which the table does not have yet."
            if doubled
            else "Files read again fall into batch numbers that the table skips.",
            exact=exact or not doubled,
        ),
    )


def _rows(facts: Facts, files: tuple[object, ...]) -> int | None:
    rows = [facts.counts.by_file.get(f.path) for f in files]  # type: ignore[attr-defined]
    return None if None in rows else sum(r for r in rows if r is not None)


def _reason(facts: Facts, lost: Amount, doubled: Amount) -> str:
    if lost.files:
        rows = "rows" if lost.rows is None else common.plural(lost.rows, "row")
        return f"It would silently lose {rows}: {lost.why}"
    if doubled.files:
        rows = "rows" if doubled.rows is None else common.plural(doubled.rows, "row")
        return f"It would double {rows}: {doubled.why}"
    return "It would be right only by luck of equal batches. Take continue: the same rows, without luck."
