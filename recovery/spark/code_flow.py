"""One flow of a pipeline's code, as a question sees it: analysed once, its batches on demand (child only)."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from recovery.contracts.measured import AbsentInputs
from recovery.contracts.readers import SourceReader
from recovery.diagnosis import operators as ops
from recovery.spark import (
    counting,
    explained,
    laying,
    programs,
    secrets,
    slicing,
    sql_definitions,
)
from recovery.spark.api import (
    FROM_CODE,
    NAMED,
    UNSEEN_STREAM,
    WHOLE_ROW,
)
from recovery.spark.definitions import (
    BadCode,
    Definitions,
    find_flow,
    full_name,
    load,
    parts_of,
    where,
    write_files,
)
from recovery.spark.numbering import number_sources
from recovery.spark.replay import FORMATS, CannotReplay, ReaderProxy, Replace, UnseenStream, sql_texts
from recovery.spark.session import first_line, lost_contact, use
from recovery.spark.touching import imports_beside, watching
from recovery.spark.unset import UnsetNames, noting_unset
from recovery.spark.unsure import by_chance

DEDUPES: Final = frozenset(("dedupe", "dedupeWithinWatermark"))
"""Stateful operators that take rows away and change none, by Spark's names."""


class CodeFlow:
    """One flow of the code: its stream analysed once, its batches on demand."""

    def __init__(self, spark: Any, request: Mapping[str, Any], folder: Path) -> None:
        """Raises `BadCode` where the code does not parse, raises, or has no such flow."""
        plain = programs.is_program(request)
        files, root, libraries = request["files"], request["root"], tuple(request["libraries"])
        self._laid = laying.lay_down(files, root, libraries, folder) if plain else None
        self._placed = self._laid.files if self._laid else write_files(files, root, folder)
        use(spark, request["catalog"], request["schema"])
        self._touched = imports_beside(request["files"])
        self._unset = UnsetNames({str(path) for path in self._placed.values()})
        with watching(spark, folder, self._touched), noting_unset(self._unset):
            definitions: Definitions = (
                programs.load(spark, self._laid, request)
                if self._laid
                else load(spark, self._placed, request["libraries"], folder, root)
            )
        named = (request["flow"], request["catalog"], request["schema"])
        in_sql = [] if plain else sql_definitions.read_files(request["files"], request["libraries"])
        of_sql, all_known = sql_definitions.flows_of(in_sql, request["catalog"], request["schema"])
        definitions.flows += [_as_flow(spark, one) for one in of_sql]
        self._flow = definitions.flows[0] if plain else find_flow(definitions, *named)
        self.query: sql_definitions.SqlQuery | None = getattr(self._flow, "query", None)
        sink = _sink(definitions, self.query.target if self.query else self._flow.target)
        self.writes_alone = all_known and _writes_alone(definitions, self._flow, request)
        self.reader = ReaderProxy(spark, definitions, mutable=plain)
        self.output_mode = str(getattr(self._flow, "mode", "append"))
        self.reader.withheld |= secrets.values((sink or {}).get("options") or {})
        spark.conf._set_all(configs={k: str(v) for k, v in self._flow.spark_conf.items()}, silent=True)
        if self.query is not None:
            self._called(lambda: _prepare(spark, in_sql, self.query, request))
        with watching(spark, folder, self._touched), noting_unset(self._unset):
            stream = self._called(lambda: self.reader.stream(self._flow.func))
        if not hasattr(stream, "_explain_string"):
            raise BadCode(f"The flow {request['flow']} must return a DataFrame; its function returns none.")
        self.frame = stream
        self.text = self._called(lambda: stream._explain_string(extended=True))
        self.schema: Any = self._called(lambda: stream.schema)
        self.columns: list[str] = self.schema.names
        reads, queries = self.reader.list_reads(stream), sql_texts(stream)
        self.numbered = number_sources(self.text, reads, self.reader.describe_table, queries=queries)
        self.sources = self.numbered.sources
        self.reader.sources, self.reader.by_text = self.sources, self.numbered.by_text
        self.sink = sink
        self.partitions: tuple[str, ...] | None = _find_partitions(definitions, self._flow) if plain else None
        self.operators = explained.operators(self.text)
        self.dedupe = _dedupe(self.text)

    def batch(
        self,
        files: Sequence[str],
        known: Sequence[str],
        slices: Mapping[str, Sequence[slicing.Slice]] | None = None,
    ) -> Any:
        """What the flow yields over `files` and `slices` (source index as text). Raises `BadCode`, `CannotReplay`.

        A source of which neither names anything yields no row.
        """
        self._check_replay()
        return self._replay_batch(files, known, slices or {})

    def batch_with_repeats(self, files: Sequence[str], slices: Mapping[str, Sequence[slicing.Slice]]) -> Any:
        """As `batch`, with the rows that the dropDuplicates of the code takes away."""
        with keeping_repeats():
            return self.batch(files, files, slices)

    def batch_with_all_rows(self, files: Sequence[str], slices: Mapping[str, Sequence[slicing.Slice]]) -> Any:
        """As `batch_with_repeats`, with late rows too: every row that a run may write, whatever its state holds."""
        self._check_rows_show()
        if explained.count_dedupes(self.text) > sum(o in DEDUPES for o in self.operators):
            raise CannotReplay("The code also takes repeats out of rows that are not of the stream.")
        with keeping_repeats():
            return self._replay_batch(files, files, slices)

    def _replay_batch(
        self, files: Sequence[str], known: Sequence[str], slices: Mapping[str, Sequence[slicing.Slice]]
    ) -> Any:
        by_index = {int(source): slicing.merge_slices(given) for source, given in slices.items()}
        return self.as_partitioned(
            self._called(lambda: self.reader.batch(self._flow.func, files, known, by_index))
        )

    def as_partitioned(self, frame: Any) -> Any:
        """Rows of the flow as its table has them: no folder is named by an empty text, so Spark keeps null of one that
        a partition has."""
        from pyspark.sql import functions as F

        named = {name.lower() for name in self.partitions or ()}
        texts = [
            field.name
            for field in frame.schema.fields
            if field.name.lower() in named and field.dataType.typeName() == "string"
        ]
        quoted = {name: F.col(f"`{name.replace('`', '``')}`") for name in texts}
        return (
            frame.withColumns({name: F.when(column != "", column) for name, column in quoted.items()})
            if texts
            else frame
        )

    def replaced(self, replace: Replace) -> Any:
        """The flow's DataFrame over other reads than its own (`ReaderProxy.replaced`).

        Raises `BadCode`, `CannotReplay`.
        """
        self._check_shown()
        return self._called(lambda: self.reader.replaced(self._flow.func, replace))

    @property
    def absent(self) -> AbsentInputs:
        """What the code asked for in vain while it was defined; files by the names that a run has for them."""
        files = (self._laid.real_place(name) if self._laid else name for name in self._unset.files)
        return AbsentInputs(tuple(self._unset.variables), tuple(self._unset.settings), tuple(files))

    @property
    def reads_only_files(self) -> bool:
        return all(source.format.lower() in FORMATS | {""} for source in self.sources)

    @property
    def rests_on_more(self) -> bool:
        """Whether values may differ between two runs over one input: by what the code reads, calls or asks for."""
        return bool(self._touched or self.absent.names or explained.besides(self.text))

    @property
    def rests_on(self) -> list[str]:
        """What the answers rest on beside the request, its input and the flow's table; [] where nothing is known."""
        streams = [_say_how_columns_vary(source) for source in self.sources]
        return sorted({*self._touched, *explained.besides(self.text), *filter(None, streams)})

    def says(self, error: BaseException) -> str:
        """What Spark says, without what the readers' options hold."""
        return secrets.withheld(first_line(error), self.reader.withheld)

    def key(self, given: Sequence[str] | None) -> tuple[list[str], str]:
        """By what rows are distinguished, and who says so: (columns, words)."""
        if given:
            return counting.resolved(given, self.columns, "What the code yields"), NAMED
        if self.let_through_by:
            return list(self.let_through_by), FROM_CODE
        return list(self.columns), WHOLE_ROW

    @property
    def let_through_by(self) -> tuple[str, ...] | None:
        """Columns by which dropDuplicates lets a row through; () where the flow does not yield them, None: no such."""
        if self.dedupe is None:
            return None
        try:
            return tuple(counting.resolved(self.dedupe, self.columns, ""))
        except counting.NoSuchColumn:
            return ()

    def lets_through_by(self, key: Sequence[str]) -> bool:
        """Is this the key of dropDuplicates, which takes texts for the same where their collation does?"""
        return bool(self.let_through_by) and set(self.let_through_by or ()) == set(key)

    def _check_shown(self) -> None:
        """A stream that no reader of the code shows would stay the stream that it is."""
        if self.numbered.code == UNSEEN_STREAM:
            raise UnseenStream(self.numbered.problem)
        if self.numbered.read_again:
            raise UnseenStream(
                f"The code reads {self.numbered.read_again} as a stream more than once, and a SQL text is one of these "
                "reads, so which position is whose is not certain."
            )

    def _check_replay(self) -> None:
        self._check_rows_show({"dedupe"})
        if self.operators and explained.has_watermark(self.text):
            raise CannotReplay(
                "The flow drops rows that arrive after its watermark, "
                "so its rows cannot be counted from input files alone."
            )

    def _check_rows_show(self, without: Collection[str] = DEDUPES) -> None:
        """Raise `CannotReplay` where a row is not made of rows of the input alone. `without`: operators that only leave
        rows out."""
        self._check_shown()
        stateful = [o for o in self.operators if o not in without]
        if stateful:
            raise CannotReplay(
                f"What the flow yields depends on its state ({ops.list_operators(stateful)}), "
                "so its rows cannot be counted from input files alone."
            )
        if grouped := explained.by_batch(self.text):
            raise CannotReplay(
                f"What the flow yields depends on how its input is cut into batches ({', '.join(grouped)}), "
                "so its rows cannot be counted from input files alone."
            )
        if chance := by_chance(self.text):
            raise CannotReplay(
                f"How many rows the flow yields is another number at each run ({', '.join(chance)})."
            )

    def _called(self, call: Any) -> Any:
        try:
            return call()
        except (CannotReplay, BadCode):
            raise
        except (Exception, SystemExit) as error:
            if lost_contact(error):
                raise
            sentence = secrets.withheld(where(error, self._placed), self.reader.withheld)
            raise BadCode(self._laid.hide_own_places(sentence) if self._laid else sentence) from error


