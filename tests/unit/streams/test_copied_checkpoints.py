"""A checkpoint that was copied has the query id of its original: each run is of the stream whose folder it names."""

import shutil
from pathlib import Path

import pytest

from recovery.models import Stream
from recovery.streams.actions import StreamDetails
from recovery.streams.client import StreamsClient
from recovery.streams.preview import preview_stream
from recovery.streams.signs import SignCode, sign_from
from tests.checkpoint_builder import Built
from tests.unit.eventlogs import logs
from tests.unit.streams.running_streams import ADMIN, adopted, write_log

pytestmark = pytest.mark.django_db
OTHER_RUN = "0d9d2f6e-8a3b-4a55-9c1c-5f0b7c2f9a02"
FAILURE = "org.apache.spark.SparkException: Task failed"


def list_states(client: StreamsClient, stream: Stream) -> list[str]:
    return [update["state"] for update in client.list_updates(stream.pipeline.pipeline_id)]


def list_signs(client: StreamsClient, stream: Stream) -> list[SignCode]:
    client.list_pipelines()
    stream.refresh_from_db()
    return [sign_from(sign).code for sign in stream.signs]


@pytest.fixture
def copy(checkpoint: Built, tmp_path: Path) -> Built:
    return Built(shutil.copytree(checkpoint.root, tmp_path / "data" / "copy"), query_id=logs.QUERY)


@pytest.fixture
def events(checkpoint: Built, tmp_path: Path) -> str:
    """The log of a run of the original that failed."""
    plan = logs.batch_plan(place=f"file:{checkpoint.root}")
    return write_log(tmp_path / "events", plan, logs.terminated(FAILURE), logs.ended())


def test_a_copy_takes_no_run_from_its_original(checkpoint: Built, copy: Built, events: str) -> None:
    original, client = adopted(checkpoint, event_log=events)
    copied, _ = adopted(copy, event_log=events, name="copy")
    assert list_states(client, original) == ["FAILED"]
    assert list_states(client, copied) == []
    assert list_signs(client, original) == list_signs(client, copied) == []


def test_a_copy_whose_original_is_not_adopted_is_in_doubt_and_keeps_the_run(copy: Built, events: str) -> None:
    """The folder of the log may be the same one, as the program's own machine names it."""
    copied, client = adopted(copy, event_log=events)
    assert list_states(client, copied) == ["FAILED"]
    assert list_signs(client, copied) == [SignCode.ANOTHER_CHECKPOINT]


def test_a_link_to_the_folder_is_the_folder(checkpoint: Built, events: str, tmp_path: Path) -> None:
    link = tmp_path / "data" / "link"
    link.symlink_to(checkpoint.root)
    stream, client = adopted(Built(link, query_id=logs.QUERY), event_log=events)
    assert list_states(client, stream) == ["FAILED"]
    assert list_signs(client, stream) == []


def batch_into(table: Path, checkpoint: Path, run: str = logs.RUN) -> list[bytes]:
    """A run that names its checkpoint, and the table that its batch wrote."""
    batch = logs.progress(1, run=run).replace(b"file:/out", f"file:{table}".encode())
    plan = logs.batch_plan(run, f"file:{checkpoint}")
    return [logs.query_started(run=run), plan, batch, logs.terminated(None, run=run)]


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "data" / "table", tmp_path / "data" / "table of the copy"


def test_a_copy_does_not_get_the_table_of_its_original(
    checkpoint: Built, copy: Built, tables: tuple[Path, Path], tmp_path: Path
) -> None:
    events = write_log(tmp_path / "events", *batch_into(tables[0], checkpoint.root), logs.ended())
    seen = preview_stream(checkpoint=str(copy.root), said=StreamDetails(event_log=events), by=ADMIN)
    copied, _ = adopted(copy, event_log=events)
    assert (copied.sink, seen.sink.sink.place) == ("", "")


def test_an_original_keeps_its_table_where_its_copy_has_run_since(
    checkpoint: Built, copy: Built, tables: tuple[Path, Path], tmp_path: Path
) -> None:
    own, others = batch_into(tables[0], checkpoint.root), batch_into(tables[1], copy.root, OTHER_RUN)
    events = write_log(tmp_path / "events", *own, *others, logs.ended())
    seen = preview_stream(checkpoint=str(checkpoint.root), said=StreamDetails(event_log=events), by=ADMIN)
    original, _ = adopted(checkpoint, event_log=events)
    assert (original.sink, seen.sink.sink.place) == (str(tables[0]), str(tables[0]))


@pytest.mark.parametrize(
    "sink",
    [b"KafkaTable[orders]", b"ForeachBatchSink", b"FileSink[file:/data/`x`]"],
    ids=["topic", "function", "name"],
)
def test_a_stream_that_wrote_a_table_before_does_not_keep_it(
    checkpoint: Built, tables: tuple[Path, Path], tmp_path: Path, sink: bytes
) -> None:
    before = batch_into(tables[0], checkpoint.root)
    now = [line.replace(f"FileSink[file:{tables[1]}]".encode(), sink) for line in batch_into(
        tables[1], checkpoint.root, OTHER_RUN
    )]  # fmt: skip
    assert any(sink in line for line in now)
    events = write_log(tmp_path / "events", *before, *now, logs.ended())
    seen = preview_stream(checkpoint=str(checkpoint.root), said=StreamDetails(event_log=events), by=ADMIN)
    stream, _ = adopted(checkpoint, event_log=events)
    assert (stream.sink, seen.sink.sink.place) == ("", "")


def test_a_stream_whose_newest_run_had_no_batch_keeps_its_table(
    checkpoint: Built, tables: tuple[Path, Path], tmp_path: Path
) -> None:
    begun = [logs.query_started(run=OTHER_RUN), logs.terminated(FAILURE, run=OTHER_RUN)]
    events = write_log(tmp_path / "events", *batch_into(tables[0], checkpoint.root), *begun, logs.ended())
    stream, _ = adopted(checkpoint, event_log=events)
    assert stream.sink == str(tables[0])
