"""Damages of the table's log, and of where the checkpoint lies."""

import shutil

from tests.damages import hands
from tests.damages.bases import Place
from tests.damages.case import Case
from tests.damages.cases_logs import COMPACT, FILES, Hurt


def log_gone(*names: str) -> Hurt:
    return lambda p: hands.remove(*[p.sink_log / name for name in names])


def log_holds(name: str, data: str) -> Hurt:
    return lambda p: hands.write(p.sink_log / name, data)


def all_log_gone(place: Place) -> None:
    hands.remove(place.sink_log)


def empty_version(place: Place) -> None:
    """The next version, empty, over the old table: what a plain reset does."""
    place.put(4)
    shutil.rmtree(place.checkpoint)
    place.checkpoint.mkdir()


def seeded_from_0(place: Place) -> None:
    """A reset that keeps the position and counts batches from 0 again."""
    for log in ("offsets", "commits"):
        (place.checkpoint / log / "2").rename(place.checkpoint / log / "0.new")
        for n in (0, 1, 2):
            (place.checkpoint / log / str(n)).unlink(missing_ok=True)
            (place.checkpoint / log / f".{n}.crc").unlink(missing_ok=True)
        (place.checkpoint / log / "0.new").rename(place.checkpoint / log / "0")


def rewound(place: Place) -> None:
    hands.remove(place.checkpoint / "offsets/2", place.checkpoint / "commits/2")


def fresh_table(place: Place) -> None:
    """Another table for the same checkpoint."""
    hands.remove(place.table)
    place.table.mkdir()


def data_file_gone(place: Place) -> None:
    hands.remove(next(iter(place.table.glob("part-*.parquet"))))


def sink_orphan(place: Place) -> None:
    hands.orphan(place.sink_log / "3", place.sink_log / "2")


def filler(place: Place) -> None:
    """A hole that repartitioning left, mended with an entry that names no file."""
    for log in ("offsets", "commits"):
        hands.copy(place.checkpoint / log / "2", place.checkpoint / log / "3")
    hands.write(place.sink_log / "3", "v1")


def unfilled(place: Place) -> None:
    filler(place)
    hands.remove(place.sink_log / "3")


PLACE = [
    Case(
        "the table's log is ahead", FILES, lambda p: [hands.write(p.sink_log / n, "v1") for n in ("3", "4")]
    ),
    Case("an empty checkpoint over the old table", FILES, empty_version, max_files=None),
    Case("a reset that counts batches from 0", FILES, seeded_from_0, max_files=None),
    Case("rewound by one batch under a file table", FILES, rewound, max_files=None),
    Case("the table's newest entry missing", FILES, log_gone("2")),
    Case("an entry of the table's log missing", FILES, log_gone("1")),
    Case("the first entry of the table's log missing", FILES, log_gone("0")),
    Case("an entry of the table's log empty", FILES, log_holds("1", "")),
    Case("an entry of the table's log garbage", FILES, log_holds("1", "v1\n}{")),
    Case("an entry of the table's log of a newer Spark", FILES, lambda p: hands.newer(p.sink_log / "1")),
    Case("the table's log missing", FILES, all_log_gone),
    Case("another, empty table", FILES, fresh_table),
    Case("the table's compacted entry missing", COMPACT, log_gone("5.compact")),
    Case(
        "the table's compacted entry under its plain number",
        COMPACT,
        lambda p: (p.sink_log / "5.compact").rename(p.sink_log / "5"),
    ),
    Case("the table's compacted entry garbage", COMPACT, log_holds("5.compact", "v1\n}{")),
    Case("the entry after the compacted one missing", COMPACT, log_gone("6")),
    Case("a data file of the table is gone", FILES, data_file_gone, deep=True),
    Case("an orphan sidecar where the table's next entry goes", FILES, sink_orphan),
    Case("a batch that wrote nothing, without its entry", FILES, unfilled),
    Case("the same, with an entry that names no file", FILES, filler),
    Case("the table's first entry missing, its sidecar left", FILES, lambda p: (p.sink_log / "0").unlink()),
]
