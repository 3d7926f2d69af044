"""The answers themselves, put together from session, definitions, replay and counting (child only)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from recovery.errors import Refused
from recovery.spark import (
    comparable,
    counting,
    explained,
    filling,
    slicing,
    topics,
    topping,
)
from recovery.spark.api import (
    NO_SUCH_COLUMN,
    TYPES_DIFFER,
    UNSEEN_STREAM,
    WHOLE_ROW,
    Bounded,
    BoundedBy,
    Limit,
    Origin,
    Sample,
)
from recovery.spark.catalog import describe, sql_name, table
from recovery.spark.code_flow import CodeFlow
from recovery.spark.definitions import (
    BadCode,
)
from recovery.spark.lookups import OverBudget, budgets_of, check_size, limited, occurring
from recovery.spark.origins import find_origins
from recovery.spark.paths import literal, plain
from recovery.spark.rehearsing import Request
from recovery.spark.replay import CannotReplay, UnseenStream
from recovery.spark.session import driver_of, lost_contact
from recovery.spark.unsure import by_order


def study(spark: Any, request: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The fields of `api.Study`; what stands in the way is in `problem`, the rest as far as known."""
    try:
        flow = CodeFlow(spark, request, folder)
    except BadCode as error:
        return {"operators": None, "problem": str(error), "problem_code": error.code}
    if flow.numbered.code == UNSEEN_STREAM:
        return {"operators": None, "problem": flow.numbered.problem, "problem_code": UNSEEN_STREAM}
    facts_of_files = ("_metadata",) if explained.file_facts(flow.text) else ()
    out: dict[str, Any] = {
        "operators": flow.operators,
        "sources": flow.sources,
        "sink": flow.sink,
        "dedupe": flow.dedupe,
        "columns": flow.columns,
        "windows": explained.windows(flow.text),
        "groups": explained.groups(flow.text),
        "problem": flow.numbered.problem,
        "notes": [],
        "rests_on": flow.rests_on,
        "driver": driver_of(spark),
        "output_mode": flow.output_mode,
        "varies": sorted({*explained.besides(flow.text), *by_order(flow.text), *facts_of_files}),
        "watermarked": explained.has_watermark(flow.text),
    }
    from pyspark.errors import PySparkException

    try:
        key, out["key_from"] = flow.key(request.get("key"))
        out["key"] = [] if out["key_from"] == WHOLE_ROW else key
        out |= _counted(spark, flow, request, key, out["notes"])
    except counting.NoSuchColumn as error:
        out["problem"], out["problem_code"] = str(error), NO_SUCH_COLUMN
    except (BadCode, CannotReplay) as error:
        out["problem"] = str(error)
    except PySparkException as error:
        if lost_contact(error):
            raise
        out["problem"] = f"The rows could not be counted: {flow.says(error)}"
    return out


def _counted(
    spark: Any, flow: CodeFlow, request: Mapping[str, Any], key: Sequence[str], notes: list[str]
) -> dict[str, Any]:
    held = table(spark, request.get("table"))
    if request.get("table") and held is None:
        notes.append(f"There is no table {request['table']} yet.")
    rows = (
        None if held is None else held.count()
    )  # Delta, Iceberg and Parquet know it without a row being read
    try:
        frames = _frames(flow, request)
    except CannotReplay as problem:  # the table can be counted all the same
        code = UNSEEN_STREAM if isinstance(problem, UnseenStream) else ""
        return {"problem": str(problem), "problem_code": code, "table_rows": rows}
    if not frames:
        return {"table_rows": rows}
    limit = budgets_of(request).lookup
    by_key = held if flow.key(request.get("key"))[1] != WHOLE_ROW else None
    by_collation = flow.lets_through_by(key)
    try:
        counted, bounded = counting.set_counts(spark, frames, key, by_key, limit, by_collation=by_collation)
    except counting.NotComparable as error:  # what the code yields can be counted all the same
        notes.append(str(error))
        counted, bounded = counting.set_counts(spark, frames, key, None, limit, by_collation=by_collation)
    out = {**counted, "table_rows": rows}
    if held is not None:
        out["fresh"], more = _fresh(spark, flow, frames, key, held, counted["fresh"], limit)
        bounded += [one for one in more if one not in bounded]
    if request.get("lacking") in frames and by_key is not None:
        try:
            out["lacking"] = _beside_table(spark, flow, request, frames[request["lacking"]], key, held)
        except OverBudget as over:
            bounded.append(over.bounded)
    if request.get("committed") in frames and by_key is not None:
        try:
            out["committed"] = _beside_committed(spark, flow, request, key, held)
        except OverBudget as over:
            bounded.append(over.bounded)
    out["bounded"] = [asdict(one) for one in bounded]
    if request.get("by_file"):
        out["by_file"] = _by_file(flow, _known(request), notes)
    for label, target in (request.get("write") or {}).items():
        frames[label].write.mode("error").parquet(target)
    return out


