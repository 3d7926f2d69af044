"""What this server forgets: events, source copies and rows of old updates, by age and number.

Kept whatever its age: what is active, the newest updates of each pipeline, and of those the newest that completed,
since recoveries read its code. A table that only an old update defined keeps that update, since a deletion drops it by
that.
"""

import logging
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from django.db import connections, transaction

from recovery.foreign import ForeignFolder
from recovery.server.events import now_ms
from recovery.server.models import ACTIVE_STATES, Event, Pipeline, Update

LOG = logging.getLogger(__name__)
FIRST_SECONDS: Final = 60.0
SECONDS: Final = 3600.0
"""When the first look is, and how often one is made after it."""
AT_ONCE: Final = 500
"""Updates of a pipeline that one look forgets, and names that one query asks about."""
DAY_MS: Final = 86_400_000


@dataclass(frozen=True)
class KeepingRule:
    """`days`: updates that ended later are kept; `updates`: so many newest of each pipeline, whatever their age."""

    days: float
    updates: int


@dataclass(frozen=True)
class ForgottenUpdates:
    """What one look removed."""

    updates: int = 0
    events: int = 0
    folders: int = 0


def prune_updates(home: Path, keep: KeepingRule) -> ForgottenUpdates:
    """Forget what is old. Rows go first: a crash leaves a folder without an update, which the next look removes."""
    before = now_ms() - round(keep.days * DAY_MS)
    updates = events = 0
    for pipeline_id in Pipeline.objects.values_list("pk", flat=True):
        old = _list_old_updates(pipeline_id, before, keep.updates)
        if not old:
            continue
        with transaction.atomic(using="pipelines"):
            events += Event.objects.filter(pipeline=pipeline_id, update_id__in=old).delete()[0]
            updates += Update.objects.filter(id__in=old).exclude(state__in=ACTIVE_STATES).delete()[0]
    return ForgottenUpdates(updates, events, _remove_folders(home))


def _list_old_updates(pipeline_id: str, before: int, newest: int) -> list[str]:
    """Ids of updates that are forgotten, the oldest first."""
    rows = list(
        Update.objects.filter(pipeline=pipeline_id)
        .order_by("-seq")
        .values_list("id", "state", "ended_ms", "options")
    )
    good = next(
        (id for id, state, _, options in rows if state == "COMPLETED" and not options.get("validate_only")),
        "",
    )
    old = [id for id, state, ended, _ in rows[newest:] if id != good and ended is not None and ended < before]
    tables = _updates_by_table(pipeline_id)
    lasting = {name for name, defined_by in tables.items() if defined_by <= set(old)}
    needed = {id for name in lasting for id in tables[name]}
    return [id for id in reversed(old) if id not in needed][:AT_ONCE]


def _updates_by_table(pipeline_id: str) -> dict[str, set[str]]:
    """Which updates define each table of a pipeline."""
    tables: dict[str, set[str]] = {}
    defined = Event.objects.filter(pipeline=pipeline_id, event_type="dataset_definition")
    for update_id, origin in defined.values_list("update_id", "body__origin"):
        tables.setdefault(str((origin or {}).get("dataset_name", "")), set()).add(update_id)
    return tables


def _remove_folders(home: Path) -> int:
    """Folders of updates that are no more, and what pipelines' code has left beside them. How many went."""
    updates, gone = ForeignFolder(home / "updates"), 0
    try:
        names = updates.names()
    except FileNotFoundError:
        return 0
    known: set[str] = set()
    for first in range(0, len(names), AT_ONCE):
        some = [name for name in names[first : first + AT_ONCE] if name.isascii()]  # as all ids are
        known.update(Update.objects.filter(id__in=some).values_list("id", flat=True))
    for name in sorted(set(names) - known):
        try:
            updates.remove(name)
            gone += 1
        except OSError as error:
            LOG.warning("%r among the folders of updates cannot be removed: %s", name, error.strerror)
    return gone


class Pruner(threading.Thread):
    """Forgets what is old, each hour, until asked to end."""

    def __init__(self, home: Path, keep: KeepingRule) -> None:
        super().__init__(name="pruner", daemon=True)
        self.home, self.keep = home, keep
        self.ending = threading.Event()

    def run(self) -> None:
        wait = FIRST_SECONDS
        while not self.ending.wait(wait):
            wait = SECONDS
            try:
                done = prune_updates(self.home, self.keep)
                if done != ForgottenUpdates():
                    LOG.info(
                        "Forgot %s updates, %s events and %s folders", done.updates, done.events, done.folders
                    )
            except Exception:
                LOG.exception("Old updates could not be forgotten; tried again in an hour")
            finally:
                connections.close_all()
