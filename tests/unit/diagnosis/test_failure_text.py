"""What is read out of a text that a person has, from a line to a whole log, and what is said of it."""

import json
import re
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.checkpoints.findings import TABLE
from recovery.checkpoints.report import CheckpointReport, Finding, Outcome, Severity
from recovery.contracts import codec
from recovery.contracts.diagnosis import ChainedError
from recovery.contracts.names import ChangeIntent
from recovery.diagnosis.advice import recommend_advice
from recovery.diagnosis.failure_text import MOST_CHARACTERS, read_failure
from recovery.diagnosis.judgement import NO_FAILURE, diagnose_failure
from recovery.diagnosis.of_text import diagnose_text
from recovery.diagnosis.platforms import BY_HAND, PlatformSupport
from recovery.diagnosis.row import ErrorRow
from recovery.diagnosis.table import ROWS
from recovery.diagnosis.table_pipelines import FAMILY as PIPELINES
from tests.unit.diagnosis.messages import INCIDENT, message_of
from tests.unit.diagnosis.public_texts import CAPTURED, IDS, OLD_TASK, QUERY, RUN, TEXTS, Public

HEALTHY = CheckpointReport("/c", "structured-streaming", None, QUERY, 3, 3)
DAMAGE = Finding("OFFSET_UNREADABLE", Severity.BLOCKER, "offsets/3 is empty.", "Rebuild it.", file="offsets/3",
                 outcome=Outcome.FAILS)  # fmt: skip
CHATTER = "24/05/06 07:08:{:02d} INFO BlockManagerInfo: Removed broadcast_{}_piece0 on host:7078 in memory\n"
LOST = "Partition a-0's offset was changed from 9 to 3, some data may have been missed."


def failing(reason: str) -> str:
    return CAPTURED.format(ids=IDS, reason=reason)


@pytest.mark.parametrize("public", TEXTS.values(), ids=TEXTS)
def test_a_text_as_people_post_it_gets_its_condition_and_its_ways_on(public: Public) -> None:
    told = diagnose_text(public.text)
    assert told.found.condition == public.condition
    strategies = tuple(a.strategy for a in told.found.advice if a.strategy)
    assert strategies == public.strategies
    assert told.found.do
    assert told.failure.query_id == (QUERY if public.names_query else "")


