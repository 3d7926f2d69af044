"""Parsers of state files, byte by byte: every cut and every flipped bit is either found or harmless."""

import io
import json
import random
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.state import checksums
from recovery.checkpoints.state.blocks import UnknownCodec, plain_blocks
from recovery.checkpoints.state.checksums import crc32c, slow_crc32c, slow_xxh32, xxh32
from recovery.checkpoints.state.metadata import parse_metadata
from recovery.checkpoints.state.names import parse_name
from recovery.checkpoints.state.records import check_records
from recovery.checkpoints.state.rocksdb import parse_lineage, parse_snapshot
from recovery.checkpoints.state.schema import parse_schema, type_name
from tests.checkpoint_builder import lz4_blocks, utf
from tests.state_checkpoints import unpack

END = b"\xff\xff\xff\xff"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints of several layouts, side by side."""
    root = tmp_path_factory.mktemp("real")
    for name in ("hdfs-dedupe", "hdfs-zstd", "rocksdb-2", "rocksdb-2-changelog", "rocksdb-2-transform",
                 "rocksdb-changelog-join-3", "rocksdb-transform"):  # fmt: skip
        unpack(name, root / name)
    return root


def follow(data: bytes, *, changelog: bool = False) -> None:
    check_records(plain_blocks(io.BytesIO(data)), changelog=changelog)


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("1.delta", (1, None, "delta")),
        ("12.snapshot", (12, None, "snapshot")),
        ("7.zip", (7, None, "zip")),
        (
            "7_1cf99c86-04c9-42a7-ae52-1cb1b4adf8e1.changelog",
            (7, "1cf99c86-04c9-42a7-ae52-1cb1b4adf8e1", "changelog"),
        ),
        ("0.delta", None),
        ("01.delta", None),
        ("1.delta.tmp", None),
        (".1.delta.crc", None),
        ("1_x.zip", None),
        ("1.parquet", None),
        ("٣.delta", None),
    ],
)
def test_names_of_state_files(name: str, parsed: object) -> None:
    assert parse_name(name) == parsed


@pytest.mark.parametrize("compute", [crc32c, slow_crc32c])
def test_crc32c_has_the_value_that_its_standard_gives(compute: Callable[[int, bytes], int]) -> None:
    assert compute(0, b"123456789") == 0xE3069283
    assert compute(0, bytes(32)) == 0x8A9136AA
    assert compute(compute(0, b"12345"), b"6789") == 0xE3069283


@pytest.mark.parametrize("compute", [xxh32, slow_xxh32])
@pytest.mark.parametrize(
    ("data", "seed", "value"),
    [
        (b"", 0, 0x02CC5D05),
        (b"a", 0, 0x550D7456),
        (b"abc", 0, 0x32D153FF),
        (b"Nobody inspects the spammish repetition", 0, 0xE2293B2F),
    ],
)
def test_xxh32_has_the_values_that_are_published(
    compute: Callable[[bytes, int], int], data: bytes, seed: int, value: int
) -> None:
    assert compute(data, seed) == value


@given(data=st.binary(max_size=200), seed=st.integers(0, 2**32 - 1))
def test_both_ways_of_computing_agree(data: bytes, seed: int) -> None:
    assert checksums.xxh32(data, seed) == slow_xxh32(data, seed)
    assert checksums.crc32c(seed, data) == slow_crc32c(seed, data)


CUTS = [
    ("hdfs-dedupe", "state/0/0/4.delta", False, 21),
    ("hdfs-zstd", "state/0/0/4.delta", False, 3),
    ("rocksdb-2-changelog", "state/0/0/4_*.changelog", True, 21),
    ("rocksdb-2-transform", "state/0/0/4_*.changelog", True, 21),
    ("rocksdb-changelog-join-3", "state/0/0/5.changelog", True, 21),
]


@pytest.mark.parametrize(("case", "file", "changelog", "tail"), CUTS)
def test_every_cut_is_found_but_that_of_the_end_which_spark_does_not_read_either(
    real: Path, case: str, file: str, changelog: bool, tail: int
) -> None:
    data = next((real / case).glob(file)).read_bytes()
    follow(data, changelog=changelog)
    for size in range(len(data) - tail):
        with pytest.raises((Malformed, UnknownCodec)):
            follow(data[:size], changelog=changelog)


@pytest.mark.parametrize(("case", "file", "changelog"), [c[:3] for c in CUTS if c[0] != "hdfs-zstd"])
def test_every_flipped_bit_of_an_lz4_stream_is_found_or_changes_nothing(
    real: Path, case: str, file: str, changelog: bool
) -> None:
    data = next((real / case).glob(file)).read_bytes()
    whole = b"".join(plain_blocks(io.BytesIO(data)))
    unseen = 0
    for at in range(len(data) - 21):  # the empty block at the end is not read
        for bit in range(8):
            changed = bytearray(data)
            changed[at] ^= 1 << bit
            try:
                follow(bytes(changed), changelog=changelog)
            except (Malformed, UnknownCodec):
                continue
            unseen += 1  # another way to write the same: a copy out of a row of zeros, a larger block size
            assert b"".join(plain_blocks(io.BytesIO(bytes(changed)))) == whole
    assert unseen < 8 * len(data) / 10


@pytest.mark.parametrize(
    ("blocks", "changelog", "why"),
    [
        ([END], False, None),
        ([b"\0\0\0\1k\0\0\0\2va" + END], False, None),
        ([b"\0\0\0\1k\xff\xff\xff\xff" + END], False, None),  # a removed key
        ([b"\0\0", b"\0\1k\0\0\0\2v", b"a" + END], False, None),  # records over the edges of blocks
        ([b"\0\0\0\1k\xff\xff\xff\xfe" + END], False, "negative"),
        ([b"\xff\xff\xff\xfe" + END], False, "negative"),
        ([b"\0\0\0\x7fk" + END], False, "cut short"),
        ([], False, "cut short"),
        (
            [utf("v2") + b"\1\0\0\0\1k\0\0\0\1v\x10\0\0\0\1k\xff\xff\xff\xff\x11\0\0\0\0\0\0\0\0\0"],
            True,
            None,
        ),
        ([utf("v2") + b"\7\0\0\0\1k"], True, "unknown kind"),
        ([utf("v3") + utf("[]") + END], True, None),
        ([utf("v4") + utf("[]") + b"\0"], True, None),
        ([utf("v5") + END], True, "format v5"),
        ([END], True, None),  # v1 has no version line
    ],
)
def test_records_are_followed_to_their_end(blocks: list[bytes], changelog: bool, why: str | None) -> None:
    data = lz4_blocks(*blocks)
    if why is None:
        follow(data, changelog=changelog)
        return
    with pytest.raises(Malformed, match=why):
        follow(data, changelog=changelog)


def test_a_value_of_two_gigabytes_that_is_not_there_costs_nothing() -> None:
    with pytest.raises(Malformed, match="cut short"):
        follow(lz4_blocks(b"\0\0\0\1k\x7f\xff\xff\xff" + b"v" * 1000))


def test_another_compression_is_not_called_damage() -> None:
    with pytest.raises(UnknownCodec):
        follow(b"\x82SNAPPY\0\0\0\0\1\0\0\0\1")


@pytest.mark.parametrize("version", ["v1", "v2", "v3", "v4", "v9"])
def test_the_lineage_of_a_changelog(version: str) -> None:
    lineage = '[{"version":1,"checkpointUniqueId":"a"},{"version":2,"checkpointUniqueId":"b"}]'
    data = lz4_blocks(utf(version) + utf(lineage) + END)
    if version in ("v3", "v4"):
        assert parse_lineage(io.BytesIO(data)) == ((1, "a"), (2, "b"))
        return
    with pytest.raises(Malformed) as caught:
        parse_lineage(io.BytesIO(data))
    assert caught.value.newer == ("v9" if version == "v9" else None)


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Cut, changed, doubled or mixed up somewhere."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(out) + 1)
        how = rng.randrange(4)
        if how == 0 and out:
            out[at % len(out)] = rng.randrange(256)
        elif how == 1:
            del out[at : at + rng.randint(1, 40)]
        elif how == 2:
            out[at:at] = rng.choice([b"\0\0", b"\xff" * 4, b"{", b'"', b"v3", rng.randbytes(8)])
        else:
            out = out[:at]
    return bytes(out)


@pytest.mark.parametrize(
    ("case", "file", "parse"),
    [
        ("hdfs-dedupe", "state/0/_metadata/metadata", parse_metadata),
        ("rocksdb-transform", "state/0/_metadata/v2/0", parse_metadata),
        ("hdfs-dedupe", "state/0/0/_metadata/schema", parse_schema),
        ("rocksdb-transform", "state/0/_stateSchema/default/0_*", parse_schema),
        ("rocksdb-2", "state/0/0/4_*.zip", lambda data: parse_snapshot(io.BytesIO(data))),
        ("rocksdb-2-changelog", "state/0/0/4_*.changelog", lambda data: parse_lineage(io.BytesIO(data))),
        ("hdfs-dedupe", "state/0/0/4.delta", follow),
        ("hdfs-zstd", "state/0/0/4.delta", follow),
        ("rocksdb-2-transform", "state/0/0/4_*.changelog", lambda data: follow(data, changelog=True)),
    ],
)
def test_whatever_became_of_a_file_a_parser_answers_or_says_why_not(
    real: Path, case: str, file: str, parse: Callable[[bytes], object]
) -> None:
    data = next((real / case).glob(file)).read_bytes()
    parse(data)
    rng = random.Random(7)
    for _ in range(600):
        with suppress(Malformed, UnknownCodec):
            parse(damaged(data, rng))


@given(data=st.binary(max_size=300))
def test_any_bytes_are_answered(data: bytes) -> None:
    for parse in (parse_metadata, parse_schema, lambda d: parse_snapshot(io.BytesIO(d)), follow):
        reasons = []
        try:
            parse(data)  # type: ignore[operator]
        except Malformed as problem:
            reasons.append(problem.why)
        except UnknownCodec:
            reasons.append("codec")
        assert all(reasons)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("long", "bigint"),
        ("decimal(10,2)", "decimal(10,2)"),
        ({"type": "array", "elementType": "integer", "containsNull": True}, "array<int>"),
        ({"type": "map", "keyType": "string", "valueType": "byte"}, "map<string,tinyint>"),
        ({"type": "struct", "fields": [{"name": "a", "type": "short"}]}, "struct<a:smallint>"),
        ({"type": "udt", "class": "x"}, "udt"),
        (None, "unknown"),
    ],
)
def test_types_are_named_as_in_sql(kind: object, name: str) -> None:
    assert type_name(kind) == name


def java_utf(text: str) -> bytes:
    """As Java's writeUTF: UTF-16 units, each in at most three bytes."""
    units = text.encode("utf-16-be", "surrogatepass")
    halves = "".join(chr(int.from_bytes(units[at : at + 2], "big")) for at in range(0, len(units), 2))
    data = halves.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")
    return struct.pack(">H", len(data)) + data


