"""Keeps a program that is studied from changing anything by its session (child process only).

What goes over the wire to Spark is judged, not what a program calls: only queries, temporary views and functions of the
session pass, whatever way leads there. A write that takes nothing away is passed over, and what it would have written
is not read; what is not known here is refused.
"""

import re
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

from recovery.spark.definitions import BadCode
from recovery.spark.paths import plain

_READS: Final = re.compile(
    r"\s*(?:SELECT|WITH|SET|USE|SHOW|DESC|DESCRIBE|EXPLAIN|FROM|VALUES|ADD|"
    r"CREATE\s+(?:OR\s+REPLACE\s+)?(?:GLOBAL\s+)?TEMP(?:ORARY)?\s+)",
    re.IGNORECASE,
)
_MAY_WRITE: Final = re.compile(r"\s*(?:WITH|FROM|VALUES)\b|.*\|>", re.IGNORECASE | re.DOTALL)
"""Statements that can end in a change of a table."""
_CHANGES: Final = re.compile(r"\b(?:INSERT|DELETE|UPDATE|MERGE)\b", re.IGNORECASE)
_QUIET: Final = re.compile(
    r"""\b[rR]'[^']*'|\b[rR]"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`"""
    r"""|--[^\r\n]*|/\*(?:(?!/\*).)*?\*/""",
    re.DOTALL,
)
"""Strings, quoted names and comments."""
_COMMANDS: Final = frozenset(
    {
        "create_dataframe_view", "register_function", "register_table_function", "register_data_source",
        "get_resources_command", "create_resource_profile_command", "remove_cached_remote_relation_command",
    }
)  # fmt: skip
_MODELS: Final = frozenset(
    {"fit", "fetch", "delete", "read", "evaluate", "clean_cache", "get_cache_info", "create_summary",
     "get_model_size"}
)  # fmt: skip
_CATALOG: Final = frozenset(
    {
        "current_database", "set_current_database", "list_databases", "list_tables", "list_functions",
        "list_columns", "get_database", "get_table", "get_function", "database_exists", "table_exists",
        "function_exists", "drop_temp_view", "drop_global_temp_view", "is_cached", "cache_table",
        "uncache_table", "clear_cache", "refresh_table", "refresh_by_path", "current_catalog",
        "set_current_catalog", "list_catalogs", "list_partitions", "list_views", "get_table_properties",
        "get_create_table_string",
    }
)  # fmt: skip
_ADDS: Final = re.compile(
    r"(?:INSERT\s+INTO|CREATE\s+(?:EXTERNAL\s+)?(?:TABLE|SCHEMA|DATABASE)|ALTER\s+TABLE|OPTIMIZE|ANALYZE\s+TABLE)\s+"
    r"(?:TABLE\s+)?(?:IF\s+NOT\s+EXISTS\s+)?(?P<name>[\w.`]+)",
    re.IGNORECASE,
)
"""Statements that take no row away, but for those that say so (`_TAKES`)."""
_TAKES: Final = re.compile(
    r"INSERT\b.*?\bREPLACE\b|ALTER\s+TABLE\b.*?\b(?:DROP|RENAME|REPLACE|RECOVER|LOCATION)\b",
    re.IGNORECASE | re.DOTALL,
)
"""Those that take rows, columns or the place of a table away after all."""
_ADDING: Final = {"write_operation": frozenset({0, 1, 3, 4}), "write_operation_v2": frozenset({1, 4})}
"""Commands and those modes of theirs by which nothing is overwritten."""
_DOORS: Final = (
    "execute_command", "execute_command_as_iterator", "to_table", "to_table_as_iterator", "to_pandas", "_analyze",
    "_set_relation_in_plan", "_set_command_in_plan",
)  # fmt: skip
"""Methods of the client by which a plan or a command leaves; the last two before it is compressed."""


def is_read(text: str) -> bool:
    """Does this statement change nothing but the session?"""
    bare = _QUIET.sub(" '' ", text)
    if "/*" in bare or not _READS.match(re.sub(r"^(?:\s|'')+", "", bare)):
        return False  # a comment in a comment could hide what follows it
    bare = re.sub(r"^(?:\s|'')+", "", bare)
    return not (_MAY_WRITE.match(bare) and _CHANGES.search(bare))


def refuse_change(message: Any) -> None:
    """Raises `BadCode` where a command or a plan, or a part of it, is none that only reads."""
    from google.protobuf.message import Message

    kind = message.DESCRIPTOR.full_name
    if kind == "spark.connect.Command":
        _check_command(message)
    elif kind == "spark.connect.Relation" and message.WhichOneof("rel_type") == "extension":
        raise BadCode(
            "The program asks Spark for what a plugin does (DeltaTable, say); that was not done here."
        )
    elif kind == "spark.connect.Catalog" and (act := message.WhichOneof("cat_type")) not in _CATALOG:
        raise BadCode(
            f"The program changes the catalog ({act}) before it starts its stream; it was not done here."
        )
    elif kind == "spark.connect.SQL":
        check_statement(message.query)
    elif kind == "spark.connect.SqlCommand" and message.sql:
        check_statement(message.sql)
    for part in _parts(message):
        if isinstance(part, Message):
            refuse_change(part)


