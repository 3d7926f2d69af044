"""A real S3-compatible server (s3proxy, signatures checked) over a temporary folder, for tests."""

import contextlib
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import pytest

from console.supervisor import jars
from console.supervisor.bootstrap import CannotStart
from recovery.server.java import find_java

KEY, SECRET = "reprise-tests", "a secret of these tests only"
BUCKET = "lab"
START_SECONDS = 60


@dataclass
class S3Server:
    """`port` on 127.0.0.1; `url("x")` names a key in the one bucket."""

    port: int
    process: subprocess.Popen[bytes]

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def url(self, key: str, scheme: str = "s3") -> str:
        return f"{scheme}://{BUCKET}/{key}"

    def options(self, secret: str = SECRET) -> dict[str, Any]:
        """What fsspec needs to reach it, as an operator writes it in `FSSPEC_S3`."""
        return {
            "key": KEY,
            "secret": secret,
            "endpoint_url": self.endpoint,
            "client_kwargs": {"region_name": "us-east-1"},
            "config_kwargs": {"s3": {"addressing_style": "path"}},
        }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def begin(folder: Path) -> S3Server:
    """Start s3proxy and wait until it answers. Raises CannotStart with its last words."""
    archive = jars.ensure_jars("s3proxy", tell=lambda _: None)[0]
    java = find_java(folder / "java").home / "bin" / "java"
    port = free_port()
    data = folder / "data"
    data.mkdir()
    settings = {
        "s3proxy.authorization": "aws-v2-or-v4",
        "s3proxy.identity": KEY,
        "s3proxy.credential": SECRET,
        "s3proxy.endpoint": f"http://127.0.0.1:{port}",
        "jclouds.provider": "filesystem-nio2",
        "jclouds.filesystem.basedir": str(data),
    }
    properties = folder / "s3proxy.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    log = folder / "s3proxy.log"
    with log.open("wb") as out:
        command = [str(java), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-jar", str(archive)]
        process = subprocess.Popen([*command, "--properties", str(properties)], stdout=out, stderr=out)
    server = S3Server(port, process)
    deadline = time.monotonic() + START_SECONDS
    while not _answers(server):
        if process.poll() is not None or time.monotonic() > deadline:
            end(server)
            raise CannotStart(f"s3proxy did not start: {log.read_text()[-500:]}")
    (data / BUCKET).mkdir()
    return server


def _answers(server: S3Server) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", server.port), 1):
        return True
    time.sleep(0.05)
    return False


def end(server: S3Server) -> None:
    """End it: asked first, then made to; gone when this returns."""
    server.process.terminate()
    try:
        server.process.wait(10)
    except subprocess.TimeoutExpired:
        server.process.kill()
        server.process.wait()


@contextlib.contextmanager
def reached_by(options: dict[str, Any]) -> Iterator[None]:
    """fsspec's configuration for S3 while this lasts."""
    before = dict(fsspec.config.conf)
    fsspec.config.conf["s3"] = options
    try:
        yield
    finally:
        fsspec.config.conf.clear()
        fsspec.config.conf.update(before)
        fsspec.get_filesystem_class("s3").clear_instance_cache()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """The one server of a test run."""
    with tempfile.TemporaryDirectory(prefix="reprise-s3-") as folder:
        server = begin(Path(folder))
        try:
            yield server
        finally:
            end(server)


@pytest.fixture
def s3(s3_server: S3Server) -> Iterator[S3Server]:
    """The server, with fsspec configured to reach it."""
    with reached_by(s3_server.options()):
        yield s3_server


def upload(folder: Path, url: str) -> None:
    """Copy a directory to a URL, key by key."""
    fs, root = fsspec.core.url_to_fs(url)
    for file in sorted(p for p in folder.rglob("*") if p.is_file()):
        fs.pipe_file(f"{root}/{file.relative_to(folder).as_posix()}", file.read_bytes())


__all__ = ["BUCKET", "KEY", "SECRET", "S3Server", "begin", "end", "reached_by", "s3", "s3_server", "upload"]
