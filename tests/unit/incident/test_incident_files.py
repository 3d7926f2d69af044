"""The incident's files and source: the numbers that the guide tells, and the one line that breaks the flow."""

import ast
import difflib
from pathlib import Path

import pytest

from console.incident.data import make_arrivals
from console.incident.definition import Variant, write_definition
from console.incident.making import put_files


def test_the_demo_has_the_numbers_that_the_guide_tells() -> None:
    coming = make_arrivals()

    changes = [f for batch in coming.good for f in batch if f.folder == "changes"]
    assert [sum(len(f.records) for f in b if f.folder == "changes") for b in coming.good] == [5, 4, 4]
    assert (len(changes), len(coming.processed()), len(coming.snapshot())) == (4, 13, 9)
    assert (len(coming.waiting), sum(len(f.records) for f in coming.waiting)) == (3, 8)
    assert len(coming.expected()) == 20


@pytest.mark.parametrize("batches", [2, 3, 25])
@pytest.mark.parametrize("sources", [1, 2])
def test_exactly_one_record_is_a_repeat_of_an_earlier_batch(batches: int, sources: int) -> None:
    coming = make_arrivals(batches=batches, sources=sources)

    numbers = [r["sequence_num"] for r in coming.processed()]
    repeats = [n for n in set(numbers) if numbers.count(n) == 2]
    assert repeats == [2]
    assert len(coming.expected()) == len(numbers) - 1 + 8
    assert sorted(r["sequence_num"] for r in coming.expected()) == list(range(1, len(coming.expected()) + 1))


def test_every_branch_of_a_union_gets_a_file_in_every_batch() -> None:
    coming = make_arrivals(batches=25, sources=2)

    for batch in [*coming.good, coming.waiting]:
        assert {f.folder for f in batch} - {"snapshot"} == {"changes_1", "changes_2"}


@pytest.mark.parametrize("explicit", [True, False])
@pytest.mark.parametrize("sources", [1, 2])
def test_the_edit_takes_out_one_line_and_nothing_else(explicit: bool, sources: int) -> None:
    variant = Variant("orders", explicit, sources)
    good, edited = (write_definition(variant, "file:/in", deduplicate=wanted) for wanted in (True, False))

    difference = [
        line for line in difflib.ndiff(good.splitlines(), edited.splitlines()) if line.startswith(("+", "-"))
    ]
    ast.parse(edited)
    assert [line.split() for line in difference] == [
        ["-", '.dropDuplicates(["customer_id",', '"sequence_num"])']
    ]


def test_a_later_file_has_a_later_time_and_a_file_that_arrived_is_left_alone(tmp_path: Path) -> None:
    coming = make_arrivals()
    for files in [*coming.good, coming.waiting]:
        put_files(files, tmp_path)
    times = {p.name: p.stat().st_mtime_ns for p in tmp_path.glob("*/*.json")}
    put_files(coming.good[0], tmp_path)

    in_order = [f.name for files in [*coming.good, coming.waiting] for f in files]
    milliseconds = [times[name] // 1_000_000 for name in in_order]
    assert milliseconds == sorted(set(milliseconds))
    assert {p.name: p.stat().st_mtime_ns for p in tmp_path.glob("*/*.json")} == times


def test_files_never_arrive_through_a_link(tmp_path: Path) -> None:
    first = make_arrivals().good[0]
    (tmp_path / "ours").mkdir()
    (tmp_path / "incident/customers").mkdir(parents=True)
    (tmp_path / "incident/customers/changes").symlink_to(tmp_path / "ours")

    with pytest.raises(NotADirectoryError):
        put_files(first, tmp_path / "incident/customers")

    assert list((tmp_path / "ours").iterdir()) == []
