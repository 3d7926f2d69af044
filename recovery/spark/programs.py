"""What a plain Structured Streaming program would start, learned without starting it (child process only).

The program runs as it is, but for its session, which is the question's, and its writers: a query that it would start
is noted. What it would change before that is passed over where the query does not hang on it, else refused
(`reads_only`, `untouched`). It is other people's code: what it reads and asks for is read and asked for.
"""

import argparse
import json
import os
import posixpath
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NoReturn

from recovery.spark import reads_only, secrets
from recovery.spark.absent import standing_in_for_absent
from recovery.spark.definitions import (
    OTHER_CHECKPOINT,
    UNKNOWN_PLACE,
    BadCode,
    Definitions,
    open_notebook,
    parts_of,
    where,
)
from recovery.spark.driver_only import (
    ContextClass,
    Decisions,
    DriverContext,
    DriverThing,
    JavaThing,
    UnstartedQuery,
    UnstartedStreams,
    is_of_driver,
    noting_decisions,
    plain_text,
    refuse_driver_things,
    refuse_in_rows,
    standing_in_for_delta,
)
from recovery.spark.laying import ELSEWHERE, LaidProgram
from recovery.spark.notebooks import PASSED, notebook_names, run_as_main
from recovery.spark.paths import plain
from recovery.spark.programs_words import ARGUMENTS, CHECKPOINT, ENGINE, PLAIN
from recovery.spark.untouched import Acts, hands_off, join_threads

_MAKES: Final = re.compile(
    r"\s*CREATE\s+(?:EXTERNAL\s+)?(?:TABLE|SCHEMA|DATABASE)\s+IF\s+NOT\s+EXISTS\b", re.IGNORECASE
)
_PLACED: Final = re.compile(
    r"\s*CREATE\s+(?:EXTERNAL\s+)?TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?(?P<name>[\w.`]+).*?\bUSING\s+(?P<format>\w+)\b"
    r".*?\bLOCATION\s+['\"](?P<place>[^'\"]+)['\"]",
    re.IGNORECASE | re.DOTALL,
)
_PLACES: Final = frozenset({"checkpointlocation", "path"})
CHECKPOINTS: Final = "spark.sql.streaming.checkpointLocation"
MOST_FOLDERS: Final = 3
"""So many folders above a checkpoint are tried as the one in which its program is started."""
SLEEPS: Final = 20
"""A program that sleeps so often after its first start only waits for its queries."""


class _Waits(BaseException):
    """The program does nothing any more but wait for its queries. No `except Exception` of its own catches it."""


@dataclass
class ProgramQuery:
    """One query that a program would start, as its writer was told."""

    frame: Any
    format: str = "parquet"
    options: dict[str, str] = field(default_factory=dict)
    name: str = ""
    mode: str = "append"
    table: str = ""
    function: str = ""  # foreachBatch or foreach
    partitions: tuple[str, ...] | None = ()  # columns that name the folders of its files; None: not known
    problem: BadCode | None = None  # why it is not known what a run would start

    @property
    def checkpoint(self) -> str:
        return next((v for k, v in self.options.items() if k.lower() == "checkpointlocation"), "")


@dataclass(frozen=True)
class LearnedProgram:
    """What a program would start; `stopped`: the error by which it ended after its first start, else ""; `removed`:
    places that it would remove; `absent`: modules that it imports and that are not installed here."""

    queries: Sequence[ProgramQuery]
    stopped: str = ""
    removed: Sequence[str] = ()
    absent: Sequence[str] = ()


def is_program(request: Mapping[str, Any]) -> bool:
    """Is the code of a request a plain program, rather than a pipeline's definitions?"""
    return bool(request["configuration"].get(ENGINE) == PLAIN)


