"""What is odd about an adopted stream is a code with what it names; a sentence each, and no sign where all is well."""

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps

from recovery.errors import NotFound
from recovery.eventlogs.folders import ListedEventLog, LogProgress
from recovery.eventlogs.seen import SeenRun
from recovery.eventlogs.values import Application, Run, RunState
from recovery.models import EventLog, LogFolder
from recovery.streams import noting, running, tailing
from recovery.streams.running import RunningAnswer, RunningStatus
from recovery.streams.signs import (
    FolderProblem,
    Sign,
    SignCode,
    say_sign,
    sign_from,
    sign_of_python,
    signs_of,
)
from tests.unit.eventlogs import logs

NOW = datetime(2026, 11, 22, 21, tzinfo=UTC)
NO_ANSWER = RunningAnswer(RunningStatus.NOT_ASKED)
APP = Application("app-1", "2")
OPEN = Run("q", "r", started_ms=1)
WELL = SeenRun(OPEN, APP, "app-1", NOW - timedelta(seconds=5))
FIRST = replace(WELL, app=Application("app-1", "1"), run=replace(OPEN, run_id="r0"), log="app-1_1")


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def said(answer: RunningStatus, minutes: float) -> RunningAnswer:
    return RunningAnswer(answer, ago(minutes))


