"""Commands start, stop and ask for a stream; what they did is told as the Pipelines API tells it."""

import ast
import base64
import json
import os
import shlex
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from recovery.errors import NotFound, Refused, Unreachable
from recovery.eventlogs.values import ANSI, TIME_ZONE
from recovery.models import Plan, Recovery, Stream, StreamStart
from recovery.people.roles import SYSTEM, Actor, Role
from recovery.pipelines.client import StandstillProof
from recovery.pipelines.errors import ActiveUpdate
from recovery.pipelines.workspaces import client_for
from recovery.server import jail
from recovery.server.jail import Protection
from recovery.streams import client as streams_client
from recovery.streams import commands
from recovery.streams.actions import StreamDetails, adopt_stream
from recovery.streams.client import StreamsClient
from tests.checkpoint_builder import Built
from tests.stack import wait_for
from tests.unit.eventlogs import logs

pytestmark = pytest.mark.django_db
ADMIN = Actor("ada", Role.ADMIN)


@pytest.fixture(autouse=True)
def home(settings: Any, tmp_path: Path) -> None:
    settings.REPRISE_HOME = tmp_path / "home"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Built:
    return Built(tmp_path / "data" / "orders", query_id=logs.QUERY).write()


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


def test_a_start_command_runs_apart_and_what_it_printed_is_kept_without_our_secrets(
    checkpoint: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRISE_SECRET", "not for you")
    code = "import os; print(sorted(k for k in os.environ if 'REPRISE' in k)); raise SystemExit(3)"
    stream, client = adopted(checkpoint, start=python(code), running=python("raise SystemExit(1)"))
    name = client.start_update(stream.pipeline.pipeline_id)
    state = wait_for(
        lambda: (u := client.get_update(stream.pipeline.pipeline_id, name))["state"] == "FAILED" and u,
        "the start command ended",
    )
    assert (state["cause"], state["update_id"]) == ("API_CALL", name)
    start = StreamStart.objects.get(update_id=name)
    assert (start.ended, start.batch_before, start.query_id) == ("FAILED", 2, logs.QUERY)
    told = commands.launched(start.folder)
    assert (told.exit_code, told.output.strip()) == (3, "[]")
    found = list(
        client.events(stream.pipeline.pipeline_id, filter=f"update_id = '{name}'", order_by="timestamp asc")
    )
    assert found[0]["event_type"] == "create_update"
    assert found[-1]["details"]["update_progress"]["state"] == "FAILED"


REACHES = """
import os, pathlib, sys
home, data, worker = sys.argv[1:]
def tried(act):
    try:
        return bool(act())
    except OSError:
        return False
print({
    "secret": tried(lambda: pathlib.Path(home, "secret").read_text()),
    "past the mount": tried(lambda: pathlib.Path(f"/proc/{worker}/root{home}/secret").read_text()),
    "environment": tried(lambda: pathlib.Path(f"/proc/{worker}/environ").read_bytes()),
    "storage": tried(lambda: pathlib.Path(home, "storage", "x").write_text("x")),
    "data": tried(lambda: pathlib.Path(data, "x").write_text("x")),
})
"""


def test_a_command_reaches_data_and_nothing_of_the_console(checkpoint: Built, settings: Any) -> None:
    home = settings.REPRISE_HOME
    (home / "storage").mkdir(parents=True)
    (home / "secret").write_text("of the audit log")
    reaches = [sys.executable, "-c", REACHES, str(home), str(checkpoint.root.parent), str(os.getpid())]
    assert ast.literal_eval(commands.stop(reaches)) == {
        "secret": False, "past the mount": False, "environment": False, "storage": True, "data": True,
    }  # fmt: skip


OBEYED = {
    "its code": lambda root, home: root / "recovery" / "breaker.py",
    "a module that it would import": lambda root, home: root / "celery.py",
    "Python's own modules": lambda root, home: Path(os.__file__),
    "a login that runs a program": lambda root, home: home / ".aws" / "config",
}


@pytest.mark.parametrize("place", OBEYED)
def test_a_command_does_not_change_what_the_console_itself_obeys(
    place: str, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "person" / ".aws").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    path = OBEYED[place](settings.ROOT, tmp_path / "person")
    with pytest.raises(commands.CommandFailed, match="Read-only"):
        commands.stop([sys.executable, "-c", f"open({str(path)!r}, 'ab')"])


def test_a_command_does_not_rename_what_the_home_is_in(settings: Any, tmp_path: Path) -> None:
    settings.REPRISE_HOME = tmp_path / "above" / "home"
    with pytest.raises(commands.CommandFailed, match="busy"):
        commands.stop(["mv", str(tmp_path / "above"), str(tmp_path / "elsewhere")])
    assert (tmp_path / "above" / "home").is_dir()


def test_a_link_of_somebody_else_hides_nothing_from_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "reprise-1-x").symlink_to("/usr")
    monkeypatch.setattr(jail, "TEMPORARY", tmp_path)
    assert commands.stop(["true"]) == ""


