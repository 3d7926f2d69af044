"""What `inspect` says of good checkpoints, damaged ones, and bytes that nobody meant."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest

from recovery.checkpoints import fingerprint, formats, inspect, versions
from recovery.checkpoints.findings import BY_CODE, TABLE, as_markdown
from recovery.checkpoints.report import CheckpointReport, Finding, Outcome, Severity
from recovery.errors import RepriseError, Unreachable
from tests.checkpoint_builder import Built, input_uri, put, sink_log

DOCS = Path(__file__).resolve().parents[3] / "docs" / "checkpoints.md"


def codes(where: Path, sink: Path | None = None, *, deep: bool = False) -> set[str]:
    report = inspect(str(where), sink=str(sink) if sink else None, deep=deep)
    return {f.code for f in report.findings}


def test_a_good_checkpoint_has_its_position_its_state_and_no_finding(tmp_path: Path) -> None:
    built = Built(tmp_path / "ck").write()
    report = inspect(str(tmp_path / "ck"))
    assert (report.query_id, report.last_committed, report.last_planned) == (built.query_id, 2, 2)
    assert [e.path for e in report.sources[0].committed] == [input_uri(0, n) for n in range(3)]
    assert report.sources[0].offset_json == '{"logOffset":2}'
    operator = report.state_operators[0]
    assert (operator.name, operator.partitions, operator.provider, operator.key_columns) == (
        "dedupe",
        2,
        "HDFSBackedStateStoreProvider",
        ("customer_id", "sequence_num"),
    )
    assert report.findings == ()
    assert [b["batch"] for b in report.batches] == [2, 1, 0]


def test_the_watermark_is_that_of_the_header_up_to_which_windows_were_written(tmp_path: Path) -> None:
    """The commit names the next one: a batch that was never run would have written up to there."""
    Built(tmp_path / "ck", batches=3, planned=1).write()
    newest, last = tmp_path / "ck/offsets/3", tmp_path / "ck/offsets/2"
    put(last, last.read_text().replace('"batchWatermarkMs":0', '"batchWatermarkMs":5'))
    put(newest, newest.read_text().replace('"batchWatermarkMs":0', '"batchWatermarkMs":7'))
    put(tmp_path / "ck/commits/2", 'v1\n{"nextBatchWatermarkMs":7}')
    assert inspect(str(tmp_path / "ck")).closed_ms == 5


def test_the_position_is_that_of_the_last_committed_batch_and_not_of_the_planned_one(tmp_path: Path) -> None:
    Built(tmp_path / "ck", batches=3, planned=1).write()
    report = inspect(str(tmp_path / "ck"))
    source = report.sources[0]
    assert (report.last_committed, report.last_planned, source.log_offset) == (2, 3, 2)
    assert (len(source.committed), [e.batch_id for e in source.planned]) == (3, [3])
    assert {f.code: f.severity for f in report.findings} == {"BATCH_PLANNED": Severity.INFO}


@pytest.mark.parametrize("batches", [9, 10, 11, 25, 120])
@pytest.mark.parametrize("planned", [0, 1])
def test_compacted_logs_give_every_file_once(tmp_path: Path, batches: int, planned: int) -> None:
    Built(tmp_path / "ck", batches=batches, planned=planned, sources=2, files_per_batch=3).write()
    for source in inspect(str(tmp_path / "ck")).sources:
        wanted = [input_uri(source.index, n) for n in range(3 * batches)]
        assert [e.path for e in source.committed] == wanted
        assert len(source.planned) == 3 * planned


def test_offsets_and_commits_in_format_2_are_read(tmp_path: Path) -> None:
    Built(tmp_path / "ck", version=2).write()
    report = inspect(str(tmp_path / "ck"))
    assert report.sources[0].offset_json == '{"logOffset":2}'
    assert report.findings == ()


def test_a_flow_directory_shows_its_newest_version(tmp_path: Path) -> None:
    for version, batches in ((0, 2), (2, 4), (10, 6)):
        Built(tmp_path / "flow" / str(version), batches=batches).write()
    (tmp_path / "flow" / ".reprise-R-1").mkdir()
    report = inspect(str(tmp_path / "flow"))
    assert versions(str(tmp_path / "flow")) == [0, 2, 10]
    assert (report.version, report.last_committed) == (10, 5)
    assert report.location.endswith("/flow/10")
    assert inspect(str(tmp_path / "flow" / "2")).version is None


def test_an_empty_newest_version_is_an_empty_checkpoint_and_no_damage(tmp_path: Path) -> None:
    Built(tmp_path / "flow" / "0").write()
    (tmp_path / "flow" / "1").mkdir()
    report = inspect(str(tmp_path / "flow"))
    assert (report.version, report.format, report.last_committed) == (1, "none", None)
    assert [f.code for f in report.findings] == ["CHECKPOINT_EMPTY"]


def test_a_file_with_the_highest_number_is_in_the_way(tmp_path: Path) -> None:
    Built(tmp_path / "flow" / "0").write()
    (tmp_path / "flow" / "7").write_text("")
    assert "VERSION_NOT_A_DIRECTORY" in codes(tmp_path / "flow")


@pytest.mark.parametrize("form", ["{0}", "file:{0}", "file://{0}", "{0}/", "file://{0}/"])
def test_paths_and_urls_of_a_place_mean_the_same(tmp_path: Path, form: str) -> None:
    Built(tmp_path / "ck").write()
    found = inspect(form.format(tmp_path / "ck"))
    assert found.fingerprint == inspect(str(tmp_path / "ck")).fingerprint
    assert found.last_committed == 2


def test_a_checkpoint_is_read_from_any_store(tmp_path: Path) -> None:
    Built(tmp_path / "ck", batches=12, sidecars=False).write()
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path / "ck"), "/bucket/flow/3", recursive=True)
    try:
        report = inspect("memory://bucket/flow")
        assert (report.version, report.last_committed, len(report.sources[0].committed)) == (3, 11, 12)
        assert versions("memory://bucket/flow") == [3]
        assert report.fingerprint == inspect(str(tmp_path / "ck")).fingerprint
    finally:
        memory.rm("/bucket", recursive=True)


def drop(root: Path, name: str) -> None:
    target = root / name
    (target.parent / f".{target.name}.crc").unlink(missing_ok=True)
    shutil.rmtree(target) if target.is_dir() else target.unlink()


DAMAGES: list[tuple[str, Callable[[Path], Any], set[str]]] = [
    ("metadata missing", lambda c: drop(c, "metadata"), {"METADATA_MISSING"}),
    ("metadata empty", lambda c: put(c / "metadata", ""), {"METADATA_UNREADABLE"}),
    ("metadata a list", lambda c: put(c / "metadata", "[1]"), {"METADATA_UNREADABLE"}),
    ("metadata a directory", lambda c: (drop(c, "metadata"), (c / "metadata").mkdir()), {"METADATA_MISSING"}),
    ("newest offset missing", lambda c: drop(c, "offsets/2"), {"COMMITS_AHEAD"}),
    ("newest offset empty", lambda c: put(c / "offsets/2", ""), {"OFFSET_UNREADABLE"}),
    ("newest offset cut", lambda c: put(c / "offsets/2", 'v1\n{"batchWat'), {"OFFSET_UNREADABLE"}),
    (
        "newest offset not text",
        lambda c: (c / "offsets/2").write_bytes(b"v1\n\xff\xfe"),
        {"OFFSET_UNREADABLE"},
    ),
    ("newest offset of a newer Spark", lambda c: put(c / "offsets/2", "v3\n{}"), {"OFFSET_NEWER_FORMAT"}),
    ("offset N-1 missing", lambda c: drop(c, "offsets/1"), {"OFFSET_NEIGHBOUR_MISSING"}),
    ("offset N-1 empty", lambda c: put(c / "offsets/1", ""), {"OFFSET_UNREADABLE"}),
    ("oldest offset missing", lambda c: drop(c, "offsets/0"), set()),
    ("oldest offset empty", lambda c: put(c / "offsets/0", ""), set()),
    ("all offsets missing", lambda c: drop(c, "offsets"), {"OFFSETS_MISSING"}),
    ("stray offset", lambda c: put(c / "offsets/10", Built(c).offsets(2)), {"OFFSET_STRAY"}),
    ("two strays", lambda c: [put(c / f"offsets/{n}", "x") for n in (10, 99)], {"OFFSET_STRAY"}),
    ("newest commit missing", lambda c: drop(c, "commits/2"), {"BATCH_PLANNED"}),
    (
        "two commits missing",
        lambda c: [drop(c, f"commits/{n}") for n in (1, 2)],
        {"COMMITS_BEHIND", "BATCH_PLANNED"},
    ),
    ("newest commit empty", lambda c: put(c / "commits/2", ""), {"COMMIT_UNREADABLE"}),
    ("newest commit header only", lambda c: put(c / "commits/2", "v1"), set()),
    ("newest commit of a newer Spark", lambda c: put(c / "commits/2", "v4\n{}"), {"COMMIT_NEWER_FORMAT"}),
    ("newest log entry missing", lambda c: drop(c, "sources/0/2"), {"SOURCE_LOG_MISSING"}),
    ("newest log entry empty", lambda c: put(c / "sources/0/2", ""), {"SOURCE_LOG_UNREADABLE"}),
    ("newest log entry header only", lambda c: put(c / "sources/0/2", "v1"), {"SOURCE_LOG_HEADER_ONLY"}),
    ("oldest log entry header only", lambda c: put(c / "sources/0/0", "v1\n"), {"SOURCE_LOG_HEADER_ONLY"}),
    ("log entry cut", lambda c: put(c / "sources/0/1", 'v1\n{"path":"file'), {"SOURCE_LOG_UNREADABLE"}),
    (
        "log entry of wrong types",
        lambda c: put(c / "sources/0/1", 'v1\n{"path":1}'),
        {"SOURCE_LOG_UNREADABLE"},
    ),
    ("older log entry missing", lambda c: drop(c, "sources/0/1"), {"SOURCE_LOG_GAP"}),
    ("first log entry missing", lambda c: drop(c, "sources/0/0"), {"SOURCE_LOG_GAP"}),
    ("sources gone", lambda c: drop(c, "sources"), {"SOURCE_LOG_MISSING"}),
    ("partition gone", lambda c: drop(c, "state/0/1"), {"STATE_PARTITION_MISSING"}),
    ("all partitions gone", lambda c: [drop(c, f"state/0/{n}") for n in (0, 1)], {"STATE_MISSING"}),
    ("operator metadata gone", lambda c: drop(c, "state/0/_metadata"), {"OPERATOR_METADATA_MISSING"}),
    (
        "operator metadata garbage",
        lambda c: put(c / "state/0/_metadata/metadata", "v1\n{"),
        {"OPERATOR_METADATA_UNREADABLE"},
    ),
    ("orphan sidecar ahead", lambda c: (c / "offsets/.3.crc").write_text("crc"), {"ORPHAN_CRC"}),
    (
        "orphan sidecar of a compacted entry",
        lambda c: (c / "sources/0/.9.compact.crc").write_text("crc"),
        {"ORPHAN_CRC"},
    ),
    ("sidecar of an old purged file", lambda c: (c / "offsets/0").unlink(), set()),
]


@pytest.mark.parametrize(("damage", "expected"), [d[1:] for d in DAMAGES], ids=[d[0] for d in DAMAGES])
def test_each_damage_is_named(tmp_path: Path, damage: Callable[[Path], Any], expected: set[str]) -> None:
    Built(tmp_path / "ck").write()
    damage(tmp_path / "ck")
    assert codes(tmp_path / "ck") == expected


def test_a_removed_middle_operator_and_ids_in_the_commit_betray_missing_state(tmp_path: Path) -> None:
    Built(tmp_path / "a", operators=("dedupe", "dedupe", "dedupe")).write()
    drop(tmp_path / "a", "state/1")
    assert codes(tmp_path / "a") == {"STATE_MISSING"}
    Built(tmp_path / "b", version=2).write()
    drop(tmp_path / "b", "state")
    assert codes(tmp_path / "b") == {"STATE_MISSING"}


def test_a_planned_batch_that_is_damaged_is_told_from_a_committed_one(tmp_path: Path) -> None:
    Built(tmp_path / "ck", planned=1).write()
    put(tmp_path / "ck/offsets/3", "")
    assert codes(tmp_path / "ck") == {"OFFSET_PLANNED_UNREADABLE", "BATCH_PLANNED"}
    Built(tmp_path / "other", planned=1).write()
    drop(tmp_path / "other", "sources/0/3")
    assert codes(tmp_path / "other") == {"SOURCE_LOG_PLANNED_MISSING", "BATCH_PLANNED"}


def test_an_offset_file_that_lost_one_of_two_sources_is_not_taken_for_a_code_change(tmp_path: Path) -> None:
    built = Built(tmp_path / "ck", sources=2).write()
    put(tmp_path / "ck/offsets/2", built.offsets(2).rsplit("\n", 1)[0])
    assert "OFFSET_SOURCES_LOST" in codes(tmp_path / "ck")


def test_deep_reads_what_only_a_rewind_needs(tmp_path: Path) -> None:
    Built(tmp_path / "ck", batches=15).write()
    put(tmp_path / "ck/offsets/3", "garbage")
    put(tmp_path / "ck/commits/3", "")
    put(tmp_path / "ck/sources/0/3", 'v1\n{"path":')
    assert codes(tmp_path / "ck") == set()
    report = inspect(str(tmp_path / "ck"), deep=True)
    assert {f.file for f in report.findings} == {"offsets/3", "commits/3", "sources/0/3"}
    assert not report.blockers


@pytest.mark.parametrize(
    ("head", "batches", "planned", "expected"),
    [
        (2, 3, 0, set()),
        (2, 3, 1, {"BATCH_PLANNED"}),
        (3, 3, 1, {"BATCH_PLANNED", "SINK_UNCOMMITTED_BATCH"}),
        (3, 3, 0, {"SINK_SWALLOWS"}),
        (9, 3, 1, {"BATCH_PLANNED", "SINK_SWALLOWS"}),
        (1, 3, 0, {"SINK_LOG_BEHIND"}),
        (None, 3, 0, {"SINK_LOG_MISSING"}),
    ],
)
def test_the_table_s_log_is_compared(
    tmp_path: Path, head: int | None, batches: int, planned: int, expected: set[str]
) -> None:
    Built(tmp_path / "ck", batches=batches, planned=planned).write()
    (tmp_path / "table").mkdir()
    if head is not None:
        sink_log(tmp_path / "table", head)
    assert codes(tmp_path / "ck", tmp_path / "table") == expected


def test_an_empty_checkpoint_beside_a_filled_table_swallows_rows(tmp_path: Path) -> None:
    (tmp_path / "ck").mkdir()
    sink_log(tmp_path / "table", 2)
    assert codes(tmp_path / "ck", tmp_path / "table") == {"CHECKPOINT_EMPTY", "SINK_SWALLOWS"}


def test_holes_and_garbage_in_the_table_s_log_are_found_only_where_a_reader_looks(tmp_path: Path) -> None:
    Built(tmp_path / "ck", batches=15).write()
    sink_log(tmp_path / "table", 14)
    drop(tmp_path / "table/_spark_metadata", "3")
    assert codes(tmp_path / "ck", tmp_path / "table") == set()
    drop(tmp_path / "table/_spark_metadata", "11")
    put(tmp_path / "table/_spark_metadata/12", "v1\nno")
    assert codes(tmp_path / "ck", tmp_path / "table") == {"SINK_LOG_HOLE", "SINK_LOG_UNREADABLE"}


def test_a_place_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for where in (tmp_path / "no", tmp_path / "file"):
        with pytest.raises(Unreachable, match=r"\."):
            inspect(str(where))
    for where in ("", "no-such-scheme://x", "a\0b"):
        with pytest.raises(RepriseError):
            inspect(where)
    assert versions(str(tmp_path / "no")) == []


def test_a_directory_of_something_else_is_not_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "holiday.txt").write_text("sun")
    assert codes(tmp_path) == {"NOT_A_CHECKPOINT"}


@pytest.mark.parametrize(
    "change",
    [
        lambda c: put(c / "offsets/2", Built(c).offsets(1)),
        lambda c: put(c / "sources/0/2", "v1\nother"),
        lambda c: put(c / "state/0/0/_metadata/schema", "new"),
        lambda c: shutil.rmtree(c / "state/0/1"),
        lambda c: (c / "offsets/.1.crc").unlink(),
        lambda c: drop(c, "commits/2"),
    ],
)
def test_the_fingerprint_tells_that_something_moved(tmp_path: Path, change: Callable[[Path], Any]) -> None:
    Built(tmp_path / "ck").write()
    before = fingerprint(str(tmp_path / "ck"))
    assert fingerprint(str(tmp_path / "ck")) == before == inspect(str(tmp_path / "ck")).fingerprint
    change(tmp_path / "ck")
    assert fingerprint(str(tmp_path / "ck")) != before


@pytest.mark.parametrize(
    "maintained",
    [
        lambda c: put(c / "state/0/0/2.snapshot", "whole"),
        lambda c: put(c / "state/0/0/..2.snapshot.5e39fcad.tmp.crc", "half"),
        lambda c: put(c / "state/0/0/SSTs/000012-5e39.sst", "rows"),
        lambda c: (c / "state/0/0/1.delta").unlink(),
    ],
    ids=["snapshot", "half a snapshot", "RocksDB's own file", "an old file removed"],
)
def test_maintenance_of_the_state_after_the_query_has_ended_makes_no_plan_stale(
    tmp_path: Path, maintained: Callable[[Path], Any]
) -> None:
    Built(tmp_path / "ck").write()
    before = inspect(str(tmp_path / "ck"))
    maintained(tmp_path / "ck")
    after = inspect(str(tmp_path / "ck"))
    assert after.fingerprint == before.fingerprint == fingerprint(str(tmp_path / "ck"))
    assert after.exact_fingerprint != before.exact_fingerprint, (
        "what is laid out is read back to the last file"
    )


def test_symlink_loops_end(tmp_path: Path) -> None:
    Built(tmp_path / "ck").write()
    (tmp_path / "ck/state/loop").symlink_to(tmp_path / "ck")
    (tmp_path / "ck/offsets/dangling").symlink_to(tmp_path / "nowhere")
    assert codes(tmp_path / "ck") == set()


def test_a_file_beyond_its_limit_is_a_finding_and_not_read(tmp_path: Path) -> None:
    Built(tmp_path / "ck").write()
    with (tmp_path / "ck/offsets/2").open("r+b") as stream:
        stream.truncate(1 << 34)
    assert codes(tmp_path / "ck") == {"OFFSET_UNREADABLE"}


HOSTILE = [
    b"",
    b"\x00" * 100,
    b"v1",
    b"v1\n",
    b"v1\nnull",
    b"v1\n[]",
    b"v999999999999",
    b"v1\n" + b"[" * 200_000,
    b"v1\n" + b'{"a":' * 100_000,
    b'v1\n{"batchWatermarkMs":' + b"9" * 10_000 + b"}",
    b'v1\n{"path":"\\ud800","timestamp":1,"batchId":1}',
    b'v1\n{"path":"a","timestamp":1e999,"batchId":true}',
    "v1\n{}".encode("utf-16"),
]


@pytest.mark.parametrize("data", HOSTILE)
def test_no_bytes_in_any_file_raise(tmp_path: Path, data: bytes) -> None:
    Built(tmp_path / "ck", sources=2, version=2).write()
    sink_log(tmp_path / "table", 2)
    names = ["metadata", "offsets/2", "commits/2", "sources/0/2", "sources/1/0", "state/0/_metadata/metadata"]
    names += ["state/0/0/_metadata/schema", "../table/_spark_metadata/1"]
    for name in names:
        (tmp_path / "ck" / name).write_bytes(data)
    report = inspect(str(tmp_path / "ck"), sink=str(tmp_path / "table"), deep=True)
    assert report.blockers
    json.dumps(report.as_dict())


def test_the_docs_show_the_table_of_findings_as_it_is() -> None:
    assert as_markdown() in DOCS.read_text()


def test_every_code_of_the_table_is_made_somewhere() -> None:
    room = Path(formats.__file__).parent
    text = "".join(p.read_text() for p in room.rglob("*.py") if p.parent.name != "findings")
    assert {k.code for k in TABLE} == {c for c in BY_CODE if f'"{c}"' in text}


def test_a_finding_blocks_unless_the_next_run_goes_on() -> None:
    assert {k.code for k in TABLE if k.severity is Severity.BLOCKER} == {
        k.code for k in TABLE if k.predicts is not Outcome.GOES_ON
    }


@pytest.mark.parametrize(
    ("outcomes", "wins"),
    [
        ([], Outcome.GOES_ON),
        ([Outcome.GOES_ON, Outcome.DOUBLES], Outcome.DOUBLES),
        ([Outcome.DOUBLES, Outcome.LOSES], Outcome.LOSES),
        ([Outcome.LOSES, Outcome.UNREADABLE_TABLE], Outcome.UNREADABLE_TABLE),
        ([Outcome.UNREADABLE_TABLE, Outcome.FAILS, Outcome.GOES_ON], Outcome.FAILS),
        ([Outcome.UNKNOWN, Outcome.GOES_ON], Outcome.UNKNOWN),
    ],
)
def test_of_several_findings_the_worst_outcome_is_predicted(outcomes: list[Outcome], wins: Outcome) -> None:
    findings = tuple(Finding("CODE", Severity.INFO, "says", "do", outcome=o) for o in outcomes)
    report = CheckpointReport("/ck", "none", None, None, None, None, findings=findings)
    assert (report.outcome, report.as_dict()["outcome"]) == (wins, wins.value)
