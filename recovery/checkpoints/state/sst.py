"""SST files of RocksDB: every block read against its checksum, in bounded memory, whatever the bytes say.

Format (RocksDB: table/format.cc and .h, table/block_based/block_util.h, block.cc, meta_blocks.cc): blocks one after
the other, each followed by one byte (its compression) and four (its checksum, over the block and that byte); at the
end a footer of 53 bytes. The footer leads to the metaindex, that names the other blocks (properties, filter, and
from format 6 on the index); the index names the data blocks in their order. From format 6 on the place of a block is
mixed into its checksum, and the footer has one of its own. Spark writes format 5 unless configured otherwise.

RocksDB reads the index, the filter and the properties when it opens a file, a data block when a key in it is asked for.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.state.checksums import crc32c

MAGIC = 0x88E241B785F4CFF7  # kBlockBasedTableMagicNumber
FOOTER = struct.Struct("<B40sIQ")
MIXED = struct.Struct("<4sIII16sQ")  # its middle from format 6 on
MIXED_MAGIC = b"\x3e\x00\x7a\x00"
FORMATS = range(2, 8)
TRAILER = struct.Struct("<BI")
MASK = 0xFFFFFFFF
NONE, CRC32C, XXH32, XXH64, XXH3 = range(5)
LAST_BYTE = 0x6B9083D9  # kRandomPrime of ModifyChecksumForLastByte
PIECE = 1 << 20
MAX_HELD = 1 << 26  # bytes of an index or metaindex, packed or plain; of a 64 MB file it has about one
MAX_GAPS = 1000
UNIFORM, SEPARATED = 1 << 29, 1 << 28  # kinds of block that are marked beside the number of restarts
BINARY, HASHED, PARTITIONED, WITH_KEY = range(4)  # BlockBasedTableOptions::IndexType
SNAPPY, ZLIB = 1, 2  # CompressionType
CODECS: dict[int, Literal["snappy", "lz4_raw", "zstd"]] = {
    SNAPPY: "snappy",
    4: "lz4_raw",
    5: "lz4_raw",
    7: "zstd",
}
HELD = {"rocksdb.properties", "rocksdb.index"}
RANGES = "rocksdb.range_del"
TAG = 8  # bytes after a key: its sequence number and what kind of entry it is (dbformat.h)
GONE = (0x00, 0x07)  # kTypeDeletion, kTypeSingleDeletion
FILTER = "filter."  # fullfilter.<policy>, partitionedfilter.<policy>, of old filter.<policy>


class Unchecked(Exception):
    """This file is not of a kind that is checked here. The text says why."""


class BlockDamaged(Malformed):
    """A block that RocksDB reads only when someone asks for a key in it: the file opens, and the task fails then."""


class FilterDamaged(Malformed):
    """A filter. RocksDB goes on without it, and reads blocks that the filter would have spared it."""


class SstEntry(NamedTuple):
    """One entry of a key: the one with the highest `sequence`, in whatever file, is what is true of it."""

    key: bytes
    sequence: int
    removed: bool
    value: bytes


class Handle(NamedTuple):
    """Where a block is: its first byte, and its bytes without the trailer."""

    offset: int
    size: int


@dataclass(frozen=True)
class Footer:
    """`start`: its first byte. `index` None: the metaindex names it. `context`: 0 before format 6."""

    start: int
    kind: int
    context: int
    metaindex: Handle
    index: Handle | None


def check_sst(stream: Any, size: int) -> None:
    """Read every block of an SST file of `size` bytes against its checksum.

    Raises Malformed where RocksDB would not open the file, BlockDamaged and FilterDamaged where it would; Unchecked
    where it is of a kind that is not known here, OSError where the store fails. The gravest of several is raised.
    """
    table = _Table(stream, read_footer(stream, size))
    named = table.named_blocks()
    index = table.footer.index or named.get("rocksdb.index")
    if index is None:
        raise Malformed("its metaindex names no index")
    properties = table.read_properties(named.get("rocksdb.properties"))
    plain = table.read_block(index)
    filters = [handle for name, handle in named.items() if FILTER in name]
    for name, handle in named.items():
        if name not in HELD and FILTER not in name:
            table.check_block(handle)
    table.check_blocks(plain, properties)
    for handle in filters:
        table.check_block(handle, FilterDamaged)
    table.check_rest()


def read_entries(stream: Any, size: int) -> Iterator[SstEntry]:
    """Every entry of an SST file of `size` bytes, in the order of its keys. Raises as `check_sst`."""
    table = _Table(stream, read_footer(stream, size))
    named = table.named_blocks()
    index = table.footer.index or named.get("rocksdb.index")
    if index is None:
        raise Malformed("its metaindex names no index")
    if RANGES in named:
        raise Unchecked("it removes ranges of keys, which is not read here")
    properties = table.read_properties(named.get("rocksdb.properties"))
    for handle in table.iterate_blocks(table.read_block(index), properties):
        for key, value in block_entries(table.read_block(handle)):
            if len(key) < TAG:
                raise Malformed("a key in it is cut short")
            tag = int.from_bytes(key[-TAG:], "little")
            yield SstEntry(key[:-TAG], tag >> 8, tag & 0xFF in GONE, value)


def read_footer(stream: Any, size: int) -> Footer:
    """The last bytes of the file. Raises as `check_sst`."""
    start = size - FOOTER.size
    data = _read_at(stream, start, FOOTER.size) if start >= 0 else b""
    if len(data) < FOOTER.size:
        raise Malformed("it does not end as an SST file ends")
    kind, middle, version, magic = FOOTER.unpack(data)
    if magic != MAGIC:
        raise Malformed("it does not end as an SST file ends")
    if version not in FORMATS:
        raise Unchecked(f"it is in format {version}, which is not known here")
    if kind == NONE:
        raise Unchecked("its blocks carry no checksums")
    if kind > XXH3:
        raise Unchecked(f"its checksums are of an unknown kind, {kind}")
    if version >= 6:
        return _parse_mixed_footer(data, start, kind, middle)
    metaindex, at = _read_handle(middle, 0)
    index, _ = _read_handle(middle, at)
    return Footer(start, kind, 0, metaindex, index)


def _parse_mixed_footer(data: bytes, start: int, kind: int, middle: bytes) -> Footer:
    magic, stored, context, size, _, reserved = MIXED.unpack(middle)
    if magic != MIXED_MAGIC or not context:
        raise Malformed("its footer is damaged")
    bare = data[:5] + bytes(4) + data[9:]
    computed = _Sum(kind)
    computed.update(bare[:-1])
    if (computed.finish(bare[-1]) + _checksum_modifier(context, start)) & MASK != stored:
        raise Malformed("its footer does not have its checksum")
    if reserved:
        raise Unchecked("it uses a feature of RocksDB that is not known here")
    return Footer(start, kind, context, Handle(start - TRAILER.size - size, size), None)


def _checksum_modifier(context: int, offset: int) -> int:
    """ChecksumModifierForContext: what the place of a block adds to its checksum."""
    return (context ^ (offset + (offset >> 32)) & MASK) if context else 0


class _Sum:
    """ComputeBuiltinChecksumWithLastByte: over pieces and, at the end, one byte more."""

    def __init__(self, kind: int) -> None:
        self.kind, self.crc = kind, 0
        self.state = None if kind == CRC32C else _hasher_of(kind)

    def update(self, piece: bytes) -> None:
        if self.state is None:
            self.crc = crc32c(self.crc, piece)
        else:
            self.state.update(piece)

    def finish(self, last: int) -> int:
        if self.kind == XXH3 and self.state is not None:
            return (int(self.state.intdigest()) & MASK) ^ (last * LAST_BYTE & MASK)
        self.update(bytes((last,)))
        if self.state is None:
            return ((self.crc >> 15 | self.crc << 17) + 0xA282EAD8) & MASK  # crc32c::Mask
        return int(self.state.intdigest()) & MASK


def _hasher_of(kind: int) -> Any:
    try:
        import xxhash
    except ImportError as error:
        raise Unchecked("the package xxhash, which computes its checksums, is not installed") from error
    made: Callable[[], Any] = {XXH32: xxhash.xxh32, XXH64: xxhash.xxh64, XXH3: xxhash.xxh3_64}[kind]
    return made()


@dataclass
class _Table:
    """A file while it is gone through. `reached`: all before it is covered by blocks, but for `gaps`."""

    stream: Any
    footer: Footer
    reached: int = 0
    gaps: list[Handle] = field(default_factory=list)

    def check_block(self, handle: Handle, wrong: type[Malformed] = Malformed) -> None:
        """One block against its checksum, a piece at a time. Raises `wrong` where it does not fit."""
        try:
            for _ in self._block_pieces(handle):
                pass
        except Malformed as problem:
            raise wrong(problem.why) from problem

    def read_block(self, handle: Handle) -> bytes:
        """One block that is needed here: checked, and unpacked."""
        if handle.size > MAX_HELD:
            raise Unchecked(f"it has an index of {handle.size} bytes, more than is held here")
        *pieces, packed = self._block_pieces(handle)
        return unpack_block(b"".join(pieces), packed[0])

    def _block_pieces(self, handle: Handle) -> Iterator[bytes]:
        """A block's bytes, at last the byte that says how they are packed. Raises Malformed at the end."""
        left, computed = handle.size, _Sum(self.footer.kind)
        end = handle.offset + left + TRAILER.size
        if end > self.footer.start:
            raise Malformed(f"a block at byte {handle.offset} would lie beyond its end")
        self.stream.seek(handle.offset)
        while left:
            piece = self.stream.read(min(left, PIECE))
            if not piece:
                raise Malformed("it is cut short")
            left -= len(piece)
            computed.update(piece)
            yield piece
        trailer = self.stream.read(TRAILER.size)
        if len(trailer) < TRAILER.size:
            raise Malformed("it is cut short")
        packed, stored = TRAILER.unpack(trailer)
        if (stored - _checksum_modifier(self.footer.context, handle.offset)) & MASK != computed.finish(
            packed
        ):
            raise Malformed(f"the block at byte {handle.offset} does not have its checksum")
        self._note_covered(handle.offset, end)
        yield trailer[:1]

    def named_blocks(self) -> dict[str, Handle]:
        """The metaindex: name -> block."""
        blocks = {}
        for key, value in block_entries(self.read_block(self.footer.metaindex)):
            blocks[key.decode("utf-8", "replace")] = _read_handle(value, 0)[0]
        return blocks

    def read_properties(self, handle: Handle | None) -> dict[str, bytes]:
        if handle is None:
            return {}
        return {
            key.decode("utf-8", "replace"): value for key, value in block_entries(self.read_block(handle))
        }

    def check_blocks(self, index: bytes, properties: dict[str, bytes]) -> None:
        """Check every block that the index names."""
        for handle in self.iterate_blocks(index, properties):
            self.check_block(handle, BlockDamaged)

    def iterate_blocks(self, index: bytes, properties: dict[str, bytes]) -> Iterator[Handle]:
        """Every block that the index names, in their order; of an index in parts the parts' blocks."""
        kind = properties.get("rocksdb.block.based.table.index.type", bytes(4))[:4]
        shape = struct.unpack("<I", kind)[0] if len(kind) == 4 else BINARY
        if shape > WITH_KEY:
            raise Unchecked(f"its index is of an unknown kind, {shape}")
        delta = properties.get("rocksdb.index.value.is.delta.encoded", b"\0")[:1] != b"\0"
        for handle in block_handles(index, delta, first_key=shape == WITH_KEY):
            if shape == PARTITIONED:
                yield from block_handles(self._read_part(handle), delta)
            else:
                yield handle

    def _read_part(self, handle: Handle) -> bytes:
        try:
            return self.read_block(handle)
        except Malformed as problem:
            raise BlockDamaged(problem.why) from problem

    def _note_covered(self, start: int, end: int) -> None:
        if start >= self.reached:
            if start > self.reached:
                self.gaps.append(Handle(self.reached, start - self.reached))
            self.reached = end
        else:
            self.gaps = [rest for gap in self.gaps for rest in _cut_out(gap, start, end)]
        if len(self.gaps) > MAX_GAPS:
            raise Unchecked("its blocks lie in no order that is known here")

    def check_rest(self) -> None:
        """What no block covers must be padding."""
        self._note_covered(self.footer.start, self.footer.start)
        for gap in self.gaps:
            self.stream.seek(gap.offset)
            left = gap.size
            while left:
                piece = self.stream.read(min(left, PIECE))
                if piece.strip(b"\0") or not piece:
                    raise Unchecked(
                        f"{gap.size} bytes from byte {gap.offset} on are named by no index known here"
                    )
                left -= len(piece)


