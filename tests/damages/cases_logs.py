"""Damages of metadata, offsets, commits and the logs of sources."""

import json
from collections.abc import Callable

from tests.damages import hands
from tests.damages.bases import EPOCH, Place
from tests.damages.case import Case

FILES, DEDUPE, COMPACT = "files to a file table", "dropDuplicates", "compacted logs"
SHUFFLE = "spark.sql.shuffle.partitions"
Hurt = Callable[[Place], object]


def gone(*names: str) -> Hurt:
    return lambda p: hands.remove(*[p.checkpoint / name for name in names])


def holds(name: str, data: str | bytes) -> Hurt:
    return lambda p: hands.write(p.checkpoint / name, data)


def cut(name: str, size: int) -> Hurt:
    return lambda p: hands.cut(p.checkpoint / name, size)


def lines(name: str, count: int) -> Hurt:
    return lambda p: hands.keep_lines(p.checkpoint / name, count)


def newer(name: str) -> Hurt:
    return lambda p: hands.newer(p.checkpoint / name)


def orphan(name: str, like: str) -> Hurt:
    return lambda p: hands.orphan(p.checkpoint / name, p.checkpoint / like)


def copied(name: str, to: str) -> Hurt:
    return lambda p: hands.copy(p.checkpoint / name, p.checkpoint / to)


def both(*hurts: Hurt) -> Hurt:
    return lambda p: [hurt(p) for hurt in hurts]


def a_directory(name: str) -> Hurt:
    def hurt(place: Place) -> None:
        hands.remove(place.checkpoint / name)
        (place.checkpoint / name).mkdir()

    return hurt


def dangling(name: str) -> Hurt:
    def hurt(place: Place) -> None:
        hands.remove(place.checkpoint / name)
        (place.checkpoint / name).symlink_to(place.root / "nowhere")

    return hurt


def waiting(*numbers: int) -> Hurt:
    return lambda p: p.put(*numbers)


def planned_input_gone(place: Place) -> None:
    """The planned batch's file is deleted before the batch was written."""
    hands.remove(place.checkpoint / "commits/2", place.sink_log / "2", place.input() / "part 002.json")


def entries_dropped(place: Place) -> None:
    """A compacted entry loses its first file."""
    file = place.checkpoint / "sources/0/5.compact"
    hands.edit(file, lambda text: "\n".join([text.split("\n")[0], *text.split("\n")[2:]]))


def position(batch: int, logged: int) -> Hurt:
    """An offset file that says another position of the file source."""
    return lambda p: hands.edit(
        p.checkpoint / f"offsets/{batch}",
        lambda text: (
            text.rsplit("\n", 1)[0] + "\n" + json.dumps({"logOffset": logged}, separators=(",", ":"))
        ),
    )


def watermark(batch: int, mark: int) -> Hurt:
    return lambda p: hands.header(p.checkpoint / f"offsets/{batch}", batchWatermarkMs=mark)


def replay_behind_a_watermark(place: Place) -> None:
    """Rewound to batch 0 for a replay; its header has the watermark of batch 3."""
    mark = json.loads((place.checkpoint / "offsets/3").read_text().split("\n")[1])["batchWatermarkMs"]
    later = (1, 2, 3)
    hands.remove(*[place.checkpoint / log / str(n) for log in ("offsets", "commits") for n in later])
    hands.remove(*[place.sink_log / str(n) for n in later])
    watermark(0, mark)(place)


def twice(name: str, key: str) -> Hurt:
    """The first value of a key stands twice in a file, a wrong one first."""
    wrong = '"3f6b7f1e-7c3a-4a06-9d5c-64b9c1a3a111"' if key == '"id"' else "5"
    return lambda p: hands.edit(p.checkpoint / name, lambda t: t.replace(key, f"{key}:{wrong},{key}", 1))


def upper_case(name: str, to: str) -> Hurt:
    def hurt(place: Place) -> None:
        (place.checkpoint / name).rename(place.checkpoint / to)

    return hurt


