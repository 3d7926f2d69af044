"""Damages of the checkpoints in bases_more.py, and the findings that no other case makes."""

from pathlib import Path

from recovery.checkpoints.publishing import publish_checkpoint
from recovery.checkpoints.repair import plan_repair, prepare_repair
from recovery.checkpoints.repairing import KnownFacts
from tests.damages import hands
from tests.damages.bases import Place
from tests.damages.bases_more import MORE
from tests.damages.case import Case
from tests.damages.cases_good import nothing, planned
from tests.damages.cases_logs import (
    DEDUPE,
    FILES,
    Hurt,
    both,
    cut,
    gone,
    holds,
    lines,
    newer,
)
from tests.damages.cases_place import empty_version
from tests.damages.cases_state import CHANGES, ZIPS, each_cut, each_gone, state

CALLS, BATCHES = "foreachBatch", "foreachBatch by batch id"
TWICE, TWICE2, TWICE3, JOINED = (
    "one source read twice",
    "one source read twice, offsets in format 2",
    "one source read twice, and another",
    "self-join",
)
EQUAL, NAMED, PAGES = "two sources at equal positions", "named sources", "source in Python"
TWS, TWS2 = "transformWithState", "transformWithState, commits in format 2"
ASYNC, ENDED, RECORDED = (
    "asynchronous progress",
    "asynchronous progress, then none",
    "asynchronous progress, each batch recorded",
)
ENDED_RECORDED = "asynchronous progress, each batch recorded, then none"
SNAPPY = "state in snappy"
REPARTITIONED = "repartitioned state of a file table"
NOT_SOUND = {ASYNC, ENDED, REPARTITIONED}  # by themselves
SINK_ALONE_KNOWS = "whether the batch has reached the sink, this sink alone knows"
OTHER_CODE = "with the same code it goes on; that the tracking was switched off stands in no file"


def before_sink(place: Place) -> None:
    planned(place)
    hands.remove(*(place.root / "each").glob("2-*"))


def rewound(place: Place) -> None:
    hands.remove(place.checkpoint / "offsets/2", place.checkpoint / "commits/2")


def unrecorded(*batches: int) -> Hurt:
    """As an interval of the tracking leaves it: neither file of these batches was written."""
    return lambda p: hands.remove(
        *[p.checkpoint / log / str(n) for log in ("offsets", "commits") for n in batches]
    )


def metadata_v2(place: Place) -> Path:
    return place.checkpoint / "state/0/_metadata/v2/0"


def schema(place: Place) -> Path:
    (found,) = (f for f in state(place, "_stateSchema/default/*") if not f.name.startswith("."))
    return found


def moved(place: Place) -> None:
    """The checkpoint was moved here: its metadata names the old place, which is gone."""
    hands.edit(metadata_v2(place), lambda text: text.replace("file:/", "file:/gone/"))


def copied_here(place: Place) -> None:
    """The checkpoint was copied here, and the old place is still there."""
    old = place.root / "old/state/0/_stateSchema/default" / schema(place).name
    old.parent.mkdir(parents=True)
    old.write_bytes(schema(place).read_bytes())
    here, there = f"{place.checkpoint}/state", f"{place.root}/old/state"
    hands.edit(metadata_v2(place), lambda text: text.replace(here, there))


def repaired(place: Place) -> None:
    """The next version, as `repair` writes it."""
    where = str(place.flow)
    head = max(int(f.name) for f in place.sink_log.iterdir() if f.name.isdigit())
    plan = plan_repair(where, KnownFacts(sink_kind="files", sink_head=head), sink=str(place.table))
    assert plan.complete, plan
    publish_checkpoint(
        where, prepare_repair(where, plan, recovery="r1", fence=1, guard=lambda: None), guard=lambda: None
    )


def family_renamed(place: Place) -> None:
    """The schema file names another column family, as one of other code would."""
    data = schema(place).read_bytes()
    hands.write(schema(place), data.replace(b"\x05count", b"\x05other", 1))
    assert schema(place).read_bytes() != data


def variable_renamed(place: Place) -> None:
    hands.edit(
        metadata_v2(place), lambda text: text.replace('stateName\\":\\"count', 'stateName\\":\\"other')
    )


def state_file(name: str, data: bytes) -> Hurt:
    return lambda p: hands.write(p.checkpoint / "state/0/0" / name, data)


def a_file_as_version(place: Place) -> None:
    hands.write(place.flow / "7", "ours")


def spark_s_temporary(place: Place) -> None:
    """The checkpoint of a query that was given no place, as Spark names it."""
    was = place.flow
    place.within = "temporary-3f6b7f1e-7c3a-4a06-9d5c-64b9c1a3a111"
    was.rename(place.flow)


