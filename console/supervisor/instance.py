"""What one instance consists of: its secrets and addresses, and the command of every child."""

import http.client
import os
import secrets
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from console import workers
from console.supervisor import broker, kafka
from console.supervisor.apart import (
    OwnServer,
    environment_of,
    read_own_servers,
    settings_of_first,
    split_folders,
)
from console.supervisor.bootstrap import JARS, CannotStart
from console.supervisor.children import Child, child_environment
from console.supervisor.home import read_env, read_json, write_env
from console.supervisor.options import DemoOptions


@dataclass
class Instance:
    """One run of one home. `listener` is the console's socket, held here so that its port is never lost."""

    home: Path
    listener: socket.socket
    mark: str = field(default_factory=lambda: secrets.token_hex(16))
    settings: dict[str, str] = field(default_factory=dict)
    #: of the Kafka broker that comes with the connectors; 0: none
    kafka_port: int = 0
    #: Pipelines API servers of their own, by REPRISE_OWN_DRIVERS
    own: tuple[OwnServer, ...] = ()
    #: of their APIs, by environment
    own_ports: dict[str, int] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    @property
    def kafka(self) -> str:
        """What clients of its Kafka broker call `bootstrap.servers`; empty: there is none."""
        return kafka.bootstrap_address(self.kafka_port) if self.kafka_port else ""

    def child_environment(self) -> dict[str, str]:
        """For every child. PYSPARK_PYTHON: Spark would take PATH's python3, which has no pyarrow."""
        return child_environment(self.home, {**self.settings, "PYSPARK_PYTHON": sys.executable})


def listen_on(port: int) -> socket.socket:
    """Take the console's port before anything else is started. Raises CannotStart when it is in use."""
    taken = socket.socket(socket.AF_INET)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind(("127.0.0.1", port))
        taken.listen(128)
    except OSError as problem:
        taken.close()
        raise CannotStart(
            f"Port {port} cannot be used ({problem.strerror}); choose another one with --port "
            "(0 takes any free one)."
        ) from problem
    return taken


def given_setting(name: str) -> str:
    """What the person set, by the variable itself or its _FILE twin; else empty."""
    named = os.environ.get(f"{name}_FILE")
    return os.environ.get(name) or (Path(named).read_text().strip() if named else "")


def given_broker() -> str:
    """The broker that the person named; empty: bring one."""
    return given_setting("REPRISE_BROKER_URL")


def configure_instance(options: DemoOptions, listener: socket.socket) -> Instance:
    """Settle secret key, broker, databases and address; write them to `instance.env` for every bin/manage.

    A `bin/manage` that took SQLite where the instance has PostgreSQL would find an empty house.
    """
    path = options.home / "instance.env"
    instance = Instance(options.home, listener)
    before = read_env(path)
    instance.settings = {
        "REPRISE_SECRET_KEY": os.environ.get("REPRISE_SECRET_KEY")
        or before.get("REPRISE_SECRET_KEY")
        or secrets.token_urlsafe(48),
        "REPRISE_BROKER_URL": given_broker() or broker.broker_url(broker.socket_path(options.home)),
        "REPRISE_OUTBOUND_ALLOW": os.environ.get("REPRISE_OUTBOUND_ALLOW") or "127.0.0.1,localhost",
        "REPRISE_CONFINEMENT": given_setting("REPRISE_CONFINEMENT")
        or "optional",  # a demo starts on every machine
        "REPRISE_PUBLIC_URL": os.environ.get("REPRISE_PUBLIC_URL") or instance.url,
    }
    if options.connectors:
        instance.settings["REPRISE_SPARK_JARS"] = str(JARS / "connectors")
        instance.kafka_port = kafka_port(options.home)
    for name in ("REPRISE_DATABASE_URL", "REPRISE_PIPELINES_DATABASE_URL"):
        if url := given_setting(name):
            instance.settings[name] = url
    bring_own_servers(instance)
    write_env(path, instance.settings)
    return instance


