"""A pipeline's code plants links, pipes and folders where it may write; the server, outside of the jail, meets them."""

import os
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from recovery.errors import Unreachable
from recovery.server import driver, gateway
from recovery.server.auth import private_write
from recovery.server.confinement import PathAccess
from recovery.server.driver import Driver, SparkDead, folders_of_the_driver, prepare_folders, remove_old_logs
from recovery.server.eventlog import LogFollower, QueryEvent
from recovery.server.execution import remove_folder
from recovery.server.gateway import last_lines, wait_for_connection
from recovery.server.jail import machine_confinement
from recovery.server.sources import read_snapshot, take_snapshot
from recovery.server.workspace import WorkspaceFolder

STARTED = (
    b'{"Event":"org.apache.spark.sql.streaming.StreamingQueryListener$QueryStartedEvent","runId":"r","name":"f",'
    b'"jobTags":["SparkConnect_OperationTag_User_reprise_Session_s_Operation_o"]}\n'
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A console's home with one secret and the folder of an update."""
    place = tmp_path / "home"
    for name in ("updates/u", "eventlog", "spark", "workspace/p"):
        (place / name).mkdir(parents=True)
    (place / "audit.key").write_text("secret")
    (place / "workspace/p/a.py").write_text("# a definition\n")
    return place


def secret_of(home: Path) -> str:
    return (home / "audit.key").read_text()


def test_the_last_words_of_a_runner_are_never_another_file(home: Path) -> None:
    log = home / "updates/u/runner.log"
    log.symlink_to(home / "audit.key")
    assert last_lines(log) == ""

    (home / "updates/v").symlink_to(home / "updates/u")
    log.unlink()
    log.write_text("its own words\n")
    assert last_lines(log) == "its own words"
    assert last_lines(home / "updates/v/runner.log") == ""


def test_the_last_words_of_a_runner_are_the_end_of_a_log_of_any_size(home: Path) -> None:
    log = home / "updates/u/runner.log"
    with log.open("wb") as stream:
        stream.truncate(1 << 34)
        stream.seek(0, os.SEEK_END)
        stream.write(b"\nthe end\n")

    assert last_lines(log, 1) == "the end"


def test_a_pipe_in_the_place_of_a_log_keeps_nobody_waiting(home: Path) -> None:
    os.mkfifo(home / "updates/u/runner.log")

    assert last_lines(home / "updates/u/runner.log") == ""


def test_the_source_of_an_update_is_what_lies_in_its_folder_and_nothing_that_a_link_leads_to(
    home: Path,
) -> None:
    source = home / "updates/u/source"
    source.mkdir()
    (source / "a.py").write_text("pass")
    (source / "key.py").symlink_to(home / "audit.key")
    (source / "all").symlink_to(home)
    os.mkfifo(source / "pipe.py")

    assert [(path, content) for path, _, content in read_snapshot(source)] == [("/a.py", b"pass")]


def test_a_source_folder_that_leads_elsewhere_is_not_read(home: Path) -> None:
    (home / "updates/u/source").symlink_to(home)

    with pytest.raises(NotADirectoryError):
        read_snapshot(home / "updates/u/source")


@pytest.mark.parametrize("planted", ["updates/u/source", "updates/u/source/p", "updates/u/source/p/a.py"])
def test_a_snapshot_is_never_written_through_a_link(home: Path, planted: str) -> None:
    (home / planted).parent.mkdir(parents=True, exist_ok=True)
    (home / "ours/p").mkdir(parents=True)
    (home / "ours/a.py").write_text("ours")
    (home / "ours/p/a.py").write_text("ours")
    (home / planted).symlink_to(home / "ours" / ("a.py" if planted.endswith("a.py") else ""))
    spec = {"libraries": [{"file": {"path": "/p/a.py"}}], "root_path": "/p"}

    try:
        take_snapshot(spec, WorkspaceFolder(home / "workspace"), home / "updates/u/source")
    except OSError:
        assert not planted.endswith("a.py")
    else:
        assert (home / planted).read_text() == "# a definition\n"
        assert not (home / planted).is_symlink()

    assert [(home / "ours" / name).read_text() for name in ("a.py", "p/a.py")] == ["ours", "ours"]


def test_a_private_file_is_never_written_through_a_link(home: Path) -> None:
    for name in (f".arguments.json.{os.getpid()}", "arguments.json"):
        (home / "updates/u" / name).symlink_to(home / "audit.key")

    private_write(home / "updates/u/arguments.json", "{}")

    assert secret_of(home) == "secret"
    assert (home / "updates/u/arguments.json").read_text() == "{}"


def test_forgetting_an_update_removes_nothing_elsewhere(home: Path) -> None:
    (home / "updates/u").rmdir()
    (home / "updates/u").symlink_to(home / "workspace")

    remove_folder(home, "u")

    assert (home / "workspace/p/a.py").exists()
    assert list((home / "updates").iterdir()) == []


PLANTED: dict[str, Callable[[Path], object]] = {
    "a dangling link": lambda file: file.symlink_to("nowhere"),
    "a link to itself": lambda file: file.symlink_to(file),
    "a link to a folder": lambda file: file.symlink_to(file.parents[1] / "workspace"),
    "a pipe": os.mkfifo,
    "a folder": lambda file: (file / "deep").mkdir(parents=True),
}


@pytest.mark.parametrize("planted", PLANTED)
@pytest.mark.parametrize("where", ["eventlog/x", "spark/tmp", "spark/conf"])
def test_nothing_that_lies_in_a_folder_of_the_driver_stops_the_next_start(
    home: Path, planted: str, where: str
) -> None:
    PLANTED[planted](home / where)

    prepare_folders(home)

    assert (home / "spark/tmp").is_dir()
    assert not (home / "spark/tmp").is_symlink()
    assert (home / "workspace/p/a.py").exists()


def test_old_event_logs_go_and_the_newest_stay_whatever_lies_beside_them(home: Path) -> None:
    for number in range(4):
        (home / f"eventlog/log-{number}").write_text("x")
        os.utime(home / f"eventlog/log-{number}", (number, number))
    for number, plant in enumerate(PLANTED.values()):
        plant(home / f"eventlog/planted-{number}")
        os.utime(home / f"eventlog/planted-{number}", (0, 0), follow_symlinks=False)

    remove_old_logs(home / "eventlog", keep=2)

    assert sorted(path.name for path in (home / "eventlog").iterdir()) == ["log-2", "log-3"]
    assert (home / "workspace/p/a.py").exists()


def first_file(home: Path) -> Path:
    """Where Spark begins the log of application local-1."""
    (home / "eventlog/eventlog_v2_local-1").mkdir()
    return home / "eventlog/eventlog_v2_local-1/events_1_local-1"


@pytest.mark.parametrize("planted", [*PLANTED, "a link to a log"])
def test_an_event_log_that_is_no_file_is_not_followed_and_keeps_nobody_waiting(
    home: Path, planted: str
) -> None:
    log, seen = first_file(home), list[QueryEvent]()
    (home / "elsewhere").write_bytes(STARTED)
    if planted == "a link to a log":
        log.symlink_to(home / "elsewhere")
    else:
        PLANTED[planted](log)

    LogFollower(log.parent, seen.append).catch_up()
    assert seen == []


def test_a_line_of_the_event_log_that_no_parser_can_hold_does_not_end_the_tail(home: Path) -> None:
    log, seen = first_file(home), list[QueryEvent]()
    deep = STARTED.replace(b'"name":"f"', b'"name":' + b"[" * 200_000)
    log.write_bytes(deep + STARTED.replace(b'["Spark', b'["", "Spark'))

    LogFollower(log.parent, seen.append).catch_up()
    assert [event.kind for event in seen] == ["started"]


def test_what_spark_runs_for_pipelines_cannot_write_what_the_next_start_reads(home: Path) -> None:
    prepare_folders(home)
    confinement = machine_confinement(home=home, writable=folders_of_the_driver(home))

    assert confinement.sight(home / driver.CONF / "spark-env.sh") is not PathAccess.WRITABLE
    assert confinement.sight(home / "spark/tmp") is PathAccess.WRITABLE


@pytest.mark.parametrize(
    "planted", ["a dangling link", "a link", "a pipe", "too short", "too long", "no text"]
)
def test_an_answer_of_a_starting_jvm_that_is_none_ends_the_start(
    home: Path, planted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "START_SECONDS", 1)
    info = home / "spark/connection"
    plants: dict[str, Callable[[Path], object]] = {
        **PLANTED,
        "a link": lambda file: file.symlink_to(home / "audit.key"),
        "too short": lambda file: file.write_bytes(b"xy"),
        "too long": lambda file: file.write_bytes(b"x" * 100_000),
        "no text": lambda file: file.write_bytes(struct.pack("!ii", 1, 3) + b"\xff\xff\xff"),
    }
    plants[planted](info)
    with subprocess.Popen(["sleep", "60"]) as process:
        with pytest.raises(Unreachable):
            wait_for_connection(process, info, home / "spark.log")

        assert process.wait(10) < 0


def test_a_list_of_spark_without_end_has_one_here(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless:
        def iterator(self) -> "Endless":
            return self

        def hasNext(self) -> bool:
            return True

        def next(self) -> int:
            return 1

    monkeypatch.setattr(driver, "MOST_ELEMENTS", 10)

    with pytest.raises(SparkDead):
        list(Driver.elements(object.__new__(Driver), Endless()))
