"""Rows into what pages show: pure, and exact to the word where people decide on it."""

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from console.presenters import (
    auditing,
    checkpoint,
    events,
    inventory,
    patching,
    reviewing,
    running,
    verifying,
    wizard,
)
from console.presenters.measured import say_measured
from recovery.checkpoints.report import Finding, Severity
from recovery.contracts import codec, criterion_values
from recovery.contracts.diagnosis import ChainedError, Diagnosis
from recovery.contracts.facts import GatheredFacts
from recovery.contracts.names import ChangeIntent
from recovery.contracts.positions import PositionChange
from recovery.diagnosis import guide
from recovery.diagnosis.advice import meant_of
from recovery.diagnosis.verdict import judge_flow
from recovery.management.commands import diagnose
from recovery.models import Flow, Pipeline, Workspace
from recovery.strategies.catalogue import EXECUTABLE
from recovery.strategies.recommending import recommended_strategy
from tests import factories as f


def test_only_a_strategy_that_this_version_can_run_can_be_pressed() -> None:
    blocked_by_code = f.judged_option("revert", blocked="…", blocker={"code": "old_code_unknown"})

    options = [*f.judged_options()[:1], blocked_by_code, *f.judged_options()[3:]]
    compare = wizard.compare_strategies(options, "", EXECUTABLE, recommended="continue")

    assert [(c.disabled, c.checked) for c in compare.columns] == [(False, True), (False, False)]
    assert [w.strategy for w in compare.folded] == ["empty"]


@pytest.mark.parametrize(
    ("chosen", "recommended", "checked"),
    [
        ("", "", []),
        ("", "revert", ["revert"]),
        ("continue", "revert", ["continue"]),
        ("", "full-refresh", []),
        ("full-refresh", "", ["full-refresh"]),
    ],
)
def test_only_what_is_recommended_and_can_be_undone_is_preselected(
    chosen: str, recommended: str, checked: list[str]
) -> None:
    columns = wizard.compare_strategies(
        f.judged_options(), chosen, EXECUTABLE, recommended=recommended
    ).columns

    assert [c.strategy for c in columns if c.checked] == checked
    assert [c.strategy for c in columns if c.recommended] == ([recommended] if recommended else [])


def test_what_was_counted_to_lose_rows_is_recommended_on_no_page() -> None:
    options = [f.judged_option("continue", forecast={"lost": f.amount(9)}), f.judged_option("revert")]

    assert not any(
        "Recommended" in r.tags for r in wizard.advice_ladder(f.DIAGNOSIS, ChangeIntent.YES, options)
    )
    assert recommended_strategy(options, f.DIAGNOSIS, ChangeIntent.YES) == ""


@pytest.mark.parametrize(
    ("meant", "first"), [(None, []), ("unknown", []), ("yes", ["advice-continue"]), ("no", ["advice-revert"])]
)
def test_the_ladder_recommends_what_the_answer_makes_right(meant: str | None, first: list[str]) -> None:
    rungs = wizard.advice_ladder(f.DIAGNOSIS, meant_of(meant), f.judged_options())

    assert [r.code for r in rungs if "Recommended" in r.tags] == first
    assert [r.code for r in rungs if r.first] == first


def test_a_forecast_that_is_not_known_is_marked_as_bad_for_rows_lost_and_never_shown_as_zero() -> None:
    lost, doubled, reread = wizard.forecast_view(
        f.forecast_of(lost=f.amount(None, exact=False), reread=f.amount(13, 4))
    )

    assert (lost.rows, lost.unit, lost.tag, lost.text, lost.bad) == ("not known", "", "", "not known", True)
    assert (doubled.rows, doubled.bad) == ("0", False)
    assert (reread.text, reread.bad) == ("13 rows (exact)", False)


def moved(stored: dict[str, Any]) -> PositionChange:
    return codec.read(PositionChange, stored)