@contextmanager
def keeping_repeats() -> Iterator[None]:
    """Meanwhile dropDuplicates changes nothing."""
    from pyspark.sql.connect.dataframe import DataFrame

    frames: Any = DataFrame
    names = ("dropDuplicates", "drop_duplicates", "dropDuplicatesWithinWatermark")
    before = {name: getattr(frames, name) for name in names}
    for name in names:
        setattr(frames, name, lambda frame, *given, **named: frame)
    try:
        yield
    finally:
        for name, method in before.items():
            setattr(frames, name, method)


def _dedupe(text: str) -> tuple[str, ...] | None:
    """Columns of the outermost dropDuplicates; () where the flow yields other values under their names, None: none."""
    columns = explained.dedupe_columns(text)
    return columns if columns is None or explained.keeps_key(text, columns) else ()


def _as_flow(spark: Any, flow: sql_definitions.SqlFlow) -> Any:
    """A flow of a SQL file, as the registry keeps one of Python."""
    text = sql_definitions.only_query(flow.query.text)
    values = {"spark_conf": {}, "mode": "append", "query": flow.query}
    return SimpleNamespace(name=flow.name, target=flow.target, func=lambda: spark.sql(text), **values)


def _prepare(
    spark: Any, queries: Sequence[sql_definitions.SqlQuery], query: Any, request: Mapping[str, Any]
) -> None:
    begin = (request["catalog"], request["schema"])
    sql_definitions.prepare(spark, queries, query, lambda: use(spark, *begin))


