"""Load a pipeline's definition files as Spark's own CLI does, and keep what they define.

Mirrors `pyspark.pipelines.cli.register_definitions`, but with a registry that only remembers: no
dataflow graph is made on the server, so nothing is created and nothing runs.
"""

import importlib.util
import linecache
import os
import sys
import traceback
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

from recovery.errors import WrongUse
from recovery.notebook_cells import AnyMagic, Notebook, NotebookProblem, NotebookReader, choose_root

OTHER_CHECKPOINT: Final = "other_checkpoint"
"""No query of a plain program is known to have the checkpoint that is studied."""
UNKNOWN_PLACE: Final = "unknown_place"
"""A plain program makes a path from a place that only its own run has."""


class BadCode(Exception):
    """The code of the pipeline does not parse, raises, or has no such flow. One sentence.

    `code`: OTHER_CHECKPOINT, UNKNOWN_PLACE, or "" for every other problem."""

    def __init__(self, sentence: str, *, code: str = "") -> None:
        super().__init__(sentence)
        self.code = code


@dataclass
class Definitions:
    """What the files define: flows (name, target, function), names of views, SQL files, AUTO CDC flows.

    `sinks`: what `create_sink` declares (name, format, options), by name in lower case, as Spark compares it.
    """

    flows: list[Any] = field(default_factory=list)
    views: set[str] = field(default_factory=set)
    sinks: dict[str, Any] = field(default_factory=dict)
    sql_files: list[str] = field(default_factory=list)
    cdc_flows: list[Any] = field(default_factory=list)


def write_files(files: Mapping[str, str], root: str, folder: Path) -> dict[str, Path]:
    """Lay the workspace's files down in `folder`, relative to `root`. Returns workspace path -> file."""
    placed = {}
    for name, text in files.items():
        path = PurePosixPath(name)
        base = PurePosixPath(root) if root else PurePosixPath("/")
        relative = path.relative_to(base) if path.is_relative_to(base) else PurePosixPath(name.lstrip("/"))
        if ".." in relative.parts or relative.is_absolute() or not relative.parts:
            raise WrongUse(
                f"The file name {name!r} leaves the pipeline's folder; give a plain path.",
                code="leaves_folder",
            )
        target = folder.joinpath(*relative.parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        placed[name] = target
    return placed


def load(
    spark: Any, placed: Mapping[str, Path], libraries: Sequence[str], folder: Path, root: str = ""
) -> Definitions:
    """Import every definition file in order. Raises `BadCode` with file and line."""
    from pyspark.pipelines.block_session_mutations import block_session_mutations
    from pyspark.pipelines.graph_element_registry import graph_element_registration_context

    definitions = Definitions()
    sys.path.insert(0, str(folder))  # helper modules lie beside the definitions
    os.chdir(folder)
    with graph_element_registration_context(_registry(definitions)):
        for name in libraries:
            path = placed.get(name)
            if path is None:
                raise BadCode(f"The definition file {name} is listed by the pipeline, but is not there.")
            if path.suffix == ".sql":
                definitions.sql_files.append(name)
                continue
            try:
                with block_session_mutations():
                    _run(path, spark, placed, root)
            except BadCode:
                raise
            except (Exception, SystemExit) as error:
                raise BadCode(where(error, placed)) from error
    return definitions


def find_flow(definitions: Definitions, flow: str, catalog: str, schema: str) -> Any:
    """The flow of this name (`catalog.schema.flow`, verbatim). Raises `BadCode`."""
    flows = [f for f in definitions.flows if f.target not in definitions.views]
    wanted = parts_of(flow)
    exact = [f for f in flows if full_name(f.name, catalog, schema) == wanted]
    close = exact or [f for f in flows if parts_of(f.name)[-1] == wanted[-1]]
    if len(close) == 1:
        return close[0]
    if len(close) > 1:
        raise BadCode(
            f"The code defines the flow {flow} {len(close)} times; give each flow a name of its own."
        )
    if any(parts_of(f.name or f.target)[-1] == wanted[-1] for f in definitions.cdc_flows):
        raise BadCode(f"The flow {flow} is an AUTO CDC flow; its query is not in the code.")
    if definitions.sql_files:
        raise BadCode(
            f"The flow {flow} is not in the Python files, and no query was found for it in the SQL files "
            f"({', '.join(definitions.sql_files)}): one with expectations, AUTO CDC or a name that only an update "
            "computes is not read."
        )
    names = ", ".join(sorted(f.name for f in flows)) or "none"
    raise BadCode(f"The code no longer defines the flow {flow}; flows found: {names}.")


def parts_of(name: str) -> tuple[str, ...]:
    """Parts of a dotted name without quotes, in lower case, as Spark compares them by default."""
    return tuple(part.strip("`").lower() for part in name.split("."))


def open_notebook(
    path: Path, placed: Mapping[str, Path], root: str = "", *, passed: Container[str]
) -> Notebook:
    """A file of the request, with those that its `%run` cells name. `root`: what these may not leave, "" for the file's
    own folder. Raises `BadCode`, SyntaxError."""
    name = next((name for name, file in placed.items() if file == path), str(path))
    files = {name: path, **placed}
    reader = NotebookReader(
        choose_root(name, root),
        lambda other: files[other].read_bytes() if other in files else None,
        passed,
        lambda other: str(files[other]),
    )
    try:
        return reader.open_notebook(name, path.read_bytes())
    except NotebookProblem as problem:
        raise BadCode(f"{problem.path}, line {problem.line}: {problem.says}", code=problem.code) from problem


def where(error: BaseException, placed: Mapping[str, Path]) -> str:
    """One sentence: which line of which file failed, and what Python or Spark said."""
    from pyspark.errors import PySparkException

    from recovery.spark.session import first_line

    by_file = {str(path): name for name, path in placed.items()}
    if isinstance(error, SyntaxError) and error.filename in by_file:
        return f"{by_file[error.filename]}, line {error.lineno}: this is not valid Python ({error.msg})."
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename in by_file]
    kind = "" if isinstance(error, PySparkException) else f"{type(error).__name__}: "
    says = f"{kind}{first_line(error)}"
    if not frames:
        return f"The code cannot be run: {says}"
    return f"{by_file[frames[-1].filename]}, line {frames[-1].lineno}: {says}"


