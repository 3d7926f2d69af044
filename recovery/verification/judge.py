"""Is the recovery proven? Pure: criteria fixed in the plan, measured values in, a verdict out.

A criterion that could not be measured is not met. Nothing here trusts a status word such as COMPLETED
to stand for rows.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from recovery.contracts.criteria import Criterion
from recovery.contracts.criterion_values import EXPECTED, ExpectedRows
from recovery.contracts.measured import JudgedCriterion, Verdict
from recovery.strategies.backfill import FILLED
from recovery.strategies.deduplicate import ONLY_REPEATS_DELETED
from recovery.strategies.downstream import AGREES
from recovery.strategies.sinks import not_required
from recovery.strategies.top_up import CHECKPOINT_UNTOUCHED, HAS_EVERY_ROW
from recovery.verification import below, checks, criteria, deduplicated, filled, functions, topped, whole
from recovery.verification.evidence import Evidence
from recovery.verification.finding import CriterionFinding

# each takes the value of its code (`criterion_values.EXPECTED`)
_CHECKS: dict[str, Callable[[Any, Evidence], CriterionFinding]] = {
    criteria.FIRST_BATCH_AT_POSITION: checks.first_batch_at_position,
    criteria.EACH_FILE_ONCE: checks.each_file_once,
    criteria.TABLE_GREW_BY_NEW_BATCHES: filled.table_grew,
    criteria.EVERY_ROW_ONCE: checks.every_row_once,
    criteria.COUNTS_EQUAL_FORECAST: checks.counts_equal_forecast,
    criteria.NOTHING_ELSE_CHANGED: checks.nothing_else_changed,
    criteria.ROWS_OF_BEFORE_UNTOUCHED: whole.rows_of_before_untouched,
    criteria.NO_KEY_TWICE: whole.no_key_twice,
    criteria.FURTHER_UPDATE_ADDS_NOTHING: checks.further_update_adds_nothing,
    FILLED: filled.filled_rows_as_before,
    HAS_EVERY_ROW: topped.table_has_every_row,
    CHECKPOINT_UNTOUCHED: topped.checkpoint_untouched,
    ONLY_REPEATS_DELETED: deduplicated.only_repeats_deleted,
    AGREES: lambda expected, evidence: below.downstream_agrees(expected, evidence.below),
}


def judge(
    strategy: str,
    planned: Sequence[Criterion],
    evidence: Evidence,
    *,
    edition: int = criteria.EDITION,
) -> Verdict:
    """The verdict over a plan's criteria.

    `edition`: of the proof, as the plan names it.

    A criterion that the strategy requires and the plan does not name counts as not measured, unless no one could
    measure it at this sink.
    """
    named = {c.code for c in planned}
    sink = evidence.sink_after
    without = frozenset[str]() if sink is None else not_required(sink)
    key = any(isinstance(c.expected, ExpectedRows) and c.expected.key for c in planned)
    must = criteria.required(strategy, edition=edition, key=key)
    absent = [c for c in must if c not in named and c not in without]
    judged = [_judge_criterion(c, evidence) for c in planned] + [_absent(code) for code in absent]
    return _reach_verdict(judged)


LATE: Final = frozenset({criteria.NOTHING_ELSE_CHANGED, criteria.FURTHER_UPDATE_ADDS_NOTHING})
"""What is measured once the further update has ended."""


def complete_verdict(first: Verdict, planned: Sequence[Criterion], evidence: Evidence) -> Verdict:
    """A verdict of before the further update, with the late criteria of the plan judged by this evidence: its
    `further`, `others_before`, `others_after`, and whether `measure` is of a topic."""
    late = {c.code: c for c in planned if c.code in LATE}
    judged = tuple(_judge_criterion(late[j.code], evidence) if j.code in late else j for j in first.criteria)
    return _reach_verdict(judged)


def _reach_verdict(judged: Sequence[JudgedCriterion]) -> Verdict:
    return Verdict(verified=bool(judged) and all(j.ok is True for j in judged), criteria=tuple(judged))


def _judge_criterion(criterion: Criterion, evidence: Evidence) -> JudgedCriterion:
    code, expected = criterion.code, criterion.expected
    words = criterion.says or criteria.says(code)
    check = _CHECKS.get(code)
    if check is None or not isinstance(expected, EXPECTED[code]):
        why = "This version does not know how to measure this."
        return JudgedCriterion(code=code, says=words, expected=expected, why=why)
    finding = functions.leave_open(code, check(expected, evidence), evidence)
    return JudgedCriterion(
        code=code, says=words, expected=expected, measured=finding.measured, ok=finding.ok, why=finding.why
    )


def _absent(code: str) -> JudgedCriterion:
    why = "The plan fixes no value to measure this against."
    return JudgedCriterion(code=code, says=criteria.says(code), why=why)
