"""What a plan says of its sink: what a start doubles there, what would vanish, what can be measured afterwards."""

from dataclasses import replace

from recovery.checkpoints.report import CheckpointReport, Finding, Severity
from recovery.checkpoints.table_progress import reconcile_report
from recovery.contracts.amounts import Amount, Bound, RowAmount, joint_bound
from recovery.contracts.option import Blocker, BlockerCode
from recovery.sinks import foreach_batch, registry
from recovery.sinks.base import SinkReport
from recovery.sinks.kinds import PlannedStart, SinkKind, StartRisk, in_words, is_nothing
from recovery.sources.base import Distance
from recovery.sources.comparing import ZERO, count_noun
from recovery.strategies.base import Facts
from recovery.strategies.sources import distance_of, nothing

# Criteria that only a table can be asked for: a topic has rows of before, and of others, of which nothing is known.
ON_TABLES = ("ROWS_OF_BEFORE_UNTOUCHED", "TABLE_GREW_BY_NEW_BATCHES", "NO_KEY_TWICE")
# Criteria that compare the rows which the update wrote with those that were expected.
ON_ROWS = (
    *ON_TABLES,
    "EVERY_ROW_ONCE",
    "COUNTS_EQUAL_FORECAST",
    "FURTHER_UPDATE_ADDS_NOTHING",
)
DISAGREE = (
    "The checkpoint goes on with batch {next}, the table with batch {following}: they disagree about what was written, "
    "so a seed could lose or double rows. Put the old code back (revert) and let it finish the batch first."
)


def is_compared(sink: SinkReport) -> bool:
    """Whether the rows that an update wrote there can be compared with those expected.

    A table that the code names by its path alone has no name by which Spark could be asked.
    """
    kind = registry.sink_kind_of(sink.kind)
    return kind.COMPARED and not (sink.declared and kind.TABLE)


def not_measured(sink: SinkReport) -> frozenset[str]:
    """Criteria that no plan for such a sink has. Where rows cannot be compared `EVERY_ROW_ONCE` stays, as what is not
    measured: such a recovery is never proven."""
    if not is_compared(sink):
        return frozenset(ON_ROWS) - {"EVERY_ROW_ONCE"}
    return frozenset() if registry.sink_kind_of(sink.kind).TABLE else frozenset(ON_TABLES)


def not_required(sink: SinkReport) -> frozenset[str]:
    """Criteria that a plan for such a sink may lack: an update of a declared sink may run other flows too."""
    return not_measured(sink) | ({"NOTHING_ELSE_CHANGED"} if sink.declared else frozenset())


def is_table(facts: Facts) -> bool:
    """Whether a full refresh empties what the flow writes."""
    return registry.sink_kind_of(facts.sink.kind).TABLE and not facts.sink.declared


def at_least_once(facts: Facts) -> bool:
    """Whether no one can promise that a row which is written again is there once."""
    return bool(_writer(facts.sink).explain_at_least_once(facts.sink))


def _writer(sink: SinkReport) -> SinkKind:
    """What decides which batches are written: the sink, or the function of foreachBatch, whatever table it writes."""
    return foreach_batch if sink.by_function else registry.sink_kind_of(sink.kind)


def start(
    facts: Facts,
    standing: CheckpointReport,
    reread: RowAmount,
    *,
    query_id_kept: bool,
    same_range: bool = False,
) -> PlannedStart:
    """The start that a plan makes after the progress of `standing`, as the sink meets it."""
    last, planned = standing.last_committed, standing.last_planned
    open_batch = planned if planned is not None and (last is None or planned > last) else None
    return PlannedStart(
        next_batch=0 if last is None else last + 1,
        query_id_kept=query_id_kept,
        reread=distance_of(reread),
        planned=open_batch,
        planned_rows=None if open_batch is None else _planned_rows(facts, open_batch),
        same_range=same_range,
        stateful=bool(facts.checkpoint.state_operators),
    )


def anew(facts: Facts) -> PlannedStart:
    """A start with batch 0 and an empty checkpoint: everything that was read is read again, a planned batch too."""
    rows = facts.counts.processed
    open_batch = start(facts, reconcile_report(facts.checkpoint), nothing(""), query_id_kept=False)
    return replace(
        open_batch, next_batch=0, reread=Distance(rows=None if rows is None else Amount(value=rows))
    )


def judge_risk(facts: Facts, of: PlannedStart) -> StartRisk:
    """What such a start does to the rows in this flow's sink."""
    return _writer(facts.sink).judge_risk(of, facts.sink)


def block(facts: Facts, of: PlannedStart) -> Blocker | None:
    """Why such a start must not be made at this sink, with the rows that would vanish; None when it may."""
    risk = judge_risk(facts, of)
    if not risk.bars:
        return None
    said = [risk.says]
    if risk.vanished:
        said.append(_waiting(facts))
    if risk.following is not None and not of.query_id_kept:
        said.append(DISAGREE.format(next=of.next_batch, following=risk.following))
    elif risk.do:
        said.append(risk.do)
    return Blocker(code=BlockerCode.SINK_BARS, says=" ".join(said))


def find_open_batch(facts: Facts, of: PlannedStart) -> int | None:
    """The batch that was planned and not committed; None where it is certain that no row of it comes twice."""
    alone = judge_risk(facts, replace(of, reread=ZERO)).doubled
    if of.planned is None or (alone is not None and alone.exact and not alone.value):
        return None
    return of.planned


