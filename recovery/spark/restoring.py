"""Puts a Delta table back to an earlier version, for a replay (child process only).

Source: RestoreTableCommand. A restore is one commit, which names the version in its `operationParameters`: whoever
asked can read from the log whether it was made, so it is never asked for twice.
"""

from typing import Any

from recovery.errors import Refused
from recovery.spark.catalog import is_delta_at, sql_name
from recovery.spark.session import first_line, lost_contact


def restore(spark: Any, table: str, location: str, version: int) -> dict[str, bool]:
    """`{"restored": true}` once the commit is made. Raises Refused where Delta refuses it, and for another table."""
    from pyspark.errors import PySparkException

    if not is_delta_at(spark, table, location):
        raise Refused(f"{table} is not the Delta table at {location} now.", code="elsewhere")
    try:
        spark.sql(f"RESTORE TABLE {sql_name(table)} TO VERSION AS OF {version}").collect()
    except PySparkException as error:
        if lost_contact(error):
            raise
        raise Refused(f"The table was not put back to version {version}: {first_line(error)}") from error
    return {"restored": True}