def _cut_out(gap: Handle, start: int, end: int) -> Iterator[Handle]:
    stop = gap.offset + gap.size
    if start >= stop or end <= gap.offset:
        yield gap
        return
    if gap.offset < start:
        yield Handle(gap.offset, start - gap.offset)
    if end < stop:
        yield Handle(end, stop - end)


def unpack_block(data: bytes, packed: int) -> bytes:
    """A block's plain bytes (CompressionType; but for Snappy a varint before them says how many)."""
    if packed == 0:
        return data
    if packed != ZLIB and packed not in CODECS:
        raise Unchecked(f"its index is compressed in a way that is not read here, {packed}")
    size, at = read_varint(data, 0)
    if size > MAX_HELD:
        raise Unchecked(f"it has an index of {size} bytes, more than is held here")
    try:
        if packed == ZLIB:
            plain = zlib.decompressobj(-15).decompress(data[at:], size + 1)
        else:
            import pyarrow as pa  # late, as in blocks.py

            plain = pa.Codec(CODECS[packed]).decompress(
                data[at if packed != SNAPPY else 0 :], size, asbytes=True
            )
    except (OSError, ValueError, zlib.error) as error:
        raise Malformed("a block of its index cannot be unpacked") from error
    if len(plain) != size:
        raise Malformed("a block of its index cannot be unpacked")
    return bytes(plain)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """(value, where it ends) of a number of up to 64 bits."""
    value = 0
    for place in range(10):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at
    raise Malformed("a number in its index is damaged")


