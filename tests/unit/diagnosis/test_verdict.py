"""Code, checkpoint and failure are judged once; a promise that the next run goes on needs all of them."""

from dataclasses import replace

import pytest

from recovery.checkpoints.report import CheckpointReport, Finding, Outcome, Severity, StateOperator
from recovery.cli.inspection_text import write_verdict
from recovery.diagnosis.verdict import CheckpointState, StepFit, judge_flow, stateful_steps

HEALTHY = CheckpointReport(
    location="file:/c/0",
    format="structured-streaming",
    version=0,
    query_id="q",
    last_committed=2,
    last_planned=3,
    state_operators=(StateOperator(operator_id=0, name="dedupe", partitions=2, rows=12),),
)
STATELESS = replace(HEALTHY, state_operators=())
BROKEN = Finding("OFFSET_UNREADABLE", Severity.BLOCKER, "…", "…", outcome=Outcome.FAILS)


@pytest.mark.parametrize(
    ("held", "code", "fits"),
    [
        (["dedupe"], ["dedupe"], [StepFit.SAME]),
        (["dedupe"], [], [StepFit.NOT_IN_CODE]),
        ([], ["dedupe"], [StepFit.NOT_IN_CHECKPOINT]),
        (["dedupe"], ["stateStoreSave"], [StepFit.OTHER]),
        (["dedupe", "globalLimit"], ["dedupe"], [StepFit.SAME, StepFit.NOT_IN_CODE]),
        (["dedupe"], None, [StepFit.UNKNOWN]),
        ([], None, []),
    ],
)
def test_stateful_steps_are_held_beside_each_other_by_place(
    held: list[str], code: list[str] | None, fits: list[StepFit]
) -> None:
    assert [step.fit for step in stateful_steps(held, code)] == fits


@pytest.mark.parametrize(
    ("report", "code", "failed", "blockers", "outcome", "state"),
    [
        (HEALTHY, ["dedupe"], False, [], Outcome.GOES_ON, CheckpointState.SOUND),
        (HEALTHY, None, False, [], Outcome.GOES_ON, CheckpointState.SOUND),
        (HEALTHY, [], True, ["STATE_OPERATOR_NOT_IN_CODE"], Outcome.FAILS, CheckpointState.SOUND),
        (HEALTHY, [], False, ["STATE_OPERATOR_NOT_IN_CODE"], Outcome.FAILS, CheckpointState.SOUND),
        (HEALTHY, ["stateStoreSave"], True, ["STATE_OPERATOR_DIFFERS"], Outcome.FAILS, CheckpointState.SOUND),
        (STATELESS, ["dedupe"], True, ["STATE_OPERATOR_NOT_IN_CHECKPOINT"], Outcome.FAILS, CheckpointState.SOUND),
        (HEALTHY, ["dedupe"], True, [], Outcome.UNKNOWN, CheckpointState.SOUND),
        (STATELESS, None, True, [], Outcome.UNKNOWN, CheckpointState.SOUND),
        (replace(HEALTHY, findings=(BROKEN,)), ["dedupe"], True, ["OFFSET_UNREADABLE"], Outcome.FAILS,
         CheckpointState.DAMAGED),
    ],
)  # fmt: skip
def test_the_next_run_goes_on_only_where_nothing_speaks_against_it(
    report: CheckpointReport,
    code: list[str] | None,
    failed: bool,
    blockers: list[str],
    outcome: Outcome,
    state: CheckpointState,
) -> None:
    verdict = judge_flow(report, code=code, failed=failed)
    assert [f.code for f in verdict.blockers] == blockers
    assert (verdict.outcome, verdict.checkpoint) == (outcome, state)


def test_a_failure_that_nothing_explains_is_a_finding_of_its_own() -> None:
    found = judge_flow(STATELESS, code=None, failed=True, why_failed="KeyError: 'S3_BUCKET'.").findings
    assert [(f.code, f.severity) for f in found] == [("LAST_RUN_FAILED", Severity.WARNING)]
    assert found[0].says.endswith("KeyError: 'S3_BUCKET'.")


def test_rows_that_runs_lost_are_no_failure_of_the_next_run() -> None:
    verdict = judge_flow(STATELESS, code=None, why_lost="Its batch numbers began again.")
    assert [(f.code, f.severity) for f in verdict.findings] == [("LAST_RUN_LOST_ROWS", Severity.WARNING)]
    assert verdict.outcome is Outcome.GOES_ON


@pytest.mark.parametrize(
    ("codes", "named"),
    [
        (("LAST_RUN_FAILED",), "LAST_RUN_FAILED"),
        (("LAST_RUN_FAILED", "SINK_SWALLOWED"), "SINK_SWALLOWED"),
        (("LAST_RUN_LOST_ROWS",), "LAST_RUN_LOST_ROWS"),
        (("STATE_UNTOLD", "SINK_HAS_ROWS_OF_BEFORE"), "SINK_HAS_ROWS_OF_BEFORE"),
    ],
)
def test_the_first_line_of_an_inspection_names_what_weighs_most(codes: tuple[str, ...], named: str) -> None:
    findings = tuple(Finding(code, Severity.WARNING, "It is so.", "Look.") for code in codes)
    assert f"see {named}." in write_verdict(replace(HEALTHY, findings=findings), is_deep=True)


def test_a_table_of_files_is_named_with_the_batches_that_it_drops() -> None:
    found = judge_flow(HEALTHY, code=["dedupe"], file_table=True)
    assert [f.code for f in found.findings] == ["FILE_SINK_SKIPS_OLD_BATCHES"]
    assert found.outcome is Outcome.GOES_ON


def test_no_checkpoint_has_nothing_to_fit() -> None:
    verdict = judge_flow(replace(STATELESS, format="none", last_committed=None), code=["dedupe"])
    assert (verdict.checkpoint, verdict.steps, verdict.blockers) == (CheckpointState.NONE, (), ())
