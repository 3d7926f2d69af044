"""A diff applies exactly, or not at all."""

import difflib
import re

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


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("SELECT 1;\n-- old\n", "SELECT 1;\n-- new\n"),
        ("SELECT 1;\n-- DROP\n", "SELECT 1;\n"),
        ("-- old comment\nSELECT 1;\n", "SELECT 1;\n"),
        ("a\n", "a\n++ b\n"),
        ("a\n\x0cb\nc\n", "a\n\x0cb\nd\n"),
    ],
)
def test_lines_that_look_like_headers_are_lines(before: str, after: str) -> None:
    old, new = (re.findall(r"[^\n]*\n", text) for text in (before, after))
    told = "".join(difflib.unified_diff(old, new, "a/p/q.sql", "b/p/q.sql"))
    assert apply_diff(told, {"/p/q.sql": before}) == {"/p/q.sql": after}


def test_a_last_line_without_its_end_stays_so() -> None:
    told = "--- a/p/q.py\n+++ b/p/q.py\n@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n"
    assert apply_diff(told, {"/p/q.py": "a\n"}) == {"/p/q.py": "b"}


@pytest.mark.parametrize("name", ["/p/q.py", "/q.py"])
def test_a_file_is_found_by_its_path_or_a_unique_ending(name: str) -> None:
    assert apply_diff(diff(OLD, "a\nc\nd\n", name), {"/p/q.py": OLD}) == {"/p/q.py": "a\nc\nd\n"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hello", "names no file"),
        (diff(OLD, "x\n", "/other.py"), "no source file"),
        (diff("z\nb\n", "b\n"), "does not apply to /p/q.py at line 1"),
        (diff(OLD, "a\nc\nd\n").rpartition(" d\n")[0], "is cut short"),
        (diff(OLD, "a\nc\nd\n").replace(" c\n", "c\n"), "Line 6 of the diff is not part of its hunk"),
        ("--- a/q.py\n+++ b/q.py\n" + "@@ -1,1 +1,1 @@\n a\n" * 2, "not in order"),
        (f"--- a/q.py\n+++ b/q.py\n@@ -{'9' * 5000},1 +1,1 @@\n a\n", "begins no hunk"),
    ],
)
def test_a_diff_that_does_not_fit_is_refused(text: str, words: str) -> None:
    with pytest.raises(WrongUse, match=words):
        apply_diff(text, {"/p/q.py": OLD})
