"""What `inspect` says of good checkpoints, of places that are none, and of bytes that nobody meant."""

import json
from pathlib import Path

import fsspec
import pytest

from recovery.checkpoints import inspect_checkpoint, list_versions
from recovery.checkpoints.report import Severity
from recovery.errors import RepriseError, Unreachable
from tests.checkpoint_builder import Built, input_uri, put, sink_log
from tests.unit.checkpoints.judging import codes


def test_a_good_checkpoint_has_its_position_its_state_and_no_finding(tmp_path: Path) -> None:
    built = Built(tmp_path / "ck").write()
    report = inspect_checkpoint(str(tmp_path / "ck"))
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
    assert inspect_checkpoint(str(tmp_path / "ck")).closed_ms == 5


def test_the_position_is_that_of_the_last_committed_batch_and_not_of_the_planned_one(tmp_path: Path) -> None:
    Built(tmp_path / "ck", batches=3, planned=1).write()
    report = inspect_checkpoint(str(tmp_path / "ck"))
    source = report.sources[0]
    assert (report.last_committed, report.last_planned, source.log_offset) == (2, 3, 2)
    assert (len(source.committed), [e.batch_id for e in source.planned]) == (3, [3])
    assert {f.code: f.severity for f in report.findings} == {"BATCH_PLANNED": Severity.INFO}


@pytest.mark.parametrize("batches", [9, 10, 11, 25, 120])
@pytest.mark.parametrize("planned", [0, 1])
def test_compacted_logs_give_every_file_once(tmp_path: Path, batches: int, planned: int) -> None:
    Built(tmp_path / "ck", batches=batches, planned=planned, sources=2, files_per_batch=3).write()
    for source in inspect_checkpoint(str(tmp_path / "ck")).sources:
        wanted = [input_uri(source.index, n) for n in range(3 * batches)]
        assert [e.path for e in source.committed] == wanted
        assert len(source.planned) == 3 * planned


def test_offsets_and_commits_in_format_2_are_read(tmp_path: Path) -> None:
    Built(tmp_path / "ck", version=2).write()
    report = inspect_checkpoint(str(tmp_path / "ck"))
    assert report.sources[0].offset_json == '{"logOffset":2}'
    assert report.findings == ()


def test_a_flow_directory_shows_its_newest_version(tmp_path: Path) -> None:
    for version, batches in ((0, 2), (2, 4), (10, 6)):
        Built(tmp_path / "flow" / str(version), batches=batches).write()
    (tmp_path / "flow" / ".reprise-R-1").mkdir()
    report = inspect_checkpoint(str(tmp_path / "flow"))
    assert list_versions(str(tmp_path / "flow")) == [0, 2, 10]
    assert (report.version, report.last_committed) == (10, 5)
    assert report.location.endswith("/flow/10")
    assert inspect_checkpoint(str(tmp_path / "flow" / "2")).version is None


def test_an_empty_newest_version_is_an_empty_checkpoint_and_no_damage(tmp_path: Path) -> None:
    Built(tmp_path / "flow" / "0").write()
    (tmp_path / "flow" / "1").mkdir()
    report = inspect_checkpoint(str(tmp_path / "flow"))
    assert (report.version, report.format, report.last_committed) == (1, "none", None)
    assert [f.code for f in report.findings] == ["CHECKPOINT_EMPTY"]


def test_a_file_with_the_highest_number_is_in_the_way(tmp_path: Path) -> None:
    Built(tmp_path / "flow" / "0").write()
    (tmp_path / "flow" / "7").write_text("")
    assert "VERSION_NOT_A_DIRECTORY" in codes(tmp_path / "flow")


@pytest.mark.parametrize("form", ["{0}", "file:{0}", "file://{0}", "{0}/", "file://{0}/"])
def test_paths_and_urls_of_a_place_mean_the_same(tmp_path: Path, form: str) -> None:
    Built(tmp_path / "ck").write()
    found = inspect_checkpoint(form.format(tmp_path / "ck"))
    assert found.fingerprint == inspect_checkpoint(str(tmp_path / "ck")).fingerprint
    assert found.last_committed == 2


def test_a_checkpoint_is_read_from_any_store(tmp_path: Path) -> None:
    Built(tmp_path / "ck", batches=12, sidecars=False).write()
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path / "ck"), "/bucket/flow/3", recursive=True)
    try:
        report = inspect_checkpoint("memory://bucket/flow")
        assert (report.version, report.last_committed, len(report.sources[0].committed)) == (3, 11, 12)
        assert list_versions("memory://bucket/flow") == [3]
        assert report.fingerprint == inspect_checkpoint(str(tmp_path / "ck")).fingerprint
    finally:
        memory.rm("/bucket", recursive=True)


def test_a_place_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for where in (tmp_path / "no", tmp_path / "file"):
        with pytest.raises(Unreachable, match=r"\."):
            inspect_checkpoint(str(where))
    for where in ("", "no-such-scheme://x", "a\0b"):
        with pytest.raises(RepriseError):
            inspect_checkpoint(where)
    assert list_versions(str(tmp_path / "no")) == []


def test_a_directory_of_something_else_is_not_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "holiday.txt").write_text("sun")
    assert codes(tmp_path) == {"NOT_A_CHECKPOINT"}


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
    report = inspect_checkpoint(str(tmp_path / "ck"), sink=str(tmp_path / "table"), deep=True)
    assert report.blockers
    json.dumps(report.as_dict())
