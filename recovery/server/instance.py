"""The running server: its driver, its workspace, its updates. One for each process."""

import logging
import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from recovery.errors import Refused
from recovery.server.children import Children
from recovery.server.confinement import Confinement, PathAccess
from recovery.server.driver import Driver, SparkDead
from recovery.server.eventlog import LogFollower, QueryEvent
from recovery.server.forks import Runners
from recovery.server.jail import (
    check_storage,
    child_environment,
    local_path,
    machine_confinement,
    measure_protection,
    question_confinement,
)
from recovery.server.models import Pipeline
from recovery.server.problems import ApiProblem
from recovery.server.proof import ConfinementProof
from recovery.server.questions import Questions
from recovery.server.workspace import WorkspaceFolder

if TYPE_CHECKING:
    from recovery.server.execution import Execution

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class ServerPlace:
    """What the operator lets pipelines' code have of the machine."""

    #: empty: data may lie anywhere (REPRISE_DATA_ROOTS)
    data_roots: tuple[Path, ...] = ()
    #: of the server's environment (REPRISE_CODE_VARIABLES)
    variables: tuple[str, ...] = ()
    #: of servers of other environments: homes, data (REPRISE_HIDDEN_FOLDERS)
    hidden: tuple[Path, ...] = ()


class ServerInstance:
    """What requests and updates share. `driver` is None before Spark has started."""

    def __init__(
        self,
        home: Path,
        place: ServerPlace | None = None,
        *,
        remotes: Mapping[str, str] | None = None,
        environments: tuple[str, ...] = (),
    ) -> None:
        """`remotes`: other Sparks that questions may be about, addresses of Spark Connect by name.

        `environments`: the pipelines of these alone are run here; none: of all.
        """
        self.home = home
        self.environments = environments
        self.place = place or ServerPlace()
        self.spark_home = home  # the same folder, spelled as Spark needs it
        self.workspace = WorkspaceFolder(home / "workspace")
        self.children = Children(home / "pipelines.pids")
        self.spark_token = secrets.token_hex(32)
        own = [home / "updates", home / "questions"]
        self.runners = Runners(
            home / "logs" / "runners.log", self.children,
            confinement=self.confinement(readable=[home / "workspace"], writable=own),
            environment=self.environment(),
        )  # fmt: skip
        self.proof: ConfinementProof | None = None
        self.questions = Questions(home / "questions", self.runners, confine=self.place_of_question)
        self.remotes = dict(remotes or {})
        self.driver: Driver | None = None
        self.tail: LogFollower | None = None
        self.ending = False
        self.executions: dict[str, Execution] = {}
        self.turn = threading.Lock()

    def place_of_data(self) -> Confinement:
        """What of this machine a question may name: where pipelines' code may write, data is."""
        return self.confinement(writable=[self.home / "incident"])

    def check_storage(self, uri: str) -> None:
        """Raise Refused for a storage root in the home, or where this server's pipelines may not write: this process
        works on checkpoints with its own rights, and must not be led where their code could not go."""
        check_storage(uri, home=self.home)
        held, own = measure_protection(), self.home.resolve()
        elsewhere = [path for path in local_path(uri) if not path.resolve().is_relative_to(own)]
        if elsewhere and (held.bubblewrap or held.landlock):
            sight = self.place_of_data().sights()
            if any(sight(path) is not PathAccess.WRITABLE for path in elsewhere):
                raise Refused(
                    f"The storage {uri} is where this server's pipelines may not write. Name a folder where they "
                    "may, or none at all.",
                    code="storage_out_of_reach",
                )

    def place_of_question(self, folder: Path) -> Confinement | None:
        """What the fork of one question may open of what pipelines share; None where nothing can hold it to that."""
        if not measure_protection().landlock:
            return None
        roots = Pipeline.objects.values_list("spec__storage", flat=True)
        return question_confinement(home=self.home, folder=folder, others=[uri for uri in roots if uri])

    def confinement(
        self, *, readable: Sequence[Path] = (), writable: Sequence[Path] = (), links: Sequence[Path] = ()
    ) -> Confinement:
        """What a process for pipelines' code sees of this machine; of the home also what is named here."""
        return machine_confinement(
            home=self.home,
            data_roots=self.place.data_roots,
            hidden=self.place.hidden,
            readable=readable,
            writable=writable,
            links=links,
        )

    def environment(self) -> dict[str, str]:
        """The environment of such a process."""
        return child_environment(kept=self.place.variables)

    def use(self, driver: Driver) -> None:
        """Begin to work with a driver."""
        self.driver = driver
        self.tail = LogFollower(driver.event_log, self.on_query)
        self.tail.start()

    def on_query(self, event: QueryEvent) -> None:
        """Hand a query's event to the update whose Connect session started it."""
        with self.turn:
            execution = self.executions.get(event.session_id)
        if execution is not None:
            execution.tell_query(event)

    def need_driver(self) -> Driver:
        """The living driver. Raises SparkDead."""
        if self.driver is None or not self.driver.alive():
            raise SparkDead(
                "Spark's driver has ended; this server ends too, so that its supervisor starts it again."
            )
        return self.driver

    def kill_driver(self) -> None:
        """End a driver that does not answer: its updates end as cut off, and the server ends, to be started again."""
        if self.driver is not None:
            LOG.error("Spark's driver runs and does not answer; it is ended.")
            self.driver.kill()

    def connect_to(self, name: str) -> str:
        """The address, token included, of the Spark of this name; "": of our own driver.

        Raises SparkDead; ApiProblem 400 for a name that this server does not know.
        """
        if not name:
            return f"{self.need_driver().remote};token={self.spark_token}"
        if name not in self.remotes:
            text = f"This server knows no Spark named {name[:80]!r}; name it in REPRISE_SPARK_REMOTES there."
            raise ApiProblem(400, "INVALID_PARAMETER_VALUE", text, spark=name[:80])
        return self.remotes[name]

    def check_ready(self) -> None:
        """Whether an update can start. Raises ApiProblem 500 (a 503 would make clients wait for minutes)."""
        if self.ending:
            raise ApiProblem(
                500, "INTERNAL_ERROR", "This server is ending; start the update again in a minute."
            )
        try:
            self.need_driver()
        except SparkDead as error:
            raise ApiProblem(500, "INTERNAL_ERROR", str(error)) from error

    def begin(self, execution: "Execution") -> None:
        """Run an update in a thread of its own."""
        with self.turn:
            self.executions[execution.update_id] = execution
        execution.start()

    def finish(self, update_id: str) -> None:
        """An update is over."""
        with self.turn:
            self.executions.pop(update_id, None)

    def execution(self, update_id: str) -> "Execution | None":
        """The thread of a running update."""
        with self.turn:
            return self.executions.get(update_id)

    def running(self) -> "list[Execution]":
        """The threads of all running updates."""
        with self.turn:
            return list(self.executions.values())


_current: list[ServerInstance] = []


def set_current(instance: ServerInstance | None) -> None:
    """Make this the instance that requests meet; None: none."""
    _current[:] = [instance] if instance else []


def current_instance() -> ServerInstance:
    """The instance of this process. Raises RuntimeError outside of the server."""
    if not _current:
        raise RuntimeError("The Pipelines API server does not run in this process.")
    return _current[0]
