"""Commands start, stop and ask for a stream; what they did is told as the Pipelines API tells it."""

import ast
import base64
import json
import os
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from recovery.errors import NotFound, OutcomeUnknown, Refused, Unreachable
from recovery.eventlogs.values import ANSI, TIME_ZONE
from recovery.models import Plan, Stream, StreamStart
from recovery.people.roles import SYSTEM, Role
from recovery.pipelines.errors import ActiveUpdate
from recovery.server import jail
from recovery.server.jail import Protection
from recovery.streams import commands
from recovery.streams.client import LOST
from tests.checkpoint_builder import Built
from tests.stack import wait_for
from tests.unit.eventlogs import logs
from tests.unit.streams.running_streams import (
    OTHERS,
    RUNS,
    adopted,
    begun_run,
    left_running,
    planned,
    python,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_home")]


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
    told = commands.read_start(start.folder)
    assert (told.exit_code, told.output.strip()) == (3, "[]")
    found = list(
        client.events(stream.pipeline.pipeline_id, filter=f"update_id = '{name}'", order_by="timestamp asc")
    )
    assert found[0]["event_type"] == "create_update"
    assert found[-1]["details"]["update_progress"]["state"] == "FAILED"


def test_a_start_whose_outcome_is_unknown_is_not_said_to_have_failed(
    checkpoint: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launcher did not answer in time: the program may run."""
    stream, client = adopted(checkpoint, start=python(""), running=python("raise SystemExit(1)"))
    key = stream.pipeline.pipeline_id

    def lose(_: str) -> None:
        raise OutcomeUnknown("No answer.", code="command_lost")

    monkeypatch.setattr(commands, "launch_start", lose)
    with pytest.raises(OutcomeUnknown):
        client.start_update(key)
    start = StreamStart.objects.get()
    StreamStart.objects.update(asked_at=start.asked_at - 2 * LOST)
    for is_waiting, state in ((False, "WAITING_FOR_RESOURCES"), (True, "FAILED")):
        command = Path(start.folder, commands.COMMAND_FILE)
        command.touch() if is_waiting else command.unlink(missing_ok=True)
        assert client.get_update(key, start.update_id)["state"] == state


def test_a_start_that_is_refused_leaves_no_start(checkpoint: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    stream, client = adopted(checkpoint, start=python(""), running=python("raise SystemExit(1)"))

    def refuse(_: object) -> str:
        raise Refused("No place.", code="no_confinement")

    monkeypatch.setattr(commands, "prepare_start", refuse)
    for _ in range(2):
        with pytest.raises(Refused) as refusal:
            client.start_update(stream.pipeline.pipeline_id)
        assert refusal.value.code == "no_confinement"
    assert not StreamStart.objects.exists()


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
    folder = commands.prepare_start([sys.executable, "-c", sleeper])
    assert commands.read_start(folder).is_waiting
    commands.launch_start(folder)
    assert wait_for(lambda: commands.read_start(folder).exit_code == 0 and pid.read_text(), "it was started")
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
