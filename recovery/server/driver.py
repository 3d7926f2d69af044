"""The one warm Spark driver, and everything that only the owner of its JVM can do.

No client of Spark Connect can stop an update for sure, nor prove that it stopped: a query lives on when its
client is killed. The process that holds the JVM sees every query of the driver
(`SharedState.activeStreamingQueries`) and stops it there.
"""

import contextlib
import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from recovery.errors import Unreachable, WrongUse
from recovery.foreign import ForeignFolder
from recovery.numbers import whole
from recovery.server.confinement import Confinement
from recovery.server.eventlog import FOLDER_PREFIX
from recovery.server.gateway import Gateway, last_lines, launch_jvm, write_configuration
from recovery.server.java import find_java

if TYPE_CHECKING:
    from recovery.server.jvm import Session

USER = "reprise"
METASTORE = "spark/metastore"  # in the home
CONF = "driver/conf"  # in the home; what Spark runs for pipelines can read it, and write nothing in it
STOP_SECONDS = 15.0  # for Spark to end in order
MOST_ELEMENTS = 100_000  # of anything that Spark lists
APPLICATION = re.compile(r"[\w-]{1,100}\Z")
AUTHENTICATED = {"spark.authenticate": "true"}
"""The driver listens for executors where they are within it, too. Spark then makes a secret that no one else has; with
executors elsewhere it would need one that all of them are given."""
LOG = logging.getLogger(__name__)
ENDED_WELL = frozenset({"SUCCESSFUL", "EXCLUDED"})  # of the states in which Spark leaves a flow


class SparkDead(Exception):
    """The JVM no longer answers."""


class SparkSilent(SparkDead):
    """The JVM runs and does not answer: nothing is known of what it does."""


@dataclass(frozen=True)
class Settings:
    """What the driver is started with."""

    home: Path
    master: str
    #: 0: any free one
    port: int
    token: str
    memory: str = "1g"
    #: where executors on other machines reach the driver
    host: str = "127.0.0.1"
    #: further settings of Spark, one a line as in `spark-defaults.conf`; they win over ours
    more: str = ""
    #: a folder of connectors, on every machine of the driver
    jars: str = ""

    def spark(self) -> dict[str, str]:
        """Spark's configuration: loopback only, a metastore that outlives us, an event log read line by line.

        With executors elsewhere the driver listens to them too; Spark Connect stays on the loopback address.
        """
        temporary = self.home / "spark" / "tmp"
        derby = f"jdbc:derby:;databaseName={self.home}/{METASTORE};create=true"
        java = f'"-Dderby.stream.error.file={self.home}/spark/derby.log" "-Djava.io.tmpdir={temporary}"'
        return {
            "spark.master": self.master,
            "spark.app.name": "reprise-pipelines",
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.driver.memory": self.memory,
            "spark.driver.host": self.host,
            "spark.driver.bindAddress": "127.0.0.1" if self.host == "127.0.0.1" else "0.0.0.0",  # noqa: S104
            "spark.driver.extraJavaOptions": f"{java} -XX:+ExitOnOutOfMemoryError",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.local.dir": str(temporary),
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": (
                self.home / "eventlog"
            ).as_uri(),  # the one setting that Spark reads as a URI
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "true",
            "spark.eventLog.rolling.maxFileSize": "32m",
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.javax.jdo.option.ConnectionURL": derby,
            "spark.hadoop.hive.exec.scratchdir": str(temporary),
            "spark.hadoop.hive.exec.local.scratchdir": str(temporary),
            "spark.sql.warehouse.dir": f"file:{self.home}/warehouse",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.streaming.stopTimeout": "5s",
            # 4.2.0 hands column batches of Parquet to Python functions directly (ColumnarArrowEvalPython), and twice a
            # task of such a flow never ended; without it rows go through ArrowEvalPython, as in 4.1
            "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
            **(AUTHENTICATED if re.match(r"local(\[|\Z)", self.master) else {}),
            **connector_settings(self.jars),
        } | dict(line.split(None, 1) for line in settings_lines(self.more))


