"""What proves that a stream stands still, and what becomes of a run that a recovery left going."""

import itertools
import json
import os
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from recovery.errors import Refused
from recovery.eventlogs.times import moment_of
from recovery.models import EventLog, Stream, StreamStart
from recovery.pipelines.inventory import refresh
from recovery.pipelines.standstill import StandstillProof
from recovery.streams import commands, tailing, updates
from recovery.streams.running import RunningStatus, keep_answer
from tests.checkpoint_builder import Built
from tests.stack import wait_for
from tests.unit.eventlogs import logs
from tests.unit.streams.running_streams import (
    ASLEEP,
    OTHERS,
    RUNS,
    adopted,
    begun_run,
    left_running,
    python,
    write_log,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_home")]


def test_what_proves_a_standstill_is_named_and_silence_is_no_end(checkpoint: Built, tmp_path: Path) -> None:
    asleep = {"start": python(""), "running": python("raise SystemExit(1)")}
    ended = write_log(tmp_path / "data" / "ended", logs.terminated("it failed"), logs.ended())
    silent = write_log(tmp_path / "data" / "silent", name="local-1.inprogress")
    os.utime(tmp_path / "data" / "silent" / "local-1.inprogress", (1_000, 1_000))
    for said, proof in (
        ({"event_log": silent}, StandstillProof.NO_SIGN_OF_LIFE),
        ({"event_log": ended}, StandstillProof.LOG_ENDED),
        (asleep, StandstillProof.RUNNING_COMMAND),
        ({"running": ASLEEP}, StandstillProof.RUNNING_COMMAND),
    ):
        stream, client = adopted(checkpoint, **said)
        assert client.prove_standstill(stream.pipeline.pipeline_id) is proof


def test_what_a_command_answered_minutes_ago_proves_no_standstill(checkpoint: Built) -> None:
    """A person stops and starts it, and an admin named how to ask: it is asked now."""
    stream, client = adopted(checkpoint, running=RUNS)
    keep_answer(stream, RunningStatus.NOT_RUNNING)
    with pytest.raises(Refused) as refusal:
        client.prove_standstill(stream.pipeline.pipeline_id)
    assert refusal.value.code == "still_active"


def test_of_two_runs_without_an_end_the_newest_is_the_one_that_runs(
    checkpoint: Built, tmp_path: Path
) -> None:
    folder = Path(write_log(tmp_path / "data" / "two", name="local-1.inprogress"))
    os.utime(folder / "local-1.inprogress", (1_000, 1_000))
    (folder / "local-2.inprogress").write_bytes(b"".join([*logs.started("local-2"), begun_run(OTHERS)]))
    stream, client = adopted(checkpoint, event_log=str(folder), start=RUNS, running=RUNS)
    listed = client.list_updates(stream.pipeline.pipeline_id)
    assert [(u["update_id"], u["state"]) for u in listed] == [(OTHERS, "RUNNING"), (logs.RUN, "CANCELED")]


def test_a_run_that_was_killed_leaves_its_flow_as_the_next_run_does(
    checkpoint: Built, tmp_path: Path
) -> None:
    """No command tells whether it runs; its log has no end, and will never have one."""
    folder = Path(write_log(tmp_path / "data" / "two", logs.progress(1), name="local-1.inprogress"))
    os.utime(folder / "local-1.inprogress", (1_000, 1_000))
    stream, _ = adopted(checkpoint, event_log=str(folder))
    refresh(workspace_id=stream.pipeline.workspace_id)
    assert stream.pipeline.flows.get().state == "unknown"
    end = json.loads(logs.terminated(None)) | {"runId": OTHERS}
    lines = [*logs.started("local-2"), begun_run(OTHERS), logs.line(end), logs.ended()]
    (folder / "local-2").write_bytes(b"".join(lines))
    refresh(workspace_id=stream.pipeline.workspace_id)
    flow = stream.pipeline.flows.get()
    assert (flow.state, flow.condition) == ("ok", "")


@pytest.mark.parametrize(("is_older", "state"), [(True, "WAITING_FOR_RESOURCES"), (False, "FAILED")])
def test_what_a_command_answered_before_a_start_does_not_end_it(
    is_older: bool, state: str, checkpoint: Built
) -> None:
    stream, client = adopted(checkpoint, start=python(""), running=ASLEEP)
    asked = timezone.now() - timedelta(minutes=2, seconds=30)
    folder = commands.prepare_start([sys.executable, "-c", ""])
    commands.launch_start(folder)
    wait_for(lambda: commands.read_start(folder).exit_code == 0, "the start command ended")
    start = StreamStart.objects.create(
        stream=stream, update_id="start-1", asked_at=asked, folder=folder, batch_before=2, query_id=logs.QUERY
    )
    keep_answer(stream, RunningStatus.NOT_RUNNING)
    if is_older:
        Stream.objects.update(running_asked_at=asked - timedelta(seconds=1))
    client.list_pipelines()
    assert client.get_update(stream.pipeline.pipeline_id, start.update_id)["state"] == state


def test_a_log_that_takes_several_looks_to_read_does_not_seem_to_grow(
    checkpoint: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver is dead, and its log is long."""
    log = write_log(tmp_path / "data" / "long", *map(logs.progress, range(9)), name="local-1.inprogress")
    os.utime(tmp_path / "data" / "long" / "local-1.inprogress", (1_000, 1_000))
    stream, client = adopted(checkpoint, event_log=log, start=python(""), running=ASLEEP)
    EventLog.objects.all().delete()
    monkeypatch.setattr(tailing, "AT_ONCE", 3)
    clock = itertools.count()
    monkeypatch.setattr(tailing.time, "monotonic", lambda: next(clock) / 2)
    looks = 0
    while not tailing.catch_up(log, seconds=2.0):
        looks += 1
        assert EventLog.objects.get().moved_at == moment_of(1_000_000)
    monkeypatch.undo()
    assert looks > 1
    assert client.prove_standstill(stream.pipeline.pipeline_id) is StandstillProof.RUNNING_COMMAND_ALONE


@pytest.mark.parametrize(
    ("grew", "proof"),
    [
        (timedelta(seconds=1), None),
        (updates.GROWING - timedelta(seconds=8), None),
        (updates.GROWING + timedelta(seconds=8), StandstillProof.RUNNING_COMMAND_ALONE),
        (timedelta(hours=1), StandstillProof.RUNNING_COMMAND_ALONE),
    ],
)
def test_a_running_command_that_reports_no_run_is_not_believed_while_the_event_log_grows(
    grew: timedelta, proof: StandstillProof | None, checkpoint: Built, tmp_path: Path
) -> None:
    """A stale pid file, or the wrong name: a reset beside a driver that lives has two writers."""
    log = write_log(tmp_path / "data" / "open", name="local-1.inprogress")
    at = (timezone.now() - grew).timestamp()
    os.utime(tmp_path / "data" / "open" / "local-1.inprogress", (at, at))
    stream, client = adopted(checkpoint, event_log=log, start=python(""), running=ASLEEP, stop=python(""))
    key = stream.pipeline.pipeline_id
    answer = client.get_pipeline(key)
    if proof is not None:
        assert (answer["state"], client.prove_standstill(key), client.asks_to_stop(key)) == (
            "IDLE",
            proof,
            "",
        )
        return
    assert (answer["state"], answer["latest_updates"][0]["state"]) == ("RUNNING", "RUNNING")
    assert client.asks_to_stop(key)
    with pytest.raises(Refused) as refusal:
        client.prove_standstill(key)
    assert refusal.value.code == "log_still_grows"


@pytest.mark.parametrize(
    ("said", "code"),
    [({}, "standstill_unknown"), ({"start": python(""), "running": python("")}, "still_active")],
)
def test_a_stream_of_which_nothing_tells_that_it_stands_still_is_not_reset(
    checkpoint: Built, said: dict[str, str], code: str
) -> None:
    stream, client = adopted(checkpoint, **said)
    with pytest.raises(Refused) as refusal:
        client.prove_standstill(stream.pipeline.pipeline_id)
    assert refusal.value.code == code


def test_an_older_run_that_still_writes_its_log_is_no_standstill(checkpoint: Built, tmp_path: Path) -> None:
    """Two programs use one checkpoint: the newest run has ended, and another application goes on."""
    folder = tmp_path / "data" / "two"
    write_log(folder, logs.terminated("it failed"), logs.ended(), name="local-2")
    older = {**json.loads(logs.query_started()), "runId": "11111111-1111-1111-1111-111111111111"}
    older |= {"timestamp": "2026-01-01T00:00:00.000Z"}
    batch = json.loads(logs.progress(3))
    batch["progress"] |= {"runId": older["runId"], "timestamp": timezone.now().isoformat()}
    lines = [*logs.started("local-9"), logs.line(older), logs.line(batch)]
    (folder / "local-9.inprogress").write_bytes(b"".join(lines))
    stream, client = adopted(checkpoint, event_log=str(folder))
    with pytest.raises(Refused) as refusal:
        client.prove_standstill(stream.pipeline.pipeline_id)
    assert refusal.value.code == "still_active"


@pytest.mark.parametrize(
    ("became", "runs", "state"),
    [
        ("it goes on", RUNS, "RUNNING"),
        ("it failed", ASLEEP, "FAILED"),
        ("its driver was killed", ASLEEP, "CANCELED"),
        ("it was ended", ASLEEP, "COMPLETED"),
        ("its session was stopped by then", ASLEEP, "COMPLETED"),
        ("its session was stopped later", ASLEEP, "CANCELED"),
    ],
)
@pytest.mark.parametrize("is_looked_at", [False, True])
def test_what_a_recovery_left_running_is_followed_to_its_end(
    is_looked_at: bool, became: str, runs: str, state: str, checkpoint: Built, tmp_path: Path
) -> None:
    """The start counts as completed once the run goes on and has caught up; what becomes of it then is a run's."""
    before = datetime.fromisoformat("2026-11-22T20:30:00+00:00")  # the run began a minute later
    ends = {
        "it failed": [logs.terminated("it failed"), logs.ended()],
        "it was ended": [logs.terminated(None), logs.ended()],
        "its session was stopped by then": [logs.ended(int(before.timestamp() * 1000))],
        "its session was stopped later": [logs.ended(int((before + timedelta(hours=1)).timestamp() * 1000))],
    }
    log = write_log(tmp_path / "data" / "open", *ends.get(became, []), name="local-1.inprogress")
    os.utime(tmp_path / "data" / "open" / "local-1.inprogress", (1_000, 1_000))
    stream, client = adopted(checkpoint, event_log=log, start=RUNS, running=runs)
    left_running(stream, logs.RUN)
    StreamStart.objects.update(asked_at=before, ended_at=before + timedelta(minutes=2))
    if is_looked_at:  # the run of a plan that must add nothing, of a stream that goes on
        StreamStart.objects.create(
            stream=stream, update_id="start-2", is_look=True, ended="COMPLETED",
            asked_at=before + timedelta(minutes=3), ended_at=before + timedelta(minutes=4),
        )  # fmt: skip
    newest = client.list_updates(stream.pipeline.pipeline_id)[0]
    assert newest["state"] == state


@pytest.mark.parametrize("batch_after", [2, None])
@pytest.mark.parametrize(
    ("end", "state"),
    [((), "RUNNING"), ((logs.terminated(None), logs.ended()), "COMPLETED"), ((logs.ended(),), "CANCELED")],
    ids=["it runs", "it was ended", "its session was stopped"],
)
def test_batches_after_a_recovery_are_those_of_the_run_that_it_left(
    batch_after: int | None, end: tuple[bytes, ...], state: str, checkpoint: Built, tmp_path: Path
) -> None:
    """Each batch is of one update: what is counted twice began again, and what is not counted hides that."""
    name = "local-1" if end else "local-1.inprogress"
    log = write_log(tmp_path / "data" / "left", *(logs.progress(n) for n in range(2, 5)), *end, name=name)
    stream, client = adopted(checkpoint, event_log=log, start=RUNS, running=ASLEEP if end else RUNS)
    left_running(stream, logs.RUN)
    ended_at = datetime.fromisoformat(
        "2026-11-22T20:31:02.500000+00:00"
    )  # batch n began n seconds after the minute
    asked_at = ended_at - timedelta(seconds=30)
    StreamStart.objects.update(asked_at=asked_at, ended_at=ended_at, batch_before=1, batch_after=batch_after)
    key = stream.pipeline.pipeline_id
    newest, start = client.list_updates(key)[:2]
    numbers = {
        update["update_id"]: [
            json.loads(json.dumps(event["details"]["stream_progress"]["progress_json"]))["batchId"]
            for event in client.events(key, filter=f"update_id = '{update['update_id']}'")
            if event["event_type"] == "stream_progress"
        ]
        for update in (newest, start)
    }
    assert (newest["update_id"], newest["state"], start["update_id"]) == (logs.RUN, state, "start-1")
    assert sorted(numbers[logs.RUN]) == [3, 4]
    if batch_after is not None:
        assert numbers["start-1"] == [2]


def test_what_an_earlier_recovery_left_running_is_no_news_after_the_next_one(
    checkpoint: Built, tmp_path: Path
) -> None:
    """It failed; the next recovery's run has ended well since."""
    log = write_log(tmp_path / "data" / "both", logs.terminated("it failed"), logs.ended())
    second = [*logs.started("local-2"), begun_run(OTHERS)]
    end = json.loads(logs.terminated(None))
    second.append(logs.line({**end, "runId": OTHERS, "timestamp": timezone.now().isoformat()}))
    (tmp_path / "data" / "both" / "local-2").write_bytes(b"".join([*second, logs.ended()]))
    stream, client = adopted(checkpoint, event_log=log, start=RUNS, running=ASLEEP)
    before = datetime.fromisoformat("2026-11-22T20:30:00+00:00")
    left_running(stream, logs.RUN)
    StreamStart.objects.update(asked_at=before, ended_at=before + timedelta(minutes=2))
    StreamStart.objects.create(
        stream=stream, update_id="start-2", run_id=OTHERS, ended="COMPLETED",
        asked_at=timezone.now() - timedelta(minutes=1), ended_at=timezone.now(),
    )  # fmt: skip
    listed = client.list_updates(stream.pipeline.pipeline_id)
    assert [update["state"] for update in listed] == ["COMPLETED", "FAILED", "COMPLETED"]


def test_a_log_that_does_not_tell_all_proves_no_standstill(
    checkpoint: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody ran it with another log; its log is corrupt; or there is more than could be read."""
    data = tmp_path / "data"
    elsewhere = write_log(data / "elsewhere", logs.progress(0), logs.terminated(None), logs.ended())
    corrupt = data / "corrupt"
    corrupt.mkdir()
    lines = [*logs.started(), logs.query_started(), logs.progress(2), logs.terminated(None)]
    (corrupt / "local-1.zstd.inprogress").write_bytes(logs.zstd(lines) + b"no frame")
    well = write_log(data / "well", logs.progress(1), logs.terminated(None), logs.ended())
    for folder, is_whole in ((elsewhere, True), (str(corrupt), True), (well, False)):
        stream, client = adopted(checkpoint, event_log=folder)
        with monkeypatch.context() as patch:
            if not is_whole:
                patch.setattr("recovery.streams.tailing.catch_up", lambda *_, **__: False)
            with pytest.raises(Refused) as refusal:
                client.prove_standstill(stream.pipeline.pipeline_id)
        assert refusal.value.code == "standstill_unknown"
    assert client.prove_standstill(stream.pipeline.pipeline_id) is StandstillProof.LOG_ENDED
