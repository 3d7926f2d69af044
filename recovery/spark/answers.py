"""The answers themselves, put together from session, definitions, replay and counting (child only)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recovery.errors import Refused
from recovery.spark import counting, explained
from recovery.spark.api import FROM_CODE, NAMED, WHOLE_ROW
from recovery.spark.definitions import BadCode, Definitions, find_flow, load, where, write_files
from recovery.spark.paths import literal, plain
from recovery.spark.replay import FORMATS, CannotReplay, Reader, streaming_sources
from recovery.spark.session import first_line, lost_contact, quoted, use

SAMPLES = 10


class Flow:
    """One flow of the code: its stream analysed once, its batches on demand."""

    def __init__(self, spark: Any, request: Mapping[str, Any], folder: Path) -> None:
        """Raises `BadCode` where the code does not parse, raises, or has no such flow."""
        self._placed = write_files(request["files"], request["root"], folder)
        use(spark, request["catalog"], request["schema"])
        definitions: Definitions = load(spark, self._placed, request["libraries"], folder)
        self._flow = find_flow(definitions, request["flow"], request["catalog"], request["schema"])
        self._reader = Reader(spark, definitions)
        spark.conf._set_all(configs={k: str(v) for k, v in self._flow.spark_conf.items()}, silent=True)
        stream = self._called(lambda: self._reader.stream(self._flow.func))
        if not hasattr(stream, "_explain_string"):
            raise BadCode(f"The flow {request['flow']} must return a DataFrame; its function returns none.")
        self._text = self._called(lambda: stream._explain_string(extended=True))
        self.columns: list[str] = self._called(lambda: stream.columns)
        self.sources, self.order_problem = self._ordered(streaming_sources(stream))
        self.operators = explained.operators(self._text)
        self.dedupe = explained.dedupe_columns(self._text)

    def batch(self, files: Sequence[str], known: Sequence[str]) -> Any:
        """What the flow yields over `files`. Raises `BadCode`, `CannotReplay`."""
        self._check_replay()
        return self._called(lambda: self._reader.batch(self._flow.func, files, known))

    def key(self, given: Sequence[str] | None) -> tuple[list[str], str]:
        """By what rows are told apart, and who says so: (columns, words)."""
        if given:
            return counting.resolved(given, self.columns, "What the code yields"), NAMED
        if self.dedupe and {c.lower() for c in self.dedupe} <= {c.lower() for c in self.columns}:
            return list(self.dedupe), FROM_CODE
        return list(self.columns), WHOLE_ROW

    def _ordered(self, reads: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], str | None]:
        """The file sources as Spark numbers them, and a problem where their order is not certain.

        One DataFrame used twice is one relation to Spark, and so one source.
        """
        if any(read["format"].lower() not in FORMATS | {""} for read in reads):
            return reads, None
        relations = [plain(path) for path in explained.file_paths(self._text)]
        once = [read for i, read in enumerate(reads) if read not in reads[:i]]
        for candidate in (reads, once):
            if [plain(str(read["path"])) for read in candidate] == relations:
                return candidate, None
        if len(reads) <= 1:
            return reads, None
        return reads, "The order of the sources in Spark's plan differs from their order in the code."

    def _check_replay(self) -> None:
        stateful = [o for o in self.operators if o != "dedupe"]
        if stateful:
            raise CannotReplay(
                f"What the flow yields depends on its state ({', '.join(stateful)}), "
                "so its rows cannot be counted from input files alone."
            )
        if self.operators and explained.has_watermark(self._text):
            raise CannotReplay(
                "The flow drops rows that arrive after its watermark, "
                "so its rows cannot be counted from input files alone."
            )

    def _called(self, call: Any) -> Any:
        try:
            return call()
        except (CannotReplay, BadCode):
            raise
        except (Exception, SystemExit) as error:
            if lost_contact(error):
                raise
            raise BadCode(where(error, self._placed)) from error


def study(spark: Any, request: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The fields of `api.Study`; what stands in the way is in `problem`, the rest as far as known."""
    try:
        flow = Flow(spark, request, folder)
    except BadCode as error:
        return {"operators": None, "problem": str(error)}
    out: dict[str, Any] = {
        "operators": flow.operators,
        "sources": flow.sources,
        "dedupe": flow.dedupe,
        "columns": flow.columns,
        "problem": flow.order_problem,
        "notes": [],
    }
    from pyspark.errors import PySparkException

    try:
        key, out["key_from"] = flow.key(request.get("key"))
        out["key"] = [] if out["key_from"] == WHOLE_ROW else key
        out |= _counted(spark, flow, request, key, out["notes"])
    except (BadCode, CannotReplay, counting.NoSuchColumn) as error:
        out["problem"] = str(error)
    except PySparkException as error:
        if lost_contact(error):
            raise
        out["problem"] = f"The rows could not be counted: {first_line(error)}"
    return out


def _counted(
    spark: Any, flow: Flow, request: Mapping[str, Any], key: Sequence[str], notes: list[str]
) -> dict[str, Any]:
    table = _table(spark, request.get("table"))
    if request.get("table") and table is None:
        notes.append(f"There is no table {request['table']} yet.")
    if not request["sets"]:
        return {"table_rows": table.count() if table is not None else None}
    known = sorted({f for files in request["sets"].values() for f in files})
    frames = {label: flow.batch(files, known) for label, files in request["sets"].items()}
    out = counting.set_counts(frames, key, table)
    if table is None:
        out["repeats"], out["fresh"] = {}, {}
    if request.get("by_file"):
        by_file = counting.rows_by_file(flow.batch(known, known), known)
        if by_file is None:
            notes.append("Rows of several input files meet in this flow, so there is no count by file.")
        out["by_file"] = by_file or {}
    for label, target in (request.get("write") or {}).items():
        frames[label].write.mode("error").parquet(target)
    return out


