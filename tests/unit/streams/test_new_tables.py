"""A file table that passed rows over is left behind together with its checkpoint: the stream is well again."""

import os
import re
import shutil
import uuid
from datetime import UTC, datetime
from pathlib import Path

import pytest

from recovery.models import Flow, Stream
from recovery.people.roles import Role
from recovery.pipelines.inventory import refresh
from tests.checkpoint_builder import Built, put, sink_log
from tests.unit.eventlogs import logs
from tests.unit.people.run import run_json, token_of

pytestmark = pytest.mark.django_db
BEFORE = datetime(2026, 11, 20, tzinfo=UTC).timestamp()
"""Before any run of the logs."""


@pytest.mark.parametrize(
    ("is_moved", "state", "condition"),
    [(True, "ok", ""), (False, "failed", "SINK_PASSED_OVER")],
    ids=["table and checkpoint", "the checkpoint alone"],
)
def test_a_stream_with_a_new_table_is_well_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_moved: bool, state: str, condition: str
) -> None:
    root, table, events = (tmp_path / "data" / name for name in ("orders/_checkpoint", "table", "events"))
    events.mkdir(parents=True)
    _begin_again(root)
    _write_table(table, BEFORE)
    _write_run(events / "local-1", table, logs.QUERY, logs.RUN)
    more = ("--event-log", str(events), "--sink", str(table))
    run_json(monkeypatch, token_of("rita", Role.RESPONDER), "adopt", str(root), *more)
    Stream.objects.update(adopted_at=datetime.fromtimestamp(BEFORE, UTC))
    assert Flow.objects.get().state == "failed"

    if is_moved:
        shutil.rmtree(table)
        _write_table(table, datetime.now(UTC).timestamp())
    shutil.rmtree(root)
    query = str(uuid.uuid4())
    Built(root, query_id=query).write()
    _write_run(events / "local-2", table, query, str(uuid.uuid4()))
    pipeline = Stream.objects.get().pipeline
    refresh(workspace_id=pipeline.workspace_id, only=pipeline.pipeline_id)
    flow = Flow.objects.get()
    assert (flow.state, flow.condition or "") == (state, condition)


def _begin_again(root: Path) -> None:
    """A checkpoint whose batches were planned an hour after those that the table has of their numbers."""
    built = Built(root, query_id=logs.QUERY).write()
    for offsets in (built.root / "offsets").glob("[0-9]*"):
        later = re.sub(
            r'"batchTimestampMs":(\d+)',
            lambda at: f'"batchTimestampMs":{int(at[1]) + 3_600_000}',
            offsets.read_text(),
        )
        put(offsets, later)


def _write_table(table: Path, written: float) -> None:
    sink_log(table, 2)
    for entry in (table / "_spark_metadata").iterdir():
        os.utime(entry, (written, written))


def _write_run(log: Path, table: Path, query: str, run: str) -> None:
    told = [
        *logs.started(log.name),
        logs.query_started(query, run),
        *(logs.progress(batch, query=query, run=run) for batch in range(3)),
        logs.terminated(None, query=query, run=run),
        logs.ended(),
    ]
    log.write_bytes(b"".join(told).replace(b"file:/out", f"file:{table}".encode()))
