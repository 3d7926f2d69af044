"""The plain bytes of an event log, block by block, each with where it begins, so that a tail can go on there.

Spark closes a zstd frame at each flush, and LZ4, Snappy and LZF are made of blocks: every one of them can be read
without what came before it. A block that is not whole yet is left for the next look.
"""

import io
import struct
from collections.abc import Callable, Iterator
from typing import Any, Final

from recovery.checkpoints.formats import Malformed

PIECE: Final = 1 << 16
LARGEST_BLOCK: Final = 64 << 20
"""Bytes of one block of LZ4 or Snappy, packed or not; Spark writes blocks of 32 KiB."""
ZSTD: Final = b"\x28\xb5\x2f\xfd"
LZ4: Final = b"LZ4Block"
SNAPPY: Final = b"\x82SNAPPY\x00"
LZF: Final = b"ZV"
LZ4_HEAD: Final = struct.Struct("<8sBiii")
LARGEST_ZSTD_BLOCK: Final = 128 << 10
SNAPPY_HEAD: Final = 16

Block = tuple[int, Iterator[bytes]]  # where it begins in the file, and its plain bytes


def iterate_blocks(stream: Any, start: int) -> Iterator[Block]:
    """Every whole block from `start` on, which is 0 or where a block begins. Raises Malformed.

    The bytes of a block are to be taken before the next block is asked for.
    """
    stream.seek(0)
    magic = stream.read(len(LZ4))
    yield from _reader_of(magic)(stream, start)


def _reader_of(magic: bytes) -> Callable[[Any, int], Iterator[Block]]:
    if magic[:4] == ZSTD:
        return _zstd_blocks
    if magic == LZ4:
        return _lz4_blocks
    if magic == SNAPPY:
        return _snappy_blocks
    return _lzf_blocks if magic[:2] == LZF else _plain_blocks


def _plain_blocks(stream: Any, start: int) -> Iterator[Block]:
    while True:
        stream.seek(start)
        piece = stream.read(PIECE)
        if not piece:
            return
        yield start, iter((piece,))
        start += len(piece)


def _lz4_blocks(stream: Any, start: int) -> Iterator[Block]:
    import pyarrow as pa  # late: it takes longer than most looks

    codec = pa.Codec("lz4_raw")
    while True:
        stream.seek(start)
        head = stream.read(LZ4_HEAD.size)
        if len(head) < LZ4_HEAD.size:
            return
        magic, token, packed, length, _ = LZ4_HEAD.unpack(head)
        if magic != LZ4 or not 0 <= packed <= LARGEST_BLOCK or not 0 <= length <= LARGEST_BLOCK:
            raise Malformed("its LZ4 blocks are corrupt")
        data = stream.read(packed)
        if len(data) < packed:
            return
        if length:
            plain = data if token & 0xF0 == 0x10 else _decompress_block(codec, data, length)
            yield start, iter((plain,))
        start += LZ4_HEAD.size + packed


def _snappy_blocks(stream: Any, start: int) -> Iterator[Block]:
    import pyarrow as pa  # late, as above

    codec = pa.Codec("snappy")
    while True:
        stream.seek(start)
        head = stream.read(SNAPPY_HEAD)
        if head[: len(SNAPPY)] == SNAPPY:  # a stream begins, and one may follow another
            start += SNAPPY_HEAD
            continue
        if len(head) < 4:
            return
        packed = int.from_bytes(head[:4], "big")
        if packed > LARGEST_BLOCK:
            raise Malformed("its Snappy blocks are corrupt")
        stream.seek(start + 4)
        data = stream.read(packed)
        if len(data) < packed:
            return
        yield start, iter((_decompress_block(codec, data, _snappy_length(data)),))
        start += 4 + packed


def _snappy_length(data: bytes) -> int:
    """The length that a Snappy block begins with: seven bits a byte, the lowest first."""
    length = 0
    for at, byte in enumerate(data[:5]):
        length |= (byte & 0x7F) << (7 * at)
        if byte < 0x80:
            if length > LARGEST_BLOCK:
                break
            return length
    raise Malformed("its Snappy blocks are corrupt")


def _decompress_block(codec: Any, data: bytes, length: int) -> bytes:
    try:
        plain: bytes = codec.decompress(data, length, asbytes=True)
    except (OSError, ValueError) as error:  # ArrowInvalid is a ValueError
        raise Malformed("its compressed blocks are corrupt") from error
    return plain


