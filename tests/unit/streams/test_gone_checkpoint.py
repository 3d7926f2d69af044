"""A plain stream whose checkpoint somebody removed is not *ok* until it is there again."""

import shutil
from pathlib import Path

import pytest

from recovery.models import Flow, Recovery, Stream
from recovery.people.roles import Role
from recovery.pipelines.inventory import refresh
from tests.checkpoint_builder import Built
from tests.unit.eventlogs import logs
from tests.unit.people.run import run_json, token_of
from tests.unit.streams.running_streams import adopted, write_log

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_home")]
WELL, GONE = ("ok", ""), ("unknown", "CHECKPOINT_GONE")


@pytest.fixture
def stream(checkpoint: Built, tmp_path: Path) -> Stream:
    """One that ran once, and ended well."""
    log = write_log(tmp_path / "data" / "logs", logs.progress(1), logs.terminated(None), logs.ended())
    made, _ = adopted(checkpoint, event_log=log)
    assert seen(made) == WELL
    return made


def seen(stream: Stream) -> tuple[str, str]:
    refresh(workspace_id=stream.pipeline.workspace_id)
    flow = Flow.objects.get()
    return flow.state, flow.condition


def test_a_checkpoint_that_was_removed_is_seen_before_the_next_run(
    stream: Stream, checkpoint: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aside = tmp_path / "data" / "aside"
    shutil.move(checkpoint.root, aside)
    assert (seen(stream), seen(stream)) == (GONE, GONE)
    token = token_of("vera", Role.VIEWER)
    code, answer = run_json(monkeypatch, token, "diagnose", stream.pipeline.pipeline_id)
    assert (code, answer["diagnosis"]["condition"]) == (1, "CHECKPOINT_GONE")
    shutil.move(aside, checkpoint.root)
    assert seen(stream) == WELL


def test_a_checkpoint_that_lost_a_file_is_not_gone(stream: Stream, checkpoint: Built) -> None:
    (checkpoint.root / "metadata").unlink()
    assert seen(stream) == WELL


def test_a_checkpoint_is_not_missed_while_a_recovery_may_make_another_one(
    stream: Stream, checkpoint: Built
) -> None:
    Recovery.objects.create(flow=Flow.objects.get(), created_by="ann", owner="ann")
    shutil.rmtree(checkpoint.root)
    assert seen(stream) == WELL