def load(spark: Any, laid: LaidProgram, request: Mapping[str, Any]) -> Definitions:
    """The one query of the program that has the request's checkpoint, as a flow. Raises `BadCode`."""
    libraries, placed = request["libraries"], laid.files
    if not libraries:
        raise BadCode(
            "No program was named, so what its next start would do is not known: adopt it with --program."
        )
    if len(libraries) != 1 or libraries[0] not in placed:
        raise BadCode("The program's file is not there.")
    path, flow = placed[libraries[0]], str(request["flow"])
    if path.suffix != ".py":
        raise BadCode(f"{path.name} is no Python file: only Python programs can be analysed.")
    configuration = request["configuration"]
    arguments = _placed_arguments(json.loads(configuration.get(ARGUMENTS) or "[]"), placed)
    wanted = configuration.get(CHECKPOINT) or ""
    sys.path[:0] = laid.roots
    os.chdir(laid.started)

    relative: list[str] = []

    def run(base: str) -> ProgramQuery:
        learned = _queries(spark, path, arguments, placed, base=base, relative=relative, laid=laid)
        query = _chosen(learned, wanted, flow, laid)
        if query.problem:
            raise query.problem
        if removed := _removed_of(query, learned.removed):
            raise BadCode(
                f"The program removes {removed}, which its query uses, before it starts: its next start would not go "
                "on from there."
            )
        if any(laid.is_elsewhere(value) for value in query.options.values()):
            raise BadCode(ELSEWHERE, code=UNKNOWN_PLACE)
        return query

    chosen, base = _in_its_folder(run, wanted, relative)
    found = Definitions()
    found.flows.append(
        SimpleNamespace(name=flow, target=flow, func=lambda: run(base).frame, spark_conf={}, mode=chosen.mode)
    )
    told = {
        "format": "foreachBatch" if chosen.function else chosen.format,
        "options": chosen.options,
        "partitions": chosen.partitions,
    }
    found.sinks[".".join(parts_of(flow))] = SimpleNamespace(name=chosen.table or flow, **told)
    return found


def _in_its_folder(
    run: Callable[[str], ProgramQuery], checkpoint: str, relative: Sequence[str]
) -> tuple[ProgramQuery, str]:
    """The query, and the folder in which its program is started; "" where that is not known. Raises `BadCode`.

    A program that reads from `relative` places before its start fails anywhere else: the folders above its checkpoint
    are tried, and one in which it names this very checkpoint is its own."""
    try:
        chosen = run("")
    except BadCode:
        for folder in _folders_above(checkpoint) if relative else ():
            with suppress(BadCode):
                chosen = run(folder)
                if _folder_of(chosen.checkpoint, checkpoint) == folder:
                    return chosen, folder
        raise
    base = _folder_of(chosen.checkpoint, checkpoint)
    return (run(base), base) if base else (chosen, "")


def _folders_above(checkpoint: str) -> Sequence[str]:
    """The nearest first."""
    parts = plain(checkpoint).rstrip("/").split("/")
    found = ["/".join(parts[:end]) for end in range(len(parts) - 1, 1, -1)]
    return found[:MOST_FOLDERS]


def _chosen(
    learned: "LearnedProgram", checkpoint: str, flow: str, laid: LaidProgram | None = None
) -> ProgramQuery:
    """The query that has this checkpoint. One that names no checkpoint may have been given it elsewhere."""
    queries = learned.queries
    absent = _name_absent(learned.absent)
    if not queries:
        raise BadCode(f"The program starts no streaming query.{absent}")
    by_place = [q for q in queries if q.checkpoint and _same_place(q.checkpoint, checkpoint)]
    placeless = [q for q in queries if not q.checkpoint]
    by_name = [q for q in placeless if q.name and q.name == flow]
    # a later query could be the one, or one that an absent module would start
    alone = placeless if not (learned.stopped or learned.absent) else []
    for found in [by_place] if by_place else [by_name, alone]:
        if len(found) == 1:
            return found[0]
    if unknown := [q.problem for q in queries if q.problem and q.problem.code == UNKNOWN_PLACE]:
        raise unknown[0]
    places = {q.checkpoint for q in queries if q.checkpoint}
    elsewhere = {place for place in places if laid and laid.is_elsewhere(place)}
    if elsewhere and elsewhere == places:
        raise BadCode(ELSEWHERE, code=UNKNOWN_PLACE)
    named = ", ".join(sorted(places - elsewhere)[:5]) or "none"
    stopped = f" It stopped with an error after a start: {learned.stopped}" if learned.stopped else ""
    raise BadCode(
        f"Not one query alone of the {len(queries)} that the program starts is that of this checkpoint. "
        f"Checkpoints that it names: {named}.{stopped}{absent}",
        code=OTHER_CHECKPOINT,
    )


