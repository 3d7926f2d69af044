"""What Spark's own text of a plan says about a streaming query. Pure: text in, values out.

Over Spark Connect a client gets no plan objects, only `explain`; its physical part is what
`IncrementalExecution` would run, so the stateful operators in it are those that a checkpoint records.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

# Node name in a physical plan -> name in `state/<id>/_metadata/metadata`
# (`StateStoreWriter.shortName`, constants in `StatefulOperatorsUtils`, Spark 4.2).
OPERATORS = {
    "StreamingDeduplicate": "dedupe",
    "StreamingDeduplicateWithinWatermark": "dedupeWithinWatermark",
    "StateStoreSave": "stateStoreSave",
    "SessionWindowStateStoreSave": "sessionWindowStateStoreSaveExec",
    "StreamingSymmetricHashJoin": "symmetricHashJoin",
    "StreamingGlobalLimit": "globalLimit",
    "FlatMapGroupsWithState": "flatMapGroupsWithState",
    "FlatMapGroupsInPandasWithState": "applyInPandasWithState",
    "TransformWithState": "transformWithStateExec",
    "TransformWithStateInPySpark": "transformWithStateInPySparkExec",
}
# Settings under which Spark prints column lists and paths whole.
UNCUT = {"spark.sql.debug.maxToStringFields": "100000", "spark.sql.maxMetadataStringLength": "100000"}

_HEADING = re.compile(r"^== (.+) ==$", re.MULTILINE)
_TREE = re.compile(r"^[\s:|+-]*(?:\*\(\d+\) )?")
# Marks before a step's name: streaming, not resolved, with input that the step below does not yield.
_NAME = re.compile(r"[~'!]*(\w+)")
_COLUMN = re.compile(r"#\d+L?\b")
_RELATIONS = (
    re.compile(r"~?StreamingRelation FileSource\[(?P<path>.*)\], \["),
    re.compile(r"~?StreamingRelation (?P<kind>[^,\[\]]+), \["),
    re.compile(r"~?StreamingRelationV2 [^,]+, (?P<kind>[^,]+), "),
)
_SOURCE_NODE = re.compile(r"(?:Named)?Streaming(?:Execution)?Relation\w*")
_TABLE = re.compile(
    r"~?SubqueryAlias (?P<name>(?:`(?:[^`]|``)*`|[^\s.`]+)(?:\.(?:`(?:[^`]|``)*`|[^\s.`]+))+)"
)
_FILE_FACT = re.compile(r"\b_metadata#\d|\binput_file_(?:name|block_start|block_length)\(\)")
# Functions whose value differs at every run.
AT_EACH_RUN = (
    r"rand|randn|random|randstr|uniform|uuid|shuffle|now|localtimestamp|current_\w+|monotonically_increasing_id|"
    r"spark_partition_id"
)
_ANEW = re.compile(rf"\b({AT_EACH_RUN})\(")
# What a row goes through before its window is counted, and which has no more to it than its line says.
_PLAIN = {
    "Project",
    "Filter",
    "Expand",
    "EventTimeWatermark",
    "SubqueryAlias",
    "StreamingRelation",
    "StreamingRelationV2",
}
_OPAQUE = re.compile(rf"\)#\d|\b(?:{AT_EACH_RUN}|input_file_\w+|java_method|reflect|try_reflect)\(")
# Steps that yield one row for each row.
_ONE_FOR_ONE = {"EventTimeWatermark", "Project", "SubqueryAlias"}
# Steps that hold no rows of their own: what they yield is made of what the streams below them yield.
_DERIVED = _PLAIN | {
    "Aggregate",
    "Deduplicate",
    "DeduplicateWithinWatermark",
    "Distinct",
    "Generate",
    "GlobalLimit",
    "Join",
    "LocalLimit",
    "Repartition",
    "RepartitionByExpression",
    "ResolvedHint",
    "Sort",
    "Union",
    "Window",
    "WithCTE",
}
# The last alternative is a function of a catalog, which may be replaced while the code stays the same.
# `(?:(?!UDF)\w)*+`: each word is read once, however long it is.
_FOREIGN = re.compile(rf"{_OPAQUE.pattern}|\b(?:(?!UDF)\w)*+UDF\w*+[(#]|\bUserDefined|\w\.\w+\(")
# Steps of a batch plan through which a row goes before the next one is read.
_ROW_BY_ROW = {
    "AdaptiveSparkPlan",
    "BatchScan",
    "Coalesce",
    "CollectMetrics",
    "ColumnarToRow",
    "Expand",
    "FileScan",
    "Filter",
    "Generate",
    "LocalTableScan",
    "Project",
    "Sample",
    "Scan",
    "Union",
}
_GROUPED = re.compile(r"Flat(?:Map|MapCo)Groups(?:InPandas|InArrow|InBatch\w*)")
_WATERMARKED = re.compile(r"#\d+L?-T\d+ms")
_OF_THIS_PLAN = re.compile(r"#(\d+)|@[0-9a-f]+|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_ATTRIBUTE = re.compile(r"#\d+L?(?:-T\d+ms)?(?=, |\]|$)")


def section(text: str, heading: str) -> tuple[str, ...]:
    """Lines of one part of `explain(extended=True)`, tree marks taken off; () if there is none."""
    marks = list(_HEADING.finditer(text))
    for mark, following in zip_longest(marks, marks[1:]):
        if mark.group(1) == heading:
            part = text[mark.end() : following.start() if following else len(text)]
            return tuple(_TREE.sub("", line) for line in part.splitlines() if line.strip())
    return ()


def node_of(line: str) -> str:
    """The name of a plan's step, by one line of its text; "" where it has none."""
    match = _NAME.match(line)
    return match.group(1) if match else ""


