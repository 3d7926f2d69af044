"""A file table that passed rows over is left behind together with its checkpoint: the stream is well again."""

import os
import re
import shutil
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from recovery.checkpoints.findings import BY_CODE
from recovery.checkpoints.sinklog import began_after
from recovery.checkpoints.storage import Store
from recovery.models import Flow, Stream
from recovery.people.roles import Role
from recovery.pipelines.inventory import refresh
from recovery.workflow.diagnosing import diagnose_flow
from tests.checkpoint_builder import STARTED_MS, Built, put, sink_log
from tests.delta_tables import add, commit, metadata
from tests.unit.eventlogs import logs
from tests.unit.people.run import run_json, token_of

pytestmark = pytest.mark.django_db
BEFORE = datetime(2026, 11, 20, tzinfo=UTC).timestamp()
"""Before any run of the logs."""


@dataclass(frozen=True)
class Place:
    """Where the stream is: its checkpoint, its table, and its event logs."""

    checkpoint: Path
    table: Path
    events: Path

    def adopt(self, monkeypatch: pytest.MonkeyPatch, *, kind: str = "FileSink", ends: bool = True) -> None:
        """After one run of three batches."""
        if not self.checkpoint.exists():
            Built(self.checkpoint, query_id=logs.QUERY).write()
        _write_run(self.events / "local-1", self.table, logs.QUERY, logs.RUN, kind=kind, ends=ends)
        more = ("--event-log", str(self.events), "--sink", str(self.table))
        run_json(monkeypatch, token_of("rita", Role.RESPONDER), "adopt", str(self.checkpoint), *more)

    def start_again(self, batches: int, *, kind: str = "FileSink", ends: bool = True, hours: int = 0) -> Flow:
        """With a new checkpoint, so long after the first run; the flow as the next poll sees it."""
        shutil.rmtree(self.checkpoint)
        query = str(uuid.uuid4())
        Built(self.checkpoint, query_id=query).write()
        run_id = str(uuid.uuid4())
        log = self.events / "local-2"
        _write_run(log, self.table, query, run_id, batches, kind=kind, ends=ends, hours=hours)
        pipeline = Stream.objects.get().pipeline
        refresh(workspace_id=pipeline.workspace_id, only=pipeline.pipeline_id)
        return Flow.objects.get()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    found = Place(*(tmp_path / "data" / name for name in ("orders/_checkpoint", "table", "events")))
    found.events.mkdir(parents=True)
    return found


@pytest.mark.parametrize("batches", [3, 30], ids=["few batches", "more than are kept"])
@pytest.mark.parametrize(
    ("is_moved", "state", "condition"),
    [(True, "ok", ""), (False, "failed", "SINK_PASSED_OVER")],
    ids=["table and checkpoint", "the checkpoint alone"],
)
def test_a_stream_with_a_new_table_is_well_again(
    monkeypatch: pytest.MonkeyPatch, place: Place, is_moved: bool, state: str, condition: str, batches: int
) -> None:
    _begin_again(place.checkpoint)
    _write_table(place.table, BEFORE)
    place.adopt(monkeypatch)
    Stream.objects.update(adopted_at=datetime.fromtimestamp(BEFORE, UTC))
    assert Flow.objects.get().state == "failed"
    assert diagnose_flow(Flow.objects.get()).advice[0].says == BY_CODE["SINK_SWALLOWED"].do

    if is_moved:
        shutil.rmtree(place.table)
        now = datetime.now(UTC).timestamp()
        _write_table(place.table, now, batches, planned_ms=int(now * 1000))
    flow = place.start_again(batches)
    assert (flow.state, flow.condition or "") == (state, condition)


@pytest.mark.parametrize("kind", ["DeltaSink", "ForeachBatchSink"])
@pytest.mark.parametrize(
    ("made_ms", "doubt"),
    [(int(BEFORE * 1000), "read-again"), (int(datetime.now(UTC).timestamp() * 1000), "")],
    ids=["the checkpoint alone", "table and checkpoint"],
)
@pytest.mark.parametrize(
    ("ends", "batches", "state"), [(True, 3, "ok"), (True, 40, "ok"), (False, 3, "running")]
)
def test_a_stream_whose_checkpoint_was_removed_is_in_doubt_unless_its_delta_table_is_new(
    monkeypatch: pytest.MonkeyPatch,
    place: Place,
    kind: str,
    made_ms: int,
    doubt: str,
    ends: bool,
    batches: int,
    state: str,
) -> None:
    commit(place.table, 0, metadata(), add("part-0.parquet"), at_ms=made_ms)
    place.adopt(monkeypatch, kind=kind)
    flow = place.start_again(batches, kind=kind, ends=ends)
    assert (flow.state, flow.table_doubt) == (state, doubt)