def _removed_of(query: ProgramQuery, removed: Sequence[str]) -> str:
    """The place that a program removes and that is one of its query's, holds it or is in it; "": none."""
    own = [posixpath.normpath(plain(v)) for k, v in query.options.items() if k.lower() in _PLACES]
    for place in removed:
        gone = posixpath.normpath(plain(place))
        if any(f"{one}/".startswith(f"{gone}/") or f"{gone}/".startswith(f"{one}/") for one in own):
            return place
    return ""


def _same_place(one: str, other: str) -> bool:
    """A relative place is below the folder in which the program is started, which is not known."""
    ends = [re.sub(r"^s3[an]?://", "s3://", plain(place)).rstrip("/") for place in (one, other)]
    return ends[0] == ends[1] or bool(_folder_of(one, other))


def _folder_of(named: str, whole: str) -> str:
    """The folder from which a relative place leads to the whole one; "" where it is not relative, or elsewhere."""
    named, whole = posixpath.normpath(named or "/"), plain(whole).rstrip("/")
    if named.startswith(("/", "..")) or ":" in named or not whole.endswith(f"/{named}"):
        return ""
    return whole.removesuffix(f"/{named}")


def _placed_arguments(arguments: Sequence[str], placed: Mapping[str, Path]) -> list[str]:
    """Files that were sent along are named where they lie here."""

    def told(argument: str) -> str:
        option, equals, value = argument.partition("=")
        if argument in placed:
            return str(placed[argument])
        return f"{option}={placed[value]}" if equals and value in placed else argument

    return [told(str(argument)) for argument in arguments]


def _queries(
    spark: Any,
    path: Path,
    arguments: Sequence[str],
    placed: Mapping[str, Path],
    *,
    base: str = "",
    relative: list[str] | None = None,
    laid: LaidProgram | None = None,
) -> "LearnedProgram":
    """What the program would start. An error after the first start is not the query's own, and is left out.

    `base`: the folder in which it is started, to which its relative places belong; `relative`: takes those that it
    opened while that was not known."""
    found: list[ProgramQuery] = []
    known = _Known(base, [] if relative is None else relative, laid, tuple(map(str, arguments)))
    stopped = ""
    before = sys.argv, set(sys.modules)
    sys.argv = [str(path), *map(str, arguments)]
    try:
        with (
            hands_off(laid.folder if laid else str(path.parent), known.acts),
            _standing_in(spark, found, known),
            noting_decisions(known.decisions),
            standing_in_for_absent({str(path), *map(str, placed.values())}, known.absent),
        ):
            names = notebook_names(spark, _context(spark, known), known.arguments, known.acts)
            notebook = open_notebook(path, placed, passed=PASSED)
            running = threading.enumerate()
            run_as_main(notebook, path, names)
            join_threads(running)
    except _Waits:
        pass
    except BadCode as error:
        if not found:
            raise
        stopped = str(error)
    except (Exception, SystemExit) as error:
        if not found:
            says = _explain_error(error, placed, laid)
            hint = _name_absent(known.absent)
            raise BadCode(f"{says.rstrip('.')}.{hint}" if hint else says) from error
        if not isinstance(error, SystemExit) or error.code:
            stopped = _explain_error(error, placed, laid)
    finally:
        sys.argv = before[0]
        _forget_modules(placed, before[1])
    removed = [laid.real_place(place) if laid else place for place in known.acts.removed]
    return LearnedProgram(tuple(found), stopped, tuple(removed), tuple(dict.fromkeys(known.absent)))


