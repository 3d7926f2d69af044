"""What waits is cut into the batches that a stream makes of it."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.sources import batches
from recovery.sources.input_ranges import InputRange

FILES = InputRange("files", files=("a", "b", "c", "d", "e"))
DELTA = InputRange("delta", versions=((3, ("a", "b")), (4, ("c",)), (6, ("d", "e"))))
KAFKA = InputRange("kafka", start={"t": {"0": 10, "1": 0}}, end={"t": {"0": 40, "1": 10}})


def kafka(*offsets: tuple[int, int]) -> InputRange:
    """(partition 0, partition 1) from and to."""
    start, end = ({"t": {"0": p0, "1": p1}} for p0, p1 in offsets)
    return InputRange("kafka", start=start, end=end)


CASES = {
    "no limit": (FILES, {}, (FILES,)),
    "files": (
        FILES,
        {"MaxFilesPerTrigger": "2"},
        (
            InputRange("files", files=("a", "b")),
            InputRange("files", files=("c", "d")),
            InputRange("files", files=("e",)),
        ),
    ),
    "more than there are": (FILES, {"maxFilesPerTrigger": "9"}, (FILES,)),
    "another kind's limit": (FILES, {"maxOffsetsPerTrigger": "1"}, (FILES,)),
    "Delta, across versions": (
        DELTA,
        {"maxFilesPerTrigger": "2"},
        (
            InputRange("delta", versions=((3, ("a", "b")),)),
            InputRange("delta", versions=((4, ("c",)), (6, ("d",)))),
            InputRange("delta", versions=((6, ("e",)),)),
        ),
    ),
    # 20 of 40: three quarters are left in partition 0; then 20 of the 20 that are left
    "Kafka, by what is left": (
        KAFKA,
        {"maxOffsetsPerTrigger": "20"},
        (kafka((10, 0), (25, 5)), kafka((25, 5), (40, 10))),
    ),
    "Kafka, a share below one": (
        kafka((0, 0), (9, 1)),
        {"maxOffsetsPerTrigger": "5"},
        (kafka((0, 0), (4, 1)), kafka((4, 1), (9, 1))),
    ),
    "nothing waits": (InputRange("files"), {"maxFilesPerTrigger": "1"}, ()),
    "nothing waits in a topic": (kafka((7, 7), (7, 7)), {}, ()),
}


@pytest.mark.parametrize(("waits", "options", "cuts"), CASES.values(), ids=CASES.keys())
def test_the_reader_s_limit_cuts_what_waits(
    waits: InputRange, options: dict[str, str], cuts: tuple[InputRange, ...]
) -> None:
    assert batches.split_batches(waits, options) == batches.BatchCuts(cuts)


def test_a_delta_table_gives_a_thousand_files_at_a_time_unless_told_otherwise() -> None:
    paths = tuple(map(str, range(1500)))
    found = batches.split_batches(InputRange("delta", versions=((1, paths),)), {})
    assert [len(cut.versions[0][1]) for cut in found.cuts] == [1000, 500]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"maxBytesPerTrigger": "1g"}, "its batches depend on maxBytesPerTrigger"),
        ({"minOffsetsPerTrigger": "5"}, "its batches depend on minOffsetsPerTrigger"),
        ({"maxFilesPerTrigger": "1"}, "it would take more than 200 batches, and was read in one"),
    ],
)
def test_where_the_cuts_cannot_be_made_all_is_one_batch_and_it_is_said(
    options: dict[str, str], why: str
) -> None:
    many = InputRange("files", files=tuple(map(str, range(201))))
    assert batches.split_batches(many, options) == batches.BatchCuts((many,), why)


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 40)), min_size=1, max_size=4),
    st.integers(1, 30),
)
def test_batches_of_a_topic_follow_on_each_other_and_leave_nothing_out(
    held: list[tuple[int, int]], limit: int
) -> None:
    start = {str(p): at for p, (at, _) in enumerate(held)}
    end = {str(p): at + size for p, (at, size) in enumerate(held)}
    cuts = batches.split_batches(
        InputRange("kafka", start={"t": start}, end={"t": end}), {"maxOffsetsPerTrigger": str(limit)}
    ).cuts
    assert all(not cut.empty for cut in cuts)
    assert all(one.end == other.start for one, other in pairwise(cuts))
    if cuts:
        assert (cuts[0].start, cuts[-1].end) == ({"t": start}, {"t": end})
    else:
        assert start == end


def test_slices_of_one_source_are_joined_in_their_order() -> None:
    assert batches.join_slices(
        [InputRange("files", files=("b",)), InputRange("files"), InputRange("files", files=("a",))]
    ) == InputRange("files", files=("b", "a"))
    assert batches.join_slices([kafka((0, 0), (5, 5)), kafka((5, 5), (9, 6))]) == kafka((0, 0), (9, 6))
    new = InputRange("kafka", start={"t": {"0": 5, "1": 5, "2": 0}}, end={"t": {"0": 6, "1": 6, "2": 2}})
    assert batches.join_slices([kafka((0, 0), (5, 5)), new]) == InputRange(
        "kafka", start={"t": {"0": 0, "1": 0, "2": 0}}, end={"t": {"0": 6, "1": 6, "2": 2}}
    )


@pytest.mark.parametrize(
    "parts", [[kafka((0, 0), (5, 5)), kafka((6, 5), (9, 6))], [FILES, DELTA]], ids=["a gap", "two kinds"]
)
def test_slices_that_leave_something_out_are_not_joined(parts: list[InputRange]) -> None:
    assert batches.join_slices(parts) is None


def test_batches_of_the_newest_files_first_are_not_promised() -> None:
    options = {"maxFilesPerTrigger": "1", "latestFirst": "true"}
    assert batches.split_batches(FILES, options).why == "its newest files come first (latestFirst)"