def bring_own_servers(instance: Instance) -> None:
    """Settle the servers of REPRISE_OWN_DRIVERS: their homes and ports. Raises CannotStart."""
    asked = given_setting("REPRISE_OWN_DRIVERS")
    instance.own = read_own_servers(asked, instance.home)
    if not instance.own:
        return
    instance.settings["REPRISE_OWN_DRIVERS"] = asked
    kept = read_json(instance.home / "supervisor.json").get("own_ports", {})
    for server in instance.own:
        server.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        (server.home / "incident").mkdir(
            exist_ok=True
        )  # as the first server's: what is there at its start is shown
        port = kept.get(server.environment)
        is_good = isinstance(port, int) and kafka.is_free(port)
        instance.own_ports[server.environment] = port if is_good else kafka.free_port()


def web_answers(instance: Instance) -> bool:
    """Whether the console answers; any page will do, a fault of the server will not."""
    client = http.client.HTTPConnection("127.0.0.1", instance.listener.getsockname()[1], timeout=1)
    try:
        client.request("GET", "/healthz")
        return client.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        client.close()


def pipelines_port(home: Path) -> int:
    """The port that the Pipelines API had last time, so that its address stays; 0 if it is taken."""
    port = read_json(home / "supervisor.json").get("pipelines_port")
    return port if isinstance(port, int) and kafka.is_free(port) else 0


def kafka_port(home: Path) -> int:
    """The port of the Kafka broker: last time's, which is in the code of a pipeline, else any free one.

    Raises CannotStart when someone has it now.
    """
    port = read_json(home / "supervisor.json").get("kafka_port")
    if not isinstance(port, int):
        return kafka.free_port()
    if not kafka.is_free(port):
        raise CannotStart(
            f"Port {port}, where the demo's pipeline reads Kafka, is in use. End what uses it, or start over "
            "with --reset.",
            code="port_taken",
        )
    return port


def _says_ready(worker: Child) -> bool:
    return worker.said(" ready.")


def list_children(instance: Instance) -> list[Child]:
    """Every child in the order of its start; the broker only where none was given, Kafka only with connectors."""
    home, fd = instance.home, instance.listener.fileno()

    caller = instance.child_environment()
    data_roots = split_folders(given_setting("REPRISE_DATA_ROOTS"))

    def child(
        name: str,
        command: list[str],
        ready: Callable[[Child], bool],
        environment: dict[str, str] = caller,
        **how: Any,
    ) -> Child:
        log, mark = home / "logs" / f"{name}.log", f"{instance.mark}:{name}"
        return Child(name, command, environment, log, mark, ready, **how)

    def server(name: str, place: Path, port: int, environment: dict[str, str]) -> Child:
        command = [sys.executable, "manage.py", "serve_pipelines", "--port", str(port)]
        command += ["--token-file", str(place / "pipelines.token")]

        def is_ready(process: Child) -> bool:
            return read_json(place / "pipelines.json").get("pid") == process.pid

        return child(name, command, is_ready, environment, seconds=240, grace=20)

    place = broker.socket_path(home)
    broker_command = broker.server_command(place, home / "broker")
    first = settings_of_first(home, instance.own, data_roots)
    closed = bool(data_roots)
    web = [sys.executable, "-m", "gunicorn", "-c", "python:console.gunicorn", "console.wsgi:application"]
    web += ["--bind", f"fd://{fd}", "--workers", "1", "--threads", "8"]
    beat = [*workers.CELERY, "beat", "-l", "INFO", "-s", str(home / "beat-schedule"), "--pidfile="]
    port = instance.kafka_port
    kafka_command = kafka.broker_command(home / "kafka", port)
    all_of_them = [
        child("broker", broker_command, lambda _: broker.is_answering(place), seconds=15),
        child("kafka", kafka_command, lambda _: kafka.is_serving(port), seconds=90, grace=10),
        server("pipelines", home, pipelines_port(home), caller | first),
        *(
            server(
                server_apart.name,
                server_apart.home,
                instance.own_ports[server_apart.environment],
                environment_of(server_apart, instance.own, caller, home=home, is_closed=closed),
            )
            for server_apart in instance.own
        ),
        child("web", web, lambda _: web_answers(instance), seconds=90, inherit=(fd,)),
        *(
            child(name, [*workers.CELERY, *workers.worker_command(name)], _says_ready, seconds=90, grace=10)
            for name in workers.WORKERS
        ),
        child("beat", beat, lambda c: c.said("beat: Starting"), seconds=90),
    ]
    left_out = ["broker"] * bool(given_broker()) + ["kafka"] * (not port)
    return [server_apart for server_apart in all_of_them if server_apart.name not in left_out]
