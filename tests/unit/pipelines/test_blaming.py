"""Which line of people's code a failure names: of our server's events, of the service's, of what was stored."""

from typing import Any

import pytest

from recovery.blaming import CodeFailure, find_code_failure, first_sentence, read_exception
from recovery.contracts.diagnosis import ChainedError

OWN = {"file_name": "/Users/ann/01_bronze_tax.py", "line_number": 25}
FROZEN = {"file_name": "<frozen os>", "line_number": 717}
LIBRARY = {"file_name": "/x/site-packages/pyspark/sql/a.py", "line_number": 1}
TRACEBACK = (
    'Traceback (most recent call last):\n  File "/Workspace/a/flows.py", line 7, in orders\n    return 1 / 0\n'
    '  File "/usr/lib/python3.12/decimal.py", line 3, in divide\n'
    "ZeroDivisionError: division by zero"
)


def raised(class_name: str, message: str, *stack: Any) -> list[ChainedError]:
    return [read_exception({"class_name": class_name, "message": message, "stack": list(stack)})]


@pytest.mark.parametrize(
    ("exceptions", "failure"),
    [
        (
            raised("KeyError", "'S3_BUCKET'", FROZEN, OWN),
            CodeFailure("KeyError", "'S3_BUCKET'", "01_bronze_tax.py", 25),
        ),
        (
            raised(
                "SyntaxError", "invalid syntax (t.py, line 10)", {"file_name": "/t.py", "line_number": 10}
            ),
            CodeFailure("SyntaxError", "invalid syntax", "t.py", 10),
        ),
        (
            raised("a.AnalysisException", "[TABLE_OR_VIEW_NOT_FOUND] No x. Check.", LIBRARY, OWN),
            CodeFailure("AnalysisException", "No x", "01_bronze_tax.py", 25),
        ),
        (
            raised("org.apache.spark.api.python.PythonException", TRACEBACK),
            CodeFailure("ZeroDivisionError", "division by zero", "flows.py", 7),
        ),
        (
            [ChainedError(class_name="MyError", message="MyError", file="t.py", line="3")],
            CodeFailure("MyError", "", "t.py", 3),
        ),
        (raised("a.B", "no", {"file_name": "Stream.scala", "line_number": 378}), None),
        ([read_exception({"message": "no", "stack": "?"}), read_exception({"message": None})], None),
        ([], None),
    ],
)
def test_the_line_of_peoples_own_code(exceptions: list[ChainedError], failure: CodeFailure | None) -> None:
    assert find_code_failure(exceptions) == failure


@pytest.mark.parametrize(
    ("message", "says"), [("[A_B] One. Two.", "One"), ("", ""), ("x" * 300, "x" * 199 + "…")]
)
def test_the_first_sentence_of_an_error(message: str, says: str) -> None:
    assert first_sentence(message) == says
