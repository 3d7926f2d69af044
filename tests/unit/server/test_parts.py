"""Small parts that stand alone: Java's wrapper, the record of children, the tail, sources, the plain home."""

import signal
import subprocess
import threading
from pathlib import Path

import pytest

from recovery.errors import Unreachable
from recovery.server.children import Children
from recovery.server.driver import lies_under
from recovery.server.eventlog import LogFollower, QueryEvent
from recovery.server.graph import qualify_name
from recovery.server.java import find_java, write_wrapper
from recovery.server.problems import ApiProblem
from recovery.server.sources import NoDefinitions, library_paths, read_snapshot, take_snapshot
from recovery.server.storage_symlink import is_plain, link_of, spark_home
from recovery.server.workspace import WorkspaceFolder
from tests.refusals import refused
from tests.unit.server.test_reading_spark import TAG, line


def test_the_wrapper_leaves_out_one_argument_and_keeps_the_others_as_they_are(tmp_path: Path) -> None:
    java = tmp_path / "it's java"
    java.write_text('#!/bin/sh\nfor a in "$@"; do echo "<$a>"; done\n')
    java.chmod(0o700)
    home = write_wrapper(java, tmp_path / "home")
    given = ["-Da=b c", "--add-modules=jdk.incubator.vector", "", "$HOME", "*", "--add-modules=other"]
    out = subprocess.run([home / "bin" / "java", *given], capture_output=True, text=True, check=True).stdout
    assert out.splitlines() == ["<-Da=b c>", "<>", "<$HOME>", "<*>", "<--add-modules=other>"]


def fake_java(folder: Path, version: str, modules: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    java = folder / "bin" / "java"
    says = f"echo 'openjdk version \"{version}\"' >&2"
    java.write_text(f'#!/bin/sh\ncase "$1" in -version) {says};; --list-modules) echo "{modules}";; esac\n')
    java.chmod(0o700)
    return folder


def test_java_home_comes_first_when_it_is_new_enough(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "21.0.1", "java.base jdk.incubator.vector")
    found = find_java(tmp_path / "wrapper", {"JAVA_HOME": str(home), "PATH": ""})
    assert (found.home, found.version, found.origin) == (home, 21, "JAVA_HOME")


def test_an_old_java_is_passed_over_and_a_lacking_one_is_wrapped(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "1.8.0_402", "")
    lacking = fake_java(tmp_path / "lacking", "17.0.2", "java.base")
    environment = {"JAVA_HOME": str(old), "PATH": str(lacking / "bin")}
    found = find_java(tmp_path / "wrapper", environment)
    assert (found.home, found.version, found.origin) == (tmp_path / "wrapper", 17, "PATH")


def test_a_left_process_is_ended_and_a_recycled_number_is_not(tmp_path: Path) -> None:
    ours, other = (subprocess.Popen(["sleep", "60"]) for _ in range(2))
    record = Children(tmp_path / "pids")
    record.add(ours.pid)
    record.known[other.pid] = "1"  # another process had this number once
    record.write()
    assert Children(tmp_path / "pids").end_left_over() == 1
    assert ours.wait(10) == -signal.SIGKILL
    assert other.poll() is None
    other.kill()
    other.wait()


@pytest.mark.parametrize("content", [None, "", "nonsense", '{"boot": "another", "children": {"1": "1"}}'])
def test_no_record_or_one_of_another_boot_ends_nothing(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "pids").write_text(content)
    assert Children(tmp_path / "pids").end_left_over() == 0


def first_file(logs: Path) -> Path:
    """Where Spark begins the log of application `app`."""
    folder = logs / "eventlog_v2_app"
    folder.mkdir()
    return folder / "events_1_app"


def test_the_tail_follows_a_log_that_rolls_and_removes_what_it_has_read(tmp_path: Path) -> None:
    seen: list[QueryEvent] = []
    first = first_file(tmp_path)
    tail = LogFollower(first.parent, seen.append)

    def write(index: int, run: str) -> None:
        with (first.parent / f"events_{index}_app").open("ab") as stream:
            stream.write(line("QueryStartedEvent", id="q", runId=run, name="n", jobTags=[TAG]) + b"\n")

    tail.catch_up()
    write(1, "r1")
    tail.catch_up()
    write(1, "r2")
    for index in (2, 3, 4):
        write(index, f"r{index + 1}")
    tail.catch_up()
    write(4, "r6")
    tail.catch_up()

    assert [event.run_id for event in seen] == ["r1", "r2", "r3", "r4", "r5", "r6"]
    assert sorted(file.name for file in first.parent.iterdir()) == ["events_3_app", "events_4_app"]


def test_the_tail_hands_on_whole_lines_only_and_survives_a_bad_one(tmp_path: Path) -> None:
    seen: list[QueryEvent] = []
    arrived = threading.Event()

    def take(event: QueryEvent) -> None:
        seen.append(event)
        if event.kind == "terminated":
            arrived.set()

    log = first_file(tmp_path)
    tail = LogFollower(log.parent, take)
    tail.start()
    started = line("QueryStartedEvent", id="q", runId="r", name="n", jobTags=[TAG]) + b"\n"
    with log.open("ab", buffering=0) as stream:
        stream.write(started[:40])
        tail.catch_up()
        assert seen == []
        stream.write(started[40:])
        stream.write(line("QueryProgressEvent")[:-1] + b"\n")
        stream.write(line("QueryTerminatedEvent", id="q", runId="r", exception=None) + b"\n")
    assert arrived.wait(10)
    tail.end()
    assert [event.kind for event in seen] == ["started", "terminated"]


def workspace(tmp_path: Path, *paths: str) -> WorkspaceFolder:
    for path in paths:
        file = tmp_path / "workspace" / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"# {path}\n")
    return WorkspaceFolder(tmp_path / "workspace")


