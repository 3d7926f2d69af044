"""Start options that a change of code leaves in it."""

import difflib

import pytest

from recovery.diagnosis.platforms import START_OPTIONS
from recovery.sources.start_options import NAMES, list_left_in_code

BEFORE = 'spark.readStream.format("kafka")\n    .load()\n'
KAFKA = '    .option("startingOffsets", "latest")\n'
PATH = "orders.py"


def diff(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), "a/" + PATH, "b/" + PATH)
    return "".join(lines)


def with_line(line: str) -> str:
    return BEFORE.replace("    .load()", f"{line}    .load()")


@pytest.mark.parametrize(
    ("after", "names"),
    [
        (BEFORE, []),
        (with_line(KAFKA), ["startingOffsets"]),
        (with_line('    .option("STARTINGOFFSETSBYTIMESTAMP", t)\n'), ["startingOffsetsByTimestamp"]),
        (with_line('    .option("startingVersion", 7)\n'), ["startingVersion"]),
        (with_line('    .options(modifiedAfter="2026-11-22")\n'), ["modifiedAfter"]),
        (with_line('    .option("stream-from-timestamp", "1")\n'), ["stream-from-timestamp"]),
        (with_line("    # startingOffsets is not set here\n"), []),
        (with_line('    .option("maxOffsetsPerTrigger", 5)\n'), []),
        (with_line('    .option("my_startingOffsets", 5)\n'), []),
    ],
)
def test_a_start_option_on_an_added_line_is_left_in_the_code(after: str, names: list[str]) -> None:
    assert [option.name for option in list_left_in_code([(PATH, diff(BEFORE, after))])] == names


def test_an_option_that_was_there_before_or_only_moved_is_not_of_the_change() -> None:
    there, moved = with_line(KAFKA), with_line(KAFKA.replace("    .", "        ."))
    assert list_left_in_code([(PATH, diff(there, there.replace("kafka", "delta")))]) == ()
    assert list_left_in_code([(PATH, diff(there, moved))]) == ()


def test_an_option_that_a_later_change_takes_out_is_not_left() -> None:
    put, taken = diff(BEFORE, with_line(KAFKA)), diff(with_line(KAFKA), BEFORE)
    assert list_left_in_code([(PATH, put), (PATH, taken)]) == ()
    (option,) = list_left_in_code([(PATH, put), ("other.py", taken)])
    assert (option.path, option.line) == (PATH, KAFKA.strip())


def test_every_option_that_advice_names_is_looked_for() -> None:
    assert {part.rsplit(" ", 1)[-1] for part in START_OPTIONS.split("; ")} <= set(NAMES)
