"""The life of one running update: a thread that hears the runner, the event log and the wish to stop.

Everything arrives in one queue and is handled in order by this thread alone, so nothing here needs a lock.
However an update ends (done, failed, stopped, runner killed), the same last steps follow: end the runner,
stop what is left on the driver and prove that nothing is, then write down the outcome. A crash of the server
before that leaves the update active in the database; the next start ends it.
"""

import contextlib
import logging
import queue
import signal
import threading
import time
from pathlib import Path
from typing import Any

from django.db import InternalError, OperationalError, connections, transaction

from recovery import errors, trace, variables
from recovery.blaming import find_code_failure, read_exception
from recovery.foreign import ForeignFolder
from recovery.server import events, only_databricks, out_of_sight
from recovery.server.confinement import Confinement
from recovery.server.driver import RunKey, SparkDead, SparkSilent, java_cause, java_errors, watch_answers
from recovery.server.eventlog import QueryEvent
from recovery.server.flow_events import FlowLog
from recovery.server.forks import NoRunner
from recovery.server.graph import Graph, qualify_name, read_graph
from recovery.server.instance import ServerInstance
from recovery.server.jail import measure_protection, pipeline_confinement
from recovery.server.java_exceptions import parse_chain
from recovery.server.messages import FlowReport, RunReport, parse_message
from recovery.server.models import ACTIVE_STATES, Pipeline, Update
from recovery.server.resets import Selection, SelectionRefused, list_emptied, prepare_run
from recovery.server.runners import MOST_WAITING, Runner
from recovery.server.sources import NoDefinitions, library_paths, take_snapshot
from recovery.server.specs import database_of, root_of
from recovery.server.stopping import quiesce_run

LOG = logging.getLogger(__name__)
QUIET_SECONDS = 60.0
END_POLL_SECONDS = 0.05
RECORD_AGAIN_SECONDS = 2.0
MOST_QUERIES_WAITING = 20_000  # lines of Spark's event log
LEVELS = {"FAILED": "ERROR"}
# Of the database itself, so that the same write may succeed later: a full disk, a lock, a lost connection; a standby.
REFUSED_WRITES = (OperationalError, InternalError)
ENDED_FOR_SILENCE = (
    "That all of this update had stopped there could not be proven, so the driver was ended; "
    "the server starts it again."
)


class Failure(Exception):
    """The update has failed; `error` is the `error` of its last event. `lost_spark`: all that is known is that Spark
    did not answer any more, where none of people's code ran."""

    def __init__(
        self,
        sentence: str,
        error: dict[str, Any] | None = None,
        flow: str | None = None,
        *,
        lost_spark: bool = False,
    ) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.error = error or events.simple_error(sentence)
        self.flow = flow
        self.lost_spark = lost_spark


def failure_of_lost_spark(sentence: str) -> Failure:
    """The failure of an update that ended because what it ran on did."""
    return Failure(sentence, events.simple_error(sentence, events.CUT), lost_spark=True)


def failure_of_silent_spark(error: SparkSilent) -> Failure:
    """The failure of an update whose Spark runs and does not answer: no one starts it again unasked."""
    return Failure(str(error), events.simple_error(str(error), events.SILENT))


def bad_report(code: str) -> Failure:
    """The failure of an update whose runner sent what is no report; `code` as `BadReport` has it."""
    sentence = (
        f"The runner process of this update sent what is no report ({code}), and was ended for it. Only the pipeline's "
        "code can also write there."
    )
    return Failure(sentence, events.simple_error(sentence, events.BAD_REPORT))


