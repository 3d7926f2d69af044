"""Signs of life of worker and beat. A process that cannot write its own is as good as dead to everybody else.

A worker is alive while its own loop turns, not while some thread of it does: see console/life.py for who writes.
"""

import logging
import os
import socket
from datetime import timedelta
from typing import Final

from django.db import DatabaseError, InterfaceError, connection
from django.utils import timezone

from recovery.health import DEAD_SECONDS
from recovery.models import Heartbeat

log = logging.getLogger(__name__)

FORGOTTEN: Final = timedelta(days=1)


def this_process() -> str:
    """`host:pid`, as steps name their worker too."""
    return f"{socket.gethostname()}:{os.getpid()}"


def write_heartbeat(part: str, process: str) -> None:
    """Say that `process` lives. A database that is away is logged, for the next sign may reach it."""
    now = timezone.now()
    try:
        _, new = Heartbeat.objects.update_or_create(process=process, defaults={"part": part, "at": now})
        if new:  # once in a process's life is often enough to clear away the dead
            Heartbeat.objects.filter(at__lt=now - FORGOTTEN).delete()
    except (DatabaseError, InterfaceError) as problem:
        log.warning("The sign of life of %s could not be written: %s", part, problem)
        connection.close()  # a broken connection would fail again for ever


def find_problem(part: str, host: str = "") -> str | None:
    """Why no process of this part (on this host, where one is named) is alive; None when one is."""
    rows = Heartbeat.objects.filter(part=part)
    if host:
        rows = rows.filter(process__startswith=f"{host}:")
    last = rows.order_by("-at").values_list("at", flat=True).first()
    if last is None:
        return f"No {part} has ever given a sign of life{f' on {host}' if host else ''}."
    age = (timezone.now() - last).total_seconds()
    return f"The {part} has been silent for {age:.0f} s." if age > DEAD_SECONDS else None
