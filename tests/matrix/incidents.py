"""What happens to a flow. Each leaves a world as the responder finds it: rows wait, and often an update has failed."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.damages import hands
from tests.matrix.room import first
from tests.matrix.sources import Source, Unread
from tests.matrix.world import (
    BROKEN,
    JOINED,
    KEPT,
    KEYED,
    LATE_PARTNER,
    LIMITED,
    MATCHED,
    MATCHED_TOO,
    ONCE,
    ONCE_TOO,
    PARTNERS,
    PLAIN,
    PROCESSED,
    ROUND,
    SESSIONS,
    WIDENED,
    WINDOWED,
    World,
)


@dataclass(frozen=True)
class Incident:
    """`before`: the stateful step of the old code; `strikes` changes the world after its good batches.

    `strikes` gets the world after its good updates and makes another source where it needs one.
    """

    name: str
    before: str
    strikes: Callable[[World, Callable[[], Source]], None]
    positioned: bool = False  # going on from another position is tried too
    new_source: bool = False  # the last one is new: where it begins has to be said
    of_two: bool = False  # needs a second source from the beginning
    is_begun: bool = True  # good updates come before it
    rewound: bool = False  # the new code keeps state, which can be built anew from an earlier position


def begin(world: World) -> None:
    """Two updates of some batches each; repeats among them where the code drops repeats."""
    for _ in range(2):
        if world.operator in (JOINED, MATCHED):
            pairs(world)
            world.good()
            continue
        for source in world.sources:
            new = world.ids(6)
            repeats = new[:2] if world.operator else []
            world.put(source, [*new, *repeats])
        world.good()


def pairs(world: World) -> None:
    """New rows in the first of two sources, and partners of some of them in the second one, which are no rows of the
    table by themselves."""
    new = world.put(world.sources[0], world.ids(ROUND))
    world.sources[1].put([new[n] for n in PARTNERS])


def wait(world: World) -> None:
    """New rows in every source. One of them stands in the table already, where the code drops repeats."""
    for source in world.sources:
        seen = [sorted(world.read)[0]] if world.operator else []
        world.put(source, [*world.ids(6), *seen])


def fails(world: World) -> None:
    """The update after which somebody calls; it plans a batch, and does not commit it. One that succeeds all the same
    has read what waited, and other rows come."""
    said = world.update()
    if "problem" in said:
        world.failure = first(said["problem"])
    else:
        world.took()
        wait(world)


def operator(to: str) -> Callable[[World, Callable[[], Source]], None]:
    def strikes(world: World, more: Callable[[], Source]) -> None:
        wait(world)
        world.operator = to
        fails(world)

    return strikes


def separated(world: World, more: Callable[[], Source]) -> None:
    """A join is taken out, and its second source with it, while rows wait in both."""
    pairs(world)
    world.sources, world.operator = world.sources[:-1], PLAIN
    fails(world)


def matched(world: World, more: Callable[[], Source]) -> None:
    """The condition of a join is changed, while rows wait in both, and a partner of a row that was read long ago."""
    pairs(world)
    world.sources[1].put([LATE_PARTNER])
    world.operator = MATCHED_TOO
    fails(world)


def added(world: World, more: Callable[[], Source]) -> None:
    wait(world)
    new = more()
    world.sources = [*world.sources, new]
    world.put(new, world.ids(6))
    fails(world)


def removed(world: World, more: Callable[[], Source]) -> None:
    """The second of two sources is taken out, while rows wait in both."""
    wait(world)
    world.sources = world.sources[:-1]
    fails(world)


def replaced(world: World, more: Callable[[], Source]) -> None:
    wait(world)
    new = more()
    world.sources = [*world.sources[:-1], new]
    world.put(new, world.ids(6))
    fails(world)


def damaged(world: World, more: Callable[[], Source]) -> None:
    """The newest offset file is cut off within its header."""
    wait(world)
    newest = max(int(p.name) for p in (world.checkpoint / "offsets").iterdir() if p.name.isdigit())
    hands.cut(world.checkpoint / "offsets" / str(newest), 20)
    fails(world)


def expired(world: World, more: Callable[[], Source]) -> None:
    """Retention takes what was read, and, where a system can, some of what waits."""
    wait(world)

    def new(count: int) -> list[int]:
        ids = world.ids(count)
        world.unread += [(world.sources[0], n) for n in ids]
        return ids

    gone = world.sources[0].expire(Unread(sorted(n for _, n in world.unread), new))
    world.gone = len(gone)
    fails(world)


def uncommitted(world: World, more: Callable[[], Source]) -> None:
    """A crash after the table's commit and before the checkpoint's; then dropDuplicates is taken out."""
    newest = max(int(p.name) for p in (world.checkpoint / "commits").iterdir() if p.name.isdigit())
    hands.remove(world.checkpoint / "commits" / str(newest))
    world.open_batch = True
    wait(world)
    world.operator = PLAIN
    fails(world)


def first_crashed(world: World, more: Callable[[], Source]) -> None:
    """The very first batch fails at a row; then the code is mended, and its dropDuplicates gets another key."""
    for source in world.sources:
        world.put(source, world.ids(8))
    said = world.update()
    assert "problem" in said, "the first batch is written"
    world.failure, world.crashed = first(said["problem"]), True
    world.operator = ONCE_TOO


def first_written(world: World, more: Callable[[], Source]) -> None:
    """A crash after the table's commit of the very first batch and before the checkpoint's; then dropDuplicates is
    taken out."""
    for source in world.sources:
        world.put(source, world.ids(6))
    said = world.update()
    assert "problem" not in said, said["problem"]
    world.took()
    assert sorted(p.name for p in (world.checkpoint / "offsets").iterdir() if p.name.isdigit()) == ["0"]
    hands.remove(world.checkpoint / "commits" / "0")
    world.open_batch = True
    wait(world)
    world.operator = PLAIN


INCIDENTS = (
    Incident("stateful operator removed", ONCE, operator(PLAIN), positioned=True),
    Incident("stateful operator added", PLAIN, operator(ONCE), rewound=True),
    Incident("stateful operator changed", ONCE, operator(ONCE_TOO), rewound=True),
    Incident("source added", PLAIN, added, new_source=True),
    Incident("source removed", PLAIN, removed, of_two=True),
    Incident("source replaced", PLAIN, replaced, new_source=True),
    Incident("offsets damaged", PLAIN, damaged),
    Incident("retention passed", PLAIN, expired, positioned=True),
    Incident("uncommitted batch", ONCE, uncommitted),
    Incident("windowed aggregation removed", WINDOWED, operator(PLAIN), positioned=True),
    Incident("session windows removed", SESSIONS, operator(PLAIN)),
    Incident("limit removed", LIMITED, operator(PLAIN)),
    Incident("join removed", JOINED, separated, of_two=True),
    Incident("applyInPandasWithState removed", KEPT, operator(PLAIN)),
    Incident("transformWithState removed", PROCESSED, operator(PLAIN)),
    Incident("key of windows changed", WINDOWED, operator(KEYED), rewound=True),
    Incident("aggregate changed", WINDOWED, operator(WIDENED), rewound=True),
    Incident("join changed", MATCHED, matched, of_two=True),
    Incident("first batch crashed", BROKEN, first_crashed, is_begun=False),
    Incident("first batch written", ONCE, first_written, is_begun=False),
)
OF_STATE = (
    "windowed aggregation removed",
    "session windows removed",
    "limit removed",
    "join removed",
    "applyInPandasWithState removed",
    "transformWithState removed",
)
OF_FIRST = ("first batch crashed", "first batch written")
"""Nothing is committed yet; what then counts is the sink."""
OF_REPLAY = ("key of windows changed", "aggregate changed", "join changed")
"""Changes of a stateful step that has no way out but a replay; run with the sources that are replayed."""
"""What becomes of rows in the state hangs neither on the source nor on the sink: run with few of them."""
NAMES = tuple(i.name for i in INCIDENTS if i.name not in (*OF_STATE, *OF_REPLAY, *OF_FIRST))