@pytest.mark.parametrize(
    ("written", "doubt"),
    [
        ("2026-11-20T00:00:00", "read-again"),
        ("2026-11-22T21:00:00", "read-again"),
        ("2026-11-22T22:31:05", ""),
        (None, "read-again"),
    ],
    ids=[
        "before the first run",
        "between the runs, as by a compaction",
        "by the run itself",
        "no file is there",
    ],
)
@pytest.mark.parametrize("folder", ["", "day=1/hour=2"])
def test_a_table_without_a_log_is_new_only_where_the_run_wrote_every_file_of_it(
    monkeypatch: pytest.MonkeyPatch, place: Place, written: str | None, doubt: str, folder: str
) -> None:
    place.table.mkdir()
    place.adopt(monkeypatch, kind="ForeachBatchSink")
    if written is not None:
        file = place.table / folder / "part-0.parquet"
        put(file, "rows")
        at = datetime.fromisoformat(f"{written}+00:00").timestamp()
        os.utime(file, (at, at))
    assert place.start_again(3, kind="ForeachBatchSink", hours=2).table_doubt == doubt


def test_the_table_of_a_run_that_was_killed_is_not_new(monkeypatch: pytest.MonkeyPatch, place: Place) -> None:
    """Its log names no end, and its first batch has made the table."""
    made = datetime(2026, 11, 22, 20, 31, 0, 500_000, tzinfo=UTC)
    commit(place.table, 0, metadata(), add("part-0.parquet"), at_ms=int(made.timestamp() * 1000))
    place.adopt(monkeypatch, kind="DeltaSink", ends=False)
    assert place.start_again(3, kind="DeltaSink", ends=False).table_doubt == "read-again"


def test_a_delta_log_that_cannot_be_read_ends_no_poll(monkeypatch: pytest.MonkeyPatch, place: Place) -> None:
    commit(place.table, 0, metadata(), add("part-0.parquet"), at_ms=int(BEFORE * 1000))
    place.adopt(monkeypatch, kind="DeltaSink")
    (place.table / "_delta_log" / f"{0:020}.json").write_text("{")
    assert place.start_again(3, kind="DeltaSink").table_doubt == "read-again"


@pytest.mark.parametrize("batches", [3, 40], ids=["few batches", "more than are kept"])
def test_a_file_table_beside_a_new_checkpoint_has_passed_its_first_batches_over(
    monkeypatch: pytest.MonkeyPatch, place: Place, batches: int
) -> None:
    _write_table(place.table, BEFORE)
    place.adopt(monkeypatch)
    assert Flow.objects.get().state == "ok"
    flow = place.start_again(batches)
    assert (flow.state, flow.condition) == ("failed", "SINK_PASSED_OVER")


@pytest.mark.parametrize(("moment", "began"), [(STARTED_MS - 1, True), (STARTED_MS, False)])
def test_a_log_whose_first_entry_was_compacted_away_began_with_its_oldest_file(
    tmp_path: Path, moment: int, began: bool
) -> None:
    sink_log(tmp_path, 29, kept_from=29)
    assert began_after(Store.open(str(tmp_path)), moment) is began


@pytest.mark.parametrize(("moment", "began"), [(STARTED_MS - 1, True), (STARTED_MS, False)])
def test_a_log_that_was_copied_since_began_with_the_files_of_its_first_batch(
    tmp_path: Path, moment: int, began: bool
) -> None:
    sink_log(tmp_path, 2)
    later = STARTED_MS / 1000 + 3600
    for entry in (tmp_path / "_spark_metadata").iterdir():
        os.utime(entry, (later, later))
    assert began_after(Store.open(str(tmp_path)), moment) is began


def test_a_log_whose_first_batch_wrote_no_file_began_with_its_oldest_file(tmp_path: Path) -> None:
    sink_log(tmp_path, 2)
    put(tmp_path / "_spark_metadata" / "0", "v1")
    first_ms = STARTED_MS + 1
    assert [began_after(Store.open(str(tmp_path)), m) for m in (first_ms - 1, first_ms)] == [True, False]


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


def _write_table(table: Path, written: float, batches: int = 3, *, planned_ms: int = STARTED_MS) -> None:
    """Of entries that were compacted only the compacted ones are there. `planned_ms`: of its first batch."""
    sink_log(table, batches - 1, kept_from=batches // 10 * 10)
    for entry in (table / "_spark_metadata").glob("[0-9]*"):
        later = re.sub(
            r'(?<="modificationTime":)\d+',
            lambda at: str(int(at[0]) - STARTED_MS + planned_ms),
            entry.read_text(),
        )
        put(entry, later)
        os.utime(entry, (written, written))


def _write_run(
    log: Path,
    table: Path,
    query: str,
    run: str,
    batches: int = 3,
    *,
    kind: str = "FileSink",
    ends: bool = True,
    hours: int = 0,
) -> None:
    told = [
        *logs.started(log.name),
        logs.query_started(query, run),
        *(logs.progress(batch, query=query, run=run) for batch in range(batches)),
        *([logs.terminated(None, query=query, run=run), logs.ended()] if ends else []),
    ]
    named = (kind if kind == "ForeachBatchSink" else f"{kind}[{table}]").encode()
    file = log if ends else log.with_name(f"{log.name}.inprogress")
    text = b"".join(told).replace(b"FileSink[file:/out]", named)
    file.write_bytes(text.replace(b"2026-11-22T20", f"2026-11-22T{20 + hours}".encode()))
