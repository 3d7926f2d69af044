"""Reads a table's memory of the streams that write it, whichever kind of table it is."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from recovery.sinks import unknown
from recovery.sinks.base import SinkReport
from recovery.sinks.live import delta, kafka
from recovery.sinks.live.tables import read_table as read_table

BY_PATH = {
    "delta",
    "parquet",
    "json",
    "csv",
    "text",
    "orc",
}  # formats whose option path is a table of its own


def read_declared_sink(
    sink: Mapping[str, Any], *, query_id: str | None = None, failed_ms: int | None = None
) -> SinkReport:
    """The report of a sink that the code declares, {name, format, options}: a topic, a table by its path, or unknown.

    `failed_ms`: when a batch was planned that was never committed. Raises Unreachable where it does not answer.
    """
    kind, options = str(sink["format"]), dict(sink["options"])
    if kind == "kafka":
        return kafka.read_topic_report(options, failed_ms=failed_ms)
    if place := place_of(sink):
        return replace(read_table(place, query_id=query_id), declared=kind)
    return replace(unknown.empty_report(f"sink {sink['name']}"), declared=kind)


def place_of(sink: Mapping[str, Any]) -> str:
    """Where a sink that is a table by its path is; "" for any other."""
    if sink["format"] not in BY_PATH:
        return ""
    return next((str(value) for name, value in sink["options"].items() if name.lower() == "path"), "")


def written_since(report: SinkReport, before: int | None, files_before: tuple[str, ...]) -> tuple[str, ...]:
    """Data files that the table has now and had not (or the other way round): since version `before`, or beside
    `files_before`, what its log named then. Raises Unreachable."""
    if before is not None:
        return delta.data_files_since(report.location, before)
    now = {*report.older, *(f for held in report.batches.values() for f in held)}
    return tuple(sorted(now ^ set(files_before)))