def only_others_files(place: Place) -> None:
    """A path that is no checkpoint, with files of somebody else; the table is a new one."""
    hands.remove(place.checkpoint, place.table)
    hands.write(place.checkpoint / "README.txt", "ours")


def log_of_another_store(place: Place) -> None:
    """A file of a store that is not known here was read too."""
    line = '\n{"path":"other://store/a.json","timestamp":1700000000000,"batchId":0}'
    hands.edit(place.checkpoint / "sources/0/0", lambda text: text + line)


def control(batch: int) -> Hurt:
    """The header as Spark writes it when it repartitions state by itself."""
    info = {"operationType": "repartition", "operationInfo": {}}
    return lambda p: hands.header(p.checkpoint / f"offsets/{batch}", controlBatchInfo=info)


def provider(place: Place) -> None:
    for n in (1, 2):
        hands.edit(
            place.checkpoint / f"offsets/{n}",
            lambda text: text.replace("HDFSBackedStateStoreProvider", "RocksDBStateStoreProvider"),
        )


def snapshot_of_3(place: Place) -> None:
    """A damaged snapshot of the newest version; the deltas that make the same state are there."""
    for file in state(place, "*/3.delta"):
        hands.write(file.with_name("3.snapshot"), file.read_bytes()[:40])


NOTHING = [Case(f"nothing ({name})", name, nothing) for name in MORE if name not in NOT_SOUND]

SINKS = [
    Case("the newest batch is planned, foreachBatch by batch id", BATCHES, planned),
    Case("the newest batch is planned, foreachBatch has not had it", CALLS, before_sink),
    Case("the newest batch is planned, foreachBatch has had it", CALLS, planned, untold=SINK_ALONE_KNOWS),
    Case("rewound by one batch, foreachBatch by batch id", BATCHES, rewound, max_files=None),
    Case("rewound by one batch, foreachBatch", CALLS, rewound, untold=SINK_ALONE_KNOWS),
    Case("rewound by two batches, foreachBatch", CALLS, unrecorded(1, 2)),
    Case("newest log entry holds its version line alone, foreachBatch", CALLS, holds("sources/0/2", "v1")),
    Case("metadata missing, foreachBatch", CALLS, gone("metadata")),
]

SOURCES = [
    Case("the newest batch of one source read twice is planned", TWICE, planned),
    Case("newest log entry of one source read twice missing", TWICE, gone("sources/0/2")),
    Case("newest log entry of one source read twice is a header", TWICE, holds("sources/0/2", "v1")),
    Case("newest log entry of one source read twice missing, format 2", TWICE2, gone("sources/0/2")),
    Case("newest log entry of a self-join missing", JOINED, gone("sources/0/2")),
    Case("log of the other source missing, one being read twice", TWICE3, gone("sources/1")),
    Case("newest offset file without one of three lines", TWICE3, lines("offsets/2", 4)),
    Case(
        "log of a second source missing that always stood where the first did",
        EQUAL,
        gone("sources/1"),
        untold="one source that the code reads twice leaves the same files",
    ),
    Case("log of a named source missing", NAMED, gone("sources/first")),
    Case("newest log entry of a named source missing", NAMED, gone("sources/first/2")),
    Case("newest log entry of a named source is a header", NAMED, holds("sources/first/2", "v1")),
    Case("newest offset file without a named source", NAMED, lines("offsets/2", 3)),
    Case("newest offset file of named sources empty", NAMED, holds("offsets/2", "")),
    Case("the newest batch of named sources is planned", NAMED, planned),
    Case(
        "the same, and its offset file removed",
        NAMED,
        both(gone("commits/2", "offsets/2"), lambda p: hands.remove(p.sink_log / "2")),
    ),
    Case(
        "the newest batch of named sources is planned and not in the table's log, then repaired",
        NAMED,
        both(gone("commits/2"), lambda p: hands.remove(p.sink_log / "2"), repaired),
    ),
    Case("the newest batch is planned, offsets in format 2", "offsets in format 2", planned),
    Case(
        "the only batch is planned, offsets in format 2",
        TWICE2,
        both(
            gone(
                "offsets/1", "offsets/2", "commits/0", "commits/1", "commits/2", "sources/0/1", "sources/0/2"
            ),
            lambda p: hands.remove(*(p.sink_log / n for n in ("0", "1", "2"))),
        ),
    ),
    Case(
        "all commits missing, offsets in format 2",
        "offsets in format 2",
        gone("commits/0", "commits/1", "commits/2"),
    ),
    Case("newest offset file without its source in Python", PAGES, lines("offsets/0", 2)),
    Case("position of a source in Python cut short", PAGES, cut("offsets/0", -3)),
]

