"""The table: which program, what happened to it, what is chosen, and how that ends."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from tests.plain.world import Row, World

Rows = list[dict[str, Any]]
BY_ID: Final = '.dropDuplicates(["id"])'
BY_BOTH: Final = '.dropDuplicates(["id", "v"])'
COUNT: Final = '.groupBy(F.window("time", "10 seconds")).agg(F.count("*").alias("n"))'
COUNT_BY_V: Final = '.groupBy(F.window("time", "10 seconds"), "v").agg(F.count("*").alias("n"))'
LENGTH: Final = '.withColumn("v", F.length("v"))'
IN_ZONE: Final = '.withColumn("v", F.date_format(F.timestamp_seconds("id"), "yyyy-MM-dd HH:mm:ss"))'
"""Which text a moment is hangs on the session's time zone."""
SUM: Final = '.groupBy(F.window("time", "10 seconds")).agg(F.sum("id").alias("n"))'


def orders(first: int, count: int, *again: int, v: str = "") -> Rows:
    """Rows of their own ids, and of ids that came before, ten seconds apart by tens."""
    return [{"id": n, "v": v or f"v{n % 3}", "at": 100 + n} for n in [*range(first, first + count), *again]]


BEFORE: Final = (orders(0, 6, 2), orders(6, 6, 1, 7))
AFTER: Final = (orders(12, 6), orders(18, 6))
AGAIN: Final = (orders(12, 6, 3), orders(18, 6, 12))


def row(**values: Any) -> Row:
    return tuple(sorted(values.items()))


def shape(rows: Iterable[Mapping[str, Any]], *, upper: bool) -> list[Row]:
    """What the programs yield of a row."""
    return [row(id=r["id"], v=r["v"].upper() if upper else r["v"]) for r in rows]


def kept_then_all_in_zone(world: World) -> Counter[Row]:
    """As `kept_then_all`, with each id as a moment in the time zone of the cluster."""
    zone = ZoneInfo(world.time_zone)
    rows = [*deduped(flat(world.arrived[:2]), "id"), *flat(world.arrived[2:])]
    return Counter(
        row(id=r["id"], v=f"{datetime.fromtimestamp(r['id'], zone):%Y-%m-%d %H:%M:%S}") for r in rows
    )


def kept_then_lengths(world: World) -> Counter[Row]:
    """As `kept_then_all`; of each new row the number of characters of its text, in its place."""
    before = shape(deduped(flat(world.arrived[:2]), "id"), upper=True)
    return Counter([*before, *(row(id=r["id"], v=len(r["v"])) for r in flat(world.arrived[2:]))])


def flat(groups: Iterable[Iterable[Mapping[str, Any]]]) -> list[Mapping[str, Any]]:
    return [r for group in groups for r in group]


def deduped(rows: Sequence[Mapping[str, Any]], *keys: str) -> list[Mapping[str, Any]]:
    """The first of each key."""
    return list({tuple(r[k] for k in keys): r for r in reversed(rows)}.values())


def kept_then_all(world: World) -> Counter[Row]:
    """The old rows as dropDuplicates let them through, the new ones as they came."""
    before, after = world.arrived[:2], world.arrived[2:]
    return Counter(shape([*deduped(flat(before), "id"), *flat(after)], upper=world.is_upper))


def upserted(world: World) -> Counter[Row]:
    """The last row of each id, of those that dropDuplicates let through and of the new ones."""
    rows = [*deduped(flat(world.arrived[:2]), "id"), *flat(world.arrived[2:])]
    return Counter(shape({r["id"]: r for r in rows}.values(), upper=world.is_upper))


def kept_then_all_twice(world: World) -> Counter[Row]:
    """As `kept_then_all`, with each text twice in its place."""
    return Counter(
        row(**{**dict(held), "v": dict(held)["v"] * 2}) for held in kept_then_all(world).elements()
    )


def all_by_id(world: World) -> Counter[Row]:
    return Counter(shape(deduped(flat(world.arrived), "id"), upper=world.is_upper))


def all_rows(world: World) -> Counter[Row]:
    return Counter(shape(flat(world.arrived), upper=world.is_upper))


def windows(rows: Rows, *keys: str, until: int) -> Counter[Row]:
    """Counts of windows of ten seconds that end at `until` or before."""
    found: Counter[tuple[Any, ...]] = Counter()
    for r in rows:
        start = r["at"] // 10 * 10
        if start + 10 <= until:
            found[(start, *(r[k] for k in keys))] += 1
    return Counter(row(start=at[0], n=n, **dict(zip(keys, at[1:], strict=True))) for at, n in found.items())


def closed_until(rows: Rows) -> int:
    return max(r["at"] for r in rows) - 10


def counted(world: World) -> Counter[Row]:
    rows = flat(world.arrived)
    return windows(rows, until=closed_until(rows))


def counted_then_by_v(world: World) -> Counter[Row]:
    """Old windows by time alone, those after the watermark of then by v too."""
    rows, closed = flat(world.arrived), closed_until(flat(world.arrived[:2]))
    old = windows(rows, until=closed)
    new = windows([r for r in rows if r["at"] // 10 * 10 + 10 > closed], "v", until=closed_until(rows))
    return old + new


# What is broken without a change of code


def truncate(name: str) -> Callable[[World], None]:
    """The newest file of a folder of the checkpoint has nothing in it, as a full disk leaves it."""

    def act(world: World) -> None:
        files = sorted(
            (p for p in (world.checkpoint / name).iterdir() if p.name.isdigit()), key=lambda p: int(p.name)
        )
        files[-1].write_bytes(b"")
        (files[-1].parent / f".{files[-1].name}.crc").unlink(missing_ok=True)

    return act


def lose(name: str) -> Callable[[World], None]:
    def act(world: World) -> None:
        place = world.checkpoint / name
        place.unlink()
        (place.parent / f".{place.name}.crc").unlink(missing_ok=True)

    return act


def cut_state(world: World) -> None:
    """The newest file of the state is half of what it was."""
    newest = max((world.checkpoint / "state").rglob("[0-9]*.delta"), key=lambda p: int(p.stem))
    newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])
    (newest.parent / f".{newest.name}.crc").unlink(missing_ok=True)


