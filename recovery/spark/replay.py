"""Run a flow's own function over exactly the files named, in batch (child process only).

A file stream reads each micro-batch through an ordinary batch `DataSource` over the batch's files
(`FileStreamSource.getBatch`). The reader patched here builds the same: same format, resolved schema
and options, `basePath` as the stream sets it, but over the files that the question names.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from recovery.spark.definitions import Definitions, parts_of
from recovery.spark.paths import is_glob, lies_under, literal

FORMATS = {"json", "parquet", "csv", "text", "orc", "xml", "avro"}
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


class CannotReplay(Exception):
    """This flow's rows cannot be known from its input files alone. One sentence."""


class Reader:
    """Stands between the flow's function and Spark's readers. `files` None: build the stream itself."""

    def __init__(self, spark: Any, definitions: Definitions) -> None:
        self._spark = spark
        self._views = {
            parts_of(f.target)[-1]: f.func for f in definitions.flows if f.target in definitions.views
        }
        self._schemas: dict[tuple[Any, ...], Any] = {}
        self._files: Sequence[str] | None = None
        self._known: Sequence[str] = ()

    def stream(self, function: Callable[[], Any]) -> Any:
        """The streaming DataFrame, as an update would build it."""
        with self._patched(None):
            return function()

    def batch(self, function: Callable[[], Any], files: Sequence[str], known: Sequence[str]) -> Any:
        """A batch DataFrame over `files`. `known`: any files of these sources, for a set that is empty."""
        self._known = known
        with self._patched(files):
            return function()

    @contextmanager
    def _patched(self, files: Sequence[str] | None) -> Iterator[None]:
        from pyspark.pipelines.block_session_mutations import block_session_mutations
        from pyspark.sql.connect.readwriter import DataFrameReader
        from pyspark.sql.connect.streaming.readwriter import DataStreamReader

        streams: Any = DataStreamReader
        batches: Any = DataFrameReader
        of_stream, of_batch = streams._df, batches._df
        self._files = files
        streams._df = lambda reader, plan: self._streamed(reader, plan, of_stream)
        batches._df = lambda reader, plan: self._read(reader, plan, of_batch)
        try:
            with block_session_mutations():
                yield
        finally:
            streams._df, batches._df = of_stream, of_batch

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
        if self._files is None:
            return stream
        if not hasattr(plan, "_paths"):
            name = getattr(plan, "table_name", "another table")
            raise CannotReplay(f"The flow reads the table {name} as a stream, so its input is not files.")
        return self._over_files(plan, stream, self._files)

    def _over_files(self, plan: Any, stream: Any, files: Sequence[str]) -> Any:
        from pyspark.sql.connect.dataframe import DataFrame
        from pyspark.sql.connect.plan import DataSource

        path, options = source_path(plan._paths, plan._options or {}), dict(plan._options or {})
        if path is None or (plan._format or "parquet").lower() not in FORMATS:
            raise CannotReplay(f"The flow reads from {plan._format}, which is not files.")
        lower = {k.lower(): v for k, v in options.items()}
        recursive = lower.get("recursivefilelookup", "false").lower() == "true"
        mine = [literal(f) for f in files if lies_under(f, path, recursive=recursive)]
        stand_in = [literal(f) for f in self._known if lies_under(f, path, recursive=recursive)][:1]
        kept = {k: v for k, v in options.items() if k.lower() not in STREAM_ONLY}
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


def streaming_sources(frame: Any) -> list[dict[str, Any]]:
    """Streaming reads of a DataFrame in plan order: the order of sources in Spark's offset log."""
    return list(_walk(frame._plan.plan(frame._session.client)))


def _walk(message: Any) -> Iterator[dict[str, Any]]:
    from google.protobuf.message import Message

    if message.DESCRIPTOR.full_name == "spark.connect.Read" and message.is_streaming:
        yield _described(message)
        return
    for _field, value in message.ListFields():  # by field number: left before right, as Spark numbers them
        for item in [value] if isinstance(value, Message) else _messages(value):
            yield from _walk(item)


def _messages(value: Any) -> list[Any]:
    from google.protobuf.message import Message

    if isinstance(value, (str, bytes, int, float)) or not hasattr(value, "__iter__"):
        return []
    items = value.values() if hasattr(value, "values") else value
    return [item for item in items if isinstance(item, Message)]


def _described(read: Any) -> dict[str, Any]:
    if read.WhichOneof("read_type") == "named_table":
        table = read.named_table
        return {
            "format": "table",
            "path": table.unparsed_identifier,
            "options": dict(table.options),
            "schema": "",
        }
    source = read.data_source
    options = dict(source.options)
    return {
        "format": source.format or "",
        "path": source_path(list(source.paths), options),
        "options": options,
        "schema": source.schema,
    }
