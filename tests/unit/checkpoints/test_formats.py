"""Parsers and the arithmetic of compacted logs, for whatever bytes come."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.checkpoints import formats
from recovery.checkpoints.filelog import (
    compact_interval,
    derive_interval,
    is_log_readable,
    needed_entries,
    parse_sink,
    parse_source,
)
from recovery.checkpoints.state.metadata import parse_metadata
from recovery.checkpoints.state.schema import parse_schema

PARSERS = [
    formats.parse_metadata,
    formats.parse_offsets,
    formats.parse_commit,
    parse_metadata,
    parse_schema,
    parse_source,
    parse_sink,
]
LINES = st.lists(
    st.one_of(
        st.sampled_from(
            ["v1", "v2", "-", "", "0:{}", '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":[]}']
        ),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=8),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(
                        [
                            "path",
                            "timestamp",
                            "batchId",
                            "id",
                            "conf",
                            "nextBatchWatermarkMs",
                            "stateUniqueIds",
                            "operatorInfo",
                            "stateStoreInfo",
                            "size",
                            "modificationTime",
                        ]
                    ),
                    inner,
                    max_size=4,
                )
            ),
            max_leaves=8,
        ).map(json.dumps),
        st.text(max_size=20),
    ),
    max_size=5,
).map(lambda lines: "\n".join(lines).encode("utf-8", "surrogatepass"))


@settings(max_examples=200, deadline=None)
@given(data=st.one_of(st.binary(max_size=200), LINES))
def test_a_parser_answers_or_says_malformed(data: bytes) -> None:
    for parser in PARSERS:
        reasons = []
        try:
            parser(data)  # type: ignore[operator]
        except formats.Malformed as problem:
            reasons.append(problem.why)
        assert all(reasons)


@pytest.mark.parametrize(
    ("default", "latest", "expected"),
    [(10, 9, 10), (10, 2, 3), (10, 19, 20), (10, 29, 10), (10, 21, 11), (3, 9, 5), (10, 28, 29)],
)
def test_the_interval_is_derived_as_spark_derives_it(default: int, latest: int, expected: int) -> None:
    assert derive_interval(default, latest) == expected


def test_the_interval_follows_from_the_two_newest_compacted_entries() -> None:
    assert compact_interval({11: "11.compact", 23: "23.compact", 24: "24"}) == 12
    assert compact_interval({0: "0"}, 7) == 7


def test_a_log_is_readable_when_spark_finds_every_name_it_asks_for() -> None:
    singles = {n: str(n) for n in range(11)}
    assert is_log_readable(singles, 12)
    assert not is_log_readable(singles, 10)
    assert is_log_readable({10: "10.compact"}, 10)
    assert is_log_readable({10: "10.compact"}, 3)
    assert not is_log_readable({5: "5", 7: "7"}, 10)


def test_a_gap_of_a_billion_entries_is_answered_at_once() -> None:
    present, missing = needed_entries({0: "0", 10**9: str(10**9)})
    assert present == [0, 10**9]
    assert len(missing) == 1000


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a":1,"a":2}', "twice"),
        ('[{"b":{"a":1,"a":1}}]', "twice"),
        ('"\\udc00"', "half of a character"),
        ("[" * 100_000, "not JSON"),
        ("1" * 5000, "not JSON"),
        ('{"a":', "cut short"),
    ],
)
def test_json_that_readers_take_differently_is_malformed(text: str, why: str) -> None:
    with pytest.raises(formats.Malformed, match=why):
        formats.json_of(text)


@pytest.mark.parametrize("key", ["..", ".", "../../x", "/etc", "a\0b"])
def test_a_source_cannot_be_named_so_that_its_log_lies_elsewhere(key: str) -> None:
    data = f'v2\n{{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{{}}}}\n{key}:{{"logOffset":1}}'
    with pytest.raises(formats.Malformed, match="cannot be a directory"):
        formats.parse_offsets(data.encode())
