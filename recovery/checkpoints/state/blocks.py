"""Compressed streams that Spark writes for state: LZ4 blocks of lz4-java, or a zstd frame.

An LZ4 block is `LZ4Block`, a token, then compressed length, length and checksum (little endian, 4 bytes each)
and the data; an empty block ends the stream (net.jpountz.lz4.LZ4BlockOutputStream, which Spark's
LZ4CompressionCodec uses). The checksum is XXH32 with seed 0x9747b28c, its top four bits cleared.
"""

import io
import struct
from collections.abc import Iterator
from typing import Any, Protocol

from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.state.checksums import xxh32

MAGIC = b"LZ4Block"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
HEAD = struct.Struct("<8sBiii")
SEED = 0x9747B28C
RAW, LZ4 = 0x10, 0x20


class ByteReader(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class UnknownCodec(Exception):
    """The stream is compressed in a way that is not read here."""


def plain_blocks(stream: ByteReader) -> Iterator[bytes]:
    """The plain bytes, block by block. Malformed: cut short or corrupt. UnknownCodec: another codec."""
    start = stream.read(HEAD.size)
    if not start:
        raise Malformed("it is empty")
    if start[: len(MAGIC)] == MAGIC[: len(start)]:
        yield from _decompress_lz4(start, stream)
    elif start[:4] == ZSTD_MAGIC[: len(start)]:
        yield from _decompress_zstd(start, stream)
    else:
        raise UnknownCodec


def _decompress_lz4(start: bytes, stream: ByteReader) -> Iterator[bytes]:
    import pyarrow as pa  # late: most inspections open no state file, and it takes longer than they do

    codec = pa.Codec("lz4_raw")
    while True:
        if len(start) < HEAD.size:
            raise Malformed("it is cut short")
        magic, token, packed, length, checksum = HEAD.unpack(start)
        most = 1 << 10 + (token & 0x0F)  # the size of the writer's blocks, in the lower half of the token
        if magic != MAGIC or not 0 <= length <= most or not 0 <= packed <= length:
            raise Malformed("its LZ4 blocks are corrupt")
        if length == 0:
            return  # what Spark reads ends here
        data = stream.read(packed)
        if len(data) < packed:
            raise Malformed("it is cut short")
        yield _decode_block(codec, token & 0xF0, data, length, checksum)
        start = stream.read(HEAD.size)


def _decode_block(codec: Any, method: int, data: bytes, length: int, checksum: int) -> bytes:
    if method == RAW:
        block = data
    elif method == LZ4:
        try:
            block = codec.decompress(data, length, asbytes=True)
        except (OSError, ValueError) as error:  # ArrowInvalid is a ValueError
            raise Malformed("its LZ4 blocks are corrupt") from error
    else:
        raise Malformed("its LZ4 blocks are corrupt")
    if len(block) != length or xxh32(block, SEED) & 0x0FFFFFFF != checksum:
        raise Malformed("an LZ4 block does not have its checksum")
    return block


class _Joined(io.RawIOBase):
    """A stream whose first bytes were read already."""

    def __init__(self, start: bytes, stream: ByteReader) -> None:
        self.start, self.stream = start, stream

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        start, self.start = self.start, b""
        return start or self.stream.read(size)


def _decompress_zstd(start: bytes, stream: ByteReader) -> Iterator[bytes]:
    import pyarrow as pa  # late, as above

    try:
        with pa.CompressedInputStream(pa.PythonFile(_Joined(start, stream), mode="r"), "zstd") as opened:
            while piece := opened.read(1 << 16):
                yield piece
    except (OSError, ValueError) as error:  # ArrowInvalid is a ValueError
        raise Malformed("its zstd frame is cut short or corrupt") from error