def full_name(name: str, catalog: str, schema: str) -> tuple[str, ...]:
    """Catalog, schema and name, those of the pipeline where a name has none; in lower case, without quotes."""
    return (catalog.lower(), schema.lower())[: max(0, 3 - len(parts_of(name)))] + parts_of(name)


def _run(path: Path, spark: Any, placed: Mapping[str, Path], root: str) -> None:
    module_spec = importlib.util.spec_from_file_location(path.stem, str(path))
    if module_spec is None:
        raise BadCode(f"{path.name} is no Python file; definition files end in .py or .sql.")
    module = importlib.util.module_from_spec(module_spec)
    module.__dict__["spark"] = spark
    linecache.checkcache()
    open_notebook(path, placed, root, passed=AnyMagic()).run_cells(module.__dict__)


def _registry(definitions: Definitions) -> Any:
    """A GraphElementRegistry that remembers; its base class is only there once pyspark is imported."""
    from pyspark.pipelines.graph_element_registry import GraphElementRegistry
    from pyspark.pipelines.output import Sink, TemporaryView

    class Remember(GraphElementRegistry):
        def register_output(self, output: Any) -> None:
            if isinstance(output, TemporaryView):
                definitions.views.add(output.name)
            elif isinstance(output, Sink):
                definitions.sinks[".".join(parts_of(output.name))] = output

        def register_flow(self, flow: Any) -> None:
            definitions.flows.append(flow)

        def register_auto_cdc_flow(self, flow: Any) -> None:
            definitions.cdc_flows.append(flow)

        def register_sql(self, sql_text: str, file_path: Path) -> None:
            definitions.sql_files.append(str(file_path))

    return Remember()