def _beside_table(
    spark: Any,
    flow: CodeFlow,
    request: Request,
    yields: Any,
    key: Sequence[str],
    held: Any,
) -> Any:
    """The fields of `backups.Lacking`; None where the key cannot be compared. Raises `OverBudget`."""
    limit = budgets_of(request).grouping
    try:
        return filling.beside(spark, yields, flow.schema, held, key, limit)
    except (counting.NoSuchColumn, counting.NotComparable):
        return None


def _beside_committed(spark: Any, flow: CodeFlow, request: Request, key: Sequence[str], held: Any) -> Any:
    """The fields of `backups.CommittedBeside`; None where the key cannot be compared. Raises `OverBudget`."""
    given = topping.Input.of_study(request, request["committed"])
    try:
        return topping.compare_committed(spark, flow, given, held, key, budgets_of(request).grouping)
    except (counting.NoSuchColumn, counting.NotComparable, CannotReplay):
        return None


def _fresh(
    spark: Any,
    flow: CodeFlow,
    frames: Mapping[str, Any],
    key: Sequence[str],
    held: Any,
    counted: dict[str, int],
    limit: Limit,
) -> tuple[dict[str, int], list[Bounded]]:
    """Different keys that the table does not hold: of dropDuplicates by its own columns, whatever `key` compares rows.

    {} where these are not among what the code yields, or the table has them not: then nobody can tell.
    """
    own = flow.let_through_by
    if own is None or set(own) == set(key):
        return counted, []
    if not own:
        return {}, []
    try:
        found, bounded = counting.set_counts(spark, frames, own, held, limit, by_collation=True)
    except (counting.NoSuchColumn, counting.NotComparable):
        return {}, []
    return dict(found["fresh"]), bounded


def _known(request: Mapping[str, Any]) -> list[str]:
    """Every input file that a request names, in order."""
    named = [f for files in request["sets"].values() for f in files]
    for by_source in request["slices"].values():
        named += [f for part in by_source.values() for f in part.get("files") or ()]
    return sorted(set(named))


def _frames(flow: CodeFlow, request: Mapping[str, Any]) -> dict[str, Any]:
    """What the flow yields over what `sets` and `slices` name under each label together."""
    frames, known = {}, _known(request)
    for label in dict.fromkeys([*request["sets"], *request["slices"]]):
        parts = request["slices"].get(label, {})
        files = [*request["sets"].get(label, ()), *(f for p in parts.values() for f in p.get("files") or ())]
        frames[label] = flow.batch(files, known, {source: [part] for source, part in parts.items()})
    return frames


def _by_file(flow: CodeFlow, known: Sequence[str], notes: list[str]) -> dict[str, int]:
    """Rows by input file; {} with a note where there is no such number."""
    if not flow.reads_only_files:
        notes.append("Not every source of this flow is files, so there is no count by file.")
        return {}
    found = counting.rows_by_file(flow.batch(known, known), known) if known else {}
    if found is None:
        notes.append("Rows of several input files meet in this flow, so there is no count by file.")
    return found or {}


@dataclass(frozen=True)
class Held:
    """The rows of a table before and after a rerun. `whole`: `found` is the whole table, else what was written."""

    old: Any | None
    found: Any
    whole: bool


