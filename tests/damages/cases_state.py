"""Damages of state: operators, their metadata and schemas, and the files of the two stores."""

from pathlib import Path

from tests.damages import hands
from tests.damages.bases import Place
from tests.damages.case import Case
from tests.damages.cases_logs import Hurt, cut, gone, holds

DEDUPE, ZIPS, LOGS2, CHANGES = (
    "dropDuplicates",
    "RocksDB snapshots",
    "RocksDB, commits in format 2",
    "RocksDB changelogs",
)


def state(place: Place, pattern: str) -> list[Path]:
    """Files of operator 0 that match; there is at least one."""
    found = sorted((place.checkpoint / "state/0").glob(pattern))
    assert found, pattern
    return found


def each_gone(pattern: str) -> Hurt:
    return lambda p: hands.remove(*state(p, pattern))


def each_cut(pattern: str, size: int) -> Hurt:
    return lambda p: [hands.cut(f, size) for f in state(p, pattern)]


def each_flipped(pattern: str, at: float = 0.5) -> Hurt:
    return lambda p: [hands.flip(f, at) for f in state(p, pattern)]


def each_holds(pattern: str, data: bytes) -> Hurt:
    return lambda p: [hands.write(f, data) for f in state(p, pattern)]


def snapshot_of_2(place: Place) -> None:
    """A snapshot stands in for the first deltas: the first delta's bytes are those of a snapshot."""
    for first in state(place, "*/1.delta"):
        first.rename(first.with_name("1.snapshot"))
        hands.sidecar(first).rename(hands.sidecar(first.with_name("1.snapshot")))


def snapshot_gone(place: Place) -> None:
    snapshot_of_2(place)
    hands.remove(*state(place, "*/1.snapshot"))


def snapshot_cut(place: Place) -> None:
    snapshot_of_2(place)
    for file in state(place, "*/1.snapshot"):
        hands.cut(file, 20)


def other_id(place: Place) -> None:
    """State files of the newest version under an id that no commit names."""
    for file in state(place, "*/3_*.changelog"):
        file.rename(file.with_name("3_00000000-0000-0000-0000-000000000000.changelog"))


def checksum_says_other(place: Place) -> None:
    import json

    for file in state(place, "*/3_*.changelog.crc"):
        told = json.loads(file.read_text())
        hands.write(file, json.dumps({**told, "value": told["value"] ^ 1}))


STATE = [
    Case("all state missing", LOGS2, gone("state")),
    Case("one of two operators missing", "sums of distinct rows", gone("state/0")),
    Case("the only operator missing", DEDUPE, gone("state/0")),
    Case("all state missing, commits in format 1", DEDUPE, gone("state")),
    Case("a partition missing", DEDUPE, gone("state/0/1")),
    Case("a store of a join missing", "join", gone("state/0/1/right-keyToNumValues")),
    Case("operator metadata missing", DEDUPE, gone("state/0/_metadata")),
    Case("operator metadata garbage", DEDUPE, holds("state/0/_metadata/metadata", "}{")),
    Case("operator metadata empty", DEDUPE, holds("state/0/_metadata/metadata", "")),
    Case("state schema missing", DEDUPE, gone("state/0/0/_metadata/schema")),
    Case("state schema garbage", DEDUPE, holds("state/0/0/_metadata/schema", "}{")),
    Case("state schema empty", DEDUPE, holds("state/0/0/_metadata/schema", "")),
    Case("state schema cut short", DEDUPE, cut("state/0/0/_metadata/schema", 40)),
    Case("newest delta missing", DEDUPE, each_gone("*/3.delta")),
    Case("newest delta of one partition missing", DEDUPE, gone("state/0/0/3.delta")),
    Case("middle delta missing", DEDUPE, each_gone("*/2.delta")),
    Case("newest delta of a join missing", "join", each_gone("*/left-keyToNumValues/3.delta")),
    Case("newest delta empty", DEDUPE, each_holds("*/3.delta", b"")),
    Case("newest delta cut short", DEDUPE, each_cut("*/3.delta", 20), deep=True),
    Case("newest delta with a flipped bit", DEDUPE, each_flipped("*/3.delta"), deep=True),
    Case("oldest delta with a flipped bit", "sums", each_flipped("*/1.delta"), deep=True),
    Case("a snapshot for the first delta", DEDUPE, snapshot_of_2),
    Case("that snapshot missing", DEDUPE, snapshot_gone),
    Case("that snapshot cut short", DEDUPE, snapshot_cut, deep=True),
    Case("newest zip missing", ZIPS, each_gone("*/3.zip")),
    Case("newest zip empty", ZIPS, each_holds("*/3.zip", b"")),
    Case("newest zip cut short", ZIPS, each_cut("*/3.zip", 200), deep=True),
    Case("SST files missing", ZIPS, each_gone("*/SSTs/*.sst")),
    Case("SST files cut short", ZIPS, each_cut("*/SSTs/*.sst", 100), deep=True),
    Case("SST files with a flipped bit", ZIPS, each_flipped("*/SSTs/*.sst", 0.999), deep=True),
    Case("SST files with a flipped bit in their middle", ZIPS, each_flipped("*/SSTs/*.sst"), deep=True),
    Case("newest changelog missing", CHANGES, each_gone("*/3.changelog")),
    Case("middle changelog missing", CHANGES, each_gone("*/2.changelog")),
    Case("newest changelog empty", CHANGES, each_holds("*/3.changelog", b"")),
    Case("newest changelog cut short", CHANGES, each_cut("*/3.changelog", 20), deep=True),
    Case("newest changelog with a flipped bit", CHANGES, each_flipped("*/3.changelog"), deep=True),
    Case("newest changelog missing, format 2", LOGS2, each_gone("*/3_*.changelog")),
    Case("middle changelog missing, format 2", LOGS2, each_gone("*/2_*.changelog")),
    Case("newest changelog cut short, format 2", LOGS2, each_cut("*/3_*.changelog", 20), deep=True),
    Case("newest changelog with a flipped bit, format 2", LOGS2, each_flipped("*/3_*.changelog"), deep=True),
    Case("state files under another id", LOGS2, other_id),
    Case("checksum files of state missing", LOGS2, each_gone("*/*.changelog.crc")),
    Case("checksum of a state file is another's", LOGS2, checksum_says_other, deep=True),
    Case("checksum of a state file is empty", LOGS2, each_holds("*/3_*.changelog.crc", b""), deep=True),
]