def test_of_endless_output_the_end_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(commands.stop(["head", "-c", "1000000", "/dev/zero"])) <= commands.launch.KEPT
    monkeypatch.setattr(commands, "STOP_SECONDS", 1.0)
    with pytest.raises(Unreachable) as refusal:
        commands.stop(["yes"])
    assert refusal.value.code == "command_late"


def test_what_a_start_command_leaves_running_goes_on_until_the_stop_command_ends_it(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    sleeper = (
        f"import subprocess; p = subprocess.Popen(['sleep', '60']); open({str(pid)!r}, 'w').write(str(p.pid))"
    )
    folder = commands.begin([sys.executable, "-c", sleeper])
    assert wait_for(lambda: commands.launched(folder).exit_code == 0 and pid.read_text(), "it was started")
    running = ["kill", "-0", pid.read_text()]
    assert commands.is_running(running)
    commands.stop(["kill", "-9", pid.read_text()])
    assert wait_for(lambda: not commands.is_running(running), "it was stopped")


def test_a_place_that_cannot_be_made_is_no_answer_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "hold_command", lambda words, **_: ["false"])
    with pytest.raises(Unreachable) as refusal:
        commands.is_running(["true"])
    assert refusal.value.code == "no_command"


@pytest.mark.parametrize(
    ("demand", "protection", "refused"),
    [
        ("required", Protection(None, 7), True),
        ("container", Protection(None, 7), False),
        ("container", Protection(None, 0), True),
        ("optional", Protection(None, 0), False),
    ],
)
def test_a_command_runs_only_where_it_is_held_as_the_operator_demands(
    demand: str, protection: Protection, refused: bool, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.REPRISE_CONFINEMENT = demand
    for module in (commands, jail):
        monkeypatch.setattr(module, "measure_protection", lambda: protection)
    if not refused:
        assert json.loads(base64.b64decode(commands.confine(["true"])[-1])) == ["true"]
        return
    with pytest.raises(Refused) as refusal:
        commands.confine(["true"])
    assert refusal.value.code == "no_confinement"


def test_a_stream_that_runs_is_not_started_and_its_stop_is_the_command(
    checkpoint: Built, tmp_path: Path
) -> None:
    flag = tmp_path / "runs"
    flag.touch()
    running = python(f"import os; raise SystemExit(not os.path.exists({str(flag)!r}))")
    stop = python(f"import os; os.remove({str(flag)!r})")
    stream, client = adopted(checkpoint, start=python(""), running=running, stop=stop)
    key = stream.pipeline.pipeline_id
    assert client.get_pipeline(key)["state"] == "RUNNING"
    with pytest.raises(ActiveUpdate):
        client.start_update(key)
    assert not StreamStart.objects.exists()
    client.stop(key)
    answer = client.get_pipeline(key)
    assert (answer["state"], [u["state"] for u in answer["latest_updates"]]) == ("IDLE", [])


def write_log(folder: Path, *lines: bytes, name: str = "local-1") -> str:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"".join([*logs.started(), logs.query_started(), *lines]))
    return str(folder)


def test_what_proves_a_standstill_is_named_and_silence_is_no_end(checkpoint: Built, tmp_path: Path) -> None:
    asleep = {"start": python(""), "running": python("raise SystemExit(1)")}
    ended = write_log(tmp_path / "data" / "ended", logs.terminated("it failed"), logs.ended())
    silent = write_log(tmp_path / "data" / "silent", name="local-1.inprogress")
    os.utime(tmp_path / "data" / "silent" / "local-1.inprogress", (1_000, 1_000))
    for said, proof in (
        ({"event_log": silent}, StandstillProof.NO_SIGN_OF_LIFE),
        ({"event_log": ended}, StandstillProof.LOG_ENDED),
        (asleep, StandstillProof.RUNNING_COMMAND),
    ):
        stream, client = adopted(checkpoint, **said)
        assert client.prove_standstill(stream.pipeline.pipeline_id) is proof


