"""Event logs are read as Spark writes them: packed or plain, one file or many, whole or half written."""

import io
import json
import time
from pathlib import Path

import pytest

from recovery.checkpoints.formats import Malformed
from recovery.eventlogs.blocks import iterate_blocks
from recovery.eventlogs.folders import ListedEventLog, LogProgress, list_logs, read_on, tail_from
from recovery.eventlogs.folding import fold_line
from recovery.eventlogs.lines import LONGEST_LINE, Mark, iterate_lines
from recovery.eventlogs.plans import read_plan
from recovery.eventlogs.values import ANSI, TIME_ZONE, Application, Operator, RunState, application_from
from tests.unit.eventlogs import logs

WHOLE = [
    *logs.started(), logs.query_started(), logs.batch_plan(), logs.progress(0), logs.progress(1),
    logs.terminated(logs.FAILURE), logs.ended(),
]  # fmt: skip
PACKED = {
    "": b"".join, ".zstd": logs.zstd, ".lz4": logs.lz4, ".snappy": logs.snappy, ".lzf": logs.lzf,
}  # fmt: skip


def read_whole(folder: Path, most_lines: int = 1000) -> LogProgress:
    log, tail = list_logs(str(folder))[0], LogProgress()
    more = True
    while more:
        tail, more = read_on(str(folder), log, tail, most_lines=most_lines)
    return tail


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("most_lines", [1, 1000])
def test_a_log_says_the_same_in_every_codec_however_it_is_tailed(
    tmp_path: Path, codec: str, most_lines: int
) -> None:
    (tmp_path / f"local-1{codec}").write_bytes(PACKED[codec](WHOLE))
    tail = read_whole(tmp_path, most_lines)
    app = tail.app
    assert tail.is_done
    assert not tail.problem
    assert (app.app_id, app.user, app.name, app.version) == ("local-1", "etl", "orders", "4.2.0")
    assert app.settings == {"spark.master": "local[2]"}
    run = app.runs[0]
    assert (run.query_id, run.run_id, run.name, run.state) == (
        logs.QUERY,
        logs.RUN,
        "orders",
        RunState.FAILED,
    )
    assert (run.last_batch, run.batches_in_all, run.failure) == (1, 2, logs.FAILURE)
    assert run.operators == (Operator("StreamingDeduplicate", ("id",)),)
    assert run.checkpoint == "file:/ck/orders"
    assert tail_from(tail.as_json()) == tail


@pytest.mark.parametrize("codec", PACKED)
def test_a_log_cut_at_any_byte_goes_on_where_it_ended_once_the_rest_is_there(
    tmp_path: Path, codec: str
) -> None:
    data = PACKED[codec](WHOLE)
    place = tmp_path / f"local-1{codec}.inprogress"
    whole = read_of(data, Mark())
    for cut in range(0, len(data), 37):
        place.write_bytes(data[:cut])
        tail, _ = read_on(
            str(tmp_path), ListedEventLog(f"local-1{codec}", True), LogProgress(), most_lines=1000
        )
        assert not tail.is_done
        read = [
            line for line in whole if (line.mark.offset, line.mark.skip) > (tail.mark.offset, tail.mark.skip)
        ]
        place.write_bytes(data)
        rest = read_of(data, tail.mark)
        assert [line.text for line in rest] == [line.text for line in read]


def bytes_of(data: bytes) -> bytes:
    return b"".join(piece for _, pieces in iterate_blocks(io.BytesIO(data), 0) for piece in pieces)


def read_of(data: bytes, mark: Mark) -> list:
    return list(iterate_lines(io.BytesIO(data), mark))


def test_a_rolling_log_is_read_file_by_file_and_ends_with_its_status(tmp_path: Path) -> None:
    folder = tmp_path / "eventlog_v2_local-1"
    folder.mkdir()
    (folder / "appstatus_local-1.inprogress").touch()
    (folder / "events_1_local-1").write_bytes(b"".join(WHOLE[:5]))
    (folder / "events_2_local-1").write_bytes(b"".join(WHOLE[6:7]))
    log = list_logs(str(tmp_path))[0]
    tail, _ = read_on(str(tmp_path), log, LogProgress(), most_lines=1000)
    assert (tail.file, tail.is_done, tail.app.runs[0].last_batch) == (2, False, 1)
    (folder / "events_1_local-1").unlink()  # cleaned up: it is not needed any more
    (folder / "events_10_local-1").write_bytes(b"".join(WHOLE[7:]))
    (folder / "appstatus_local-1.inprogress").rename(folder / "appstatus_local-1")
    tail, _ = read_on(str(tmp_path), log, tail, most_lines=1000)
    assert (tail.file, tail.is_done, tail.app.runs[0].state) == (10, True, RunState.FAILED)


