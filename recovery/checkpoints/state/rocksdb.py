"""What a RocksDB snapshot (`<v>.zip`) and a changelog say of themselves.

The zip holds RocksDB's small files and `metadata`: a version line and RocksDBCheckpointMetadata as JSON. SST
files lie beside it in SSTs/ (archived logs in logs/), shared by the snapshots of one store. With state
checkpoint format 2 a changelog begins with its lineage: the versions before it, with their unique ids, back to
the snapshot that it builds on (StateStoreChangelogWriterV3 and V4).
"""

import errno
import struct
import zipfile
import zlib
from dataclasses import dataclass
from typing import Any

from recovery.checkpoints.formats import Malformed, json_of, object_of, text_of
from recovery.checkpoints.state.blocks import ByteReader, plain_blocks

MAX_METADATA = 1 << 26
NO_ZIP = "it is not a zip, or is cut short"
BAD_ZIP = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, RuntimeError, ValueError, OverflowError,
)  # fmt: skip
LINEAGE = {"v3", "v4"}
KNOWN = {"v1", "v2", *LINEAGE}  # v1 has no version line


@dataclass(frozen=True)
class RocksDbSnapshot:
    """`files`: name below the store's directory -> bytes, 0 where not recorded. `rows`: None if not known."""

    files: dict[str, int]
    rows: int | None
    column_families: tuple[str, ...] = ()


def parse_snapshot(stream: Any) -> RocksDbSnapshot:
    """The metadata of a zip, from a seekable binary stream. Malformed: not a zip, or without metadata."""
    try:
        with zipfile.ZipFile(stream) as bundle:
            if bundle.getinfo("metadata").file_size > MAX_METADATA:
                raise Malformed("its metadata is too large")
            data = bundle.read("metadata")
    except KeyError as error:
        raise Malformed("it holds no metadata") from error
    except BAD_ZIP as error:
        if store_failed(error):
            raise
        raise Malformed(NO_ZIP) from error
    version, _, body = text_of(data).partition("\n")
    if version != "v1":
        newer = version if version[:1] == "v" and version[1:].isdigit() else None
        raise Malformed(f"its metadata is in format {version[:20]}", newer=newer)
    return _parse_snapshot(object_of(body))


def store_failed(error: Exception) -> bool:
    """Whether reading a zip failed for the store's sake and not for the zip's."""
    return (
        isinstance(error, OSError) and error.errno != errno.EINVAL
    )  # EINVAL: a place before the file's start


def _parse_snapshot(body: dict[str, Any]) -> RocksDbSnapshot:
    files: dict[str, int] = {}
    for part, folder, key in (("sstFiles", "SSTs", "dfsSstFileName"), ("logFiles", "logs", "dfsLogFileName")):
        listed = body.get(part) or []
        if not isinstance(listed, list):
            raise Malformed(f"its {part} is not a list")
        for item in listed:
            name = item.get(key) if isinstance(item, dict) else None
            if not isinstance(name, str) or not name or "/" in name:
                raise Malformed(f"its {part} names no file")
            size = item.get("sizeBytes")
            files[f"{folder}/{name}"] = size if isinstance(size, int) else 0
    rows = body.get("numKeys")
    families = body.get("columnFamilyMapping")
    return RocksDbSnapshot(
        files,
        rows if isinstance(rows, int) and not isinstance(rows, bool) and rows >= 0 else None,
        tuple(sorted(families)) if isinstance(families, dict) else (),
    )


def parse_lineage(stream: ByteReader) -> tuple[tuple[int, str], ...]:
    """(version, unique id) of the versions before a changelog of format 2, ascending. Malformed: it has none."""
    blocks = plain_blocks(stream)
    data = b""

    def take(size: int) -> bytes:
        nonlocal data
        while len(data) < size:
            piece = next(blocks, b"")
            if not piece:
                raise Malformed("it is cut short")
            data += piece
        taken, data = data[:size], data[size:]
        return taken

    def utf() -> str:
        (size,) = struct.unpack(">H", take(2))
        return text_of(take(size))

    version = utf()
    if version not in LINEAGE:
        newer = version if version[:1] == "v" and version[1:].isdigit() and version not in KNOWN else None
        raise Malformed("it does not begin with a lineage", newer=newer)
    return _parse_lineage(json_of(utf()))


def _parse_lineage(items: Any) -> tuple[tuple[int, str], ...]:
    if not isinstance(items, list):
        raise Malformed("its lineage is not a list")
    lineage = []
    for item in items:
        version = item.get("version") if isinstance(item, dict) else None
        unique_id = item.get("checkpointUniqueId") if isinstance(item, dict) else None
        if isinstance(version, bool) or not isinstance(version, int) or not isinstance(unique_id, str):
            raise Malformed("its lineage names no version")
        lineage.append((version, unique_id))
    return tuple(sorted(lineage))
