"""A diff applies exactly, or not at all."""

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.errors import WrongUse
from recovery.workflow.patching import apply_diff

OLD = "a\nb\nc\nd\n"
LINES = st.lists(st.sampled_from(["a\n", "b\n", "c = 1\n", "\n", "  x\n"]), min_size=1, max_size=12)


def diff(old: str, new: str, name: str = "/p/q.py") -> str:
    return "".join(difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"a{name}", f"b{name}"))


@given(LINES, LINES)
def test_what_a_diff_says_is_what_comes_out(old: list[str], new: list[str]) -> None:
    before, after = "".join(old), "".join(new)
    if before != after:
        assert apply_diff(diff(before, after), {"/p/q.py": before}) == {"/p/q.py": after}


@pytest.mark.parametrize("name", ["/p/q.py", "/q.py"])
def test_a_file_is_found_by_its_path_or_a_unique_ending(name: str) -> None:
    assert apply_diff(diff(OLD, "a\nc\nd\n", name), {"/p/q.py": OLD}) == {"/p/q.py": "a\nc\nd\n"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hello", "names no file"),
        (diff(OLD, "x\n", "/other.py"), "no source file"),
        (diff("z\nb\n", "b\n"), "does not apply to /p/q.py at line 1"),
    ],
)
def test_a_diff_that_does_not_fit_is_refused(text: str, words: str) -> None:
    with pytest.raises(WrongUse, match=words):
        apply_diff(text, {"/p/q.py": OLD})
