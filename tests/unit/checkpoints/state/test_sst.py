"""SST files that Spark's RocksDB wrote, and some laid out by hand: every byte that counts is under a checksum."""

import io
import struct
import tarfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.state.checksums import slow_crc32c, slow_xxh32
from recovery.checkpoints.state.sst import BlockDamaged, FilterDamaged, Unchecked, check_sst
from tests.state_checkpoints import FIXTURES

PADDING = range(-47, -12)  # of the footer up to format 5, after two handles of three bytes each


def tables(name: str) -> list[bytes]:
    """Every SST file of a checkpoint that real Spark wrote."""
    with tarfile.open(FIXTURES / f"{name}.tar.xz") as bundle:
        found = [bundle.extractfile(item) for item in bundle if item.name.endswith(".sst")]
        return [file.read() for file in found if file]


def check(data: bytes) -> None:
    check_sst(io.BytesIO(data), len(data))


def flipped(data: bytes, at: int, bit: int = 0) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 1 << bit
    return bytes(changed)


def test_what_spark_wrote_is_whole() -> None:
    count = 0
    for archive in FIXTURES.glob("rocksdb*.tar.xz"):
        for data in tables(archive.name.removesuffix(".tar.xz")):
            check(data)
            count += 1
    assert count > 90


@pytest.mark.parametrize(("name", "version"), [("rocksdb-join-3", 5), ("rocksdb-sst-6", 6)])
def test_every_changed_byte_is_found_or_said_unless_rocksdb_passes_over_it(name: str, version: int) -> None:
    data = max(tables(name), key=len)
    assert data[-12] == version
    unseen = []
    for at in range(len(data)):
        try:
            check(flipped(data, at, at % 8))
        except (Malformed, Unchecked):
            continue
        unseen.append(at - len(data))
    assert set(unseen) <= (set(PADDING) | {-12} if version == 5 else set())


def test_every_cut_is_found() -> None:
    data = tables("rocksdb-dedupe")[0]
    for size in range(len(data)):
        with pytest.raises(Malformed):
            check(data[:size])


@pytest.mark.parametrize(
    ("at", "wrong"),
    [(10, BlockDamaged), (60, FilterDamaged), (115, Malformed), (500, Malformed), (1100, Malformed)],
    ids=["keys and values", "filter", "index", "properties", "metaindex"],
)
def test_what_rocksdb_would_do_is_told_by_the_kind_of_block(at: int, wrong: type[Malformed]) -> None:
    data = next(d for d in tables("rocksdb-dedupe") if len(d) == 1203)
    with pytest.raises(Malformed) as told:
        check(flipped(data, at))
    assert type(told.value) is wrong


def test_the_gravest_of_several_damages_is_told() -> None:
    data = next(d for d in tables("rocksdb-dedupe") if len(d) == 1203)
    with pytest.raises(BlockDamaged):
        check(flipped(flipped(data, 60), 10))
    with pytest.raises(Malformed) as told:
        check(flipped(flipped(flipped(data, 60), 10), 500))
    assert type(told.value) is Malformed


# ---- files laid out by hand, by RocksDB's description


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def handle(place: tuple[int, int]) -> bytes:
    return varint(place[0]) + varint(place[1])


def block(entries: list[bytes], restarts: int = 1) -> bytes:
    return b"".join(entries) + bytes(4 * restarts) + struct.pack("<I", restarts)


def entry(key: bytes, value: bytes) -> bytes:
    return b"\0" + varint(len(key)) + varint(len(value)) + key + value


def crc(data: bytes) -> int:
    value = slow_crc32c(0, data)
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF


def xxh32(data: bytes) -> int:
    return slow_xxh32(data, 0)


@dataclass
class Laid:
    """Blocks one after the other, each with the trailer that `kind` asks for."""

    kind: int = 1
    sum: Callable[[bytes], int] = crc
    data: bytes = b""

    def put(self, body: bytes) -> tuple[int, int]:
        place = (len(self.data), len(body))
        self.data += body + b"\0" + struct.pack("<I", self.sum(body + b"\0"))
        return place

    def end(self, index: tuple[int, int], version: int = 5, **properties: bytes) -> bytes:
        named = [entry(b"rocksdb." + k.replace("__", ".").encode(), v) for k, v in properties.items()]
        told = self.put(block(named))
        meta = self.put(block([entry(b"rocksdb.properties", handle(told))]))
        middle = (handle(meta) + handle(index)).ljust(40, b"\0")
        return self.data + bytes([self.kind]) + middle + struct.pack("<IQ", version, 0x88E241B785F4CFF7)


BODIES = [b"first" * 3, b"second block, longer than the first", b"", b"x" * 300]


def plain_index(places: list[tuple[int, int]]) -> bytes:
    return block([entry(b"k%d" % n, handle(p)) for n, p in enumerate(places)])