def _explain_error(error: BaseException, placed: Mapping[str, Path], laid: LaidProgram | None) -> str:
    sentence = where(error, placed)
    return laid.hide_own_places(sentence) if laid else sentence


def _name_absent(absent: Sequence[str]) -> str:
    names = ", ".join(dict.fromkeys(name.partition(".")[0] for name in absent))
    return f" It imports {names}, not installed here." if names else ""


def _forget_modules(placed: Mapping[str, Path], known: set[str]) -> None:
    """The program's own modules are run again with it."""
    files = {str(path) for path in placed.values()}
    for name in set(sys.modules) - known:
        if getattr(sys.modules[name], "__file__", None) in files:
            del sys.modules[name]


@contextmanager
def _standing_in(spark: Any, found: list[ProgramQuery], known: "_Known") -> Iterator[None]:
    """The question's session stands in for the program's own, and notes for its queries."""
    patches = _stand_ins(spark, found, known)
    kept = [(owner, name, owner.__dict__.get(name)) for owner, name, _ in patches]
    for owner, name, stand_in in patches:
        setattr(owner, name, stand_in)
    try:
        with standing_in_for_delta(spark):
            yield
    finally:
        for owner, name, own in kept:
            delattr(owner, name) if own is None else setattr(owner, name, own)


def _stand_ins(spark: Any, found: list[ProgramQuery], known: "_Known") -> list[tuple[Any, str, Any]]:
    """Each name of pyspark that is replaced while the program runs: its owner, the name, and what stands in for it."""
    import pyspark
    from pyspark.core import context
    from pyspark.sql import session as classic
    from pyspark.sql.connect import conf, dataframe
    from pyspark.sql.connect import readwriter as batch
    from pyspark.sql.connect import session as connect
    from pyspark.sql.connect.streaming import readwriter as streaming

    reader = streaming.DataStreamReader

    own_table = reader.table

    def table(stream: Any, tableName: str) -> Any:
        place = known.tables.get(reads_only.last_part(tableName))
        return own_table(stream, tableName) if place is None else stream.format(place[0]).load(place[1])

    def sleep(seconds: float) -> None:
        known.sleeps += 1
        if found and known.sleeps > SLEEPS:
            raise _Waits

    return [
        *[
            (builder, name, stand_in)
            for builder in (classic.SparkSession.Builder, connect.SparkSession.Builder)
            for name, stand_in in (
                ("getOrCreate", _get_session_with(spark, known)),
                ("create", _get_session_with(spark, known)),
                ("_validate_startup_urls", _nothing),
            )
        ],
        *[
            (session, name, classmethod(lambda _: spark))
            for session in (classic.SparkSession, connect.SparkSession)
            for name in ("getActiveSession", "active")
        ],
        (classic.SparkSession, "__new__", staticmethod(lambda *_, **__: spark)),
        (connect.SparkSession, "sparkContext", property(lambda _: _context(spark, known))),
        (connect.SparkSession, "streams", property(lambda _: UnstartedStreams("the streams that run"))),
        *[
            (connect.SparkSession, name, JavaThing("Java", known.acts.removed))
            for name in ("_jvm", "_jsparkSession", "_jwrapped", "_jsc")
        ],
        (connect.SparkSession, "_sc", property(lambda _: _context(spark, known))),
        (connect.SparkSession, "sql", _guarded_sql(connect.SparkSession.sql, known)),
        (reader, "table", table),
        *[(opened, "load", _load_with(opened.load, known)) for opened in (reader, batch.DataFrameReader)],
        (conf.RuntimeConf, "set", _set_with(conf.RuntimeConf.set, known)),
        (time, "sleep", sleep),
        *[(module, "SparkContext", ContextClass(known.settings)) for module in (pyspark, context)],
        (connect.SparkSession, "stop", lambda _: None),
        (dataframe.DataFrame, "writeStream", property(lambda frame: _Writer(frame, found, known))),
        (argparse.ArgumentParser, "error", _refuse_arguments),
        *reads_only.doors(known.held),
    ]


