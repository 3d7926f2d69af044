"""One flow of the matrix with its checkpoint and its table, and what is true of its rows."""

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.matrix.room import Room
from tests.matrix.sinks import Sink
from tests.matrix.sources import Source
from tests.state_checkpoints import ROCKS

PATH = "/p/flow.py"
PLAIN, ONCE, ONCE_TOO = "", '.dropDuplicates(["id"])', '.dropDuplicates(["id", "k"])'
LIMITED = ".limit(1000)"
# drops repeats, and fails at one row after others were written
BROKEN_AT = 5
BROKEN = f'{ONCE}.withColumn("k", f.expr("if(id = {BROKEN_AT}, cast(raise_error(\'no\') as bigint), k)"))'
_TIMED = '.selectExpr("id", "k", "timestamp_seconds(id * 10) as t").withWatermark("t", "20 seconds")'
_GROUPED = '.agg(f.max("k").alias("k")).select("id", "k")'
# each id is a group of its own, ten seconds after the one before it
WINDOWED = f'{_TIMED}.groupBy(f.window("t", "10 seconds"), "id"){_GROUPED}'
# the same rows from other state: another key, and one more value
KEYED = (
    f'{_TIMED}.groupBy(f.window("t", "10 seconds"), "id", "k").agg(f.count("*").alias("n")).select("id", "k")'
)
WIDENED = (
    f'{_TIMED}.groupBy(f.window("t", "10 seconds"), "id")'
    '.agg((f.max("k") + f.count("k") - f.count("k")).alias("k")).select("id", "k")'
)
SESSIONS = f'{_TIMED}.groupBy(f.session_window("t", "5 seconds"), "id"){_GROUPED}'
# people's own code, which holds each id back until its window is over
KEPT = (
    f'{_TIMED}.groupBy("id").applyInPandasWithState('
    'keep, "id long, k long", "k long", "append", "EventTimeTimeout")'
)
PROCESSED = (
    f'{_TIMED}.groupBy("id").transformWithStateInPandas(statefulProcessor=Keep(), '
    'outputStructType="id long, k long", outputMode="Append", timeMode="EventTime")'
)
HELPERS = {
    KEPT: """
def keep(key, frames, state):
    import pandas as pd

    if state.hasTimedOut:
        (k,) = state.get
        state.remove()
        yield pd.DataFrame({"id": [key[0]], "k": [k]})
        return
    seen = [int(k) for frame in frames for k in frame["k"]]
    if not state.exists:
        state.update((max(seen),))
    state.setTimeoutTimestamp((int(key[0]) * 10 + 10) * 1000 - 1)
""",
    PROCESSED: """
from pyspark.sql.streaming.stateful_processor import StatefulProcessor


class Keep(StatefulProcessor):
    def init(self, handle):
        self.handle, self.k = handle, handle.getValueState("k", "k long")

    def handleInputRows(self, key, rows, timerValues):
        seen = [int(k) for frame in rows for k in frame["k"]]
        if not self.k.exists():
            self.k.update((max(seen),))
            self.handle.registerTimer((int(key[0]) * 10 + 10) * 1000 - 1)
        return iter(())

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        import pandas as pd

        (k,) = self.k.get()
        self.k.clear()
        yield pd.DataFrame({"id": [key[0]], "k": [k]})

    def close(self):
        pass
""",
}
IN_WINDOWS = (WINDOWED, KEYED, WIDENED, SESSIONS, KEPT, PROCESSED)
OPEN = 3  # so many of the newest ids are in windows that end after the watermark
# each id of the first source once, with a row of the second one or, after the watermark, without
JOINED = "join"
# each id of the first source that the second one has too, whenever it came
MATCHED, MATCHED_TOO = "join by id", "join by id and k"
MATCHES = (MATCHED, MATCHED_TOO)
LATE_PARTNER = 1  # an id of the first round whose row in the second source comes last
ROUND = 6  # ids of a round
PARTNERS = (0, 2, 5)  # which of a round the second source of a join has too
OPEN_IN_JOIN = 2
# transformWithState is refused to any other store
ROCKSDB = {"spark.sql.streaming.stateStore.providerClass": ROCKS}


@dataclass(frozen=True)
class Old:
    """The code of the last good update: its text, what it read, and its stateful step."""

    code: Mapping[str, str]
    sources: tuple[Source, ...]
    operator: str