def _lzf_blocks(stream: Any, start: int) -> Iterator[Block]:
    while True:
        stream.seek(start)
        head = stream.read(7)
        if len(head) < 5:
            return
        if head[:2] != LZF or head[2] > 1:
            raise Malformed("its LZF blocks are corrupt")
        is_packed, packed = head[2] == 1, int.from_bytes(head[3:5], "big")
        begin = start + (7 if is_packed else 5)
        stream.seek(begin)
        data = stream.read(packed)
        if len(head) < begin - start or len(data) < packed:
            return
        yield start, iter((_lzf_plain(data, int.from_bytes(head[5:7], "big")) if is_packed else data,))
        start = begin + packed


def _lzf_plain(data: bytes, length: int) -> bytes:
    """One LZF block: a byte below 32 says how many bytes follow as they are, any other what to copy from before."""
    out, at = bytearray(), 0
    try:
        while at < len(data) and len(out) <= length:
            control = data[at]
            at += 1
            if control < 32:
                out += data[at : at + control + 1]
                at += control + 1
                continue
            size = control >> 5
            if size == 7:
                size += data[at]
                at += 1
            back = ((control & 0x1F) << 8) + data[at] + 1
            at += 1
            begin = len(out) - back
            if begin < 0:
                raise Malformed("its LZF blocks are corrupt")
            for n in range(size + 2):  # what is copied may overlap what it writes
                out.append(out[begin + n])
    except IndexError as error:
        raise Malformed("its LZF blocks are corrupt") from error
    if len(out) != length:
        raise Malformed("its LZF blocks are corrupt")
    return bytes(out)


def _zstd_blocks(stream: Any, start: int) -> Iterator[Block]:
    while (end := _zstd_end(stream, start)) is not None:
        yield start, _zstd_plain(stream, start, end)
        start = end


def _zstd_end(stream: Any, start: int) -> int | None:
    """Where a frame ends, by the sizes of its blocks; None while it is not whole. (RFC 8878, 3.1.1)"""
    stream.seek(start)
    head = stream.read(18)
    if len(head) < 6:
        return None
    if head[1:4] == b"\x2a\x4d\x18" and head[0] & 0xF0 == 0x50:  # a frame to skip
        end = start + 8 + int.from_bytes(head[4:8], "little")
        return end if len(head) >= 8 and _is_whole_until(stream, end) else None
    if head[:4] != ZSTD:
        raise Malformed("its zstd frames are corrupt")
    described = head[4]
    is_single, size_flag = bool(described & 0x20), described >> 6
    size = (1 if is_single else 0, 2, 4, 8)[size_flag]
    at = start + 5 + (0 if is_single else 1) + (0, 1, 2, 4)[described & 3] + size
    while True:
        stream.seek(at)
        block = stream.read(3)
        if len(block) < 3:
            return None
        header = int.from_bytes(block, "little")
        is_last, kind, length = bool(header & 1), (header >> 1) & 3, header >> 3
        if kind == 3 or length > LARGEST_ZSTD_BLOCK:
            raise Malformed("its zstd frames are corrupt")
        at += 3 + (1 if kind == 1 else length)
        if is_last:
            at += 4 if described & 4 else 0
            return at if _is_whole_until(stream, at) else None


def _is_whole_until(stream: Any, end: int) -> bool:
    stream.seek(end - 1)
    return len(stream.read(1)) == 1


def _zstd_plain(stream: Any, start: int, end: int) -> Iterator[bytes]:
    import pyarrow as pa  # late, as above

    try:
        with pa.CompressedInputStream(pa.PythonFile(_Part(stream, start, end), mode="r"), "zstd") as opened:
            while piece := opened.read(PIECE):
                yield piece
    except (OSError, ValueError) as error:
        raise Malformed("its zstd frames are corrupt") from error


class _Part(io.RawIOBase):
    """The bytes of a file between two places, to read forward."""

    def __init__(self, stream: Any, start: int, end: int) -> None:
        self._stream, self._at, self._end = stream, start, end

    def read(self, size: int = -1, /) -> bytes:
        left = self._end - self._at
        self._stream.seek(self._at)
        data: bytes = self._stream.read(left if size < 0 else min(size, left))
        self._at += len(data)
        return data

    def readable(self) -> bool:
        return True
