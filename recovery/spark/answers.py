"""The answers, as `recovery.spark.api` has them, made of session, definitions, replay and counts (child only)."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from recovery.errors import Refused
from recovery.spark import (
    comparable,
    counting,
    deduplicating,
    explained,
    filling,
    misread,
    slicing,
    topics,
    topping,
)
from recovery.spark.api import (
    NO_SUCH_COLUMN,
    TYPES_DIFFER,
    UNSEEN_STREAM,
    WHOLE_ROW,
    BudgetBound,
    Limit,
    Measure,
    RowOrigin,
    Sample,
    Study,
    TableRowCount,
    WholeComparison,
)
from recovery.spark.backups import CommittedComparison, TableGap, ToppedRows
from recovery.spark.catalog import describe, table
from recovery.spark.code_flow import CodeFlow
from recovery.spark.definitions import BadCode
from recovery.spark.explained import dedupes_last
from recovery.spark.lookups import OverBudget, budgets_of, occurring
from recovery.spark.origins import find_origins
from recovery.spark.paths import literal
from recovery.spark.rehearsing import Request
from recovery.spark.replay import CannotReplay, UnseenStream
from recovery.spark.row_values import WrittenRows, measure_values
from recovery.spark.session import driver_of, first_line, lost_contact
from recovery.spark.table_sides import (
    TableRows,
    add_columns,
    count_sides,
    read_files,
    read_sides,
    type_partitions,
)
from recovery.spark.unsure import by_order


def study_code(spark: Any, request: Request, folder: Path) -> Study:
    """What the code is and yields; what is in the way is its `problem`, the rest as far as known."""
    from pyspark.errors import PySparkException

    try:
        flow = CodeFlow(spark, request, folder)
    except BadCode as error:
        return Study(problem=str(error), problem_code=error.code)
    if flow.numbered.code == UNSEEN_STREAM:
        return Study(problem=flow.numbered.problem, problem_code=UNSEEN_STREAM)
    study, notes = _describe_flow(spark, flow), list[str]()
    try:
        key, key_from = flow.key(request.get("key"))
        study = replace(study, key_from=key_from, key=() if key_from == WHOLE_ROW else tuple(key))
        study = _count_rows(spark, flow, request, study, key, notes)
    except counting.NoSuchColumn as error:
        study = replace(study, problem=str(error), problem_code=NO_SUCH_COLUMN)
    except (BadCode, CannotReplay) as error:
        study = replace(study, problem=str(error))
    except PySparkException as error:
        if lost_contact(error):
            raise
        study = replace(study, problem=f"The rows could not be counted: {flow.says(error)}")
    return replace(study, notes=tuple(notes))


def _describe_flow(spark: Any, flow: CodeFlow) -> Study:
    """What the plan shows, without a row being read."""
    facts_of_files = ("_metadata",) if explained.file_facts(flow.text) else ()
    return Study(
        operators=tuple(flow.operators),
        sources=flow.sources,
        sink=flow.sink,
        dedupe=None if flow.dedupe is None else tuple(flow.dedupe),
        columns=tuple(flow.columns),
        computed=explained.computed_columns(flow.text, flow.columns),
        windows=explained.windows(flow.text),
        groups=explained.groups(flow.text),
        problem=flow.numbered.problem,
        rests_on=tuple(flow.rests_on),
        driver=driver_of(spark),
        output_mode=flow.output_mode,
        varies=tuple(sorted({*explained.besides(flow.text), *by_order(flow.text), *facts_of_files})),
        watermarked=explained.has_watermark(flow.text),
        is_row_per_key=None if flow.dedupe is None else explained.makes_row_per_key(flow.text),
        absent=flow.absent,
    )


def _count_rows(
    spark: Any, flow: CodeFlow, request: Request, study: Study, key: Sequence[str], notes: list[str]
) -> Study:
    """With what the code yields over each label, beside the table."""
    try:
        held = table(spark, request.get("table"))
    except Refused as refused:
        return replace(study, problem=refused.sentence)
    if request.get("table") and held is None:
        notes.append(f"There is no table {request['table']} yet.")
    # Delta, Iceberg and Parquet know it without a row being read
    study = replace(study, table_rows=None if held is None else held.count())
    study = replace(study, misfit=misread.forecast_misfit(flow, request.get("table") or "", held))
    held = None if held is None else type_partitions(spark, flow, request["table"], held)
    try:
        frames = _frames_by_label(flow, request)
    except CannotReplay as problem:  # the table can be counted all the same
        code = UNSEEN_STREAM if isinstance(problem, UnseenStream) else ""
        return replace(study, problem=str(problem), problem_code=code)
    if not frames:
        return study
    limit = budgets_of(request).lookup
    by_key = held if study.key_from != WHOLE_ROW else None
    by_collation = flow.lets_through_by(key)
    try:
        counted = counting.set_counts(spark, frames, key, by_key, limit, by_collation=by_collation)
    except counting.NotComparable as error:  # what the code yields can be counted all the same
        notes.append(str(error))
        counted = counting.set_counts(spark, frames, key, None, limit, by_collation=by_collation)
    bounded, fresh = list(counted.bounded), counted.fresh
    if held is not None:
        fresh, more = _count_fresh_keys(spark, flow, frames, key, held, counted, limit)
        bounded += [budget for budget in more if budget not in bounded]
    study = replace(study, rows=counted.rows, distinct=counted.distinct, repeats=counted.repeats, fresh=fresh)
    if by_key is not None:
        study = _compare_with_table(spark, flow, request, study, frames, key, held, bounded)
    study = replace(study, bounded=tuple(bounded))
    if request.get("by_file"):
        study = replace(study, by_file=_count_by_file(flow, _named_files(request), notes))
    for label, target in (request.get("write") or {}).items():
        frames[label].write.mode("error").parquet(target)
    return study


def _compare_with_table(
    spark: Any,
    flow: CodeFlow,
    request: Request,
    study: Study,
    frames: Mapping[str, Any],
    key: Sequence[str],
    held: Any,
    bounded: list[BudgetBound],
) -> Study:
    """With the whole table beside the labels that the request names for it; budgets that are met go to `bounded`."""
    if request.get("lacking") in frames:
        try:
            yields = frames[request["lacking"]]
            study = replace(study, lacking=_compare_with_input(spark, flow, request, yields, key, held))
        except OverBudget as over:
            bounded.append(over.bounded)
    if request.get("committed") in frames:
        try:
            study = replace(study, committed=_compare_committed(spark, flow, request, key, held))
        except OverBudget as over:
            bounded.append(over.bounded)
    return study


def _compare_with_input(
    spark: Any, flow: CodeFlow, request: Request, yields: Any, key: Sequence[str], held: Any
) -> TableGap | None:
    """None where the key cannot be compared. Raises `OverBudget`."""
    limit = budgets_of(request).grouping
    try:
        return filling.compare_with_input(spark, yields, flow.schema, held, key, limit)
    except (counting.NoSuchColumn, counting.NotComparable):
        return None


def _compare_committed(
    spark: Any, flow: CodeFlow, request: Request, key: Sequence[str], held: Any
) -> CommittedComparison | None:
    """None where the key cannot be compared. Raises `OverBudget`."""
    given = topping.Input.of_study(request, request["committed"])
    limit = budgets_of(request).grouping
    try:
        return CommittedComparison(**topping.compare_committed(spark, flow, given, held, key, limit))
    except (counting.NoSuchColumn, counting.NotComparable, CannotReplay):
        return None


def _count_fresh_keys(
    spark: Any,
    flow: CodeFlow,
    frames: Mapping[str, Any],
    key: Sequence[str],
    held: Any,
    counted: counting.SetCounts,
    limit: Limit,
) -> tuple[Mapping[str, int], Sequence[BudgetBound]]:
    """Different keys that the table does not hold: of dropDuplicates by its own columns, whatever `key` compares rows.

    {} where these are not among what the code yields, the table has them not, or a later step leaves rows out or
    makes more of them: then it is not known, since the table's keys are not those of the state.
    """
    own = flow.let_through_by
    if own is not None and not dedupes_last(flow.text):
        return {}, ()
    if own is None or set(own) == set(key):
        return counted.fresh, ()
    if not own:
        return {}, ()
    try:
        by_own = counting.set_counts(spark, frames, own, held, limit, by_collation=True)
    except (counting.NoSuchColumn, counting.NotComparable):
        return {}, ()
    return by_own.fresh, by_own.bounded


def _named_files(request: Request) -> list[str]:
    """Every input file that a request names, in order."""
    named = [f for files in request["sets"].values() for f in files]
    for by_source in request["slices"].values():
        named += [f for part in by_source.values() for f in part.get("files") or ()]
    return sorted(set(named))


def _frames_by_label(flow: CodeFlow, request: Request) -> dict[str, Any]:
    """What the flow yields over what `sets` and `slices` name under each label together."""
    frames, known = {}, _named_files(request)
    for label in dict.fromkeys([*request["sets"], *request["slices"]]):
        parts = request["slices"].get(label, {})
        files = [*request["sets"].get(label, ()), *(f for p in parts.values() for f in p.get("files") or ())]
        frames[label] = flow.batch(files, known, {source: [part] for source, part in parts.items()})
    return frames


def _count_by_file(flow: CodeFlow, known: Sequence[str], notes: list[str]) -> dict[str, int]:
    """Rows by input file; {} with a note where there is no such number."""
    if not flow.reads_only_files:
        notes.append("Not every source of this flow is files, so there is no count by file.")
        return {}
    counts = counting.rows_by_file(flow.batch(known, known), known) if known else {}
    if counts is None:
        notes.append("From which file a row came is not known in this flow, so there is no count by file.")
    return counts or {}


def measure_table(spark: Any, request: Request, folder: Path) -> Measure:
    """What a rerun wrote beside what it had to write. Raises `Refused` where the code itself cannot be run."""
    from pyspark.errors import PySparkException

    if request.get("topic"):
        return _measure_topic(spark, request, folder)
    try:
        with _reading_table():
            now = table(spark, request["table"])
            measure = Measure(table_rows=None if now is None else now.count())
    except Refused as refused:
        return Measure(problem=refused.sentence)
    if now is None:
        return Measure(problem=f"There is no table {request['table']}, so nothing can be measured.")
    place = describe(spark, request["table"])
    since = request.get("old_version")
    if since is not None and place.get("provider") != "delta":
        problem = f"The table {request['table']} is no Delta table, so it has no version {since}."
        return replace(measure, problem=problem)
    try:
        flow = CodeFlow(spark, request["study"], folder)
    except BadCode as error:
        raise Refused(str(error)) from error
    try:
        now = type_partitions(spark, flow, request["table"], add_columns(spark, request, place, now))
        measure = replace(_compare_rows(spark, flow, request, place, now), table_rows=measure.table_rows)
    except BadCode as error:
        raise Refused(str(error)) from error
    except counting.NoSuchColumn as error:
        measure = replace(measure, problem=str(error))
    except counting.NotComparable as error:
        measure = replace(measure, problem=str(error), problem_code=TYPES_DIFFER)
    except OverBudget as over:
        measure = replace(measure, problem=TOO_LARGE, bounded=(over.bounded,))
    except PySparkException as error:
        if lost_contact(error):
            raise
        measure = replace(measure, problem=f"The rows could not be compared: {flow.says(error)}")
    whole = _compare_whole(flow, request["whole"], now, request.get("key")) if request.get("whole") else None
    changed, lacking = misread.find_misread_columns(spark, request, place)
    return replace(
        measure,
        sources=flow.sources,
        whole=whole,
        misread=tuple(changed),
        lacking=tuple(lacking),
    )


def count_table(spark: Any, name: str, files: Sequence[str] | None) -> TableRowCount:
    """Rows of the table, or of those of its data files that `files` names. Raises `Refused` where it cannot be read."""
    with _reading_table():
        now = table(spark, name)
        if now is None:
            return TableRowCount(None)
        if files is None:
            return TableRowCount(now.count())
        held = read_files(spark, describe(spark, name), now, files)
        return TableRowCount(0 if held is None else held.count())


@contextmanager
def _reading_table() -> Iterator[None]:
    """What Spark cannot read is no fault of ours: raises `Refused` with its reason."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        if lost_contact(error):
            raise
        raise Refused(f"The table cannot be read: {first_line(error)}") from error


