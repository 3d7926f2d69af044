"""The child process of one update: defines the dataflow graph over Spark Connect and starts the run.

People's pipeline code runs here and nowhere else, so that it can neither block nor crash the server. The
server hands over two pipes: on one this process reports, one JSON object a line (`graph`, `event`, `error`,
`done`); the other names the file of arguments, later says `go`, and its end means that the server is gone, upon
which this process ends too.

It is a fork of `recovery.server.runner_parent`, which has paid the slow imports and lives in a jail. Before anything of
the pipeline is read, it confines itself to what is this pipeline's.
"""

import json
import linecache
import os
import queue
import re
import sys
import tempfile
import threading
import traceback
import types
from pathlib import Path
from typing import Any, NoReturn

from recovery import notebook_cells
from recovery.foreign import ForeignFolder
from recovery.notebook_cells import MOST_BYTES, Notebook, NotebookProblem, NotebookReader, choose_root
from recovery.server.confinement import load_grants
from recovery.server.landlock import restrict_to
from recovery.server.reports import LONGEST_TEXT, MOST_FRAMES, MOST_LINKS

GONE = 86
SQL_FILE = "reprise_sql_file"


class RunnerPipes:
    """The two pipes to the server."""

    def __init__(self, report_fd: int, control_fd: int) -> None:
        self.report_fd = report_fd
        self.orders: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        threading.Thread(target=self.listen, args=(control_fd,), daemon=True).start()

    def report(self, kind: str, **content: Any) -> None:
        """Tell the server; whole lines, in order. A server that is gone ends this process."""
        raw = (json.dumps({"kind": kind, **content}) + "\n").encode()
        try:
            while raw:
                raw = raw[os.write(self.report_fd, raw) :]
        except BrokenPipeError:
            os._exit(GONE)

    def listen(self, control_fd: int) -> None:
        """Hand on the server's orders; end at once when it is gone, whatever pipeline code is doing."""
        with os.fdopen(control_fd) as stream:
            for line in stream:
                self.orders.put(json.loads(line))
        os._exit(GONE)


def list_frames(error: BaseException) -> list[dict[str, Any]]:
    """A Python traceback in the API's shape, innermost first, without this file's own frames."""
    frames: list[dict[str, Any]] = []
    if path := getattr(error, SQL_FILE, ""):
        where = {"file_name": path, "line_number": line_of_sql(str(error))}
        frames.append({"declaring_class": Path(path).stem, "method_name": "<sql>"} | where)
    if isinstance(error, NotebookProblem):
        where = {"file_name": error.path, "line_number": error.line}
        frames.append({"declaring_class": Path(error.path).stem, "method_name": "<cell>"} | where)
    if isinstance(error, SyntaxError) and error.filename:
        where = {"file_name": error.filename, "line_number": error.lineno}
        frames.append({"declaring_class": Path(error.filename).stem, "method_name": "<module>"} | where)
    for entry in reversed(traceback.extract_tb(error.__traceback__)):
        if entry.filename not in (__file__, notebook_cells.__file__):
            frames.append(
                {
                    "declaring_class": Path(entry.filename).stem,
                    "method_name": entry.name,
                    "file_name": entry.filename,
                    "line_number": entry.lineno,
                }
            )
    return frames[:MOST_FRAMES]


def line_of_sql(message: str) -> int | None:
    """The line of the statement's file that Spark's parser names; None where it names none."""
    match = re.search(r"\(line (\d+), pos \d+\)", message)
    return int(match[1]) if match else None


def describe_error(error: BaseException) -> dict[str, Any]:
    """One exception: its class, its message, its frames, and Java's own print of it where Spark sent one."""
    kind = type(error)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    java = getattr(error, "getStackTrace", lambda: None)()
    message = (str(error) or name)[:LONGEST_TEXT]
    return {
        "class_name": name,
        "message": message,
        "stack": list_frames(error),
        "java": str(java or "")[:LONGEST_TEXT],
    }