def test_a_position_says_what_is_read_first_and_whether_it_can_be_read() -> None:
    kept, anew = wizard.position_rows([moved(f.position()), moved(f.position("start"))])

    assert (kept.same, anew.same) == ("same place, same bytes", "begins again")
    assert re.findall(r"(\d+) (\w+)", kept.next_says) == [("3", "files"), ("8", "rows")]
    assert kept.next_says.endswith("exact")
    assert (kept.readable.kind, kept.readable_says) == ("ok", "7 of 7 files")


def test_safe_to_wait_is_not_claimed_before_the_files_were_read() -> None:
    before = wizard.trouble_summary(f.DIAGNOSIS, GatheredFacts())
    after = wizard.trouble_summary(f.DIAGNOSIS, codec.read(GatheredFacts, f.facts()))

    assert (before[2].code, after[2].code) == ("not-asked-yet", "while-files-stay")
    assert "8 rows in 3 files" in after[1].text


@pytest.mark.parametrize(
    ("severity", "means"),
    [(1, "a fact"), (2, "fix and start again"), (3, "waits for your decision"), (4, "something is damaged"),
     (5, "data is at risk")],
)  # fmt: skip
def test_how_bad_it_is_has_the_same_words_on_the_page_in_the_command_and_in_the_documentation(
    severity: int, means: str
) -> None:
    found = f.DIAGNOSIS.model_copy(update={"severity": severity})
    pipeline = Pipeline(name="customers", workspace=Workspace(name="dev"))
    flow = Flow(name="spark_catalog.default.flow", pipeline=pipeline)

    assert wizard.trouble_summary(found, GatheredFacts())[1].answer == means.capitalize()
    assert f"Severity   {severity} of 5, {means}\n" in diagnose.text(flow, found)
    assert f"{severity} {means}" in guide.HEAD


def test_of_a_topic_its_own_records_wait_and_retention_says_how_long() -> None:
    """What Spark makes of them is another number: rows of a count by minute."""
    facts = f.facts(waiting_files=[], processed_files=0, waiting_rows=2)
    facts["options"][0]["positions"] = [
        {
            **f.position(), "kind": "kafka", "readable": {"ok": True, "says": "all 90 records that wait"},
            "next": {"name": "clicks partition 0 at 90", "mtime_ms": None, "files": 0, "rows": 90, "exact": True},
            "reach": {"readable": True, "why": "", "until_ms": 1798017600000},
        }
    ]  # fmt: skip

    _, bad, wait = wizard.trouble_summary(f.DIAGNOSIS, codec.read(GatheredFacts, facts))

    assert "90 rows" in bad.text
    assert wait.code == "until-retention"
    assert "23 Dec 2026, 09:20 UTC" in wait.text


@pytest.mark.parametrize(("ok", "answer"), [(False, "No"), (None, "Not known"), (True, "Yes, as long as")])
def test_waiting_is_not_safe_when_a_file_is_gone_and_not_known_when_nobody_could_ask(
    ok: bool | None, answer: str
) -> None:
    facts = f.facts()
    facts["options"][0]["positions"][0]["readable"] = {"ok": ok, "says": "6 of 7 files"}

    assert wizard.trouble_summary(f.DIAGNOSIS, codec.read(GatheredFacts, facts))[2].answer.startswith(answer)


@pytest.mark.parametrize(
    ("code", "word"),
    [
        (None, "Not known"),
        (["dedupe"], "Compatible"),
        ([], "Not compatible"),
        (["stateStoreSave"], "Not compatible"),
    ],
)
def test_the_operators_of_checkpoint_and_code_are_compared_place_by_place(
    code: list[str] | None, word: str
) -> None:
    told = codec.read(Diagnosis, {"operators": {"checkpoint": ["dedupe"], "code": code}})

    assert [o.badge.word for o in wizard.operator_rows(told)] == [word]
    verdict = judge_flow(f.REPORT, code=code)
    assert checkpoint.operator_rows(f.CHECKPOINT, verdict)[0].badge.word == word