def _writes_alone(definitions: Definitions, flow: Any, request: Mapping[str, Any]) -> bool:
    """Does no other flow of the code write the flow's dataset?"""

    def written_by(one: Any) -> tuple[str, ...]:
        return full_name(one.target, request["catalog"], request["schema"])

    every = (*definitions.flows, *definitions.cdc_flows)
    return not any(f is not flow and written_by(f) == written_by(flow) for f in every)


def _say_how_columns_vary(source: SourceReader) -> str:
    """How a stream's columns may change while its code does not; "" where they cannot."""
    kind = source.format.lower() or "parquet"
    if kind == "kafka":
        return ""
    if kind not in FORMATS or source.table:
        return f"columns of {kind}"
    return "" if source.schema or kind == "text" else "columns inferred"


def _sink(definitions: Definitions, target: str) -> dict[str, Any] | None:
    """The sink that the code declares under the name of a flow's target; None: the flow writes a table."""
    sink = definitions.sinks.get(".".join(parts_of(target)))
    if sink is None:
        return None
    options = {str(name): str(value) for name, value in sink.options.items()}
    return {"name": sink.name, "format": sink.format.lower(), "options": options}


def _find_partitions(definitions: Definitions, flow: Any) -> tuple[str, ...] | None:
    """Columns by whose values the files of a program's sink are in folders of their own; None: not known."""
    sink = definitions.sinks.get(".".join(parts_of(flow.target)))
    return None if sink is None else sink.partitions