def forecast_doubled(facts: Facts, of: PlannedStart, otherwise: str) -> RowAmount:
    """Rows that such a start writes a second time; `otherwise` is said where it is certain that there are none."""
    risk = judge_risk(facts, of)
    loose = at_least_once(facts)
    if risk.doubled is None:
        return RowAmount(rows=None, bound=Bound.UNKNOWN, why=risk.says)
    if is_nothing(risk.doubled) and not loose:
        again = of.reread.rows is None or of.reread.rows.value
        return RowAmount(rows=0, bound=Bound.EXACT, why=risk.says if again else otherwise)
    bound = joint_bound((risk.doubled.bound, Bound.AT_MOST.unless(not loose)))
    return RowAmount(rows=risk.doubled.value, bound=bound, why=risk.says)


def passes_over(facts: Facts) -> bool:
    """Whether a function of foreachBatch may pass over the numbers that a seed goes on with: its Delta table has one of
    them under an id that is not this query's, as `txnAppId` and `txnVersion` leave it. Which ids the function gives is
    not read."""
    last = reconcile_report(facts.checkpoint).last_committed
    following = 0 if last is None else last + 1
    return any(head >= following for head in _list_heads_of_function(facts))


def _list_heads_of_function(facts: Facts) -> list[int]:
    """Newest numbers under ids that are not this query's, in a Delta table that a function writes."""
    own, sink = facts.checkpoint.query_id, facts.sink
    return [head for app, head in sink.heads.items() if app != own] if sink.by_function else []


def findings(facts: Facts, of: PlannedStart) -> tuple[Finding, ...]:
    """That the sink is at-least-once, with the rows at risk."""
    risk = judge_risk(facts, of)
    if risk.bars:
        return ()
    passed_over = _skips_state(facts, of) if of.query_id_kept else _passes_over(facts)
    return (*_written_by_function(facts), *_run_too(facts), *_repeats(facts, risk), *passed_over)


def _written_by_function(facts: Facts) -> tuple[Finding, ...]:
    """What that makes of a row, it alone knows (`verification.functions`)."""
    if not facts.sink.by_function:
        return ()
    says = (
        "A function writes this table (foreachBatch). If it changes, filters or upserts what it gets (MERGE), the new "
        "rows are not those that the code yields: the table's growth is not forecast, and the recovery ends without "
        "proof."
    )
    do = "If it does, compare the new rows yourself after the run."
    return (Finding("FUNCTION_WRITES_TABLE", Severity.INFO, says, do),)


def _passes_over(facts: Facts) -> tuple[Finding, ...]:
    if not passes_over(facts):
        return ()
    says = (
        "The table has the numbers of the next batches under an id that is not this query's. Where the function gives "
        "that id (txnAppId), Delta skips what it writes, whatever rows they are."
    )
    do = "Look which txnAppId the function gives. Give it a new one, or put the old code back (revert) first."
    return (Finding("FUNCTION_MAY_PASS_OVER", Severity.WARNING, says, do),)


def _skips_state(facts: Facts, of: PlannedStart) -> tuple[Finding, ...]:
    """Of a batch that runs again. Source: StateStoreCoordinator of Spark 4.2."""
    if not of.stateful or not any(of.repeats(head) for head in _list_heads_of_function(facts)):
        return ()
    says = (
        f"The table has batch {of.planned} under an id that is not this query's. Where the function gives that id "
        "(txnAppId), Delta skips its write when the batch runs again, its state is not computed, and Spark fails the "
        "batch (STATE_STORE_COMMIT_VALIDATION_FAILED)."
    )
    do = "Let the function compute each batch before it writes it: batch.persist(), then batch.count()."
    return (Finding("FUNCTION_MAY_SKIP_STATE", Severity.WARNING, says, do),)


def _run_too(facts: Facts) -> tuple[Finding, ...]:
    """An update of a declared sink runs the whole pipeline, the start of a plain stream its whole program."""
    if not facts.beside:
        return ()
    names = ", ".join(flow.short for flow in facts.beside)
    if facts.is_plain:
        says = (
            f"A start of this stream starts its whole program: {names} too. What they write is not measured."
        )
        do = "Look at each of them first, and recover what fails."
        return (Finding("WHOLE_PROGRAM_RUNS", Severity.WARNING, says, do),)
    says = (
        f"Spark's selections name tables only, so an update of {facts.dataset} runs the whole pipeline: {names} too. "
        "What they write is not measured."
    )
    return (
        Finding("WHOLE_PIPELINE_RUNS", Severity.WARNING, says, "Repair or pause what must not run first."),
    )


def _repeats(facts: Facts, risk: StartRisk) -> tuple[Finding, ...]:
    if why := _writer(facts.sink).explain_at_least_once(facts.sink):
        return (
            Finding(
                "SINK_AT_LEAST_ONCE",
                Severity.WARNING,
                f"{why} At-least-once. {risk.says} At risk: {in_words(risk.doubled)}.",
                risk.do or "Let those who read it drop repeats by a key of the row.",
            ),
        )
    if not is_nothing(risk.doubled):
        return (Finding("SINK_DOUBLES", Severity.WARNING, risk.says, risk.do or "Read nothing again."),)
    return ()


def _planned_rows(facts: Facts, batch: int) -> Amount | None:
    """At most all that waits: a planned batch reads the first of it. None: not known, as where only a patch was run:
    the code that planned the batch may yield more rows."""
    if facts.old_counts is None and facts.new_code.files != facts.code.files:
        return None
    counts = [c.waiting for c in (facts.old_counts, facts.counts) if c is not None and c.waiting is not None]
    if not counts or any(s.start for s in facts.sources):
        return None
    why = f"all that waits, of which batch {batch} is the first"
    return Amount(value=max(counts), bound=Bound.AT_MOST, why=why)


def _waiting(facts: Facts) -> str:
    rows = facts.counts.waiting
    if rows is None:
        return "How many rows wait for them could not be counted."
    return f"At most {count_noun(rows, 'row')} would be among them." if rows else "No row waits for them now."
