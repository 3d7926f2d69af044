"""A person who starts and stops a stream is asked to, and a stream with commands asks no one."""

import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from recovery.models import Stream
from recovery.people.roles import Actor, Role
from recovery.pipelines import starters
from recovery.pipelines.workspaces import client_for
from recovery.streams.actions import StreamDetails, adopt_stream
from recovery.streams.client import START_NOW
from tests.checkpoint_builder import Built
from tests.unit.eventlogs import logs

pytestmark = pytest.mark.django_db
ADMIN = Actor("ada", Role.ADMIN)


@pytest.fixture(autouse=True)
def home(settings: Any, tmp_path: Path) -> None:
    settings.REPRISE_HOME = tmp_path / "home"
    settings.REPRISE_CONFINEMENT = "optional"


def adopted(tmp_path: Path, **commands: str) -> Stream:
    checkpoint = Built(tmp_path / "data" / "orders", query_id=logs.QUERY).write()
    said = StreamDetails(environment="development", **commands)
    return adopt_stream(checkpoint=str(checkpoint.root), said=said, by=ADMIN)


def command(code: str) -> str:
    return shlex.join([sys.executable, "-c", code])


@pytest.mark.parametrize(
    ("commands", "starts", "stops"),
    [
        ({}, True, True),
        ({"start": "", "running": "raise SystemExit(1)"}, False, True),
        ({"start": "", "running": "raise SystemExit(1)", "stop": ""}, False, False),
    ],
    ids=["by hand", "no stop command", "commands"],
)
def test_a_person_is_asked_for_what_no_command_does(
    tmp_path: Path, commands: dict[str, str], starts: bool, stops: bool
) -> None:
    stream = adopted(tmp_path, **{name: command(code) for name, code in commands.items()})
    client, key = client_for(stream.pipeline.workspace), stream.pipeline.pipeline_id
    asked = client.asks_of_people(key, client.start_update(key))
    assert asked.startswith(START_NOW) is starts
    assert bool(client.asks_to_stop(key)) is stops


def test_a_person_is_asked_for_the_batch_that_comes_next(tmp_path: Path) -> None:
    stream = adopted(tmp_path)
    client, key = client_for(stream.pipeline.workspace), stream.pipeline.pipeline_id
    asked = client.asks_of_people(key, client.start_update(key))
    before = stream.starts.get().batch_before
    assert before is not None
    assert f"batch {before + 1} " in asked
    assert stream.checkpoint in asked


def test_what_starts_a_stream_again_is_not_known_and_never_taken_for_nothing(tmp_path: Path) -> None:
    stream = adopted(tmp_path)
    found = starters.known(client_for(stream.pipeline.workspace), stream.pipeline.pipeline_id)
    assert (found.starters, found.awake) == ((), ())
    assert "restart policy" in found.why
