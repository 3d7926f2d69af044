"""What a responder is told: of the incident, of misleading errors, of errors that nobody knows."""

from dataclasses import replace
from typing import Any

import pytest

from recovery.checkpoints.findings import finding
from recovery.checkpoints.report import CheckpointReport, Finding, Severity, SourceProgress, StateOperator
from recovery.contracts import codec
from recovery.contracts.diagnosis import ChainedError, StatefulOperators
from recovery.contracts.names import ChangeIntent
from recovery.diagnosis import diagnose_failure
from recovery.diagnosis.advice import asks_meant
from recovery.diagnosis.platforms import PlatformSupport
from recovery.diagnosis.row import BACK, WITHOUT, WITHOUT_STATE, ErrorRow, PipelineWay
from recovery.diagnosis.table import ROWS
from tests.unit.diagnosis.messages import INCIDENT, wrapped

KEYS = {
    "condition", "title", "says", "damaged", "severity", "do", "dont", "operators", "causes", "attempts", "family",
    "reset", "advice", "storage",
}  # fmt: skip
HEALTHY = CheckpointReport(
    location="file:/c/0",
    format="structured-streaming",
    version=0,
    query_id="q",
    last_committed=2,
    last_planned=3,
    state_operators=(StateOperator(operator_id=0, name="dedupe", partitions=2),),
)


def batches(*offsets: list[str | None]) -> tuple[dict[str, Any], ...]:
    """Newest first."""
    return tuple(
        {"batch": n, "planned": True, "committed": n > 0, "offsets": o} for n, o in enumerate(offsets)
    )


def mismatch(stored: list[str], running: list[str]) -> str:
    sides = [
        ", ".join(f"(OperatorId: {i} -> OperatorName: {name})" for i, name in enumerate(names))
        for names in (stored, running)
    ]
    return (
        "[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA] Streaming stateful operator name does not match. "
        f"Stateful operators in the metadata: [{sides[0]}]; Stateful operators in current batch: [{sides[1]}]."
    )


def test_the_incident_is_explained_in_peoples_words() -> None:
    found = diagnose_failure(causes=wrapped(INCIDENT), report=HEALTHY)
    assert set(codec.to_json(found)) == KEYS
    assert found.condition == "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
    assert found.title == (
        "The code no longer has the dropDuplicates step whose state is stored in the checkpoint, "
        "so Spark refuses to start the flow."
    )
    assert found.damaged == "nothing"
    assert (found.severity, found.family, found.attempts) == (3, "query", None)
    assert found.operators == StatefulOperators(checkpoint=("dedupe",), code=())
    assert "last committed batch is 2" in found.says
    assert [one.strategy for one in found.advice] == ["continue", "revert", "full-refresh"]
    assert found.do == tuple(one.says for one in found.advice)
    dont = " ".join(found.dont)
    assert "empty checkpoint" in dont
    assert "delete the checkpoint folder" in dont
    assert "just start it again" in dont
    assert [c.condition for c in found.causes] == [found.condition, "", found.condition]


FIRST_BATCH = replace(
    HEALTHY, last_committed=None, last_planned=0, sources=(SourceProgress(0, "files", None),)
)
KEY_CHANGED = (
    "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match existing state key schema."
)


@pytest.mark.parametrize(
    ("error", "strategies", "meant"),
    [
        (INCIDENT, ["continue", "revert", "full-refresh"], ChangeIntent.YES),
        (KEY_CHANGED, ["continue", "revert", "full-refresh"], ChangeIntent.YES),
    ],
)
def test_a_crash_in_the_first_batch_needs_no_old_code(
    error: str, strategies: list[str], meant: ChangeIntent | None
) -> None:
    """Nothing was committed: neither a replay nor another start is a way on, for there is no state to make."""
    found = diagnose_failure(causes=wrapped(error), report=FIRST_BATCH)
    assert [one.strategy for one in found.advice] == strategies
    assert (found.advice[0].right_if, found.advice[0].undoable) == (meant, True)
    assert "batch 0" in found.says


def test_a_failure_of_code_in_the_first_batch_is_mended_first() -> None:
    error = "[DIVIDE_BY_ZERO] Division by zero."
    before = diagnose_failure(causes=wrapped(error), report=HEALTHY)
    found = diagnose_failure(causes=wrapped(error), report=FIRST_BATCH)
    assert found.advice[:-1] == before.advice
    assert (found.advice[-1].strategy, found.advice[-1].right_if) == ("continue", None)


def test_the_same_error_without_a_condition_is_the_same_diagnosis() -> None:
    bare = INCIDENT.partition("] ")[2]
    assert (
        diagnose_failure(causes=bare, report=HEALTHY).title
        == diagnose_failure(causes=INCIDENT, report=HEALTHY).title
    )


