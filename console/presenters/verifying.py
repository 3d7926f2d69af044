"""The proof: verdict, criteria with expected and measured, forecast against what happened, samples. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from console.presenters import status, words
from console.presenters.measured import say_measured
from console.presenters.reviewing import AcceptedRow, describe_expected
from console.presenters.wizard import AdviceRung
from recovery.contracts.amounts import Bound, RowAmount
from recovery.contracts.criteria import Criterion
from recovery.contracts.criterion_values import MeasuredKeys, MeasuredRowsBefore
from recovery.contracts.forecast import Forecast
from recovery.contracts.measured import JudgedCriterion, Measured, MeasuredRows
from recovery.contracts.names import Strategy
from recovery.contracts.value import DataRow
from recovery.models import Plan, Recovery, Step
from recovery.verification import words as proof
from recovery.verification.below import uncompared
from recovery.verification.criteria import COUNTS_EQUAL_FORECAST
from recovery.workflow.further import FurtherWay
from recovery.workflow.reporting import failed_at


@dataclass(frozen=True)
class ProofVerdict:
    kind: str
    title: str
    text: str
    #: which verdict this is, for `data-code` of the page
    code: str


def proof_verdict(
    recovery: Recovery,
    measured: Measured | None,
    accepted: Sequence[AcceptedRow] = (),
    forecast: Forecast | None = None,
) -> ProofVerdict:
    """One sentence that a person may rely on; never more than was measured. `accepted`: what the plan cost, and who
    accepted that. `forecast`: of the plan."""
    criteria = measured.criteria if measured else ()
    if recovery.state == "unproven":
        return ProofVerdict("attention", "Ended without proof.", recovery.reason, "unproven")
    if recovery.state == "rolled_back" and criteria:
        return ProofVerdict(
            "attention",
            "Rolled back after this was measured.",
            "The criteria below are of the state before the rollback. Nothing was measured since.",
            "rolled-back",
        )
    if recovery.state == "verifying":
        return ProofVerdict(
            "running",
            "The criteria are being measured.",
            "On Spark, in a fresh session. COMPLETED is not yet proof.",
            "measuring",
        )
    if measured is None or not criteria:
        return ProofVerdict(
            "unknown",
            "Nothing was measured yet.",
            "The criteria of the plan are measured after the rerun.",
            "not-measured",
        )
    said = (
        f"{measured.holding} of {len(criteria)} criteria hold, measured on Spark in a fresh session. "
        "They were fixed in the plan before anything ran."
    )
    if measured.verified:
        verdict = proof.headline(measured)
        if verdict.is_plain:
            return ProofVerdict("ok", verdict.says, said, "proven")
        text = " ".join([said, *acceptance_sentences(accepted)])
        code = "proven-table-differs" if verdict.differs else "proven-as-accepted"
        return ProofVerdict("attention", verdict.says, text, code)
    if wrong := measured.failed:
        return ProofVerdict(
            "failed",
            wrong[0].why or wrong[0].says,
            " ".join([*_off_forecast(forecast, measured), said, f"{recovery.label} stays open."]),
            "not-proven",
        )
    return ProofVerdict(
        "unknown",
        "Not proven: some criteria could not be measured.",
        f"{said} {recovery.label} stays open.",
        "not-all-measured",
    )


def _off_forecast(forecast: Forecast | None, measured: Measured) -> list[str]:
    """`Lost: 0 rows forecast, 2 rows measured.` of what was lost or doubled, else of the first number that is wrong."""
    wrong = [a for a in forecast_against_outcome(forecast, measured) if a.bad] if forecast else []
    costs = [a for a in wrong if a.word in ("Lost", "Doubled")] or wrong[:1]
    return [f"{a.word}: {a.forecast} forecast, {a.measured} measured." for a in costs]


def proof_badge(recovery: Recovery) -> status.Badge:
    """The state of a recovery, with the rows that a proof accepted or the criteria that fail."""
    measured: Measured | None = recovery.proof
    wrong = len(measured.failed) if measured else 0
    if recovery.state == "needs_attention" and measured and wrong:
        total = len(measured.criteria)
        return status.Badge("failed", f"{wrong} of {total} criteria {'fails' if wrong == 1 else 'fail'}")
    if recovery.state == "succeeded" and (cost := proven_with(measured)):
        return status.Badge("attention", f"Proven, {cost}")
    return status.state_badge(status.RECOVERY, recovery.state)


def proven_with(measured: Measured | None) -> str:
    """What keeps a proof from being plainly green: its cost, or what its comparison found; "" for nothing."""
    return accepted_cost(measured) or ("table differs" if table_differs(measured) else "")


def table_differs(measured: Measured | None) -> bool:
    """Whether a proof that holds found that the table lacks or repeats rows since before its recovery."""
    proven = measured is not None and measured.verified and bool(measured.criteria)
    return measured is not None and proven and proof.headline(measured).differs


def accepted_cost(measured: Measured | None) -> str:
    """`6 rows doubled`, `9 rows lost`, or both: what a proof of these numbers accepted; "" where it cost nothing."""
    if measured is None or not measured.verified or not measured.criteria:
        return ""
    costs = ((proof.given_up(measured), "lost"), (proof.count_repeats(measured), "doubled"))
    return ", ".join(proof.say_cost(rows, word) for rows, word in costs if rows.rows != 0)


def acceptance_sentences(accepted: Sequence[AcceptedRow]) -> list[str]:
    """Who accepted what the plan cost, and why: a sentence each."""
    return [f"{a.by} accepted: {a.says}." + (f" “{a.reason}”" if a.reason else "") for a in accepted]


def _rung_of_further(way: FurtherWay) -> AdviceRung:
    if way.strategy is Strategy.DEDUPLICATE:
        return AdviceRung(
            f"Delete the {way.says}, once",
            "Plans a one-time read of the input that was read, and deletes rows that the table has too often "
            "(deduplicate): only such that are equal in every column to one that stays. The flow and its checkpoint "
            "stay as they are. It is counted again, and you see its forecast, before it runs.",
            ("Recommended", "Deletes only", "Can be undone"),
            first=True,
            code=way.strategy.value,
        )
    rows = way.says
    return AdviceRung(
        f"Add the {rows}, once",
        "Plans a one-time read of the input that was read, which writes only keys that the table lacks (top-up). The "
        "flow and its checkpoint stay as they are. It is counted again, and you see its forecast, before it runs.",
        ("Recommended", "Adds only"),
        first=True,
        code=way.strategy.value,
    )


def _rung_of_end(no_skip: str | None, *, is_recommended: bool) -> AdviceRung:
    """`is_recommended`: as the plan said, the new rows can never be compared."""
    if no_skip:
        return AdviceRung("End without proof", no_skip, ("Not possible",), code="never-skipped")
    says = "With your reason. What did not hold stays in the report and in every message."
    if is_recommended:
        says = f"Compare the new rows yourself first: the plan said that they cannot be compared here. {says}"
    return AdviceRung(
        "End without proof",
        says,
        (*(("Recommended",) if is_recommended else ()), "Needs a reason", "Reviewed in production"),
        first=is_recommended,
        code="end-without-proof",
    )


def misread_columns(measured: Measured | None) -> tuple[str, ...]:
    """Columns that no schema reads in the earlier and in the new data files; () where none is known."""
    judged = measured.criterion("ROWS_OF_BEFORE_UNTOUCHED") if measured else None
    found = judged.measured if judged else None
    return found.misread if isinstance(found, MeasuredRowsBefore) else ()


def _rung_of_misread(columns: Sequence[str]) -> AdviceRung:
    return AdviceRung(
        "Rewrite the older files with the new type, or write into a new table",
        f"The code now writes {', '.join(columns)} in another type than the earlier files have, so no one schema reads "
        "both. Stop the flow; rewrite the older files by hand with the types of the code, or give it a new table. "
        "Then end this recovery without proof: its earlier rows are no longer in the files that it knew.",
        ("Recommended", "By hand"),
        first=True,
        code="rewrite-or-new-table",
    )


def ways_on(
    verdict: ProofVerdict,
    refusal: str | None,
    no_skip: str | None,
    *,
    misread: Sequence[str] = (),
    way: FurtherWay | None = None,
    run_noun: str = "update",
    is_beyond_proof: bool = False,
) -> list[AdviceRung]:
    """What can be done about a proof that does not hold, safest first; [] where there is nothing to do.

    `refusal`: why it cannot be rolled back, `no_skip`: why it cannot be ended without proof; None: it can. `way`: that
    of a further plan. `run_noun`: what measuring again starts once more (`Workspace.run_noun`); "": nothing.
    `is_beyond_proof`: as the plan said, the new rows can never be compared. `misread`: `misread_columns`.
    """
    if verdict.code not in ("not-proven", "not-all-measured"):
        return []
    failed = verdict.code == "not-proven"
    ask = AdviceRung(
        "Ask who owns the input first",
        "If it was changed on purpose, the source may be wrong and not the table. Nothing starts meanwhile.",
        ("Changes nothing",) if way else ("Recommended", "Changes nothing"),
        first=not way,
        code="ask-owner",
    )
    again = AdviceRung(
        "Measure again",
        f"Measures every criterion again, and starts one further {run_noun} to see that it adds nothing."
        if run_noun
        else "Measures every criterion again, and changes nothing.",
        (f"Reads, and starts one {run_noun}" if run_noun else "Changes nothing",)
        if failed or is_beyond_proof
        else ("Recommended",),
        first=not failed and not is_beyond_proof,
        code="measure-again",
    )
    back = AdviceRung(
        "Roll back",
        refusal
        or "Undoes what it changed: checkpoint, source and, after a backfill, replay, top-up or deduplicate, the "
        "table. Ends this recovery.",
        ("Not possible",) if refusal else ("Cannot be undone",),
        code="not-undoable" if refusal else "rollback",
    )
    ends = is_beyond_proof and not no_skip
    end = _rung_of_end(no_skip, is_recommended=ends)
    if ends:
        return [end, again, back]
    if failed and misread:
        return [_rung_of_misread(misread), again, back, end]
    add = [_rung_of_further(way)] if way else []
    return [*add, ask, again, back, end] if failed else [again, back, end]


@dataclass(frozen=True)
class CriterionRow:
    number: int
    says: str
    expected: str
    measured: str
    badge: status.Badge
    why: str
    code: str
    #: whether the proof has an answer of it, or why there is none
    was_measured: bool = False
    #: the batch that it looked at; None: none, or not known
    batch: int | None = None


def criterion_rows(measured: Measured | None, planned: Sequence[Criterion]) -> list[CriterionRow]:
    """Failing ones first, then unknown, then those that hold, first as accepted. Before the measurement: as planned."""
    judged = (measured.criteria if measured else ()) or [
        JudgedCriterion(code=criterion.code, says=criterion.says, expected=criterion.expected)
        for criterion in planned
    ]
    rows = [
        CriterionRow(
            number,
            criterion.says,
            describe_expected(criterion.expected),
            say_measured(criterion.measured),
            _result_badge(criterion),
            criterion.why,
            criterion.code,
            criterion.ok is not None or bool(criterion.why),
            criterion.measured_number("batch"),
        )
        for number, criterion in enumerate(judged, start=1)
    ]
    rank = {"failed": 0, "unknown": 1, "attention": 2, "ok": 3}
    return sorted(rows, key=lambda r: rank[r.badge.kind])


def _result_badge(criterion: JudgedCriterion) -> status.Badge:
    keys = criterion.measured
    if criterion.ok is True and isinstance(keys, MeasuredKeys) and keys.accepted:
        return status.Badge("attention", "Holds, as accepted")
    return status.criterion_badge(criterion.ok)


def count_criteria(rows: Sequence[CriterionRow]) -> str:
    number = {k: sum(r.badge.kind == k for r in rows) for k in ("ok", "attention", "failed", "unknown")}
    accepted = f" ({number['attention']} as accepted)" if number["attention"] else ""
    holds = number["ok"] + number["attention"]
    return f"{holds} hold{accepted}, {number['failed']} fail, {number['unknown']} unknown"


@dataclass(frozen=True)
class ForecastComparison:
    word: str
    forecast: str
    measured: str
    difference: str
    bad: bool
    #: rows that are lost or doubled, as forecast
    costs: bool = False
    #: what the criterion that counted it found
    how: str = ""


HOW: Final = {
    "Lost": "EVERY_ROW_ONCE",
    "Doubled": "NO_KEY_TWICE",
    "New rows": COUNTS_EQUAL_FORECAST,
    "Rows in the table": "TABLE_GREW_BY_NEW_BATCHES",
}
"""Which criterion counted each number."""


NOT_KNOWN: Final = "not known"
NO_COUNT: Final = "The plan fixed no count of rows: it could not be forecast exactly."


def forecast_against_outcome(forecast: Forecast, measured: Measured) -> list[ForecastComparison]:
    """Forecast against what happened, where both are numbers. Of `lost` and `doubled` what this recovery did."""
    reasons = {criterion.code: criterion.why for criterion in measured.criteria}
    rows = [
        *_compare_amounts(forecast, measured),
        *(
            _compare_numbers(word, planned, found_rows)
            for word, planned, found_rows in (
                ("New rows", forecast.new_rows, measured.new_rows),
                ("Rows in the table", forecast.table_after, measured.table_rows),
            )
            if word == "New rows" or {planned, found_rows} != {None}
        ),  # there is no table
    ]
    judged = measured.criterion(COUNTS_EQUAL_FORECAST)
    return [_judge_count(replace(row, how=reasons.get(HOW[row.word], "")), judged) for row in rows]


def _judge_count(row: ForecastComparison, judged: JudgedCriterion | None) -> ForecastComparison:
    """A count that differs is wrong only if its criterion is: input that came after the seal is no error, nor is
    another number where the plan fixed none."""
    if row.word in ("Lost", "Doubled") or not row.bad or (judged and judged.ok is False):
        return row
    return replace(row, bad=False, how=judged.why if judged else NO_COUNT)


def _compare_amounts(forecast: Forecast, measured: Measured) -> list[ForecastComparison]:
    """Rows lost and doubled by this recovery."""
    return [
        _compare_amount("Lost", forecast.lost, measured.lost_now),
        _compare_amount("Doubled", forecast.doubled, measured.doubled_now),
    ]


def _compare_amount(word: str, planned: RowAmount, measured: MeasuredRows) -> ForecastComparison:
    """The difference is known only where the measured number is exact; a lower bound may show that the forecast was
    wrong."""
    rows, bound = planned.rows, planned.bound
    compared = _compare_numbers(word, rows, measured.rows)
    if rows is None:
        return compared
    compared = replace(compared, forecast=f"{bound.before_number}{compared.forecast}")
    if measured.rows is None:
        return compared
    more = measured.rows > rows and measured.bound in (Bound.EXACT, Bound.AT_LEAST)
    bad = compared.bad if bound is Bound.EXACT and measured.bound is Bound.EXACT else more
    return replace(
        compared,
        measured=f"{measured.bound.before_number}{compared.measured}",
        difference=compared.difference if measured.bound is Bound.EXACT else NOT_KNOWN,
        bad=bad and bound in (Bound.EXACT, Bound.AT_MOST),
        costs=measured.rows > 0,
    )


@dataclass(frozen=True)
class WholeRow:
    kind: str
    says: str
    code: str


MARKS = {proof.FlowCode.AGREES: "ok", proof.FlowCode.GONE: "info", proof.FlowCode.NOT_COMPARED: "unknown"}


def whole_flow(measured: Measured | None) -> list[WholeRow]:
    """How all input that is there compares with the whole table: findings, which prove nothing of the recovery."""
    findings = proof.whole_findings(measured)
    return [WholeRow(MARKS.get(f.code, "attention"), f.says, f.code.value) for f in findings]


def list_limits(measured: Measured | None) -> list[WholeRow]:
    """What a budget kept from being compared."""
    return [WholeRow("info", f.says, f.by.value) for f in proof.bound_findings(measured)]


@dataclass(frozen=True)
class NotMeasured:
    kind: str
    says: str
    small: str
    code: str


def not_measured(measured: Measured | None) -> list[NotMeasured]:
    """What a proof does not speak of; [] before the measurement."""
    if measured is None or not measured.criteria:
        return []
    rows = [
        NotMeasured(
            "unknown", f"Whether the rows of {u.says} are right", "its update is COMPLETED", "rows-below"
        )
        for u in uncompared(measured)
    ]
    rows += [NotMeasured(b.kind, b.says, "", f"bounded-{b.code}") for b in list_limits(measured)]
    again = proof.count_repeats(measured)
    if again.rows != 0:
        what = (
            "the repeats"
            if again.rows is None
            else f"the {words.format_count(again.rows, 'row')} that are there again"
        )
        rows.append(NotMeasured("unknown", f"What readers made of {what}", "", "readers-of-repeats"))
    outside = "programs of their own, notebooks, reports"
    rows.append(
        NotMeasured(
            "info", "Readers outside of the registered workspaces", outside, "readers-outside-not-known"
        )
    )
    return rows


def whole_facts(measured: Measured | None) -> list[tuple[str, str]]:
    """What was compared, in numbers; [] where it was not."""
    whole = measured.whole if measured else None
    if measured is None or whole is None or whole.why:
        return []
    by = ", ".join(measured.key) or "the whole row"
    others = [words.format_count(whole.others, "other source")] if whole.others else []
    files = [words.format_count(whole.files, "file")] if whole.files or not others else []
    return [
        ("Input", f"{words.format_count(whole.input_rows, 'row')} of {' and '.join([*files, *others])}"),
        ("Table", f"{words.format_count(whole.table_rows, 'row')}, by {by}"),
    ]


def _compare_numbers(word: str, planned: int | None, measured: int | None) -> ForecastComparison:
    if planned is None or measured is None:
        return ForecastComparison(word, _known_rows(planned), _known_rows(measured), NOT_KNOWN, False)
    gap = measured - planned
    sign = "0" if gap == 0 else f"{'+' if gap > 0 else '−'}{abs(gap):,}"
    return ForecastComparison(
        word, words.format_count(planned, "row"), words.format_count(measured, "row"), sign, gap != 0
    )


def _known_rows(rows: int | None) -> str:
    return NOT_KNOWN if rows is None else words.format_count(rows, "row")


@dataclass(frozen=True)
class Sample:
    title: str
    columns: list[str]
    rows: list[list[str]]


def sample_rows(measured: Measured | None) -> list[Sample]:
    """Rows that are too many, as Spark showed them; missing ones are in `missing_rows`."""
    shown_rows = []
    for name, sample in (measured.samples if measured else {}).items():
        if not sample or name == "missing":
            continue
        records = [_columns_of(row) for row in sample]
        columns = list(dict.fromkeys(c for r in records for c in r))
        rows = [[_verbatim_text(r[c]) if c in r else "" for c in columns] for r in records[:50]]
        shown_rows.append(Sample(name.replace("_", " ").capitalize(), columns, rows))
    return shown_rows


def _columns_of(row: DataRow) -> DataRow:
    """A column for each part of the key, and how often it is there; of one without a key, as it is."""
    key = row.get("key")
    return {**key, "times": row.get("times", 1)} if isinstance(key, Mapping) else row


def _verbatim_text(value: object) -> str:
    """A value of a row as it is in the data: no separators, no words."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def list_times(
    recovery: Recovery, plan: Plan | None, steps: Sequence[Step]
) -> list[tuple[str, words.StoredMoment, str]]:
    """From the failure to the proof."""
    rerun = next((s for s in steps if s.kind == "rerun" and s.state == "done"), None)
    of_plan = [s for s in steps if plan and s.plan_id == plan.pk and plan.contents.corrects_table]
    changed = next((s for s in of_plan if plan and s.kind == plan.contents.changing_step), None)
    rows: list[tuple[str, words.StoredMoment, str]] = [
        ("Failed", failed_at(recovery), ""),
        ("Recovery opened", recovery.created_at, f"by {recovery.created_by}"),
        ("Plan sealed", plan.sealed_at if plan else None, f"by {plan.sealed_by}" if plan else ""),
        ("Rerun ended", rerun.ended_at if rerun else None, ""),
        (
            "Rows deleted" if changed and changed.kind == "deduplicate" else "Rows added",
            changed.ended_at if changed else None,
            "",
        ),
        (
            "Proven" if recovery.state == "succeeded" else "Measured",
            recovery.proof.at if recovery.proof else None,
            "",
        ),
    ]
    return [r for r in rows if r[1]]