@pytest.mark.parametrize(
    ("grew", "proof"),
    [
        (timedelta(seconds=1), None),
        (streams_client.GROWING - timedelta(seconds=8), None),
        (streams_client.GROWING + timedelta(seconds=8), StandstillProof.RUNNING_COMMAND_ALONE),
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


@pytest.mark.parametrize("said", ["/nowhere/at/all", python("import time; time.sleep(60)")])
def test_whether_it_runs_is_not_known_where_its_command_does_not_say(
    checkpoint: Built, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "LOOK_SECONDS", 1.0)
    stream, client = adopted(checkpoint, start=python(""), running=said)
    with pytest.raises(Unreachable):
        client.get_pipeline(stream.pipeline.pipeline_id)


def test_a_stop_command_that_fails_says_so(checkpoint: Built) -> None:
    stream, client = adopted(
        checkpoint, start=python(""), running=python(""), stop=python("raise SystemExit('no such job')")
    )
    with pytest.raises(commands.CommandFailed, match="no such job"):
        client.stop(stream.pipeline.pipeline_id)


def test_a_run_of_the_event_log_belongs_to_the_start_that_it_came_of(
    checkpoint: Built, tmp_path: Path
) -> None:
    events = tmp_path / "data" / "events"
    events.mkdir()
    stream, client = adopted(
        checkpoint, start=python(""), running=python("raise SystemExit(1)"), event_log=str(events)
    )
    key = stream.pipeline.pipeline_id
    name = client.start_update(key)
    now = StreamStart.objects.get().asked_at.isoformat()
    told = json.loads(logs.query_started())
    line = logs.line({**told, "timestamp": now})
    ended = logs.line({**json.loads(logs.terminated(None)), "timestamp": now.replace("2026", "2099")})
    (events / "local-1").write_bytes(b"".join([*logs.started(), line, logs.progress(3), ended, logs.ended()]))
    assert wait_for(lambda: client.get_update(key, name)["state"] == "COMPLETED", "its run ended")
    assert [u["update_id"] for u in client.list_updates(key)] == [name]
    batches = [e for e in client.events(key) if e["event_type"] == "stream_progress"]
    assert [e["origin"]["update_id"] for e in batches] == [name]


def test_only_files_of_adopted_programs_are_read_and_written(checkpoint: Built, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "program"
    folder.mkdir()
    for name, text in (
        ("main.py", "import helper"),
        ("helper.py", ""),
        ("other.py", ""),
        ("secret.txt", "x"),
    ):
        (folder / name).write_text(text)
    _, client = adopted(checkpoint, program=str(folder / "main.py"))
    listed = client.list_dir(str(folder))
    assert [Path(o["path"]).name for o in listed] == ["main.py", "helper.py"]
    assert client.export(str(folder / "main.py")) == b"import helper"
    client.import_file(str(folder / "main.py"), b"import helper\n")
    assert (folder / "main.py").read_text() == "import helper\n"
    for path in (folder / "secret.txt", checkpoint.root / "metadata", folder / ".." / "x.py"):
        with pytest.raises(NotFound):
            client.export(str(path))


def test_the_console_s_own_programs_are_not_patched_whoever_adopts_them(
    checkpoint: Built, settings: Any
) -> None:
    program = settings.ROOT / "recovery" / "breaker.py"
    before = program.read_bytes()
    _, client = adopted(checkpoint, program=str(program))
    with pytest.raises(Refused) as refused:
        client.import_file(str(program), b"import os\n")
    assert refused.value.code == "own_code"
    assert program.read_bytes() == before


def test_a_program_in_the_root_folder_opens_no_other_file(checkpoint: Built, tmp_path: Path) -> None:
    stream, client = adopted(checkpoint)
    Stream.objects.filter(pk=stream.pk).update(program="/x.py")
    with pytest.raises(NotFound):
        client.export(str(tmp_path / "y.py"))


def test_a_plain_stream_has_no_settings_to_change(checkpoint: Built) -> None:
    stream, client = adopted(checkpoint)
    with pytest.raises(Refused):
        client.edit_pipeline(stream.pipeline.pipeline_id, {})
    assert SYSTEM.role is Role.SYSTEM


def half_swap(checkpoint: Built) -> None:
    """A recovery died between its two renames."""
    room, name = checkpoint.root.parent, checkpoint.root.name
    record = {"recovery": "R-7", "name": name, "batch": 2, "to_version": None, "query_id": "x", "fence": 1}
    (room / ".reprise-R-7.undo.json").write_text(json.dumps(record))
    checkpoint.root.rename(room / ".reprise-R-7-before")


@pytest.mark.parametrize(
    "become", [half_swap, lambda built: built.root.rename(built.root.parent / "elsewhere")]
)
def test_a_stream_whose_checkpoint_is_gone_is_not_started_from_nothing(
    checkpoint: Built, become: Any
) -> None:
    stream, client = adopted(checkpoint, start=python(""), running=python("raise SystemExit(1)"))
    become(checkpoint)
    with pytest.raises(Refused) as refusal:
        client.start_update(stream.pipeline.pipeline_id)
    assert refusal.value.code == "no_checkpoint"
    assert ("R-7" in refusal.value.sentence) == (become is half_swap)
    assert not StreamStart.objects.exists()


def test_a_swap_that_is_half_done_is_said_to_who_adopts_its_checkpoint(checkpoint: Built) -> None:
    half_swap(checkpoint)
    with pytest.raises(Refused) as refusal:
        adopted(checkpoint)
    assert refusal.value.code == "half_swapped"


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
    ("jvm", "zone"), [("Asia/Tokyo", "Asia/Tokyo"), ("Etc/UTC", None), ("no; zone", "no; zone"), ("", None)]
)
def test_the_settings_of_a_stream_name_the_time_zone_of_its_newest_run_where_it_is_not_utc(
    checkpoint: Built, tmp_path: Path, jvm: str, zone: str | None
) -> None:
    folder = tmp_path / "data" / "zoned"
    folder.mkdir(parents=True)
    lines = [*logs.started(system={"user.timezone": jvm}), logs.query_started(), logs.progress(1)]
    (folder / "local-1.inprogress").write_bytes(b"".join(lines))
    stream, client = adopted(checkpoint, event_log=str(folder))
    spec = client.get_pipeline(stream.pipeline.pipeline_id)["spec"]
    assert spec["configuration"].get(TIME_ZONE) == zone


def test_the_settings_of_a_stream_follow_its_newest_run_whatever_its_start_command_says(
    checkpoint: Built, tmp_path: Path
) -> None:
    folder = tmp_path / "data" / "ansi"
    folder.mkdir(parents=True)
    start = f"{python('')} --conf {ANSI}=false --conf spark.shop.least=5"
    stream, client = adopted(checkpoint, start=start, running=RUNS, event_log=str(folder))
    key = stream.pipeline.pipeline_id

    def told() -> dict[str, str]:
        return {
            k: v
            for k, v in client.get_pipeline(key)["spec"]["configuration"].items()
            if k.startswith("spark.")
        }

    assert told() == {"spark.shop.least": "5", ANSI: "false"}
    parser = "spark.sql.legacy.timeParserPolicy"
    ran = [*logs.started("local-1", settings={ANSI: "true"}), logs.query_started()]
    (folder / "local-1").write_bytes(b"".join([*ran, logs.batch_plan(set_later={parser: "LEGACY"})]))
    assert told() == {"spark.shop.least": "5", parser: "LEGACY"}
    later = {**json.loads(logs.query_started(run=OTHERS)), "timestamp": "2026-11-22T23:00:00.000Z"}
    failed = [
        *logs.started("local-2", settings={ANSI: "false"}),
        logs.line(later),
        logs.terminated("x", run=OTHERS),
    ]
    (folder / "local-2").write_bytes(b"".join(failed))
    assert told() == {"spark.shop.least": "5", parser: "LEGACY", ANSI: "false"}


def test_a_program_is_looked_for_by_its_command_line_without_finding_the_look(tmp_path: Path) -> None:
    """What confines a command has its words on a command line of its own."""
    assert commands.is_running(["pgrep", "-f", f"{tmp_path}/orders.py"]) is False


def test_looks_that_come_at_once_do_not_find_each_other(tmp_path: Path) -> None:
    words = ["pgrep", "-f", f"{tmp_path}/orders.py"]
    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(commands.is_running, [words] * 24)) == {False}


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


@pytest.mark.parametrize(
    ("case", "is_look"),
    [
        ("left running by this plan", True),
        ("its log tells of the same run", True),
        ("its log tells of another run", False),
        ("that run has ended", False),
        ("left by a plan before", False),
        ("left by a recovery that ended", False),
    ],
)
def test_only_what_this_plan_left_running_is_looked_at_instead_of_started(
    case: str, is_look: bool, checkpoint: Built, tmp_path: Path
) -> None:
    lines = {
        "its log tells of the same run": [begun_run()],
        "its log tells of another run": [begun_run(), begun_run(OTHERS)],
        "that run has ended": [begun_run(), logs.terminated(None)],
    }.get(case, [])
    folder = tmp_path / "data" / "events"
    folder.mkdir()
    (folder / "local-1.inprogress").write_bytes(b"".join([*logs.started(), *lines]))
    stream, client = adopted(checkpoint, start=RUNS, running=RUNS, event_log=str(folder))
    if case == "left by a recovery that ended":
        planned(stream, active=False, state="succeeded")
    else:
        recovery = planned(stream)
    left_running(stream, logs.RUN if lines else "")
    if case == "left by a plan before":
        Plan.objects.create(recovery=recovery, hash=uuid.uuid4().hex, body={}, sealed_by="ada")
    if is_look:
        name = client.start_update(stream.pipeline.pipeline_id)
        assert StreamStart.objects.get(update_id=name).is_look
        return
    with pytest.raises(ActiveUpdate):
        client.start_update(stream.pipeline.pipeline_id)
    assert StreamStart.objects.count() == 1


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
