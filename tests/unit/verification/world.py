"""A recovery in miniature: input files, batches, rows; and the evidence that measuring it would give.

What Spark counts in earnest is counted here over plain lists, so that any loss can be staged.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from recovery.checkpoints.report import CheckpointReport, Entries, SourceEntry, SourceProgress
from recovery.contracts.criteria import Criterion
from recovery.sinks.base import SinkReport
from recovery.spark.api import Measure
from recovery.verification.criteria import REQUIRED
from recovery.verification.evidence import (
    Evidence,
    FirstBatch,
    FurtherUpdate,
    OldFiles,
    new_data_files,
    new_inputs,
)

OLD_BATCHES = 3  # committed by the old version: 0, 1, 2


def uri(source: int, number: int) -> str:
    return f"file:///in/{source}/a%20b-{number}.json"


def decoded(source: int, number: int) -> str:
    return f"file:///in/{source}/a b-{number}.json"


@dataclass
class World:
    """`old[s]` and `new[s]`: numbers of the files in each source's committed log entries, before and after."""

    strategy: str = "continue"
    old: list[list[int]] = field(default_factory=lambda: [[1, 2, 3]])
    new: list[list[int]] = field(default_factory=lambda: [[4, 5]])
    listed: list[list[int]] | None = None
    old_rows: list[str] = field(default_factory=lambda: ["a", "b", "b"])
    written: list[str] | None = None  # rows in the new data files
    expected: list[str] = field(
        default_factory=lambda: ["b", "c", "c", "d"]
    )  # by the new code, over new files
    table: list[str] | None = None  # as a fresh session reads it
    open: int | None = None  # a batch of which the plan could not tell whether the table has it
    key: list[str] = field(default_factory=list)  # a row is its own key, where one is known
    accepted: dict[str, Any] = field(
        default_factory=lambda: {"rows": 0, "bound": "exact"}
    )  # repeats of a key
    late: int = 0  # of the new files, how many arrived after the plan was sealed

    def __post_init__(self) -> None:
        if self.written is None:
            self.written = list(self.expected)
        if self.listed is None:
            self.listed = [[*o, *n] for o, n in zip(self.old, self.new, strict=True)]

    @property
    def scope(self) -> str:
        return {"continue": "both", "revert": "same", "full-refresh": "new"}[self.strategy]

    def criteria(self, **other: Mapping[str, Any]) -> list[Criterion]:
        """As the plan fixed them before the rerun. `other`: by code, values that are expected in place of these."""
        fresh = self.scope == "new"
        batch = 0 if fresh else OLD_BATCHES
        files = sum(len(set(x)) for x in self.listed or []) - self.late
        expected: dict[str, Any] = {
            "FIRST_BATCH_AT_POSITION": {
                "batch": batch,
                "offsets": [None if fresh else '{"logOffset":2}' for _ in self.old],
            },
            "EACH_FILE_ONCE": {"scope": self.scope, "files": files},
            "TABLE_GREW_BY_NEW_BATCHES": {"before": 0 if fresh else len(self.old_rows)},
            "EVERY_ROW_ONCE": {
                "scope": "new",
                "key": self.key,
                **({} if self.open is None else {"open": self.open}),
            },
            **({} if fresh else {"ROWS_OF_BEFORE_UNTOUCHED": {"rows": len(self.old_rows)}}),
            **({"NO_KEY_TWICE": {"key": self.key, "accepted": self.accepted}} if self.key else {}),
            "COUNTS_EQUAL_FORECAST": {"new_rows": len(self.expected)},
            "NOTHING_ELSE_CHANGED": {},
            "FURTHER_UPDATE_ADDS_NOTHING": {},
        }
        assert set(REQUIRED[self.strategy]) <= expected.keys()
        return [Criterion(code=c, says=c, expected={**e, **other.get(c, {})}) for c, e in expected.items()]

    def evidence(self, **changes: Any) -> Evidence:
        old, new = self._old(), self._new()
        before, after = self._sinks()
        evidence = Evidence(
            scope=self.scope,
            old=old,
            new=new,
            listed={s: tuple(decoded(s, n) for n in numbers) for s, numbers in enumerate(self.listed or [])},
            first_batch=self._first(),
            sink_before=before,
            sink_after=after,
            measure=self._measure(),
            measured_inputs=new_inputs(self.scope, old, new),
            measured_files=new_data_files(self.scope, before, after),
            others_before={"table x": "1", "checkpoint y": "2"},
            others_after={"table x": "1", "checkpoint y": "2"},
            further=FurtherUpdate("COMPLETED", 7, 7, ("f",), ("f",)),
            old_files=OldFiles(files=3),
        )
        return replace(evidence, **changes)

    def _entries(self, source: int, numbers: list[int], ids: list[int]) -> Entries:
        return Entries.from_entries(
            SourceEntry(uri(source, n), 0, i) for n, i in zip(numbers, ids, strict=True)
        )

    def _old(self) -> CheckpointReport:
        sources = tuple(
            SourceProgress(
                s, "files", '{"logOffset":2}', 2, self._entries(s, o, [min(i, 2) for i in range(len(o))])
            )
            for s, o in enumerate(self.old)
        )
        return CheckpointReport(
            "old", "structured-streaming", 0, "q", 2, 3, sources, batches=self._batches(2)
        )

    def _new(self) -> CheckpointReport:
        sources = []
        for s, (o, n) in enumerate(zip(self.old, self.new, strict=True)):
            kept = Entries() if self.scope == "new" else self._old().sources[s].committed
            read = self._entries(s, n, [len(kept) and 3 for _ in n])
            sources.append(
                SourceProgress(
                    s,
                    "files",
                    '{"logOffset":3}',
                    3,
                    Entries.from_entries((*kept, *read)),
                    compacted=len(o) > 8,
                )
            )
        last = 0 if self.scope == "new" else 3
        return CheckpointReport(
            "new", "structured-streaming", 1, "r", last, last, tuple(sources), batches=self._batches(last)
        )

    def _batches(self, last: int) -> tuple[dict[str, Any], ...]:
        return tuple(
            {
                "batch": b,
                "planned": True,
                "committed": True,
                "offsets": [f'{{"logOffset":{b}}}' for _ in self.old],
            }
            for b in range(last, -1, -1)
        )

    def _first(self) -> FirstBatch:
        if self.scope == "new":
            return FirstBatch(0, tuple(None for _ in self.old))
        return FirstBatch(OLD_BATCHES, tuple({"logOffset": 2} for _ in self.old))

    def _sinks(self) -> tuple[SinkReport, SinkReport]:
        before = SinkReport("files", "/t", 2, batches={2: ("p2",)}, older=("p0", "p1"))
        if self.scope == "new":
            return before, SinkReport("files", "/t", 0, batches={0: ("n0",)})
        return before, SinkReport("files", "/t", 3, batches={3: ("n0", "n1")}, older=("p0", "p1", "p2"))

    def _measure(self) -> Measure:
        old = [] if self.scope == "new" else self.old_rows
        written = self.written or []
        want, got, stood = Counter(self.expected), Counter(written), Counter(old)
        table = [*old, *written] if self.table is None else self.table
        return Measure(
            table_rows=len(table),
            listed_rows=len(old) + len(written),
            old_rows=len(old),
            new_rows=len(written),
            expected_rows=len(self.expected),
            missing=sum((want - got).values()),
            extra=sum((got - want).values()),
            duplicates_in_table=_repeats(stood + got),
            duplicates_before=_repeats(stood),
            duplicates_explained=_repeats(stood + want) - _repeats(stood),
            repeats_added=_repeats(stood + got) - _repeats(stood),
            held_before=sum(n for row, n in want.items() if stood[row]),
            table_keys=len(stood + got),
            keys_twice=sum(stood[row] + got[row] > 1 for row in got),
            new_repeats=sum(stood[row] + n - max(stood[row], 1) for row, n in got.items()),
            key=tuple(self.key),
        )


def _repeats(rows: "Counter[str]") -> int:
    return sum(n - 1 for n in rows.values() if n > 1)
