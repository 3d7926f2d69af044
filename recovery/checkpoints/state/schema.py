"""State schema files: column names and types of each store's key and value; bytes in, values out.

v1 and v2 (`<partition 0>/[<store>/]_metadata/schema`): key and value schema, in v1 (Spark 3.1) each as one
text. v3 (`_stateSchema/<store>/<batch>_<uuid>`): one entry a column family; builds on the way to 4.0 wrote it without
the two ids of schemas, and 4.2 cannot read that. Text is written with Java's writeUTF, from v2 on JSON in chunks of it
(SchemaHelper.SchemaWriter). The names betray changes that Spark lets pass, since it compares types only.
"""

import struct
from dataclasses import dataclass
from typing import Any

from recovery.checkpoints.formats import Malformed, object_of
from recovery.checkpoints.report import Column
from recovery.checkpoints.state.names import DEFAULT

MAX_CHUNKS = 1024  # of 64 kB
MAX_FAMILIES = 10_000
SHORT_NAMES = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}  # as in SQL


@dataclass(frozen=True)
class FamilySchema:
    """Key and value columns of one column family; `default` where there are none."""

    family: str
    key: tuple[Column, ...]
    value: tuple[Column, ...]


class _SchemaReader:
    """Java's DataInputStream over bytes."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take_bytes(self, size: int) -> bytes:
        piece = self.data[self.at : self.at + size]
        if len(piece) < size:
            raise Malformed("it is cut short")
        self.at += size
        return piece

    def read_number(self, form: str) -> int:
        (value,) = struct.unpack(form, self.take_bytes(struct.calcsize(form)))
        return int(value)

    def read_utf(self) -> str:
        """What writeUTF wrote: the NUL in two bytes, and each half of a surrogate pair in three."""
        try:
            return (
                self.take_bytes(self.read_number(">H"))
                .replace(b"\xc0\x80", b"\0")
                .decode("utf-8", "surrogatepass")
            )
        except UnicodeDecodeError as error:
            raise Malformed("it is not UTF-8 text") from error

    def read_text(self) -> str:
        count = self.read_number(">i")
        if not 0 <= count <= MAX_CHUNKS:
            raise Malformed("it is not a state schema")
        return "".join(self.read_utf() for _ in range(count))

    def read_columns(self) -> tuple[Column, ...]:
        return columns_in(self.read_text())


def parse_schema(data: bytes, *, early: bool = False) -> tuple[FamilySchema, ...]:
    """Column families in the order of the file. Malformed; its `newer` is set for a version not known here.

    `early`: a build on the way to 4.0 may have written it.
    """
    if not data:
        raise Malformed("it is empty")
    reader = _SchemaReader(data)
    version = reader.read_utf()
    if version == "v1":
        return (FamilySchema(DEFAULT, columns_in(reader.read_utf()), columns_in(reader.read_utf())),)
    if version == "v2":
        return (FamilySchema(DEFAULT, reader.read_columns(), reader.read_columns()),)
    if version == "v3":
        count = reader.read_number(">i")
        if not 0 <= count <= MAX_FAMILIES:
            raise Malformed("it is not a state schema")
        return _read_families(reader, count, early=early)
    newer = version if version[:1] == "v" and version[1:].isascii() and version[1:].isdigit() else None
    why = f"it is in format {version[:9]}" if newer else "it is not a state schema"
    raise Malformed(why, newer=newer and newer[:9])


def _read_families(reader: _SchemaReader, count: int, *, early: bool) -> tuple[FamilySchema, ...]:
    """As released versions write them; where that does not fit, perhaps as the builds before 4.0 did."""
    start = reader.at
    try:
        return tuple(_read_family(reader, ids=True) for _ in range(count))
    except Malformed:
        if not early:
            raise
        reader.at = start
        return tuple(_read_family(reader, ids=False) for _ in range(count))


def _read_family(reader: _SchemaReader, *, ids: bool) -> FamilySchema:
    name = reader.read_utf()
    if ids:
        reader.read_number(">h")
    key = reader.read_columns()
    if ids:
        reader.read_number(">h")
    value = reader.read_columns()
    reader.read_text()  # how keys are encoded
    reader.read_text()  # the key of a map variable, where there is one
    return FamilySchema(name, key, value)


def columns_in(text: str) -> tuple[Column, ...]:
    """Columns of a struct type as Spark's JSON in Java's characters. Malformed."""
    try:
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError as error:
        raise Malformed("it holds half of a character") from error
    return columns_of(object_of(whole))


def columns_of(schema: dict[str, Any]) -> tuple[Column, ...]:
    """Columns of a struct type in Spark's JSON."""
    fields = schema.get("fields")
    if not isinstance(fields, list) or not all(isinstance(f, dict) and "name" in f for f in fields):
        raise Malformed("its schema has no fields")
    return tuple(Column(str(f["name"]), type_name(f.get("type"))) for f in fields)


def type_name(kind: Any, depth: int = 0) -> str:
    """A data type in Spark's JSON as SQL names it: `bigint`, `struct<a:int>`, `map<string,int>`."""
    if isinstance(kind, str):
        return SHORT_NAMES.get(kind, kind)
    if not isinstance(kind, dict) or depth > 50:
        return "unknown"
    if kind.get("type") == "struct" and isinstance(kind.get("fields"), list):
        inner = [f for f in kind["fields"] if isinstance(f, dict)]
        parts = (f"{f.get('name')}:{type_name(f.get('type'), depth + 1)}" for f in inner)
        return f"struct<{','.join(parts)}>"
    if kind.get("type") == "array":
        return f"array<{type_name(kind.get('elementType'), depth + 1)}>"
    if kind.get("type") == "map":
        keys, values = kind.get("keyType"), kind.get("valueType")
        return f"map<{type_name(keys, depth + 1)},{type_name(values, depth + 1)}>"
    return str(kind.get("type", "unknown"))
