"""Facts of streams over other sources into other sinks, as values: 10 rows read, 5 unread, 10 in the table."""

from dataclasses import replace
from typing import Any

from recovery.checkpoints.report import SourceProgress, StateOperator
from recovery.contracts.amounts import Amount, Bound
from recovery.contracts.option import Option
from recovery.contracts.readers import SourceReader
from recovery.sinks.base import SinkReport
from recovery.sources.base import Distance, Position, Precision, SourceFacts, SourceRetention, StartCandidate
from recovery.sources.kafka_facts import KafkaFacts, PartitionFacts, TopicFacts
from recovery.strategies.base import CodeFacts, Counts, Facts
from recovery.strategies.catalogue import judge_all
from tests.unit.strategies.facts import WITH, WITHOUT, checkpoint, facts

LINES = {
    "files": '{"logOffset":2}',
    "kafka": '{"orders":{"0":10}}',
    "delta": '{"sourceVersion":1,"reservoirId":"t-1","reservoirVersion":3,"index":-1,"isStartingVersion":false}',
    "rate": "10",
    "rate-micro-batch": '{"offset":10,"timestamp":0}',
    "python": '{"at": 10}',
    "iceberg": '{"version":1,"snapshot_id":7,"position":1,"scan_all_files":false}',
}
READABLE = SourceRetention(True, "Every record after the position is still there.")
KAFKA = KafkaFacts(
    1000, {"orders": TopicFacts("id-1", {0: PartitionFacts(0, 15)}, plain=True)}, {"orders": None}
)
NO_ROW = Distance(rows=Amount(value=0))


def of(rows: int, exact: bool = True) -> Distance:
    return Distance(
        rows=Amount(value=rows, bound=Bound.AT_MOST.unless(exact), why="" if exact else "markers")
    )


def start(at: str, *, lost: Distance = NO_ROW, reread: Distance = NO_ROW, **more: Any) -> StartCandidate:
    return StartCandidate(f'{{"orders":{{"0":{at}}}}}', f"offset {at}", Precision.EXACT, lost, reread, **more)


def source(kind: str, **changes: Any) -> SourceFacts:
    values: dict[str, Any] = {
        "position": Position(0, kind, LINES.get(kind, "?"), f"{kind} at 10", Precision.EXACT, True),
        "location": "somewhere",
        "options": {"startingOffsets": "earliest"},
        "unread": of(5),
        "reach": READABLE,
        "facts": KAFKA if kind == "kafka" else None,
    }
    return SourceFacts(**{**values, **changes})


def stream(kind: str = "kafka", sink: SinkReport | None = None, **changes: Any) -> Facts:
    """One source of that kind; the new code is stateless, the old one dropped repeats."""
    readers = (SourceReader(kind),)
    new = CodeFacts({"/p/q.py": WITHOUT}, (), sources=readers)
    old = CodeFacts({"/p/q.py": WITH}, ("dedupe",), sources=readers)
    progress = (SourceProgress(0, kind, LINES.get(kind, "?")),)
    made = facts(
        checkpoint=checkpoint(
            last_planned=2, sources=progress, state_operators=(StateOperator(0, "dedupe", 2),)
        ),
        sink=sink or SinkReport("delta", "/w", 2, heads={"q-1": 2}),
        sources=(source(kind),),
        old_code=old,
        code=new,
        new_code=new,
        counts=Counts(table=10, processed=10, waiting=5, everything=15, repeats_waiting=0),
        old_counts=Counts(table=10, processed=10, waiting=5, everything=15, fresh_waiting=5),
    )
    return replace(made, **changes)


DELTA = SinkReport("delta", "/w", 2, heads={"q-1": 2})
FILES = SinkReport("files", "/w", 2)
LOOSE = {
    "kafka": SinkReport("kafka", "t", None),
    "foreach_batch": SinkReport("foreach_batch", "f", None),
    "unknown": SinkReport("unknown", "/w", None),
}


def options(given: Facts) -> dict[str, Option]:
    return {o.strategy: o for o in judge_all(given)}
