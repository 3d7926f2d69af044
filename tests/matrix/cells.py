"""The cells: source × sink × incident, and in each what every strategy forecast beside what came of it."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recovery.contracts.amounts import RowAmount
from recovery.contracts.option import Option
from recovery.errors import RepriseError
from recovery.sources.base import StartChoice
from recovery.strategies.catalogue import judge_all
from tests.matrix import acting, incidents, judging, sinks, sources
from tests.matrix.acting import Failed, Outcome
from tests.matrix.incidents import Incident
from tests.matrix.room import Room
from tests.matrix.world import World

SOURCES: Mapping[str, tuple[str, ...]] = {
    "files": ("files",),
    "kafka": ("kafka",),
    "delta": ("delta",),
    "change feed": ("change feed",),
    "files and kafka": ("files", "kafka"),
    "delta and delta": ("delta", "delta"),
}
ONE_OPERATOR = ("stateful operator removed", "offsets damaged", "uncommitted batch", "first batch crashed")
REPLAYED = (("files", "delta"), ("delta", "parquet"), ("delta", "delta"))
# Which incidents are run for a pair. Sources and sinks do not know of each other, so each is paired with one or two.
PAIRS: Mapping[tuple[str, str], tuple[str, ...]] = {
    **{(s, k): incidents.NAMES for k in ("delta", "parquet") for s in ("kafka", "files", "delta")},
    ("kafka", "delta"): (*incidents.NAMES, *incidents.OF_STATE, *incidents.OF_FIRST),
    ("files", "parquet"): (
        *incidents.NAMES,
        *incidents.OF_STATE,
        *incidents.OF_REPLAY,
        *incidents.OF_FIRST,
    ),
    **dict.fromkeys(REPLAYED, (*incidents.NAMES, *incidents.OF_REPLAY, *incidents.OF_FIRST)),
    ("files and kafka", "delta"): ("stateful operator removed", "source added", "source removed"),
    ("delta and delta", "parquet"): ("stateful operator removed", "source removed", "source replaced"),
    ("change feed", "delta"): incidents.NAMES,
    ("kafka", "kafka"): ONE_OPERATOR,
    ("files", "foreachBatch"): ONE_OPERATOR,
}
EARLIER, LATER, FRESH = "continue from earlier", "continue from later", "continue, new source from its start"
ANEW = "rewind to the start"
# Run at every `bin/test`, and first of all: files, Kafka and Delta as sources, each sink, and each incident that hangs
# on them, once, in the pair that costs Spark least. Of each cell, the columns that are performed; which strategies are
# blocked is judged in every cell all the same. Of the incidents that hang on the state alone (`OF_STATE`, `OF_REPLAY`)
# one is here, since they cost most: `test_rewind_on_spark` asks for changed keys of windows every day, and the proof
# `matrix` asks for all of them.
CHOSEN: Mapping[tuple[str, str, str], tuple[str, ...]] = {
    ("files", "parquet", "stateful operator removed"): ("revert", "empty"),
    ("files", "parquet", "stateful operator added"): (ANEW,),
    ("files", "parquet", "stateful operator changed"): ("prime", "full-refresh"),
    ("files", "parquet", "windowed aggregation removed"): ("continue",),
    ("files", "parquet", "source added"): (FRESH,),
    ("files", "foreachBatch", "offsets damaged"): ("repair",),
    ("kafka", "parquet", "retention passed"): (EARLIER, LATER),
    ("kafka", "kafka", "uncommitted batch"): ("continue",),
    ("files", "delta", "first batch crashed"): ("continue",),
    ("files", "parquet", "first batch written"): ("continue",),
}
COLUMNS = (
    "continue",
    FRESH,
    EARLIER,
    LATER,
    "revert",
    "repair",
    "rebuild",
    "prime",
    "rewind",
    ANEW,
    "full-refresh",
    "empty",
    "facts",
)
RUN_THOUGH_BLOCKED = ("empty",)


@dataclass(frozen=True)
class Result:
    """One strategy in one cell. `verdict`: equal, bounded, untold, differs, failed, blocked."""

    verdict: str
    says: str
    differences: tuple[str, ...] = ()


@dataclass
class Cell:
    source: str
    sink: str
    incident: Incident
    results: dict[str, Result] = field(default_factory=dict)
    fails: str = ""  # what Spark says of the incident, or what a run without any recovery does

    @property
    def key(self) -> tuple[str, str, str]:
        return self.source, self.sink, self.incident.name

    @property
    def name(self) -> str:
        return f"{self.source} / {self.sink} / {self.incident.name}"


@dataclass
class Bench:
    """What cells share: the JVM, the broker (None: no cell with Kafka), a folder."""

    room: Room
    broker: Any
    folder: Path
    count: int = 0

    def run(self, cell: Cell, performed: Collection[str] = COLUMNS) -> Cell:
        """Make the cell's world, judge every strategy on it, and perform those of these columns."""
        world = self._struck(cell)
        try:
            cell.fails = world.failure
            world.keep()
            for column, strategy, wishes in _columns(world, cell):
                if not column or column in performed:
                    cell.results |= tried(world, column, strategy, wishes, performed)
        finally:
            world.end()
        return cell

    def _struck(self, cell: Cell) -> World:
        self.count += 1
        root = self.folder / f"w{self.count}"
        made = 0

        def new(kind: str) -> sources.Source:
            nonlocal made
            made += 1
            name = f"in{self.count}x{made}"
            return sources.make(kind, room=self.room, broker=self.broker, place=root, name=name)

        kinds = SOURCES[cell.source]
        if cell.incident.of_two and len(kinds) == 1:
            kinds = kinds * 2
        table = f"t{self.count}"
        sink = sinks.make(cell.sink, room=self.room, broker=self.broker, name=table, root=root)
        world = World(self.room, table, root, sink, [new(k) for k in kinds], cell.incident.before)
        if cell.incident.is_begun:
            incidents.begin(world)
        cell.incident.strikes(world, lambda: new(kinds[-1]))
        return world