def measure(spark: Any, request: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The fields of `api.Measure`. Raises `Refused` where the code itself cannot be run."""
    from pyspark.errors import PySparkException

    if request.get("topic"):
        return _measure_topic(spark, request, folder)
    now = table(spark, request["table"])
    if now is None:
        return {"problem": f"There is no table {request['table']}, so nothing can be measured."}
    out: dict[str, Any] = {"table_rows": now.count()}
    place = describe(spark, request["table"])
    since = request.get("old_version")
    if since is not None and place.get("provider") != "delta":
        return out | {
            "problem": f"The table {request['table']} is no Delta table, so it has no version {since}."
        }
    try:
        flow = CodeFlow(spark, request["study"], folder)
    except BadCode as error:
        raise Refused(str(error)) from error
    out["sources"] = flow.sources
    try:
        out |= _compared(spark, flow, request, place, now)
    except BadCode as error:
        raise Refused(str(error)) from error
    except counting.NoSuchColumn as error:
        out["problem"] = str(error)
    except counting.NotComparable as error:
        out |= {"problem": str(error), "problem_code": TYPES_DIFFER}
    except OverBudget as over:
        out |= {"problem": TOO_LARGE, "bounded": [asdict(over.bounded)]}
    except PySparkException as error:
        if lost_contact(error):
            raise
        out["problem"] = f"The rows could not be compared: {flow.says(error)}"
    if request.get("whole"):
        out["whole"] = _whole(flow, request["whole"], now, request.get("key"))
    return out


def count(spark: Any, name: str, files: Sequence[str] | None) -> dict[str, int | None]:
    """Rows of the table, or of those of its data files that `files` names; None where there is no such table."""
    now = table(spark, name)
    if now is None:
        return {"rows": None}
    if files is None:
        return {"rows": now.count()}
    held = _data(spark, describe(spark, name), now, files)
    return {"rows": 0 if held is None else held.count()}


TOO_LARGE = (
    "Commits since the rerun began took rows out of the table, or rewrote its files, and its versions are larger than "
    "the limit up to which they are compared whole."
)


def _compared(
    spark: Any, flow: CodeFlow, request: Mapping[str, Any], place: Mapping[str, str], now: Any
) -> dict[str, Any]:
    """What the code yields beside what was written; of the table alone what can be said, where it cannot be replayed.

    Raises `OverBudget` where two whole versions would have to be compared, and are too large.
    """
    held = _held(spark, request, place, now)
    key, key_from = flow.key(request.get("key") or request["study"].get("key"))
    out: dict[str, Any] = {"key_from": key_from, "key": [] if key_from == WHOLE_ROW else key}
    out["table_only"] = counting.table_only(flow.columns, now)
    try:
        expected = _expected(spark, flow, request, held)
        if request.get("filled"):
            out["filled"] = filling.filled(spark, request, expected, now, key)
            expected = filling.with_filled(spark, expected, request["filled"]["backup"], key)
        if request.get("topped"):
            before = filling.at_version(spark, request["table"], request["old_version"])
            out["topped"] = topping.compare_topped(expected, now, key)
            expected = filling.lacking(expected, before, key)
        columns = flow.columns if request.get("whole_rows") else key
        apart = counting.Apart(columns, key, by_collation=flow.lets_through_by(key))
        out |= _difference(spark, request, held, expected, apart)
        # rows that a rehearsal wrote do not name their input
        files = [] if request.get("expected") else _known(request["study"])
        told = _origins(spark, flow, files, held, apart, out["samples"]["missing"])
        return out | {"origins": [asdict(one) for one in told]}
    except (CannotReplay, counting.NoSuchColumn, counting.NotComparable) as error:
        code = TYPES_DIFFER if isinstance(error, counting.NotComparable) else ""
        return out | _sizes(held) | {"problem": str(error), "problem_code": code}


def _difference(
    spark: Any, request: Mapping[str, Any], held: Held, expected: Any, apart: counting.Apart
) -> dict[str, Any]:
    if held.whole and held.old is not None:
        return counting.compare_versions(held.old, expected, held.found, apart, counting.SAMPLES)
    budgets = budgets_of(request)
    out, bounded = counting.compare(spark, held.old, expected, held.found, apart, counting.SAMPLES, budgets)
    out["old_rows"] = 0 if held.old is None else held.old.count()
    out["listed_rows"] = out["old_rows"] + out["new_rows"]
    if request.get("old_version") is not None:
        out["vanished"] = 0
    return out | {"bounded": [asdict(one) for one in bounded]}


def _origins(
    spark: Any,
    flow: CodeFlow,
    files: Sequence[str],
    held: Held,
    apart: counting.Apart,
    missing: Sample,
) -> list[Origin]:
    """Where the missing rows come from that are shown. That they cannot be had takes nothing from what
    else was measured: then it is not known where a row comes from."""
    from pyspark.errors import PySparkException

    try:
        return find_origins(
            spark, flow, files, held.found, apart.values, missing, by_collation=apart.by_collation
        )
    except (BadCode, CannotReplay, counting.NoSuchColumn, counting.NotComparable):
        return []
    except PySparkException as error:
        if lost_contact(error):
            raise
        return []


def _whole(
    flow: CodeFlow, asked: Mapping[str, Any], table: Any, given: Sequence[str] | None
) -> dict[str, Any]:
    """The fields of `api.Whole`: what the code yields over all input that there is, beside the whole table.

    That it cannot be had takes nothing from what else was measured.
    """
    from pyspark.errors import PySparkException

    try:
        key, key_from = flow.key(given)
        if key_from == WHOLE_ROW and (anew := explained.computed_anew(flow.text)):
            raise CannotReplay(
                f"The code computes what differs at every run ({', '.join(anew)}): name a key."
            )
        files = list(asked["files"])
        slices = {source: [part] for source, part in asked["slices"].items()}
        known = sorted({*files, *(f for part in asked["slices"].values() for f in part.get("files") or ())})
        every = flow.batch(files, known, slices)
        return counting.whole_flow(
            every, table, key, as_sets=key_from != WHOLE_ROW, by_collation=flow.lets_through_by(key)
        )
    except counting.NotComparable as error:
        return {"problem": str(error), "problem_code": TYPES_DIFFER}
    except (BadCode, CannotReplay, counting.NoSuchColumn) as error:
        return {"problem": str(error)}
    except PySparkException as error:
        if lost_contact(error):
            raise
        return {"problem": f"The whole table could not be compared: {flow.says(error)}"}


def _measure_topic(spark: Any, request: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """As `measure`, of the records that a flow sent to Kafka."""
    from pyspark.errors import PySparkException

    try:
        flow = CodeFlow(spark, request["study"], folder)
    except BadCode as error:
        raise Refused(str(error)) from error
    out: dict[str, Any] = {"old_rows": None}
    asked = request["topic"]
    try:
        found = topics.records(spark, flow.sink, asked["since"])
        out["new_rows"] = found.count()
        key, out["key"], out["key_from"] = topics.told_apart(request.get("key"), flow.text)
        if request.get("state_kept") and flow.operators and not request.get("expected"):
            raise CannotReplay(topics.STATE_KEPT)
        expected = topics.sent(_expected(spark, flow, request, Held(None, found, whole=False)))
        failed, margin = (
            topics.records(spark, flow.sink, asked[part]) if asked.get(part) else None
            for part in ("failed", "margin")
        )
        out |= topics.compared(expected, found, failed, key, counting.SAMPLES, margin=margin)
    except BadCode as error:
        raise Refused(str(error)) from error
    except CannotReplay as error:
        return out | {"problem": str(error)}
    except PySparkException as error:
        if lost_contact(error):
            raise
        out["problem"] = f"The records could not be compared: {flow.says(error)}"
    return out


def _held(spark: Any, request: Mapping[str, Any], place: Mapping[str, str], now: Any) -> Held:
    version = request.get("old_version")
    if version is None:
        old = _data(spark, place, now, request["old_files"])
        written = _data(spark, place, now, request["new_files"])
        return Held(old, now.where("false") if written is None else written, whole=False)
    if version < 0:
        return Held(None, now, whole=True)
    since, limit, name = request.get("since"), budgets_of(request).versions, request["table"]
    old = slicing.aligned(_at(spark, name, version), now.schema)
    moved = () if since is None else since["rewritten"]
    if since is not None and all(_same_rows(spark, name, place, now, one, limit) for one in moved):
        return Held(old, _of_log(spark, name, place, now, since["written"]), whole=False)
    check_size(old, limit, BoundedBy.VERSIONS)
    return Held(old, now, whole=True)


def _at(spark: Any, name: str, version: int) -> Any:
    return spark.read.option("versionAsOf", str(version)).table(sql_name(name))


def _of_log(spark: Any, name: str, place: Mapping[str, str], now: Any, part: slicing.Slice) -> Any:
    """Rows of data files of a Delta table, as its log names them."""
    if not part["versions"]:
        return now.where("false")

    def parquet(schema: Any, paths: Sequence[str]) -> Any:
        reader = spark.read.format("parquet").schema(schema).option("basePath", plain(place["location"]))
        return reader.load(list(paths))

    def read(options: Mapping[str, str]) -> Any:
        return spark.read.options(**options).table(sql_name(name))

    return slicing.delta(read, parquet, place["location"], now, [part])


def _same_rows(
    spark: Any, name: str, place: Mapping[str, str], now: Any, rewritten: Mapping[str, Any], limit: Limit
) -> bool:
    """Whether the files that a commit put in the place of others hold their rows. Raises `OverBudget`."""
    if limit.bytes is not None and rewritten["size"] > limit.bytes:
        raise OverBudget(Bounded(BoundedBy.REWRITTEN, rewritten["size"], limit.bytes))
    sides = [_of_log(spark, name, place, now, rewritten[side]) for side in ("gone", "came")]
    counts = counting.tallied(sides, [now.columns, now.columns])
    with limited(spark, limit, BoundedBy.REWRITTEN):
        return not counts.where("n0 != n1").limit(1).collect()


def _sizes(held: Held) -> dict[str, int]:
    """What can be said of the table alone, where the input cannot be replayed."""
    if held.whole and held.old is not None:
        apart = counting.Apart.by(held.found.columns)
        rows = counting.compare_versions(held.old, held.found.where("false"), held.found, apart, 0)
        return {name: rows[name] for name in ("old_rows", "new_rows", "listed_rows", "vanished")}
    counted = [0 if frame is None else frame.count() for frame in (held.old, held.found)]
    return {"old_rows": counted[0], "new_rows": counted[1], "listed_rows": sum(counted)}


def _expected(spark: Any, flow: CodeFlow, request: Mapping[str, Any], held: Held) -> Any:
    """The rows that the rerun had to write: as a rehearsal wrote them, else what the code yields over the input."""
    if request.get("expected"):
        return spark.read.schema(flow.schema).parquet(literal(request["expected"]))
    inputs = _known(request["study"])
    slices: dict[str, list[slicing.Slice]] = {}
    for by_source in request["study"]["slices"].values():
        for source, part in by_source.items():
            slices.setdefault(source, []).append(part)
    expected = flow.batch(inputs, inputs, slices)
    if request.get("state_kept") and flow.dedupe and held.old is not None:
        return _unseen(expected, held.old, flow.dedupe)
    return expected


def _unseen(expected: Any, old: Any, dedupe: Sequence[str]) -> Any:
    """Rows that a kept dropDuplicates state lets through: those whose key no old row has."""
    mine = counting.resolved(dedupe, expected.columns, "What the code yields")
    theirs = counting.resolved(dedupe, old.columns, "The table")
    names = counting.key_names(dedupe)
    columns = comparable.one_type([expected, old], [mine, theirs], by_collation=True)
    keys, held = (comparable.named(f, c) for f, c in zip((expected, old), columns, strict=True))
    known = occurring(held, keys.distinct(), names).distinct()
    asked = [f"__asked_{name}" for name in names]  # beside the flow's own columns, in the type that both have
    beside = expected.withColumns(dict(zip(asked, columns[0], strict=True)))
    condition = None
    for name, key in zip(asked, names, strict=True):
        same = beside[name].eqNullSafe(known[key])
        condition = same if condition is None else condition & same
    return beside.join(known, condition, "left_anti").drop(*asked)


def _data(spark: Any, place: Mapping[str, str], held: Any, files: Sequence[str]) -> Any | None:
    """Rows of the named data files with the table's own schema; None where none is named."""
    if not files:
        return None
    reader = spark.read.format(place["provider"]).schema(held.schema)
    reader = reader.option("basePath", place["location"])
    return reader.load([literal(f) for f in files])