def retention(world: World) -> None:
    """The topic has lost records that were never read."""
    assert world.kafka
    world.kafka.delete_before(world.topic, 10, 0)


def lose_input(world: World) -> None:
    """A file that waits is gone."""
    sorted(Path(world.base / "in").iterdir())[-1].unlink()
    world.arrived.pop()


@dataclass(frozen=True)
class Cell:
    """`good`, `bad`: the step before and after the incident. `damage`: what else happens after the good run. `ends`:
    "proven", "unproven", or a code with which it is refused. `right`: the rows that a batch computation yields."""

    name: str
    program: str
    good: str
    bad: str
    strategy: str
    ends: str = "proven"
    right: Callable[[World], Counter[Row]] = kept_then_all
    damage: Callable[[World], None] | None = None
    more: tuple[str, ...] = ()
    after: tuple[Rows, ...] = AFTER
    is_named: bool = True
    """Is the program's file named where the stream is adopted?"""
    is_quiet: bool = False
    """The broken program does not fail by itself: it ends as if all were well."""
    time_zone: str = "UTC"
    """Of the cluster."""
    repeats: int = 0
    """So many new rows repeat an id of the table or of each other because the input does, and the code keeps them."""


REWIND: Final = ("--position", "0=earliest", "--accept-repeats")
CELLS: Final = (
    Cell("dropDuplicates removed", "files to parquet", BY_ID, "", "continue"),
    Cell("dropDuplicates removed, repeats wait", "files to parquet", BY_ID, "", "continue",
         more=("--accept-repeats",), after=AGAIN, repeats=2),
    Cell("dropDuplicates removed, repeats wait", "files to delta", BY_ID, "", "continue",
         more=("--accept-repeats",), after=AGAIN, repeats=2),
    Cell("dropDuplicates removed, in another time zone", "files to parquet", BY_ID + IN_ZONE, IN_ZONE, "continue",
         right=kept_then_all_in_zone, time_zone="America/New_York"),
    Cell("dropDuplicates removed, a column of another type", "files to parquet", BY_ID, LENGTH,
         "continue", "loses_rows", kept_then_lengths),
    Cell("dropDuplicates removed, a column of another type is accepted", "files to parquet", BY_ID, LENGTH,
         "continue", "needs_attention", kept_then_lengths, more=("--accept-loss",)),
    Cell("dropDuplicates removed", "kafka to parquet", BY_ID, "", "continue"),
    Cell("dropDuplicates removed", "kafka to delta", BY_ID, "", "continue"),
    Cell("dropDuplicates removed", "package", BY_ID, "", "continue"),
    Cell("dropDuplicates removed", "foreachBatch to delta", BY_ID, "", "continue", "repeats_rows"),
    Cell("dropDuplicates removed", "foreachBatch to parquet", BY_ID, "", "continue", "repeats_rows"),
    Cell("dropDuplicates removed, a key is updated", "upsert to delta", BY_ID, "", "continue", "needs_attention",
         upserted, more=("--accept-repeats",), after=(orders(12, 6), [*orders(18, 6), *orders(3, 1, v="new")])),
    Cell("dropDuplicates removed, rows are known by their key", "function of values to delta", BY_ID, "", "continue",
         "needs_attention", kept_then_all_twice, more=("--accept-repeats", "--key", "id")),
    Cell("dropDuplicates removed", "tables", BY_ID, "", "continue"),
    Cell("put back", "files to parquet", BY_ID, "", "revert", right=all_by_id, after=AGAIN),
    Cell("put back", "kafka to delta", BY_ID, "", "revert", right=all_by_id, after=AGAIN),
    Cell("key changed, put back", "files to parquet", BY_ID, BY_BOTH, "revert", right=all_by_id, after=AGAIN),
    Cell("key changed", "files to parquet", BY_ID, BY_BOTH, "rewind", more=REWIND, right=all_by_id),
    Cell("dropDuplicates added", "files to parquet", "", BY_ID, "rewind", more=REWIND, right=all_rows),
    Cell("window by another key", "windows", COUNT, COUNT_BY_V, "rewind", more=REWIND, right=counted_then_by_v),
    Cell("window by another key", "windows", COUNT, COUNT_BY_V, "prime", "loses_rows"),
    Cell("aggregate put back", "windows", COUNT, SUM, "revert", "needs_attention", counted),
    Cell("offsets truncated", "files to parquet", BY_ID, BY_ID, "repair", right=all_by_id,
         damage=truncate("offsets"), after=AGAIN),
    Cell("commits truncated", "files to parquet", BY_ID, BY_ID, "repair", right=all_by_id,
         damage=truncate("commits"), after=AGAIN),
    Cell("metadata lost", "files to parquet", BY_ID, BY_ID, "repair", right=all_by_id, damage=lose("metadata"),
         is_quiet=True),
    Cell("metadata lost, program not named", "files to parquet", BY_ID, BY_ID, "repair", "loses_rows", all_by_id,
         damage=lose("metadata"), is_quiet=True, is_named=False),
    Cell("state cut", "files to parquet", BY_ID, BY_ID, "repair", "blocked", damage=cut_state, after=AGAIN),
)  # fmt: skip
