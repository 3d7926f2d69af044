"""Hadoop's checksum files beside the logs (`.<name>.crc`, on a local file system): do they fit their files?

Spark does not compare them (seen on 4.2, docs/damage-table.md), so one that does not fit only betrays that someone
edited or replaced the file. Format (ChecksumFileSystem): `crc`, a NUL, bytes a checksum, then a CRC32 for each piece.
"""

import struct
import zlib
from collections.abc import Iterable

from recovery.checkpoints.file_listing import Tree
from recovery.checkpoints.filelog import parse_name
from recovery.checkpoints.findings import finding
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.report import Finding

MAGIC = b"crc\0"
LOOKED_AT = 100  # of each log, the newest
MAX_BYTES = 1 << 16  # of a log file that is compared
MAX_PIECE = 1 << 20


def judge_sidecars(tree: Tree, so_far: Iterable[Finding]) -> list[Finding]:
    """One finding for all files of the logs, and the metadata, that are not those of their checksum files.

    Files of which a finding says more already are left out.
    """
    if not tree.store.local:
        return []
    reported = {earlier.file for earlier in so_far}
    names = [
        n
        for n in _list_compared_files(tree)
        if n not in reported and tree.files.get(n, MAX_BYTES) < MAX_BYTES
    ]
    other = [name for name in names if _sidecar_name(name) in tree.files and not _fits_sidecar(tree, name)]
    return [finding("SIDECAR_DIFFERS", other[-1], count=len(other), name=other[-1])] if other else []


def _list_compared_files(tree: Tree) -> list[str]:
    logs = ("offsets", "commits", *(f"sources/{n}" for n in sorted(tree.names("sources"))))
    names = ["metadata"]
    for log in logs:
        numbered = {parsed[0]: n for n in tree.names(log) if (parsed := parse_name(n))}
        names += [f"{log}/{numbered[number]}" for number in sorted(numbered)[-LOOKED_AT:]]
    return names


def _sidecar_name(name: str) -> str:
    above, slash, last = name.rpartition("/")
    return f"{above}{slash}.{last}.crc"


def _fits_sidecar(tree: Tree, name: str) -> bool:
    """Whether the checksums are those of the file; what cannot be read, or is no such checksum file, is passed over."""
    try:
        return is_of(tree.bytes_of(name), tree.bytes_of(_sidecar_name(name)))
    except Malformed:
        return True


def is_of(data: bytes, sidecar: bytes) -> bool:
    """Whether Hadoop's checksum file is that of these bytes. Malformed: it is no checksum file."""
    if sidecar[:4] != MAGIC or len(sidecar) < 8:
        raise Malformed("it is not a checksum file of Hadoop's")
    (piece,) = struct.unpack(">i", sidecar[4:8])
    if not 0 < piece <= MAX_PIECE:
        raise Malformed("it is not a checksum file of Hadoop's")
    sums = [zlib.crc32(data[at : at + piece]) for at in range(0, len(data), piece)]
    return sidecar[8:] == struct.pack(f">{len(sums)}I", *sums)
