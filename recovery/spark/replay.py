"""Run a flow's own function over exactly the input named, in batch (child process only).

A file stream reads each micro-batch through an ordinary batch `DataSource` over the batch's files
(`FileStreamSource.getBatch`). The reader patched here builds the same: same format, resolved schema
and options, `basePath` as the stream sets it, but over the files that the question names. Kafka topics and Delta
tables are read by slices (`slicing`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

from recovery.contracts.readers import ReaderOptions, SourceReader
from recovery.spark import catalog, secrets, slicing, sql_streams
from recovery.spark.definitions import Definitions, parts_of
from recovery.spark.numbering import names_table
from recovery.spark.paths import is_glob, lies_under, literal, plain

FORMATS = {"json", "parquet", "csv", "text", "orc", "xml", "avro"}
# A file of these holds all that reading it takes: a table's own settings change nothing of its rows.
SELF_DESCRIBED = {"parquet", "orc"}
# Options of `FileStreamOptions`: they say how a stream goes about its files, not what a row is.
STREAM_ONLY = {
    "maxfilespertrigger",
    "maxbytespertrigger",
    "maxfileage",
    "latestfirst",
    "filenameonly",
    "cleansource",
    "sourcearchivedir",
    "maxcachedfiles",
    "discardcachedinputratio",
    "path",
}
# Input that cannot be read must stop a count, not shorten it, whatever the code lets a stream pass over.
SILENT: Final = {"ignoremissingfiles": "false", "ignorecorruptfiles": "false"}


class CannotReplay(Exception):
    """This flow's rows cannot be known from its input alone. One sentence."""


class UnseenStream(CannotReplay):
    """The plan reads a stream for which nothing can be put in its place."""


@dataclass(frozen=True)
class SourceRead:
    """One streaming read of the code: its `reader`, and the place of that among the flow's sources.

    `plan` is pyspark's own (`DataSource`, or `Read` for a table by name), `stream` the streaming DataFrame of it.
    """

    plan: Any
    stream: Any
    reader: SourceReader
    index: int | None


Replace = Callable[[SourceRead], Any]  # the DataFrame that stands where the code reads a stream