def test_a_checkpoint_with_a_blocker_is_damaged_whatever_else_it_has() -> None:
    blocker = Finding("X", Severity.BLOCKER, "offsets/2 is empty.", "Mend it.")
    verdict = judge_flow(replace(f.REPORT, findings=(*f.REPORT.findings, blocker)), code=None)

    badge, says = checkpoint.judge_fit(verdict)

    found = checkpoint.finding_rows([f.as_dict() for f in verdict.findings])
    assert (badge.word, says) == ("Damaged", "offsets/2 is empty.")
    assert checkpoint.count_findings(found) == "1 blocker, 0 warnings, 1 note"
    assert found[0].kind == "blocker"


def test_an_intact_checkpoint_that_does_not_fit_the_code_is_never_shown_as_good() -> None:
    verdict = judge_flow(f.REPORT, code=[])

    badge, _ = checkpoint.judge_fit(verdict)

    found = checkpoint.finding_rows([f.as_dict() for f in verdict.findings])
    assert (badge.kind, found[0].code, found[0].kind) == ("failed", "STATE_OPERATOR_NOT_IN_CODE", "blocker")
    assert [r.outcome for r in found] == ["fails", ""]


def test_the_restart_point_is_the_last_committed_batch() -> None:
    rows = checkpoint.batch_rows(f.CHECKPOINT)

    assert [(r.batch, r.committed, r.restart) for r in rows] == [
        (3, False, False), (2, True, True), (1, True, False), (0, True, False),
    ]  # fmt: skip
    assert [(s.read, s.planned, s.last) for s in checkpoint.source_rows(f.CHECKPOINT)] == [
        (4, 1, "changes-0004.json")
    ]


def test_events_of_other_flows_are_left_out_and_those_of_the_whole_update_are_not() -> None:
    from tests.pipelines_api import EVENTS, FLOW

    rows = events.of_flow(EVENTS, FLOW)

    assert [r.id for r in rows] == ["e-27", "e-26", "e-20", "e-2"]
    assert events.opened_event(rows, "") == "e-26"
    assert events.opened_event(rows, "e-20") == "e-20"
    assert [
        r.id
        for r in events.filter_events(
            rows, events.EventFilter.from_query({"level": "ERROR", "text": "stateful OPERATOR"})
        )
    ] == ["e-26"]
    assert [c.root for c in rows[1].causes] == [False, True]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (f.MESSAGE, "Streaming stateful operator name does not match with the operator in state metadata."),
        ("", "It failed; the error was not recorded."),
        ("no full stop", "no full stop."),
        ("x" * 300, "x" * 199 + "…"),
    ],
)
def test_an_error_is_told_by_its_first_sentence(message: str, said: str) -> None:
    assert inventory.first_sentence([ChainedError(message="outer"), ChainedError(message=message)]) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"batch": 3, "offsets": ['{"logOffset":2}']}, 'batch 3, offsets {"logOffset":2}'),
        ({"new_rows": 1204880}, "new rows 1,204,880"),
        (None, "not measured"),
        ({}, "–"),
        ([], "none"),
        (True, "yes"),
        (list(range(9)), "0, 1, 2, 3, 4, 5 and 3 more"),
    ],
)
def test_a_measured_value_is_said_in_words(value: object, said: str) -> None:
    assert reviewing.plain_value(value) == said