def _read_handle(data: bytes, at: int) -> tuple[Handle, int]:
    offset, at = read_varint(data, at)
    size, at = read_varint(data, at)
    return Handle(offset, size), at


def _entries_end(block: bytes) -> int:
    """Where the entries of a block end: after them come restarts and their number."""
    if len(block) < 4:
        raise Malformed("a block of its index is cut short")
    marked = int.from_bytes(block[-4:], "little")
    if marked & SEPARATED:
        raise Unchecked("its index keeps keys and values apart, which is not read here")
    end = len(block) - 4 - 4 * (marked & ~UNIFORM)
    if end < 0:
        raise Malformed("a block of its index is damaged")
    return end


def block_entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of a block whose entries tell the lengths of both."""
    at, end, key = 0, _entries_end(block), b""
    while at < end:
        shared, at = read_varint(block, at)
        own, at = read_varint(block, at)
        length, at = read_varint(block, at)
        if shared > len(key) or at + own + length > end:
            raise Malformed("a block of its index is damaged")
        key = key[:shared] + block[at : at + own]
        at += own
        yield key, block[at : at + length]
        at += length


def block_handles(block: bytes, delta: bool, *, first_key: bool = False) -> Iterator[Handle]:
    """Blocks that an index names. `delta`: values without lengths, known from the block before if a key is shared."""
    at, end, before = 0, _entries_end(block), Handle(0, 0)
    while at < end:
        shared, at = read_varint(block, at)
        own, at = read_varint(block, at)
        length, at = (0, at) if delta else read_varint(block, at)
        at += own
        if delta and shared:
            change, stop = read_varint(block, at)
            size = before.size + (change >> 1 ^ -(change & 1))
            before = Handle(before.offset + before.size + TRAILER.size, size)
        else:
            before, stop = _read_handle(block, at)
        if delta and first_key:
            key, stop = read_varint(block, stop)
            stop += key
        at = stop if delta else at + length
        if at > end or before.size < 0:
            raise Malformed("a block of its index is damaged")
        yield before


def _read_at(stream: Any, start: int, size: int) -> bytes:
    stream.seek(start)
    data: bytes = stream.read(size)
    return data
