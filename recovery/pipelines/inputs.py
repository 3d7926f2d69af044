"""What is known of a flow's sources without running its code: noted where the code was studied, looked at by a task.

A reader's options may hold passwords, so they are encrypted (recovery/encryption.py); no sentence here holds one.
"""

import json
import logging
import traceback
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from recovery import encryption
from recovery.audit import cleansing
from recovery.contracts.readers import SourceReader
from recovery.errors import Refused
from recovery.models import Flow, FlowInput
from recovery.models.listed import hold_pipelines
from recovery.sources import registry

log = logging.getLogger(__name__)

PURPOSE: Final = "reader options"
KEPT: Final = ("format", "path", "options", "location", "table")
NOT_SEEN: Final[Mapping[str, Any]] = {
    "asked_at": None,
    "seen_at": None,
    "position": None,
    "label": "",
    "stands_since": None,
    "readable": None,
    "why": "",
    "until": None,
    "unread": {},
    "lost": {},
    "problem": "",
}


def note_sources(flow: Flow, readers: Sequence[SourceReader], *, table: str = "", code: str = "") -> None:
    """Keep where a flow reads from: its `readers`, in plan order. `table`: where its own table is. `code`: digest
    of the code that was studied (`fingerprints.digest_of_code`).

    Call it with the code that wrote the checkpoint. No readers are no news: the code could not be analysed.
    """
    if not readers:
        return
    now = timezone.now()
    with transaction.atomic():
        hold_pipelines([flow.pipeline_id])
        held = {row.index: row for row in FlowInput.objects.select_for_update().filter(flow=flow)}
        for index, reader in enumerate(readers):
            _note(flow, index, reader, table, held.get(index), now)
        FlowInput.objects.filter(flow=flow, index__gte=len(readers)).delete()
        Flow.objects.filter(pk=flow.pk).update(code_digest=code, code_seen_at=now, code_problem="")


def _note(
    flow: Flow, index: int, reader: SourceReader, table: str, row: FlowInput | None, now: datetime
) -> None:
    stored = {name: getattr(reader, name) for name in KEPT}
    new = SourceReader(**stored)
    values: dict[str, Any] = {"table": table[:1000], "noted_at": now}
    old = _read_kept(row) if row else None
    if row is None or old != new:
        values |= {
            "kind": registry.kind_of_format(new.format),
            "place": describe_place(new)[:500],
            "reader": encryption.encrypted(json.dumps(stored), PURPOSE),
            **NOT_SEEN,
        }
        if old is not None and _bootstrap_servers(old) != _bootstrap_servers(new):
            values |= {"topic_ids": {}, "other_ids": {}}  # ids of another cluster say nothing of this one
    FlowInput.objects.update_or_create(flow=flow, index=index, defaults=values)


def _read_kept(row: FlowInput) -> SourceReader | None:
    """None: it was encrypted under a key that no one has any more, or is none."""
    try:
        return read_reader(row)
    except (Refused, ValueError):
        return None


def read_reader(row: FlowInput) -> SourceReader:
    """The reader as the code has it, secrets included. Raises Refused under another key."""
    return SourceReader.from_stored(json.loads(encryption.decrypted(row.reader, PURPOSE)))


def _bootstrap_servers(reader: SourceReader) -> str:
    return reader.lower_options.get("kafka.bootstrap.servers", "")


def describe_place(reader: SourceReader) -> str:
    """Where a reader reads from, for people: topics and servers, a table, a path. Never a password."""
    options = reader.lower_options
    topics = next((options[n] for n in ("subscribe", "subscribepattern", "assign") if n in options), "")
    if topics:
        return cleansing.cleanse_text(f"{topics} at {_bootstrap_servers(reader) or 'unknown servers'}")
    return cleansing.cleanse_text(reader.path or reader.location or "unknown place")


def all_noted_ids(flow: Flow) -> dict[str, dict[str, str]]:
    """Ids that the Kafka topics of each source had when they were first seen: its index as text -> topic -> id.

    What `noted=` of every later look takes.
    """
    rows = FlowInput.objects.filter(flow=flow).only("index", "topic_ids")
    return {str(row.index): dict(row.topic_ids) for row in rows}


def fault(bug: Exception, what: str) -> str:
    """The sentence for a bug of ours. Its own words are not kept: they may hold a value of a reader's options."""
    where = "".join(traceback.format_tb(bug.__traceback__))
    log.error("A source could not be %s: %s\n%s", what, type(bug).__name__, where)
    return f"It could not be {what}, for a fault in Reprise ({type(bug).__name__})."
