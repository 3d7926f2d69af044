"""Locked Java archives: from whichever place, in the cache only with the locked content."""

import hashlib
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from console.supervisor import jars
from console.supervisor.bootstrap import ROOT, CannotStart
from console.supervisor.jars import Jar
from tests.refusals import refused

BODIES = {"one": b"PK one" * 1000, "two": b"PK two" * 300_000}


def jar(name: str, classifier: str = "", body: bytes | None = None) -> Jar:
    content = BODIES[name] if body is None else body
    return Jar("org.example.deep", name, "1.2", classifier, hashlib.sha256(content).hexdigest())


ONE, TWO = jar("one"), jar("two", "all")


class Repository:
    """A Maven repository of two archives. `answers` overrules what a path gets: a status, or other bytes."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers: dict[str, int | bytes] = {}
        files = {f"/maven/{ONE.path}": BODIES["one"], f"/maven/{TWO.path}": BODIES["two"]}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                answer = outer.answers.get(self.path, files.get(self.path, 404))
                self.send_response(answer if isinstance(answer, int) else 200)
                body = b"" if isinstance(answer, int) else answer
                self.send_header("Content-Length", str(len(files.get(self.path, body))))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://user:hidden@127.0.0.1:{self.server.server_address[1]}/maven"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    repository = Repository()
    monkeypatch.setenv("MAVEN_REPO_URL", repository.address + "/")
    yield repository
    repository.close()


def quiet(_: str) -> None:
    pass


def test_archives_are_fetched_once_and_checked_each_time(repository: Repository, tmp_path: Path) -> None:
    got = jars.bring_jars([ONE, TWO], tmp_path / "jars", quiet)
    assert [p.name for p in got] == ["one-1.2.jar", "two-1.2-all.jar"]
    assert [p.read_bytes() for p in got] == [BODIES["one"], BODIES["two"]]
    assert sorted(repository.asked) == [f"/maven/{ONE.path}", f"/maven/{TWO.path}"]
    assert jars.bring_jars([ONE, TWO], tmp_path / "jars", quiet) == got
    assert len(repository.asked) == 2
    got[0].write_bytes(b"tampered with")
    jars.bring_jars([ONE, TWO], tmp_path / "jars", quiet)
    assert got[0].read_bytes() == BODIES["one"]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"PK another", "one-1.2.jar could not be downloaded"),  # the connection ends before all is there
        (b"X" * len(BODIES["one"]), "one-1.2.jar is not the one that was locked, so it was not kept"),
        (404, "answers 404 for one-1.2.jar"),
        (503, "answers 503 for one-1.2.jar"),
    ],
)
def test_an_archive_that_is_not_the_locked_one_is_never_kept(
    repository: Repository, tmp_path: Path, answer: int | bytes, says: str
) -> None:
    repository.answers[f"/maven/{ONE.path}"] = answer
    with pytest.raises(CannotStart, match=says) as told:
        jars.bring_jars([ONE], tmp_path / "jars", quiet)
    assert list((tmp_path / "jars").iterdir()) == []
    assert "hidden" not in str(told.value)


def test_a_repository_that_is_gone_is_one_sentence_without_its_password(
    repository: Repository, tmp_path: Path
) -> None:
    address = repository.address.replace(str(repository.server.server_address[1]), "1")
    with refused("not_downloaded", CannotStart, names=("one-1.2.jar",)) as told:
        jars.download_jar(address, ONE, tmp_path)
    assert "hidden" not in str(told.value)
    assert "MAVEN_REPO_URL" in str(told.value)


SETTINGS = """<settings xmlns="urn:any"><mirrors>
<mirror><mirrorOf>other</mirrorOf><url>https://no.example/</url></mirror>
<mirror><mirrorOf>{of}</mirrorOf><url> https://mirror.example/maven/ </url></mirror></mirrors></settings>"""


