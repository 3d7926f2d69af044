"""Repeats of a key that the code lets pass: whether the sink can be asked for them by that key. Pure."""

from recovery.contracts.amounts import Bound, RowAmount, joint_bound
from recovery.strategies import sinks, state_rows
from recovery.strategies.base import Facts


def are_told_by_key(facts: Facts) -> bool:
    """Whether a key is known by which the rows of the sink can be compared with those that come."""
    return bool(facts.new_code.key) and sinks.is_compared(facts.sink) and sinks.is_table(facts)


def with_uncounted(facts: Facts, counted: RowAmount) -> RowAmount:
    """`counted`, and what a dropDuplicates stopped that goes, where no one can ask by its key which of them come."""
    return counted if are_told_by_key(facts) else _with_unstopped(facts, counted)


def with_those_of_steps(facts: Facts, counted: RowAmount) -> RowAmount:
    """The same of code with further steps, where no count by key says what they write: a join or a limit may write a
    row for a repeat. An aggregation counts it into its group."""
    only_groups = set(facts.new_code.operators or ()) <= set(state_rows.AGGREGATIONS)
    return counted if only_groups else _with_unstopped(facts, counted)


def _with_unstopped(facts: Facts, counted: RowAmount) -> RowAmount:
    if not facts.drops_dedupe:
        return counted
    why = f"{counted.why} A dropDuplicates of the code goes: how many rows come that repeat one is not known."
    least = Bound.AT_LEAST if counted.rows == 0 else joint_bound((counted.bound, Bound.AT_LEAST))
    return counted.bounded(least, why)