@pytest.mark.parametrize("public", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize(
    "prefix",
    [
        "[2024-05-06, 07:08:09 UTC] {spark_submit.py:571} INFO - ",
        "2024-05-06T07:08:09.123456789Z stderr F ",
        "2024-05-06T07:08:09.123456789Z ",
        "spark-driver-1  | ",
        "",
    ],
)
def test_what_a_runner_puts_before_each_line_changes_nothing(public: Public, prefix: str) -> None:
    text = "\r\n".join(f"{prefix}{line}" for line in public.text.splitlines())
    assert diagnose_text(text).found.condition == public.condition


def test_a_container_s_log_in_json_and_an_event_log_are_read_as_well() -> None:
    for public in TEXTS.values():
        lines = [json.dumps({"log": f"{line}\n", "stream": "stderr"}) for line in public.text.splitlines()]
        assert diagnose_text("\n".join(lines)).found.condition == public.condition
    event = {"Event": "org.apache.spark.sql.streaming.StreamingQueryListener$QueryTerminatedEvent", "id": QUERY,
             "runId": RUN, "exception": f"java.lang.IllegalStateException: {LOST}\n\tat a.C.d(C.scala:1)"}  # fmt: skip
    told = diagnose_text(f"{json.dumps({'Event': 'SparkListenerLogStart'})}\n{json.dumps(event)}\n")
    assert (told.found.condition, told.failure.query_id) == ("KAFKA_DATA_LOSS", QUERY)
    escaped = json.dumps(OLD_TASK.format(ids=IDS, reason=f"java.lang.IllegalStateException: {LOST}"))
    assert diagnose_text(escaped).found.condition == "KAFKA_DATA_LOSS"


def test_of_a_whole_log_the_last_failure_counts_and_what_the_end_of_the_program_says_does_not() -> None:
    chatter = "".join(CHATTER.format(i % 60, i) for i in range(25_000))
    first = OLD_TASK.format(
        ids=IDS.replace(QUERY, RUN), reason="java.lang.IllegalStateException: batch 1 doesn't exist"
    )
    last = OLD_TASK.format(ids=IDS, reason=f"java.lang.IllegalStateException: {LOST}")
    log = f"{chatter}{first}{chatter}{last}{chatter}"
    assert len(log) > 5_000_000
    began = time.perf_counter()
    told = diagnose_text(log)
    assert time.perf_counter() - began < 20
    assert (told.found.condition, told.failure.query_id) == ("KAFKA_DATA_LOSS", QUERY)


def test_a_failure_of_the_newest_start_counts_before_a_query_s_of_an_older_one() -> None:
    start = "24/05/06 08:00:00 INFO SparkContext: Running Spark version 3.5.1\n"
    older = failing(LOST)
    newer = (
        "pyspark.errors.AnalysisException: [DATA_SOURCE_NOT_FOUND] Failed to find the data source: kafka.\n"
    )
    assert diagnose_text(start + older + start + newer).found.condition == "DATA_SOURCE_NOT_FOUND"
    assert diagnose_text(start + older + start + CHATTER).found.condition == "KAFKA_DATA_LOSS"


def test_where_the_query_s_own_error_hides_its_cause_the_run_s_earlier_lines_tell_it() -> None:
    task = f"24/05/06 07:08:00 WARN TaskSetManager: Lost task 0.0 in stage 1.0 (TID 1) (h executor 1): " \
           f"java.lang.IllegalStateException: {LOST}\n\tat org.apache.spark.sql.kafka010.X.y(X.scala:1)\n"  # fmt: skip
    told = diagnose_text(task + failing("Writing job aborted"))
    assert told.found.condition == "KAFKA_DATA_LOSS"
    another = failing("boom").replace(RUN, QUERY)
    assert diagnose_text(task + another + failing("Writing job aborted")).found.condition == ""


def test_a_warning_is_taken_for_the_failure_only_where_there_is_no_error_and_that_is_said() -> None:
    task = f"24/05/06 07:08:00 WARN TaskSetManager: Lost task 0.0: java.lang.IllegalStateException: {LOST}\n"
    assert diagnose_text(task).failure.is_warning
    assert not diagnose_text(task + failing("x")).failure.is_warning


def test_the_log_tells_where_the_run_that_failed_is_stored() -> None:
    started = f"24/05/06 07:08:00 INFO X: Starting q {IDS}. Use s3a://b/ck to store the query checkpoint.\n"
    assert read_failure(started + failing(LOST)).checkpoint == "s3a://b/ck"
    assert read_failure(failing(LOST)).checkpoint == ""


JAVA = "{}: boom\n\tat com.acme.Shop.main(Shop.java:7)\n"


@pytest.mark.parametrize(
    "text",
    [
        "", "\n\n", "hello world", "24/05/06 07:08:00 INFO X: batch 4 is fine", CHATTER * 50, "{}", '{"a": 1}',
        "x" * 100_000,
        JAVA.format("java.lang.NullPointerException"),
        JAVA.format("com.fasterxml.jackson.core.JsonParseException"),
        JAVA.format("java.lang.OutOfMemoryError"),
        "24/05/06 07:08:00 ERROR [main] o.a.catalina.Foo - The cluster was terminated: no quota for instances",
        'Traceback (most recent call last):\n  File "/opt/a.py", line 3, in <module>\nKeyError: \'a\'\n',
        "24/05/06 07:08:00 WARN KafkaMicroBatchStream: Some data may have been lost because they are not there",
        "[main] [MY_THREAD] something else",
    ],
)  # fmt: skip
def test_a_text_without_a_failure_of_spark_is_called_that_and_nothing_is_advised(text: str) -> None:
    found = diagnose_text(text).found
    assert found.condition == NO_FAILURE == "no-failure-recognised"
    assert (found.do, found.dont, found.advice) == ((), (), ())
    assert (found.damaged, found.reset, found.family) == ("not known", "not known", "unknown")


@pytest.mark.parametrize(
    "text",
    [
        failing("boom"),
        f"[STREAM_FAILED] Query {IDS} terminated with exception: boom SQLSTATE: XXKST",
        "org.apache.spark.SparkException: [QUANTUM_FLUX] The flux is off.\n\tat org.apache.spark.A.b(A.scala:1)",
        "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012",
    ],
)
def test_a_failure_of_spark_that_the_table_does_not_know_is_called_unknown_not_none(text: str) -> None:
    found = diagnose_text(text).found
    assert found.condition != NO_FAILURE
    assert found.family == "unknown"
    assert found.dont


def test_shape_and_judgement_are_those_of_a_flow() -> None:
    causes = [
        ChainedError(
            class_name="x", message=f"[STREAM_FAILED] Query {IDS} terminated with exception: {INCIDENT}"
        )
    ]
    of_flow = diagnose_failure(causes=causes, report=HEALTHY)
    of_text = diagnose_text(causes[0].message, report=HEALTHY).found
    assert [a.strategy for a in of_text.advice] == [a.strategy for a in of_flow.advice]
    for field in ("condition", "damaged", "severity", "reset", "operators", "family"):
        assert getattr(of_text, field) == getattr(of_flow, field)


def test_the_checkpoint_s_own_damage_is_joined_to_what_the_text_says() -> None:
    told = diagnose_text(failing(LOST), report=replace(HEALTHY, findings=(DAMAGE,)))
    assert not told.is_of_another_query
    assert (told.found.condition, told.found.damaged, told.found.do[0]) == (
        "KAFKA_DATA_LOSS", "offsets/3", "Rebuild it.",
    )  # fmt: skip
    alone = diagnose_text("hello", report=replace(HEALTHY, findings=(DAMAGE,))).found
    assert (alone.condition, alone.do) == (NO_FAILURE, ("Rebuild it.",))


def test_paths_in_advice_stay_as_they_are_for_a_program() -> None:
    mend = "Put /data/flow/offsets/3 of the pipeline back."
    report = replace(HEALTHY, findings=(replace(DAMAGE, do=mend),))
    assert diagnose_text(failing(LOST), report=report).found.do[0] == mend


def test_a_checkpoint_of_another_query_explains_nothing_of_the_error_and_its_damage_is_still_said() -> None:
    text = failing(
        "There are [1] sources in the checkpoint offsets and now there are [2] sources requested by it"
    )
    cut = replace(HEALTHY, batches=({"planned": True, "offsets": []}, {"planned": True, "offsets": ["a"]}))
    assert diagnose_text(text, report=cut).found.damaged == "the newest offset file"
    other = diagnose_text(text, report=replace(cut, query_id=RUN, findings=(DAMAGE,)))
    assert other.is_of_another_query
    assert other.found.damaged == "offsets/3"
    assert QUERY in other.found.says
    assert RUN in other.found.says


OURS = re.compile(
    r"\b(?:an? update|the update|pipeline|flows?|full refresh|step \d|workspace)\b", re.IGNORECASE
)


@pytest.mark.parametrize("row", [r for r in ROWS if r.family != PIPELINES], ids=lambda r: r.code)
def test_a_program_s_owner_is_never_told_what_only_a_pipeline_has(row: ErrorRow) -> None:
    name = next((c for c in row.conditions if "*" not in c), None)
    if name is None:
        said = [row.title, row.damaged, *(a.says for a in row.list_advice()), *row.dont]
        assert not any(OURS.search(text) for text in said)
        return
    for report in (None, HEALTHY):
        found = diagnose_failure(causes=message_of(name), report=report, where=PlatformSupport(program=True))
        for text in (found.title, found.damaged, found.says, *found.do, *found.dont):
            assert not OURS.search(text), text


@pytest.mark.parametrize("kind", TABLE, ids=lambda k: k.code)
def test_what_mends_a_checkpoint_names_no_pipeline_to_a_program_s_owner(kind: object) -> None:
    assert not OURS.search(kind.do)  # type: ignore[attr-defined]


def test_no_plan_empties_the_table_of_an_adopted_program() -> None:
    row = next(
        r
        for r in ROWS
        if r.family != PIPELINES and any(a.strategy == "full-refresh" for a in r.list_advice())
    )
    causes = message_of(next(c for c in row.conditions if "*" not in c))
    for where, is_planned in (
        (PlatformSupport(flow="orders"), True),
        (PlatformSupport(flow="orders", program=True), False),
    ):
        found = diagnose_failure(causes=causes, report=HEALTHY, where=where)
        assert ("full-refresh" in [a.strategy for a in found.advice]) is is_planned
        assert (BY_HAND in [a.says for a in found.advice]) is not is_planned


@pytest.mark.parametrize(
    "row", [r for r in ROWS if any(a.strategy == "rebuild" for a in r.list_advice())], ids=lambda r: r.code
)
def test_no_replay_is_advised_to_the_owner_of_an_adopted_program(row: ErrorRow) -> None:
    causes = message_of(next(c for c in row.conditions if "*" not in c))
    found = diagnose_failure(causes=causes, report=None, where=PlatformSupport(flow="orders", program=True))
    assert "rebuild" not in [a.strategy for a in found.advice]
    recommended = recommend_advice(found.advice, ChangeIntent.YES)
    assert recommended is not None
    assert recommended.strategy in ("continue", "rewind")


OTHER_STATE = (
    "[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA] Streaming stateful operator name does not match with "
    "the operator in state metadata. Stateful operators in the metadata: [(OperatorId: 0 -> OperatorName: "
    "stateStoreSave), (OperatorId: 1 -> OperatorName: dedupe)]; Stateful operators in current batch: [(OperatorId: 0 "
    "-> OperatorName: stateStoreSave)]. SQLSTATE: 42K03"
)


def test_a_text_of_code_that_still_keeps_state_advises_what_a_program_can_do() -> None:
    found = diagnose_text(failing(OTHER_STATE)).found
    assert [a.strategy for a in found.advice] == ["revert", "rewind", "prime", "full-refresh"]
    assert not any(OURS.search(text) for text in found.do)


def test_a_program_s_table_is_never_emptied_without_its_checkpoint() -> None:
    of_text = diagnose_text(TEXTS["a step that was taken out"].text).found
    whole = next(a for a in of_text.advice if a.strategy == "full-refresh")
    assert "checkpoint" in whole.says


def test_a_table_that_is_not_there_is_put_in_a_program_s_words() -> None:
    found = diagnose_text(failing("[TABLE_OR_VIEW_NOT_FOUND] The table or view `a` cannot be found.")).found
    assert found.condition == "TABLE_OR_VIEW_NOT_FOUND"
    assert not any(OURS.search(text) for text in found.do)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 2_000_000, "a." * 1_000_000, "Caused by: " * 180_000, "\n" * 2_000_000, "{" * 1_000_000 + "}",
        "Traceback (most recent call last):\n" * 55_000, "java.lang.XException: batch 1\n\tat a.b(\n" * 55_000,
        "ERROR 12:12 batch 4\n" * 100_000, "12:12 ERROR java.lang.AException: b\n" * 50_000, "\x1b[" * 1_000_000,
        "id = " * 400_000, '{"a":' * 300_000 + "1" + "}" * 300_000, "\\n\\tat " * 300_000, "A" + "_A" * 1_000_000,
    ],
)  # fmt: skip
def test_a_hostile_text_is_read_in_bounded_time(text: str) -> None:
    began = time.perf_counter()
    diagnose_text(text)
    assert time.perf_counter() - began < 15


def test_of_a_text_beyond_the_bound_the_end_is_read_and_that_is_known() -> None:
    assert read_failure("x" * MOST_CHARACTERS + failing(LOST)).is_cut
    assert diagnose_text("x\n" * (MOST_CHARACTERS // 2) + failing(LOST)).found.condition == "KAFKA_DATA_LOSS"
    assert not read_failure(failing(LOST)).is_cut


PIECES = st.sampled_from(
    ["Caused by: ", "java.lang.AException: x", "\n", "\tat a.b.C(D:1)", "24/05/06 07:08:00 ERROR X: ", "Suppressed: ",
     "Traceback (most recent call last):", '  File "/a.py", line 3', "{", "}", '"', IDS, "[STREAM_FAILED]"]
) | st.text(max_size=20)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES, max_size=30).map("".join))
def test_any_text_gives_a_whole_diagnosis(text: str) -> None:
    found = diagnose_text(text).found
    json.dumps(codec.to_json(found))
    assert found.title
    assert 1 <= found.severity <= 5
