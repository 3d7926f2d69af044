"""A file keeps its line ends, whoever edited it and with what."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.workflow.lineends import laid_over, use_unix_line_ends

PATH = "/p/q.py"


@pytest.mark.parametrize(
    ("now", "typed", "then"),
    [
        ("a\r\nb\r\n", "a\nb\n", "a\r\nb\r\n"),
        ("a\r\nb\r\n", "a\r\nb\r\n", "a\r\nb\r\n"),
        ("a\r\nb\r\n", "a\nnew\nb\n", "a\r\nnew\r\nb\r\n"),
        ("a\r\nb\r\n", "a\nb", "a\r\nb"),
        ("a\nb\n", "a\r\nnew\r\nb\r\n", "a\nnew\nb\n"),
        ("a\nb\n", "a\r\nb\r\n", "a\nb\n"),
        ("a\r\nb\nc\r\n", "a\nb\nc\n", "a\r\nb\nc\r\n"),
        ("a\r\nb\nc\r\n", "a\nb\nnew\nc\n", "a\r\nb\nnew\r\nc\r\n"),
        ("a\nb\nc\r\n", "a\nb\nnew\nc\n", "a\nb\nnew\nc\r\n"),
        ("a\nb\r\n", "a\nb", "a\nb"),
        ("", "a\r\n", "a\n"),
        ("no end", "a\r\nb", "a\nb"),
    ],
)
def test_lines_that_nobody_touched_stay_as_they_are(now: str, typed: str, then: str) -> None:
    assert laid_over({PATH: now}, {PATH: typed}) == {PATH: then}


def test_a_file_that_is_not_there_yet_has_unix_line_ends_and_the_others_stay() -> None:
    assert laid_over({PATH: "a\r\n"}, {"/p/new.py": "b\r\n"}) == {PATH: "a\r\n", "/p/new.py": "b\n"}


texts = st.lists(
    st.tuples(st.sampled_from(["a", "b", "", "c = 1"]), st.sampled_from(["\n", "\r\n"])), max_size=8
)


@given(texts, texts)
def test_what_comes_out_is_what_was_typed_but_for_line_ends(
    before: list[tuple[str, str]], after: list[tuple[str, str]]
) -> None:
    now, typed = ("".join(line + end for line, end in lines) for lines in (before, after))
    then = laid_over({PATH: now}, {PATH: typed})[PATH]
    assert use_unix_line_ends(then) == use_unix_line_ends(typed)
    if use_unix_line_ends(now) == use_unix_line_ends(typed):
        assert then == now
