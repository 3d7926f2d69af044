"""An Iceberg table that a stream writes: no plan reads what it remembers."""

from pathlib import Path

from recovery.sinks.live.files import read_table_report
from recovery.streams.sinks import Sink, sink_of


def test_an_iceberg_table_is_taken_for_no_table_of_files(tmp_path: Path) -> None:
    for name in ("metadata/v1.metadata.json", "data/00000-0-a.parquet"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("{}")
    report = read_table_report(str(tmp_path))
    assert (report.kind, report.head, report.findings) == ("unknown", None, ())
    assert sink_of(str(tmp_path)) == Sink(str(tmp_path), "")
