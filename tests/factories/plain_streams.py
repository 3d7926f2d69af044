"""A plain stream as it lies on disk: its checkpoint, and the event log of its last run, which failed."""

from pathlib import Path

from tests.checkpoint_builder import Built
from tests.unit.eventlogs import logs


def write_checkpoint(folder: Path) -> str:
    """Its place; the query id is the one of `write_event_log`."""
    return str(Built(folder / "data" / "orders" / "_checkpoint", query_id=logs.QUERY).write().root)


def write_event_log(folder: Path) -> str:
    """The folder of the log."""
    events = folder / "data" / "events"
    events.mkdir(parents=True)
    lines = [
        *logs.started(), logs.query_started(), logs.progress(0), logs.terminated(logs.FAILURE), logs.ended(),
    ]  # fmt: skip
    (events / "local-1").write_bytes(b"".join(lines))
    return str(events)
