"""JSON of others is read within a number of values, counted before any of them is made."""

import tracemalloc

import pytest

from recovery.bounded import TooMany, read_json

PLAIN = [
    (b'{"a": [1, 2, {"b": null}]}', {"a": [1, 2, {"b": None}]}),
    (b'"' + b"," * 100 + b'"', "," * 100),
    (b'{"code": "x, [y], {z: \\", \\\\"}', {"code": 'x, [y], {z: ", \\'}),
    (b"7", 7),
]


@pytest.mark.parametrize(("text", "value"), PLAIN)
def test_marks_in_texts_are_no_values(text: bytes, value: object) -> None:
    assert read_json(text, most=10) == value


@pytest.mark.parametrize(
    "text", [b"[" + b"{}," * 10 + b"{}]", b"[" * 11, b'{"a":' * 11, b"[" + b"1," * 10 + b"1]"]
)
def test_more_values_than_may_be_are_refused(text: bytes) -> None:
    with pytest.raises(TooMany):
        read_json(text, most=10)


@pytest.mark.parametrize("text", [b"", b"no", b"[" * 200_000, b"\xff", b'{"a": 1}\0'])
def test_what_is_no_json_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        read_json(text)
    assert not isinstance(refused.value, TooMany)


def test_the_refusal_of_many_values_takes_no_more_memory_than_the_text() -> None:
    text = b"[" + b"{}," * 700_000 + b"{}]"
    tracemalloc.start()
    with pytest.raises(TooMany):
        read_json(text, most=1000)
    assert tracemalloc.get_traced_memory()[1] < 2 * len(text)
    tracemalloc.stop()