GONE = FolderProblem("/events", "no_event_logs", NOW)
AWAY = FolderProblem("/events", "unreachable", NOW)
ENDED = replace(OPEN, state=RunState.ENDED)
CASES: dict[str, tuple[tuple[SeenRun, ...], FolderProblem | None, RunningAnswer, tuple[SignCode, ...]]] = {
    "all is well": ((WELL,), None, NO_ANSWER, ()),
    "no log and no command": ((), None, NO_ANSWER, ()),
    "silent": ((replace(WELL, moved_at=ago(11)),), None, NO_ANSWER, (SignCode.SILENT,)),
    "silent, and its command knows": ((replace(WELL, moved_at=ago(11)),), None, said(RunningStatus.RUNNING, 1), ()),
    "silent, and its command is asked no more": (
        (replace(WELL, moved_at=ago(30)),), None, said(RunningStatus.RUNNING, 20), (SignCode.SILENT,),
    ),
    "quiet after its end": ((replace(WELL, run=ENDED, moved_at=ago(60)),), None, NO_ANSWER, ()),
    "folder gone": ((replace(WELL, moved_at=ago(11)),), GONE, NO_ANSWER, (SignCode.LOGS_GONE,)),
    "a log not readable": (
        (replace(WELL, moved_at=ago(11)),), replace(AWAY, log="app-9"), NO_ANSWER, (SignCode.LOG_AWAY, SignCode.SILENT),
    ),
    "folder not readable": ((WELL,), AWAY, NO_ANSWER, (SignCode.LOGS_AWAY,)),
    "log cleaned up": ((replace(WELL, is_gone=True, moved_at=ago(60)),), None, NO_ANSWER, (SignCode.LOG_CLEANED,)),
    "log cleaned up after its end": ((replace(WELL, is_gone=True, run=ENDED),), None, NO_ANSWER, ()),
    "some files cleaned up": ((replace(WELL, missed=2),), None, NO_ANSWER, (SignCode.LOG_PART_CLEANED,)),
    "corrupt": ((replace(WELL, problem="corrupt"),), None, NO_ANSWER, (SignCode.LOG_CORRUPT,)),
    "half a line, just now": ((replace(WELL, is_half=True),), None, NO_ANSWER, ()),
    "half a line for long": ((replace(WELL, is_half=True, moved_at=ago(3)),), None, NO_ANSWER, (SignCode.LOG_HALF,)),
    "an hour ahead": ((replace(WELL, skew=timedelta(hours=1)),), None, NO_ANSWER, (SignCode.CLOCKS_APART,)),
    "an hour behind": ((replace(WELL, skew=timedelta(hours=-1)),), None, NO_ANSWER, (SignCode.CLOCKS_APART,)),
    "a minute apart": ((replace(WELL, skew=timedelta(minutes=1)),), None, NO_ANSWER, ()),
    "two attempts": ((FIRST, WELL), None, NO_ANSWER, (SignCode.TWO_ATTEMPTS,)),
    "an attempt after one that ended": ((replace(FIRST, run=ENDED), WELL), None, NO_ANSWER, ()),
    "command does not answer": ((WELL,), None, said(RunningStatus.UNKNOWN, 1), (SignCode.RUNNING_UNKNOWN,)),
    "command says no, log grows": ((WELL,), None, said(RunningStatus.NOT_RUNNING, 1), (SignCode.RUNNING_DIFFERS,)),
    "command says no, log is older": ((replace(WELL, moved_at=ago(2)),), None, said(RunningStatus.NOT_RUNNING, 1), ()),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_each_oddity_has_its_code_and_what_is_well_has_none(case: str) -> None:
    seen, problem, answer, codes = CASES[case]
    signs = signs_of(seen, problem, answer, NOW)
    assert tuple(sign.code for sign in signs) == codes
    assert [sign_from(sign.as_json()) for sign in signs] == list(signs)
    assert all(text for sign in signs for text in say_sign(sign))


def test_every_code_has_a_case_and_a_sentence_that_names_its_facts() -> None:
    python = sign_of_python("/opt/spark-3.5/bin/python", Path("/opt/reprise/bin/python"))
    assert python is not None
    (copied,) = signs_of((WELL,), None, NO_ANSWER, NOW, other_checkpoint="file:/data/orders")
    seen = {code for *_, codes in CASES.values() for code in codes}
    assert seen | {python.code, copied.code} == set(SignCode)
    signs: list[Sign] = [
        python,
        copied,
        *(s for seen, p, a, _ in CASES.values() for s in signs_of(seen, p, a, NOW)),
    ]
    assert not [sign.code for sign in signs if "{" in "".join(say_sign(sign))]


@pytest.mark.django_db
class TestFollowed:
    """A folder of logs, followed."""

    def folder(self, tmp_path: Path, *lines: bytes, name: str = "local-1.inprogress") -> Path:
        place = tmp_path / "data" / "events"
        place.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(b"".join([*logs.started(), logs.query_started(), *lines]))
        return place

    def seen(self, place: Path) -> SeenRun:
        tailing.catch_up(str(place))
        return tailing.runs_of(str(place), [logs.QUERY])[-1]

    def test_a_log_that_an_older_version_has_read_is_read_again(self, tmp_path: Path) -> None:
        place = self.folder(tmp_path, logs.terminated("it failed"), logs.ended(), name="local-1")
        seen = self.seen(place)
        row = EventLog.objects.get()
        assert row.is_done
        row.tail["app"]["settings"] = {}
        row.save()
        import_module("recovery.migrations.0040_read_logs_again").read_again(apps, None)
        import_module("recovery.migrations.0041_application_of_a_log").complete_logs(apps, None)
        assert tailing.runs_of(str(place), [logs.QUERY]) == []
        again = self.seen(place)
        assert (again.run, again.app) == (seen.run, seen.app)
        assert again.app.settings

    @pytest.mark.parametrize(
        ("grew_ago", "is_whole"), [(timedelta(minutes=1), False), (timedelta(days=9), True)]
    )
    def test_a_log_that_cannot_be_read_hides_no_other(
        self, grew_ago: timedelta, is_whole: bool, tmp_path: Path
    ) -> None:
        place = self.folder(tmp_path, logs.terminated("it failed"), logs.ended(), name="local-1")
        os.mkfifo(place / "app-9")
        at = (datetime.now(UTC) - grew_ago).timestamp()
        os.utime(place / "app-9", (at, at))
        os.utime(place / "local-1", (1_000, 1_000))
        for _ in range(2):
            assert tailing.catch_up(str(place)) is is_whole
            assert self.seen(place).is_done
            assert LogFolder.objects.get().log == ("" if is_whole else "app-9")
        (place / "app-9").unlink()
        assert tailing.catch_up(str(place)) is True
        assert LogFolder.objects.get().problem == ""

    def test_a_log_that_is_cleaned_up_before_its_end_is_gone_and_may_come_back(self, tmp_path: Path) -> None:
        place = self.folder(tmp_path)
        assert not self.seen(place).is_gone
        (place / "local-1.inprogress").rename(tmp_path / "kept")
        assert self.seen(place).is_gone
        (tmp_path / "kept").rename(place / "local-1.inprogress")
        assert not self.seen(place).is_gone

    def test_one_that_ended_may_be_cleaned_up(self, tmp_path: Path) -> None:
        place = self.folder(tmp_path, logs.terminated(None), logs.ended(), name="local-1")
        assert self.seen(place).is_done
        (place / "local-1").unlink()
        assert not self.seen(place).is_gone

    def test_a_folder_that_vanished_is_kept_as_a_problem_until_it_is_there_again(
        self, tmp_path: Path
    ) -> None:
        place = self.folder(tmp_path)
        self.seen(place)
        place.rename(tmp_path / "away")
        for _ in range(2):
            with pytest.raises(NotFound):
                tailing.catch_up(str(place))
        problem = noting.problems_of([str(place)])[str(place)]
        assert (problem.code, problem.since is not None) == ("no_event_logs", True)
        (tmp_path / "away").rename(place)
        assert not self.seen(place).is_gone
        assert noting.problems_of([str(place)]) == {}
        assert LogFolder.objects.count() == 1

    def test_a_log_moves_when_it_grows_and_not_by_the_times_in_it(self, tmp_path: Path) -> None:
        place = self.folder(tmp_path)
        os.utime(place / "local-1.inprogress", (1_000, 1_000))
        first = self.seen(place)
        assert first.moved_at == datetime.fromtimestamp(1_000, UTC)
        with (place / "local-1.inprogress").open("ab") as log:
            log.write(logs.progress(0))
        moved = self.seen(place).moved_at
        assert moved is not None
        assert datetime.now(UTC) - moved < timedelta(minutes=1)

    @pytest.mark.parametrize(("hours", "minutes"), [(1, 60), (-1, -60), (0, 0)])
    def test_a_clock_an_hour_apart_is_seen_at_the_next_event_and_times_are_corrected(
        self, tmp_path: Path, hours: int, minutes: int
    ) -> None:
        place = self.folder(tmp_path)
        self.seen(place)
        at = datetime.now(UTC) + timedelta(hours=hours)
        with (place / "local-1.inprogress").open("ab") as log:
            log.write(started_at(at))
        seen = self.seen(place)
        assert round(seen.skew.total_seconds() / 60) == minutes
        assert abs(seen.run.started_ms / 1000 - datetime.now(UTC).timestamp()) < 60

    def test_what_is_read_in_parts_tells_nothing_of_a_clock(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        place = self.folder(tmp_path)
        self.seen(place)
        monkeypatch.setattr(tailing, "AT_ONCE", 1)
        with (place / "local-1.inprogress").open("ab") as log:
            log.write(logs.progress(0) + logs.progress(1))
        tailing.catch_up(str(place), seconds=0.0)
        EventLog.objects.update(mtime_ms=None)
        assert self.seen(place).skew == timedelta()

    def test_half_a_line_is_known_and_read_once_it_is_whole(self, tmp_path: Path) -> None:
        place, line = self.folder(tmp_path), logs.progress(7)
        with (place / "local-1.inprogress").open("ab") as log:
            log.write(line[:50])
        seen = self.seen(place)
        assert (seen.is_half, seen.run.last_batch) == (True, None)
        with (place / "local-1.inprogress").open("ab") as log:
            log.write(line[50:])
        seen = self.seen(place)
        assert (seen.is_half, seen.run.last_batch) == (False, 7)


@pytest.mark.django_db
def test_a_log_that_breaks_its_reader_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("local-1", "local-2"):
        (tmp_path / name).write_bytes(b"".join([*logs.started(), logs.query_started()]))
    whole = tailing.read_on

    def broken(folder: str, log: ListedEventLog, tail: LogProgress, **more: Any) -> tuple[LogProgress, bool]:
        if log.name == "local-1":
            raise RecursionError
        return whole(folder, log, tail, **more)

    monkeypatch.setattr(tailing, "read_on", broken)
    assert tailing.catch_up(str(tmp_path))
    rows = {row.name: bool(row.tail["problem"]) for row in EventLog.objects.all()}
    assert rows == {"local-1": True, "local-2": False}


def started_at(at: datetime) -> bytes:
    """A run of the query that begins at this time."""
    told = {"id": logs.QUERY, "runId": "later", "name": "orders", "timestamp": at.isoformat()}
    return logs.line({"Event": logs.LISTENER + "QueryStartedEvent", **told})


def test_what_a_page_does_runs_no_command() -> None:
    with running.never_run():
        assert not running.may_run()
    assert running.may_run()


def test_files_of_a_rolling_log_that_were_cleaned_up_unread_are_counted(tmp_path: Path) -> None:
    from recovery.eventlogs.folders import LogProgress, list_logs, read_on

    folder = tmp_path / "eventlog_v2_local-1"
    folder.mkdir()
    (folder / "events_1_local-1").write_bytes(b"".join([*logs.started(), logs.query_started()]))
    log = list_logs(str(tmp_path))[0]
    tail, _ = read_on(str(tmp_path), log, LogProgress(), most_lines=100)
    (folder / "events_1_local-1").unlink()
    (folder / "events_4_local-1").write_bytes(logs.progress(9))
    tail, _ = read_on(str(tmp_path), log, tail, most_lines=100)
    assert (tail.missed, tail.app.runs[0].last_batch) == (2, 9)
    later: dict[str, Any] = tail.as_json()
    assert later["missed"] == 2