def list_causes(error: BaseException) -> list[dict[str, Any]]:
    """An exception and its causes, outermost first."""
    causes: list[dict[str, Any]] = []
    at: BaseException | None = error
    while at is not None and len(causes) < MOST_LINKS:
        causes.append(describe_error(at))
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
    return causes


def open_session(arguments: dict[str, Any], token: str) -> Any:
    """A Connect session whose id is the update's, so that the server can tell whose query is whose."""
    from pyspark.sql import SparkSession

    remote = f"{arguments['remote']};token={token};session_id={arguments['session_id']}"
    # As under `spark-pipelines run`, `SparkSession.builder.getOrCreate()` of a definition file is this very session.
    # The builder asks this variable whether there is a remote, then takes the active session: no token is needed in it.
    os.environ["SPARK_REMOTE"] = arguments["remote"]
    builder = SparkSession.builder.remote(remote)
    for key, value in arguments["configuration"].items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def make_registry(spark: Any, graph_id: str) -> Any:
    """Spark's registry of flows and tables, which also knows the flow that is being defined right now."""
    from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry

    class Registry(SparkConnectGraphElementRegistry):
        defining: str | None = None

        def register_flow(self, flow: Any) -> None:
            self.defining = flow.name
            super().register_flow(flow)
            self.defining = None

    return Registry(spark, graph_id)


def load_python(
    path: str, copy: Path, real: str, spark: Any, graph_id: str, root: Path | None = None
) -> None:
    """Run one definition file as `spark-pipelines` does; tracebacks name its workspace path. `root`: the copy of the
    pipeline's folder."""
    from pyspark.pipelines.add_pipeline_analysis_context import add_pipeline_analysis_context
    from pyspark.pipelines.block_session_mutations import block_session_mutations

    notebook = open_notebook(path, copy, root)
    module = types.ModuleType(copy.stem)
    module.__dict__.update(__file__=real, spark=spark)
    sys.modules.setdefault(copy.stem, module)
    with (
        add_pipeline_analysis_context(spark=spark, dataflow_graph_id=graph_id, flow_name=None),
        block_session_mutations(),
    ):
        notebook.run_cells(module.__dict__)


def open_notebook(path: str, copy: Path, root: Path | None) -> Notebook:
    """A definition file, with those that its `%run` cells name, out of the copy of the pipeline's code."""
    sources = ForeignFolder(copy.parents[path.strip("/").count("/")])

    def read(name: str) -> bytes | None:
        try:
            source = sources.read(name.strip("/"), MOST_BYTES)
        except OSError:
            return None
        remember_lines(name, source)
        return source

    source = copy.read_bytes()
    remember_lines(path, source)
    folder = f"/{root.relative_to(sources.root).as_posix()}".removesuffix(".") if root else ""
    return NotebookReader(choose_root(path, folder), read).open_notebook(path, source)


def remember_lines(path: str, source: bytes) -> None:
    """Let tracebacks show the lines of a file by its workspace path."""
    lines = source.decode(errors="replace").splitlines(keepends=True)
    linecache.cache[path] = (len(source), None, lines, path)


def load_sql(path: str, copy: Path, registry: Any) -> None:
    """Register one SQL file; what it fails of keeps the file's name, which Spark's error does not tell."""
    try:
        registry.register_sql(copy.read_text(), Path(path))
    except Exception as error:
        setattr(error, SQL_FILE, path)
        raise


def register_definitions(arguments: dict[str, Any], registry: Any, spark: Any, graph_id: str) -> None:
    """Register every definition file, in the order of the libraries."""
    from pyspark.pipelines.graph_element_registry import graph_element_registration_context

    with graph_element_registration_context(registry):
        for path, copy, real in arguments["files"]:
            if path.endswith(".sql"):
                load_sql(path, Path(copy), registry)
            else:
                load_python(path, Path(copy), real, spark, graph_id, Path(arguments["root"]))


