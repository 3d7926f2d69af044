"""The sentence of a failure, as the Pipelines server writes it into its events and the console reads it out of any."""

from types import TracebackType

import pytest

from recovery.blaming import CodeFailure
from recovery.contracts.diagnosis import ChainedError
from recovery.pipelines.failures import FailurePhase, UpdateFailure, say_failure
from recovery.server import runner
from recovery.server.execution import runner_links
from recovery.server.execution import say_failure as say_of_runner

FILE = "/Users/ann/01_bronze_tax.py"


def reported(error: BaseException) -> str:
    return say_of_runner([link for raw in runner.list_causes(error) for link in runner_links(raw)])


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import os\n\nos.environ['NO_S3_BUCKET']", "KeyError: 'NO_S3_BUCKET' in 01_bronze_tax.py, line 3"),
        ("import nosuch", "ModuleNotFoundError: No module named 'nosuch' in 01_bronze_tax.py, line 1"),
        ("def f():\n  raise ValueError('no')\nf()", "ValueError: no in 01_bronze_tax.py, line 2"),
        ("x = 1\ny = = 2", "SyntaxError: invalid syntax in 01_bronze_tax.py, line 2"),
    ],
)
def test_a_failure_of_peoples_code_names_exception_file_and_line(code: str, says: str) -> None:
    def run() -> None:
        exec(compile(code, FILE, "exec"), {})  # noqa: S102  (the code is in this file)

    with pytest.raises((LookupError, ImportError, ValueError, SyntaxError)) as caught:
        run()
    caught.value.__traceback__ = _below_this_file(caught.value)
    assert reported(caught.value) == says


def _below_this_file(error: BaseException) -> TracebackType | None:
    """The server leaves its own frames out; here they are this test's."""
    at = error.__traceback__
    while at is not None and at.tb_frame.f_code.co_filename == __file__:
        at = at.tb_next
    return at


def test_a_failure_of_a_sql_file_names_the_file_and_the_line_that_spark_names() -> None:
    error = RuntimeError(
        "[PARSE_SYNTAX_ERROR] Syntax error at or near 'FRM'. SQLSTATE: 42601 (line 3, pos 7)"
    )
    setattr(error, runner.SQL_FILE, "/Users/ann/t.sql")
    assert reported(error) == "RuntimeError: Syntax error at or near 'FRM' in t.sql, line 3"


def test_a_failure_without_code_is_its_first_line() -> None:
    assert say_of_runner([{"class_name": "a.B", "message": "one\ntwo", "stack": []}]) == "one"
    assert say_of_runner([]) == "The runner failed without a message."


def test_a_file_without_a_line_and_an_error_without_a_message() -> None:
    assert CodeFailure("MyError", "", "t.py", None).sentence == "MyError in t.py"


KEY_ERROR = ChainedError(class_name="KeyError", message="'S3_BUCKET'", file="01_bronze_tax.py", line="25")


@pytest.mark.parametrize(
    ("failure", "says"),
    [
        (
            UpdateFailure("u2", FailurePhase.BEFORE, condition="PIPELINE_CODE_FAILED", causes=(KEY_ERROR,)),
            "KeyError: 'S3_BUCKET' in 01_bronze_tax.py, line 25. It failed before any flow ran.",
        ),
        (
            UpdateFailure(
                "u2", FailurePhase.BESIDE, condition="PIPELINE_CANCELLED", cancelled_by="USER_ACTION"
            ),
            "Someone cancelled update u2. What it would have done is not known.",
        ),
        (
            UpdateFailure("u2", FailurePhase.BESIDE, condition="PIPELINE_FAILED"),
            "It failed; the error was not recorded.",
        ),
        (
            UpdateFailure("u2", FailurePhase.FLOW, condition="SINK_SHARED"),
            "Several flows write this file table; it skips a batch whose number another flow has used: the "
            "update completed, and rows may be missing.",
        ),
        (None, "Its newest update failed. Why is not known yet: its events were not read."),
    ],
)
def test_the_cause_of_a_pipelines_failure(failure: UpdateFailure | None, says: str) -> None:
    assert say_failure(failure) == says