@pytest.mark.parametrize(
    ("stored", "running", "title"),
    [
        (["dedupe"], ["stateStoreSave"], "The code has the aggregation step where the checkpoint stores the state of"),
        ([], ["symmetricHashJoin"], "The code has a new stream-stream join step for which"),
        (["stateStoreSave", "dedupe"], ["stateStoreSave"], "The code no longer has the dropDuplicates step"),
        (["dedupe", "dedupe"], [], "The code no longer has the dropDuplicates and dropDuplicates steps"),
        (["dedupe", "stateStoreSave"], ["stateStoreSave", "dedupe"], "The code has its stateful steps in"),
        (["somethingNew"], [], "The code no longer has the somethingNew step"),
        (["dedupe"], ["dedupeWithinWatermark"], "The code has the dropDuplicatesWithinWatermark step where"),
    ],
)  # fmt: skip
def test_the_title_names_the_steps_that_differ(stored: list[str], running: list[str], title: str) -> None:
    assert diagnose_failure(causes=mismatch(stored, running)).title.startswith(title)


def test_the_line_that_was_taken_out_is_shown() -> None:
    old = 'rows = read()\nrows = rows.dropDuplicates(["id"])\nreturn rows\n'
    new = 'rows = read()\nreturn rows.select("*")\n'
    found = diagnose_failure(causes=INCIDENT, old_text=old, new_text=new)
    assert 'Taken out since it last worked: `rows = rows.dropDuplicates(["id"])`.' in found.says
    assert "select" not in found.says


def test_an_unknown_error_is_said_to_be_unknown() -> None:
    found = diagnose_failure(causes=wrapped("[QUANTUM_FLUX] The flux is off."), report=HEALTHY)
    assert (found.condition, found.family, found.damaged) == ("QUANTUM_FLUX", "unknown", "not known")
    assert "does not know" in found.title
    assert diagnose_failure(causes=[ChainedError(class_name="a.B", message="oops")]).condition == ""


def test_no_error_at_all_is_said() -> None:
    assert diagnose_failure(causes=[]).title == "No error is recorded for this flow."


SOURCES = (
    "There are [{}] sources in the checkpoint offsets and now there are [1] sources requested by the query."
)


@pytest.mark.parametrize(
    ("text", "offsets", "damaged"),
    [
        (SOURCES.format(0), batches([], ["{}"]), "the newest offset file"),
        (SOURCES.format(1), batches(["{}"], ["{}", "{}"]), "the newest offset file"),
        (SOURCES.format(2), batches(["{}", "{}"], ["{}", "{}"]), "nothing"),
        (SOURCES.format(0), (), "the newest offset file"),
    ],
)
def test_a_cut_offset_file_is_told_from_a_change_of_sources(
    text: str, offsets: tuple[dict[str, Any], ...], damaged: str
) -> None:
    found = diagnose_failure(causes=text, report=replace(HEALTHY, batches=offsets))
    assert found.damaged == damaged
    assert any("code need not be changed" in text for text in found.do) is (damaged != "nothing")


def test_a_lost_offset_file_is_told_from_a_second_run() -> None:
    text = (
        "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs detected for 2."
    )
    lost = diagnose_failure(causes=text, report=replace(HEALTHY, last_committed=3, last_planned=2))
    assert lost.damaged == "offsets/3"
    assert "nothing else writes" in lost.title
    real = diagnose_failure(causes=text, report=HEALTHY)
    assert "look for a second run" in real.says
    assert "relies on the error alone" in diagnose_failure(causes=text).says


@pytest.mark.parametrize(("file", "damaged"), [("sources/0/2", "a source log"), ("offsets/1", "offsets")])
def test_a_missing_batch_is_placed_by_the_checkpoint(file: str, damaged: str) -> None:
    finding = Finding("gap", Severity.WARNING, "A file is missing.", "Rebuild it.", file)
    found = diagnose_failure(causes="batch 2 doesn't exist", report=replace(HEALTHY, findings=(finding,)))
    assert found.damaged == damaged


@pytest.mark.parametrize(("stored", "severity"), [((), 3), (HEALTHY.state_operators, 4)])
def test_a_new_step_is_told_from_lost_state(stored: tuple[StateOperator, ...], severity: int) -> None:
    text = "[STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY] The state directory is missing."
    found = diagnose_failure(causes=text, report=replace(HEALTHY, state_operators=stored))
    assert found.severity == severity
    assert found.damaged == ("state" if stored else "nothing")


@pytest.mark.parametrize(
    ("program", "ways"),
    [
        (False, ["revert", "rebuild", "rewind", "prime", "full-refresh"]),
        (True, ["revert", "rewind", "prime", "full-refresh"]),
    ],
)
def test_a_new_step_asks_whether_it_was_meant_and_lost_state_does_not(program: bool, ways: list[str]) -> None:
    text, where = "[STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY] x", PlatformSupport(program=program)
    new = diagnose_failure(causes=text, report=replace(HEALTHY, state_operators=()), where=where)
    lost = diagnose_failure(causes=text, report=HEALTHY, where=where)
    assert (asks_meant(new.advice), [a.strategy for a in new.advice]) == (True, ways)
    assert (asks_meant(lost.advice), {a.strategy for a in lost.advice}) == (False, {""})