def check_statement(text: str) -> None:
    """Raises `BadCode` where a statement is none that only reads."""
    if not is_read(text):
        raise BadCode(
            f"The program runs {' '.join(text.split())[:60]!r} before it starts its stream; it was not run here."
        )


def _check_command(command: Any) -> None:
    act = command.WhichOneof("command_type")
    if act in _COMMANDS or act == "sql_command":  # its statement is judged as a part of it
        return
    if act == "checkpoint_command" and command.checkpoint_command.local:
        return
    if act == "ml_command" and command.ml_command.WhichOneof("command") in _MODELS:
        return
    if str(act).startswith(("write_operation", "merge_into")):
        raise BadCode("The program writes a table before it starts its stream; that was not done here.")
    raise BadCode(f"The program asks Spark for more than a read ({act}); that was not done here.")


def _parts(message: Any) -> Iterator[Any]:
    for _, value in message.ListFields():
        if isinstance(value, (str, bytes, int, float)):
            continue
        if hasattr(value, "ListFields"):
            yield value
        else:
            yield from value.values() if hasattr(value, "values") else value


class HeldWrites:
    """Writes of a program that were passed over. `targets`: tables by the last part of their name, and paths."""

    def __init__(self) -> None:
        self.targets: set[str] = set()

    def hold_statement(self, text: str) -> bool:
        """Is it one that only adds? Then it is passed over."""
        bare = re.sub(r"^(?:\s|'')+", "", _QUIET.sub(_keep_names, text))
        added = _ADDS.match(bare)
        if added is None or "/*" in bare or _TAKES.match(_without_names(bare)):
            return False
        self.targets.add(last_part(added["name"]))
        return True

    def hold_command(self, message: Any) -> bool:
        """As `hold_statement`, of a command to Spark. Raises `BadCode` where a part of it changes something."""
        act = (
            message.WhichOneof("command_type")
            if message.DESCRIPTOR.full_name == "spark.connect.Command"
            else ""
        )
        if act not in _ADDING or (write := getattr(message, act)).mode not in _ADDING[act]:
            return False
        refuse_change(write.input)
        table = write.table_name if act == "write_operation_v2" else write.table.table_name
        self.targets.add(last_part(table) if table else plain(_path_of(write)).rstrip("/"))
        return True

    def check_reads(self, message: Any) -> None:
        """Raises `BadCode` where a plan reads what would have been written."""
        if self.targets and self.targets & set(_read_by(message, self.targets)):
            raise BadCode(
                "The program writes a table before it starts its stream and reads it again; the write was not done "
                "here, so what it would read is not known."
            )


def last_part(table: str) -> str:
    """The name of a table without its catalog and schema."""
    return table.replace("`", "").rsplit(".", 1)[-1].lower()


def _without_names(text: str) -> str:
    return re.sub(r"`[^`]*`", "``", text)


def _keep_names(quiet: re.Match[str]) -> str:
    return quiet[0] if quiet[0].startswith("`") else " '' "


def _path_of(write: Any) -> str:
    options = getattr(write, "options", {})
    return str(getattr(write, "path", "") or next((v for k, v in options.items() if k.lower() == "path"), ""))


def _read_by(message: Any, targets: Collection[str]) -> Iterator[str]:
    """Those of the targets that a plan may read, but as a stream; "" for a place that it does not tell."""
    kind = message.DESCRIPTOR.full_name
    if kind == "spark.connect.Read" and not message.is_streaming:
        if message.WhichOneof("read_type") == "named_table":
            yield last_part(message.named_table.unparsed_identifier)
        paths = [*message.data_source.paths, message.data_source.options.get("path", "")]
        yield from (t for t in targets for p in paths if p and t and f"{plain(p)}/".startswith(f"{t}/"))
    elif kind in ("spark.connect.SQL", "spark.connect.SqlCommand"):
        text = (message.query if kind.endswith("SQL") else message.sql).lower()
        yield from (t for t in targets if t and re.search(rf"(?<!\w){re.escape(t)}(?!\w)", text))
    for part in _parts(message):
        if hasattr(part, "DESCRIPTOR"):
            yield from _read_by(part, targets)


def doors(held: HeldWrites) -> list[tuple[Any, str, Callable[..., Any]]]:
    """What replaces the ways out of the client, as (owner, name, stand-in)."""
    from pyspark.sql.connect.client import SparkConnectClient

    return [
        (SparkConnectClient, name, _judged(name, getattr(SparkConnectClient, name), held))
        for name in _DOORS
        if hasattr(SparkConnectClient, name)
    ]


def _judged(name: str, own: Callable[..., Any], held: HeldWrites) -> Callable[..., Any]:
    def door(client: Any, *args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            if not hasattr(value, "DESCRIPTOR"):
                continue
            if name == "execute_command" and held.hold_command(value):
                return None, {}, None
            refuse_change(value)
            if not name.startswith(("_analyze", "_set")):
                held.check_reads(value)
        return own(client, *args, **kwargs)

    return door