class ReaderProxy:
    """Stands between the flow's function and Spark's readers.

    `sources` are the flow's, once they are known: reads are matched with them; `by_text` as `Numbered` has it.
    `withheld` are the option values seen.
    `mutable`: the code may change settings and views of its session, as a program of its own may.
    """

    def __init__(self, spark: Any, definitions: Definitions, *, mutable: bool = False) -> None:
        self._mutable = mutable
        self.sources: Sequence[SourceReader] = ()
        self.by_text: Sequence[str] = ()
        self.withheld: set[str] = set()
        self._spark = spark
        self._views = {
            parts_of(f.target)[-1]: f.func for f in definitions.flows if f.target in definitions.views
        }
        self._schemas: dict[tuple[Any, ...], Any] = {}
        self._places: dict[str, Mapping[str, str]] = {}
        self._replace: Replace | None = None
        self._replaced: set[str] = set()

    def stream(self, function: Callable[[], Any]) -> Any:
        """The streaming DataFrame, as an update would build it."""
        with self._patched(None):
            return function()

    def replaced(self, function: Callable[[], Any], replace: Replace) -> Any:
        """What the function builds where every streaming read of it is replaced. Raises `UnseenStream`."""
        self._replaced = set()
        with self._patched(replace):
            frame = function()
        if left := [table for table in self.by_text if table not in self._replaced]:
            raise UnseenStream(
                f"A SQL text of the code reads {', '.join(left)} as a stream, and where it does so was not found. "
                "Write FROM STREAM and the table's name."
            )
        return frame

    def batch(
        self,
        function: Callable[[], Any],
        files: Sequence[str],
        known: Sequence[str],
        slices: Mapping[int, Sequence[slicing.Slice]],
    ) -> Any:
        """A batch DataFrame over `files` and, by source, `slices`. `known`: any files of these sources, for a set
        that is empty."""
        return self.replaced(function, lambda read: self.over(read, files, known, slices))

    def list_reads(self, stream: Any) -> list[SourceReader]:
        """Every streaming read of a DataFrame, left to right."""
        return [self._describe_read(read) for read in streaming_reads(stream)]

    @contextmanager
    def _patched(self, replace: Replace | None) -> Iterator[None]:
        from pyspark.pipelines.block_session_mutations import block_session_mutations
        from pyspark.sql.connect.readwriter import DataFrameReader
        from pyspark.sql.connect.session import SparkSession
        from pyspark.sql.connect.streaming.readwriter import DataStreamReader

        streams: Any = DataStreamReader
        batches: Any = DataFrameReader
        sessions: Any = SparkSession
        of_stream, of_batch, of_text = streams._df, batches._df, sessions.sql
        self._replace = replace
        streams._df = lambda reader, plan: self._streamed(reader, plan, of_stream)
        batches._df = lambda reader, plan: self._read(reader, plan, of_batch)
        if replace is not None and self.by_text:
            sessions.sql = lambda session, sqlQuery, args=None, **given: self._queried(
                session, sqlQuery, args, given, of_text
            )
        try:
            with nullcontext() if self._mutable else block_session_mutations():
                yield
        finally:
            streams._df, batches._df, sessions.sql = of_stream, of_batch, of_text

    def _view(self, plan: Any) -> Callable[[], Any] | None:
        name = getattr(plan, "table_name", None)
        return self._views.get(parts_of(name)[-1]) if name and len(parts_of(name)) == 1 else None

    def _read(self, reader: Any, plan: Any, original: Callable[..., Any]) -> Any:
        view = self._view(plan)
        return view() if view else original(reader, plan)

    def _streamed(self, reader: Any, plan: Any, original: Callable[..., Any]) -> Any:
        view = self._view(plan)
        if view:
            return view()
        stream = original(reader, plan)
        self.withheld |= secrets.values(
            getattr(plan, "_options", None) or getattr(plan, "options", None) or {}
        )
        if self._replace is None:
            return stream
        return self._replace(self._number_read(plan, stream, self._describe_read(streaming_reads(stream)[0])))

    def _number_read(self, plan: Any, stream: Any, reader: SourceReader) -> SourceRead:
        """As the first of the flow's sources that is read alike."""
        return SourceRead(plan, stream, reader, next(iter(self._list_alike(reader)), None))

    def _queried(
        self, session: Any, text: str, args: Any, given: Mapping[str, Any], original: Callable[..., Any]
    ) -> Any:
        """The DataFrame of a SQL text, with another one in place of each table that it reads as a stream. Each is a
        view of this query alone, as Spark makes one of a DataFrame that a text names in braces."""
        others: dict[str, Any] = {}

        def stand_in(name: str) -> str:
            key = f"reprise_stream_{len(others)}"
            others[key] = self._instead_of(name)
            return f"{{{key}}}"

        def keep(part: str) -> str:  # without such names of its own a text is no format
            return part if given else part.replace("{", "{{").replace("}", "}}")

        try:
            written = sql_streams.over_others(text, stand_in, keep)
        except sql_streams.Unclear as unclear:
            raise UnseenStream(str(unclear)) from unclear
        if not others:
            return original(session, text, args, **given)
        return original(session, written, args, **given, **others)

    def _instead_of(self, name: str) -> Any:
        """What is in the place of a table that a SQL text reads as a stream under this name."""
        from pyspark.sql.connect.dataframe import DataFrame
        from pyspark.sql.connect.plan import Read

        named = [table for table in self.by_text if names_table(name, table)]
        if len(named) != 1 or self._replace is None:
            raise UnseenStream(f"Which table a SQL text of the code means by STREAM {name} is not certain.")
        (table,) = named
        self._replaced.add(table)
        plan = Read(table, {}, is_streaming=True)
        frame = DataFrame(plan, self._spark)
        return self._replace(self._number_read(plan, frame, self.describe_table(table)))

    def _describe_read(self, read: Any) -> SourceReader:
        """The reader that a message of Connect shows; of a table by name with what the catalog says."""
        if read.WhichOneof("read_type") != "named_table":
            source = read.data_source
            options = dict(source.options)
            path = source_path(list(source.paths), options)
            name = source.source_name or None
            return SourceReader(source.format or "", path, options, source.schema, location=path, name=name)
        return self.describe_table(read.named_table.unparsed_identifier, dict(read.named_table.options))

    def describe_table(self, name: str, options: ReaderOptions | None = None) -> SourceReader:
        """The reader of a table by its name."""
        if name not in self._places:
            self._places[name] = catalog.describe(self._spark, name)
        place = self._places[name]
        return SourceReader(
            place.get("provider", "table").lower(),
            name,
            dict(options or {}),
            location=place.get("location"),
            table=name,
        )

    def over(
        self,
        read: SourceRead,
        files: Sequence[str],
        known: Sequence[str],
        slices: Mapping[int, Sequence[slicing.Slice]],
    ) -> Any:
        """A batch DataFrame of one read; as `batch`."""
        kind = read.reader.format.lower()
        mine = slices.get(read.index, ()) if read.index is not None else ()
        if kind in ("kafka", "delta") and any(
            slices.get(n, ()) != mine for n in self._list_alike(read.reader)
        ):
            raise CannotReplay(
                f"The code reads {read.reader.location or kind} in the same way more than once, and from "
                "different positions, so which of them is whose is not certain."
            )
        if kind == "kafka":
            return slicing.kafka(self._spark, read.plan, read.stream, mine)
        if kind == "delta":
            return self._over_delta(read, mine)
        if hasattr(read.plan, "_paths"):
            return self._over_files(read.plan, read.stream, files, known)
        name, location = getattr(read.plan, "table_name", "another table"), read.reader.location
        place = plain(location or "")
        if kind not in SELF_DESCRIBED or not place or is_glob(place) or read.reader.options:
            raise CannotReplay(f"The flow reads the table {name} as a stream, so its input is not files.")
        return self._over_table(name, kind, place, read.stream, files, known)

    def _list_alike(self, reader: SourceReader) -> list[int]:
        """The numbers of the sources that this may be the reader of."""
        shown = (reader.format, reader.path, reader.options)
        return [n for n, s in enumerate(self.sources) if (s.format, s.path, s.options) == shown]

    def _over_delta(self, read: SourceRead, slices: Sequence[slicing.Slice]) -> Any:
        from pyspark.sql.connect.dataframe import DataFrame
        from pyspark.sql.connect.plan import DataSource, Read

        location, name = read.reader.location, read.reader.table
        if not location:
            raise CannotReplay(
                "The flow reads a Delta table whose place is not known, so it cannot be read again."
            )
        kept = {k: v for k, v in read.reader.options.items() if k.lower().startswith(("fs.", "dfs."))}

        def table(options: Mapping[str, str]) -> Any:
            asked = {**kept, **options}
            if name:
                return DataFrame(Read(name, asked), self._spark)
            return DataFrame(DataSource(format="delta", options=asked, paths=[location]), self._spark)

        def parquet(schema: Any, paths: Sequence[str]) -> Any:
            options = {**kept, "basePath": plain(location)}
            source = DataSource(format="parquet", schema=schema.json(), options=options, paths=list(paths))
            return DataFrame(source, self._spark)

        frame = slicing.delta(table, parquet, location, read.stream, slices)
        return frame.alias(parts_of(name)[-1]) if name else frame

    def _over_files(self, plan: Any, stream: Any, files: Sequence[str], known: Sequence[str]) -> Any:
        from pyspark.sql.connect.dataframe import DataFrame
        from pyspark.sql.connect.plan import DataSource

        path, options = source_path(plan._paths, plan._options or {}), dict(plan._options or {})
        if path is None or (plan._format or "parquet").lower() not in FORMATS:
            raise CannotReplay(f"The flow reads from {plan._format}, which cannot be read again in batch.")
        lower = {k.lower(): v for k, v in options.items()}
        recursive = lower.get("recursivefilelookup", "false").lower() == "true"
        once = dict.fromkeys(files)  # another reader of the same folder has named it too
        mine = [literal(f) for f in once if lies_under(f, path, recursive=recursive)]
        stand_in = [literal(f) for f in known if lies_under(f, path, recursive=recursive)][:1]
        kept = {k: v for k, v in options.items() if k.lower() not in STREAM_ONLY | SILENT.keys()} | SILENT
        if not is_glob(path):
            kept["basePath"] = path
        nothing = not (mine or stand_in)
        if nothing:  # the folder itself, with every file shut out
            kept["pathGlobFilter"] = ".no-file-has-this-name"
        source = DataSource(
            format=plan._format,
            schema=self._schema(plan, path, options, stream),
            options=kept,
            paths=mine or stand_in or [path],
        )
        frame = DataFrame(source, self._spark)
        return frame if mine or nothing else frame.where("false")

    def _over_table(
        self, name: str, kind: str, location: str, stream: Any, files: Sequence[str], known: Sequence[str]
    ) -> Any:
        """Rows of files of a table that the code reads as a stream, under the table's own name."""
        from pyspark.sql.connect.plan import DataSource

        plan = DataSource(format=kind, schema=stream.schema.json(), options={}, paths=[location])
        return self._over_files(plan, stream, files, known).alias(parts_of(name)[-1])

    def _schema(self, plan: Any, path: str, options: Mapping[str, str], stream: Any) -> str:
        """What the stream itself resolved, partition columns included: one question a source."""
        key = (plan._format, str(plan._schema), path, tuple(sorted(options.items())))
        if key not in self._schemas:
            self._schemas[key] = stream.schema.json()
        return str(self._schemas[key])