@dataclass
class World:
    """`read`: ids that updates have read, `unread`: those that wait, by source; both as often as they were put.

    `sources` and `operator` are those of the code as it stands now, `old` is the code of the last good update.
    """

    room: Room
    name: str  # of table and flow, without catalog and schema
    root: Path
    sink: Sink
    sources: list[Source]
    operator: str
    read: Counter[int] = field(default_factory=Counter)
    unread: list[tuple[Source, int]] = field(default_factory=list)
    next_id: int = 0
    old: Old | None = None
    gone: int = 0  # how many of the ids that wait can no longer be read
    open_batch: bool = False  # one was read and written, and is not committed
    crashed: bool = False  # batch 0 has failed: what the sink has is of that attempt
    failure: str = ""  # of the update after which somebody calls

    def code(self) -> dict[str, str]:
        """The pipeline's one file, as it stands now."""
        head = "from pyspark import pipelines as dp\nfrom pyspark.sql import functions as f\n"
        return {PATH: f"{head}{HELPERS.get(self.operator, '')}\n{self.sink.code(self._frame())}"}

    def _frame(self) -> str:
        reads = [f"({s.reads})" for s in self.sources]
        if self.operator in (MATCHED, MATCHED_TOO):
            on = "id = id2" if self.operator == MATCHED else "id = id2 AND k = k2"
            right = f'({reads[1]}).selectExpr("id as id2", "k as k2")'
            return f'{reads[0]}.join({right}, f.expr("{on}")).select("id", "k")'
        if self.operator != JOINED:
            return f"{'.unionByName'.join(reads)}{self.operator}"
        left, right = (f"{r}{_TIMED}" for r in reads)
        right = f'{right}.selectExpr("id as id2", "t as t2")'
        return f'{left}.join({right}, f.expr("id = id2 AND t = t2"), "leftOuter").select("id", "k")'

    @property
    def dataset(self) -> str:
        return f"spark_catalog.default.{self.name}"

    @property
    def place(self) -> Path:
        """The flow's folder of checkpoint versions."""
        return self.root / "_checkpoints" / "spark_catalog" / "default" / self.name / self.name

    @property
    def checkpoint(self) -> Path:
        """The version in use."""
        found = (
            [int(p.name) for p in self.place.iterdir() if p.name.isdigit()] if self.place.exists() else [0]
        )
        return self.place / str(max(found))

    def ids(self, count: int) -> list[int]:
        first, self.next_id = self.next_id, self.next_id + count
        return list(range(first, first + count))

    def put(self, source: Source, ids: list[int]) -> list[int]:
        source.put(ids)
        self.unread += [(source, n) for n in ids]
        return ids

    def waiting(self, sources: Sequence[Source]) -> Counter[int]:
        """Ids that wait in these sources."""
        return Counter(n for source, n in self.unread if source in sources)

    def held(self) -> Counter[int]:
        """Ids that were read and are in the state of the old code alone, each in one group."""
        return still_open(self.read, self.old.operator) if self.old else Counter()

    def update(self, code: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Run the flow once over what is there: {"answer": rows read} or {"problem": text}."""
        return self.room.update(
            code or self.code(),
            name=self.dataset,
            checkpoint=str(self.checkpoint),
            conf=ROCKSDB if PROCESSED in "".join((code or self.code()).values()) else {},
            **self.sink.told,
        )

    def good(self) -> None:
        """An update that must succeed; everything was read then."""
        said = self.update()
        assert "problem" not in said, said["problem"]
        self.took()
        self.old = Old(self.code(), tuple(self.sources), self.operator)

    def took(self) -> None:
        """An update has read all that waited."""
        self.read.update(n for _, n in self.unread)
        self.unread.clear()

    def rows(self) -> Counter[int]:
        return self.sink.rows()

    def keep(self) -> None:
        """Remember checkpoint and sink as they stand."""
        shutil.copytree(self.place, self.root / "kept" / "place")
        self.sink.keep(self.root / "kept" / "sink")

    def back(self) -> None:
        """Put them back as they were kept."""
        shutil.rmtree(self.place)
        shutil.copytree(self.root / "kept" / "place", self.place)
        self.sink.back(self.root / "kept" / "sink")

    def end(self) -> None:
        self.sink.end()
        shutil.rmtree(self.root)


def still_open(read: Counter[int], operator: str) -> Counter[int]:
    """Of these ids those that only the state of `operator` holds, once each: their window ends within the delay of the
    watermark, or no partner has come for them yet."""
    if operator == JOINED:
        alone = (n for n in read if n % ROUND not in PARTNERS)
        return Counter({n: 1 for n in alone if n > max(read) - OPEN_IN_JOIN})
    return Counter({n: 1 for n in read if operator in IN_WINDOWS and n > max(read) - OPEN})