TOO_LARGE = (
    "Commits since the rerun began took rows out of the table, or rewrote its files, and its versions are larger than "
    "the limit up to which they are compared whole."
)


def _compare_rows(
    spark: Any, flow: CodeFlow, request: Request, place: Mapping[str, str], now: Any
) -> Measure:
    """What the code yields beside what was written; of the table alone what can be said, where it cannot be replayed.

    Raises `OverBudget` where two whole versions would have to be compared, and are too large.
    """
    key, key_from = flow.key(request.get("key") or request["study"].get("key"))
    identity: tuple[str, ...] = () if key_from == WHOLE_ROW else tuple(key)
    if request.get("deduplicated"):
        measure = _compare_deduplicated(spark, flow, request, now, key)
        return replace(measure, key=identity, key_from=key_from)
    held, filled, topped = read_sides(spark, request, place, now), None, None
    try:
        expected = _expected(spark, flow, request, held)
        if request.get("filled"):
            filled = filling.compare_filled(spark, request, expected, now, key)
            expected = filling.with_filled(spark, expected, request["filled"]["backup"], key)
        if request.get("topped"):
            before = filling.at_version(spark, request["table"], request["old_version"])
            topped = ToppedRows(**topping.compare_topped(expected, now, key))
            expected = filling.lacking(expected, before, key)
        # what differs at every run is in no batch over the input: by key, such columns are left out, and named
        is_by_row = request.get("whole_rows") and not explained.computed_anew(flow.text)
        columns = flow.columns if is_by_row else key
        apart = counting.ComparedColumns(columns, key, by_collation=flow.lets_through_by(key))
        measure = _compare_sides(spark, request, held, expected, apart)
        # rows that a rehearsal wrote do not name their input
        files = [] if request.get("expected") else _named_files(request["study"])
        origins = _find_origins(spark, flow, files, held, apart, measure.samples["missing"])
        measure = replace(measure, origins=tuple(origins))
        if apart.by_key_alone and len(key) < len(flow.columns) and not (filled or topped):
            before = held.old if held.whole else None
            written = WrittenRows(held.found, before, place["provider"])
            measure = _add_values(spark, flow, request, measure, written, key)
    except (CannotReplay, counting.NoSuchColumn, counting.NotComparable) as error:
        code = TYPES_DIFFER if isinstance(error, counting.NotComparable) else ""
        measure = replace(count_sides(held), problem=str(error), problem_code=code)
    return replace(
        measure,
        key=identity,
        key_from=key_from,
        table_only=tuple(counting.table_only(flow.columns, now)),
        filled=filled,
        topped=topped,
    )


