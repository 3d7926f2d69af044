"""Which files of state a restart reads, on checkpoints that real Spark wrote."""

from pathlib import Path

import pytest

from recovery.checkpoints import formats
from recovery.checkpoints.file_listing import Tree
from recovery.checkpoints.state import NeededFiles, files_needed
from recovery.checkpoints.state.ids import operator_ids
from recovery.checkpoints.storage import Store
from tests.state_checkpoints import unpack


def tree_of(root: Path) -> Tree:
    store = Store.open(str(root))
    return Tree(store, *store.walk())


def needed(root: Path, version: int, operator: int = 0) -> NeededFiles:
    """The answer for a version, with the ids that the commit before it names."""
    tree = tree_of(root)
    commit = formats.parse_commit(tree.bytes_of(f"commits/{version - 1}"))
    return files_needed(tree, operator, version, operator_ids(commit, operator))


def names(found: NeededFiles, partition: int = 0) -> list[str]:
    """Files of one partition, without unique ids and without the directory."""
    above = f"state/0/{partition}/"
    own = [n.removeprefix(above) for n in found.files if n.startswith(above) and "_metadata" not in n]
    return [n[: n.index("_")] + n[n.index("_") + 37 :] if "_" in n.split("/")[-1] else n for n in own]


def test_a_delta_chain_without_a_snapshot_begins_at_version_1(tmp_path: Path) -> None:
    unpack("hdfs-dedupe", tmp_path)
    found = needed(tmp_path, 4)
    assert names(found) == names(found, 1) == ["1.delta", "2.delta", "3.delta", "4.delta"]
    assert {"state/0/_metadata/metadata", "state/0/0/_metadata/schema"} <= set(found.files)
    assert (found.missing, found.unreadable) == ((), ())


def test_the_newest_snapshot_replaces_the_deltas_before_it(tmp_path: Path) -> None:
    unpack("hdfs-dedupe", tmp_path)
    (tmp_path / "state/0/0/2.delta").rename(tmp_path / "state/0/0/2.snapshot")
    (tmp_path / "state/0/0/1.delta").unlink()
    assert names(needed(tmp_path, 4)) == ["2.snapshot", "3.delta", "4.delta"]
    assert names(needed(tmp_path, 2)) == ["2.snapshot"]


@pytest.mark.parametrize("version", [1, 3, 4])
def test_a_zip_brings_the_sst_files_that_it_names_and_no_other(tmp_path: Path, version: int) -> None:
    unpack("rocksdb-dedupe", tmp_path)
    found = names(needed(tmp_path, version))
    assert [n for n in found if n.endswith(".zip")] == [f"{version}.zip"]
    ssts = [n for n in found if n.startswith("SSTs/")]
    everything = [p for p in (tmp_path / "state/0/0/SSTs").iterdir() if not p.name.startswith(".")]
    assert len(ssts) == {1: 1, 3: 2, 4: 3}[version]
    assert len(everything) == 3


def test_format_2_follows_the_lineage_and_brings_the_checksum_files(tmp_path: Path) -> None:
    unpack("rocksdb-2-changelog", tmp_path)
    wanted = [f"{v}.changelog{end}" for v in (1, 2, 3, 4) for end in ("", ".crc")]
    assert names(needed(tmp_path, 4)) == wanted


def test_a_file_of_a_task_that_was_tried_again_is_not_taken(tmp_path: Path) -> None:
    unpack("rocksdb-2-changelog", tmp_path)
    stray = tmp_path / "state/0/0/4_00000000-0000-0000-0000-000000000000.changelog"
    stray.write_bytes(b"left by another attempt")
    assert str(stray.relative_to(tmp_path)) not in needed(tmp_path, 4).files


@pytest.mark.parametrize(
    ("case", "lost", "version"),
    [
        ("hdfs-dedupe", "state/0/1/2.delta", 4),
        ("rocksdb-dedupe", "state/0/1/4.zip", 4),
        ("rocksdb-changelog", "state/0/0/1.changelog", 3),
        ("hdfs-join", "state/0/1/right-keyToNumValues/5.delta", 5),
    ],
)
def test_a_file_that_breaks_the_chain_is_named(tmp_path: Path, case: str, lost: str, version: int) -> None:
    unpack(case, tmp_path)
    (tmp_path / lost).unlink()
    assert needed(tmp_path, version).missing == (lost,)


def test_a_version_that_was_never_written_is_missing(tmp_path: Path) -> None:
    unpack("hdfs-dedupe", tmp_path)
    found = files_needed(tree_of(tmp_path), 0, 9)
    assert found.missing == ("state/0/0/9.delta", "state/0/1/9.delta")


def test_version_0_is_empty_and_needs_descriptions_only(tmp_path: Path) -> None:
    unpack("hdfs-dedupe", tmp_path)
    found = files_needed(tree_of(tmp_path), 0, 0)
    assert found.files == ("state/0/0/_metadata/schema", "state/0/_metadata/metadata")


def test_a_zip_that_cannot_be_opened_is_said(tmp_path: Path) -> None:
    unpack("rocksdb-dedupe", tmp_path)
    (tmp_path / "state/0/0/4.zip").write_bytes(b"PK")
    ((name, why),) = needed(tmp_path, 4).unreadable
    assert (name, "zip" in why) == ("state/0/0/4.zip", True)


def test_an_sst_file_that_a_zip_names_and_that_is_gone_is_missing(tmp_path: Path) -> None:
    unpack("rocksdb-dedupe", tmp_path)
    lost = next(n for n in needed(tmp_path, 4).files if "/SSTs/" in n)
    (tmp_path / lost).unlink()
    assert needed(tmp_path, 4).missing == (lost,)