def connector_settings(folder: str) -> dict[str, str]:
    """Settings that load the archives of a folder, and make Delta known where it is among them.

    Delta cuts each snapshot into 50 partitions, for tables of millions of files; one is quicker for all others.
    Raises WrongUse when the folder holds no archive.
    """
    if not folder:
        return {}
    names = [file.name for file in Path(folder).glob("*.jar")]
    if not names:
        raise WrongUse(
            f"REPRISE_SPARK_JARS names {folder}, which holds no Java archive; name another folder, or none.",
            code="no_jars",
        )
    settings = {f"spark.{who}.extraClassPath": f"{folder}/*" for who in ("driver", "executor")}
    if any(name.startswith("delta-spark") for name in names):
        settings["spark.sql.extensions"] = "io.delta.sql.DeltaSparkSessionExtension"
        settings["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        settings["spark.databricks.delta.snapshotPartitions"] = "1"
    return settings


def settings_lines(text: str) -> list[str]:
    """The lines of a `spark-defaults.conf` that say something. Raises WrongUse for one without a value."""
    lines = [line.strip() for line in text.splitlines()]
    said = [line for line in lines if line and not line.startswith("#")]
    for line in said:
        if len(line.split(None, 1)) < 2:
            raise WrongUse(
                "A line of REPRISE_SPARK_CONF is not `name value`; write one setting of Spark a line."
            )
    return said


@dataclass(frozen=True)
class RunKey:
    """What belongs to one update on the driver: its Connect session, its graph, its storage root."""

    session_id: str
    graph_id: str
    storage: str


class Driver:
    """A running Spark driver. Its methods may be called from any thread."""

    def __init__(self, gateway: Gateway, session: "Session", settings: Settings) -> None:
        self.gateway = gateway
        self.session = session
        self.settings = settings
        service = session.jvm.org.apache.spark.sql.connect.service
        self.connect = getattr(service, "SparkConnectService$").__getattr__("MODULE$")
        self.port = int(self.connect.localPort())

    @property
    def jvm(self) -> Any:
        """py4j's view of the JVM."""
        return self.session.jvm

    @property
    def remote(self) -> str:
        """Spark Connect address without the token. Exactly `localhost`: any other spelling turns TLS on."""
        return f"sc://localhost:{self.port}/;user_id={USER}"

    def alive(self) -> bool:
        """Whether the JVM runs."""
        return self.gateway.alive()

    @property
    def event_log(self) -> Path:
        """The folder of this driver's event log, as Spark names it."""
        application = str(self.session.context.applicationId())
        if not APPLICATION.match(application):
            raise Unreachable(f"Spark calls itself {application[:100]!r}, which names no event log.")
        return self.settings.home / "eventlog" / f"{FOLDER_PREFIX}{application}"

    def ensure_database(self, catalog: str, database: str) -> None:
        """Make the database of a pipeline when it is not there. Raises what is in `java_errors`."""
        with watch_answers():
            self.session.spark.sql(f"CREATE DATABASE IF NOT EXISTS `{catalog}`.`{database}`")

    def drop_table(self, name: str) -> None:
        """Drop a table that a deleted pipeline made."""
        quoted = ".".join(f"`{part}`" for part in name.split("."))
        with watch_answers():
            self.session.spark.sql(f"DROP TABLE IF EXISTS {quoted}")

    def active_queries(self, storage: str) -> list[Any]:
        """Streaming queries of this driver whose checkpoint is under `storage`."""
        with watch_answers():
            active = self.session.spark.sharedState().activeStreamingQueries()
            queries = [active[key] for key in list(islice(active, MOST_ELEMENTS))]
            return [
                query
                for query in queries
                if query is not None  # one of the keys may be of a query that has ended meanwhile
                and lies_under(str(query.resolvedCheckpointRoot()), storage)
            ]

    def session_key(self, session_id: str) -> Any:
        """Spark's key of a Connect session that one of our runners opened."""
        return self.jvm.org.apache.spark.sql.connect.service.SessionKey(USER, session_id)

    def holder(self, session_id: str) -> Any | None:
        """Spark's SessionHolder of a Connect session, or None when there is none."""
        session = self.connect.sessionManager().getIsolatedSessionIfPresent(self.session_key(session_id))
        return session.get() if session.isDefined() else None

    def graph(self, run: RunKey) -> Any | None:
        """The dataflow graph of a run: with inputs and schemas once it executes, else as it was defined."""
        with watch_answers():
            if (execution := self.graph_execution(run)) is not None:
                return execution.graphForExecution()
            holder = self.holder(run.session_id)
            if holder is None:
                return None
            graph = holder.dataflowGraphRegistry().getDataflowGraph(run.graph_id)
            return graph.get().toDataflowGraph() if graph.isDefined() else None

    def graph_execution(self, run: RunKey) -> Any | None:
        """Spark's TriggeredGraphExecution of a run, once there is one.

        Read from the field: Spark's own accessors wait for the run to end (they share its monitor).
        """
        holder = self.holder(run.session_id)
        context = holder.getPipelineExecution(run.graph_id) if holder is not None and run.graph_id else None
        if context is None or not context.isDefined():
            return None
        execution = context.get().pipelineExecution().graphExecution()
        return execution.get() if execution.isDefined() else None

    def all_flows_ended_well(self, run: RunKey) -> bool:
        """Whether nothing is left of a run but that Spark notices its end, which it does 1 to 2 s later.

        Spark's loop over the flows (`TriggeredGraphExecution.topologicalExecution`) sleeps before it sees that a flow
        has ended, and once more before it sees that none is left: each time for the setting
        `spark.sql.pipelines.execution.streamstate.pollingInterval`. That is whole seconds; with 0 the loop would keep
        one core busy for as long as a run takes. So what the loop goes by is read here: a flow that has ended without
        an exception it only counts, and where none is queued, failed, skipped or canceled, all that it does then is to
        say that the run is COMPLETED.
        """
        with (
            watch_answers(),
            contextlib.suppress(*java_errors()),
        ):  # not to be read at this moment: Spark will say it
            execution = self.graph_execution(run)
            if execution is None:
                return False
            states = {
                str(entry._1().quotedString()): str(entry._2())
                for entry in self.elements(execution.pipelineState())
            }
            ended = {
                str(flow.identifier().quotedString())
                for flow in self.elements(execution.flowExecutions().values())
                if flow.isCompleted() and flow.exception().isEmpty()
            }
            return bool(ended) and all(
                state in ENDED_WELL or (state == "RUNNING" and name in ended)
                for name, state in states.items()
            )
        return False

    def flow_failures(self, run: RunKey) -> dict[str, str]:
        """Java's print of why each failed flow of a run failed, by name; read before its session is closed."""
        with watch_answers():
            execution = self.graph_execution(run)
            if execution is None:
                return {}
            failures = {}
            for flow in self.elements(execution.flowExecutions().values()):
                thrown = flow.exception()
                if thrown.isDefined():
                    name = str(flow.identifier().unquotedString())
                    failures[name] = str(self.stack_trace(thrown.get()))
            return failures

    def unresolved_flows(self, run: RunKey) -> dict[str, str]:
        """As `flow_failures` for a graph that could not be analysed: Spark tells its client only that it could not."""
        raw = self.graph(run)
        if raw is None:
            return {}
        failed = self.elements(raw.resolve().resolutionFailedFlows())
        failures = {str(f.identifier().unquotedString()): self.elements(f.failure()) for f in failed}
        printed = {
            name: [self.stack_trace(thrown) for thrown in failures] for name, failures in failures.items()
        }
        return {name: texts[0] for name, texts in printed.items() if texts}

    def stack_trace(self, thrown: Any) -> str:
        """What `Throwable.printStackTrace` prints."""
        writer = self.jvm.java.io.StringWriter()
        thrown.printStackTrace(self.jvm.java.io.PrintWriter(writer))
        return str(writer.toString())

    def elements(self, collection: Any) -> Iterator[Any]:
        """The elements of a Scala collection. Raises SparkDead for one without end: other people's code answers."""
        iterator = collection.iterator()
        for _ in range(MOST_ELEMENTS):
            if not iterator.hasNext():
                return
            yield iterator.next()
        raise SparkDead(f"Spark lists more than {MOST_ELEMENTS} of something.")

    def versions(self, flow: str) -> list[int]:
        """Checkpoint versions under a flow's checkpoint folder, on any file system that Spark opens, sorted."""
        with watch_answers():
            path = self.jvm.org.apache.hadoop.fs.Path(flow)
            files = path.getFileSystem(self.session.context.hadoopConfiguration())
            if not files.exists(path):
                return []
            names = [str(status.getPath().getName()) for status in files.listStatus(path)]
            return sorted(number for name in names if (number := whole(name)) is not None)

    def make_version(self, flow: str, number: int) -> None:
        """A new, empty checkpoint version: Spark takes the highest number and starts it from nothing."""
        with watch_answers():
            path = self.jvm.org.apache.hadoop.fs.Path(f"{flow}/{number}")
            path.getFileSystem(self.session.context.hadoopConfiguration()).mkdirs(path)

    def end(self) -> None:
        """End the driver and its JVM, in order where it still answers."""
        from recovery.server.jvm import answer_within

        if self.alive():
            with (
                contextlib.suppress(Exception),
                answer_within(STOP_SECONDS),
            ):  # the JVM is ended below whatever Spark says
                self.session.stop()
        self.gateway.end()
        self.session.disconnect()

    def kill(self) -> None:
        """End the JVM now, and with it all that it does: it does not answer, so nothing less would be proof."""
        self.gateway.kill()


def java_errors() -> tuple[type[Exception], ...]:
    """What a call into the JVM raises when Java does."""
    from py4j.protocol import Py4JJavaError

    return (Py4JJavaError,)


def java_cause(error: Exception) -> Any:
    """The Java exception behind one of `java_errors`; None behind another error."""
    return getattr(error, "java_exception", None)


@contextlib.contextmanager
def watch_answers() -> Iterator[None]:
    """Turns a lost JVM into SparkDead, one that does not answer in time into SparkSilent."""
    from py4j.protocol import Py4JNetworkError

    from recovery.server.jvm import JvmSilent

    try:
        yield
    except JvmSilent as error:
        raise SparkSilent(str(error)) from error
    except (Py4JNetworkError, ConnectionError) as error:
        raise SparkDead("Spark's JVM no longer answers.") from error


def lies_under(uri: str, root: str) -> bool:
    """Whether a checkpoint is under a storage root; Spark writes some of its URIs percent-encoded."""
    start = plain_path(root).rstrip("/") + "/"
    return any(plain_path(text).startswith(start) for text in (uri, unquote(uri)))


def plain_path(uri: str) -> str:
    """A checkpoint URI for comparing: `file:///a`, `file:/a` and `/a` are the same place."""
    scheme, colon, rest = uri.partition(":")
    if colon and "/" not in scheme:
        return rest if scheme != "file" else "/" + rest.lstrip("/")
    return uri


def remove_old_logs(folder: Path, *, keep: int = 5) -> None:
    """Event logs of former drivers, but for the newest. Pipelines' code may have left anything beside them."""
    logs, folder_store = ForeignFolder(folder), []
    for name in logs.names():
        with contextlib.suppress(OSError):
            folder_store.append((logs.facts(name).st_mtime_ns, name))
    for _, name in sorted(folder_store)[:-keep]:
        try:
            logs.remove(name)
        except OSError as error:
            LOG.warning("%r in %s cannot be removed: %s", name, folder, error.strerror)


def prepare_folders(home: Path) -> None:
    """The folders that Spark writes into. Raises Unreachable when they cannot be made."""
    try:
        for name in ("eventlog", "warehouse", "storage", "spark", CONF, "logs"):
            (home / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        ForeignFolder(home / "spark").provide_folder("tmp")
        if (former := home / "metastore").exists() and not (home / METASTORE).exists():
            former.rename(
                home / METASTORE
            )  # Derby makes its folder itself, so it is in one that the driver has
        remove_old_logs(home / "eventlog")
    except OSError as error:
        raise Unreachable(
            f"{home} cannot be written to ({error.strerror}); set REPRISE_HOME to a folder that can."
        ) from error


def folders_of_the_driver(home: Path) -> list[Path]:
    """What the driver keeps in the home, beside tables and checkpoints."""
    return [home / name for name in ("eventlog", "spark")]


def start_driver(
    settings: Settings,
    *,
    confinement: Confinement,
    environment: dict[str, str],
    on_pid: Iterable[Any] = (),
) -> Driver:
    """Start Spark and open its metastore. Raises Unreachable with the last lines of its log.

    `confinement`: what the driver sees, and so every function of a pipeline that it runs.
    """
    from py4j.protocol import Py4JError

    from recovery.server.jvm import open_session

    prepare_folders(settings.home)
    java = find_java(settings.home / "java")
    conf = settings.home / CONF
    write_configuration(conf, settings.spark())
    log = settings.home / "logs" / "spark.log"
    gateway = launch_jvm(
        java=java, conf=conf, log=log, cwd=settings.home / "spark", temporary=settings.home / "spark" / "tmp",
        confinement=replace(confinement, readable=(*confinement.readable, java.home)),
        environment=environment | {"SPARK_CONNECT_AUTHENTICATE_TOKEN": settings.token},
    )  # fmt: skip
    for tell in on_pid:
        tell(gateway.pid)
    try:
        session = open_session(gateway.port, gateway.secret)
        session.spark.sql("SHOW DATABASES").count()  # opens the metastore now, not in the first update
        return Driver(gateway, session, settings)
    except (Py4JError, *java_errors()) as error:
        reason = start_failure(error, log)  # asked of the JVM, so before it is ended
        gateway.end()
        raise Unreachable(f"Spark did not start: {reason}. See {log}.") from error


def start_failure(error: Exception, log: Path) -> str:
    """What Spark said when it could not start, in one line."""
    from py4j.protocol import Py4JError

    try:
        text = str(java_cause(error) or error)
    except (Py4JError, OSError):  # the JVM is gone
        text = ""
    if "Address already in use" in text:
        return "its port is in use; set REPRISE_SPARK_PORT to a free one, or to 0"
    return f"{text.splitlines()[0] if text else ''} {last_lines(log, 3)}".strip()