@pytest.mark.parametrize(
    ("code", "value", "said"),
    [
        (
            "EACH_FILE_ONCE",
            {"files": 7, "missing": 0, "more_than_once": 0},
            "7 files, 0 missing, 0 twice",
        ),
        (
            "EACH_FILE_ONCE",
            {"files": 0, "missing": 0, "more_than_once": 0, "positions": {"0": {"t": {"0": 9}}}},
            'reached 0 {"t":{"0":9}}',
        ),
        ("EACH_FILE_ONCE", {"files": 0, "missing": 2, "more_than_once": 0}, "0 files, 2 missing, 0 twice"),
        (
            "ROWS_OF_BEFORE_UNTOUCHED",
            {"rows": 12, "files": 6, "touched": 0, "rewritten": 0},
            "12 rows in 6 files, 0 files changed",
        ),
        (
            "ROWS_OF_BEFORE_UNTOUCHED",
            {"rows": 12, "files": None, "touched": 0, "rewritten": 3, "vanished": 1},
            "12 rows, 1 row gone",
        ),
        (
            "TABLE_GREW_BY_NEW_BATCHES",
            {"before": 12, "after": 20, "new_batches": 8},
            "12 → 20 rows, 8 by the new batches",
        ),
        (
            "TABLE_GREW_BY_NEW_BATCHES",
            {"new_batches": 8, "filled": 4, "after": 12},
            "12 rows, 8 by the new batches, 4 filled back",
        ),
        (
            "FILLED_ROWS_AS_BEFORE",
            {"due": 4, "filled": 3, "missing": 1, "extra": 0, "backup_rows": 9, "key": ["id"]},
            "3 of 4 rows filled back, 1 missing, 0 too many; 9 in the backup",
        ),
        (
            "EVERY_ROW_ONCE",
            {"expected": 8, "found": 7, "missing": 1, "extra": 0, "repeats_added": 2},
            "7 of 8 rows, 1 missing, 0 too many, 2 repeat a key",
        ),
        (
            "EVERY_ROW_ONCE",
            {
                "expected": 8,
                "found": 8,
                "missing": 0,
                "extra": 0,
                "repeats_added": 0,
                "table_only": ["tax", "vat"],
            },
            "8 of 8 rows, 0 missing, 0 too many; tax, vat not compared",
        ),
        ("EVERY_ROW_ONCE", {"records": 3, "of_others": 1}, "records 3, of others 1"),
        (
            "NO_KEY_TWICE",
            {"rows": 2, "keys": 1, "accepted": 0, "table_keys": 19, "key": ["id"]},
            "2 rows with a key that is there twice; 19 keys in the table",
        ),
        ("NOTHING_ELSE_CHANGED", {"watched": 2, "changed": []}, "2 watched, none changed"),
        (
            "ONLY_REPEATS_DELETED",
            {"deleted": 3, "vanished": 0, "added": 0, "before": 21},
            "3 rows deleted, 0 of which none is left; 0 came",
        ),
        (
            "FURTHER_UPDATE_ADDS_NOTHING",
            {"rows_before": 20, "rows_after": 20, "data_files": 0},
            "20 → 20 rows, 0 data files changed",
        ),
        ("FURTHER_UPDATE_ADDS_NOTHING", {"state": "FAILED"}, "it ended as FAILED"),
        ("A_CODE_OF_LATER", {"files": 1}, "files 1"),
        ("EVERY_ROW_ONCE", None, "not measured"),
    ],
)
def test_what_a_criterion_measured_is_said_in_words(code: str, value: object, said: str) -> None:
    assert say_measured(criterion_values.read_measured(code, value)) == said


