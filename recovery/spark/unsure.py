"""By what two runs of one query over the same tables may differ, from Spark's own text of its plan. Pure.

Some functions yield another value at each run (`current_timestamp`, `rand`); others depend on the order in which rows
come (`any_value`, `collect_list`, `row_number` among ties), as a limit, a sample and dropDuplicates of some columns do.
Where the plan shows that only some columns of the result are touched, these are named, and the others can be compared.
Whatever it does not show plainly counts as more, never as less.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from recovery.spark.explained import AT_EACH_RUN, node_of, section

_ANEW: Final = re.compile(rf"\b({AT_EACH_RUN}|java_method|reflect|try_reflect)\(")
# Functions of a group or a window whose value depends on the order of its rows.
_BY_ORDER: Final = re.compile(
    r"\b(first|last|first_value|last_value|any_value|nth_value|collect_list|collect_set|array_agg|listagg|string_agg|"
    r"mode|max_by|min_by|percentile_approx|approx_percentile)\("
)
_RANKED: Final = re.compile(r"\b(row_number|ntile|lag|lead)\(")
_FRAME: Final = re.compile(
    r"specifiedwindowframe\(RowFrame, (?!unboundedpreceding\$\(\), unboundedfollowing\$\(\))"
)
_TIED_ALIKE: Final = re.compile(r"\b(rank|dense_rank|percent_rank|cume_dist)\(")
_ID: Final = re.compile(r"#(\d+)L?\b")
_OWN: Final = re.compile(r"#(\d+)L?$")
_INNER: Final = re.compile(r"\b(?:scalar-subquery|exists|list)#\d+")
_BY_PLACE: Final = {"limit", "dropDuplicates", "rows of a window"}
_SAME_ROWS: Final = {"Project", "SubqueryAlias", "Sort", "View", "ResolvedHint"}
_PLAIN: Final = _SAME_ROWS | {
    "Aggregate", "Deduplicate", "Filter", "GlobalLimit", "Join", "LocalLimit", "LocalRelation", "Range", "Relation",
    "RelationV2", "Sample", "Window",
}  # fmt: skip


class UnsureRows(IntEnum):
    """Which rows of two runs may differ, beside the columns that are named."""

    NONE = 0
    SAME_NUMBER = 1  # any row may be another one, but there are as many
    ANY = 2


@dataclass(frozen=True)
class Unsure:
    """`names`: what makes two runs differ, for people. `anew`: columns of the result that hold another value at each
    run; `ambiguous`: columns whose value depends on the order of rows; by name. `rows`: what else may differ."""

    names: tuple[str, ...] = ()
    anew: tuple[str, ...] = ()
    ambiguous: tuple[str, ...] = ()
    rows: UnsureRows = UnsureRows.NONE


def unsure(text: str, columns: Sequence[str], *, foreign: Collection[str] = ()) -> Unsure:
    """What the analysed plan of a query tells (`explain(extended=True)`), which yields these columns. `foreign`: names
    of functions of Python that are declared to yield another value at each run."""
    lines = section(text, "Analyzed Logical Plan")[1:]  # the first one names the columns
    reading = _Reading(lines, foreign)
    reading.read()
    return reading.result(columns)


def by_order(text: str) -> tuple[str, ...]:
    """Functions of the query's groups and windows whose value depends on the order of rows, by name."""
    lines = section(text, "Analyzed Logical Plan")[1:]
    grouped = [line for line in lines if node_of(line) in ("Aggregate", "Window")]
    return tuple(
        sorted({name for line in grouped for name in (*_BY_ORDER.findall(line), *_RANKED.findall(line))})
    )


def by_chance(text: str) -> tuple[str, ...]:
    """Functions and steps of a query that choose rows otherwise at each run, by name: it yields another number of them.

    A column that merely holds another value (`current_timestamp`) chooses none."""
    reading = _Reading(section(text, "Analyzed Logical Plan")[1:], ())
    reading.read()
    return tuple(sorted(reading.names - _BY_PLACE)) if reading.chooses else ()


