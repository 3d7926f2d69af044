"""Puts a Delta table back to an earlier version (child process only): the one question that writes to a table.

Source: RestoreTableCommand. A restore is one commit, which names the version in its `operationParameters`: whoever
asked can read from the log whether it was made, so it is never asked for twice.
"""

from typing import Any

from recovery.errors import Refused
from recovery.spark.catalog import describe, sql_name
from recovery.spark.session import first_line, lost_contact


def restore(spark: Any, table: str, version: int) -> dict[str, bool]:
    """`{"restored": true}` once the commit is made. Raises Refused where Delta refuses it, and for another table."""
    from pyspark.errors import PySparkException

    if describe(spark, table).get("provider") != "delta":
        raise Refused(f"{table} is no Delta table that Spark knows.")
    try:
        spark.sql(f"RESTORE TABLE {sql_name(table)} TO VERSION AS OF {version}").collect()
    except PySparkException as error:
        if lost_contact(error):
            raise
        raise Refused(f"The table was not put back to version {version}: {first_line(error)}") from error
    return {"restored": True}