def spec(*libraries: dict[str, dict[str, str]], root: str = "/p") -> dict[str, object]:
    return {"libraries": list(libraries), "root_path": root}


def test_libraries_are_found_in_order_and_once(tmp_path: Path) -> None:
    space = workspace(
        tmp_path, "/p/defs/b.py", "/p/defs/deep/a.sql", "/p/defs/.hidden.py", "/p/x.py", "/p/defs/n.txt"
    )
    found = library_paths(
        spec(
            {"file": {"path": "x.py"}},
            {"glob": {"include": "/p/defs/**"}},
            {"file": {"path": "/p/defs/b.py"}},
        ),
        space,
    )
    assert found == ["/p/x.py", "/p/defs/b.py", "/p/defs/deep/a.sql"]
    assert library_paths(spec({"glob": {"include": "defs/*.py"}}), space) == ["/p/defs/b.py"]
    assert library_paths(spec({"notebook": {"path": "/p/x"}}), space) == ["/p/x.py"]


@pytest.mark.parametrize("path", ["/p/away.py", "/p/../../etc/passwd"])
def test_a_library_that_is_not_there_is_said(tmp_path: Path, path: str) -> None:
    with pytest.raises(NoDefinitions):
        library_paths(spec({"file": {"path": path}}), workspace(tmp_path, "/p/x.py"))


def test_a_snapshot_keeps_what_was_read_when_the_file_changes(tmp_path: Path) -> None:
    space = workspace(tmp_path, "/p/defs/a.py", "/p/helper.py", "/other/c.py")
    snapshot = take_snapshot(spec({"file": {"path": "/p/defs/a.py"}}), space, tmp_path / "kept")
    (tmp_path / "workspace/p/helper.py").write_text("changed")
    kept = {path: content for path, _, content in read_snapshot(tmp_path / "kept")}
    assert kept == {"/p/defs/a.py": b"# /p/defs/a.py\n", "/p/helper.py": b"# /p/helper.py\n"}
    assert snapshot.root == tmp_path / "kept" / "p"


def test_a_snapshot_has_the_notebooks_that_its_files_run(tmp_path: Path) -> None:
    space = workspace(tmp_path, "/p/a.py", "/p/lib/first", "/p/second", "/q/b.py", "/q/beside.py", "/far.py")
    for path, text in (
        ("p/a.py", "# MAGIC %run ./lib/first\n# MAGIC %run ../far\n# MAGIC %run ./gone\n"),
        ("p/lib/first", "# MAGIC %run ../second\n"),
        ("q/b.py", "# MAGIC %run ./beside\n"),
    ):
        (tmp_path / "workspace" / path).write_text(text)
    take_snapshot(
        spec({"file": {"path": "/p/a.py"}}, {"file": {"path": "/q/b.py"}}), space, tmp_path / "kept"
    )
    kept = {path for path, _, _ in read_snapshot(tmp_path / "kept")}
    assert kept == {"/p/a.py", "/p/lib/first", "/p/second", "/q/b.py", "/q/beside.py"}


def test_a_file_appears_whole_and_in_its_folder_only(tmp_path: Path) -> None:
    space = workspace(tmp_path, "/p/x.py")
    space.write("/p/y.py", b"new", fmt="RAW", language="", overwrite=False)
    assert sorted(file.name for file in (tmp_path / "workspace" / "p").iterdir()) == ["x.py", "y.py"]
    with pytest.raises(ApiProblem, match="parent folder"):
        space.write("/q/y.py", b"new", fmt="RAW", language="", overwrite=False)


@pytest.mark.parametrize(
    ("name", "full"),
    [("t", "c.d.t"), ("x.t", "c.x.t"), ("a.x.t", "a.x.t"), ("`t`", "c.d.t"), ("`x`.`t`", "c.x.t")],
)
def test_a_name_is_completed(name: str, full: str) -> None:
    assert qualify_name(name, catalog="c", database="d") == full


@pytest.mark.parametrize(
    ("uri", "root", "under"),
    [
        ("file:/a/s/_checkpoints/x", "file:/a/s", True),
        ("file:///a/s/_checkpoints/x", "/a/s/", True),
        ("file:/a/s2/_checkpoints/x", "file:/a/s", False),
        ("file:/a%20b/s/x", "file:/a b/s", True),
        ("s3a://bucket/s/x", "s3a://bucket/s", True),
        ("s3a://bucket/s/x", "s3a://other/s", False),
    ],
)
def test_a_checkpoint_lies_under_its_storage_however_it_is_spelled(uri: str, root: str, under: bool) -> None:
    assert lies_under(uri, root) is under


def test_a_home_with_a_space_gets_a_link_that_is_ours(tmp_path: Path) -> None:
    home = tmp_path / "my files"
    home.mkdir()
    link = spark_home(home)
    try:
        assert is_plain(str(link))
        assert link.resolve() == home.resolve()
        assert spark_home(home) == link
    finally:
        link_of(home).unlink()
    assert spark_home(tmp_path) == tmp_path


def test_a_link_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "my files"
    home.mkdir()
    link_of(home).symlink_to(tmp_path)
    try:
        with refused("alias_taken", Unreachable, names=(link_of(home),)):
            spark_home(home)
    finally:
        link_of(home).unlink()
