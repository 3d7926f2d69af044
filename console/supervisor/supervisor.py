"""Starts an instance, keeps it running, ends it.

One thread, no exceptions from signal handlers: SIGINT, SIGTERM and SIGHUP set a flag that every wait looks
at, so a signal can never come between starting a child and knowing about it. A second signal stops waiting
for anyone to end in peace.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

from console.supervisor import home as homes
from console.supervisor import processes
from console.supervisor.bootstrap import ROOT, CannotStart, progress_line
from console.supervisor.children import Child
from console.supervisor.instance import Instance, list_children
from console.supervisor.terminal import confinement_lines, print_line, sign_ins

TICK = 0.25  # seconds between two looks at the running children
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequested(Exception):
    """Someone asked us to end while we were waiting for something."""


class Supervisor:
    """The life of one instance: `start`, `watch` until a signal, `stop` in any case."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.children: list[Child] = []
        self.asked = 0  # signals so far
        self.helper = 0  # pid of the process that `run` waits for
        self.restart_at: dict[str, float] = {}
        self.refused = ""  # why the system refused something at the last look
        self.server: dict[str, Any] = {}  # pipelines.json as it was last seen
        self.announced: float | None = None  # its mtime when demo.json was last written; None: write it again

    # -- signals ---------------------------------------------------------------------------------------

    def listen_to_signals(self) -> None:
        for number in SIGNALS:
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.asked += 1

    def pause(self, seconds: float = 0.05) -> None:
        """Wait a moment; raises StopRequested when a signal came."""
        if self.asked:
            raise StopRequested
        time.sleep(seconds)
        processes.reap_children({c.pid for c in self.children} | {self.helper})

    # -- start -----------------------------------------------------------------------------------------

    def start(self, *, incident: bool, plain: bool = False) -> None:
        """Bring everything up. Raises CannotStart with one sentence, or StopRequested."""
        began = time.monotonic()
        first = not (self.instance.home / "people.json").exists()
        self._write_mark()
        self.children = list_children(self.instance)
        waiting = list(self.children)
        if waiting[0].name == "broker":
            self.bring_up([waiting.pop(0)])
        else:
            self.stage("broker", "Broker ready", "the one of REPRISE_BROKER_URL")
        if "REPRISE_SPARK_JARS" in self.instance.settings:
            self.stage("connectors", "Connectors ready", "Kafka and Delta")
        self.stage("databases", "Databases and static files ready")
        (self.instance.home / "incident").mkdir(
            exist_ok=True
        )  # the API server shows Spark what is there at its start
        self.bring_up(waiting)
        self.stage("people", "People and workspace ready")
        if incident:
            self.make_incident()
        if plain:
            self.make_orders()
        self.announce()
        print_line(progress_line("Reprise is ready", time.monotonic() - began))
        kept = self.instance.home / "people.json"
        failed = incident or plain
        lines = sign_ins(self.instance.url, self.people(), first=first, failed=failed, kept=kept)
        print_line("\n".join(["", *lines, *self.confinement_lines(), ""]))

    def confinement_lines(self) -> list[str]:
        """What holds pipelines' code too little, by the first Pipelines API server of which that is so."""
        servers = [
            self.server,
            *(homes.read_json(server.home / "pipelines.json") for server in self.instance.own),
        ]
        return next(filter(None, (confinement_lines(server.get("confinement")) for server in servers)), [])

    def _write_mark(self) -> None:
        """Name this run's mark before the first child exists, so that the next start can find them all."""
        path = self.instance.home / "supervisor.json"
        kept = homes.read_json(path)
        kept |= {"instance": self.instance.mark, "pid": os.getpid()}
        port = homes.read_json(self.instance.home / "pipelines.json").get("url", "").rpartition(":")[2]
        kept |= {"pipelines_port": int(port)} if port.isdigit() else {}
        kept |= {"kafka_port": self.instance.kafka_port} if self.instance.kafka_port else {}
        kept |= {"own_ports": self.instance.own_ports} if self.instance.own_ports else {}
        homes.write_private(path, json.dumps(kept))

    def bring_up(self, some: list[Child]) -> None:
        """Start these together and say each as it gets ready."""
        for child in some:
            child.start()
        waiting = list(some)
        while waiting:
            for child in [c for c in waiting if c.check_ready()]:
                waiting.remove(child)
                print_line(
                    progress_line(f"{child.name.capitalize()} ready", time.monotonic() - child.started)
                )
            self.pause()

    def run(self, command: list[str]) -> tuple[int, str]:
        """Run a helper process to its end; its lines on stdout are shown as they come.

        Returns its exit code and the last line of its stderr.
        """
        log = self.instance.home / "logs" / "start.log"
        mark = {processes.MARK: f"{self.instance.mark}:start"}
        log.parent.mkdir(exist_ok=True)
        with log.open("w+") as errors:
            helper = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=errors, start_new_session=True,
                env=self.instance.child_environment() | mark,
            )  # fmt: skip
            self.helper = helper.pid
            try:
                while helper.poll() is None:
                    self.pause()
            finally:
                if helper.poll() is None:
                    processes.end_marked(mark[processes.MARK], grace=2)
                    helper.wait()
            errors.seek(0)
            lines = [line.strip() for line in errors.read().splitlines() if line.strip()]
        return helper.returncode, lines[-1] if lines else f"no output; exit code {helper.returncode}"

    def stage(self, name: str, says: str, note: str = "") -> None:
        began = time.monotonic()
        code, last = self.run([sys.executable, "-m", "console.supervisor.prepare", name])
        if code:
            raise CannotStart(last)
        print_line(progress_line(says, time.monotonic() - began, note))

    def make_incident(self) -> None:
        """The incident is run, never copied; the instance is useful without it, so a failure is only said."""
        began = time.monotonic()
        command = [sys.executable, "-m", "console.incident"]
        code, last = self.run([*command, self.instance.kafka] if self.instance.kafka else command)
        if code:
            print_line(f"  The incident could not be made: {last}")
        else:
            print_line(progress_line("Incident ready", time.monotonic() - began))

    def make_orders(self) -> None:
        """The plain stream; the instance is useful without it, as without the incident."""
        began = time.monotonic()
        print_line("  Plain stream orders, files into a file table:")
        code, last = self.run([sys.executable, "-m", "console.supervisor.prepare", "orders"])
        if code:
            print_line(f"  The plain stream could not be made: {last}")
        else:
            print_line(progress_line("Plain stream ready", time.monotonic() - began))

    # -- what others read ------------------------------------------------------------------------------

    def people(self) -> dict[str, dict[str, str]]:
        return homes.read_json(self.instance.home / "people.json")

    def announce(self) -> None:
        """Write demo.json as things are now: addresses, people, process ids."""
        home = self.instance.home
        source = home / "pipelines.json"
        seen, self.announced = source.stat().st_mtime if source.exists() else 0.0, None
        self.server = homes.read_json(source) or self.server
        pids = {"supervisor": os.getpid()} | {c.name: c.pid for c in self.children}
        if self.server["pid"] == pids["pipelines"]:  # else Spark is just starting again, with the server
            pids["spark"] = self.server["spark_pid"]
        people = self.people()
        homes.write_private(
            home / "demo.json",
            json.dumps(
                {
                    "console_url": self.instance.url,
                    "console_token": people["admin"]["token"],
                    "pipelines_url": self.server["url"],
                    "pipelines_token": (home / "pipelines.token").read_text().strip(),
                    "spark_remote": self.server["spark_remote"],
                    "users": people,
                    "pids": pids,
                    **({"kafka": self.instance.kafka} if self.instance.kafka else {}),
                },
                indent=2,
            ),
        )
        self._write_mark()
        self.keep_port()
        self.announced = seen  # last: what a full disk kept from being written is written again

    def keep_port(self) -> None:
        """An API server that is started again takes the port it had: its address is in the database."""
        port = self.server["url"].rpartition(":")[2]
        for child in self.children:
            if child.name == "pipelines":
                child.command[child.command.index("--port") + 1] = port

    # -- watch -----------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Start again what dies, keep demo.json true; returns when a signal came."""
        try:
            while True:
                self.pause(TICK)
                self.look_around()
        except StopRequested:
            return

    def look_around(self) -> None:
        """One look at everything. What the system refuses (a full disk, no more processes) is tried again
        with the next look: an instance whose supervisor ended would not come back when there is room again.
        """
        refused = ""
        looks: list[Callable[[], None]] = [partial(self.look_at, child) for child in self.children]
        for look in [*looks, self.follow_pipelines]:
            try:
                look()
            except OSError as problem:
                refused = problem.strerror or str(problem)
        if refused and refused != self.refused:
            print_line(f"  The system refuses something ({refused}); trying again until it is done")
        self.refused = refused

    def look_at(self, child: Child) -> None:
        """One look at one child: dead, due to start again, or just got ready; its log is kept from growing for ever."""
        child.turn_log()
        if child.name in self.restart_at:
            if time.monotonic() >= self.restart_at[child.name]:
                child.start()
                del self.restart_at[child.name]
                self.announced = None
        elif how := child.ended():
            child.clear()
            if child.name == "pipelines":
                (self.instance.home / "pipelines.json").unlink(missing_ok=True)
            wait = child.wait_before_restart()
            self.restart_at[child.name] = time.monotonic() + wait
            soon = "starting it again" if not wait else f"starting it again in {wait:.0f} s"
            print_line(f"  {child.name.capitalize()} ended ({how}), {soon}; {child.log} has its last words")
        elif not child.is_ready and child.ready(child):
            child.is_ready = True
            print_line(
                progress_line(f"{child.name.capitalize()} ready again", time.monotonic() - child.started)
            )

    def follow_pipelines(self) -> None:
        """Write demo.json again when a child, the API server or its Spark was started again."""
        try:
            changed = (self.instance.home / "pipelines.json").stat().st_mtime != self.announced
        except FileNotFoundError:  # the server is starting; the file comes when it is ready
            changed = self.announced is None
        if changed:
            self.announce()

    # -- stop ------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End what was started, in reverse order; demo.json goes first, so no one begins to use it now."""
        (self.instance.home / "demo.json").unlink(missing_ok=True)
        asked = self.asked
        for child in reversed(self.children):
            if child.process:
                began = time.monotonic()
                child.stop(hurry=lambda: self.asked > max(asked, 1))
                print_line(progress_line(f"{child.name.capitalize()} ended", time.monotonic() - began))
        processes.end_marked(f"{self.instance.mark}:", grace=1)
        for name in ("pipelines.json", "broker.sock"):
            (self.instance.home / name).unlink(missing_ok=True)
