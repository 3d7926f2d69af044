"""A program that is studied changes nothing of the machine, and is understood all the same where it can be."""

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recovery.spark import programs
from recovery.spark.definitions import BadCode
from recovery.spark.untouched import Acts, hands_off

CODE_HEAD = "import logging, os, pathlib, shutil, subprocess, socket, sys, tempfile\n"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder that is not the question's, with a checkpoint in it."""
    place = tmp_path / "lake"
    (place / "ck" / "offsets").mkdir(parents=True)
    (place / "ck" / "metadata").write_text("{}")
    (place / "old.txt").write_text("old")
    return place


@pytest.fixture
def own(tmp_path: Path) -> Path:
    folder = tmp_path / "question"
    folder.mkdir()
    return folder


def held_at(place: Path) -> dict[str, str]:
    return {str(p.relative_to(place)): p.read_text() if p.is_file() else "" for p in place.rglob("*")}


def run(code: str, own: Path, outside: Path) -> Acts:
    acts = Acts()
    with hands_off(str(own), acts):
        exec(CODE_HEAD + code, {"LAKE": str(outside), "OWN": str(own)})  # noqa: S102
    return acts


@pytest.mark.parametrize(
    "code",
    [
        "shutil.rmtree(LAKE + '/ck', ignore_errors=True)",
        "shutil.rmtree(pathlib.Path(LAKE) / 'ck')",
        "os.remove(LAKE + '/ck/metadata')",
        "pathlib.Path(LAKE, 'ck', 'metadata').unlink()",
        "os.rmdir(LAKE + '/ck/offsets')",
    ],
)
def test_what_it_would_remove_stays_and_is_named(own: Path, outside: Path, code: str) -> None:
    before = held_at(outside)
    acts = run(code, own, outside)
    assert held_at(outside) == before
    assert [place.startswith(f"{outside}/ck") for place in acts.removed] == [True]


@pytest.mark.parametrize(
    "code",
    [
        "os.makedirs(LAKE + '/logs/a', exist_ok=True)",
        "pathlib.Path(LAKE, 'logs', 'a').mkdir(parents=True, exist_ok=True)",
        "logging.FileHandler(LAKE + '/logs/a.log').close()",
        "with open(LAKE + '/started', 'w') as f:\n    f.write('x')",
        "pathlib.Path(LAKE, 'started').write_text('x')",
        "open(LAKE + '/old.txt', 'a').close()",
        "pathlib.Path(LAKE, 'a').write_text('x')\nassert pathlib.Path(LAKE, 'a').read_text() == 'x'",
        "pathlib.Path(OWN, 'a').write_text('x')\nassert 'a' in os.listdir(OWN)",
        "assert tempfile.mkdtemp().startswith(OWN)",
    ],
)
def test_folders_and_files_that_it_makes_are_not_made_and_it_goes_on(
    own: Path, outside: Path, code: str
) -> None:
    before = held_at(outside)
    assert not run(code, own, outside).removed
    assert held_at(outside) == before


