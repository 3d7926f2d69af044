"""A program that fails before its query begins leaves an event log without the query: it is seen all the same."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from recovery.eventlogs.seen import NamedLog, list_early_logs
from recovery.eventlogs.times import moment_of
from recovery.models import EventLog, StreamStart
from recovery.pipelines import events as api_events
from recovery.streams.client import StreamsClient
from tests.checkpoint_builder import Built
from tests.unit.eventlogs import logs
from tests.unit.streams.running_streams import OTHERS, adopted, write_log

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_home")]

RUN_ENDED = (logs.progress(2), logs.terminated(None), logs.ended())
STARTED_MS = 1_795_379_460_000
"""When the query of `logs` began."""
OURS, THEIRS = logs.QUERY, OTHERS


def write_application(folder: Path, name: str, *lines: bytes, at: int, called: str = "orders") -> None:
    begun = [line.replace(b'"orders"', f'"{called}"'.encode()) for line in logs.started(name, at=at)]
    (folder / name).write_bytes(b"".join([*begun, *lines]))


def states_of(client: StreamsClient, pipeline_id: str) -> list[str]:
    return [update["state"] for update in client.list_updates(pipeline_id)]


CASES: dict[str, tuple[dict[str, Any], tuple[bytes, ...], list[str]]] = {
    "ended before its query": (
        {"at": STARTED_MS + 600_000}, (logs.ended(STARTED_MS + 630_000),), ["FAILED", "COMPLETED"],
    ),
    "ended before the run": ({"at": STARTED_MS - 600_000}, (logs.ended(STARTED_MS - 590_000),), ["COMPLETED"]),
    "still going": ({"at": STARTED_MS + 600_000}, (), ["COMPLETED"]),
    "another application": (
        {"at": STARTED_MS + 600_000, "called": "maintenance"}, (logs.ended(STARTED_MS + 630_000),), ["COMPLETED"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("is_poll", [False, True], ids=["asked", "polled"])
def test_an_application_that_ended_before_its_query_began_is_a_failed_run(
    case: str, is_poll: bool, checkpoint: Built, tmp_path: Path
) -> None:
    said, lines, states = CASES[case]
    folder = Path(write_log(tmp_path / "data" / "logs", *RUN_ENDED))
    write_application(folder, "local-2", *lines, **said)
    stream, client = adopted(checkpoint, event_log=str(folder))
    key = stream.pipeline.pipeline_id
    if is_poll:
        client.list_pipelines()
    assert states_of(client, key) == states
    told = list(client.events(key))
    assert api_events.was_unseen(told) is False
    failed = [c.class_name for e in told if e["event_type"] == "flow_progress" for c in api_events.causes(e)]
    assert failed == [api_events.QUERY_NOT_BEGUN] * states.count("FAILED")


def write_second_run(folder: Path, *lines: bytes, after_ms: int = 900_000) -> None:
    at = moment_of(STARTED_MS + after_ms).isoformat()
    begun = {**json.loads(logs.query_started(run=OTHERS)), "timestamp": at}
    ends = [logs.line({**json.loads(line), "timestamp": at}) for line in lines]
    (folder / "local-3").write_bytes(b"".join([*logs.started("local-3"), logs.line(begun), *ends]))


def test_a_failure_before_the_query_stays_in_the_history_of_the_stream(
    checkpoint: Built, tmp_path: Path
) -> None:
    """What is told once is not taken back: what was counted up to it would be counted again."""
    folder = Path(write_log(tmp_path / "data" / "logs", *RUN_ENDED))
    write_application(folder, "local-2", logs.ended(STARTED_MS + 630_000), at=STARTED_MS + 600_000)
    stream, client = adopted(checkpoint, event_log=str(folder))
    before = client.list_updates(stream.pipeline.pipeline_id)
    write_second_run(folder, logs.terminated(None, run=OTHERS), logs.ended(STARTED_MS + 990_000))
    after = client.list_updates(stream.pipeline.pipeline_id)
    assert [u["state"] for u in after] == ["COMPLETED", "FAILED", "COMPLETED"]
    assert after[1:] == before


@pytest.mark.parametrize(
    ("is_silent", "states"), [(False, ["RUNNING", "COMPLETED"]), (True, ["FAILED", "SILENT", "COMPLETED"])]
)
def test_beside_a_run_that_goes_on_an_early_end_is_no_news(
    is_silent: bool, states: list[str], checkpoint: Built, tmp_path: Path
) -> None:
    folder = Path(write_log(tmp_path / "data" / "logs", *RUN_ENDED))
    write_second_run(folder)
    (folder / "local-3").rename(folder / "local-3.inprogress")
    if is_silent:
        os.utime(folder / "local-3.inprogress", (1_000, 1_000))
    write_application(folder, "local-4", logs.ended(STARTED_MS + 990_000), at=STARTED_MS + 960_000)
    stream, client = adopted(checkpoint, event_log=str(folder))
    assert states_of(client, stream.pipeline.pipeline_id) == states


def test_an_application_of_before_the_first_run_may_be_of_any_program(
    checkpoint: Built, tmp_path: Path
) -> None:
    folder = Path(write_log(tmp_path / "data" / "logs", *RUN_ENDED))
    write_application(folder, "local-0", logs.ended(STARTED_MS - 5_000), at=STARTED_MS - 9_000)
    stream, client = adopted(checkpoint, event_log=str(folder))
    assert states_of(client, stream.pipeline.pipeline_id) == ["COMPLETED"]


def test_what_came_of_a_start_is_told_by_the_start_alone(checkpoint: Built, tmp_path: Path) -> None:
    folder = Path(write_log(tmp_path / "data" / "logs", *RUN_ENDED))
    write_application(folder, "local-2", logs.ended(STARTED_MS + 630_000), at=STARTED_MS + 600_000)
    stream, client = adopted(checkpoint, event_log=str(folder))
    begin, end = (moment_of(STARTED_MS + ms) for ms in (595_000, 640_000))
    StreamStart.objects.create(
        stream=stream, update_id="start-1", asked_at=begin, ended="FAILED", failure="no", ended_at=end
    )
    updates = client.list_updates(stream.pipeline.pipeline_id)
    assert [(u["update_id"], u["state"]) for u in updates] == [
        ("start-1", "FAILED"),
        (logs.RUN, "COMPLETED"),
    ]


@pytest.mark.parametrize(
    ("named", "early"),
    [
        ([{OURS}, set()], [1]),
        ([{OURS, THEIRS}, {THEIRS}, set()], [1, 2]),
        ([{OURS}, {THEIRS}, set()], []),
        ([set(), set()], []),
        ([{OURS}, {OURS}], []),
    ],
    ids=["alone", "two queries of one program", "a name of two programs", "never ours", "always ours"],
)
def test_a_name_that_other_streams_have_too_tells_of_none(named: list[set[str]], early: list[int]) -> None:
    found = [NamedLog(pk, frozenset(queries)) for pk, queries in enumerate(named)]
    assert list_early_logs(found, [OURS]) == early


@pytest.mark.parametrize("name", ["PySparkShell", "pyspark-shell"])
def test_a_name_that_every_shell_has_tells_of_none(name: str, checkpoint: Built, tmp_path: Path) -> None:
    folder = Path(write_log(tmp_path / "data" / "logs", *RUN_ENDED))
    whole = (folder / "local-1").read_bytes().replace(b'"App Name":"orders"', f'"App Name":"{name}"'.encode())
    (folder / "local-1").write_bytes(whole)
    write_application(folder, "local-2", logs.ended(STARTED_MS + 1), at=STARTED_MS + 1, called=name)
    stream, client = adopted(checkpoint, event_log=str(folder))
    assert states_of(client, stream.pipeline.pipeline_id) == ["COMPLETED"]
    assert set(EventLog.objects.values_list("application", flat=True)) == {name}