class Execution(threading.Thread):
    """Carries out one update. `tell` may be called from any thread."""

    def __init__(self, instance: ServerInstance, update: Update) -> None:
        super().__init__(name=f"update-{update.id}", daemon=True)
        self.request_id = trace.current()  # a thread begins without its maker's context
        self.instance = instance
        self.update_id = update.id
        self.update = update
        self.pipeline: Pipeline = update.pipeline
        self.folder = update_folder(instance.home, update.id)
        self.inbox: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.runner: Runner | None = None
        self.graph_id = ""
        self.flows = FlowLog(self.pipeline, update.id, self.why)
        self.reported: Failure | None = None
        self.completed = False
        self.stopping = False

    def tell(self, message: dict[str, Any]) -> None:
        """Put a message into this update's queue."""
        self.inbox.put(message)

    def tell_query(self, event: QueryEvent) -> None:
        """Put what Spark's event log says of a query into the queue; where too much waits there already, count it."""
        if self.inbox.qsize() > MOST_WAITING + MOST_QUERIES_WAITING:
            self.flows.room.count_waiting()
        else:
            self.tell({"kind": "query", "event": event})

    @property
    def key(self) -> RunKey:
        """What belongs to this update on the driver."""
        return RunKey(self.update_id, self.graph_id, str(self.update.spec["storage"]))

    def run(self) -> None:
        """The thread: what it logs belongs to the request that started the update."""
        with trace.bound(self.request_id):
            self.live()

    def live(self) -> None:
        """From the start to the end. A bug in here ends the update as FAILED and is logged with its traceback."""
        try:
            failure = self.carry_out()
            self.settle(failure)
        except REFUSED_WRITES:
            LOG.exception("update %s could not be recorded", self.update_id)
            self.abandon(is_cut_off=True)
        except Exception:
            LOG.exception("update %s could not be carried out", self.update_id)
            self.abandon()
        finally:
            self.instance.finish(self.update_id)
            connections.close_all()

    def abandon(self, *, is_cut_off: bool = False) -> None:
        """Stop what can be stopped, and in any case end the update in the database. `is_cut_off`: the database refused
        a write; else a bug of ours ended it."""
        is_quiet = False
        try:
            self.end_runner()
            is_quiet = quiesce_run(self.instance.need_driver(), self.key, seconds=QUIET_SECONDS)
        except SparkSilent:
            self.instance.kill_driver()
        except SparkDead:
            is_quiet = True
        except Exception:
            LOG.exception("update %s could not be stopped either", self.update_id)
        sentence = "The server met an error of its own in this update; see its log."
        if is_cut_off:
            sentence = "The server's database refused a write during this update, which was cut off."
        # what is cut off is started again, so nothing of it may be left on Spark
        is_lost = is_cut_off and is_quiet and not self.flows.any_failed()
        self.finish("FAILED", failure_of_lost_spark(sentence) if is_lost else Failure(sentence))

    def carry_out(self) -> Failure | None:
        """Start the runner and hear it out. Returns why the update failed, or None."""
        try:
            with watch_answers():
                self.move("INITIALIZING")
                self.start_runner()
                self.listen()
        except Failure as failure:
            return failure
        except (NoDefinitions, SelectionRefused) as refusal:
            error = events.simple_error(str(refusal), getattr(refusal, "class_name", "PipelineException"))
            return Failure(str(refusal), error)
        except SparkSilent as error:
            return self.reported or failure_of_silent_spark(error)
        except SparkDead as error:
            return self.ended_with(error)
        return None

    def ended_with(self, error: SparkDead, failure: Failure | None = None) -> Failure:
        """The failure of an update whose Spark is gone: cut off, unless what people wrote had failed before."""
        known = failure or self.reported
        if known is not None and not known.lost_spark:
            known.sentence = f"{known.sentence} {error} This update ended with it."
            return known
        before = f"{known.sentence} " if known else ""
        sentence = f"{before}{error} This update ended with it."
        return Failure(sentence) if self.flows.any_failed() else failure_of_lost_spark(sentence)

    def start_runner(self) -> None:
        """Copy the definitions, make the database, start the runner."""
        spec, driver = self.update.spec, self.instance.need_driver()
        self.folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        ForeignFolder(self.folder.parent).make_folder(self.folder.name)
        snapshot = take_snapshot(spec, self.instance.workspace, self.folder / "source")
        (self.folder / "tmp").mkdir(exist_ok=True, mode=0o700)
        validate_only = bool(self.update.options.get("validate_only"))
        # Spark cannot even define a graph in a database that is not there, so validate_only makes it too.
        self.check_storage(str(spec["storage"]))
        self.make_database(str(spec["catalog"]), database_of(spec))
        arguments = {
            "remote": driver.remote,
            "session_id": self.update_id,
            "catalog": spec["catalog"],
            "database": database_of(spec),
            "storage": spec["storage"],
            "configuration": spec["configuration"],
            "variables": variables.of_settings(spec),
            "validate_only": validate_only,
            "folder": str(self.folder),
            "root": str(snapshot.root),
            "files": [[p, str(c), str(self.instance.workspace.locate(p))] for p, c in snapshot.files],
        }
        instance = self.instance
        try:
            self.runner = Runner(
                instance.runners, self.folder, arguments, self.tell, token=instance.spark_token,
                confinement=self.confinement() if measure_protection().landlock else None,
                waiting=self.inbox.qsize,
            )  # fmt: skip
        except NoRunner as error:
            raise Failure(str(error)) from error

    def confinement(self) -> Confinement:
        """What this update's definitions may open of what pipelines share. Raises Failure.

        Of its own folder they write the temporary files alone: the source that is there is the record of what ran.
        """
        spec, workspace = self.update.spec, self.instance.workspace
        top = workspace.locate(root_of(spec))
        libraries = [workspace.locate(path) for path in library_paths(spec, workspace)]
        others = Pipeline.objects.exclude(id=self.pipeline.id).values_list("spec__storage", flat=True)
        try:
            return pipeline_confinement(
                home=self.instance.home,
                folder=self.folder / "tmp",
                sources=[self.folder, *libraries, *[top] * (top != workspace.root)],
                storage=str(spec["storage"]),
                others=[uri for uri in others if uri],
            )
        except errors.Refused as refusal:
            raise Failure(refusal.sentence) from refusal

    def check_storage(self, uri: str) -> None:
        """Again at each start: links may lead elsewhere since the settings were saved. Raises Failure."""
        try:
            self.instance.check_storage(uri)
        except errors.Refused as refusal:
            raise Failure(refusal.sentence) from refusal

    def make_database(self, catalog: str, database: str) -> None:
        """The pipeline's database. Raises Failure with Spark's words, e.g. for a catalog that is not there."""
        try:
            self.instance.need_driver().ensure_database(catalog, database)
        except java_errors() as error:
            thrown = java_cause(error)
            words = str(thrown.getMessage() or thrown.toString())
            sentence = f"The database {catalog}.{database} cannot be made: {words}"
            raise Failure(
                sentence, events.simple_error(words, str(thrown.getClass().getSimpleName()))
            ) from error

    def listen(self) -> None:
        """Handle messages until the runner has ended. Raises Failure."""
        while True:
            try:
                message = self.inbox.get(timeout=END_POLL_SECONDS if self.flows.all_ended_well() else None)
            except queue.Empty:
                self.end_if_nothing_left()
                continue
            kind = message["kind"]
            if kind == "ended":
                break
            if kind == "shutdown":
                self.end_runner()
                sentence = "The server was stopped while this update ran; start it again."
                self.reported = self.reported or Failure(sentence, lost_spark=True)
            elif kind == "stop":
                self.stopping = True
                self.end_runner()
            elif kind == "query":
                self.flows.on_query(message["event"])
            elif kind == "error":
                self.reported = self.reported_failure(message)
            elif kind == "bad_report":
                self.reported = bad_report(message["code"])
            elif not self.stopping:
                self.on_report(kind, message)
        if self.reported:
            raise self.reported
        if not self.completed and not self.stopping:
            raise self.silent_end(message["code"])

    def end_if_nothing_left(self) -> None:
        """Every flow has said that it ended well: end the run as soon as Spark itself has nothing left to do in it."""
        if not self.completed and self.instance.need_driver().all_flows_ended_well(self.key):
            self.completed = True
            self.end_runner()

    def on_report(self, kind: str, message: dict[str, Any]) -> None:
        """A report of the runner: connected, graph, event or done."""
        if kind == "connected":
            self.graph_id = message["graph_id"]
        elif kind == "graph":
            self.on_graph()
        elif kind == "event":
            self.on_event(message["time_ms"], message["message"])

    def on_graph(self) -> None:
        """The graph is defined and nothing runs yet: the moment for resets and for fixing what will run."""
        graph = self.read_graph()
        selection = Selection.from_request(self.update.options, self.update.spec)
        versions = prepare_run(self.instance.need_driver(), self.update.spec["storage"], graph, selection)
        self.flows.define(graph, versions)
        if selection.validate_only:
            self.flows.record_definitions()
        else:
            self.move("SETTING_UP_TABLES")
        assert self.runner is not None
        self.runner.order(
            refresh=list(selection.refresh),
            full_refresh=list(selection.full_refresh),
            full_refresh_all=selection.full_refresh_all,
        )

    def read_graph(self) -> Graph:
        """The graph as the driver has it now. Raises Failure where Spark refuses it as a whole (an empty one)."""
        driver = self.instance.need_driver()
        try:
            raw = driver.graph(self.key)
            return read_graph(driver, raw) if raw is not None else Graph()
        except java_errors() as refused:
            chain = parse_chain(driver.stack_trace(java_cause(refused)))
            raise Failure(chain[0]["message"].strip(), events.error_of(chain)) from refused

    def on_event(self, at_ms: int, text: str) -> None:
        """One sentence of Spark's run."""
        said = parse_message(text)
        if isinstance(said, RunReport):
            self.completed = said.state == "COMPLETED"
        elif isinstance(said, FlowReport):
            if not self.flows.defined:
                self.flows.define(self.read_graph(), self.flows.versions)
                self.flows.record_definitions(at_ms)
                if not said.unresolved:  # set-up is over; what cannot be analysed is never set up
                    selection = Selection.from_request(self.update.options, self.update.spec)
                    self.flows.record_emptied(list_emptied(self.flows.graph, selection), at_ms)
                self.move("RUNNING")
            self.flows.on_said(said, at_ms, text)

    def why(self, flow: str) -> str | None:
        """Java's print of why a flow failed, with all its causes; None where the driver cannot tell."""
        try:
            return self.instance.need_driver().flow_failures(self.key).get(flow)
        except SparkDead:
            return None

    def reported_failure(self, message: dict[str, Any]) -> Failure:
        """What the runner died of, as the update's error."""
        exceptions = [link for raw in message["exceptions"] for link in runner_links(raw)]
        spec = self.update.spec
        flow = message["flow"] and qualify_name(
            message["flow"], catalog=spec["catalog"], database=database_of(spec)
        )
        return Failure(
            say_failure(exceptions),
            events.error_of(exceptions),
            flow if message["phase"] == "define" else None,
            lost_spark=message["phase"] != "define" and is_lost_connection(message["exceptions"]),
        )

    def silent_end(self, code: int | None) -> Failure:
        """The runner ended without saying why."""
        if code is None:
            how = "ended; how is not known, because the process that had started it was gone"
        else:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        words = self.runner.last_words() if self.runner else ""
        sentence = f"The runner process of this update {how}; what it had started on Spark was stopped."
        sentence = f"{sentence} Its last words: {words}" if words else sentence
        from_outside = code is None or -code in (signal.SIGKILL, signal.SIGTERM)  # others are its own crash
        return (
            failure_of_lost_spark(sentence)
            if from_outside and not self.flows.any_failed()
            else Failure(sentence)
        )

    def settle(self, failure: Failure | None) -> None:
        """The same end for every outcome: nothing is left running, then the outcome is recorded."""
        self.end_runner()
        quiet = failures = None
        try:
            with watch_answers():
                failures = self.failures(failure) if failure and not self.stopping else None
                quiet = quiesce_run(self.instance.need_driver(), self.key, seconds=QUIET_SECONDS)
        except SparkSilent as error:
            self.instance.kill_driver()  # else the next update could run beside what is left of this one
            failure = failure or self.reported or failure_of_silent_spark(error)
            failure.sentence = f"{failure.sentence} {ENDED_FOR_SILENCE}"
        except SparkDead as error:
            failure = self.ended_with(error, failure)
        self.drain()
        stopped = self.stopping or self.was_stopped()
        if failure is None and not stopped:
            failure = self.contradicted_end()
        if quiet is False:
            failure = Failure(
                f"Spark did not stop everything of this update within {QUIET_SECONDS:.0f} s; restart the server."
            )
            stopped = False
        state = "CANCELED" if stopped else "FAILED" if failure else "COMPLETED"
        self.flows.close(
            state, failures or {}, failure.error if failure else None, failure.flow if failure else None
        )
        self.finish(state, None if stopped else failure)

    def contradicted_end(self) -> Failure | None:
        """Why a run that is said to have completed has failed all the same: one of its flows did, by either witness."""
        for name, printed in self.flows.find_failures().items():
            error = events.error_of(parse_chain(printed)) if printed else None
            return Failure(
                f"Flow '{name}' failed, although Spark reported that the run had completed.", error
            )
        return None

    def failures(self, failure: Failure) -> dict[str, str]:
        """Java's print of why each flow failed. Raises SparkDead."""
        driver = self.instance.need_driver()
        unresolved = driver.unresolved_flows(self.key) if self.flows.unresolved else {}
        self.name_unresolved(failure, unresolved)
        return driver.flow_failures(self.key) | unresolved

    def name_unresolved(self, failure: Failure | None, failures: dict[str, str]) -> None:
        """A graph that could not be analysed: the first flow's own reason goes into the update's error."""
        names = [name for name in failures if name not in self.flows.upstream]
        if failure and names and "UnresolvedPipelineException" in str(failure.error):
            causes = parse_chain(failures[names[0]])
            failure.error["exceptions"] += causes
            failure.sentence = f"Flow '{names[0]}' cannot be analysed: {causes[0]['message'].strip()}"

    def drain(self) -> None:
        """Take in what the event log still has to say about this update's queries."""
        if self.instance.tail is not None:
            self.instance.tail.catch_up()
        while not self.inbox.empty():
            message = self.inbox.get()
            if message["kind"] == "query":
                self.flows.on_query(message["event"])
            elif message["kind"] == "stop":
                self.stopping = True

    def was_stopped(self) -> bool:
        """Whether someone asked for a stop, as the database has it."""
        return Update.objects.filter(id=self.update_id, stop_requested=True).exists()

    def end_runner(self) -> None:
        """End the runner, if it still runs."""
        if self.runner is not None:
            self.runner.end()
            self.instance.children.remove(self.runner.pid)

    def hint(self, exceptions: list[dict[str, Any]]) -> str:
        """What Spark's own words leave out: a name that is Databricks' alone, a file that code is kept from."""
        seen = self.instance.confinement()
        return only_databricks.hint_of_databricks(exceptions) or out_of_sight.hint_of_hidden_file(
            exceptions, seen
        )

    def move(self, state: str) -> None:
        """The update enters a state, unless a stop was asked for meanwhile."""
        going_on = Update.objects.filter(id=self.update_id, state__in=ACTIVE_STATES, stop_requested=False)
        with transaction.atomic(using="pipelines"):
            if going_on.update(state=state):
                record_state(self.pipeline, self.update_id, state)

    def finish(self, state: str, failure: Failure | None) -> None:
        """Record the outcome as soon as the database accepts it: an update without an end blocks its pipeline, and
        whoever waits for it, for ever. A server that ends first leaves it to the next one (`fail_left_active`)."""
        if failure and (more := self.hint(failure.error["exceptions"])):
            failure.sentence = f"{failure.sentence} {more}"
        while True:
            try:
                record_outcome(self.update, state, failure)
            except REFUSED_WRITES as refused:
                LOG.warning("the end of update %s is not recorded yet: %s", self.update_id, refused)
                connections["pipelines"].close_if_unusable_or_obsolete()
            else:
                return
            if self.is_server_ending(seconds=RECORD_AGAIN_SECONDS):
                return

    def is_server_ending(self, *, seconds: float) -> bool:
        """Whether the server ends within so many seconds; its message may have been heard before."""
        until = time.monotonic() + seconds
        while not self.instance.ending and (left := until - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                self.inbox.get(timeout=left)
        return self.instance.ending


@transaction.atomic(using="pipelines")
def record_outcome(update: Update, state: str, failure: Failure | None) -> None:
    """Event, state and the pipeline's health, all of it or nothing. An update that someone has stopped is canceled, not
    cut off: it would be started again. Raises DatabaseError."""
    # locked, so that a stop which is asked for at this moment comes before or after
    held = Update.objects.select_for_update().filter(id=update.id).first()
    if failure and failure.lost_spark and held is not None and held.stop_requested:
        state, failure = "CANCELED", None
    record_state(update.pipeline, update.id, state, failure=failure)
    Update.objects.filter(id=update.id).update(state=state, ended_ms=events.now_ms())
    if not update.options.get("validate_only") and state != "CANCELED":
        Pipeline.objects.filter(id=update.pipeline_id).update(healthy=state == "COMPLETED")


def update_folder(home: Path, update_id: str) -> Path:
    """Where an update keeps its copy of the source and its runner's log."""
    return home / "updates" / update_id


def remove_folder(home: Path, update_id: str) -> None:
    """Forget an update's files."""
    with contextlib.suppress(OSError):
        ForeignFolder(home / "updates").remove(update_id)


UNANSWERED = ("grpc.", "pyspark.errors.exceptions.connect.", "pyspark.errors.exceptions.base.")
GONE = ("StatusCode.UNAVAILABLE", "StatusCode.CANCELLED", "RETRIES_EXCEEDED")


def is_lost_connection(exceptions: list[dict[str, Any]]) -> bool:
    """Did the runner end because Spark did not answer any more? What Spark itself has sent has Java's print."""
    return not any(raw["java"] for raw in exceptions) and any(
        str(raw["class_name"]).startswith(UNANSWERED) and any(word in str(raw["message"]) for word in GONE)
        for raw in exceptions
    )


def runner_links(raw: dict[str, Any]) -> list[dict[str, Any]]:
    """One exception of the runner; where Spark sent Java's own chain of it, that chain under the client's message."""
    link = {key: raw[key] for key in ("class_name", "message", "stack")}
    java = parse_chain(raw["java"]) if raw["java"] else []
    if not java:
        return [link]
    return [java[0] | {"message": java[0]["message"] or raw["message"]}, *java[1:]]


def say_failure(exceptions: list[dict[str, Any]]) -> str:
    """What the runner died of: of people's code its exception, file and line, else the first line of the message."""
    if code := find_code_failure([read_exception(exception) for exception in exceptions]):
        return code.sentence
    text = exceptions[0]["message"].strip() if exceptions else ""
    return text.splitlines()[0] if text else "The runner failed without a message."


def record_state(pipeline: Pipeline, update_id: str, state: str, *, failure: Failure | None = None) -> None:
    """The `update_progress` event of a state."""
    details: dict[str, Any] = {"state": state}
    if state == "CANCELED":
        details["cancellation_cause"] = "USER_ACTION"
    events.store_event(
        pipeline,
        "update_progress",
        f"Update {update_id[:6]} is {state}." + (f" {failure.sentence}" if failure else ""),
        details,
        level=LEVELS.get(state, "INFO"),
        update_id=update_id,
        error=failure.error if failure else None,
    )


__all__ = ["Execution", "Failure", "QueryEvent", "record_state", "remove_folder", "update_folder"]
