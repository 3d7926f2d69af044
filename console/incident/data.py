"""The change and snapshot files of the incident, and the order of their arrival. Deterministic, pure.

Every record has a number of its own (`sequence_num`), so a table can be compared row by row. The last
good batch repeats one record of the first: it is what `dropDuplicates` removes.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

NAMES = ("Ada", "Bela", "Chidi", "Dana", "Emre", "Fatou", "Goro", "Hana", "Ines", "Juan", "Kira")
CITIES = ("Aarhus", "Bilbao", "Cork", "Dakar", "Essen", "Faro", "Ghent")
FIRST = (3, 2)  # rows of each file in the first batch
LATER = ((4,), (2, 2))  # and in a later one: of one source, or of each branch of a union
WAITING = (3, 3, 2)
SNAPSHOT_FILES, SNAPSHOT_ROWS = 3, 3

Record = dict[str, Any]


@dataclass(frozen=True)
class File:
    """A file that arrives: `folder` under the base, its name, its records."""

    folder: str
    name: str
    records: tuple[Record, ...]

    @property
    def text(self) -> str:
        return "".join(json.dumps(record) + "\n" for record in self.records)


@dataclass(frozen=True)
class Arrivals:
    """What arrives before each good update, and after the last one."""

    good: tuple[tuple[File, ...], ...]
    waiting: tuple[File, ...]

    def processed(self) -> list[Record]:
        """Change records that the good updates read, the repeat among them."""
        return [r for batch in self.good for f in batch if f.folder != "snapshot" for r in f.records]

    def expected(self) -> list[Record]:
        """Every change record exactly once: what the table must hold in the end."""
        records = self.processed() + [r for f in self.waiting for r in f.records]
        return list({record["sequence_num"]: record for record in records}.values())

    def snapshot(self) -> list[Record]:
        return [r for batch in self.good for f in batch if f.folder == "snapshot" for r in f.records]


def make_change(number: int) -> Record:
    """The change with this number, counted from 1; about one in six deletes its customer."""
    return {
        "customer_id": 1 + number * 5 % 11,
        "sequence_num": number,
        "operation": "DELETE" if number % 6 == 0 else "UPSERT",
        "name": NAMES[number * 5 % 11],
        "city": CITIES[number % 7],
    }


def make_customer(number: int) -> Record:
    """One row of the first snapshot."""
    return {"customer_id": number, "name": NAMES[number % 11], "city": CITIES[number * 3 % 7]}


def change_folders(sources: int) -> tuple[str, ...]:
    """Where change files arrive: one folder, or one for each branch of a union."""
    return ("changes",) if sources == 1 else tuple(f"changes_{i}" for i in range(1, sources + 1))


def make_arrivals(*, batches: int = 3, sources: int = 1) -> Arrivals:
    """Files for `batches` good updates (at least 2) and three more that wait afterwards.

    With the defaults: 4 files with 13 records, 1 of them a repeat; 3 files with 8 records wait;
    3 snapshot files with 9 rows.
    """
    names, records = _iterate_names(sources), (make_change(number) for number in count(1))
    good = []
    for batch in range(batches):
        sizes = list(FIRST if batch == 0 else LATER[sources > 1])
        repeat = [make_change(2)] if batch == batches - 1 else []
        sizes[-1] -= len(repeat)
        rows = [list(islice(records, size)) for size in sizes]
        rows[-1] += repeat
        files = [_change_file(names, index, some) for index, some in enumerate(rows)]
        good.append((*files, *_snapshot_file(batch)))
    waiting = [_change_file(names, index, list(islice(records, size))) for index, size in enumerate(WAITING)]
    return Arrivals(tuple(good), tuple(waiting))


def _iterate_names(sources: int) -> Iterator[tuple[tuple[str, ...], int]]:
    """The folders, with the number of the next file."""
    return ((change_folders(sources), number) for number in count(1))


def _change_file(names: Iterator[tuple[tuple[str, ...], int]], index: int, records: list[Record]) -> File:
    """The next change file; the files of a batch go to the branches in turn."""
    into, number = next(names)
    folder = into[index % len(into)]
    return File(folder, f"{folder}-{number:04d}.json", tuple(records))


def _snapshot_file(batch: int) -> tuple[File, ...]:
    """The snapshot file that comes with each of the first three batches."""
    if batch >= SNAPSHOT_FILES:
        return ()
    first = 1 + batch * SNAPSHOT_ROWS
    rows = tuple(make_customer(number) for number in range(first, first + SNAPSHOT_ROWS))
    return (File("snapshot", f"snapshot-{batch + 1:04d}.json", rows),)
