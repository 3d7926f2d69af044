"""`--sink` of a table that is no file sink's: it is not called broken, and nobody is sent to a full refresh."""

from pathlib import Path

import pytest

from recovery.checkpoints import inspect_checkpoint
from recovery.checkpoints.report import Outcome, Severity
from recovery.checkpoints.storage import Store
from recovery.checkpoints.tablekind import TableKind, kind_of
from recovery.sinks.live import files
from tests.checkpoint_builder import Built

ONE = "97f675a2-bb82-4201-8245-05f3dae4c372"
TWO = "1b0c7a54-2f5e-4b0e-8f5c-6f0d7e5a9c11"
LOG_MISSING, WITHOUT_LOG, NOT_COMPARED = "SINK_LOG_MISSING", "SINK_WITHOUT_LOG", "SINK_NOT_COMPARED"


def part(number: int, job: str, ending: str = "-c000.snappy.parquet") -> str:
    return f"part-{number:05d}-{job}{ending}"


TABLES = {
    "Iceberg": (["metadata/v1.metadata.json", "data/00000-0-x.parquet"], TableKind.ICEBERG, NOT_COMPARED),
    "Iceberg, zipped": (["metadata/00001-x.metadata.json.gz"], TableKind.ICEBERG, NOT_COMPARED),
    "Hudi": ([".hoodie/hoodie.properties", "x.parquet"], TableKind.HUDI, NOT_COMPARED),
    "one job, marked": (["_SUCCESS", part(0, ONE)], TableKind.BATCH, WITHOUT_LOG),
    "one job, marked in its folder": (["batch=0/_SUCCESS", f"batch=0/{part(0, ONE)}"], TableKind.BATCH, WITHOUT_LOG),
    "one job, not marked": ([part(0, ONE), part(1, ONE)], TableKind.BATCH, WITHOUT_LOG),
    "Databricks' marks": ([f"_started_{'1' * 18}", part(0, ONE)], TableKind.BATCH, WITHOUT_LOG),
    "people's own names": (["2026-11-22.parquet"], TableKind.BATCH, WITHOUT_LOG),
    "a file sink's files": ([part(0, ONE), part(1, TWO)], TableKind.FILES, LOG_MISSING),
    "a file sink's text": ([part(0, ONE, ".txt"), f"day=1/{part(0, TWO, '.c000.json')}"], TableKind.FILES, LOG_MISSING),
    "with checksum files": ([part(0, ONE), f".{part(0, ONE)}.crc"], TableKind.FILES, LOG_MISSING),
    "nothing at all": ([], TableKind.FILES, LOG_MISSING),
}  # fmt: skip


def laid_out(table: Path, names: list[str]) -> Path:
    table.mkdir()
    for name in names:
        (table / name).parent.mkdir(parents=True, exist_ok=True)
        (table / name).touch()
    return table


@pytest.mark.parametrize("name", TABLES)
def test_a_table_without_a_file_sink_s_log_is_judged_by_what_wrote_it(tmp_path: Path, name: str) -> None:
    names, kind, code = TABLES[name]
    table = laid_out(tmp_path / "table", names)
    assert kind_of(Store.open(str(table))) is kind
    Built(tmp_path / "ck").write()
    (found,) = inspect_checkpoint(str(tmp_path / "ck"), sink=str(table)).findings
    assert found.code == code
    assert (found.severity is Severity.BLOCKER) == (kind is TableKind.FILES)
    assert found.outcome is (Outcome.UNREADABLE_TABLE if kind is TableKind.FILES else Outcome.GOES_ON)
    assert "full refresh" not in found.do or kind is TableKind.FILES


@pytest.mark.parametrize("name", ["Iceberg", "Hudi"])
def test_a_table_of_another_format_is_reported_as_not_known(tmp_path: Path, name: str) -> None:
    assert files.read_table_report(str(laid_out(tmp_path / "table", TABLES[name][0]))).kind == "unknown"


def test_before_the_first_batch_a_table_needs_no_log(tmp_path: Path) -> None:
    Built(tmp_path / "ck", batches=0, planned=1, operators=()).write()
    table = laid_out(tmp_path / "table", [])
    assert {f.code for f in inspect_checkpoint(str(tmp_path / "ck"), sink=str(table)).findings} == {
        "FIRST_BATCH_PLANNED"
    }
