"""Whether a checkpoint is where it will still be tomorrow, and belongs to one query alone. Pure."""

import re
from collections.abc import Mapping

from recovery.checkpoints.findings import finding
from recovery.checkpoints.report import Finding
from recovery.checkpoints.uris import spell_place, strip_file_scheme

# Emptied at a restart, by a cleaner or with the cluster, or open to everybody (Databricks: DBFS root folders).
TEMPORARY = (
    "/tmp",  # noqa: S108
    "/var/tmp",  # noqa: S108
    "/dev/shm",  # noqa: S108
    "/local_disk0",
    "dbfs:/tmp",
    "dbfs:/FileStore",
    "dbfs:/local_disk0",
)
# What Spark names the directory of a query that was given none (StreamingQueryManager).
SPARK_S_OWN = re.compile(r"temporary-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def judge_place(location: str) -> list[Finding]:
    """A warning where the location is a temporary one."""
    plain = re.sub(r"^(?:/dbfs/|dbfs:/+)", "dbfs:/", strip_file_scheme(location))
    below = next((t for t in TEMPORARY if plain == t or plain.startswith(f"{t}/")), None)
    if below is None and not any(SPARK_S_OWN.fullmatch(part) for part in plain.split("/")):
        return []
    return [finding("LOCATION_TEMPORARY", None, place=below or "a directory that Spark made for one run")]


def find_shared_locations(locations: Mapping[str, str]) -> list[Finding]:
    """A blocker for each location that several queries have. `locations`: query name -> checkpoint location."""
    users: dict[str, list[str]] = {}
    for query, location in locations.items():
        users.setdefault(spell_place(location), []).append(query)
    return [
        finding("LOCATION_SHARED", None, place=place, queries=", ".join(sorted(queries)))
        for place, queries in sorted(users.items())
        if len(queries) > 1
    ]