@pytest.mark.parametrize(
    "code",
    [
        "os.rename(LAKE + '/old.txt', LAKE + '/new.txt')",
        "shutil.move(LAKE + '/old.txt', LAKE + '/new.txt')",
        "os.truncate(LAKE + '/old.txt', 0)",
        "os.open(LAKE + '/old.txt', os.O_WRONLY | os.O_TRUNC)",
        "os.symlink(LAKE, LAKE + '/link')",
        "subprocess.run(['touch', LAKE + '/new.txt'])",
        "os.system('touch ' + LAKE + '/new.txt')",
        "__import__('sqlite3').connect(LAKE + '/a.db')",
    ],
)
def test_what_cannot_be_passed_over_is_refused(own: Path, outside: Path, code: str) -> None:
    before = held_at(outside)
    with pytest.raises(BadCode):
        run(code, own, outside)
    assert held_at(outside) == before


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    """Its address, and the methods that it was called by."""
    called: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            called.append(self.command)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        do_GET = do_POST = do_PUT = do_DELETE = answer

        def log_message(self, *args: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{served.server_address[1]}", called
        served.shutdown()


ASKS = "import urllib.request, requests, http.client\nHOST = {host!r}\n"


@pytest.mark.parametrize(
    "code",
    [
        "assert requests.get('http://' + HOST).json() == {}",
        "urllib.request.urlopen('http://' + HOST).close()",
    ],
)
def test_a_server_is_asked(own: Path, outside: Path, server: tuple[str, list[str]], code: str) -> None:
    run(ASKS.format(host=server[0]) + code, own, outside)
    assert server[1] == ["GET"]


@pytest.mark.parametrize(
    "code",
    [
        "requests.post('http://' + HOST, json={})",
        "requests.delete('http://' + HOST)",
        "urllib.request.urlopen('http://' + HOST, data=b'x')",
        "http.client.HTTPConnection(HOST).request('PUT', '/')",
        "with socket.socket() as s:\n    s.connect((HOST.split(':')[0], int(HOST.split(':')[1])))",
    ],
)
def test_a_server_is_told_nothing(own: Path, outside: Path, server: tuple[str, list[str]], code: str) -> None:
    with pytest.raises(BadCode):
        run(ASKS.format(host=server[0]) + code, own, outside)
    assert server[1] == []


def test_afterwards_everything_is_as_before(own: Path, outside: Path) -> None:
    import builtins
    import os
    import shutil
    import tempfile

    before = (builtins.open, os.mkdir, os.remove, shutil.rmtree, tempfile.tempdir)
    run("pass", own, outside)
    assert before == (builtins.open, os.mkdir, os.remove, shutil.rmtree, tempfile.tempdir)
    (outside / "new").write_text("x")
    (outside / "new").unlink()


def test_what_a_program_leaves_running_changes_nothing_either(own: Path, outside: Path) -> None:
    code = (
        "import threading\nleft, done = threading.Event(), threading.Event()\n"
        "def beat():\n    left.wait(20)\n    shutil.rmtree(LAKE)\n    done.set()\n"
        "threading.Thread(target=beat, daemon=True).start()\n"
    )
    words: dict[str, Any] = {"LAKE": str(outside)}
    before, acts = held_at(outside), Acts()
    with hands_off(str(own), acts) as guard:
        exec(CODE_HEAD + code, words)  # noqa: S102
    words["left"].set()
    assert words["done"].wait(20)
    assert held_at(outside) == before
    guard.disarm()


@pytest.mark.parametrize(
    ("removed", "place", "covered"),
    [
        ("/lake/ck", "/lake/ck", True),
        ("/lake", "file:///lake/ck", True),
        ("/lake/ck/a", "/lake/ck", True),
        ("/lake/ck", "/lake/ckb", False),
        ("ck", "./ck/a", True),
        ("/tmp/work", "/lake/ck", False),
    ],
)
def test_a_removal_matters_where_it_meets_a_place_of_the_query(
    removed: str, place: str, covered: bool
) -> None:
    query = programs.ProgramQuery(None, options={"checkpointLocation": place})
    assert bool(programs._removed_of(query, [removed])) is covered


@pytest.mark.parametrize(
    "code",
    [
        "os.kill(os.getppid(), 0)",
        "os.killpg(os.getpgid(os.getppid()), 0)",
        "with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:\n    s.connect('/nowhere.sock')",
        "os.utime(LAKE + '/old.txt')",
    ],
)
def test_signals_sockets_of_the_machine_and_times_of_files_are_refused(
    own: Path, outside: Path, code: str
) -> None:
    with pytest.raises(BadCode):
        run(code, own, outside)


def test_what_it_adds_to_a_file_is_read_behind_what_was_there(own: Path, outside: Path) -> None:
    code = (
        "with open(LAKE + '/old.txt', 'a') as f:\n    f.write('er')\n"
        "assert pathlib.Path(LAKE, 'old.txt').read_text() == 'older'"
    )
    run(code, own, outside)
    assert (outside / "old.txt").read_text() == "old"


def test_a_file_that_must_not_be_there_is_there(own: Path, outside: Path) -> None:
    with pytest.raises(FileExistsError):
        run("open(LAKE + '/old.txt', 'x')", own, outside)
