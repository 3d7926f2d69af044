"""The first groups of open windows, with what the state holds of them so far, on copies of what real Spark wrote."""

import struct
from pathlib import Path

import pytest

from recovery.checkpoints import inspect_checkpoint
from recovery.checkpoints.held import held_states
from recovery.checkpoints.report import Column
from recovery.checkpoints.state.rows import read_fields
from recovery.contracts import codec
from recovery.contracts.amounts import Bound, OpenGroup, OpenWindow, ReadField, RowAmount
from tests.state_checkpoints import unpack

GIB = 1 << 30


def windows(name: str, place: Path, limit: int = GIB) -> tuple[OpenWindow, ...]:
    where = unpack(name, place)
    report = inspect_checkpoint(str(where))
    (state,) = held_states(str(where), report.state_operators, batch=report.last_committed, limit=limit)
    return state.windows


@pytest.mark.parametrize("name", ["hdfs-window", "hdfs-session-window"])
def test_each_listed_group_has_its_key_and_its_values_so_far(tmp_path: Path, name: str) -> None:
    found = windows(name, tmp_path)
    groups = [group for window in found for group in window.first]
    assert len(groups) == sum(window.groups for window in found)
    for group in groups:
        assert [part.name for part in group.key] == ["k"]
        assert [part.name for part in group.so_far] == ["count"]
        assert int(group.so_far[0].text) > 0
    by_window = [[int(group.key[0].text) for group in window.first] for window in found]
    assert all(len(keys) == len(set(keys)) for keys in by_window)


def test_only_the_first_groups_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recovery.checkpoints.held.FIRST_GROUPS", 3)
    found = windows("hdfs-window", tmp_path)
    assert sum(len(window.first) for window in found) == 3
    assert [len(window.first) for window in found] == sorted(
        (len(window.first) for window in found), reverse=True
    )


def test_a_window_without_listed_groups_is_stored_as_before() -> None:
    bare = OpenWindow(start_ms=1, end_ms=2, groups=3)
    assert codec.to_json(bare) == {"start_ms": 1, "end_ms": 2, "groups": 3}
    full = bare.model_copy(update={"first": (OpenGroup(key=(), so_far=()),)})
    assert codec.read(OpenWindow, codec.to_json(full)) == full


def row(*slots: bytes, nulls: int = 0, behind: bytes = b"") -> bytes:
    return struct.pack("<q", nulls) + b"".join(slot.ljust(8, b"\0") for slot in slots) + behind


KINDS = (
    ("bigint", struct.pack("<q", -7), "-7"),
    ("int", struct.pack("<i", 7), "7"),
    ("boolean", b"\1", "true"),
    ("double", struct.pack("<d", 2.5), "2.5"),
    ("date", struct.pack("<i", 20000), "2024-10-04"),
    ("timestamp", struct.pack("<q", 1_700_000_000_000_000), "2023-11-14 22:13:20 UTC"),
    ("decimal(10,2)", struct.pack("<q", 1234), "12.34"),
)


@pytest.mark.parametrize(("kind", "slot", "text"), KINDS)
def test_a_field_is_read_by_its_type(kind: str, slot: bytes, text: str) -> None:
    assert read_fields(row(slot), (Column("a", kind),)) == (("a", text),)


TEXT = struct.pack("<q", (16 << 32) | 6)


def test_a_text_is_read_behind_the_columns_and_cut_where_it_is_long() -> None:
    assert read_fields(row(TEXT, behind=b"Berlin\0\0"), (Column("city", "string"),)) == (("city", "Berlin"),)
    long = row(struct.pack("<q", (16 << 32) | 200), behind=b"x" * 200)
    found = read_fields(long, (Column("city", "string"),))
    assert found is not None
    assert len(found[0][1]) == 101


def test_null_is_null_and_what_is_no_plain_value_is_left_out() -> None:
    columns = (Column("a", "bigint"), Column("b", "array<int>"))
    assert read_fields(row(b"", TEXT, nulls=0b11), columns) == (("a", "null"),)


@pytest.mark.parametrize(
    "damaged",
    [b"", row(b"")[:8], b"1234" + row(b""), row(b"", behind=bytes(8)), row(b"", b"")],
    ids=["nothing", "cut short", "a checksum before it", "more than its columns", "another width"],
)  # fmt: skip
def test_a_row_of_another_form_is_not_read(damaged: bytes) -> None:
    assert read_fields(damaged, (Column("a", "bigint"),)) is None


@pytest.mark.parametrize("before", [b"\0", b"\0\1"])
def test_bytes_of_the_store_before_a_row_are_passed_over(before: bytes) -> None:
    assert read_fields(before + row(struct.pack("<q", 5)), (Column("a", "bigint"),)) == (("a", "5"),)


def test_what_the_audit_log_keeps_of_a_forecast_has_no_keys_and_values_of_people() -> None:
    group = OpenGroup(key=(ReadField(name="k", text="ada"),), so_far=())
    window = OpenWindow(start_ms=1, end_ms=2, groups=3, first=(group,))
    lost = RowAmount(rows=3, bound=Bound.EXACT, windows=(window,))
    kept = codec.to_json(lost.without_groups)
    assert kept["windows"] == [{"start_ms": 1, "end_ms": 2, "groups": 3}]
    assert kept["rows"] == 3
