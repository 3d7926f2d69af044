"""The server as a process: what it claims at start, in which order, and how it ends.

Start: folder, lock, database, what a former server left behind, HTTP port, Spark, updates left active, then
`pipelines.json` says that it is ready. End: no new updates, runners, Spark, files. Each part is cheap to fail
before the expensive next one begins.
"""

import contextlib
import fcntl
import json
import logging
import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from django.conf import settings
from django.core.management import call_command

from recovery.errors import Unreachable, WrongUse
from recovery.server import keeping
from recovery.server.auth import private_write, provide_token
from recovery.server.driver import Settings, folders_of_the_driver, start_driver
from recovery.server.events import format_iso, now_ms
from recovery.server.http import LARGEST_QUESTION, ApiHandler
from recovery.server.instance import ServerInstance, ServerPlace, set_current
from recovery.server.proof import ConfinementDemand, ConfinementLevel, check_proof, prove_confinement
from recovery.server.questions import AT_ONCE
from recovery.server.storage_symlink import spark_home
from recovery.server.updates import fail_left_active

LOG = logging.getLogger(__name__)
SPARK_LOST = 3
GRACE_SECONDS = 5.0
READY_FILES = ("pipelines.json", "spark.remote", "spark.token")


@dataclass(frozen=True)
class ServerOptions:
    """What the command was asked for. `port` and `spark_port` 0 mean any free one."""

    home: Path
    host: str
    port: int
    token_file: Path
    master: str
    spark_port: int
    driver_host: str = "127.0.0.1"
    spark_conf: str = ""
    spark_jars: str = ""
    spark_remotes: str = ""
    place: ServerPlace = field(default_factory=ServerPlace)
    environments: tuple[str, ...] = ()
    demand: ConfinementDemand = ConfinementDemand.REQUIRED


