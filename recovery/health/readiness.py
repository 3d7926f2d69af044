"""What the console needs before it may be sent people: database, its tables, broker. Each is asked, and timed."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from django.db import DatabaseError, InterfaceError, connection
from django.db.migrations.executor import MigrationExecutor

from recovery.errors import RepriseError, Unreachable
from recovery.workflow import broker


def check_database() -> None:
    """One round trip."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        cursor.fetchone()


def check_migrations() -> None:
    """Raise Unreachable while this code knows a table that the database lacks. More than it knows is well."""
    executor = MigrationExecutor(connection)
    missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if missing:
        raise Unreachable(f"{len(missing)} migrations have not been applied. Run bin/manage migrate.")


CHECKS: Final[Mapping[str, Callable[[], None]]] = {
    "database": check_database,
    "migrations": check_migrations,
    "broker": lambda: broker.check(),
}


def run_check(name: str) -> dict[str, Any]:
    """`{ok, seconds, says}` of one check. `says` names no host and no secret: anybody may read it."""
    began = time.perf_counter()
    says = ""
    try:
        CHECKS[name]()
    except RepriseError as problem:
        says = problem.sentence
    except (DatabaseError, InterfaceError):
        says = "The database does not answer."
        connection.close()
    return {"ok": not says, "seconds": round(time.perf_counter() - began, 4), "says": says}


def readiness_report() -> dict[str, Any]:
    """`{ready, checks: {name: {ok, seconds, says}}}`."""
    checks = {name: run_check(name) for name in CHECKS}
    return {"ready": all(check["ok"] for check in checks.values()), "checks": checks}
