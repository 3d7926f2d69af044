"""Lines of offset files and logs of sources: one source that the code reads twice, named sources, format 2."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.checkpoints import inspect_checkpoint
from recovery.checkpoints.batches import read_batch
from recovery.checkpoints.folders import folders_of
from recovery.checkpoints.formats import OffsetFile, OffsetLine
from tests.checkpoint_builder import CONF, PREFIX, Built, dumps, put
from tests.state_checkpoints import unpack

EVOLUTION = {**CONF, f"{PREFIX}queryEvolution.enableSourceEvolution": "true"}


def at(entry: int | None) -> str | None:
    return None if entry is None else dumps({"logOffset": entry})


def offsets(*entries: int | None, version: int = 1, keys: tuple[str, ...] = ()) -> OffsetFile:
    named = keys or tuple(str(n) for n in range(len(entries)))
    return OffsetFile(
        version, 0, 0, {}, tuple(OffsetLine(k, at(e)) for k, e in zip(named, entries, strict=True))
    )


@pytest.mark.parametrize(
    ("rows", "logs", "wanted"),
    [
        ([(2, 2)], {"0": 3, "1": 3}, "01"),  # two sources
        ([(2, 2)], {"0": 3}, "00"),  # one source, twice
        ([(2, 2, 1)], {"0": 3, "1": 2}, "001"),
        ([(2, 1, 2)], {"0": 3, "1": 2}, "010"),
        ([(2, 1, 1)], {"0": 3, "1": 2}, "011"),
        ([(1, 2, 2), (0, 0, 0)], {"0": 2, "1": 3}, "011"),
        ([(2, 1)], {"0": 3}, "01"),  # they never stood together: the second log is gone
        ([(2, 2), (1, 0)], {"0": 3}, "01"),  # not in every batch
        ([(2, 2)], {"0": 2}, "01"),  # the log lacks the entry where they stand: it is damaged
        ([(2, 2)], {}, "01"),
        ([(2, None)], {"0": 3}, "01"),  # the second has read nothing and needs no log
        ([(2,) * 9], {"0": 3}, "012345678"),  # beyond what anybody writes
    ],
)
def test_lines_that_always_stand_together_share_a_log(
    rows: list[tuple[int | None, ...]], logs: dict[str, int], wanted: str
) -> None:
    basis = offsets(*rows[0])
    found = folders_of(
        basis, [offsets(*row) for row in rows], {name: range(count) for name, count in logs.items()}
    )
    assert "".join(found[line.key] for line in basis.sources) == wanted


@pytest.mark.parametrize(
    ("keys", "logs", "wanted"),
    [
        (("1", "2"), ("0", "1"), {"1": "0", "2": "1"}),
        (("1",), ("0",), {"1": "0"}),
        (("0", "1"), ("0",), {"0": "0", "1": "1"}),  # the second log is gone
        (("orders", "returns"), ("orders",), {"orders": "orders", "returns": "returns"}),
    ],
)
def test_in_format_2_the_last_place_in_the_plan_is_the_line_s_key(
    keys: tuple[str, ...], logs: tuple[str, ...], wanted: dict[str, str]
) -> None:
    basis = offsets(*(2 for _ in keys), version=2, keys=keys)
    assert folders_of(basis, [basis], {name: range(3) for name in logs}) == wanted


@given(
    st.lists(st.one_of(st.none(), st.integers(0, 3)), max_size=6),
    st.dictionaries(st.sampled_from(["0", "1", "2", "x", "07"]), st.sets(st.integers(0, 3)), max_size=4),
)
def test_every_line_gets_one_log(entries: list[int | None], logs: dict[str, set[int]]) -> None:
    basis = offsets(*entries)
    assert set(folders_of(basis, [basis], logs)) == {line.key for line in basis.sources}


def test_a_self_join_that_spark_wrote_has_no_lost_log(tmp_path: Path) -> None:
    where = unpack("hdfs-join", tmp_path)
    report = inspect_checkpoint(str(where))
    (told,) = [f for f in report.findings if f.code.startswith("SOURCE")]
    assert (told.code, report.blockers) == ("SOURCE_READ_TWICE", ())
    assert [(s.index, s.log, s.twin_of, len(s.committed)) for s in report.sources] == [
        (0, "0", None, 4),
        (1, "0", 0, 4),
    ]
    batch = read_batch(str(where), 2)
    assert [(s.key, s.kind, s.files.count if s.files else None) for s in batch.sources] == [
        ("0", "files", 1),
        ("1", "files", 1),
    ]


@pytest.mark.parametrize(("newest", "told"), [(2, True), (1, False)])
def test_a_named_source_without_its_line_was_lost_where_its_log_went_on(
    tmp_path: Path, newest: int, told: bool
) -> None:
    """Where the code has dropped the source, its log ends at the last position that is told."""
    Built(tmp_path, batches=0, operators=()).write()
    for batch in range(3):
        lines = [f'{name}:{{"logOffset":{batch}}}' for name in ("a", "b")][: 1 if batch == 2 else 2]
        header = {"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": EVOLUTION}
        put(tmp_path / f"offsets/{batch}", "\n".join(["v2", dumps(header), *lines]))
        put(tmp_path / f"commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}')
        put(
            tmp_path / f"sources/a/{batch}",
            "v1\n" + dumps({"path": "file:///x", "timestamp": 1, "batchId": batch}),
        )
    for entry in range(newest + 1):
        put(
            tmp_path / f"sources/b/{entry}",
            "v1\n" + dumps({"path": "file:///y", "timestamp": 1, "batchId": entry}),
        )
    codes = {f.code for f in inspect_checkpoint(str(tmp_path)).findings}
    assert ("OFFSET_SOURCE_DROPPED" in codes) is told


@pytest.mark.parametrize(
    ("newer", "batches", "planned", "told"),
    [
        ({}, 2, 1, True),
        ({}, 3, 0, False),
        ({}, 0, 1, False),  # nothing is committed yet
        ({f"{PREFIX}statefulOperator.alwaysNullableOutput.enabled": "true"}, 2, 1, False),  # 4.3: not known
    ],
)
def test_a_planned_batch_in_format_2_ends_spark_4_2(
    tmp_path: Path, newer: dict[str, str], batches: int, planned: int, told: bool
) -> None:
    Built(tmp_path, batches=batches, planned=planned, version=2, operators=(), conf=newer).write()
    codes = {f.code for f in inspect_checkpoint(str(tmp_path)).findings}
    assert ("BATCH_PLANNED_AS_MAP" in codes) is told


@pytest.mark.parametrize(
    ("headers", "same_position", "codes"),
    [
        ((2, 3, 3), False, {"STATE_PARTITION_MISSING"}),  # the headers agree: 3 partitions, and one is gone
        ((2, 2, 3), True, {"STATE_PARTITION_MISSING"}),  # a batch that read nothing: Spark's own repartition
        ((2, 2, 3), False, {"HEADER_PARTITIONS_MORE"}),
        ((2, 2, 2), False, set()),
        ((2, 1, 1), False, set()),
    ],
)
def test_headers_tell_the_partitions_after_a_repartition(
    tmp_path: Path, headers: tuple[int, ...], same_position: bool, codes: set[str]
) -> None:
    Built(tmp_path).write()
    for batch, partitions in enumerate(headers):
        header = {
            "batchWatermarkMs": 0,
            "batchTimestampMs": 1,
            "conf": {**CONF, "spark.sql.shuffle.partitions": str(partitions)},
        }
        entry = batch - 1 if same_position and batch == 2 else batch
        put(tmp_path / f"offsets/{batch}", "\n".join(["v1", dumps(header), dumps({"logOffset": entry})]))
    assert {f.code for f in inspect_checkpoint(str(tmp_path)).findings} == codes
