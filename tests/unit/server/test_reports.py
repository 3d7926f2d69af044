"""A report of a runner is believed as far as it has the fields of its kind: the pipeline's code writes there too."""

import json
from typing import Any

import pytest

from recovery.server import reports
from recovery.server.reports import LONGEST_TEXT, BadReport, Reports, read_report

FRAME = {"declaring_class": "a", "method_name": "f", "file_name": "/a.py", "line_number": 3}
LINK = {"class_name": "E", "message": "m", "stack": [FRAME], "java": ""}
ERROR = {"kind": "error", "phase": "define", "flow": None, "exceptions": [LINK]}


@pytest.mark.parametrize(
    "report",
    [
        {"kind": "connected", "graph_id": "g"},
        {"kind": "graph"},
        {"kind": "event", "time_ms": 1, "message": "Run is COMPLETED."},
        ERROR,
        {**ERROR, "flow": "t", "exceptions": [{**LINK, "stack": [{**FRAME, "line_number": None}]}]},
        {"kind": "done"},
    ],
)
def test_a_report_of_a_runner_is_read_as_it_is(report: dict[str, Any]) -> None:
    assert read_report(json.dumps(report).encode()) == report


@pytest.mark.parametrize(
    "report",
    [
        7,
        {"kind": 7},
        {"kind": "query", "event": {}},
        {"kind": "shutdown"},
        {"kind": "connected"},
        {"kind": "event", "time_ms": True, "message": ""},
        {"kind": "event", "time_ms": 10**20, "message": ""},
        {"kind": "event", "time_ms": -1, "message": ""},
        {**ERROR, "flow": 3},
        {**ERROR, "exceptions": ["E"]},
        {**ERROR, "exceptions": [{**LINK, "java": None}]},
        {**ERROR, "exceptions": [{**LINK, "stack": [{**FRAME, "line_number": "3"}]}]},
        {**ERROR, "exceptions": [{}] * 100_000},
    ],
)
def test_what_is_no_report_of_a_runner_is_refused(report: Any) -> None:
    with pytest.raises(BadReport) as refused:
        read_report(json.dumps(report).encode())
    assert refused.value.code == "unreadable"


def test_texts_are_such_as_a_database_holds_and_cut() -> None:
    said = {"kind": "event", "time_ms": 1, "message": "\0\ud800" + "x" * 2 * LONGEST_TEXT}
    message = read_report(json.dumps(said).encode())["message"]
    assert message[:3] == "\N{REPLACEMENT CHARACTER}?x"
    assert len(message) == LONGEST_TEXT


EVENT = b'{"kind": "event", "time_ms": 1, "message": "m"}'


@pytest.mark.parametrize(("most", "value"), [("MOST_REPORTS", 3), ("MOST_BYTES", 3 * len(EVENT))])
def test_one_runner_sends_so_many_reports_and_no_more(
    monkeypatch: pytest.MonkeyPatch, most: str, value: int
) -> None:
    monkeypatch.setattr(reports, most, value)
    heard = Reports()
    for _ in range(3):
        heard.read(EVENT)
    with pytest.raises(BadReport) as refused:
        heard.read(EVENT)
    assert refused.value.code == "too_many"


@pytest.mark.parametrize(
    "report", [{"kind": "connected", "graph_id": "g"}, {"kind": "graph"}, {"kind": "done"}, ERROR]
)
def test_what_begins_or_ends_a_step_comes_once(report: dict[str, Any]) -> None:
    heard, line = Reports(), json.dumps(report).encode()
    assert heard.read(line) == report
    with pytest.raises(BadReport) as refused:
        heard.read(line)
    assert refused.value.code == "again"
