"""The records inside deltas, snapshots and changelogs, followed one by one.

Delta, snapshot, changelog v1 and v3: key length, key, value length (-1: removed), value; a key length of -1 ends them
(HDFSBackedStateStoreProvider, StateStoreChangelogWriterV1). Changelog v2 and v4 (column families): a byte for
the kind of record before each, 0 ends them (StateStoreChangelogWriterV2). Numbers are big endian, 4 bytes.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.state.rocksdb import KNOWN, LINEAGE

PUT, DELETE, MERGE = 0x01, 0x10, 0x11
WITH_KINDS = {"v2", "v4"}


class Record(NamedTuple):
    """One key of the state, as it is stored, whether this file removes it, and its value if that was wanted."""

    key: bytes
    removed: bool
    value: bytes | None = None


class _Plain:
    """Bytes that come in pieces; what is skipped is not kept."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.pieces, self.rest, self.at = pieces, b"", 0

    def skip_bytes(self, size: int) -> None:
        while len(self.rest) - self.at < size:
            size -= len(self.rest) - self.at
            self._next_piece()
        self.at += size

    def take_bytes(self, size: int) -> bytes:
        """A few bytes; an error when they are not there."""
        taken = self.rest[self.at : self.at + size]
        self.at += len(taken)
        while len(taken) < size:
            self._next_piece()
            piece = self.rest[: size - len(taken)]
            self.at = len(piece)
            taken += piece
        return taken

    def read_number(self) -> int:
        return int.from_bytes(self.take_bytes(4), "big", signed=True)

    def peek_bytes(self, size: int) -> bytes:
        """The next bytes, fewer at the end."""
        while len(self.rest) - self.at < size:
            piece = next(self.pieces, None)
            if piece is None:
                break
            self.rest, self.at = self.rest[self.at :] + piece, 0
        return self.rest[self.at : self.at + size]

    def _next_piece(self) -> None:
        self.rest, self.at = next(self.pieces, b""), 0
        if not self.rest:
            raise Malformed("it is cut short")


def check_records(pieces: Iterator[bytes], *, changelog: bool) -> None:
    """Follow every record to the end. Malformed: cut short, corrupt, or of a newer format."""
    data = _Plain(pieces)
    if _skip_head(data, changelog=changelog) in WITH_KINDS:
        _with_kinds(data)
    else:
        _skip_bare_keys(data)


def read_records(
    pieces: Iterator[bytes], *, changelog: bool, wanted: Collection[bytes] = frozenset()
) -> Iterator[Record]:
    """Every record in the order of the file, a later one of the same key replaces an earlier one; with the values of
    the `wanted` keys.

    Raises Malformed as `check_records`, once the place of the damage is reached.
    """
    data = _Plain(pieces)
    if _skip_head(data, changelog=changelog) in WITH_KINDS:
        while kind := data.take_bytes(1)[0]:
            if kind not in (PUT, DELETE, MERGE):
                raise Malformed("it has a record of an unknown kind")
            key = _read_key(data, data.read_number())
            value, size = _read_value(data, keep=key in wanted)
            yield Record(key, kind == DELETE or size < 0, None if kind == MERGE else value)
    else:
        while (size := data.read_number()) != -1:
            key = _read_key(data, size)
            value, size = _read_value(data, keep=key in wanted)
            yield Record(key, size < 0, value)


def _skip_head(data: _Plain, *, changelog: bool) -> str:
    """The version of a changelog, past its head; "" of all else."""
    version = _read_version(data) if changelog else ""
    if version in LINEAGE:
        data.skip_bytes(int.from_bytes(data.take_bytes(2), "big"))
    return version


def _read_version(data: _Plain) -> str:
    """`v2` to `v4`; "" for v1, which has no version line."""
    start = data.peek_bytes(4)
    if start[:3] != b"\x00\x02v":
        return ""
    version = data.take_bytes(4)[2:].decode("latin-1")
    if version not in KNOWN:
        raise Malformed(f"it is in format {version}", newer=version)
    return version


def _skip_bare_keys(data: _Plain) -> None:
    while (size := data.read_number()) != -1:
        _skip_record(data, size)


def _with_kinds(data: _Plain) -> None:
    while kind := data.take_bytes(1)[0]:
        if kind not in (PUT, DELETE, MERGE):
            raise Malformed("it has a record of an unknown kind")
        _skip_record(data, data.read_number())


def _skip_record(data: _Plain, size: int) -> None:
    if size < 0:
        raise Malformed("it has a key of negative length")
    data.skip_bytes(size)
    _skip_value(data)


def _read_key(data: _Plain, size: int) -> bytes:
    if size < 0:
        raise Malformed("it has a key of negative length")
    return data.take_bytes(size)


def _skip_value(data: _Plain) -> int:
    """Pass over a value; its length, -1 where there is none."""
    return _read_value(data, keep=False)[1]


def _read_value(data: _Plain, *, keep: bool) -> tuple[bytes | None, int]:
    """A value, None where it is not kept, and its length, -1 where there is none."""
    size = data.read_number()
    if size < -1:
        raise Malformed("it has a value of negative length")
    if keep and size >= 0:
        return data.take_bytes(size), size
    data.skip_bytes(max(size, 0))
    return None, size