def run_update(arguments: dict[str, Any], lines: RunnerPipes, spark: Any, graph_id: str) -> None:
    """Wait for `go`, start the run, report what Spark says until it ends. Raises Spark's error."""
    from pyspark.pipelines.spark_connect_pipeline import start_run

    order = lines.orders.get()
    results = start_run(
        spark,
        graph_id,
        full_refresh=order["full_refresh"],
        full_refresh_all=order["full_refresh_all"],
        refresh=order["refresh"],
        dry=arguments["validate_only"],
        storage=arguments["storage"],
    )
    for result in results:
        if "pipeline_event_result" in result:
            event = result["pipeline_event_result"].event
            moment = event.timestamp.ToMilliseconds()
            lines.report("event", time_ms=moment, message=event.message)


def work_update(arguments: dict[str, Any], lines: RunnerPipes, token: str) -> None:
    """The whole update; every failure is reported with the phase it happened in."""
    from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph

    phase, registry = "connect", None
    try:
        spark = open_session(arguments, token)
        graph_id = create_dataflow_graph(
            spark, arguments["catalog"], arguments["database"], arguments["configuration"]
        )
        registry = make_registry(spark, graph_id)
        lines.report("connected", graph_id=graph_id)
        phase = "define"
        register_definitions(arguments, registry, spark, graph_id)
        registry.defining, phase = None, "run"
        lines.report("graph")
        run_update(arguments, lines, spark, graph_id)
        lines.report("done")
    except BaseException as error:
        traceback.print_exc()
        lines.report(
            "error", phase=phase, flow=getattr(registry, "defining", None), exceptions=list_causes(error)
        )


def import_ahead() -> None:
    """The slow imports, before an update is there. None may start a thread: they are done where runners are forked."""
    import pyspark.pipelines.add_pipeline_analysis_context
    import pyspark.pipelines.block_session_mutations
    import pyspark.pipelines.graph_element_registry
    import pyspark.pipelines.spark_connect_graph_element_registry
    import pyspark.pipelines.spark_connect_pipeline
    import pyspark.sql.connect.session  # noqa: F401


def speak_into(log: str) -> None:
    """What this process and the pipeline's code print goes to the update's log."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number in (1, 2):
        os.dup2(output, number)
    os.close(output)


def first_order(control_fd: int) -> dict[str, Any]:
    """The first line of the control pipe; ends this process where the server is gone before it."""
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(control_fd, 1 << 16)  # the second line is not sent before this process has reported
        if not piece:
            os._exit(GONE)
        line += piece
    order: dict[str, Any] = json.loads(line)
    return order


def settle_in(arguments: dict[str, Any]) -> None:
    """Make this process the update's: its folders, its modules, its environment."""
    sys.path.pop(0)  # this project's own folder
    sys.path.append(arguments["root"])  # last: a definition called numbers.py must not hide Python's own
    sys.dont_write_bytecode = True
    os.chdir(arguments["root"])
    temporary = Path(arguments["folder"]) / "tmp"
    temporary.mkdir(exist_ok=True, mode=0o700)
    tempfile.tempdir = None  # as the parent found it
    os.environ.update({"HOME": str(temporary), "TMPDIR": str(temporary), **arguments["variables"]})


def live(report_fd: int, control_fd: int) -> NoReturn:
    """One update, from its arguments to its end, without Python's clean-up: the server closes the Connect session."""
    order = first_order(control_fd)
    speak_into(order["log"])  # while it still may: the code cannot put another file in its place
    if order["grants"] is not None:  # before there is a second thread, which Landlock would not hold
        restrict_to(load_grants(order["grants"]))
    lines = RunnerPipes(report_fd, control_fd)
    arguments = json.loads(Path(order["arguments"]).read_text())
    settle_in(arguments)
    work_update(arguments, lines, order["token"])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