GO_BACK = ", go back to batch 1"
LOST = finding("STATE_FILE_MISSING", "state/0/0/3.delta", operator=0, version=3, back=GO_BACK)


@pytest.mark.parametrize("program", [False, True])
def test_no_program_is_advised_to_go_back_to_a_batch_or_to_replay_for_its_state(*, program: bool) -> None:
    text = "[CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS] x"
    where = PlatformSupport(program=program)
    says = [
        advice.says
        for advice in diagnose_failure(
            causes=text, report=replace(HEALTHY, findings=(LOST,)), where=where
        ).advice
    ]
    assert says[0] == (LOST.do.replace(GO_BACK, "") if program else LOST.do)
    assert (BACK.says in says, WITHOUT.says in says, WITHOUT_STATE in says) == (
        not program,
        not program,
        program,
    )


@pytest.mark.parametrize("row", [row for row in ROWS if any(isinstance(way, PipelineWay) for way in row.do)])
def test_each_row_of_lost_state_leaves_a_program_a_way_that_it_can_take(row: ErrorRow) -> None:
    found = diagnose_failure(causes=f"[{row.conditions[0]}] x", where=PlatformSupport(program=True))
    assert WITHOUT_STATE in found.do
    assert not {way.says for way in row.do if isinstance(way, PipelineWay)} & set(found.do)
    assert not found.do[0].startswith("Otherwise")


def test_damage_in_the_checkpoint_outweighs_what_the_error_says() -> None:
    finding = Finding("x", Severity.BLOCKER, "Commit 2 is empty.", "Remove commits/2.", "commits/2")
    found = diagnose_failure(causes=wrapped(INCIDENT), report=replace(HEALTHY, findings=(finding,)))
    assert (found.damaged, found.severity, found.do[0]) == ("commits/2", 4, "Remove commits/2.")
    assert "Commit 2 is empty." in found.says


def test_attempts_are_those_that_spark_says() -> None:
    assert diagnose_failure(causes=INCIDENT).attempts is None
    said = diagnose_failure(
        causes="Flow 'a' has FAILED more than 2 times and will not be restarted. [STREAM_FAILED]"
    )
    assert said.attempts == 3


def test_operators_that_the_error_does_not_name_come_from_the_checkpoint_and_those_of_the_code_are_not_known() -> (
    None
):
    found = diagnose_failure(causes="[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] x", report=HEALTHY)

    assert found.operators == StatefulOperators(checkpoint=("dedupe",), code=None)


def test_a_step_that_stores_other_columns_is_not_told_to_drop_its_state() -> None:
    """The code still has the step, and a checkpoint without its state cannot start it."""
    found = diagnose_failure(causes="[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] x", report=HEALTHY)

    told = " ".join(found.do)
    assert "put the old code back" in told
    assert "reread" in told
    assert "continue" not in told


@pytest.mark.parametrize(("step", "first"), [("dedupe", "prime"), ("stateStoreSave", "rewind")])
def test_reading_again_is_named_first_only_where_windows_keep_written_rows_out(step: str, first: str) -> None:
    report = replace(HEALTHY, state_operators=(StateOperator(0, step, 2),))
    found = diagnose_failure(causes="[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] x", report=report)

    assert next(a.strategy for a in found.advice if a.strategy in ("prime", "rewind")) == first


PATH_GONE = "[PATH_NOT_FOUND] Path does not exist: file:/ref/cities_v2.csv. SQLSTATE: 42K03"
ANALYSIS = "pyspark.errors.exceptions.captured.AnalysisException"


@pytest.mark.parametrize(
    ("causes", "code"),
    [
        ([ChainedError(class_name=ANALYSIS, message=PATH_GONE)], "PROGRAM_PATH_NOT_FOUND"),
        (wrapped(PATH_GONE), "input-file-gone"),
    ],
    ids=["by the program", "by a batch"],
)
def test_a_path_that_the_code_reads_is_no_input_of_a_batch(causes: list[ChainedError], code: str) -> None:
    found, row = diagnose_failure(causes=causes), next(row for row in ROWS if row.code == code)
    assert (found.title, found.severity, found.damaged) == (row.title, row.severity, row.damaged)


@pytest.mark.parametrize("code", ["SINK_SWALLOWED", "SINK_HAS_ROWS_OF_BEFORE"])
def test_rows_that_the_table_lacks_or_has_twice_come_before_the_error(code: str) -> None:
    finding = Finding(code, Severity.WARNING, "Batches were skipped.", "Compare the table with its input.")
    report = replace(HEALTHY, findings=(finding,))
    found = diagnose_failure(causes=wrapped(INCIDENT), report=report)
    plain = diagnose_failure(causes=wrapped(INCIDENT), report=HEALTHY)
    assert (finding.says in found.says, found.says.endswith(plain.says)) == (True, True)
    assert [advice.says for advice in found.advice] == [finding.do, *(advice.says for advice in plain.advice)]
    assert found.title == plain.title