def _get_session_with(spark: Any, known: "_Known") -> Callable[[Any], Any]:
    """What `getOrCreate` does: notes the builder's options, and answers this session."""

    def get_session(builder: Any) -> Any:
        for name, value in dict(getattr(builder, "_options", {})).items():
            known.settings[str(name)] = str(value)
            if str(name).startswith("spark.sql."):
                _set(spark, str(name), value)
        return spark

    return get_session


def _context(spark: Any, known: "_Known") -> DriverContext:
    return DriverContext(known.settings, lambda: str(spark.version), known.acts.removed)


def _refuse_arguments(parser: Any, message: str) -> NoReturn:
    raise BadCode(f"The program does not take its arguments: {message}. Name each with --argument.")


def _nothing(*args: Any, **kwargs: Any) -> None:
    """A program may name its own master: it is not asked."""


def _set(spark: Any, name: str, value: Any) -> None:
    """A setting of the session; one that a session cannot change is the cluster's own matter."""
    spark.conf._set_all(configs={name: str(value)}, silent=True)


def _set_with(own: Any, known: "_Known") -> Any:
    def set_conf(settings: Any, key: str, value: Any) -> None:
        known.settings[str(key)] = str(value)
        own(settings, key, value)

    return set_conf


def _load_with(own: Any, known: "_Known") -> Any:
    def load(opened: Any, path: Any = None, *args: Any, **kwargs: Any) -> Any:
        told = {f"the option {k}": v for k, v in opened._options.items() if not secrets.is_secret(k)}
        refuse_driver_things({**told, "a place that it reads": path})
        for options in (opened._options, kwargs):
            if "path" in options:
                options["path"] = known.read(options["path"])
        return own(opened, known.read(path), *args, **kwargs)

    return load


def _guarded_sql(own: Any, known: "_Known") -> Any:
    def sql(session: Any, text: str, *args: Any, **kwargs: Any) -> Any:
        refuse_driver_things({"a SQL text": text})
        if placed := _PLACED.match(text):
            place = known.real_place(placed["place"])
            known.tables[reads_only.last_part(placed["name"])] = placed["format"].lower(), place
        if _MAKES.match(text) or known.held.hold_statement(text):
            return DriverThing("a statement that was not run here")
        reads_only.check_statement(text)
        return own(session, text, *args, **kwargs)

    return sql


@dataclass
class _Known:
    """What a program has said so far. `base`: where it is started, "" where that is not known; `relative`: places that
    it opened below that; `tables`: name of a table that it makes where there is none -> (format, place)."""

    base: str
    relative: list[str]
    laid: LaidProgram | None = None
    arguments: tuple[str, ...] = ()
    acts: Acts = field(default_factory=Acts)
    absent: list[str] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    tables: dict[str, tuple[str, str]] = field(default_factory=dict)
    held: reads_only.HeldWrites = field(default_factory=reads_only.HeldWrites)
    decisions: Decisions = field(default_factory=Decisions)
    sleeps: int = 0

    def real_place(self, place: str) -> str:
        """The place that the program means by a path, which it may have made from the folder of a file of its own."""
        return self.laid.real_place(place) if self.laid else place

    def read(self, place: Any) -> Any:
        """As `whole`, of a place that is read. Raises `BadCode` where no run of the program has it."""
        places = place if isinstance(place, (list, tuple)) else [place]
        if self.laid and any(isinstance(one, str) and self.laid.is_elsewhere(one) for one in places):
            raise BadCode(ELSEWHERE, code=UNKNOWN_PLACE)
        return self.whole(place)

    def whole(self, place: Any) -> Any:
        """A relative place, or each of several, from where the program is started."""
        if isinstance(place, (list, tuple)):
            return [self.whole(one) for one in place]
        if not isinstance(place, str):
            return place
        place = self.real_place(place)
        if place.startswith("/") or ":" in place:
            return place
        if not self.base:
            self.relative.append(place)
            return place
        return posixpath.normpath(f"{self.base}/{place}")


