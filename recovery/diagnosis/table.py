"""The whole error table, in the order in which it is searched: exact names before patterns, special before general."""

from collections.abc import Iterator
from typing import Final

from recovery.diagnosis import table_logs, table_pipelines, table_query, table_sources, table_state
from recovery.diagnosis.row import ErrorRow

ROWS: Final[tuple[ErrorRow, ...]] = (
    *table_query.ROWS,
    *table_logs.ROWS,
    *table_state.ROWS,
    *table_sources.ROWS,
    *table_pipelines.ROWS,
)

_BY_NAME: Final[dict[str, ErrorRow]] = {
    name: row for row in ROWS for name in row.conditions if "*" not in name
}


def row_of_condition(condition: str) -> ErrorRow | None:
    """The row of a Spark condition; a sub-condition that the table does not list falls back to its parent."""
    if condition in _BY_NAME:
        return _BY_NAME[condition]
    for row in ROWS:
        if row.names(condition):
            return row
    parent, dot, _ = condition.partition(".")
    return row_of_condition(parent) if dot else None


def rows_of_message(lowered: str) -> Iterator[ErrorRow]:
    """Rows one of whose texts is in a lower-case message, in the table's order."""
    return (row for row in ROWS if (row.patterns or row.exact) and row.says(lowered))
