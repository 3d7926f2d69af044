"""What a jailed process sees of the machine, tried by programs in real jails; the rules that Landlock is given."""

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from console.supervisor import broker
from recovery.errors import Refused
from recovery.server import jail
from recovery.server.confinement import Confinement, PathAccess, dump_grants
from recovery.server.jail import (
    Protection,
    child_environment,
    machine_confinement,
    measure_protection,
    pipeline_confinement,
    start_jailed,
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A console's home with a secret, and one file in each folder that pipelines share."""
    place = tmp_path / "home"
    for folder in ("storage", "warehouse", "updates/mine", "updates/other", "logs"):
        (place / folder).mkdir(parents=True)
        (place / folder / "file").write_text("content")
    (place / "audit.key").write_text("secret")
    return place


@pytest.fixture(params=["namespaces", "landlock"])
def protection(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The jail as this machine can have it, and as one without namespaces has it."""
    measured = measure_protection()
    assert measured.bubblewrap, measured.why
    assert measured.landlock >= 6
    if request.param == "landlock":
        monkeypatch.setattr(jail, "measure_protection", lambda: Protection(None, measured.landlock))
    return str(request.param)


def ask_in_jail(confinement: Confinement, code: str, *arguments: object) -> dict[str, object]:
    """What a Python program in the jail prints as JSON."""
    prelude = "import json, os, pathlib, signal, socket, sys\n"
    process = start_jailed(
        [sys.executable, "-I", "-c", prelude + textwrap.dedent(code), *map(str, arguments)],
        confinement=confinement, env=child_environment(), stdout=subprocess.PIPE, cwd="/",
    )  # fmt: skip
    answer: dict[str, object] = json.loads(process.communicate(timeout=60)[0])
    return answer


READ_AND_WRITE = """
    answer = {}
    for path in map(pathlib.Path, sys.argv[1:]):
        held = ""
        try:
            held += "r" * bool(path.read_text())
        except OSError:
            pass
        try:
            path.open("a").close()
            held += "w"
        except OSError:
            pass
        answer["/".join(path.parts[-2:])] = held
    print(json.dumps(answer))
"""


def test_a_jail_shows_of_the_home_what_is_named_and_leaves_the_rest(
    home: Path, tmp_path: Path, protection: str
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_text("content")
    confinement = machine_confinement(
        home=home, writable=[home / "updates" / "mine"], readable=[home / "logs"]
    )
    files = [home / "audit.key", Path("/etc/hostname")]
    files += [p / "file" for p in (home / "storage", home / "warehouse", home / "logs", tmp_path / "data")]
    files += [home / "updates" / name / "file" for name in ("mine", "other")]

    assert ask_in_jail(confinement, READ_AND_WRITE, *files) == {
        "home/audit.key": "",
        "etc/hostname": "r",
        "storage/file": "rw",
        "warehouse/file": "rw",
        "logs/file": "r",
        "data/file": "rw",
        "mine/file": "rw",
        "other/file": "",
    }


def test_data_roots_make_an_allow_list(home: Path, tmp_path: Path, protection: str) -> None:
    for name in ("data", "elsewhere"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("content")
    confinement = machine_confinement(home=home, data_roots=[tmp_path / "data"])
    files = [tmp_path / "data" / "file", tmp_path / "elsewhere" / "file", home / "audit.key"]

    assert ask_in_jail(confinement, READ_AND_WRITE, *files) == {
        "data/file": "rw",
        "elsewhere/file": "",
        "home/audit.key": "",
    }


def test_a_folder_that_is_hidden_cannot_be_filled_either(home: Path, protection: str) -> None:
    tried = """
        try:
            (pathlib.Path(sys.argv[1]) / "new").write_text("lost when the jail ends")
            print(json.dumps({"written": True}))
        except OSError:
            print(json.dumps({"written": False}))
    """

    assert ask_in_jail(machine_confinement(home=home), tried, home) == {"written": False}


def test_a_jail_reaches_no_process_outside(home: Path, protection: str) -> None:
    reach = """
        answer, pid = {}, int(sys.argv[1])
        try:
            os.kill(pid, 0)
            answer["signal"] = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode()
        except OSError:
            answer["signal"] = ""
        seen = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                seen += ["canary" for part in [(process / "environ").read_bytes()] if b"CANARY=1" in part]
            except OSError:
                pass
        answer["environments"] = seen
        print(json.dumps(answer))
    """
    outside = subprocess.Popen(["sleep", "60"], env={**os.environ, "CANARY": "1"})
    try:
        answer = ask_in_jail(machine_confinement(home=home), reach, outside.pid)
    finally:
        outside.kill()
        outside.wait()

    assert answer == {"signal": "", "environments": []}


def test_a_unix_socket_in_the_home_is_out_of_reach(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = """
        peer = socket.socket(socket.AF_UNIX)
        print(json.dumps({"error": peer.connect_ex(sys.argv[1]) != 0}))
    """
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(home)  # a socket's address holds 108 bytes
        listener.bind("broker.sock")
        listener.listen()

        assert ask_in_jail(machine_confinement(home=home), connect, home / "broker.sock") == {"error": True}


def test_the_brokers_socket_of_a_home_with_a_long_path_is_out_of_reach(home: Path, protection: str) -> None:
    place = broker.socket_path(home / ("x" * 120))
    try:
        (place.parent / "broker.sock").write_text("secret")
        assert ask_in_jail(machine_confinement(home=home), READ_AND_WRITE, place) == {
            f"{place.parent.name}/broker.sock": ""
        }
    finally:
        shutil.rmtree(place.parent)


def test_the_brokers_socket_in_another_temporary_folder_is_out_of_reach_too(
    home: Path, tmp_path: Path, protection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    door = tmp_path / "reprise-0-0123456789ab/broker.sock"
    door.parent.mkdir()
    door.write_text("content")
    assert ask_in_jail(machine_confinement(home=home), READ_AND_WRITE, door) == {
        "reprise-0-0123456789ab/broker.sock": ""
    }


def test_keys_of_programs_and_homes_of_people_are_out_of_sight(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = tmp_path / "export" / "vera"
    for folder in (person / ".aws", tmp_path / "runtime", tmp_path / "etc-cloud"):
        folder.mkdir(parents=True)
    account = pwd.struct_passwd(("vera", "x", 1234, 1234, "", str(person), "/bin/sh"))
    service = pwd.struct_passwd(("daemon", "x", 1235, 1235, "", "/usr/sbin", "/bin/false"))
    monkeypatch.setattr(pwd, "getpwall", lambda: [account, service])
    monkeypatch.setattr(jail, "KEYS", (*jail.KEYS, str(tmp_path / "etc-cloud")))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))

    confinement = machine_confinement(home=home)

    for hidden in (
        person / ".aws" / "credentials",
        tmp_path / "runtime" / "bus",
        tmp_path / "etc-cloud" / "key",
    ):
        assert confinement.sight(hidden) is PathAccess.HIDDEN
    assert confinement.sight(Path("/usr/sbin/any")) is PathAccess.READABLE
    assert confinement.sight(tmp_path / "export" / "data") is PathAccess.WRITABLE


def test_the_network_stays(home: Path, protection: str) -> None:
    connect = """
        with socket.create_server(("127.0.0.1", 0)) as own:
            socket.create_connection(own.getsockname()).close()
        socket.create_connection(("127.0.0.1", int(sys.argv[1]))).close()
        print(json.dumps({"connected": True}))
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        answer = ask_in_jail(machine_confinement(home=home), connect, listener.getsockname()[1])

    assert answer == {"connected": True}


def test_a_jailed_process_has_no_capability_and_makes_no_namespace(home: Path) -> None:
    tried = """
        import ctypes
        status = pathlib.Path("/proc/self/status").read_text()
        held = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith("Cap")]
        made = ctypes.CDLL(None).unshare(0x10000000)  # CLONE_NEWUSER
        print(json.dumps({"capabilities": sum(held), "namespace": made == 0}))
    """

    answer = ask_in_jail(machine_confinement(home=home), tried)

    assert answer == {"capabilities": 0, "namespace": False}


def test_the_environment_of_a_child_is_a_short_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRISE_SECRET_KEY", "secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("MY_LOOKUP", "value")

    environment = child_environment({"SPARK_HOME": "/spark"}, kept=["MY_LOOKUP"])

    assert {"REPRISE_SECRET_KEY", "AWS_SECRET_ACCESS_KEY"}.isdisjoint(environment)
    assert environment["MY_LOOKUP"] == "value"
    assert environment["SPARK_HOME"] == "/spark"
    assert environment["PATH"] == os.environ["PATH"]


def test_ending_the_command_ends_all_that_runs_inside(home: Path) -> None:
    process = start_jailed(
        ["sh", "-c", "setsid sleep 60 & echo started; wait"],
        confinement=machine_confinement(home=home), env=child_environment(), stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == b"started\n"
    process.send_signal(signal.SIGKILL)

    assert process.stdout.read() == b""  # every process that held the pipe has ended
    assert process.wait(30) == -signal.SIGKILL
    process.stdout.close()


@pytest.mark.parametrize(
    ("path", "sight"),
    [
        ("/srv/data/x", PathAccess.WRITABLE),
        ("/srv/home", PathAccess.HIDDEN),
        ("/srv/home/logs/new", PathAccess.HIDDEN),
        ("/srv/home/storage/a", PathAccess.WRITABLE),
        ("/srv/home/storage/a/keys", PathAccess.READABLE),
    ],
)
def test_the_longest_path_decides(tmp_path: Path, path: str, sight: PathAccess) -> None:
    (tmp_path / "srv/home/storage/a/keys").mkdir(parents=True)
    confinement = Confinement(
        hidden=(tmp_path / "srv/home",),
        readable=(tmp_path / "srv/home/storage/a/keys",),
        writable=(tmp_path / "srv/home/storage",),
    )

    assert confinement.sight(tmp_path / path[1:]) is sight


def test_grants_add_up_to_what_is_shown_and_to_nothing_else(tmp_path: Path) -> None:
    for folder in ("a/open", "a/shut/inner", "b"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "a" / "link").symlink_to(tmp_path / "a" / "shut")
    confinement = Confinement(
        hidden=(tmp_path / "a" / "shut",),
        readable=(tmp_path / "a" / "shut" / "inner", tmp_path / "b"),
        writable=(tmp_path / "a",),
        closed=True,
    )

    assert sorted(confinement.grants()) == [
        (tmp_path / "a" / "open", PathAccess.WRITABLE),
        (tmp_path / "a" / "shut" / "inner", PathAccess.READABLE),
        (tmp_path / "b", PathAccess.READABLE),
    ]


def test_a_confinement_survives_its_command_line() -> None:
    confinement = Confinement((Path("/a b"),), (Path("/c"),), (Path("/d"),), closed=True)

    assert Confinement.load(confinement.dump()) == confinement


@pytest.mark.parametrize(
    "storage",
    [
        "",
        "/storage",
        "/storage/",
        "/updates",
        "/storage/../updates",
        "/workspace/p",
        "/warehouse",
        "/to_updates/x",
    ],
)
def test_a_storage_root_never_undoes_what_keeps_a_definition_to_its_own(home: Path, storage: str) -> None:
    (home / "to_updates").symlink_to(home / "updates")
    (home.parent / "elsewhere").symlink_to(home)
    for place in (home, home.parent / "elsewhere"):
        with pytest.raises(Refused) as refused:
            pipeline_confinement(
                home=home,
                folder=home / "updates/mine",
                sources=(),
                storage=f"file:{place}{storage}",
                others=(),
            )
        assert refused.value.code == "storage_in_home"


def test_a_storage_root_lies_in_its_own_folder_of_the_home_or_elsewhere(home: Path, tmp_path: Path) -> None:
    for uri in (
        f"file:{home}/storage/p",
        f"file://{home}/storage/p/deep",
        f"file:{tmp_path}/data",
        "s3://b/x",
        "",
    ):
        pipeline_confinement(home=home, folder=home / "updates/mine", sources=(), storage=uri, others=())


def test_a_storage_root_among_the_checkpoints_of_another_is_refused(home: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs/_checkpoints/c").mkdir(parents=True)
    (tmp_path / "way").symlink_to(tmp_path / "theirs/_checkpoints")
    for own in ("theirs/_checkpoints", "theirs/_checkpoints/c/new", "way/c"):
        with pytest.raises(Refused) as refused:
            pipeline_confinement(
                home=home, folder=home / "updates/mine", sources=(), storage=f"file:{tmp_path}/{own}",
                others=[f"file:{tmp_path}/theirs"],
            )  # fmt: skip
        assert refused.value.code == "storage_taken"


def test_a_link_put_where_a_right_was_listed_gives_none(tmp_path: Path) -> None:
    for name in ("mine", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("content")
    grants = [
        (Path(name), PathAccess.READABLE) for name in ("/usr", "/lib", "/lib64", sys.prefix, sys.base_prefix)
    ]
    grants += [(tmp_path / name, PathAccess.READABLE) for name in ("mine", "swapped")]
    (tmp_path / "swapped").symlink_to(tmp_path / "other")
    code = """
        import json, pathlib, sys
        sys.path[:0] = json.loads(sys.argv[1])
        from recovery.server.confinement import load_grants
        from recovery.server.landlock import restrict_to
        restrict_to(load_grants(json.loads(sys.argv[2])))
        held = {}
        for path in map(pathlib.Path, sys.argv[3:]):
            try:
                held[path.parent.name] = path.read_text()
            except OSError:
                held[path.parent.name] = ""
        print(json.dumps(held))
    """
    files = [str(tmp_path / name / "file") for name in ("mine", "other", "swapped")]
    asked = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), json.dumps(jail.LAUNCH_PLACES), json.dumps(dump_grants(grants)),
         *files],
        capture_output=True, check=True,
    )  # fmt: skip

    assert json.loads(asked.stdout) == {"mine": "content", "other": "", "swapped": ""}


def test_folders_of_programs_that_the_server_runs_are_read_only(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("programs", "modules", "data", "person/bin"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    named = [
        tmp_path / "programs",
        tmp_path / "person/bin",
        tmp_path,
        Path("/tmp"),
        "",
        "relative",
        home / "storage",
    ]
    monkeypatch.setenv("PATH", os.pathsep.join([*map(str, named), os.environ["PATH"]]))
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "modules")])

    confinement = machine_confinement(home=home)

    sights = {
        name: confinement.sight(tmp_path / name / "new")
        for name in ("programs", "modules", "data", "person/bin")
    }
    assert sights == {
        "programs": PathAccess.READABLE,
        "modules": PathAccess.READABLE,
        "data": PathAccess.WRITABLE,
        "person/bin": PathAccess.HIDDEN,
    }
    assert confinement.sight(home / "storage/new") is PathAccess.WRITABLE
    assert confinement.sight(Path("/tmp/new")) is PathAccess.WRITABLE


def test_a_file_that_a_setting_of_the_server_names_is_hidden(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protection: str
) -> None:
    (tmp_path / "data").mkdir()
    for name in ("key", "table"):
        (tmp_path / "data" / name).write_text("content")
    monkeypatch.setenv("REPRISE_SECRET_KEY_FILE", str(tmp_path / "data/key"))

    seen = ask_in_jail(
        machine_confinement(home=home), READ_AND_WRITE, *[tmp_path / "data" / n for n in ("key", "table")]
    )

    assert seen == {"data/key": "", "data/table": "rw"}