def _columns(world: World, cell: Cell) -> Iterator[tuple[str, str, dict[str, StartChoice]]]:
    """Column, the strategy in it ("": each under its own name), and where sources shall start."""
    yield "", "", {}
    every = [str(n) for n in range(len(world.sources))]
    if cell.incident.new_source:
        yield FRESH, "continue", {every[-1]: StartChoice(earliest=True)}
    if cell.incident.positioned:
        yield EARLIER, "continue", {"0": world.sources[0].earlier()}
        yield LATER, "continue", {n: StartChoice(latest=True) for n in every}
    if cell.incident.rewound:
        yield ANEW, "rewind", {n: StartChoice(earliest=True) for n in every}


def tried(
    world: World, column: str, strategy: str, wishes: Mapping[str, StartChoice], performed: Collection[str]
) -> dict[str, Result]:
    """Every strategy as it is judged with these wishes, or the one that is asked for.

    What is neither blocked nor among the columns to perform has no result.
    """
    try:
        snapshot = judging.snapshot_of(world)
        found = judging.facts(world, snapshot, wishes)
    except RepriseError as problem:
        return {column or "facts": Result("blocked", problem.sentence)}
    refused = [s.problem for s in found.sources if wishes and s.problem]
    if refused:
        return {column: Result("blocked", str(refused[0]))}
    asked = [o for o in judge_all(found) if strategy in ("", o.strategy)]
    return {
        column or o.strategy: _one(world, snapshot, found, o, wishes)
        for o in asked
        if (o.blocked and o.strategy not in RUN_THOUGH_BLOCKED) or (column or o.strategy) in performed
    }


def _one(
    world: World, snapshot: Any, found: Any, option: Option, wishes: Mapping[str, StartChoice]
) -> Result:
    if option.blocked and option.strategy not in RUN_THOUGH_BLOCKED:
        return Result("blocked", option.blocked)
    try:
        contents = judging.plan(snapshot, found, option, wishes)
        came = acting.perform(world, snapshot, found, option, contents)
    except Failed as problem:
        foreseen = option.blocked and option.forecast.new_rows is None
        return Result("untold" if foreseen else "failed", f"the update fails: {problem}")
    finally:
        world.back()
    return compared(option, came)


def compared(option: Option, came: Outcome) -> Result:
    """The forecast beside the outcome, number by number."""
    told = option.forecast
    pairs: list[tuple[str, RowAmount | None, int | None, int | None]] = [
        ("lost", told.lost, told.lost.rows, came.lost),
        ("doubled", told.doubled, told.doubled.rows, came.doubled),
        ("reread", told.reread, told.reread.rows, came.reread),
        ("new", None, told.new_rows, came.new_rows),
        ("table", None, told.table_after, came.table_after),
    ]
    said, different, worst = [], [], "equal"
    for name, amount, rows, real in pairs:
        if real is None:
            continue
        exact = amount is None or amount.exact
        said.append(
            f"{name} {'≤ ' if rows is not None and not exact else ''}{'?' if rows is None else rows}/{real}"
        )
        if rows is None:
            worst = "untold" if worst == "equal" else worst
        elif (exact and rows != real) or (not exact and real > rows):
            different.append(f"{name}: forecast {rows}{'' if exact else ' at most'}, outcome {real}")
        elif not exact:
            worst = "bounded" if worst == "equal" else worst
    return Result("differs" if different else worst, ", ".join(said), tuple(different))


def all_cells() -> list[Cell]:
    """Those that are run, by source and sink."""
    return [Cell(s, k, i) for (s, k), names in PAIRS.items() for i in incidents.INCIDENTS if i.name in names]


def in_order(pattern: str) -> list[Cell]:
    """Those whose name the pattern finds; the chosen ones first."""
    found = [c for c in all_cells() if re.search(pattern, c.name)]
    return sorted(found, key=lambda c: c.key not in CHOSEN)


def named(source: str, sink: str, incident: str) -> Cell:
    """One cell by its names."""
    return next(Cell(source, sink, i) for i in incidents.INCIDENTS if i.name == incident)