METADATA = [
    Case("a key twice in metadata", FILES, twice("metadata", '"id"')),
    Case("metadata missing", DEDUPE, gone("metadata")),
    Case("metadata missing, no state", FILES, gone("metadata")),
    Case("metadata empty", DEDUPE, holds("metadata", "")),
    Case("metadata garbage", DEDUPE, holds("metadata", "}{")),
    Case("metadata cut short", DEDUPE, cut("metadata", 20)),
    Case("metadata without an id", FILES, holds("metadata", "{}")),
    Case("metadata with an empty id", FILES, holds("metadata", '{"id":""}')),
    Case("metadata with an id that is no UUID", FILES, holds("metadata", '{"id":"orders"}')),
    Case("metadata with an id that is null", FILES, holds("metadata", '{"id":null}')),
    Case("metadata is a directory", FILES, a_directory("metadata")),
    Case("metadata under a name in capitals", FILES, upper_case("metadata", "METADATA")),
]

OFFSETS = [
    Case(
        "the directory of the next offset file is there",
        FILES,
        lambda p: (p.checkpoint / "offsets/3").mkdir(),
    ),
    Case("a key twice in the header", FILES, twice("offsets/2", '"batchWatermarkMs"')),
    Case("a stray offset file with a sign", FILES, copied("offsets/2", "offsets/+7")),
    Case("watermark of one batch set by hand", "windows", watermark(3, (EPOCH + 86400) * 1000)),
    Case("newest offset file missing", DEDUPE, gone("offsets/2")),
    Case("newest offset file missing, no state", FILES, gone("offsets/2")),
    Case("newest offset file empty", DEDUPE, holds("offsets/2", "")),
    Case("newest offset file garbage", DEDUPE, holds("offsets/2", "}{")),
    Case("newest offset file not UTF-8", FILES, holds("offsets/2", b"v1\n\xff\xfe\n")),
    Case("newest offset file cut in its header", DEDUPE, cut("offsets/2", 100)),
    Case("newest offset file cut in its position", FILES, cut("offsets/2", -4)),
    Case("newest offset file without sources", DEDUPE, lines("offsets/2", 2)),
    Case(
        "newest offset file without its second source", "two sources to a file table", lines("offsets/2", 3)
    ),
    Case(
        "newest offset file without its second source, format 2", "offsets in format 2", lines("offsets/2", 3)
    ),
    Case("newest offset file of a newer Spark", DEDUPE, newer("offsets/2")),
    Case("newest offset file is a directory", FILES, a_directory("offsets/2")),
    Case("newest offset file is a broken link", FILES, dangling("offsets/2")),
    Case("planned offset file empty", FILES, both(gone("commits/2"), holds("offsets/2", ""))),
    Case("planned offset file without sources", FILES, both(gone("commits/2"), lines("offsets/2", 2))),
    Case("offset file before the newest missing", DEDUPE, gone("offsets/1")),
    Case("offset file before the newest empty", DEDUPE, holds("offsets/1", "")),
    Case("offset file before the newest without sources", FILES, lines("offsets/1", 2)),
    Case("all offset files missing", DEDUPE, gone("offsets/0", "offsets/1", "offsets/2")),
    Case("all offset files missing, no state", FILES, gone("offsets/0", "offsets/1", "offsets/2")),
    Case("offsets under a name in capitals", FILES, upper_case("offsets", "OFFSETS")),
    Case("a stray offset file", DEDUPE, copied("offsets/2", "offsets/10")),
    Case("a stray offset file with leading zeros", FILES, copied("offsets/2", "offsets/0007")),
    Case("an orphan sidecar where the next offsets go", DEDUPE, orphan("offsets/3", "offsets/2")),
    Case("the position names a log entry to come", FILES, position(2, 7)),
    Case("the position goes back", FILES, position(2, 0)),
    Case(
        "header without settings, join", "join", lambda p: hands.header(p.checkpoint / "offsets/2", conf={})
    ),
    Case(
        "header without settings, sums", "sums", lambda p: hands.header(p.checkpoint / "offsets/2", conf={})
    ),
    Case(
        "header without settings, RocksDB",
        "RocksDB changelogs",
        lambda p: hands.header(p.checkpoint / "offsets/2", conf={}),
        conf={},
    ),
    Case(
        "header with more partitions than the state has",
        DEDUPE,
        lambda p: hands.header_conf(p.checkpoint / "offsets/2", SHUFFLE, "3"),
    ),
    Case(
        "header with fewer partitions than the state has",
        "sums",
        lambda p: hands.header_conf(p.checkpoint / "offsets/2", SHUFFLE, "1"),
    ),
    Case("watermark ahead of what is replayed", "windows", replay_behind_a_watermark),
]

