"""Which file, and which line of it, yields a row that the table lacks (child process only).

The file is that of Spark's own hidden column `_metadata.file_path`, which follows a row through the code; where rows of
several files meet it does not, and nothing is told. A line is told where columns of the source come out of the code as
they went in: only lines with the row's values in these can have yielded it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import unquote

from recovery.contracts.value import DataRow
from recovery.spark import comparable
from recovery.spark.api import RowOrigin, Sample
from recovery.spark.code_flow import CodeFlow
from recovery.spark.explained import node_of, section
from recovery.spark.paths import literal, plain
from recovery.spark.replay import STREAM_ONLY, SourceRead

FILES_OF_ONE: Final = 3  # files that are named of one row
LINES_OF_ONE: Final = 5  # lines of one file that are named of one row
FILE_BYTES: Final = 32 * 1024 * 1024  # no line is looked for in a larger file
BY_LINE: Final = ("json", "text")
_NOT_BY_LINE: Final = frozenset({"multiline", "linesep", "wholetext", "encoding", "charset"})
_ENDS: Final = "\r\n|\r|\n"  # what ends a line for Spark's readers
_ATTRIBUTE: Final = re.compile(r"([^,\[\]]+?)#(\d+)L?(?=,|\])")
_RENAMED: Final = re.compile(r"(?:\[|, )([^,\[\]()#]+)#(\d+)L? AS ([^,\[\]()#]+)#(\d+)L?(?=,|\])")
_LEAVES: Final = ("Relation", "LogicalRelation")


@dataclass(frozen=True)
class _FileSourceRead:
    """The one file source of a flow, as its batch was read."""

    read: SourceRead
    schema: Any

    @property
    def format(self) -> str:
        return self.read.reader.format.lower()

    @property
    def options(self) -> dict[str, str]:
        return self.read.reader.lower_options

    @property
    def by_line(self) -> bool:
        """Is each row one line of its file?"""
        set_ = {name for name, value in self.options.items() if value.lower() not in ("", "false")}
        return self.format in BY_LINE and not set_ & _NOT_BY_LINE


@dataclass(frozen=True)
class _Sought:
    """A missing row in one file: its place among the samples, and the values of columns that pass unchanged."""

    sample: int
    file: str
    values: tuple[str | None, ...]


def find_origins(
    spark: Any,
    flow: CodeFlow,
    files: Sequence[str],
    found: Any,
    columns: Sequence[str],
    samples: Sample,
    *,
    by_collation: bool,
) -> list[RowOrigin]:
    """Each file that yields one of these missing rows; [] where none is known.

    `files`: the new input. `found`: what was written, with which the rows were compared by `columns`.
    Raises what Spark and the code raise.
    """
    if not samples or not files or not flow.reads_only_files:
        return []
    reads: list[_FileSourceRead] = []

    def over(read: SourceRead) -> Any:
        frame = flow.reader.over(read, files, files, {})
        reads.append(_FileSourceRead(read, frame.schema))
        return frame

    yielded = flow.replaced(over)
    passed = _passed(yielded, reads[0]) if len(reads) == 1 else {}
    sought = _files_of(spark, yielded, found, columns, samples, passed, files, by_collation=by_collation)
    lines = _lines_of(spark, reads[0], list(passed.values()), sought) if passed and sought else {}
    return [RowOrigin(one.sample, one.file, *lines.get(one, ((), None))) for one in sought]


def _files_of(
    spark: Any,
    yielded: Any,
    found: Any,
    columns: Sequence[str],
    samples: Sample,
    passed: Mapping[str, str],
    files: Sequence[str],
    *,
    by_collation: bool,
) -> list[_Sought]:
    """The files that yield each sample, a few of each."""
    from pyspark.sql import functions as F

    names = [comparable.resolved(columns, frame.columns, "The compared rows") for frame in (yielded, found)]
    mine = comparable.one_type([yielded, found], names, by_collation=by_collation)[0]
    rows = yielded.select(
        *(c.cast("string").alias(f"k{n}") for n, c in enumerate(mine)),
        *(F.col(_quoted(name)).cast("string").alias(f"p{n}") for n, name in enumerate(passed)),
        F.col("_metadata.file_path").alias("file"),
    )
    keys = [cast(DataRow, one["key"]) for one in samples]
    wanted = [(n, *(key.get(name) for name in columns)) for n, key in enumerate(keys)]
    here = _local(spark, wanted, ["sample", *(f"w{n}" for n in range(len(columns)))])
    same = comparable.equal_on(rows, here, [(f"k{n}", f"w{n}") for n in range(len(columns))])
    hits = rows.join(F.broadcast(here), same).drop(
        *(f"{side}{n}" for side in "kw" for n in range(len(columns)))
    )
    spelled = {plain(f): f for f in files}
    sought: list[_Sought] = []
    for row in hits.distinct().orderBy("sample", "file").limit(len(samples) * FILES_OF_ONE * 4).collect():
        file = spelled.get(plain(unquote(row["file"] or "")))
        number = int(row["sample"])
        if file is None or sum(t.sample == number for t in sought) >= FILES_OF_ONE:
            continue
        sought.append(_Sought(number, file, tuple(row[f"p{n}"] for n in range(len(passed)))))
    return sought


def _passed(yielded: Any, read: _FileSourceRead) -> dict[str, str]:
    """Columns that come out of the code with the very values of a column of the source: its name there, by theirs."""
    if not read.by_line:
        return {}
    from pyspark.sql import functions as F

    names = list(dict.fromkeys(c for c in yielded.columns if yielded.columns.count(c) == 1))
    shown = yielded.select(*[F.col(_quoted(name)) for name in names])._explain_string(extended=True)
    steps = section(shown, "Analyzed Logical Plan")[1:]  # the first line names the columns
    leaves = [line for line in steps if node_of(line) in _LEAVES]
    if len(leaves) != 1 or not steps or node_of(steps[0]) != "Project":
        return {}
    names_of = _followed(steps)
    outside = _ATTRIBUTE.findall(steps[0].split("[", 1)[-1])
    if len(outside) != len(names):  # a name of a kind that is not known here: nothing is guessed
        return {}
    held = set(read.schema.names)
    passed = ((name, names_of.get(number)) for name, (_, number) in zip(names, outside, strict=True))
    return {name: of[0] for name, of in passed if of is not None and of[0] in held}


def _followed(steps: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The attributes of a plan that are a column of its leaf, by number: the column's name, and their own."""
    known: dict[str, tuple[str, str]] = {}
    for line in reversed(steps):
        inner = line.split("[", 1)[-1]
        if node_of(line) in _LEAVES:
            known |= {number: (name.strip(), name.strip()) for name, number in _ATTRIBUTE.findall(inner)}
        elif node_of(line) == "Project":
            for name, number, other, new in _RENAMED.findall(f"[{inner}"):
                if number in known and known[number][1] == name.strip():  # `-id#1 AS x#2` is another value
                    known[new] = (known[number][0], other.strip())
    return known


