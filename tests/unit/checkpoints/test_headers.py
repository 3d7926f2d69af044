"""Headers, commits of every format, gaps, names, places and inputs: what inspect says of each."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from recovery import bounded
from recovery.checkpoints import formats, inspect_checkpoint, location_checks
from recovery.checkpoints.table_progress import count_batch_committed
from recovery.checkpoints.writer import ALWAYS, SINCE, written_by
from tests.checkpoint_builder import CONF, STARTED_MS, Built, dumps, put

NEW = "spark.sql.streaming.statefulOperator.alwaysNullableOutput.enabled"
SPARK_42 = dict(CONF)
SPARK_43 = {**CONF, NEW: "true"}
SPARK_40 = {k: v for k, v in CONF.items() if SINCE.get(k, (0, 0)) < (4, 2)}  # of 4.1 too
SPARK_35 = {k: v for k, v in CONF.items() if SINCE.get(k, (0, 0)) < (4, 0)}


def header(batch: int = 0, **changes: Any) -> str:
    return dumps({"batchWatermarkMs": 0, "batchTimestampMs": STARTED_MS + batch, "conf": CONF, **changes})


def codes(where: Path, **words: Any) -> set[str]:
    return {f.code for f in inspect_checkpoint(str(where), **words).findings}


def offsets(conf: dict[str, str], version: int = 1) -> formats.OffsetFile:
    return formats.OffsetFile(version, 0, 0, conf, ())


def commit(version: int) -> formats.CommitFile:
    return formats.CommitFile(version, 0)


@pytest.mark.parametrize(
    ("read", "done", "at_least", "before"),
    [
        (offsets(SPARK_43), commit(1), "4.3", None),
        (offsets(SPARK_42), commit(1), "4.2", "4.3"),
        (offsets(SPARK_40), commit(1), "4.0", "4.2"),
        (offsets(SPARK_35), commit(1), "3.3", "4.0"),
        (offsets({"spark.sql.shuffle.partitions": "2"}), None, None, "4.0"),
    ],
)
def test_the_header_proves_which_spark_wrote_it(
    read: formats.OffsetFile, done: formats.CommitFile | None, at_least: str | None, before: str | None
) -> None:
    assert written_by(read, done) == {"at_least": at_least, "before": before}


@pytest.mark.parametrize(
    ("read", "done"),
    [
        (None, None),
        (offsets({}), commit(1)),
        (offsets(SPARK_40, 2), None),
        (offsets(SPARK_40), commit(3)),
        (offsets(SPARK_35), commit(2)),
    ],
)
def test_a_header_that_proves_nothing_or_contradicts_itself_names_no_version(
    read: formats.OffsetFile | None, done: formats.CommitFile | None
) -> None:
    assert written_by(read, done) is None


def test_a_later_version_always_writes_what_an_earlier_one_does() -> None:
    assert ALWAYS[4, 2] < ALWAYS[4, 3]


def test_the_report_says_which_spark_wrote_the_newest_header(tmp_path: Path) -> None:
    Built(tmp_path / "ck").write()
    assert inspect_checkpoint(str(tmp_path / "ck")).written_by == {"at_least": "4.2", "before": "4.3"}


def test_a_commit_of_format_3_names_its_sinks_the_active_ones_first(tmp_path: Path) -> None:
    Built(tmp_path / "ck", operators=()).write()
    told = {
        "old": {
            "sinkName": "old",
            "commitOffset": "{}",
            "providerName": "a",
            "apiVersion": "V2",
            "isActive": False,
        },
        "new": {
            "sinkName": "new",
            "commitOffset": "{}",
            "providerName": "a",
            "apiVersion": "V2",
            "isActive": True,
        },
    }
    body = {"nextBatchWatermarkMs": 0, "stateUniqueIds": {}, "sinkMetadataMap": told}
    put(tmp_path / "ck/commits/2", f"v3\n{dumps(body)}")
    report = inspect_checkpoint(str(tmp_path / "ck"))
    assert (report.sinks, report.findings) == (("new", "old"), ())


def test_offsets_of_format_2_have_named_sources_and_control_batches(tmp_path: Path) -> None:
    where = tmp_path / "ck"
    Built(where, version=2, operators=()).write()
    told = {"controlBatchInfo": {"operationType": "repartition"}, "sourceMetadataInfo": {"0": {"a": 1}}}
    put(where / "offsets/2", f'v2\n{header(2, **told)}\n0:{{"logOffset":2}}')
    assert codes(where) == {"CONTROL_BATCH"}
    without(where, "commits/2")
    assert codes(where) == {"CONTROL_BATCH_PLANNED", "BATCH_PLANNED", "BATCH_PLANNED_AS_MAP"}
    read = formats.parse_offsets((where / "offsets/2").read_bytes())
    assert read.control == "repartition"


def without(where: Path, *names: str) -> None:
    for name in names:
        (where / name).unlink()
        (where / name).with_name(f".{Path(name).name}.crc").unlink(missing_ok=True)


GAPS = ("offsets/1", "commits/1", "offsets/4", "commits/4")
HEADERS: list[tuple[str, Callable[[Path], Any], set[str]]] = [
    (
        "empty conf of the newest batch",
        lambda c: put(c / "offsets/2", f'v1\n{header(2, conf={})}\n{{"logOffset":2}}'),
        {"HEADER_CONF_EMPTY"},
    ),
    (
        "empty conf of an older batch",
        lambda c: put(c / "offsets/0", f'v1\n{header(0, conf={})}\n{{"logOffset":0}}'),
        set(),
    ),
    (
        "planned batch ahead of the watermark of the last commit",
        lambda c: put(c / "offsets/3", f'v1\n{header(3, batchWatermarkMs=9)}\n{{"logOffset":2}}'),
        {"WATERMARK_AHEAD", "BATCH_PLANNED"},
    ),
    (
        "planned batch at the watermark of the last commit",
        lambda c: put(c / "offsets/3", f'v1\n{header(3)}\n{{"logOffset":2}}'),
        {"BATCH_PLANNED"},
    ),
    ("a number with leading zeros above the newest", lambda c: put(c / "offsets/0007", "v1"), {"NAME_STRAY"}),
    ("a number with leading zeros below the newest", lambda c: put(c / "commits/01", "v1"), set()),
    (
        "gap in both logs",
        lambda c: without(c, "offsets/1", "commits/1"),
        {"ASYNC_PROGRESS", "OFFSET_NEIGHBOUR_MISSING"},
    ),
    (
        "two gaps, one of them just before the newest batch",
        lambda c: (Built(c, batches=6, operators=()).write(), without(c, *GAPS)),
        {"ASYNC_PROGRESS"},
    ),
    (
        "log two entries beyond the offsets",
        lambda c: without(c, "offsets/1", "commits/1", "offsets/2", "commits/2"),
        {"PROGRESS_UNRECORDED"},
    ),
    ("log one entry beyond the offsets", lambda c: without(c, "offsets/2", "commits/2"), set()),
    ("gap in offsets alone", lambda c: without(c, "offsets/0"), set()),
]


@pytest.mark.parametrize(("name", "damage", "wanted"), HEADERS, ids=[h[0] for h in HEADERS])
def test_headers_and_names_betray(
    tmp_path: Path, name: str, damage: Callable[[Path], Any], wanted: set[str]
) -> None:
    Built(tmp_path / "ck", operators=()).write()
    damage(tmp_path / "ck")
    assert codes(tmp_path / "ck") == wanted


def test_progress_that_was_tracked_asynchronously_says_what_runs_again(tmp_path: Path) -> None:
    where = tmp_path / "ck"
    Built(where, batches=9, operators=()).write()
    without(where, *(f"{log}/{n}" for log in ("offsets", "commits") for n in (1, 2, 4, 5, 6)))
    found = next(f for f in inspect_checkpoint(str(where)).findings if f.code == "ASYNC_PROGRESS")
    assert re.findall(r"\d+", found.says)[:3] == ["5", "0", "8"]
    assert found.spark
    assert "after batch 8" in found.spark


@pytest.mark.parametrize(
    ("location", "temporary"),
    [
        ("/tmp/ck", True),
        ("file:///tmp/ck", True),
        ("file:/tmp", True),
        ("/tmpfiles/ck", False),
        ("/data/tmp/ck", False),
        ("dbfs:/FileStore/ck", True),
        ("dbfs:/tmp/ck", True),
        ("/dbfs/tmp/ck", True),
        ("dbfs:/mnt/ck", False),
        ("s3://bucket/tmp/ck", False),
        ("/data/temporary-0f0f0f0f-1111-2222-3333-444444444444", True),
        ("/data/temporary-tables/ck", False),
    ],
)
def test_a_temporary_place_is_named(monkeypatch: pytest.MonkeyPatch, location: str, temporary: bool) -> None:
    monkeypatch.setattr(location_checks, "TEMPORARY", ("/tmp", "dbfs:/tmp", "dbfs:/FileStore"))
    assert bool(location_checks.judge_place(location)) is temporary


def test_two_queries_may_not_share_a_checkpoint() -> None:
    found = location_checks.find_shared_locations({"a": "file:///ck/1", "b": "/ck/1/", "c": "/ck/2"})
    assert [f.code for f in found] == ["LOCATION_SHARED"]
    assert (" a, b " in found[0].says, "/ck/1." in found[0].says) == (True, True)


def test_input_files_that_are_gone_are_counted_on_request(tmp_path: Path) -> None:
    where, folder = tmp_path / "ck", tmp_path / "in put"
    Built(where, planned=1, operators=()).write()
    folder.mkdir()
    for entry in range(4):
        file = folder / f"part {entry}.json"
        file.write_text("{}")
        line = {"path": f"file://{quote(str(file))}", "timestamp": 1, "batchId": entry}
        put(where / f"sources/0/{entry}", f"v1\n{dumps(line)}")
    assert codes(where, inputs=True) == {"BATCH_PLANNED"}
    (folder / "part 3.json").unlink()
    assert codes(where, inputs=True) == {"BATCH_PLANNED", "INPUT_PLANNED_GONE"}
    (folder / "part 0.json").unlink()
    found = {f.code: f.says for f in inspect_checkpoint(str(where), inputs=True).findings}
    assert re.findall(r"\d+", found["INPUT_READ_GONE"])[:2] == ["1", "0"]
    assert codes(where) == {"BATCH_PLANNED"}


def test_input_files_of_a_store_that_nobody_can_open_are_unchecked(tmp_path: Path) -> None:
    where = tmp_path / "ck"
    Built(where, operators=()).write()
    for entry in range(3):
        line = {"path": f"nosuch://host/in/{entry}.json", "timestamp": 1, "batchId": entry}
        put(where / f"sources/0/{entry}", f"v1\n{dumps(line)}")
    assert codes(where, inputs=True) == {"INPUT_UNCHECKED"}
    json.dumps(inspect_checkpoint(str(where), inputs=True).as_dict())


def test_windows_were_written_up_to_the_watermark_at_which_the_last_batch_ran(tmp_path: Path) -> None:
    """Not up to the one that its commit set: the next batch is the first that writes by it."""
    built = Built(tmp_path, planned=1).write()
    for batch, begins in ((2, 5000), (3, 9000)):
        text = built.offsets(batch).replace('"batchWatermarkMs":0', f'"batchWatermarkMs":{begins}')
        put(tmp_path / f"offsets/{batch}", text)
    put(tmp_path / "commits/2", 'v1\n{"nextBatchWatermarkMs":9000}')
    found = inspect_checkpoint(str(tmp_path))
    assert (found.closed_ms, found.watermark_ms) == (5000, 9000)
    assert count_batch_committed(found, 3).closed_ms == 9000, "where the table holds the planned batch"


def test_a_text_of_more_values_than_are_read_is_malformed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "require_values", partial(bounded.require_values, most=50))
    assert formats.json_of("[" + "0," * 40 + "0]")
    with pytest.raises(formats.Malformed):
        formats.json_of("[" + "0," * 60 + "0]")
