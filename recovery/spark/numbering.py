"""Which source has which number: the streams that a flow's plan reads, beside those that its code shows.

Spark numbers the relations of the analysed plan. A reader in Python shows its format, options and place; a stream that
a SQL text reads (`spark.sql("SELECT … FROM STREAM(t)")`) stands in the plan alone, where a table has its name.
Pure: text and values in, values out.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from recovery.contracts.readers import NO_READER, SourceReader
from recovery.spark import explained
from recovery.spark.api import UNSEEN_STREAM
from recovery.spark.catalog import name_parts
from recovery.spark.explained import Relation
from recovery.spark.paths import plain

UNSEEN: Final = (
    "The plan reads a stream that the code does not show as a reader, and that has no name in the catalog, so what the "
    "flow reads is not known. Read it with spark.readStream."
)
OTHERWISE: Final = "The order of the sources in Spark's plan differs from their order in the code."
# `STREAM t WITH ('startingVersion' = '3')`: the plan does not repeat the options. `WITH x AS (` is none.
_OPTIONS: Final = re.compile(r"\bWITH\s*\(", re.IGNORECASE)


@dataclass(frozen=True)
class Numbered:
    """Sources in the order of Spark's offset log. `problem`: why that is not certain. `code`: UNSEEN_STREAM where the
    plan reads a stream of which nothing is known; then `sources` are not all. `by_text`: tables that a SQL text reads
    as streams."""

    sources: tuple[SourceReader, ...]
    problem: str | None = None
    code: str = ""
    by_text: tuple[str, ...] = ()

    @property
    def read_again(self) -> str:
        """A table of a SQL text that is read more than once: which of its positions is whose is not certain."""
        tables = [source.table for source in self.sources if source.table]
        return next((t for t in self.by_text if sum(names_table(one, t) for one in tables) > 1), "")


def number_sources(
    text: str,
    reads: Sequence[SourceReader],
    describe: Callable[[str], SourceReader],
    *,
    queries: Sequence[str] = (),
) -> Numbered:
    """The sources of a plan. `reads`: those that the code shows, left to right. `describe`: of a table by its name.
    `queries`: SQL texts of the plan.

    `MicroBatchExecution` numbers the relations of the analysed plan from left to right, equal ones once: these are
    the directories `sources/<i>`. A relation that the plan names twice has two lines in the offset log.
    """
    found, named = explained.relations(text), explained.sources_named(text)
    if named == len(found) == len(reads) and all(map(_is_of, found, reads)):
        first = {relation.text: i for i, relation in reversed(list(enumerate(found)))}
        return Numbered(tuple(reads[i] for i in sorted(first.values())))
    if named > len(reads) or any(_is_table_unnamed(relation, reads) for relation in found):
        is_certain = named == len(found) and not any(map(_OPTIONS.search, queries))
        return _with_unseen(found, reads, describe) if is_certain else _number_in_code_order(reads)
    return Numbered(tuple(reads), OTHERWISE if len(reads) > 1 else None)


def _with_unseen(
    found: Sequence[Relation], reads: Sequence[SourceReader], describe: Callable[[str], SourceReader]
) -> Numbered:
    """Each relation as the read that shows it, else as the table whose name it has."""
    left, sources, by_text = list(reads), [], []
    for relation in {relation.text: relation for relation in found}.values():
        own = next((read for read in left if _is_of(relation, read)), None)
        if own is not None:
            left.remove(own)
        source = own or (describe(relation.table) if relation.table else NO_READER)
        if own is None and not source.location:
            return _number_in_code_order(reads)
        sources.append(source)
        if own is None:
            by_text.append(relation.table)
    return _number_in_code_order(reads) if left else Numbered(tuple(sources), by_text=tuple(by_text))


def _number_in_code_order(reads: Sequence[SourceReader]) -> Numbered:
    return Numbered(tuple(reads), UNSEEN, UNSEEN_STREAM)


def _is_of(relation: Relation, read: SourceReader) -> bool:
    """Is this the relation of that read? Judged by kind, for files by their path, and by name where both have one."""
    if relation.table and read.table:
        return names_table(read.table, relation.table)
    if _is_table_unnamed(relation, (read,)):
        return False
    if relation.kind == "files":
        return plain(relation.path) == plain(str(read.location))
    return relation.kind == read.format.lower()


def _is_table_unnamed(relation: Relation, reads: Sequence[SourceReader]) -> bool:
    """Is this a table of the catalog that none of these reads names?"""
    return bool(relation.table) and not any(
        read.table and names_table(read.table, relation.table) for read in reads
    )


def names_table(name: str, whole: str) -> bool:
    """Does a name, which may lack catalog and schema, mean the table of this whole name?"""
    parts, all_parts = name_parts(name), name_parts(whole)
    return bool(parts) and all_parts[-len(parts) :] == parts