@pytest.mark.parametrize(
    ("code", "value", "said"),
    [
        (
            "EACH_FILE_ONCE",
            {"scope": "both", "files": 7},
            "7 files, each in one batch of old and new version together",
        ),
        ("EACH_FILE_ONCE", {"scope": "new", "files": 1}, "1 file, each in one batch of the new version"),
        ("EACH_FILE_ONCE", {"scope": "same", "files": 2}, "2 files, each in one batch of the version in use"),
        (
            "EACH_FILE_ONCE",
            {"scope": "new", "files": 0},
            "each batch of the new version begins where the one before it ended, and all that waited is read",
        ),
        ("TABLE_GREW_BY_NEW_BATCHES", {"before": 12}, "12 rows and those that the new batches wrote"),
        ("TABLE_GREW_BY_NEW_BATCHES", {}, "the earlier rows and those that the new batches wrote"),
        ("EVERY_ROW_ONCE", {"key": ["a", "b"]}, "none missing, none too many, by a, b"),
        ("EVERY_ROW_ONCE", {"scope": "new", "key": []}, "none missing, none too many, by the whole row"),
        ("FURTHER_UPDATE_ADDS_NOTHING", {}, "the same rows and data files"),
        (
            "EVERY_ROW_ONCE",
            {"key": ["a"], "whole_rows": True},
            "none missing, none too many, by every column",
        ),
        ("NO_KEY_TWICE", {"key": ["a"], "accepted": {"rows": 0, "bound": "exact"}}, "none by a"),
        (
            "NO_KEY_TWICE",
            {"key": ["a"], "accepted": {"rows": 60, "bound": "at most"}},
            "none by a, but at most 60 rows, as accepted",
        ),
        ("ROWS_OF_BEFORE_UNTOUCHED", {"rows": 12}, "12 rows as they were"),
        (
            "ONLY_REPEATS_DELETED",
            {"rows": 3, "before": 21},
            "3 rows deleted, each equal to one that stays; none came",
        ),
        ("NOTHING_ELSE_CHANGED", {}, "files of what is watched as they were"),
        ("COUNTS_EQUAL_FORECAST", {"new_rows": 8}, "new rows 8"),
        ("EACH_FILE_ONCE", {"files": None}, "files none"),
        ("SOMETHING_NEW", "x", "x"),
    ],
)
def test_what_a_criterion_expects_is_said_in_words(code: str, value: object, said: str) -> None:
    assert reviewing.describe_expected(criterion_values.read_expected(code, value)) == said


UNMEASURED = {"code": "EVERY_ROW_ONCE", "says": "", "expected": {}, "measured": None, "ok": None, "why": ""}


def test_the_verdict_claims_exactly_once_only_when_the_measurement_does() -> None:
    recovery = SimpleNamespace(state="succeeded", label="R-1")

    assert verifying.proof_verdict(recovery, f.proof()).code == "proven"
    assert verifying.proof_verdict(recovery, f.proof(False)).code == "not-proven"
    assert verifying.proof_verdict(recovery, f.proof(False, criteria=[UNMEASURED])).code == "not-all-measured"
    assert verifying.proof_verdict(recovery, None).code == "not-measured"


def test_rows_that_are_there_twice_as_accepted_are_no_plain_green() -> None:
    told = f.proof(repeats=6)
    found = verifying.proof_verdict(SimpleNamespace(state="succeeded", label="R-1"), told)
    lost, doubled, *_ = verifying.forecast_against_outcome(
        f.forecast_of(doubled=f.amount(6), new_rows=8), told
    )

    assert (found.kind, found.code) == ("attention", "proven-as-accepted")
    assert [(a.measured, a.bad) for a in (lost, doubled)] == [("0 rows", False), ("6 rows", False)]
    assert [r.code for r in verifying.whole_flow(told)] == ["doubled", "gone"]
    assert verifying.whole_facts(f.proof())[0] == ("Input", "21 rows of 7 files")


@pytest.mark.parametrize(
    ("changes", "code", "word"),
    [
        ({"lost": 3, "lost_before": 3}, "proven-table-differs", "Proven, table differs"),
        ({"doubled": 5, "doubled_before": 5}, "proven-table-differs", "Proven, table differs"),
        ({}, "proven", "Proven"),
    ],
)
def test_a_proof_whose_own_comparison_found_other_rows_is_no_plain_green(
    changes: dict[str, object], code: str, word: str
) -> None:
    measured = f.proof(**changes)
    recovery = SimpleNamespace(state="succeeded", label="R-1", proof=measured)
    verdict, badge = verifying.proof_verdict(recovery, measured), verifying.proof_badge(recovery)
    kind = "ok" if code == "proven" else "attention"
    assert (verdict.kind, verdict.code, badge.kind, badge.word) == (kind, code, kind, word)


def test_a_bound_that_was_kept_is_no_wrong_forecast() -> None:
    most = {**f.amount(6, exact=False), "bound": "at most"}
    bad = [
        verifying.forecast_against_outcome(f.forecast_of(doubled=most), f.proof(repeats=repeats))[1].bad
        for repeats in (0, 6, 7)
    ]
    assert bad == [False, False, True]