def _add_values(
    spark: Any, flow: CodeFlow, request: Request, measure: Measure, written: WrittenRows, key: Sequence[str]
) -> Measure:
    """With the columns beyond the key. Where rows are missing, or none is new, there is nothing to add."""
    if measure.missing or measure.extra or not measure.new_rows:
        return measure
    inputs, slices = _new_input(request)

    def make_rows() -> Any:
        rows = flow.batch_with_all_rows(inputs, slices)
        return topics.make_records(rows) if request.get("topic") else rows

    values = measure_values(
        spark, make_rows, written, key, budgets_of(request).lookup, rests_on_more=flow.rests_on_more
    )
    bounded = measure.bounded if values.bounded is None else (*measure.bounded, values.bounded)
    return replace(measure, values=values, bounded=bounded)


def _compare_deduplicated(
    spark: Any, flow: CodeFlow, request: Request, now: Any, key: Sequence[str]
) -> Measure:
    """What was deleted, of two whole versions. Raises as `_compare_rows`."""
    try:
        return deduplicating.measure_deleted(spark, flow, request, now, key, budgets_of(request).versions)
    except CannotReplay as error:
        return Measure(problem=str(error))


def _compare_sides(
    spark: Any, request: Request, held: TableRows, expected: Any, apart: counting.ComparedColumns
) -> Measure:
    if held.whole and held.old is not None:
        return counting.compare_versions(held.old, expected, held.found, apart, counting.SAMPLES)
    budgets = budgets_of(request)
    measure = counting.compare(spark, held.old, expected, held.found, apart, counting.SAMPLES, budgets)
    old_rows = 0 if held.old is None else held.old.count()
    return replace(
        measure,
        old_rows=old_rows,
        listed_rows=old_rows + (measure.new_rows or 0),
        vanished=None if request.get("old_version") is None else 0,
    )


