"""The diff that people approve shows every changed line, escaped, and points at the cause."""

from hypothesis import given
from hypothesis import strategies as st

from console.presenters import diff
from tests.factories import CODE, OLD_CODE


def test_a_removed_line_stands_with_its_old_number_and_the_rest_keeps_both() -> None:
    found = diff.compare_texts("p.py", OLD_CODE, CODE)

    assert (found.added, found.removed, found.says) == (0, 1, "1 line removed")
    gone = next(r for r in found.rows if r.kind == "del")
    assert (gone.old, gone.new, gone.sign) == (10, None, "−")
    assert "dropDuplicates" in gone.text
    after = [r for r in found.rows if r.kind == "" and r.old and r.old > 10]
    assert [(r.old, r.new) for r in after] == [(11, 10)]


def test_code_cannot_bring_markup_into_the_page() -> None:
    found = diff.compare_texts("p.py", "", 'x = "<script>alert(1)</script>"\n')

    assert "<script>" not in "".join(r.text for r in found.rows)
    assert "&lt;script&gt;" in "".join(r.text for r in found.rows)


def test_the_line_that_is_the_cause_is_pointed_at_with_a_sentence() -> None:
    found = diff.point_at(diff.compare_texts("p.py", OLD_CODE, CODE), OLD_CODE, ["dropDuplicates"], "Gone.")

    assert [r.kind for r in found.rows if r.kind in ("hit", "note")] == ["hit", "note"]


def test_equal_texts_show_the_whole_file() -> None:
    found = diff.compare_texts("p.py", CODE, CODE)

    assert not found.changed
    assert len(found.rows) == len(CODE.splitlines())


def test_changed_files_come_first() -> None:
    found = diff.compare_all({"a.py": "1\n", "b.py": "1\n"}, {"a.py": "1\n", "b.py": "2\n"})

    assert [d.path for d in found] == ["b.py", "a.py"]


@given(st.text(alphabet="ab'\"#\n\t<& ", max_size=60), st.text(alphabet="ab'\"#\n\t<& ", max_size=60))
def test_the_rows_of_a_diff_hold_every_line_that_differs(before: str, after: str) -> None:
    found = diff.compare_texts("p.py", before, after, context=1000)

    old = [r.old for r in found.rows if r.old]
    new = [r.new for r in found.rows if r.new]
    assert old in ([], list(range(1, len(before.splitlines()) + 1))) or before == after
    assert new in ([], list(range(1, len(after.splitlines()) + 1)))