_SIZE = re.compile(r"Statistics\(sizeInBytes=([\d.E+]+) ([KMGTPE]?i?B)")
_UNITS = {unit: 1024**n for n, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB", "PiB"))}


def scanned_bytes(text: str) -> int | None:
    """Bytes of the files that a plan reads (`explain` in mode `cost`), those left out that statistics exclude; None:
    one of its relations does not tell (Spark then says 8 EiB)."""
    total = 0
    for line in section(text, "Optimized Logical Plan"):
        if node_of(line) not in _LEAVES:
            continue
        size = _SIZE.search(line)
        if size is None or size[2] not in _UNITS:
            return None
        total += int(float(size[1]) * _UNITS[size[2]])
    return total


_LEAVES = {"Relation", "RelationV2", "LogicalRelation", "HiveTableRelation", "DataSourceV2ScanRelation"}


def operators(text: str) -> tuple[str, ...]:
    """Stateful operators of a streaming query, outermost first, by the names a checkpoint uses."""
    steps = ((node_of(line), line) for line in section(text, "Physical Plan"))
    return tuple(_operator(node, line) for node, line in steps if node in OPERATORS)


def _operator(node: str, line: str) -> str:
    """One step of Spark has two names in checkpoints, by the form in which its function gets rows."""
    if node == "TransformWithStateInPySpark" and ", pandas, " in line:
        return "transformWithStateInPandasExec"
    return OPERATORS[node]


def dedupe_columns(text: str) -> tuple[str, ...] | None:
    """Columns of the outermost dropDuplicates; None where the query has none. () for dropDuplicatesWithinWatermark: its
    keys come again once its delay is over."""
    for line in section(text, "Physical Plan"):
        if node_of(line) == "StreamingDeduplicateWithinWatermark":
            return ()
        if node_of(line) == "StreamingDeduplicate":
            listed = line.split(" [", 1)[1].split("], state info", 1)[0]
            return tuple(_ATTRIBUTE.sub("\0", listed + "]").rstrip("]").rstrip("\0").split("\0, "))
    return None


def count_dedupes(text: str) -> int:
    """How often the query takes repeats away, in its stream and beside it."""
    steps = section(text, "Analyzed Logical Plan")[1:]  # the first one names the columns
    return sum(node_of(line) in ("Deduplicate", "DeduplicateWithinWatermark", "Distinct") for line in steps)


OF_OTHER_ROWS = frozenset({"Union", "MapInPandas", "MapInArrow", "PythonMapInArrow", "Aggregate", "Expand"})
"""Steps whose rows are not those that came in, or are columns of their own that no AS names."""


def keeps_key(text: str, columns: Sequence[str]) -> bool:
    """Does every row come out of the outermost dropDuplicates, by these columns, and with them as they went in? A later
    step may give one of their names to another column, or add rows that it never saw."""
    lines = section(text, "Analyzed Logical Plan")[1:]  # the first one names the columns
    nodes = [node_of(line) for line in lines]
    at = next((n for n, node in enumerate(nodes) if node.startswith("Deduplicate")), 0)
    names = "|".join(map(re.escape, columns))
    given = re.compile(rf" AS (?:{names})#\d", re.IGNORECASE)
    yielded = re.compile(rf", \[[^\]]*\b(?:{names})#\d[^\]]*\]$", re.IGNORECASE)
    return not OF_OTHER_ROWS & {*nodes[:at]} and not any(
        (node == "Project" and given.search(line)) or (node == "Generate" and yielded.search(line.rstrip()))
        for node, line in zip(nodes[:at], lines, strict=False)
    )


def computed_columns(text: str, columns: Sequence[str]) -> tuple[str, ...]:
    """Those of these names that some step of the query gives to a value that had another one, or none, before: the same
    name need not mean the same column above and below it. A field of a record that keeps its name is not computed."""
    lines = section(text, "Analyzed Logical Plan")[1:]  # the first one names the columns
    computed = []
    for name in columns:
        made = re.compile(rf"(\S+) AS {re.escape(name)}#\d", re.IGNORECASE)
        kept = re.compile(rf"[\[(]*(?:[\w#]+\.)*{re.escape(name)}(?:#\d+L?)?", re.IGNORECASE)
        if any(not kept.fullmatch(value) for line in lines for value in made.findall(line)):
            computed.append(name)
    return tuple(computed)


def dedupes_last(text: str) -> bool:
    """Does every row that one dropDuplicates lets through come out, and no other? Nothing but columns is changed after
    it."""
    steps = _list_steps_after_dedupe(text)
    return steps is not None and not steps - {"Project", "SubqueryAlias"}


def makes_row_per_key(text: str) -> bool:
    """Does every row that one dropDuplicates lets through come out once at most, and no other?"""
    steps = _list_steps_after_dedupe(text)
    return steps is not None and not steps - _ONE_FOR_ONE - {"Filter"}


def _list_steps_after_dedupe(text: str) -> set[str] | None:
    """Kinds of steps; None where there is not exactly one dropDuplicates."""
    nodes = [
        node_of(line) for line in section(text, "Analyzed Logical Plan")[1:]
    ]  # the first one names the columns
    return set(nodes[: nodes.index("Deduplicate")]) if nodes.count("Deduplicate") == 1 else None


def has_watermark(text: str) -> bool:
    """Does the query name an event time watermark? Then what is late depends on the order of arrival."""
    return any(node_of(line) == "EventTimeWatermark" for line in section(text, "Analyzed Logical Plan"))


def windows(text: str) -> str:
    """How the query puts rows into windows, as a digest: two texts with one digest do it in the same way.

    That is all that an aggregation reads, down to its source, and by which of its keys rows are late
    (`WatermarkSupport`: the one that bears the watermark). "": that is not known, for a step holds more than its line
    says (a Python function) or yields otherwise each time, or there is not exactly one aggregation and one watermark.
    """
    lines = section(text, "Analyzed Logical Plan")
    nodes = [node_of(line) for line in lines]
    if nodes.count("Aggregate") != 1 or nodes.count("EventTimeWatermark") != 1:
        return ""
    at = nodes.index("Aggregate")
    below, grouped = lines[at + 1 :], lines[at].split("], [", 1)[0]
    late_by = _WATERMARKED.findall(grouped)
    if not late_by or set(nodes[at + 1 :]) - _PLAIN or any(_OPAQUE.search(line) for line in below):
        return ""
    numbers: dict[str, str] = {}

    def named(match: re.Match[str]) -> str:
        number = match.group(1)
        return "" if number is None else numbers.setdefault(number, f"#c{len(numbers)}")

    plain = _OF_THIS_PLAN.sub(named, "\n".join([*late_by, *below]))
    return hashlib.sha256(plain.encode()).hexdigest()


def groups(text: str) -> str:
    """What becomes of one group of the query's only aggregation on its way to the sink: "one" row, "at most one", ""
    where that is not known: a step above it may make many rows of one, or drop some by rows that came before."""
    nodes = [
        node_of(line) for line in section(text, "Analyzed Logical Plan")[1:]
    ]  # the first one names the columns
    if nodes.count("Aggregate") != 1:
        return ""
    above = set(nodes[: nodes.index("Aggregate")])
    if above - _ONE_FOR_ONE - {"Filter"}:
        return ""
    return "at most one" if "Filter" in above else "one"


@dataclass(frozen=True)
class Relation:
    """One source in an analysed plan. `kind`: "files" with their `path`, else the source's short name in lower case.

    `text` holds the ids of its columns: two relations of the same text are one to Spark. `table`: the whole name by
    which the catalog gave it; "" where it was read by its place.
    """

    kind: str
    path: str
    text: str
    table: str = ""


def relations(text: str) -> tuple[Relation, ...]:
    """Every source of a streaming query from left to right, as often as its analysed plan names it.

    `StreamingRelation` prints `FileSource[path]` or the short name, `StreamingRelationV2` its provider, short name,
    table, options and columns. A line without a column's id (an option held a line break) tells nothing apart.
    """
    found, above = [], ""
    for line in section(text, "Analyzed Logical Plan"):
        for pattern in _RELATIONS:
            match = pattern.match(line) if _COLUMN.search(line) else None
            if match:
                kind = match.groupdict().get("kind")
                path = match.groupdict().get("path") or ""
                named = _TABLE.fullmatch(above)
                table = named["name"] if named else ""
                found.append(Relation(kind.lower() if kind else "files", path, line, table))
                break
        above = line
    return tuple(found)


def sources_named(text: str) -> int:
    """How often the analysed plan names a source of a stream, those too of which it tells nothing."""
    lines = section(text, "Analyzed Logical Plan")
    return sum(1 for line in lines if _SOURCE_NODE.fullmatch(node_of(line)))


def file_facts(text: str) -> bool:
    """Does the query ask which file a row came from?"""
    return any(_FILE_FACT.search(line) for line in section(text, "Analyzed Logical Plan"))


def computed_anew(text: str) -> tuple[str, ...]:
    """Functions of the query whose value differs at every run, by name: what they compute cannot be compared."""
    lines = section(text, "Analyzed Logical Plan")[1:]  # the first one names the columns
    return tuple(sorted({name for line in lines for name in _ANEW.findall(line)}))


def besides(text: str) -> tuple[str, ...]:
    """What a streaming query rests on beside its streams, by words of its plan: another relation, a function of Python
    or Java, one whose value differs at every run. (): nothing that the plan tells of.

    Every step that is not known to add nothing of its own is named, so one that Spark invents is too.
    """
    lines = section(text, "Analyzed Logical Plan")[1:]  # the first one names the columns
    steps = {node_of(line) for line in lines} - _DERIVED
    foreign = {match.group(0) for line in lines for match in _FOREIGN.finditer(line)}
    return tuple(sorted(steps | foreign)) if lines else ("no plan",)


def reads_by_file(text: str) -> bool:
    """Does every row of a batch plan come out before the next one is read? Else it no longer knows its file: a step
    that moves rows between tasks, or hands them to Python many at a time, has read on by then."""
    nodes = {node_of(line) for line in section(text, "Physical Plan")}
    return bool(nodes) and not nodes - _ROW_BY_ROW


def by_batch(text: str) -> tuple[str, ...]:
    """Steps without state that yield other rows where their input is cut into other batches, by Spark's names: a
    function of Python that is given a group at a time is given what one batch has of it."""
    lines = section(text, "Analyzed Logical Plan")[1:]  # the first one names the columns
    return tuple(sorted({node for line in lines if _GROUPED.fullmatch(node := node_of(line))}))
