"""What SQL files of a pipeline define, as queries that a read can compute (child process only).

Of each file, statements as sqlparse splits them. `CREATE … AS query` and `CREATE FLOW … AS INSERT INTO … query` are
read; a query stands alone behind `SELECT * FROM (…)`, so that nothing but a query ever runs. `SET` and `USE` before it
in its file are done first, as an update does.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlparse
from sqlparse import tokens
from sqlparse.exceptions import SQLParseError

from recovery.spark.definitions import BadCode, parts_of

KINDS: Final = (("MATERIALIZED", "VIEW"), ("STREAMING", "TABLE"), ("TEMPORARY", "VIEW"), ("FLOW",))
_INSERT: Final = re.compile(r"\s*INSERT\s+INTO\s+(?P<target>\S+)(\s+BY\s+NAME)?\s+(?P<query>.*)", re.I | re.S)


@dataclass(frozen=True)
class SqlQuery:
    """A query of a SQL file: what it writes (`target`, as written), its `flow`'s name, and the statements before it
    that choose catalog, schema and settings. `temporary`: a view that the pipeline alone knows."""

    flow: str
    target: str
    text: str
    settings: tuple[str, ...] = ()
    temporary: bool = False

    @property
    def over_tables(self) -> str:
        """The same query over what its streams read, read once."""
        return "".join(t.value for t in _flat(self.text) if t.value.upper() != "STREAM")

    @property
    def streams(self) -> bool:
        return self.over_tables != self.text


UNREAD: Final = SqlQuery("", "", "")


def queries(texts: Iterable[str]) -> list[SqlQuery]:
    """Every query of these files. A statement that is too long to be read is one that may write anything (`UNREAD`)."""
    parsed = []
    for text in texts:
        settings: list[str] = []
        for statement in map(str.strip, sqlparse.split(text)):
            try:
                words = _words(statement)
            except SQLParseError:
                parsed.append(UNREAD)
                continue
            if words[:1] in (["SET"], ["USE"]):
                settings.append(statement.rstrip("; \n"))
            elif words[:1] == ["CREATE"] and (query := _created(statement, tuple(settings))):
                parsed.append(query)
    return parsed


def _created(statement: str, settings: tuple[str, ...]) -> SqlQuery | None:
    """What a CREATE statement defines; None where it has no query, or is none of a pipeline, or where expectations
    (Databricks) leave rows of the query out."""
    flat, depth = _flat(statement.rstrip("; \n")), 0
    head: list[str] = []
    for at, token in enumerate(flat):
        depth += {"(": 1, ")": -1}.get(token.value, 0)
        if depth and token.value.upper() == "EXPECT":
            return None
        if depth == 0 and token.value.upper() == "AS" and token.ttype in tokens.Keyword:
            return _defined(head, "".join(t.value for t in flat[at + 1 :]).strip(), settings)
        if depth == 0 and not token.is_whitespace and token.ttype not in tokens.Comment:
            head.append(token.value)
    return None


def _defined(head: Sequence[str], query: str, settings: tuple[str, ...]) -> SqlQuery | None:
    words = [w for part in head for w in part.split()]
    rest = [
        w for w in words[1:] if w.upper() not in ("OR", "REFRESH", "REPLACE", "IF", "NOT", "EXISTS", "TEMP")
    ]
    temporary = any(w.upper() in ("TEMP", "TEMPORARY") for w in words[:5])
    kind = next((k for k in KINDS if tuple(w.upper() for w in rest[: len(k)]) == k), None)
    if kind is None and temporary and rest[:1] and rest[0].upper() == "VIEW":
        kind = ("VIEW",)
    if kind is None or not rest[len(kind) :]:
        return None
    name = _name(rest[len(kind) :])
    if kind != ("FLOW",):
        return SqlQuery(name, name, query, settings, temporary)
    insert = _INSERT.fullmatch(query)
    return SqlQuery(name, insert["target"], insert["query"], settings) if insert else None


def _name(words: Sequence[str]) -> str:
    """The dotted name at the beginning, which the lexer may have cut at its dots."""
    name = words[0]
    for word in words[1:]:
        if not (name.endswith(".") or word.startswith(".")):
            break
        name += word
    return name


def query_of(queries_of_file: Iterable[SqlQuery], dataset: str, catalog: str, schema: str) -> SqlQuery:
    """The one query that writes a dataset. `catalog`, `schema`: those in which each file begins. Raises `BadCode` where
    there is none, more than one, or one of which it is not known whether it writes this dataset or another."""
    full: Place = (catalog.lower(), schema.lower())
    wanted = _full(dataset, full)
    every = [(q, _full(q.target, _current(q.settings, full))) for q in queries_of_file if not q.temporary]
    mine = [q for q, name in every if name == wanted and None not in wanted]
    unsure = [q for q, name in every if name != wanted and _may_be(name, wanted)]
    if unsure:
        raise BadCode(
            f"Which table {unsure[0].target or '(a very long statement)'} is cannot be read from its SQL file, so the "
            f"definition of {dataset} is not known here. Write its name with catalog and schema."
        )
    if len(mine) != 1:
        count = f"{len(mine)} queries" if mine else "No query"
        raise BadCode(f"{count} of the SQL files write {dataset}, so its definition is not known here.")
    return mine[0]


@dataclass(frozen=True)
class SqlFlow:
    """A query of a SQL file as a flow of the pipeline: its whole name and that of what it writes, in lower case and
    quoted."""

    name: str
    target: str
    query: SqlQuery


def flows_of(parsed: Iterable[SqlQuery], catalog: str, schema: str) -> tuple[list[SqlFlow], bool]:
    """What these queries are as flows, and whether that is known of all of them. `catalog`, `schema`: those in which
    each file begins."""
    full: Place = (catalog.lower(), schema.lower())
    flows, whole = [], True
    for query in parsed:
        if query.temporary:
            continue
        place = _current(query.settings, full)
        # a flow without a name of its own is called like what it writes
        names = [_full(query.flow, place), _full(query.target, place)]
        if any(None in name for name in names):
            whole = False
            continue
        name, target = (".".join(f"`{part}`" for part in name) for name in names)
        flows.append(SqlFlow(name, target, query))
    return flows, whole


Place = tuple[str | None, str | None]
"""Current catalog and schema; None where it is not known."""
_PART: Final = r"(?:`[^`.]+`|[^`.\s;()]+)"
_NAME: Final = re.compile(rf"{_PART}(?:\.{_PART}){{0,2}}")
_USE: Final = re.compile(
    rf"(?:USE\s+(?P<kind>CATALOG|SCHEMA|DATABASE|NAMESPACE)|(?P<set>SET)\s+CATALOG|USE)\s+(?P<name>{_PART}(?:\.{_PART})?)",
    re.I,
)
_MOVES: Final = re.compile(r"USE\b|SET\s+CATALOG\b", re.I)


def _current(settings: Sequence[str], start: Place) -> Place:
    """Where names without catalog or schema are, after these statements of a file, in their order."""
    place = start
    for statement in settings:
        text = "".join(t.value for t in _flat(statement) if t.ttype not in tokens.Comment).strip()
        if not _MOVES.match(text):
            continue
        said = _USE.fullmatch(text)
        place = (None, None) if said is None else _moved(place, said)
    return place


def _moved(place: Place, said: re.Match[str]) -> Place:
    parts, kind = parts_of(said["name"]), (said["kind"] or "").upper()
    if said["set"] or kind == "CATALOG":
        return (parts[0], None) if len(parts) == 1 else (None, None)
    if len(parts) == 2:
        return parts[0], parts[1]
    # without a word for its kind it may name a catalog, which only Spark knows
    return (place[0], parts[0]) if kind else (None, None)


def _full(target: str, place: Place) -> tuple[str | None, ...]:
    """Catalog, schema and name; None for each that is not known."""
    if not _NAME.fullmatch(target):  # a dot within quotes, or a name that is computed
        return None, None, None
    parts = parts_of(target)
    return (*place[: 3 - len(parts)], *parts)


def _may_be(name: Sequence[str | None], wanted: Sequence[str | None]) -> bool:
    """Could both be names of one table, as far as each is known?"""
    return all(a is None or b is None or a == b for a, b in zip(name, wanted, strict=True))


def prepare(spark: Any, parsed: Iterable[SqlQuery], query: SqlQuery, begin: Callable[[], None]) -> None:
    """Make the session as the query's file wants it, with the temporary views of the files that can be made there, each
    where its own file has it. `begin`: go to the catalog and schema in which every file begins."""
    _make_views(spark, parsed, begin)
    _go_to(spark, query, begin)


def _go_to(spark: Any, query: SqlQuery, begin: Callable[[], None]) -> None:
    begin()
    for statement in query.settings:
        spark.sql(statement)


def _make_views(spark: Any, parsed: Iterable[SqlQuery], begin: Callable[[], None]) -> None:
    from pyspark.errors import PySparkException

    views = [q for q in parsed if q.temporary and not q.streams]
    for _ in views:  # one may read another that stands below it
        left = []
        for view in views:
            try:
                _go_to(spark, view, begin)
                spark.sql(only_query(view.text)).createOrReplaceTempView(parts_of(view.target)[-1])
            except PySparkException:
                left.append(view)
        if len(left) == len(views):
            return
        views = left


def only_query(text: str) -> str:
    """A statement that runs nothing but a query, whatever the text is."""
    return f"SELECT * FROM (\n{text}\n)"  # noqa: S608  (people's own query, over their own data)


def read_files(files: Mapping[str, str], libraries: Sequence[str]) -> list[SqlQuery]:
    """Of a pipeline's SQL files, in order. `files`: path -> text."""
    return queries(files[name] for name in libraries if name.endswith(".sql") and name in files)


def _words(statement: str) -> list[str]:
    return [
        t.value.upper() for t in _flat(statement) if not t.is_whitespace and t.ttype not in tokens.Comment
    ]


def _flat(statement: str) -> list[Any]:
    return [token for parsed in sqlparse.parse(statement) for token in parsed.flatten()]  # type: ignore[no-untyped-call]