def measure(spark: Any, request: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The fields of `api.Measure`. Raises `Refused` where the code itself cannot be run."""
    from pyspark.errors import PySparkException

    table = _table(spark, request["table"])
    if table is None:
        return {"problem": f"There is no table {request['table']}, so nothing can be measured."}
    out: dict[str, Any] = {"table_rows": table.count()}
    place = describe(spark, request["table"])
    old = _data(spark, place, table, request["old_files"])
    written = _data(spark, place, table, request["new_files"])
    try:
        flow = Flow(spark, request["study"], folder)
        key, out["key_from"] = flow.key(request.get("key") or request["study"].get("key"))
        out["key"] = [] if out["key_from"] == WHOLE_ROW else key
        nothing = table.where("false")
        out |= _compared(flow, request, old, nothing if written is None else written, key)
    except BadCode as error:
        raise Refused(str(error)) from error
    except (CannotReplay, counting.NoSuchColumn) as error:
        return out | _sizes(old, written) | {"problem": str(error)}
    except PySparkException as error:
        if lost_contact(error):
            raise
        out["problem"] = f"The rows could not be compared: {first_line(error)}"
    return out


def _sizes(old: Any | None, written: Any | None) -> dict[str, int]:
    """What can be said of the data files alone, where the input cannot be replayed."""
    rows = [0 if frame is None else frame.count() for frame in (old, written)]
    return {"old_rows": rows[0], "new_rows": rows[1], "listed_rows": sum(rows)}


def _compared(
    flow: Flow, request: Mapping[str, Any], old: Any | None, written: Any, key: Sequence[str]
) -> dict[str, Any]:
    inputs = sorted({f for files in request["study"]["sets"].values() for f in files})
    expected = flow.batch(inputs, inputs)
    if request.get("state_kept") and flow.dedupe and old is not None:
        expected = _unseen(expected, old, flow.dedupe)
    out = counting.compare(old, expected, written, key, SAMPLES)
    out["listed_rows"] = out["old_rows"] + out["new_rows"]
    repeats = out.pop("duplicates_expected")
    out["duplicates_explained"] = max(0, repeats - out["duplicates_before"])
    return out


def _unseen(expected: Any, old: Any, dedupe: Sequence[str]) -> Any:
    """Rows that a kept dropDuplicates state lets through: those whose key no old row has."""
    mine = counting.resolved(dedupe, expected.columns, "What the code yields")
    theirs = counting.resolved(dedupe, old.columns, "The table")
    keys = old.select(*[old[quoted(c)].alias(f"__old{i}") for i, c in enumerate(theirs)]).distinct()
    condition = None
    for i, name in enumerate(mine):
        same = expected[quoted(name)].eqNullSafe(keys[f"__old{i}"])
        condition = same if condition is None else condition & same
    return expected.join(keys, condition, "left_anti")


def _data(spark: Any, place: Mapping[str, str], table: Any, files: Sequence[str]) -> Any | None:
    """Rows of the named data files with the table's own schema; None where none is named."""
    if not files:
        return None
    reader = spark.read.format(place["provider"]).schema(table.schema)
    reader = reader.option("basePath", place["location"])
    return reader.load([literal(f) for f in files])


def _table(spark: Any, name: str | None) -> Any | None:
    """The table as the catalog shows it now; None where there is none."""
    from pyspark.errors import AnalysisException

    if not name:
        return None
    frame = spark.read.table(_sql_name(name))
    try:
        _ = frame.schema
    except AnalysisException as error:
        if "TABLE_OR_VIEW_NOT_FOUND" in str(error) or "SCHEMA_NOT_FOUND" in str(error):
            return None
        raise
    return frame


def describe(spark: Any, table: str) -> dict[str, str]:
    """`location` and `provider` of a table; {} where there is none."""
    from pyspark.errors import AnalysisException

    try:
        rows = spark.sql(f"DESCRIBE TABLE EXTENDED {_sql_name(table)}").collect()
    except AnalysisException as error:
        if "TABLE_OR_VIEW_NOT_FOUND" in str(error) or "SCHEMA_NOT_FOUND" in str(error):
            return {}
        raise
    facts = {row["col_name"]: row["data_type"] for row in rows}
    return {k.lower(): facts[k] for k in ("Location", "Provider") if facts.get(k)}


def locations(spark: Any, names: Sequence[str]) -> dict[str, str]:
    """Location of each table that there is."""
    found = {name: describe(spark, name).get("location") for name in names}
    return {name: place for name, place in found.items() if place}


def tables(spark: Any, catalog: str, schema: str) -> dict[str, str]:
    """Every table of the schema that has a location; {} where there is no such schema."""
    from pyspark.errors import AnalysisException

    try:
        rows = spark.sql(f"SHOW TABLES IN {quoted(catalog)}.{quoted(schema)}").collect()
    except AnalysisException as error:
        if "SCHEMA_NOT_FOUND" in str(error):
            return {}
        raise
    names = [f"{catalog}.{schema}.{row['tableName']}" for row in rows if not row["isTemporary"]]
    return locations(spark, names)


def _sql_name(name: str) -> str:
    """Each part quoted, so that a name is never read as SQL."""
    return ".".join(quoted(part.strip("`")) for part in name.split("."))
