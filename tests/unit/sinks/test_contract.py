"""What every kind of sink answers, and what a start does to the rows in it."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from recovery.contracts.amounts import Amount
from recovery.sinks import (
    auto_cdc,
    foreach_batch,
    iceberg,
    kafka,
    materialized_view,
    registry,
    several_flows,
    unknown,
)
from recovery.sinks.base import SinkReport
from recovery.sinks.kinds import PlannedStart
from recovery.sources.base import Distance, Precision

DOCS = Path(__file__).resolve().parents[3] / "docs/sinks.md"
ROWS = Distance(rows=Amount(value=5))
NEXT = PlannedStart(4)  # a seed after batch 3, nothing read again
AGAIN = PlannedStart(4, reread=ROWS)
EMPTY = PlannedStart(0, reread=ROWS)
CRASHED = PlannedStart(3, query_id_kept=True, planned=3, planned_rows=Amount(value=2))
UNFINISHED = PlannedStart(4, planned=3, planned_rows=Amount(value=2))
FILES = SinkReport(kind="files", location="/t", head=3)
DELTA = SinkReport("delta", "/t", 3, heads={"q": 3})
APP = foreach_batch.ForeachBatchFacts("orders", 3, True)

# kind, facts, start, (rows doubled at most, exact), batches that vanish
CASES: dict[str, tuple[str, Any, PlannedStart, tuple[int, bool] | None, range]] = {
    "files, the next batch": ("files", FILES, NEXT, (0, True), range(0)),
    "files, empty": ("files", FILES, EMPTY, None, range(4)),
    "files, read again": ("files", FILES, AGAIN, (5, True), range(0)),
    "files, a hole": ("files", FILES, PlannedStart(6), None, range(0)),
    "files, a new table": ("files", SinkReport("files", "/t", None), PlannedStart(0), (0, True), range(0)),
    "files, the table has the planned batch": ("files", FILES, UNFINISHED, (2, True), range(0)),
    "files, the planned batch again": ("files", FILES, CRASHED, (0, True), range(0)),
    "kafka, the next batch": ("kafka", kafka.KafkaSinkFacts(("t",)), NEXT, (0, True), range(0)),
    "kafka, read again": ("kafka", kafka.KafkaSinkFacts(), AGAIN, (5, True), range(0)),
    "kafka, the planned batch again": ("kafka", kafka.KafkaSinkFacts(), CRASHED, (2, False), range(0)),
    "kafka, not counted": (
        "kafka",
        kafka.KafkaSinkFacts(),
        PlannedStart(4, reread=Distance()),
        None,
        range(0),
    ),
    "delta, old id": ("delta", DELTA, PlannedStart(2, True), None, range(2, 4)),
    "delta, old id with a gap": ("delta", DELTA, PlannedStart(9, True), (0, True), range(0)),
    "delta, new id": ("delta", DELTA, EMPTY, (5, True), range(0)),
    "delta, holds the planned batch": ("delta", DELTA, UNFINISHED, (2, True), range(0)),
    "delta, the planned batch again": ("delta", DELTA, CRASHED, (0, True), range(0)),
    "delta, has nothing of the query": (
        "delta",
        SinkReport("delta", "/t", None),
        UNFINISHED,
        (0, True),
        range(0),
    ),
    "iceberg, old id": (
        "iceberg",
        iceberg.IcebergSinkFacts({"q": 3}, "q"),
        PlannedStart(2, True),
        None,
        range(2, 4),
    ),
    "iceberg, new id": ("iceberg", iceberg.IcebergSinkFacts({"q": 3}, "q"), EMPTY, (5, True), range(0)),
    "iceberg, holds the planned batch": (
        "iceberg",
        iceberg.IcebergSinkFacts({"q": 3}, "q"),
        UNFINISHED,
        (2, True),
        range(0),
    ),
    "iceberg, has not the planned batch": (
        "iceberg",
        iceberg.IcebergSinkFacts({"q": 2}, "q"),
        UNFINISHED,
        (0, True),
        range(0),
    ),
    "iceberg, forgotten": (
        "iceberg",
        iceberg.IcebergSinkFacts({}, "q", True),
        UNFINISHED,
        (2, False),
        range(0),
    ),
    "iceberg, the planned batch again": (
        "iceberg",
        iceberg.IcebergSinkFacts({"q": 3}, "q"),
        CRASHED,
        (0, True),
        range(0),
    ),
    "foreachBatch, nothing kept": (
        "foreach_batch",
        foreach_batch.ForeachBatchFacts(),
        AGAIN,
        (5, True),
        range(0),
    ),
    "foreachBatch, its own id goes on": ("foreach_batch", APP, NEXT, (0, True), range(0)),
    "foreachBatch, its own id outlives a reset": ("foreach_batch", APP, EMPTY, None, range(4)),
    "foreachBatch, the planned batch again": ("foreach_batch", APP, CRASHED, (0, True), range(0)),
    "foreachBatch, mails again": (
        "foreach_batch",
        foreach_batch.ForeachBatchFacts("orders", 3, True, ("mails",)),
        CRASHED,
        (2, True),
        range(0),
    ),
    "SCD 1": ("auto_cdc", auto_cdc.AutoCdcFacts(1, True, 3), EMPTY, (0, True), range(0)),
    "SCD 1, auxiliary table lost": ("auto_cdc", auto_cdc.AutoCdcFacts(1, False, 3), AGAIN, None, range(0)),
    "SCD 1, not looked": ("auto_cdc", auto_cdc.AutoCdcFacts(1, None, 3), AGAIN, None, range(0)),
    "SCD 1, older than tombstones": (
        "auto_cdc",
        auto_cdc.AutoCdcFacts(1, True, 3, 50, 40),
        AGAIN,
        None,
        range(0),
    ),
    "SCD 1, tombstones reach": (
        "auto_cdc",
        auto_cdc.AutoCdcFacts(1, True, 3, 50, 60),
        AGAIN,
        (0, True),
        range(0),
    ),
    "SCD 2, goes on": ("auto_cdc", auto_cdc.AutoCdcFacts(2, True, 3), AGAIN, (0, True), range(0)),
    "SCD 2, numbers anew": ("auto_cdc", auto_cdc.AutoCdcFacts(2, True, 3), EMPTY, None, range(0)),
    "SCD 2, unfinished": ("auto_cdc", auto_cdc.AutoCdcFacts(2, True, 3), UNFINISHED, None, range(0)),
    "a view": ("materialized_view", materialized_view.MaterializedViewFacts(), EMPTY, (0, True), range(0)),
    "two flows, files": (
        "several_flows",
        several_flows.SharedTableFacts("files", ("a", "b")),
        NEXT,
        None,
        range(0),
    ),
    "two flows, Delta": (
        "several_flows",
        several_flows.SharedTableFacts("delta", ("a", "b"), ("a",)),
        AGAIN,
        (5, True),
        range(0),
    ),
    "two flows, unknown": (
        "several_flows",
        several_flows.SharedTableFacts("x", ("a", "b")),
        AGAIN,
        None,
        range(0),
    ),
    "unknown, nothing again": ("unknown", None, NEXT, (0, True), range(0)),
    "unknown, read again": ("unknown", None, AGAIN, (5, True), range(0)),
}


@pytest.mark.parametrize(("name", "facts", "start", "doubled", "vanished"), CASES.values(), ids=CASES.keys())
def test_what_a_start_does_to_the_rows(
    name: str, facts: Any, start: PlannedStart, doubled: tuple[int, bool] | None, vanished: range
) -> None:
    found = registry.sink_kind_of(name).judge_risk(start, facts)
    assert (found.doubled and (found.doubled.value, found.doubled.exact)) == doubled
    assert found.vanished == vanished
    assert found.says.endswith(".")
    assert not found.do or found.do.endswith(".")


@pytest.mark.parametrize(
    ("name", "facts", "absorbs", "guarantee"),
    [
        ("files", FILES, False, Precision.EXACT),
        ("kafka", kafka.KafkaSinkFacts(), False, Precision.AT_LEAST_ONCE),
        ("iceberg", iceberg.IcebergSinkFacts({"q": 3}, "q"), True, Precision.EXACT),
        ("iceberg", iceberg.IcebergSinkFacts({}, "q", True), False, Precision.EXACT),
        ("foreach_batch", foreach_batch.ForeachBatchFacts(), None, Precision.AT_LEAST_ONCE),
        (
            "foreach_batch",
            foreach_batch.ForeachBatchFacts(every_write_guarded=False),
            False,
            Precision.AT_LEAST_ONCE,
        ),
        ("foreach_batch", APP, True, Precision.EXACT),
        ("foreach_batch", foreach_batch.ForeachBatchFacts("orders", 3), None, Precision.AT_LEAST_ONCE),
        (
            "foreach_batch",
            foreach_batch.ForeachBatchFacts("orders", 3, True, ("mails",)),
            False,
            Precision.AT_LEAST_ONCE,
        ),
        ("auto_cdc", auto_cdc.AutoCdcFacts(1, True), True, Precision.EXACT),
        ("auto_cdc", auto_cdc.AutoCdcFacts(2), None, Precision.EXACT),
        ("materialized_view", materialized_view.MaterializedViewFacts(), True, Precision.EXACT),
        ("several_flows", several_flows.SharedTableFacts("files", ("a", "b")), False, Precision.AT_MOST_ONCE),
        ("several_flows", several_flows.SharedTableFacts("iceberg", ("a", "b")), True, Precision.EXACT),
        ("unknown", None, None, Precision.UNKNOWN),
    ],
)
def test_what_a_sink_remembers(name: str, facts: Any, absorbs: bool | None, guarantee: Precision) -> None:
    found = registry.sink_kind_of(name).describe_memory(facts)
    assert (found.absorbs_repeats, found.guarantee) == (absorbs, guarantee)
    assert found.says.endswith(".")


def test_side_effects_that_happen_again_are_named() -> None:
    effect = "a call to a payment service"
    facts = foreach_batch.ForeachBatchFacts("orders", 3, True, (effect,))
    assert effect in foreach_batch.describe_memory(facts).says
    assert effect in foreach_batch.judge_risk(AGAIN, facts).says


def test_every_kind_is_tested_here_and_a_name_that_none_has_is_unknown() -> None:
    assert {kind.KIND for kind in registry.KINDS} == {case[0] for case in CASES.values()}
    assert registry.sink_kind_of("no such kind") is unknown


def test_no_start_is_promised_harmless_that_is_not() -> None:
    """Whatever the kind: a promise of no repeat is never made where rows come again to a sink that keeps nothing."""
    facts = {case[0]: case[1] for case in CASES.values()}
    for kind, start in product(
        ("kafka", "unknown"), (AGAIN, CRASHED, UNFINISHED, PlannedStart(4, reread=Distance()))
    ):
        found = registry.sink_kind_of(kind).judge_risk(start, facts[kind])
        assert found.doubled is None or found.doubled.value > 0


def test_every_kind_has_its_row_in_the_docs() -> None:
    rows = [line.split("|")[1] for line in DOCS.read_text().splitlines() if line.startswith("| ")]
    told = {row.partition(",")[0].strip() for row in rows}
    assert {kind.KIND for kind in registry.KINDS} <= told
