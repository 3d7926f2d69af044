"""A rehearsal: the flow's own streaming query over a copy of its input, in a folder of its own (child process only).

Two questions, since between them the caller lays the checkpoint that the query begins on (`recovery.spark.scratch`):

- `stage` copies what each source yields into `<scratch>/input/<source>/<batch>/`, in the batches in which an update
  would read it, with the stream's own schema; and says how many sources the query has.
- `run` runs the query over these copies with the trigger AvailableNow, as an update does.

Where the query first builds its state of what was processed (`api.Replay`), that is copied whole into
`<scratch>/input/<source>/before`, and `replay` runs the query over it, in one batch and into no sink.

Nothing is removed here, whatever happens.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from math import inf
from pathlib import Path
from typing import Any

from recovery.sources import batches
from recovery.sources.input_ranges import InputRange
from recovery.spark import explained
from recovery.spark.code_flow import CodeFlow
from recovery.spark.definitions import BadCode
from recovery.spark.paths import lies_under, literal
from recovery.spark.replay import FORMATS, CannotReplay, SourceRead
from recovery.spark.session import lost_contact, quoted
from recovery.spark.unsure import by_chance

Request = Mapping[str, Any]  # `api.RehearsalRequest` as JSON, with what was staged
Answer = dict[str, Any]

NOTHING = ".no-file-has-this-name"
ALIKE = frozenset({"dedupe", "dedupeWithinWatermark", "globalLimit", "symmetricHashJoin"})
"""Steps that write the same rows in each mode that they can write in."""
BEFORE = "before"  # the copy of what was processed; others are called by the number of their batch
# A column of the copy may be null exactly where the stream's may: the state is typed by that.
AS_GIVEN = {"spark.sql.streaming.fileSource.schema.forceNullable": "false"}
# State that stands in snapshots can be carried to another version; the progress of every batch is kept.
RUNNING = {
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": str(3 * batches.MOST),
}
# One batch, at the watermark of its header: a further one would take out of the state what no table has yet.
REPLAYING = {**RUNNING, "spark.sql.streaming.noDataMicroBatches.enabled": "false"}
# After a replay the first file of the sink's log has another number than 0, which no reader takes for whole.
BY_FOLDER = {"spark.sql.streaming.fileStreamSink.ignoreMetadata": "true"}


def stage(spark: Any, request: Request, folder: Path) -> Answer:
    """`{cuts: {source: number of batches}, before, sources, why}`, or `{problem}`. `sources`: lines of the offset log;
    `before`: those of which something was processed.

    Where the request names no settings, a query that reads nothing leaves those of the session in
    `<scratch>/settings/checkpoint/offsets/0`.
    """

    def staged(flow: CodeFlow) -> Answer:
        copies = Copies(spark, flow, request)
        cuts, why = copies.write()
        before = copies.write_before()
        text = copies.stand_in(cuts)._explain_string(extended=True)
        if request["conf"] is None:
            _note_settings(spark, f"{request['scratch']}/settings")
        return {"cuts": cuts, "before": before, "sources": len(explained.relations(text)), "why": why}

    return _said(spark, request, folder, staged, "The input could not be copied")


def run(spark: Any, request: Request, folder: Path) -> Answer:
    """`{rows, late, later, batches}`, or `{problem}`. Ends after `request["seconds"]`, and stops the query then."""

    def ran(flow: CodeFlow) -> Answer:
        stream = Copies(spark, flow, request).stand_in(request["cuts"])
        spark.conf._set_all(configs=RUNNING, silent=True)
        output = f"{request['scratch']}/rows"
        writer = stream.writeStream.format("parquet").option("path", output)
        query = _run(writer, request)
        if query is None:
            return _took_too_long(request)
        told = query.recentProgress
        if request.get("replay") is not None:
            spark.conf._set_all(configs=BY_FOLDER, silent=True)
        late = [sum(state.numRowsDroppedByWatermark for state in one.stateOperators) for one in told]
        begun = request["watermark_ms"] or 0
        later = sum(rows for rows, one in zip(late, told, strict=True) if _watermark(one) > begun)
        rows = spark.read.schema(stream.schema).parquet(output).count()
        return {"rows": rows, "late": sum(late), "later": later, "batches": len(told)}

    return _said(spark, request, folder, ran, "The flow's query failed over a copy of its input")


def replay(spark: Any, request: Request, folder: Path) -> Answer:
    """`{batches}` of the query over what was processed, into no sink, or `{problem}`. Ends as `run` does."""

    def ran(flow: CodeFlow) -> Answer:
        stream = Copies(spark, flow, request).before(request["before"])
        spark.conf._set_all(configs=REPLAYING, silent=True)
        query = _run(stream.writeStream.format("noop"), request)
        if query is None:
            return _took_too_long(request)
        told = [one.batchId for one in query.recentProgress if one.numInputRows]
        if len(told) > 1:
            return {"problem": f"The replay was to be one batch; Spark ran {len(told)}."}
        return {"batches": len(told)}

    return _said(spark, request, folder, ran, "The flow's query failed over a copy of what was processed")


def _run(writer: Any, request: Request) -> Any | None:
    """The query, when it has ended. None: it did not within its time, and was stopped."""
    writer = writer.outputMode("append").option("checkpointLocation", f"{request['scratch']}/checkpoint")
    query = writer.trigger(availableNow=True).start()
    if query.awaitTermination(request["seconds"]):
        return query
    query.stop()
    return None


def _took_too_long(request: Request) -> Answer:
    took = f"{request['seconds']:.0f} s"
    return {"problem": f"The rehearsal did not end within {took} and was stopped; give it more time."}


def _watermark(progress: Any) -> float:
    """At which a batch ran, in epoch ms; without any watermark later than each."""
    watermark = progress.eventTime.get("watermark")
    return round(datetime.fromisoformat(watermark).timestamp() * 1000) if watermark else inf


def _said(
    spark: Any,
    request: Request,
    folder: Path,
    answer: Callable[[CodeFlow], Answer],
    otherwise: str,
) -> Answer:
    from pyspark.errors import PySparkException

    try:
        flow = CodeFlow(spark, request["study"], folder)
    except BadCode as error:
        return {"problem": str(error)}
    try:
        return answer(flow)
    except (BadCode, CannotReplay) as error:
        return {"problem": str(error)}
    except PySparkException as error:
        if lost_contact(error):
            raise
        return {"problem": f"{otherwise}: {flow.says(error).rpartition('terminated with exception: ')[2]}"}


class Copies:
    """The copies of a flow's sources below the scratch folder, and the streams that stand in for them."""

    def __init__(self, spark: Any, flow: CodeFlow, request: Request) -> None:
        """Raises `BadCode`; `CannotReplay` where a copy would not be what the code reads."""
        self._spark, self._flow, self._study, self._request = spark, flow, request["study"], request
        self._input = f"{request['scratch'].rstrip('/')}/input"
        if flow.numbered.problem:
            raise CannotReplay(flow.numbered.problem)
        if explained.file_facts(flow.text):
            raise CannotReplay(
                "The flow asks for facts of its input files (_metadata, input_file_name), which a copy does not have."
            )
        self._reads: dict[int, SourceRead] = {}
        flow.replaced(self._note)
        self._schemas = {number: read.stream.schema for number, read in self._reads.items()}

    def _note(self, read: SourceRead) -> Any:
        if read.index is not None:  # else the code reads a stream that is no part of what it returns
            self._reads[read.index] = read
        return read.stream

    def write(self) -> tuple[dict[str, int], str]:
        """Copy all: how many batches of each source, and why they may not be an update's ("": they are)."""
        cuts, reasons = {}, []
        for number, read in sorted(self._reads.items()):
            waits = self._named(number, read, self._study["sets"], self._study["slices"])
            split = batches.split_batches(waits, read.reader.options)
            self._copy(number, read, split.cuts)
            cuts[str(number)] = len(split.cuts)
            if split.why:
                reasons.append(f"Source {number}: {split.why}.")
        mode = self._flow.output_mode
        if mode != "append" and not ALIKE.issuperset(self._flow.operators):
            reasons.append(f"The query writes in {mode} mode, and a rehearsal appends: it writes other rows.")
        if chance := by_chance(self._flow.text):
            reasons.append(f"The query yields another number of rows at each run ({', '.join(chance)}).")
        return cuts, " ".join(reasons)

    def write_before(self) -> list[int]:
        """Copy what was processed: the sources of which something was."""
        numbers: list[int] = []
        replay = self._request.get("replay")
        if replay is None:
            return numbers
        replayed = replay["input"]
        for number, read in sorted(self._reads.items()):
            held = self._named(number, read, {"": replayed["files"]}, {"": replayed["slices"]})
            place = f"{self._input}/{number}/{BEFORE}"
            if held.empty:  # a stream asks for a folder that is there
                self._spark.createDataFrame([], self._schemas[number]).write.parquet(place)
                continue
            self._copied_over(number, read, held).write.parquet(place)
            numbers.append(number)
        return numbers

    def _named(
        self,
        number: int,
        read: SourceRead,
        sets: Mapping[str, Sequence[str]],
        slices: Mapping[str, Request],
    ) -> InputRange:
        """What is asked of one source, all labels together, in their order."""
        labels = [label[str(number)] for label in slices.values() if str(number) in label]
        parts = [InputRange.from_json(part) for part in labels]
        if read.reader.format.lower() in FORMATS | {""}:
            listed = dict.fromkeys(f for files in sets.values() for f in files)
            place = read.reader.location or ""  # of a table, which has a name for a path
            mine = (f for f in listed if lies_under(f, place, recursive=_recursive(read)))
            parts.insert(0, InputRange("files", tuple(mine)))
        if not parts:
            return InputRange("files")
        joined = batches.join_slices(parts)
        if joined is None:
            raise CannotReplay(f"What is asked of source {number} leaves something out in between.")
        return joined

    def _copy(self, number: int, read: SourceRead, cuts: Sequence[InputRange]) -> None:
        schema = self._schemas[number]
        if not cuts:
            self._spark.createDataFrame([], schema).write.parquet(f"{self._input}/{number}/000000")
        for at, cut in enumerate(cuts):
            frame = self._copied_over(number, read, cut)
            if len(cuts) > 1:
                frame = frame.coalesce(1)  # its one file is what a batch takes
            frame.write.parquet(f"{self._input}/{number}/{at:06d}")

    def _copied_over(self, number: int, read: SourceRead, cut: InputRange) -> Any:
        frame = self._flow.reader.over(read, cut.files, (), {number: [cut.as_dict()]})
        return frame.select(*map(quoted, self._schemas[number].names))

    def stand_in(self, cuts: Mapping[str, int]) -> Any:
        """The flow's streaming DataFrame over the copies."""

        def options(number: int) -> dict[str, str]:
            many = cuts[str(number)]
            some = {} if many else {"pathGlobFilter": NOTHING}
            return {**some, "maxFilesPerTrigger": "1"} if many > 1 else some

        return self._over("[0-9]*", options)

    def before(self, there: Sequence[int]) -> Any:
        """The flow's streaming DataFrame over the copies of what was processed."""
        return self._over(f"{BEFORE}*", lambda number: {} if number in there else {"pathGlobFilter": NOTHING})

    def _over(self, folders: str, options: Callable[[int], dict[str, str]]) -> Any:
        self._spark.conf._set_all(configs=AS_GIVEN, silent=True)
        return self._flow.replaced(lambda read: self._copied(read, folders, options))

    def _copied(self, read: SourceRead, folders: str, options: Callable[[int], dict[str, str]]) -> Any:
        from pyspark.sql.connect.dataframe import DataFrame
        from pyspark.sql.connect.plan import DataSource

        number = read.index
        if number is None:
            return read.stream
        source = DataSource(
            format="parquet",
            schema=self._schemas[number].json(),
            options=options(number),
            paths=[f"{literal(self._input)}/{number}/{folders}"],
            is_streaming=True,
        )
        return DataFrame(source, self._spark)


def _note_settings(spark: Any, place: str) -> None:
    """Let Spark write a header: which settings it holds is Spark's to say."""
    spark.createDataFrame([], "nothing int").write.parquet(f"{place}/input")
    stream = spark.readStream.schema("nothing int").parquet(f"{place}/input")
    writer = stream.writeStream.format("noop").option("checkpointLocation", f"{place}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()


def _recursive(read: SourceRead) -> bool:
    return read.reader.lower_options.get("recursivefilelookup", "").lower() == "true"