class Server:
    """One running server."""

    def __init__(self, options: ServerOptions) -> None:
        self.options = options
        remotes = parse_remotes(options.spark_remotes)
        environments = options.environments
        self.instance = ServerInstance(
            options.home, options.place, remotes=remotes, environments=environments
        )
        self.lock: TextIO | None = None
        self.socket: socket.socket | None = None
        self.http: Any = None
        self.pruner: keeping.Pruner | None = None
        self.ending = threading.Event()
        self.started_ms = now_ms()

    def start(self) -> dict[str, Any]:
        """Start everything; the content of pipelines.json. Raises RepriseError, having ended what it had begun."""
        try:
            check_hidden(self.options.place)
            self.claim()
            self.instance.children.end_left_over()
            self.instance.questions.clear()
            call_command("migrate", database="pipelines", interactive=False, verbosity=0)
            provide_token(self.options.token_file)
            self.socket = bind_socket(self.options.host, self.options.port)
            self.instance.runners.start()  # its imports take their time while Spark takes its own
            self.start_spark_and_prove_its_place()
            left = fail_left_active()
            if left:
                LOG.warning("%s update(s) were left active by a former server; they are ended now", left)
            self.serve()
            return self.announce()
        except BaseException:
            self.end()
            raise

    def claim(self) -> None:
        """The folder, and the lock that makes this the only server in it. Raises Unreachable."""
        home = self.options.home
        try:
            home.mkdir(parents=True, exist_ok=True, mode=0o700)
            for name in ("workspace", "updates", "logs"):
                (home / name).mkdir(exist_ok=True, mode=0o700)
            lock = (home / "pipelines.lock").open("a")
        except OSError as error:
            text = f"{home} cannot be written to ({error.strerror}); set REPRISE_HOME to a folder that can."
            raise Unreachable(text) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.close()
            raise Unreachable(
                f"Another Pipelines API server already runs in {home}; stop it first."
            ) from error
        self.lock = lock  # from here on the files of this folder are ours to remove
        self.instance.spark_home = spark_home(home)

    def start_spark_and_prove_its_place(self) -> None:
        """The driver, and meanwhile the probe of the place that pipelines' code has. Raises Refused, Unreachable.

        Until the server answers, no one's code runs.
        """
        home = self.options.home
        confinement = self.instance.confinement(writable=[home / "updates"])
        with ThreadPoolExecutor(1) as probing:
            proof = probing.submit(prove_confinement, home, confinement, self.options.place.hidden)
            self.start_spark()
            self.instance.proof = proof.result()
        check_proof(self.instance.proof, self.options.demand)
        if self.instance.proof.level is not ConfinementLevel.FULL:
            LOG.warning(
                "Pipelines' code is not kept from everything: it reached %s; namespaces: %s, Landlock: %s %s",
                ", ".join(self.instance.proof.reached),
                self.instance.proof.namespaces,
                self.instance.proof.landlock,
                self.instance.proof.why,
            )

    def start_spark(self) -> None:
        """The driver. Its JVM is on record before anything else can fail."""
        options = self.options
        jars = [Path(options.spark_jars)] * bool(options.spark_jars)
        settings = Settings(
            options.home, options.master, options.spark_port, self.instance.spark_token,
            host=options.driver_host, more=options.spark_conf, jars=options.spark_jars,
        )  # fmt: skip
        driver = start_driver(
            settings,
            confinement=self.instance.confinement(
                readable=jars, writable=folders_of_the_driver(options.home), links=[self.instance.spark_home]
            ),
            environment=self.instance.environment(),
            on_pid=[self.instance.children.add],
        )
        self.instance.use(driver)

    def serve(self) -> None:
        """Answer HTTP from now on, in threads of its own."""
        import waitress

        set_current(self.instance)
        logging.getLogger("waitress.queue").setLevel(
            logging.ERROR
        )  # it warns of every request that waits a moment
        self.http = waitress.create_server(
            ApiHandler(),
            sockets=[self.socket],
            threads=16 + AT_ONCE,  # a question holds one while it is answered
            max_request_body_size=LARGEST_QUESTION,  # before it is in memory or on the disk; each route bounds its own
            channel_request_lookahead=1,  # else no one would notice that an asker has hung up
            ident="reprise-pipelines",
            clear_untrusted_proxy_headers=True,
        )
        threading.Thread(target=self.http.run, name="http", daemon=True).start()
        keep = keeping.KeepingRule(settings.REPRISE_KEEP_UPDATE_DAYS, settings.REPRISE_KEEP_UPDATES)
        self.pruner = keeping.Pruner(self.options.home, keep)
        self.pruner.start()

    def announce(self) -> dict[str, Any]:
        """Write the files that tell others where we are; pipelines.json last: it means ready."""
        assert self.instance.driver is not None
        assert self.socket is not None
        driver, home = self.instance.driver, self.options.home
        host, port = self.socket.getsockname()[:2]
        remote = f"{driver.remote};token={self.instance.spark_token}"
        ready = {
            "url": f"http://{host}:{port}",
            "spark_remote": remote,
            "pid": os.getpid(),
            "spark_pid": driver.gateway.pid,
            "started_at": format_iso(self.started_ms),
            "confinement": self.instance.proof.as_public() if self.instance.proof else None,
            "environments": list(self.options.environments),
        }
        private_write(home / "spark.token", self.instance.spark_token + "\n")
        private_write(home / "spark.remote", remote + "\n")
        private_write(home / "pipelines.json", json.dumps(ready) + "\n")
        return ready

    def wait(self) -> int:
        """Run until asked to end (0), or until Spark is lost (3, after a moment in which the API says so)."""
        signal.signal(signal.SIGTERM, self.on_signal)
        signal.signal(signal.SIGINT, self.on_signal)
        assert self.instance.driver is not None
        while not self.ending.wait(0.2):
            if not self.instance.driver.alive():
                LOG.error(
                    "Spark's driver has ended; this server ends too. Its log: %s",
                    self.instance.driver.gateway.log,
                )
                for execution in self.instance.running():
                    execution.end_runner()
                self.ending.wait(GRACE_SECONDS)
                return SPARK_LOST
        return 0

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        """SIGTERM and Ctrl-C."""
        self.ending.set()

    def end(self) -> None:
        """End what was started, in the opposite order; called again it does nothing more."""
        self.instance.ending = True
        if self.lock is not None:
            for name in READY_FILES:
                with contextlib.suppress(OSError):
                    (self.options.home / name).unlink(missing_ok=True)
        if self.pruner is not None:
            self.pruner.ending.set()
        self.end_updates()
        self.instance.runners.end()
        if self.http is not None:
            self.http.close()
        if self.socket is not None:
            self.socket.close()
        if self.instance.tail is not None:
            self.instance.tail.end()
        if (driver := self.instance.driver) is not None:
            driver.end()
            self.instance.children.remove(driver.gateway.pid)
        set_current(None)
        if self.lock is not None:
            self.lock.close()

    def end_updates(self, *, seconds: float = 8.0) -> None:
        """End the runners; their updates end as FAILED, and say why."""
        for execution in self.instance.running():
            execution.tell({"kind": "shutdown"})
        deadline = time.monotonic() + seconds
        for execution in self.instance.running():
            execution.join(max(0.0, deadline - time.monotonic()))


def check_hidden(place: ServerPlace) -> None:
    """Raise WrongUse where a folder of another environment could not be hidden: one that is made later would be seen,
    and one that holds this server's own data is shown."""
    roots = {root.resolve() for root in place.data_roots}
    for folder in place.hidden:
        if not folder.is_absolute() or not folder.exists():
            raise WrongUse(
                f"REPRISE_HIDDEN_FOLDERS names {folder}, which is not there. Make it before this server starts."
            )
        if folder.resolve() in roots:
            raise WrongUse(
                f"{folder} is in REPRISE_HIDDEN_FOLDERS and in REPRISE_DATA_ROOTS; take it out of one."
            )


def parse_remotes(text: str) -> dict[str, str]:
    """Addresses of Spark Connect by name: a line each, `name sc://host:port/;token=…`. Raises WrongUse, naming none."""
    remotes: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, _, address = line.partition(" ")
        if not address.strip().startswith("sc://"):
            raise WrongUse("A line of REPRISE_SPARK_REMOTES is not `name sc://host:port/;token=…`.")
        remotes[name] = address.strip()
    return remotes


def bind_socket(host: str, port: int) -> socket.socket:
    """The listening socket. Raises Unreachable when the port is taken or the address is none of ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise Unreachable(
            f"The Pipelines API server cannot listen on {host}:{port} ({error.strerror}); name a free port with --port."
        ) from error
    return listener


__all__ = ["ConfinementDemand", "Server", "ServerOptions", "ServerPlace"]
