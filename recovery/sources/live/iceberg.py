"""Reads the history of an Iceberg table from its metadata JSON, over any store that fsspec opens.

Source: the Iceberg table specification (table metadata), HadoopTableOperations (`v<N>.metadata.json`, version-hint),
BaseMetastoreTableOperations (`<N>-<uuid>.metadata.json`). A catalog alone says which metadata file is the current one;
without it the file with the highest number is taken, which an uncommitted attempt may have left.
"""

import gzip
import io
import re
import zlib
from collections.abc import Mapping
from typing import Any

from recovery.checkpoints.formats import Malformed, object_of, text_of
from recovery.checkpoints.storage import Store, TooLarge, reaching
from recovery.errors import Unreachable
from recovery.sources.iceberg import MAX_SNAPSHOT_AGE_MS, IcebergSourceFacts, TableSnapshot

NAME = re.compile(r"(?:v(\d{1,18})|(\d{1,18})-[^/]+)(?:\.gz)?\.metadata\.json(?:\.gz)?")
MAX_BYTES = 256 << 20  # of one metadata file
MAX_SNAPSHOTS = 1_000_000
MAX_AGE = "history.expire.max-snapshot-age-ms"


def read_table_facts(location: str) -> IcebergSourceFacts:
    """The table's history. Raises Unreachable when there is no table, its metadata cannot be read, or storage fails."""
    with reaching(location):
        table = Store.open(location)
        if not table.is_dir("metadata"):
            raise Unreachable(
                f"{location} holds no Iceberg table: it has no directory metadata. Check the path."
            )
        name = f"metadata/{_newest_metadata_file(table, location)}"
        try:
            data = table.read(name, MAX_BYTES)
            return _parse_facts(object_of(text_of(_unpack_gzip(data))))
        except (Malformed, TooLarge, EOFError, zlib.error, gzip.BadGzipFile) as problem:
            raise Unreachable(f"{location}/{name} cannot be read: {problem}. Check the table.") from problem


def _newest_metadata_file(table: Store, location: str) -> str:
    candidates = [
        (m, e.name) for e in table.entries("metadata") if (m := NAME.fullmatch(e.name)) and not e.is_dir
    ]
    if not candidates:
        raise Unreachable(f"{location}/metadata holds no metadata file of an Iceberg table. Check the path.")
    return max(candidates, key=lambda pair: int(pair[0][1] or pair[0][2]))[1]


def _unpack_gzip(data: bytes) -> bytes:
    if data[:2] != b"\x1f\x8b":
        return data
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
        plain = packed.read(MAX_BYTES + 1)
    if len(plain) > MAX_BYTES:
        raise Malformed("it unpacks to more than can be read")
    return plain


def _read_history(body: Mapping[str, Any]) -> tuple[list[Mapping[str, Any]], frozenset[int]]:
    """(the current snapshot and its ancestors, newest first; ids of the others). Raises Malformed."""
    snapshots = body.get("snapshots") or []
    if not isinstance(snapshots, list) or len(snapshots) > MAX_SNAPSHOTS:
        raise Malformed("its snapshots are no list of a size that Iceberg writes")
    known = {_require_integer(s, "snapshot-id"): s for s in snapshots}
    parents = {held: s.get("parent-snapshot-id") for held, s in known.items()}
    chain: list[int] = []
    at = body.get("current-snapshot-id")
    while (
        type(at) is int and at in parents
    ):  # ends at the first snapshot, an expired one, or where it goes round
        chain.append(at)
        at = parents.pop(at)
    return [known[held] for held in chain], frozenset(known) - frozenset(chain)


def _parse_facts(body: Mapping[str, Any]) -> IcebergSourceFacts:
    chain, others = _read_history(body)
    properties = body.get("properties") or {}
    age = properties.get(MAX_AGE) if isinstance(properties, dict) else None
    return IcebergSourceFacts(
        chain=tuple(_parse_snapshot(held) for held in reversed(chain)),
        others=others,
        max_age_ms=int(age)
        if isinstance(age, str) and age.isascii() and age.isdigit() and len(age) < 19
        else MAX_SNAPSHOT_AGE_MS,
    )


def _parse_snapshot(body: Mapping[str, Any]) -> TableSnapshot:
    summary = body.get("summary")
    values = summary if isinstance(summary, dict) else {}
    operation = values.get("operation")
    return TableSnapshot(
        snapshot_id=_require_integer(body, "snapshot-id"),
        at_ms=_require_integer(body, "timestamp-ms"),
        operation=operation if isinstance(operation, str) else "append",
        files=_summary_number(values, "added-data-files"),
        rows=_summary_number(values, "added-records"),
        bytes=_summary_number(values, "added-files-size"),
    )


def _require_integer(body: Any, name: str) -> int:
    value = body.get(name) if isinstance(body, dict) else None
    if type(value) is not int:
        raise Malformed(f"a snapshot has no {name}")
    return value


def _summary_number(summary: Mapping[str, Any], name: str) -> int | None:
    """A number of the summary, which holds text; None where not recorded."""
    value = summary.get(name)
    return (
        int(value)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19
        else None
    )
