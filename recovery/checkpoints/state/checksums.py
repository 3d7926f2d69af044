"""CRC32C and XXH32: of the packages that compute them at memory speed, or, without those, table by table."""

import struct
from collections.abc import Callable
from typing import Any

MASK = 0xFFFFFFFF
P1, P2, P3, P4, P5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1


def _build_crc_table() -> list[int]:
    table = []
    for n in range(256):
        value = n
        for _ in range(8):
            value = value >> 1 ^ 0x82F63B78 if value & 1 else value >> 1  # Castagnoli, reflected
        table.append(value)
    return table


TABLE = _build_crc_table()


def slow_crc32c(crc: int, data: bytes) -> int:
    """CRC32C of `data` after what gave `crc` (0 at the start)."""
    crc ^= MASK
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ MASK


def _rotate_left(value: int, by: int) -> int:
    return (value << by | value >> (32 - by)) & MASK


def slow_xxh32(data: bytes, seed: int) -> int:
    """XXH32 of `data` (its reference: xxHash specification, 0.1.1)."""
    size, at = len(data), len(data) & ~15
    if size >= 16:
        lanes = [(seed + P1 + P2) & MASK, (seed + P2) & MASK, seed, (seed - P1) & MASK]
        for words in struct.iter_unpack("<4I", memoryview(data)[:at]):
            lanes = [
                _rotate_left((v + w * P2) & MASK, 13) * P1 & MASK for v, w in zip(lanes, words, strict=True)
            ]
        value = sum(_rotate_left(v, by) for v, by in zip(lanes, (1, 7, 12, 18), strict=True))
    else:
        value = seed + P5
    value = (value + size) & MASK
    rest = data[at:]
    whole = len(rest) & ~3
    for (word,) in struct.iter_unpack("<I", rest[:whole]):
        value = _rotate_left((value + word * P3) & MASK, 17) * P4 & MASK
    for byte in rest[whole:]:
        value = _rotate_left((value + byte * P5) & MASK, 11) * P1 & MASK
    value = (value ^ value >> 15) * P2 & MASK
    value = (value ^ value >> 13) * P3 & MASK
    return value ^ value >> 16


def _fast_crc32c() -> Callable[[int, bytes], int]:
    try:
        from google_crc32c import extend, implementation
    except ImportError:
        return slow_crc32c
    function: Callable[[int, bytes], int] = extend
    return function if implementation == "c" else slow_crc32c


def _fast_xxh32() -> Callable[[bytes, int], int]:
    try:
        import xxhash
    except ImportError:
        return slow_xxh32
    digest: Any = xxhash.xxh32_intdigest
    return lambda data, seed: int(digest(data, seed))


crc32c = _fast_crc32c()
xxh32 = _fast_xxh32()