def delta_index(places: list[tuple[int, int]], first_key: bytes = b"") -> bytes:
    """Format 4: values without lengths; after the first of a restart the difference of sizes, zigzag."""
    tail = varint(len(first_key)) + first_key if first_key else b""
    out = [b"\0" + varint(2) + b"k0" + handle(places[0]) + tail]
    for n, (old, new) in enumerate(pairwise(places), start=1):
        change = new[1] - old[1]
        out.append(
            b"\1" + varint(1) + b"%d" % n + varint(change << 1 if change >= 0 else -change * 2 - 1) + tail
        )
    return block(out)


def laid(kind: int, compute: Callable[[bytes], int], shape: str) -> bytes:
    table = Laid(kind, compute)
    places = [table.put(body) for body in BODIES]
    if shape == "plain":
        return table.end(table.put(plain_index(places)), 3)
    delta = {"index__value__is__delta__encoded": b"\1"}
    if shape == "delta":
        return table.end(table.put(delta_index(places)), **delta)
    if shape == "first key":
        words = delta | {"block__based__table__index__type": struct.pack("<I", 3)}
        return table.end(table.put(delta_index(places, b"first")), **words)
    parts = [table.put(delta_index(places[:2])), table.put(delta_index(places[2:]))]
    words = delta | {"block__based__table__index__type": struct.pack("<I", 2)}
    return table.end(table.put(delta_index(parts)), **words)


@pytest.mark.parametrize("shape", ["plain", "delta", "first key", "parts"])
@pytest.mark.parametrize(("kind", "compute"), [(1, crc), (2, xxh32)], ids=["crc32c", "xxh32"])
def test_every_shape_of_index_leads_to_every_block(
    kind: int, compute: Callable[[bytes], int], shape: str
) -> None:
    data = laid(kind, compute, shape)
    check(data)
    for at in range(len(data) - 53):
        with pytest.raises((Malformed, Unchecked)):
            check(flipped(data, at))


def test_bytes_that_no_index_names_are_said_unless_they_are_padding() -> None:
    for filling, sound in ((bytes(7), True), (b"unnamed", False)):
        table = Laid()
        places = [table.put(BODIES[0])]
        table.data += filling
        places.append(table.put(BODIES[1]))
        data = table.end(table.put(plain_index(places)))
        if sound:
            check(data)
        else:
            with pytest.raises(Unchecked, match="named by no index"):
                check(data)


@pytest.mark.parametrize(
    ("at", "value", "says"),
    [(-53, 0, "carry no checksums"), (-53, 9, "unknown kind, 9"), (-12, 8, "format 8"), (-12, 1, "format 1")],
)
def test_what_is_not_known_is_said_and_not_guessed(at: int, value: int, says: str) -> None:
    data = bytearray(laid(1, crc, "plain"))
    data[at] = value
    with pytest.raises(Unchecked, match=says):
        check(bytes(data))


@pytest.mark.parametrize(
    "index",
    [
        [(2**63, 5)],
        [(0, 2**62)],
        [(10**6, 0)],
        [(0, 15), (3, 2**35)],
    ],
)
def test_places_outside_the_file_are_damage(index: list[tuple[int, int]]) -> None:
    table = Laid()
    table.put(BODIES[0])
    with pytest.raises(Malformed):
        check(table.end(table.put(plain_index(index))))


def test_an_index_that_unpacks_to_more_than_is_held_is_said() -> None:
    table = Laid()
    body = varint(1 << 40) + b"\0" * 20
    place = (len(table.data), len(body))
    table.data += body + b"\4" + struct.pack("<I", crc(body + b"\4"))
    with pytest.raises(Unchecked, match="more than is held"):
        check(table.end(place))


def pieces() -> Iterator[bytes]:
    yield from (laid(1, crc, shape) for shape in ("plain", "delta", "parts"))


@settings(max_examples=300, deadline=None)
@given(
    base=st.sampled_from(list(pieces())),
    changes=st.lists(st.tuples(st.integers(0, 2000), st.binary(max_size=6)), max_size=4),
    tail=st.binary(max_size=40),
)
def test_no_bytes_are_too_odd(base: bytes, changes: list[tuple[int, bytes]], tail: bytes) -> None:
    data = bytearray(base)
    for at, new in changes:
        at %= len(data)
        data[at : at + len(new)] = new
    data[-53 + 1 : -53 + 1 + len(tail)] = tail[:40]
    with suppress(Malformed, Unchecked):
        check(bytes(data))


@settings(max_examples=200, deadline=None)
@given(index=st.binary(max_size=60), delta=st.booleans(), kind=st.integers(0, 4))
def test_no_index_is_too_odd(index: bytes, delta: bool, kind: int) -> None:
    table = Laid()
    table.put(BODIES[0])
    words = {
        "index__value__is__delta__encoded": bytes([delta]),
        "block__based__table__index__type": struct.pack("<I", kind),
    }
    with suppress(Malformed, Unchecked):
        check(table.end(table.put(index), **words))