def _lines_of(
    spark: Any, read: _FileSourceRead, source: Sequence[str], sought: Sequence[_Sought]
) -> dict[_Sought, tuple[tuple[int, ...], int]]:
    """Numbers of the lines, from 1, that hold the values sought, and how many lines the file has."""
    from pyspark.sql import functions as F

    paths = sorted({one.file for one in sought})
    text = spark.read.text([literal(path) for path in paths], wholetext=True)
    whole = text.where(F.col("_metadata.file_size") <= FILE_BYTES).select(
        F.col("_metadata.file_path").alias("file"),
        F.split(F.regexp_replace("value", f"({_ENDS})\\z", ""), _ENDS).alias("lines"),
    )
    lines = whole.select("file", F.size("lines").alias("of"), F.posexplode("lines").alias("at", "line"))
    if read.format != "text":
        lines = lines.where(F.trim("line") != "")  # the readers pass over these
    parted = [name for name in source if any(f"/{name}=" in path for path in paths)]
    kept = [name for name in source if name not in parted]
    if not kept:
        return {}
    values = _parsed(lines, read, kept, parted)
    wanted = [
        (n, plain(one.file), *(v for name, v in zip(source, one.values, strict=True) if name in kept))
        for n, one in enumerate(sought)
    ]
    here = _local(spark, wanted, ["sought", "path", *(f"w{n}" for n in range(len(kept)))])
    same = comparable.equal_on(values, here, [(f"v{n}", f"w{n}") for n in range(len(kept))])
    told: dict[_Sought, tuple[tuple[int, ...], int]] = {}
    hits = values.join(F.broadcast(here), same).select("sought", "path", "file", "at", "of")
    for row in hits.orderBy("sought", "at").limit(len(sought) * 1000).collect():
        one = sought[int(row["sought"])]
        if plain(unquote(row["file"])) != row["path"]:
            continue
        numbers, _ = told.get(one, ((), 0))
        told[one] = ((*numbers, int(row["at"]) + 1)[:LINES_OF_ONE], int(row["of"]))
    return told


def _parsed(lines: Any, read: _FileSourceRead, columns: Sequence[str], parted: Sequence[str]) -> Any:
    """The lines with the values of these columns as text, v0, v1, …, as the source's reader parses each."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    kind = read.format
    kept = ("file", "of", "at")
    if kind == "text":
        return lines.select(*kept, *(F.col("line").alias(f"v{n}") for n in range(len(columns))))
    schema = StructType([f for f in read.schema.fields if f.name not in parted])
    options = {k: v for k, v in read.options.items() if k not in STREAM_ONLY | {"mode"}}
    row = F.from_json("line", schema, options or None)  # an empty map has no type
    return lines.withColumn("row", row).select(
        *kept,
        *(F.col(f"row.{_quoted(name)}").cast("string").alias(f"v{n}") for n, name in enumerate(columns)),
    )


def _local(spark: Any, rows: Sequence[Sequence[Any]], names: Sequence[str]) -> Any:
    """Rows of these values as they are; the first column holds numbers, the others text."""
    schema = ", ".join(f"{name} {'int' if n == 0 else 'string'}" for n, name in enumerate(names))
    return spark.createDataFrame([tuple(row) for row in rows], schema)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
