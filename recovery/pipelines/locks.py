"""Courtesy locks: two polls, or two looks, of one workspace need not overlap, and nothing breaks when they do. Two
rehearsals in one folder would break each other: the second waits."""

import fcntl
import os
import time
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from django.conf import settings
from django.db import connection

from recovery.errors import Refused

REHEARSAL_SECONDS: Final = 600.0
# Our classes among PostgreSQL's two-key advisory locks: "RpPl", "RpLk", "RpSt", "RpRn", "RpRh"
_CLASSES: Final = {
    "poll": 0x5270506C, "look": 0x52704C6B, "study": 0x52705374, "running": 0x5270526E, "rehearsal": 0x52705268,
}  # fmt: skip


def only_poll(workspace_id: int) -> AbstractContextManager[bool]:
    """Yields whether no one else polls this workspace now. A killed process frees its lock."""
    return _only("poll", workspace_id)


def only_look(workspace_id: int) -> AbstractContextManager[bool]:
    """Yields whether no one else looks at unread input of this workspace now."""
    return _only("look", workspace_id)


def only_study() -> AbstractContextManager[bool]:
    """Yields whether no one else studies code in the background now, of whatever workspace."""
    return _only("study", 0)


def only_asking() -> AbstractContextManager[bool]:
    """Yields whether no one else asks the running commands of adopted streams now."""
    return _only("running", 0)


@contextmanager
def wait_for_rehearsal_folder(place: str) -> Iterator[None]:
    """Waits until no one else rehearses in this folder. Raises Refused (`rehearsal_busy`) after `REHEARSAL_SECONDS`."""
    key, until = zlib.crc32(place.encode()) & 0x7FFFFFFF, time.monotonic() + REHEARSAL_SECONDS
    while True:
        with _only("rehearsal", key) as mine:
            if mine:
                yield
                return
        if time.monotonic() > until:
            raise Refused("Another plan of this flow is being made. Try again later.", code="rehearsal_busy")
        time.sleep(0.2)


@contextmanager
def _only(what: str, workspace_id: int) -> Iterator[bool]:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", [_CLASSES[what], workspace_id])
            mine = bool(cursor.fetchone()[0])
        try:
            yield mine
        finally:
            if mine:
                with connection.cursor() as cursor:
                    cursor.execute("SELECT pg_advisory_unlock(%s, %s)", [_CLASSES[what], workspace_id])
        return
    file = os.open(Path(settings.REPRISE_HOME) / f"{what}-{workspace_id}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield _locked(file)
    finally:
        os.close(file)


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
