"""Adopted streams with commands, event logs and starts, for tests of what runs."""

import json
import shlex
import sys
import uuid
from pathlib import Path
from typing import Any

from django.utils import timezone

from recovery.models import Plan, Recovery, Stream, StreamStart
from recovery.people.roles import Actor, Role
from recovery.pipelines.workspaces import client_for
from recovery.streams.actions import StreamDetails, adopt_stream
from recovery.streams.client import StreamsClient
from tests.checkpoint_builder import Built
from tests.unit.eventlogs import logs

ADMIN = Actor("ada", Role.ADMIN)


def python(code: str) -> str:
    return shlex.join([sys.executable, "-c", code])


ASLEEP = python("raise SystemExit(1)")


def adopted(checkpoint: Built, **said: Any) -> tuple[Stream, StreamsClient]:
    stream = adopt_stream(
        checkpoint=str(checkpoint.root), said=StreamDetails(environment="development", **said), by=ADMIN
    )
    client = client_for(stream.pipeline.workspace)
    assert isinstance(client, StreamsClient)
    return stream, client


def write_log(folder: Path, *lines: bytes, name: str = "local-1") -> str:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"".join([*logs.started(), logs.query_started(), *lines]))
    return str(folder)


RUNS = python("")


OTHERS = "22222222-2222-2222-2222-222222222222"


def begun_run(run: str = logs.RUN) -> bytes:
    told = json.loads(logs.query_started(run=run))
    return logs.line({**told, "timestamp": timezone.now().isoformat()})


def planned(stream: Stream, **values: Any) -> Recovery:
    """A recovery of this stream that carries out a plan."""
    recovery = Recovery.objects.create(flow=stream.pipeline.flows.get(), created_by="ada", **values)
    Plan.objects.create(recovery=recovery, hash=uuid.uuid4().hex, body={}, sealed_by="ada")
    return recovery


def left_running(stream: Stream, run_id: str = "") -> None:
    StreamStart.objects.create(
        stream=stream,
        update_id="start-1",
        asked_at=timezone.now(),
        ended="COMPLETED",
        ended_at=timezone.now(),
        run_id=run_id,
    )