def chunks(text: str, size: int = 10_000) -> bytes:
    """As SchemaHelper.SchemaWriter: a count, then pieces."""
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    return struct.pack(">i", len(pieces)) + b"".join(java_utf(piece) for piece in pieces)


def struct_of(*names: str) -> str:
    fields = [{"name": n, "type": "string", "nullable": True, "metadata": {}} for n in names]
    return json.dumps({"type": "struct", "fields": fields}, ensure_ascii=False)


SIGNS, EARLY = "key 🐟 é", "v3 of builds before 4.0"
SCHEMAS = {
    "v1, Spark 3.1": java_utf("v1") + java_utf(struct_of(SIGNS)) + java_utf(struct_of("value")),
    "v2": java_utf("v2") + chunks(struct_of(SIGNS)) + chunks(struct_of("value")),
    "v3": java_utf("v3")
    + struct.pack(">i", 1)
    + java_utf("default")
    + b"\0\0"
    + chunks(struct_of(SIGNS))
    + b"\0\0"
    + chunks(struct_of("value"))
    + chunks("{}") * 2,
    EARLY: java_utf("v3")
    + struct.pack(">i", 1)
    + java_utf("default")
    + chunks(struct_of(SIGNS))
    + chunks(struct_of("value"))
    + chunks("{}") * 2,
}