def test_a_compacted_file_stands_for_those_before_it(tmp_path: Path) -> None:
    folder = tmp_path / "eventlog_v2_local-1"
    folder.mkdir()
    (folder / "events_1_local-1").write_bytes(b"".join(WHOLE[:5]))
    (folder / "events_2_local-1.compact").write_bytes(b"".join(WHOLE[:7]))
    tail = read_whole(tmp_path)
    assert tail.app.runs[0].batches_in_all == 2


def test_a_line_without_end_takes_no_memory_and_hides_nothing_after_it() -> None:
    long = b'{"Event":"' + b"x" * (LONGEST_LINE + 10) + b"\n"
    read = read_of(long + logs.ended(), Mark())
    assert [line.text for line in read] == [b"", logs.ended().strip()]


@pytest.mark.parametrize("magic", [b"\x28\xb5\x2f\xfd", b"LZ4Block", b"ZV\1"])
def test_a_corrupt_block_is_named_and_what_came_before_it_stays(tmp_path: Path, magic: bytes) -> None:
    with pytest.raises(Malformed):
        bytes_of(magic + b"\xff" * 600_000)
    (tmp_path / "local-1.zstd").write_bytes(logs.zstd(WHOLE[:6]) + b"\xff" * 100)
    tail = read_whole(tmp_path)
    assert tail.app.runs[0].last_batch == 0
    assert tail.problem


def test_an_application_that_ended_without_a_word_of_its_query_leaves_it(tmp_path: Path) -> None:
    (tmp_path / "local-1").write_bytes(b"".join([*WHOLE[:5], logs.ended()]))
    assert read_whole(tmp_path).app.runs[0].state is RunState.LEFT


def test_two_attempts_of_one_application_are_two_logs(tmp_path: Path) -> None:
    for attempt in ("1", "2"):
        told = logs.started("application_1_1", attempt=attempt)
        (tmp_path / f"application_1_1_{attempt}").write_bytes(b"".join(told))
    found = [
        read_on(str(tmp_path), log, LogProgress(), most_lines=10)[0].app for log in list_logs(str(tmp_path))
    ]
    assert {(app.app_id, app.attempt) for app in found} == {
        ("application_1_1", "1"),
        ("application_1_1", "2"),
    }


def test_what_is_no_event_is_left_out_and_an_idle_look_is_no_batch(tmp_path: Path) -> None:
    junk = [b"not json\n", b"{}\n", b'{"Event":"SparkListenerApplicationEnd","Timestamp":"x"\n', b"[1]\n"]
    odd = logs.line({"Event": logs.LISTENER + "QueryProgressEvent", "progress": [1]})
    told = [*logs.started(), logs.query_started(), *junk, odd, logs.progress(4), logs.progress(4, ran=False)]
    (tmp_path / "local-1.inprogress").write_bytes(b"".join(told))
    app = read_whole(tmp_path).app
    assert app.left_out == 3
    assert app.runs[0].batches_in_all == 1


def test_what_is_no_log_is_not_listed_and_the_name_of_one_that_ends_is_its_own(tmp_path: Path) -> None:
    for name in (".crc", "_SUCCESS", "local-1.zstd", "local-1.zstd.inprogress", "local-2.inprogress"):
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    assert {(log.name, log.is_open) for log in list_logs(str(tmp_path))} == {
        ("local-1.zstd", False), ("local-2", True),
    }  # fmt: skip


def test_a_query_that_waits_for_input_gives_a_sign_of_life() -> None:
    idle = logs.line({
        "Event": logs.LISTENER + "QueryIdleEvent", "id": logs.QUERY, "runId": logs.RUN,
        "timestamp": "2026-11-22T21:00:00.000Z",
    })  # fmt: skip
    before = folded(*logs.started(), logs.query_started())
    after = fold_line(before, idle)
    assert (after.last_ms or 0) - (before.last_ms or 0) == 29 * 60_000
    assert (before.runs[0].idle_ms, after.runs[0].idle_ms) == (None, after.last_ms)
    assert application_from(after.as_json()) == after


def test_before_spark_3_5_a_progress_without_a_batch_shows_that_a_query_waits() -> None:
    before = folded(*logs.started(), logs.query_started(), logs.progress(4))
    assert before.runs[0].idle_ms is None
    assert (
        folded(*logs.started(), logs.query_started(), logs.progress(4, ran=False)).runs[0].idle_ms is not None
    )


def test_a_run_that_was_kept_before_waiting_was_read_is_read_still() -> None:
    stored = folded(*logs.started(), logs.query_started()).as_json()
    del stored["runs"][0]["idle_ms"]
    assert application_from(stored).runs[0].idle_ms is None


def folded(*told: bytes) -> Application:
    app = Application()
    for line in told:
        app = fold_line(app, line)
    return app