class _Reading:
    """What is found on the way from the sources up to the result: ids of attributes that differ, and rows."""

    def __init__(self, lines: Sequence[str], foreign: Collection[str]) -> None:
        self.lines, self.foreign = lines, foreign
        self.nodes = [node_of(line) for line in lines]
        self.names: set[str] = set()
        self.anew: set[str] = set()
        self.ambiguous: set[str] = set()
        self.ranked: set[str] = set()
        self.rows = UnsureRows.NONE
        self.chooses = False  # by a value that is another one at each run

    def read(self) -> None:
        for at in reversed(range(len(self.lines))):  # what a step reads stands below it
            self._step(at, self.nodes[at], self.lines[at])
        if not self.names:
            return
        strange = set(self.nodes) - _PLAIN
        if strange or any(_INNER.search(line) for line in self.lines):
            self.rows = UnsureRows.ANY

    def _step(self, at: int, node: str, line: str) -> None:
        self.names |= set(_ANEW.findall(line)) | self._foreign(line)
        if node == "Project":
            self._columns(_items(line)[:1])
        elif node == "Aggregate":
            *grouped, yields = _items(line)  # of all rows together there is no list of groups
            self._used(" ".join(item for part in grouped for item in part))
            self._columns([yields], by_order=True)
        elif node == "Window":
            made, *rest = _items(line)
            self._used(" ".join(item for part in rest for item in part))
            self._columns([made], by_order=True)
        elif node in ("GlobalLimit", "Sample") or (node == "Deduplicate" and self._of_some(at)):
            self.names.add({"GlobalLimit": "limit", "Sample": "sample"}.get(node, "dropDuplicates"))
            self._any_row(at, UnsureRows.ANY if node == "Sample" else UnsureRows.SAME_NUMBER)
            self.chooses |= node == "Sample"
            self._used(line)  # the columns of a dropDuplicates
        elif node == "Filter" and self._only_ranks(line):
            self._any_row(at, UnsureRows.SAME_NUMBER)
        elif node != "Sort":
            self._used(line)

    def _columns(self, parts: Sequence[Sequence[str]], *, by_order: bool = False) -> None:
        for item in (item for part in parts for item in part):
            ids, own = set(_ID.findall(item)), _own(item)
            if ids & self.anew or _ANEW.search(item) or self._foreign(item):
                self.anew.add(own)
            columns = {*_BY_ORDER.findall(item)} if by_order else set()
            ranks = {*_RANKED.findall(item)} if by_order else set()
            if by_order and _FRAME.search(item) and not (_TIED_ALIKE.search(item) or ranks):
                columns.add("rows of a window")
            self.names |= columns | ranks
            if columns or ranks or ids & self.ambiguous:
                self.ambiguous.add(own)
            if ranks:
                self.ranked.add(own)
            if not own and (ids & (self.anew | self.ambiguous)):
                self.rows = UnsureRows.ANY

    def _used(self, text: str) -> None:
        """Something that differs decides which rows there are."""
        ids = set(_ID.findall(text))
        varies = bool(ids & self.anew or _ANEW.search(text) or self._foreign(text))
        self.chooses |= varies
        if varies or ids & self.ambiguous:
            self.rows = UnsureRows.ANY

    def _only_ranks(self, line: str) -> bool:
        """Does a filter look at nothing but places of rows among those of their group? As many are left each time."""
        ids = set(_ID.findall(line))
        return bool(ids) and ids <= self.ranked and not _ANEW.search(line) and not self._foreign(line)

    def _any_row(self, at: int, rows: UnsureRows) -> None:
        above = set(self.nodes[:at])
        self.rows = max(self.rows, rows if above <= _SAME_ROWS else UnsureRows.ANY)

    def _of_some(self, at: int) -> bool:
        """Does dropDuplicates look at some columns only? Then any row of those with one key may stay."""
        keys = len(_items(self.lines[at])[0])
        for node, line in zip(self.nodes[at + 1 :], self.lines[at + 1 :], strict=True):
            if node in ("Project", "Relation", "RelationV2", "LocalRelation"):
                return len(_items(line)[0]) != keys
            if node not in ("SubqueryAlias", "Filter", "Sort"):
                return True
        return True

    def _foreign(self, text: str) -> set[str]:
        return {name for name in self.foreign if f"{name}(" in text}

    def result(self, columns: Sequence[str]) -> Unsure:
        """The columns are those of the outermost step that lists some."""
        tops = [_own(item) for item in self._listed()]
        rows = self.rows
        if len(tops) != len(columns):
            return Unsure(tuple(sorted(self.names)), rows=UnsureRows.ANY if self.names else rows)
        anew = tuple(c for c, number in zip(columns, tops, strict=True) if number in self.anew)
        ambiguous = tuple(c for c, number in zip(columns, tops, strict=True) if number in self.ambiguous)
        return Unsure(tuple(sorted(self.names)), anew, tuple(c for c in ambiguous if c not in anew), rows)

    def _listed(self) -> list[str]:
        for node, line in zip(self.nodes, self.lines, strict=True):
            if node in ("Project", "Aggregate", "Relation", "RelationV2", "LocalRelation"):
                return _items(line)[-1]
            if node not in (*_SAME_ROWS, "Filter", "GlobalLimit", "LocalLimit", "Deduplicate", "Sample"):
                break
        return []


def _own(item: str) -> str:
    """The id of what an item yields; "" for none."""
    match = _OWN.search(item)
    return match.group(1) if match else ""


def _items(line: str) -> list[list[str]]:
    """The outermost lists in brackets of a line, each as what its commas part; those within brackets part nothing."""
    lists: list[list[str]] = []
    open_: list[str] = []
    start = 0
    for at, letter in enumerate(line):
        if letter in "([{":
            open_.append(letter)
            if open_ == ["["]:
                lists.append([])
                start = at + 1
        elif letter in ")]}" and open_:
            if open_ == ["["]:
                _cut(lists[-1], line[start:at])
            open_.pop()
        elif letter == "," and open_ == ["["]:
            _cut(lists[-1], line[start:at])
            start = at + 1
    return lists or [[]]


def _cut(into: list[str], text: str) -> None:
    if text.strip():
        into.append(text.strip())
