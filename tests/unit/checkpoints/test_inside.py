"""A path into a checkpoint, or into a table's log, is wrong use that names what to give instead."""

from pathlib import Path

import pytest

from recovery.checkpoints import inspect_checkpoint
from recovery.checkpoints.batches import read_batch
from recovery.checkpoints.report import CheckpointReport
from recovery.errors import WrongUse
from tests.checkpoint_builder import Built, sink_log


@pytest.mark.parametrize(
    "inside",
    [
        "offsets",
        "offsets/2",
        "commits",
        "sources",
        "sources/0",
        "state",
        "state/0",
        "state/0/1",
        "state/0/_metadata",
    ],
)
def test_a_part_of_a_checkpoint_is_no_checkpoint(tmp_path: Path, inside: str) -> None:
    Built(tmp_path / "ck").write()
    for ask in (inspect_checkpoint, lambda where: read_batch(where, 2)):
        with pytest.raises(WrongUse) as refused:
            ask(str(tmp_path / "ck" / inside))
        assert refused.value.sentence.endswith(f"Give {tmp_path / 'ck'}.")


@pytest.mark.parametrize("inside", ["_spark_metadata", "_spark_metadata/2"])
def test_the_log_of_a_table_is_no_checkpoint(tmp_path: Path, inside: str) -> None:
    sink_log(tmp_path / "table", 2)
    with pytest.raises(WrongUse) as refused:
        inspect_checkpoint(str(tmp_path / "table" / inside))
    assert f"--sink {tmp_path / 'table'}." in refused.value.sentence


@pytest.mark.parametrize("log", ["offsets", "commits", "sources/0"])
def test_a_log_that_was_copied_away_alone_is_no_checkpoint(tmp_path: Path, log: str) -> None:
    Built(tmp_path / "ck").write()
    (tmp_path / "ck" / log).rename(tmp_path / "log")
    with pytest.raises(WrongUse):
        inspect_checkpoint(str(tmp_path / "log"))


@pytest.mark.parametrize("table", ["offsets", "commits", "sources", "state"])
def test_a_flow_may_be_named_as_a_part_of_a_checkpoint(tmp_path: Path, table: str) -> None:
    """Tables of these names side by side, in a schema that holds nothing else."""
    for name in ("sources", "state", table):
        Built(tmp_path / f"_checkpoints/cat/schema/{name}/{name}/3", query_id=QUERY).write()
    report: CheckpointReport = inspect_checkpoint(str(tmp_path / f"_checkpoints/cat/schema/{table}/{table}"))
    assert (report.version, report.query_id) == (3, QUERY)


def test_a_file_that_is_no_log_entry_beside_no_version_is_still_a_finding(tmp_path: Path) -> None:
    (tmp_path / "7").write_text("notes")
    assert [f.code for f in inspect_checkpoint(str(tmp_path)).findings] == ["VERSION_NOT_A_DIRECTORY"]


QUERY = "6c2a0c56-8f1a-4f0e-9a67-2d1f5b8e7c11"
