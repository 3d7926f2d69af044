"""What every kind of sink answers, and what a start does to the rows in it."""

from pathlib import Path

import pytest

from recovery.contracts.amounts import Amount
from recovery.sinks import kafka, registry, unknown
from recovery.sinks.base import SinkReport
from recovery.sinks.kinds import PlannedStart
from recovery.sources.base import Distance

DOCS = Path(__file__).resolve().parents[3] / "docs/sinks.md"
ROWS = Distance(rows=Amount(value=5))
NEXT = PlannedStart(4)  # a seed after batch 3, nothing read again
AGAIN = PlannedStart(4, reread=ROWS)
EMPTY = PlannedStart(0, reread=ROWS)
CRASHED = PlannedStart(3, query_id_kept=True, planned=3, planned_rows=Amount(value=2))
UNFINISHED = PlannedStart(4, planned=3, planned_rows=Amount(value=2))
FILES = SinkReport(kind="files", location="/t", head=3)
DELTA = SinkReport("delta", "/t", 3, heads={"q": 3})
TOPIC = SinkReport("kafka", "topic t", None, facts=kafka.KafkaSinkFacts(("t",)))
UNKNOWN = unknown.empty_report("/t")


FUNCTION = SinkReport("foreach_batch", "f", None)

# report, start, (rows doubled at most, exact), batches that vanish
CASES: dict[str, tuple[SinkReport, PlannedStart, tuple[int, bool] | None, range]] = {
    "files, the next batch": (FILES, NEXT, (0, True), range(0)),
    "files, empty": (FILES, EMPTY, None, range(4)),
    "files, read again": (FILES, AGAIN, (5, True), range(0)),
    "files, a hole": (FILES, PlannedStart(6), None, range(0)),
    "files, a new table": (SinkReport("files", "/t", None), PlannedStart(0), (0, True), range(0)),
    "files, the table has the planned batch": (FILES, UNFINISHED, (2, True), range(0)),
    "files, the planned batch again": (FILES, CRASHED, (0, True), range(0)),
    "kafka, the next batch": (TOPIC, NEXT, (0, True), range(0)),
    "kafka, read again": (TOPIC, AGAIN, (5, True), range(0)),
    "kafka, the planned batch again": (TOPIC, CRASHED, (2, False), range(0)),
    "kafka, not counted": (TOPIC, PlannedStart(4, reread=Distance()), None, range(0)),
    "delta, old id": (DELTA, PlannedStart(2, True), None, range(2, 4)),
    "delta, old id with a gap": (DELTA, PlannedStart(9, True), (0, True), range(0)),
    "delta, new id": (DELTA, EMPTY, (5, True), range(0)),
    "delta, holds the planned batch": (DELTA, UNFINISHED, (2, True), range(0)),
    "delta, the planned batch again": (DELTA, CRASHED, (0, True), range(0)),
    "delta, has nothing of the query": (SinkReport("delta", "/t", None), UNFINISHED, (0, True), range(0)),
    "foreachBatch, nothing again": (FUNCTION, NEXT, (0, True), range(0)),
    "foreachBatch, read again": (FUNCTION, AGAIN, (5, True), range(0)),
    "foreachBatch, the planned batch again": (FUNCTION, CRASHED, (2, False), range(0)),
    "unknown, nothing again": (UNKNOWN, NEXT, (0, True), range(0)),
    "unknown, read again": (UNKNOWN, AGAIN, (5, True), range(0)),
}


@pytest.mark.parametrize(("report", "start", "doubled", "vanished"), CASES.values(), ids=CASES.keys())
def test_what_a_start_does_to_the_rows(
    report: SinkReport, start: PlannedStart, doubled: tuple[int, bool] | None, vanished: range
) -> None:
    found = registry.sink_kind_of(report.kind).judge_risk(start, report)
    assert (found.doubled and (found.doubled.value, found.doubled.exact)) == doubled
    assert found.vanished == vanished
    assert found.says.endswith(".")
    assert not found.do or found.do.endswith(".")


@pytest.mark.parametrize(
    ("report", "is_exact"),
    [
        (FILES, True),
        (DELTA, True),
        (TOPIC, False),
        (FUNCTION, False),
        (UNKNOWN, False),
    ],
)
def test_a_sink_is_at_least_once_or_holds_a_tried_batch_once(report: SinkReport, is_exact: bool) -> None:
    why = registry.sink_kind_of(report.kind).explain_at_least_once(report)
    assert why == "" if is_exact else why.endswith(".")


def test_every_kind_is_tested_here_and_a_name_that_none_has_is_unknown() -> None:
    assert set(registry.BY_NAME) == {report.kind for report, *_ in CASES.values()}
    assert registry.sink_kind_of("no such kind") is unknown


@pytest.mark.parametrize("report", [TOPIC, FUNCTION, UNKNOWN])
@pytest.mark.parametrize("start", [AGAIN, CRASHED, UNFINISHED, PlannedStart(4, reread=Distance())])
def test_no_start_is_promised_harmless_where_rows_come_again_to_a_sink_that_keeps_nothing(
    report: SinkReport, start: PlannedStart
) -> None:
    found = registry.sink_kind_of(report.kind).judge_risk(start, report)
    assert found.doubled is None or found.doubled.value > 0


def test_every_kind_has_its_row_in_the_docs() -> None:
    rows = [line.split("|")[1] for line in DOCS.read_text().splitlines() if line.startswith("| ")]
    assert set(registry.BY_NAME) <= {row.partition(",")[0].strip() for row in rows}