@pytest.mark.parametrize(
    ("of", "address"),
    [
        ("*", "https://mirror.example/maven"),
        ("central", "https://mirror.example/maven"),
        ("external:*", "https://mirror.example/maven"),
        ("internal", None),
    ],
)
def test_a_mirror_of_the_public_registry_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: str, address: str | None
) -> None:
    monkeypatch.delenv("MAVEN_REPO_URL", raising=False)
    settings = tmp_path / "settings.xml"
    assert jars.base_address(settings) is None
    settings.write_text(SETTINGS.format(of=of))
    assert jars.base_address(settings) == address
    monkeypatch.setenv("MAVEN_REPO_URL", "https://first.example/m/")
    assert jars.base_address(settings) == "https://first.example/m"


def test_settings_that_cannot_be_read_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MAVEN_REPO_URL", raising=False)
    settings = tmp_path / "settings.xml"
    settings.write_text("<settings>")
    with refused("settings_unreadable", CannotStart, names=("settings.xml", "MAVEN_REPO_URL")):
        jars.base_address(settings)


@pytest.fixture
def ivy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """No repository is named; in Ivy's place something that brings these files: name -> content."""
    brings: dict[str, bytes] = {}

    def run(command: list[str], *, cwd: Path, **_: Any) -> subprocess.CompletedProcess[str]:
        (cwd / "got").mkdir()
        for name, body in brings.items():
            (cwd / "got" / name).write_bytes(body)
        return subprocess.CompletedProcess(
            command, 0, "", "java.net.UnknownHostException: https://x.example/y"
        )

    monkeypatch.delenv("MAVEN_REPO_URL", raising=False)
    monkeypatch.setattr(jars, "base_address", lambda: None)
    monkeypatch.setattr(jars.subprocess, "run", run)
    monkeypatch.setattr(jars, "_ivy_command", lambda room: ["ivy"])
    return brings


def test_what_ivy_brings_is_checked_too(ivy: dict[str, bytes], tmp_path: Path) -> None:
    ivy |= {ONE.file_name: BODIES["one"], TWO.file_name: b"another"}
    with refused("not_as_locked", CannotStart, names=("two-1.2-all.jar",)):
        jars.bring_jars([ONE, TWO], tmp_path / "jars", quiet)
    assert [p.name for p in (tmp_path / "jars").iterdir()] == [ONE.file_name]


def test_what_ivy_could_not_bring_is_named_without_addresses(ivy: dict[str, bytes], tmp_path: Path) -> None:
    with refused("not_downloaded", CannotStart, names=("one-1.2.jar", "UnknownHost", "the registry")):
        jars.bring_jars([ONE], tmp_path / "jars", quiet)


def test_ivy_is_asked_for_these_archives_and_for_nothing_they_need() -> None:
    module = ElementTree.fromstring(jars.ivy_module([ONE, TWO]))  # noqa: S314
    assert [d.attrib for d in module.iter("dependency")] == [
        {"org": "org.example.deep", "name": n, "rev": "1.2", "transitive": "false"} for n in ("one", "two")
    ]
    assert [d.get("{http://ant.apache.org/ivy/maven}classifier") for d in module.iter("artifact")] == ["all"]


@pytest.mark.parametrize("line", ["a:b:1", "a:b:1 xyz", "a:b 0" + "0" * 63, "../x:b:1/.. " + "0" * 64])
def test_a_line_that_locks_no_archive_is_refused(tmp_path: Path, line: str) -> None:
    file = tmp_path / "set.txt"
    file.write_text(f"# archives\n\n{line}\n")
    with refused("bad_line", CannotStart, names=("set.txt", line)):
        jars.read_list(file)


@pytest.mark.parametrize("file", sorted((ROOT / "requirements" / "jars").glob("*.txt")), ids=lambda f: f.stem)
def test_every_list_can_be_read_and_names_no_place(file: Path) -> None:
    found = jars.read_list(file)
    assert found
    assert len({one.file_name for one in found}) == len(found)
    assert "://" not in file.read_text()