@pytest.mark.parametrize("form", SCHEMAS)
def test_every_form_of_a_state_schema_is_read_whatever_its_letters(form: str) -> None:
    (one,) = parse_schema(SCHEMAS[form], early=form == EARLY)
    assert ([c.name for c in one.key], [c.name for c in one.value]) == ([SIGNS], ["value"])


@pytest.mark.parametrize("form", SCHEMAS)
def test_a_state_schema_that_is_cut_short_is_said_to_be(form: str) -> None:
    for size in range(1, len(SCHEMAS[form])):
        with pytest.raises(Malformed):
            parse_schema(SCHEMAS[form][:size], early=form == EARLY)


def test_a_schema_of_builds_before_4_is_one_where_the_metadata_is_theirs_too() -> None:
    with pytest.raises(Malformed):
        parse_schema(SCHEMAS[EARLY])


def test_a_schema_file_of_builds_before_4_is_named_in_the_singular() -> None:
    store = {
        "storeName": "default",
        "numColsPrefixKey": 0,
        "numPartitions": 5,
        "stateSchemaFilePath": "file:/a/b",
    }
    body = {"operatorInfo": {"operatorId": 0, "operatorName": "x"}, "stateStoreInfo": [store]}
    (info,) = parse_metadata(b"v2\n" + json.dumps(body).encode()).stores
    assert (info.schema_paths, info.early) == (("file:/a/b",), True)