def test_a_forecast_keeps_its_bound_where_nothing_was_measured() -> None:
    most = {**f.amount(136, exact=False), "bound": "at most"}
    unmeasured = f.proof(doubled=None, doubled_bound="unknown", lost=None, lost_bound="unknown")
    forecast = f.forecast_of(doubled=most, lost=f.amount(None, exact=False))
    lost, doubled = verifying.forecast_against_outcome(forecast, unmeasured)[:2]
    assert (doubled.forecast, doubled.measured, doubled.difference) == (
        "at most 136 rows", "not known", "not known",
    )  # fmt: skip
    assert (lost.forecast, lost.measured, lost.difference) == ("not known", "not known", "not known")


@pytest.mark.parametrize(
    ("bound", "rows", "shown", "difference", "bad"),
    [
        ("exact", 0, "0 rows", "0", False),
        ("exact", 6, "6 rows", "+6", True),
        ("at least", 0, "at least 0 rows", "not known", False),
        ("at least", 6, "at least 6 rows", "not known", True),
        ("estimate", 6, "about 6 rows", "not known", False),
    ],
)
def test_a_measured_bound_is_shown_as_one_and_its_difference_is_not_known(
    bound: str, rows: int, shown: str, difference: str, bad: bool
) -> None:
    told = f.proof(doubled=rows, doubled_bound=bound, doubled_before=None)
    found = verifying.forecast_against_outcome(f.forecast_of(), told)[1]
    assert (found.measured, found.difference, found.bad) == (shown, difference, bad)


def test_rows_that_were_lost_before_are_no_difference() -> None:
    told = f.proof(lost=9, lost_bound="estimate", lost_before=9)
    lost = verifying.forecast_against_outcome(f.forecast_of(), told)[0]
    assert (lost.measured, lost.difference, lost.bad) == ("0 rows", "0", False)


def test_failing_criteria_come_first_and_unknown_ones_before_those_that_hold() -> None:
    criteria = f.measured(False)["criteria"]
    criteria[7]["ok"] = None

    rows = verifying.criterion_rows(f.proof(False, criteria=criteria), [])

    assert [r.badge.word for r in rows] == ["Fails", "Fails", "Not measured", *["Holds"] * 5]
    assert verifying.count_criteria(rows) == "5 hold, 2 fail, 1 unknown"


def test_a_wrong_forecast_is_called_wrong() -> None:
    *_, new, table = verifying.forecast_against_outcome(
        f.forecast_of(new_rows=8, table_after=20), f.proof(False)
    )

    assert (new.difference, new.bad, table.difference) == ("−2", True, "−2")


@pytest.mark.parametrize("ok", [True, None, "not in the plan", False])
def test_a_count_that_its_criterion_does_not_call_wrong_is_explained_and_not_called_wrong(ok: object) -> None:
    counts = {"code": "COUNTS_EQUAL_FORECAST", "says": "", "ok": ok, "why": "2 rows came later."}
    criteria = [] if ok == "not in the plan" else [counts]
    new, table = verifying.forecast_against_outcome(
        f.forecast_of(new_rows=6, table_after=18), f.proof(criteria=criteria)
    )[2:]
    why = verifying.NO_COUNT if not criteria else counts["why"]
    assert [(a.difference, a.bad) for a in (new, table)] == [("+2", ok is False)] * 2
    assert new.how == why
    assert ok is False or table.how == why


def test_rows_of_the_data_are_shown_verbatim() -> None:
    measured = f.proof(samples={"extra_rows": [{"id": 1004, "name": "Ada"}, {"id": None}]})
    (sample,) = verifying.sample_rows(measured)

    assert (sample.title, sample.columns) == ("Extra rows", ["id", "name"])
    assert sample.rows == [["1004", "Ada"], ["null", ""]]


def test_an_audit_change_shows_both_sides_and_marks_what_stayed() -> None:
    rows = auditing.list_changes(
        {"state": "planned", "plan": "a"}, {"state": "running", "plan": "a", "by": None}
    )

    assert [(c.name, c.before, c.after, c.same) for c in rows] == [
        ("state", "planned", "running", False), ("plan", "a", "a", True), ("by", "–", "not measured", False),
    ]  # fmt: skip