def _find_origins(
    spark: Any,
    flow: CodeFlow,
    files: Sequence[str],
    held: TableRows,
    apart: counting.ComparedColumns,
    missing: Sample,
) -> list[RowOrigin]:
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


def _compare_whole(
    flow: CodeFlow, asked: Mapping[str, Any], table: Any, given: Sequence[str] | None
) -> WholeComparison:
    """What the code yields over all input that there is, beside the whole table.

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
        return WholeComparison(problem=str(error), problem_code=TYPES_DIFFER)
    except (BadCode, CannotReplay, counting.NoSuchColumn) as error:
        return WholeComparison(problem=str(error))
    except PySparkException as error:
        if lost_contact(error):
            raise
        return WholeComparison(problem=f"The whole table could not be compared: {flow.says(error)}")


def _measure_topic(spark: Any, request: Request, folder: Path) -> Measure:
    """As `measure_table`, of the records that a flow sent to Kafka."""
    from pyspark.errors import PySparkException

    try:
        flow = CodeFlow(spark, request["study"], folder)
    except BadCode as error:
        raise Refused(str(error)) from error
    asked, measure = request["topic"], Measure()
    try:
        sent = topics.read_records(spark, flow.sink, asked["since"])
        measure = replace(measure, new_rows=sent.count())
        columns, key, key_from = topics.choose_key(request.get("key"), flow.text)
        measure = replace(measure, key=tuple(key), key_from=key_from)
        if request.get("state_kept") and flow.operators and not request.get("expected"):
            raise CannotReplay(topics.STATE_KEPT)
        expected = topics.make_records(_expected(spark, flow, request, TableRows(None, sent, whole=False)))
        failed, margin = (
            topics.read_records(spark, flow.sink, asked[part]) if asked.get(part) else None
            for part in ("failed", "margin")
        )
        compared = topics.compare_records(expected, sent, failed, columns, counting.SAMPLES, margin=margin)
        if len(columns) < len(topics.COLUMNS):
            compared = _add_values(spark, flow, request, compared, WrittenRows(sent), columns)
        return replace(compared, key=measure.key, key_from=key_from)
    except BadCode as error:
        raise Refused(str(error)) from error
    except CannotReplay as error:
        return replace(measure, problem=str(error))
    except PySparkException as error:
        if lost_contact(error):
            raise
        return replace(measure, problem=f"The records could not be compared: {flow.says(error)}")


def _expected(spark: Any, flow: CodeFlow, request: Request, held: TableRows) -> Any:
    """The rows that the rerun had to write: as a rehearsal wrote them, else what the code yields over the input."""
    if request.get("expected"):
        return flow.as_partitioned(spark.read.schema(flow.schema).parquet(literal(request["expected"])))
    inputs, slices = _new_input(request)
    expected = flow.batch(inputs, inputs, slices)
    if request.get("state_kept") and flow.dedupe is not None and held.old is not None:
        if not flow.let_through_by:
            raise CannotReplay(
                "The table does not have the columns by which dropDuplicates lets a row through."
            )
        if not dedupes_last(flow.text):
            raise CannotReplay(
                "A step after dropDuplicates leaves rows out or makes more of them, so the table does not show which "
                "keys its state holds."
            )
        return _unseen(expected, held.old, flow.dedupe)
    return expected


def _new_input(request: Request) -> tuple[list[str], Mapping[str, Sequence[slicing.Slice]]]:
    """Files, and parts of other sources, that the rerun read."""
    slices: dict[str, list[slicing.Slice]] = {}
    for by_source in request["study"]["slices"].values():
        for source, part in by_source.items():
            slices.setdefault(source, []).append(part)
    return _named_files(request["study"]), slices


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
    same = comparable.equal_on(beside, known, zip(asked, names, strict=True))
    return beside.join(known, same, "left_anti").drop(*asked)