COMMITS = [
    Case(
        "the newest batch is planned and in the table's log, commits in format 2",
        "RocksDB, commits in format 2",
        gone("commits/2"),
    ),
    Case("a key twice in a commit file", FILES, twice("commits/2", '"nextBatchWatermarkMs"')),
    Case("a stray commit file with leading zeros", FILES, copied("commits/2", "commits/0007")),
    Case("commit with its version line alone, format 2", "RocksDB, commits in format 2", holds("commits/2", "v2")),
    Case("newest commit file empty", DEDUPE, holds("commits/2", "")),
    Case("newest commit file garbage", DEDUPE, holds("commits/2", "v1\n}{")),
    Case("newest commit file cut short", FILES, cut("commits/2", -2)),
    Case("newest commit file of a newer Spark", DEDUPE, newer("commits/2")),
    Case("newest commit file is a directory", FILES, a_directory("commits/2")),
    Case("a commit file without its offsets", FILES, copied("commits/2", "commits/3")),
    Case("a stray commit file", FILES, copied("commits/2", "commits/10")),
    Case("an orphan sidecar where the next commit goes", FILES, orphan("commits/3", "commits/2")),
    Case("commit without ids of state files", "RocksDB, commits in format 2", holds(
        "commits/2", 'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{}}'
    )),
    Case("commit in format 1 of state in format 2", "RocksDB, commits in format 2", holds(
        "commits/2", 'v1\n{"nextBatchWatermarkMs":0}'
    )),
]  # fmt: skip

SOURCES = [
    Case("newest log entry missing", DEDUPE, gone("sources/0/2")),
    Case("newest log entry empty", DEDUPE, holds("sources/0/2", "")),
    Case("newest log entry garbage", FILES, holds("sources/0/2", "v1\n}{")),
    Case("newest log entry cut short", FILES, cut("sources/0/2", -6)),
    Case("newest log entry of a newer Spark", FILES, newer("sources/0/2")),
    Case("newest log entry holds its version line alone", FILES, holds("sources/0/2", "v1")),
    Case("the same, of a stateful query", "sums", holds("sources/0/2", "v1")),
    Case("older log entry holds its version line alone", FILES, holds("sources/0/1", "v1")),
    Case("older log entry missing", DEDUPE, gone("sources/0/1")),
    Case("older log entry empty", FILES, holds("sources/0/0", "")),
    Case("log of the second source missing", "two sources to a file table", gone("sources/1")),
    Case("sources missing", DEDUPE, gone("sources")),
    Case("planned log entry missing", FILES, both(gone("commits/2"), gone("sources/0/2"))),
    Case(
        "planned log entry holds its version line alone",
        FILES,
        both(gone("commits/2"), lambda p: hands.remove(p.sink_log / "2"), holds("sources/0/2", "v1")),
    ),
    Case("an orphan sidecar where the next log entry goes", FILES, orphan("sources/0/3", "sources/0/2")),
    Case(
        "an orphan sidecar where the entry after it goes",
        FILES,
        both(orphan("sources/0/4", "sources/0/2"), waiting(4)),
    ),
    Case("a stray log entry", FILES, copied("sources/0/2", "sources/0/10")),
    Case("compacted entry missing", COMPACT, gone("sources/0/5.compact")),
    Case("compacted entry holds its version line alone", COMPACT, holds("sources/0/5.compact", "v1")),
    Case("compacted entry lost its first file", COMPACT, entries_dropped),
    Case("compacted entry cut short", COMPACT, cut("sources/0/5.compact", -6)),
    Case("compacted entry under its plain number", COMPACT, upper_case("sources/0/5.compact", "sources/0/5")),
    Case("an input file of the planned batch is gone", FILES, planned_input_gone),
    Case("log of the second source missing, offsets in format 2", "offsets in format 2", gone("sources/1")),
    Case("newest log entry missing, offsets in format 2", "offsets in format 2", gone("sources/0/2")),
]

LOGS = METADATA + OFFSETS + COMMITS + SOURCES
