"""File transplants without Spark: which files the new checkpoint holds, and what is refused."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from recovery.checkpoints import empty_checkpoint, inspect_checkpoint, publishing, seed, transplant
from recovery.errors import Refused
from tests.checkpoint_builder import PREFIX, ROCKSDB, Built, dumps, put, sink_log
from tests.state_checkpoints import unpack
from tests.unit.checkpoints.seeding import free, tree

PROVIDER = f"{PREFIX}stateStore.providerClass"
ID = "aaaaaaaa-0000-4000-8000-000000000001"


def in_place(where: Path, plan: transplant.LaidPlan | seed.SeedPlan) -> dict[str, bytes]:
    if isinstance(plan, seed.SeedPlan):
        ready = seed.prepare_seed(str(where), plan, recovery="R-1", fence=1, guard=free)
    else:
        ready = transplant.prepare_layout(str(where), plan, recovery="R-1", fence=1, guard=free)
    publishing.publish_checkpoint(str(where), ready, guard=free)
    return tree(where / "1")


def with_state(flow: Path, scratch: Path) -> seed.SeedPlan:
    return seed.plan_seed(inspect_checkpoint(str(flow)), state=str(scratch))


def state(files: dict[str, bytes]) -> set[str]:
    return {n.removeprefix("state/0/") for n in files if n.startswith("state/0/") and "_metadata" not in n}


def scratch(root: Path, *names: str, batches: int = 1) -> Path:
    """A checkpoint with these state files in its one partition, in place of the built ones."""
    rocks = any(not name.endswith((".delta", ".snapshot")) for name in names)
    Built(root, batches=batches, partitions=1, conf={PROVIDER: ROCKSDB} if rocks else {}).write()
    empty = (root / "state/0/0/1.delta").read_bytes()
    for file in (root / "state/0/0").glob("*.delta"):
        file.unlink()
    for file in (root / "state/0/0").glob(".*"):
        file.unlink()
    for name in names:
        file = root / "state/0/0" / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(zipped(names) if name.endswith(".zip") else empty)
    if any(ID in name for name in names):
        ids = {"nextBatchWatermarkMs": 0, "stateUniqueIds": {"0": [[ID]]}}
        put(root / f"commits/{batches - 1}", "v2\n" + dumps(ids))
    return root


def zipped(names: tuple[str, ...]) -> bytes:
    """What RocksDBFileManager puts into a zip, as far as a reader needs it; it names the SST files given."""
    sst = [n.removeprefix("SSTs/") for n in names if n.startswith("SSTs/")]
    files = [{"localFileName": n, "dfsSstFileName": n, "sizeBytes": 0} for n in sst]
    held = io.BytesIO()
    with ZipFile(held, "w") as archive:
        archive.writestr("metadata", f"v1\n{dumps({'sstFiles': files, 'logFiles': [], 'numKeys': 0})}")
    return held.getvalue()


RENAMED: list[tuple[str, tuple[str, ...], int, set[str]]] = [
    ("HDFS, first delta", ("1.delta",), 1, {"0/4.snapshot"}),
    ("HDFS, chain", ("1.delta", "2.delta", "3.delta"), 3, {"0/2.snapshot", "0/3.delta", "0/4.delta"}),
    ("HDFS, snapshot", ("1.delta", "2.snapshot", "2.delta", "3.delta"), 3, {"0/3.snapshot", "0/4.delta"}),
    ("HDFS, later left out", ("1.delta", "2.delta"), 1, {"0/4.snapshot"}),
    ("RocksDB", ("1.zip", "SSTs/000008-a.sst"), 1, {"0/4.zip", "0/SSTs/000008-a.sst"}),
    ("RocksDB 2", (f"1_{ID}.zip", f"1_{ID}.zip.crc"), 1, {f"0/4_{ID}.zip", f"0/4_{ID}.zip.crc"}),
    ("several", ("1.zip", "2.zip"), 2, {"0/4.zip"}),
]


@pytest.mark.parametrize(
    ("names", "batches", "wanted"), [r[1:] for r in RENAMED], ids=[r[0] for r in RENAMED]
)
def test_state_files_get_the_version_that_a_restart_asks_for(
    tmp_path: Path, names: tuple[str, ...], batches: int, wanted: set[str]
) -> None:
    Built(tmp_path / "flow/0", batches=4, operators=()).write()
    given = scratch(tmp_path / "scratch", *names, batches=batches)
    made = in_place(tmp_path / "flow", with_state(tmp_path / "flow", given))
    assert state(made) == wanted
    assert "state/0/_metadata/metadata" in made
    logs = {n for n in made if n.startswith(("offsets", "commits", "sources"))}
    assert logs == {"offsets/2", "offsets/3", "commits/3", *(f"sources/0/{n}" for n in range(4))}


def test_ids_and_settings_come_from_the_run_that_wrote_the_state_and_the_watermark_stays(
    tmp_path: Path,
) -> None:
    Built(tmp_path / "flow/0", batches=3, operators=()).write()
    put(tmp_path / "flow/0/commits/2", 'v1\n{"nextBatchWatermarkMs":77}')
    given = scratch(tmp_path / "scratch", f"1_{ID}.zip")
    settings = json.loads((given / "offsets/0").read_text().split("\n")[1])["conf"]
    assert settings[PROVIDER] == ROCKSDB
    made = in_place(tmp_path / "flow", with_state(tmp_path / "flow", given))
    version, body = made["commits/2"].decode().split("\n")
    assert (version, json.loads(body)) == (
        "v2",
        {"nextBatchWatermarkMs": 77, "stateUniqueIds": {"0": [[ID]]}},
    )
    for name in ("offsets/1", "offsets/2"):
        assert json.loads(made[name].split(b"\n")[1])["conf"] == settings


REFUSED: list[tuple[str, Callable[[Path], Any], str]] = [
    ("changelogs", lambda r: scratch(r, "1.changelog"), "keep their version"),
    (
        "too many batches",
        lambda r: scratch(r, *(f"{n}.delta" for n in range(1, 6)), batches=5),
        "in one batch",
    ),
    ("a gap", lambda r: scratch(r, "2.delta", batches=2), "1.delta of it is missing"),
    ("no state", lambda r: Built(r, batches=1, operators=()).write(), "holds no state"),
    ("never run", lambda r: Built(r, batches=0, planned=1).write(), "holds no state"),
    ("damaged", lambda r: (scratch(r, "1.delta") / "metadata").unlink(), "cannot be used"),
]


@pytest.mark.parametrize(("make", "words"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_state_that_cannot_be_carried_is_refused(
    tmp_path: Path, make: Callable[[Path], Any], words: str
) -> None:
    Built(tmp_path / "flow/0", batches=3, operators=()).write()
    make(tmp_path / "scratch")
    with pytest.raises(Refused, match=words):
        with_state(tmp_path / "flow", tmp_path / "scratch")


def test_a_skeleton_has_no_commit_and_is_laid_over_nothing(tmp_path: Path) -> None:
    scratch, lines = tmp_path / "scratch", ["v1", empty_checkpoint.header_line({}, 7), "-", "-"]
    empty_checkpoint.lay_skeleton(str(scratch), lines, guard=free)
    made = tree(scratch)
    assert set(made) == {"metadata", "offsets/0"}
    assert made["offsets/0"].decode().split("\n") == lines
    with pytest.raises(Refused, match="is not empty"):
        empty_checkpoint.lay_skeleton(str(scratch), lines, guard=free)


def test_a_rollback_keeps_what_stood_then_and_nothing_later(tmp_path: Path) -> None:
    Built(tmp_path / "flow/0", batches=12, planned=1, partitions=1, interval=10).write()
    made = in_place(tmp_path / "flow", transplant.plan_rollback(str(tmp_path / "flow"), 4))
    assert {n for n in made if n.startswith(("offsets", "commits"))} == {
        f"{folder}/{n}" for folder in ("offsets", "commits") for n in range(5)
    }
    assert state(made) == {f"0/{n}.delta" for n in range(1, 6)}
    report = inspect_checkpoint(str(tmp_path / "flow"))
    assert (report.last_committed, report.findings) == (4, ())
    assert [e.batch_id for e in report.sources[0].committed] == [0, 1, 2, 3, 4]


def test_a_rollback_under_a_table_with_later_batches_is_refused(tmp_path: Path) -> None:
    Built(tmp_path / "flow/0", batches=3).write()
    sink_log(tmp_path / "table", 2)
    with pytest.raises(Refused, match="has batch 2 already"):
        transplant.plan_rollback(str(tmp_path / "flow"), 1, sink=str(tmp_path / "table"))


@pytest.mark.parametrize("name", ["rocksdb-transform", "rocksdb-2", "hdfs-join", "rocksdb-dedupe"])
def test_state_that_spark_wrote_is_judged_where_it_will_lie(tmp_path: Path, name: str) -> None:
    """transformWithState's metadata names the checkpoint's place: it must be the next version's, not the scratch's."""
    given = inspect_checkpoint(str(unpack(name, tmp_path / "scratch")))
    batches = (given.last_committed or 0) + 1
    Built(tmp_path / "flow/0", batches=batches, operators=()).write()
    plan = with_state(tmp_path / "flow", Path(given.location))
    made = in_place(tmp_path / "flow", plan)
    found = inspect_checkpoint(str(tmp_path / "flow"), deep=True)
    assert found.blockers == ()
    assert [o.name for o in found.state_operators] == [o.name for o in given.state_operators]
    places = {d for n, d in made.items() if "_metadata/v2/" in n}
    assert bool(places) is (name == "rocksdb-transform")
    assert all(str(tmp_path / "flow/1").encode() in d and b"scratch" not in d for d in places)