class _Writer:
    """Takes what `DataStreamWriter` takes, and notes the query in place of starting it."""

    def __init__(self, frame: Any, found: list[ProgramQuery], known: _Known) -> None:
        self._query, self._found, self._known = ProgramQuery(frame), found, known

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: self  # trigger, clusterBy, and what comes later

    def format(self, source: str) -> "_Writer":
        self._query.format = plain_text(source).lower()
        return self

    def option(self, key: str, value: Any) -> "_Writer":
        self._query.options[plain_text(key)] = _text(value)
        return self

    def options(self, **options: Any) -> "_Writer":
        for key, value in options.items():
            self.option(key, value)
        return self

    def outputMode(self, mode: str) -> "_Writer":
        self._query.mode = plain_text(mode).lower()
        return self

    def partitionBy(self, *columns: Any) -> "_Writer":
        listed = columns[0] if len(columns) == 1 and isinstance(columns[0], (list, tuple)) else columns
        names = tuple(plain_text(column) for column in listed)
        self._query.partitions = None if any(is_of_driver(name) for name in names) else names
        return self

    def queryName(self, name: str) -> "_Writer":
        self._query.name = plain_text(name)
        return self

    def foreachBatch(self, func: Any) -> "_Writer":
        self._query.function = "foreachBatch"
        return self

    def foreach(self, f: Any) -> "_Writer":
        self._query.function = "foreach"
        return self

    def start(self, path: str | None = None, format: str | None = None, **told: Any) -> UnstartedQuery:
        self._take(format, told)
        if path is not None and not (isinstance(path, str) and plain_text(path) == ""):
            self._query.options["path"] = plain_text(path)
        return self._noted()

    def toTable(self, tableName: str, format: str | None = None, **told: Any) -> UnstartedQuery:
        self._take(format, told)
        self._query.table = plain_text(tableName)
        return self._noted()

    def _take(self, format: str | None, told: dict[str, Any]) -> None:
        if format:
            self.format(format)
        for name, take in (("outputMode", self.outputMode), ("queryName", self.queryName)):
            if value := told.pop(name, None):
                take(value)
        columns = told.pop("partitionBy", None)
        if columns is not None:
            self.partitionBy(*(columns if isinstance(columns, (list, tuple)) else [columns]))
        self.options(**told)

    def _noted(self) -> UnstartedQuery:
        query = self._query
        try:
            self._check()
        except BadCode as problem:
            query.problem = problem
        query.options |= {name: self._known.real_place(value) for name, value in query.options.items()}
        if not query.checkpoint and query.name and (root := self._known.settings.get(CHECKPOINTS)):
            query.options["checkpointLocation"] = f"{self._known.real_place(root).rstrip('/')}/{query.name}"
        if (placed := self._known.tables.get(reads_only.last_part(query.table))) and query.table:
            query.format, query.options["path"] = placed
        if "path" in query.options:
            query.options["path"] = self._known.whole(query.options["path"])
        self._found.append(query)
        return UnstartedQuery("a query that runs")

    def _check(self) -> None:
        """Raises `BadCode` where only a run knows what this query is."""
        query = self._query
        plan = query.frame._plan.plan(query.frame._session.client)
        self._known.held.check_reads(plan)
        refuse_in_rows(plan)
        told = {f"the option {k}": v for k, v in query.options.items() if not secrets.is_secret(k)}
        names = {"the sink's name": query.table, "the query's name": query.name}
        refuse_driver_things({**told, **names, "the format": query.format, "the output mode": query.mode})
        if self._known.decisions.made:  # the program caught it, and went a way that no run needs to go
            raise self._known.decisions.made[0]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else plain_text(value)