def test_only_a_file_of_the_workspace_that_differs_is_a_patch() -> None:
    now = {"a.py": "1", "b.py": "2"}

    assert patching.changed_files(now, {"a.py": "1", "b.py": "3", "c.py": "4"}) == {"b.py": "3"}


def test_a_run_is_polled_only_while_something_moves_by_itself() -> None:
    step = SimpleNamespace(state="unknown", kind="rerun")

    assert running.poll_seconds(SimpleNamespace(state="running"), []) == 1
    assert running.poll_seconds(SimpleNamespace(state="needs_attention"), [step]) == 2
    assert (
        running.poll_seconds(
            SimpleNamespace(state="needs_attention"), [SimpleNamespace(state="failed", kind="seed")]
        )
        == 0
    )
    assert running.poll_seconds(SimpleNamespace(state="succeeded"), []) == 0


def moved_position(**values: Any) -> dict[str, Any]:
    told = {"value": 8, "exact": True, "why": ""}
    nothing = {"rows": {**told, "value": 0}, "files": None, "bytes": None, "seconds": None}
    return {
        **f.position(),
        "kind": "kafka",
        "after": {"label": "orders partition 0 at 13", "offset_json": '{"orders":{"0":13}}', "name": None},
        "next": {"name": None, "mtime_ms": None, "files": 0, "rows": 3, "exact": False},
        "parts": [
            {"part": "orders-0", "before": "5", "after": "13", "moved": "forward"},
            {"part": "orders-1", "before": "5", "after": "5", "moved": "same"},
        ],
        "more_parts": 7,
        "lost": {**nothing, "rows": told},
        "reread": nothing,
        "fallbacks": {"orders-0": "Its end was taken."},
        **values,
    }


def test_a_start_that_was_chosen_is_told_with_what_it_costs_and_the_parts_that_move() -> None:
    (row,) = wizard.position_rows([moved(moved_position())])
    assert ("never read: 8 rows" in row.same, "read again: 0 rows" in row.same) == (True, True)
    assert [(p[0], p[1], p[2], p[3].word) for p in row.parts] == [("orders-0", "5", "13", "Ahead")]
    assert (row.staying, dict(row.fallbacks)) == (8, moved_position()["fallbacks"])


@pytest.mark.parametrize(
    ("ahead", "kind", "says"),
    [
        ({"files": 0, "rows": 3, "exact": False}, "kafka", "3 rows in all, estimate"),
        ({"files": 0, "rows": 0, "exact": True}, "kafka", "nothing waits; the next row that arrives"),
        ({"files": 0, "rows": None, "exact": False}, "kafka", "how much waits is not known"),
        ({"files": 0, "rows": 0, "exact": True}, "files", "nothing waits; the next file that arrives"),
        ({"files": 2, "rows": 8, "exact": True}, "delta", "2 files in all, 8 rows, exact"),
    ],
)
def test_what_waits_is_said_for_every_kind_of_source(ahead: dict[str, Any], kind: str, says: str) -> None:
    (row,) = wizard.position_rows([moved(moved_position(kind=kind, next=ahead))])
    assert row.next_says == says


@pytest.mark.django_db
def test_a_plan_that_goes_back_in_a_topic_says_that_its_state_is_built_anew_and_counts_no_files() -> None:
    plan = f.sealed(f.at_review())
    topic = {**f.position(), "kind": "kafka"}
    plan.body = {**plan.body, "strategy": "rewind", "positions": [topic]}

    review = reviewing.plan_view(plan)

    assert (review.lead.startswith("Go back"), "customers_incremental_flow" in review.lead) == (True, True)
    assert ("(12 keys)" in review.numbering, "built again" in review.numbering) == (True, True)
    assert re.findall(r"\d+", review.grows) == ["8", "12", "20"]
    assert "file" not in review.grows
