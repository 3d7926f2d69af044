"""Checkpoints that are sound, whatever they look like: `inspect` must not block any of them."""

import os

from tests.damages import hands
from tests.damages.bases import BASES, Place
from tests.damages.case import Case


def nothing(place: Place) -> None:
    pass


def planned(place: Place) -> None:
    """The batch that a crash left planned: its commit was never written."""
    newest = max(int(p.name) for p in (place.checkpoint / "commits").iterdir() if p.name.isdigit())
    hands.remove(place.checkpoint / "commits" / str(newest))


def _planned_before_sink(place: Place) -> None:
    planned(place)
    hands.remove(place.sink_log / "2")


def _no_commits(place: Place) -> None:
    hands.remove(*[p for p in (place.checkpoint / "commits").iterdir() if p.name.isdigit()])


def _older_logs(place: Place) -> None:
    for name in ("offsets/0", "commits/0", "commits/1"):
        hands.remove(place.checkpoint / name)


def _older_garbage(place: Place) -> None:
    for name in ("offsets/0", "commits/0", "commits/1"):
        hands.write(place.checkpoint / name, "}{")


def _expired(place: Place) -> None:
    for n in ("0", "1", "2.compact", "3", "4"):
        hands.remove(place.checkpoint / "sources/0" / n, place.sink_log / n)


def _fresh(place: Place) -> None:
    hands.remove(place.checkpoint, place.table)
    place.checkpoint.mkdir(parents=True)


def _temporary(place: Place) -> None:
    uuid = "3f6b7f1e-7c3a-4a06-9d5c-64b9c1a3a111"
    for folder in ("offsets", "commits", "sources/0", "state/0/0"):
        hands.write(place.checkpoint / folder / f".9.{uuid}.tmp", "half")


def _others_files(place: Place) -> None:
    hands.write(place.checkpoint / "README.txt", "ours")
    hands.write(place.checkpoint / "offsets/notes.txt", "ours")
    hands.write(place.checkpoint / "offsets/_SUCCESS", "")
    (place.checkpoint / "backup").mkdir()
    (place.checkpoint / "offsets/old").mkdir()


def _wrong_case_beside(place: Place) -> None:
    hands.write(place.checkpoint / "Offsets/9", "}{")
    hands.write(place.checkpoint / "METADATA", "}{")


def _stale_sidecar(place: Place) -> None:
    file = place.checkpoint / "offsets/2"
    kept = hands.sidecar(file).read_bytes()
    hands.edit(file, lambda text: text.replace('"batchTimestampMs":1', '"batchTimestampMs":2', 1))
    hands.sidecar(file).write_bytes(kept)


def _no_sidecars(place: Place) -> None:
    sidecars = list(place.root.rglob(".*.crc"))
    assert sidecars
    for file in sidecars:
        file.unlink()


def _rewound(place: Place) -> None:
    for name in ("offsets/2", "commits/2"):
        hands.remove(place.checkpoint / name)


def _first_input_gone(place: Place) -> None:
    hands.remove(place.input() / "part 000.json")


def _pretty_metadata(place: Place) -> None:
    hands.edit(place.checkpoint / "metadata", lambda text: "  " + text.replace(":", " : ") + "\n")


def _new_id(place: Place) -> None:
    hands.write(place.checkpoint / "metadata", '{"id":"3f6b7f1e-7c3a-4a06-9d5c-64b9c1a3a111"}')


def _new_mtimes(place: Place) -> None:
    for file in place.checkpoint.rglob("*"):
        os.utime(file, (1, 1))


def _older_zips(place: Place) -> None:
    hands.remove(*(place.checkpoint / "state/0").glob("*/1.zip"))


def _no_settings(place: Place) -> None:
    hands.header(place.checkpoint / "offsets/2", conf={})


GOOD = [Case(f"nothing ({name})", name, nothing) for name in BASES] + [
    Case("the newest batch is planned and not committed", "files to a file table", planned),
    Case("the same, and it is not in the table's log yet", "files to a file table", _planned_before_sink),
    Case("the newest batch of two sources is planned", "two sources to a file table", planned),
    Case("the newest batch of a stateful query is planned", "dropDuplicates", planned),
    Case("the newest batch of sums is planned", "sums", planned),
    Case("the newest batch of a join is planned", "join", planned),
    Case("the newest batch is planned, RocksDB", "RocksDB changelogs", planned),
    Case(
        "the newest batch is planned and not in the table's log, commits in format 2",
        "RocksDB, commits in format 2",
        _planned_before_sink,
    ),
    Case("the newest batch is planned, compacted logs", "compacted logs", planned),
    Case("the newest batch is planned, rate source", "rate source", planned),
    Case("all commits missing", "dropDuplicates", _no_commits),
    Case("older offsets and commits missing", "dropDuplicates", _older_logs),
    Case("older offsets and commits are garbage", "dropDuplicates", _older_garbage),
    Case("expired entries of compacted logs", "compacted logs", _expired),
    Case("nothing has run yet", "files to a file table", _fresh),
    Case("temporary files of a crash", "dropDuplicates", _temporary),
    Case("files of other people", "dropDuplicates", _others_files),
    Case("names in another case beside", "dropDuplicates", _wrong_case_beside),
    Case("a sidecar that does not fit its file", "dropDuplicates", _stale_sidecar),
    Case("all sidecars missing", "dropDuplicates", _no_sidecars),
    Case(
        "an orphan sidecar of an older offset file",
        "files to a file table",
        lambda p: (p.checkpoint / "offsets/0").unlink(),
    ),
    Case("rewound by one batch", "sums", _rewound),
    Case("rewound by one batch, all waiting files at once", "sums", _rewound, max_files=None),
    Case("an input file of a committed batch is gone", "files to a file table", _first_input_gone),
    Case("metadata written by hand", "files to a file table", _pretty_metadata),
    Case("metadata with another id", "files to a file table", _new_id),
    Case("all files have other times", "dropDuplicates", _new_mtimes),
    Case("offsets is a symbolic link", "dropDuplicates", lambda p: hands.elsewhere(p.checkpoint / "offsets")),
    Case("state is a symbolic link", "dropDuplicates", lambda p: hands.elsewhere(p.checkpoint / "state")),
    Case(
        "a newline at the end of an offset file",
        "files to a file table",
        lambda p: hands.edit(p.checkpoint / "offsets/2", lambda text: text + "\n"),
    ),
    Case(
        "line ends of Windows in a commit file",
        "files to a file table",
        lambda p: hands.edit(p.checkpoint / "commits/2", lambda text: text.replace("\n", "\r\n")),
    ),
    Case(
        "a commit file with its version line alone",
        "files to a file table",
        lambda p: hands.write(p.checkpoint / "commits/2", "v1"),
    ),
    Case(
        "a commit file without values",
        "dropDuplicates",
        lambda p: hands.write(p.checkpoint / "commits/2", "v1\n{}"),
    ),
    Case(
        "a directory with a number in offsets that does not come yet",
        "files to a file table",
        lambda p: (p.checkpoint / "offsets/7").mkdir(),
    ),
    Case(
        "an offset file twice, once with leading zeros",
        "files to a file table",
        lambda p: hands.copy(p.checkpoint / "offsets/1", p.checkpoint / "offsets/001"),
    ),
    Case("an older zip missing", "RocksDB snapshots", _older_zips),
    Case("header without settings, no state", "files to a file table", _no_settings),
    Case("header without settings, dropDuplicates", "dropDuplicates", _no_settings),
]