PROGRESS = [
    Case("stopped between two records of the progress", ASYNC, nothing),
    Case("stopped between two records, and the tracking is switched off", ENDED, nothing),
    Case("two batches in a row unrecorded", RECORDED, unrecorded(1, 2)),
    Case(
        "two batches in a row unrecorded, and the tracking is switched off", ENDED_RECORDED, unrecorded(1, 2)
    ),
    Case("every other batch unrecorded", RECORDED, unrecorded(1, 3)),
    Case(
        "every other batch unrecorded, and the tracking is switched off",
        ENDED_RECORDED,
        unrecorded(1, 3),
        untold=OTHER_CODE,
    ),
    Case("newest commit file empty, asynchronous progress", RECORDED, holds("commits/4", "")),
]

TRANSFORM = [
    Case("the newest batch of transformWithState is planned and not in the table's log", TWS, both(
        gone("commits/2"), lambda p: hands.remove(p.sink_log / "2"))),
    Case("moved, the old place gone", TWS, moved),
    Case("moved, the old place gone, then repaired", TWS, both(moved, repaired)),
    Case("copied, the old place still there", TWS, copied_here),
    Case("state schema of transformWithState missing", TWS, lambda p: hands.remove(schema(p))),
    Case("state schema of transformWithState empty", TWS, lambda p: hands.write(schema(p), "")),
    Case("state schema of transformWithState cut short", TWS, lambda p: hands.cut(schema(p), 60)),
    Case("state schema with another column family", TWS, family_renamed),
    Case("operator metadata with another state variable", TWS, variable_renamed),
    Case("operator metadata v2 missing", TWS, gone("state/0/_metadata")),
    Case("operator metadata v2 empty", TWS, holds("state/0/_metadata/v2/0", "")),
    Case("operator metadata v2 garbage", TWS, holds("state/0/_metadata/v2/0", "v2\n}{")),
    Case("operator metadata v2 of a newer Spark", TWS, newer("state/0/_metadata/v2/0")),
    Case("newest zip of transformWithState missing", TWS, each_gone("*/3.zip")),
    Case("moved, commits in format 2", TWS2, moved),
    Case("newest changelog of transformWithState missing, format 2", TWS2, each_gone("*/3_*.changelog")),
]  # fmt: skip

FOUND = [
    Case("state was repartitioned, and the table's log has no such batch", REPARTITIONED, nothing),
    Case("state was repartitioned, and the log was given an entry that names no file", REPARTITIONED,
         lambda p: hands.write(p.sink_log / "3", "v1")),
    Case("the newest batch put in by Spark itself", "offsets in format 2", control(2)),
    Case("the same, planned and not committed", "offsets in format 2", both(control(2), gone("commits/2"))),
    Case("operator metadata of a newer Spark", DEDUPE, newer("state/0/_metadata/metadata")),
    Case("state schema of a newer Spark", DEDUPE, lambda p: hands.write(
        p.checkpoint / "state/0/0/_metadata/schema",
        (p.checkpoint / "state/0/0/_metadata/schema").read_bytes().replace(b"v2", b"v9", 1))),
    Case("header with another state store", DEDUPE, provider, conf={}),
    Case("a damaged snapshot beside all deltas", DEDUPE, snapshot_of_3, deep=True),
    Case("state in a compression that is not read here", SNAPPY, nothing, deep=True),
    Case("newest delta cut short, in a compression that is not read here", SNAPPY, each_cut("*/3.delta", 20),
         deep=True, untold="blocks in snappy are not read here; the finding says that the file was not checked"),
    Case("older zip missing", ZIPS, each_gone("*/2.zip")),
    Case("older zip cut short", ZIPS, each_cut("*/1.zip", 200), deep=True),
    Case("rewound by one batch, state changelogs left", CHANGES, rewound, max_files=None),
    Case("rewound by two batches, state zips left", ZIPS, unrecorded(1, 2), max_files=None),
    Case("a file of a kind of its own in the state", DEDUPE, state_file("3.index", b"?")),
    Case("older offsets and commits are garbage, read deep", DEDUPE, both(
        *(holds(n, "}{") for n in ("offsets/0", "commits/0", "commits/1"))), deep=True),
    Case("a place that Spark named for one run", FILES, spark_s_temporary),
    Case("that place, cleared", FILES, both(spark_s_temporary, empty_version), max_files=None),
    Case("a directory with files of other people alone", FILES, only_others_files,
         untold="of a path that holds no checkpoint nothing is predicted"),
    Case("a file beside the versions with the highest number", FILES, a_file_as_version),
    Case("an input file of a store that is not known here", FILES, log_of_another_store),
]  # fmt: skip

MORE_CASES = NOTHING + SINKS + SOURCES + PROGRESS + TRANSFORM + FOUND
