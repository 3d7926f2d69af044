"""Whether a path leads into a checkpoint, or into the log of a table, rather than to it. Only reads."""

import re

from recovery.checkpoints.filelog import parse_name
from recovery.checkpoints.storage import DirectoryEntry, Store
from recovery.errors import WrongUse

FOLDERS = {"offsets", "commits", "sources", "state"}
TABLE_LOG = "_spark_metadata"
DEEPEST = 6  # state/<operator>/<partition>/<store>/_metadata and a file
BEGINNING = 16  # bytes that tell a log's entry
LOG_ENTRY = re.compile(rb"\0?v[0-9]+(\r?\n|$)")


def refuse_inside(store: Store) -> None:
    """Raises WrongUse, naming what to give instead, where the directory or one above it is part of a checkpoint."""
    here = store
    for _ in range(DEEPEST):
        if "/" not in here.root.strip("/"):
            return
        above = here.parent()
        if here.name == TABLE_LOG:
            raise WrongUse(
                f"{store.location} is in the log of a file table. Give the checkpoint of the query that writes the "
                f"table, and the table as --sink {above.location}."
            )
        if here.name in FOLDERS and _is_checkpoint(above):
            raise WrongUse(f"{store.location} is in the {here.name} of a checkpoint. Give {above.location}.")
        here = above


def _is_checkpoint(store: Store) -> bool:
    """Surely one: its parts may be names of people's tables, but hardly of several."""
    return store.is_dir("offsets") and (store.exists("metadata") or store.is_dir("commits"))


def refuse_log(store: Store, entries: list[DirectoryEntry]) -> None:
    """Raises WrongUse where a directory's numbered files are entries of one of Spark's logs."""
    numbered = {parsed[0]: e for e in entries if not e.is_dir and (parsed := parse_name(e.name))}
    if not numbered:
        return
    newest = numbered[max(numbered)]
    beginning = next(store.chunks(newest.name, BEGINNING), b"")[:BEGINNING]
    if LOG_ENTRY.match(beginning):
        raise WrongUse(
            f"{store.location} holds entries of one of Spark's logs and no checkpoint. Give the directory that holds "
            "metadata, offsets and commits."
        )