def source_path(paths: Sequence[str] | None, options: Mapping[str, str]) -> str | None:
    """The one path of a file stream, given as argument or as option."""
    if paths:
        return paths[0]
    return next((v for k, v in options.items() if k.lower() == "path"), None)


def streaming_reads(frame: Any) -> list[Any]:
    """Streaming reads of a DataFrame as Connect's messages, left to right: the order of Spark's plan."""
    return list(_walk(frame._plan.plan(frame._session.client)))


def _walk(message: Any) -> Iterator[Any]:
    from google.protobuf.message import Message

    if message.DESCRIPTOR.full_name == "spark.connect.Read" and message.is_streaming:
        yield message
        return
    for _field, value in message.ListFields():  # by field number: left before right, as Spark numbers them
        for item in [value] if isinstance(value, Message) else _messages(value):
            yield from _walk(item)


def sql_texts(frame: Any) -> list[str]:
    """The SQL texts of a DataFrame's plan."""
    every = messages_in(frame._plan.plan(frame._session.client))
    return [message.query for message in every if message.DESCRIPTOR.full_name == "spark.connect.SQL"]


def messages_in(message: Any) -> Iterator[Any]:
    """A message of Connect, and every one within it."""
    from google.protobuf.message import Message

    yield message
    for _field, value in message.ListFields():
        for item in [value] if isinstance(value, Message) else _messages(value):
            yield from messages_in(item)


def _messages(value: Any) -> list[Any]:
    """The messages in a list or a map of a message's field. Such a list is a sequence without `__iter__`."""
    from google.protobuf.message import Message

    if isinstance(value, (str, bytes, int, float)):
        return []
    items = value.values() if hasattr(value, "values") else list(value)
    return [item for item in items if isinstance(item, Message)]
