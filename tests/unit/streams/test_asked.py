"""The running commands of adopted streams are asked by a worker, at a bounded rate; what they said has an age."""

import shlex
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from recovery.models import Flow, Stream
from recovery.people.roles import Actor, Role
from recovery.pipelines.inventory import refresh
from recovery.pipelines.workspaces import client_for
from recovery.streams import commands, noting, running
from recovery.streams.actions import StreamDetails, adopt_stream
from recovery.streams.describing import running_json
from recovery.streams.running import RunningStatus
from tests.checkpoint_builder import Built
from tests.factories.plain_streams import write_event_log
from tests.unit.eventlogs import logs

pytestmark = pytest.mark.django_db
ADMIN = Actor("ada", Role.ADMIN)
YES, NO, LATE = "", "raise SystemExit(1)", "import time; time.sleep(60)"


@pytest.fixture(autouse=True)
def home(settings: Any, tmp_path: Path) -> None:
    settings.REPRISE_HOME = tmp_path / "home"


def adopted(tmp_path: Path, code: str, **said: Any) -> Stream:
    checkpoint = Built(tmp_path / "data" / "orders", query_id=logs.QUERY).write()
    command = shlex.join([sys.executable, "-c", code])
    words = StreamDetails(environment="development", start="true", running=command, **said)
    return adopt_stream(checkpoint=str(checkpoint.root), said=words, by=ADMIN)


def asked(stream: Stream) -> Flow:
    """The flow as a poll shows it after one round of questions."""
    running.ask_due(timezone.now())
    refresh(workspace_id=stream.pipeline.workspace_id)
    stream.refresh_from_db()
    return stream.pipeline.flows.get()


@pytest.mark.parametrize(
    ("code", "answer", "state"),
    [
        (YES, RunningStatus.RUNNING, "running"),
        (NO, RunningStatus.NOT_RUNNING, "stopped"),
        (LATE, RunningStatus.UNKNOWN, "unknown"),
    ],
)
def test_a_stream_without_an_event_log_has_the_state_that_its_command_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, answer: RunningStatus, state: str
) -> None:
    monkeypatch.setattr(commands, "LOOK_SECONDS", 2.0)
    stream = adopted(tmp_path, code)
    assert (stream.pipeline.flows.get().state, running.answer_of(stream).answer) == (
        "unknown",
        RunningStatus.NOT_ASKED,
    )
    flow = asked(stream)
    assert (flow.state, running.answer_of(stream).answer) == (state, answer)
    told = running_json(stream)
    assert told is not None
    assert (told["answer"], told["says"] is None) == (str(answer), answer is not RunningStatus.UNKNOWN)
    assert [sign["code"] for sign in stream.signs] == ["running_unknown"] * (answer is RunningStatus.UNKNOWN)


def test_it_goes_from_running_to_not_running_and_back(tmp_path: Path) -> None:
    flag = tmp_path / "runs"
    stream = adopted(tmp_path, f"import os; raise SystemExit(not os.path.exists({str(flag)!r}))")
    for there in (True, False, True):
        flag.touch() if there else flag.unlink()
        Stream.objects.update(running_asked_at=None)
        assert asked(stream).state == ("running" if there else "stopped")


def test_a_failure_of_its_event_log_is_seen_once_its_command_no_longer_says_that_it_runs(
    tmp_path: Path,
) -> None:
    flag = tmp_path / "runs"
    flag.touch()
    log = write_event_log(tmp_path)
    stream = adopted(
        tmp_path, f"import os; raise SystemExit(not os.path.exists({str(flag)!r}))", event_log=log
    )
    assert asked(stream).state == "running"
    flag.unlink()
    Stream.objects.update(running_asked_at=None)
    assert asked(stream).state == "failed"


def test_it_is_asked_no_more_often_than_its_rate_and_so_many_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, now = adopted(tmp_path, YES), timezone.now()
    assert [running.ask_due(now), running.ask_due(now)] == [1, 0]
    assert running.ask_due(timezone.now() + running.EVERY + timedelta(seconds=1)) == 1
    monkeypatch.setattr(running, "MOST", 0)
    assert running.ask_due(timezone.now() + running.EVERY * 3) == 0
    assert Stream.objects.get(pk=stream.pk).running_asked_at is not None


def test_an_old_answer_tells_nothing_of_now(tmp_path: Path) -> None:
    stream = adopted(tmp_path, YES)
    assert asked(stream).state == "running"
    old = timezone.now() - running.GOOD_FOR - timedelta(seconds=1)
    Stream.objects.update(running_asked_at=old)
    refresh(workspace_id=stream.pipeline.workspace_id)
    assert stream.pipeline.flows.get().state == "unknown"
    assert noting.noted_answer(Stream.objects.get(pk=stream.pk), (), timezone.now()) is None


def test_a_page_runs_no_command_and_shows_what_was_answered(tmp_path: Path) -> None:
    mark = tmp_path / "asked"
    stream = adopted(tmp_path, f"open({str(mark)!r}, 'a').write('x')")
    running.ask_due(timezone.now())
    assert mark.read_text() == "x"
    client = client_for(stream.pipeline.workspace)
    with running.never_run():
        assert client.get_pipeline(stream.pipeline.pipeline_id)["state"] == "RUNNING"
    assert mark.read_text() == "x"
    assert client.get_pipeline(stream.pipeline.pipeline_id)["state"] == "RUNNING"
    assert mark.read_text() == "xx"


def test_an_answer_for_words_that_were_changed_meanwhile_is_not_kept(tmp_path: Path) -> None:
    stream = adopted(tmp_path, YES)
    Stream.objects.update(running=["false"])
    running.keep_answer(stream, RunningStatus.RUNNING)
    assert Stream.objects.get(pk=stream.pk).running_answer == ""