@pytest.mark.parametrize(
    "value", [b"NaN", b"-Infinity", b"1e999", b"9" * 400, b"[" * 700 + b"]" * 700, b'"\\ud800"', b'"\\u0000"']
)
def test_whatever_a_line_says_can_be_kept(value: bytes) -> None:
    line = logs.progress(3).replace(b'"numOutputRows":-1', b'"numOutputRows":' + value)
    app = folded(*logs.started(), logs.query_started(), line)
    assert app.runs[0].last_batch == 3
    kept = json.dumps(app.as_json(), allow_nan=False, ensure_ascii=False)
    assert "\\u0000" not in kept
    assert kept.encode()


def test_a_look_ends_in_time_and_the_next_one_goes_on(tmp_path: Path) -> None:
    (tmp_path / "local-1").write_bytes(b"".join(WHOLE))
    log = list_logs(str(tmp_path))[0]
    tail, more = read_on(str(tmp_path), log, LogProgress(), most_lines=1000, until=0.0)
    assert (more, tail.is_done, tail.is_half) == (True, False, False)
    tail, more = read_on(str(tmp_path), log, tail, most_lines=1000)
    assert (more, tail.is_done) == (False, True)


def test_few_bytes_that_unpack_without_end_are_a_problem_of_that_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recovery.eventlogs.lines.LARGEST_BLOCK", 1 << 20)
    (tmp_path / "local-1.zstd").write_bytes(logs.zstd([b"x" * (4 << 20)]))
    assert read_whole(tmp_path).problem


def test_a_plan_that_begins_to_tell_of_state_again_and_again_takes_no_longer() -> None:
    begun = time.process_time()
    assert read_plan("state info [ checkpoint = " * 100_000, "") is None
    assert time.process_time() - begun < 2


JVM, NAMED = {"user.timezone": "Asia/Tokyo"}, {TIME_ZONE: "Europe/Paris"}


@pytest.mark.parametrize("has_state", [True, False])
@pytest.mark.parametrize(
    ("settings", "system", "set_later", "zone"),
    [
        ({}, {}, {}, ""),
        ({}, JVM, {}, "Asia/Tokyo"),
        (NAMED, JVM, {}, "Europe/Paris"),
        (NAMED, JVM, {TIME_ZONE: "America/New_York"}, "America/New_York"),
    ],
    ids=["not known", "of the JVM", "of the settings", "set by the program"],
)
def test_a_run_has_the_time_zone_that_spark_takes(
    settings: dict[str, str], system: dict[str, str], set_later: dict[str, str], zone: str, has_state: bool
) -> None:
    app = Application()
    lines = [*logs.started(settings=settings, system=system), logs.query_started()]
    for line in (*lines, logs.batch_plan(set_later=set_later, has_state=has_state)):
        app = fold_line(app, line)
    assert app.row_settings_of(app.runs[0]).get(TIME_ZONE, "") == zone


def test_what_a_function_runs_inside_of_a_batch_does_not_change_the_settings_of_its_run() -> None:
    app = Application()
    helper = logs.batch_plan(set_later={TIME_ZONE: "Asia/Tokyo"}, has_state=False, inside_of=0)
    for line in (*logs.started(), logs.query_started(), logs.batch_plan(set_later=NAMED), helper):
        app = fold_line(app, line)
    assert app.row_settings_of(app.runs[0]) == NAMED


@pytest.mark.parametrize(
    ("version", "named", "told"),
    [
        ("3.5.9", {}, {ANSI: "false"}),
        ("3.5.9", {ANSI: "TRUE"}, {}),
        ("4.0.1", {}, {}),
        ("4.0.1", {ANSI: "False"}, {ANSI: "false"}),
        ("4.2.0", {TIME_ZONE: "Etc/UTC"}, {}),
        (
            "4.2.0",
            {"spark.sql.parquet.compression.codec": "zstd", "spark.sql.files.maxPartitionBytes": "1g"},
            {},
        ),
        (
            "4.2.0",
            {"spark.sql.sources.partitionColumnTypeInference.enabled": "false"},
            {"spark.sql.sources.partitionColumnTypeInference.enabled": "false"},
        ),
    ],
)
def test_only_what_differs_from_spark_4_2_in_utc_counts(
    version: str, named: dict[str, str], told: dict[str, str]
) -> None:
    app = Application()
    for line in logs.started(version=version, settings=named):
        app = fold_line(app, line)
    assert app.row_settings_of(None) == told


def test_settings_by_which_rows_differ_are_kept_and_no_others() -> None:
    ansi, secret = {"spark.sql.ansi.enabled": "false"}, {"spark.sql.catalog.x.password": "s3cret"}
    parser = {"spark.sql.legacy.timeParserPolicy": "LEGACY"}
    app = Application()
    lines = [*logs.started(settings=ansi | secret), logs.query_started()]
    for line in (*lines, logs.batch_plan(set_later=parser | secret)):
        app = fold_line(app, line)
    assert app.row_settings_of(app.runs[0]) == ansi | parser
    assert "s3cret" not in json.dumps(app.as_json())
