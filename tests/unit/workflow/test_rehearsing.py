"""What a plan counts by rehearsals, and which of them it makes: each takes as long as an update."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from recovery.pipelines import locks
from recovery.spark.api import Rehearsal, RehearsalRequest, Study, StudyRequest
from recovery.spark.asking import Service
from recovery.workflow import rehearsing
from recovery.workflow.inputs import CountRequest

STUDY = StudyRequest(
    Service("http://pipelines:8100", ""), {}, "", (), {}, "spark_catalog", "default", "c.s.flow"
)
SUMS = Study(operators=("stateStoreSave",), table_rows=30)
WANTED = CountRequest({"waiting": ("a", "b"), "everything": ("a", "b")}, {})
APART = CountRequest({"unread": ("b",)}, {})
LATE = Rehearsal(rows=5, late=2, later=0)


def counted(
    patch: pytest.MonkeyPatch, answers: dict[str, Rehearsal], **changes: Any
) -> tuple[Any, Sequence[str]]:
    """The counts, and which rehearsals were made: `label@watermark`."""
    asked = []

    def rehearse(request: RehearsalRequest) -> Rehearsal:
        label = next(iter(request.study.sets))
        assert request.scratch == f"file:///s/_rehearsals/c.s.flow-forecast-{label}"
        asked.append(f"{label}@{request.watermark_ms}")
        return answers[label]

    patch.setattr(rehearsing, "rehearse", rehearse)
    patch.setattr(rehearsing.scratch, "clear_scratch", lambda place: None)

    def request(of: CountRequest) -> StudyRequest:
        return StudyRequest(**{**vars(STUDY), "sets": of.sets, "slices": of.slices})

    given: dict[str, Any] = {"told": SUMS, "wanted": WANTED, "apart": APART, **changes}
    found = rehearsing.count_or_rehearse(
        **given, request=request, storage="file:///s", watermark_ms=8000, conf={}
    )
    return found, asked


# what came out of the first rehearsal -> whether what was never read is rehearsed apart, and what is said of it
APARTS: dict[str, tuple[Rehearsal, int | None]] = {
    "rows came late": (LATE, 1),
    "none came late": (Rehearsal(rows=5, late=0, later=0), None),
    "some behind a later watermark": (Rehearsal(rows=5, late=2, later=1), None),
    "an estimate": (Rehearsal(rows=5, late=2, later=0, why="one large batch"), None),
}


@pytest.mark.parametrize(("first", "late"), APARTS.values(), ids=APARTS.keys())
def test_what_was_never_read_is_rehearsed_apart_where_that_can_tell_what_is_lost(
    monkeypatch: pytest.MonkeyPatch, first: Rehearsal, late: int | None
) -> None:
    answers = {"waiting": first, "everything": Rehearsal(rows=9, late=0), "unread": Rehearsal(rows=1, late=1)}
    found, asked = counted(monkeypatch, answers)
    assert asked == ["waiting@8000", "everything@None", *(["unread@8000"] if late is not None else [])]
    assert (found.waiting, found.everything, found.table, found.rehearsed) == (5, 9, 30, True)
    assert (found.rehearsed_late, found.rehearsed_later) == (first.late, first.later)
    assert (found.unread_late, found.rehearsed_why) == (late, first.why)


NOT_TOLD: dict[str, tuple[dict[str, Any], Rehearsal]] = {
    "not wanted": ({"apart": CountRequest({}, {})}, Rehearsal(rows=1, late=0)),
    "it failed": ({}, Rehearsal(problem="Spark is gone.")),
}


@pytest.mark.parametrize(("changes", "unread"), NOT_TOLD.values(), ids=NOT_TOLD.keys())
def test_without_that_rehearsal_nothing_is_said_of_what_was_never_read(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], unread: Rehearsal
) -> None:
    answers = {"waiting": LATE, "everything": Rehearsal(rows=9, why="one large batch"), "unread": unread}
    found, _ = counted(monkeypatch, answers, **changes)
    assert (found.waiting, found.everything, found.unread_late) == (5, None, None)


def test_code_whose_rows_a_batch_can_count_is_not_rehearsed(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Study(operators=(), rows={"waiting": 4, "everything": 8})
    found, asked = counted(monkeypatch, {}, told=plain)
    assert (asked, found.rehearsed, found.waiting) == ([], False, 4)


def test_a_rehearsal_that_failed_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = Rehearsal(problem="The input could not be copied.")
    found, _ = counted(monkeypatch, {"waiting": failed, "everything": failed})
    assert (found.rehearsed, found.waiting, found.everything, found.table) == (False, None, None, 30)


def test_a_rehearsal_waits_for_another_one_in_its_folder(
    monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path
) -> None:
    """Two plans of one flow at once: the first to end removed what the other was reading."""
    settings.REPRISE_HOME = tmp_path
    monkeypatch.setattr(locks, "connection", SimpleNamespace(vendor="sqlite"))
    inside, most = [], []

    def rehearse(request: RehearsalRequest) -> Rehearsal:
        inside.append(request.scratch)
        most.append(len(inside))
        wait.wait(0.2)
        inside.remove(request.scratch)
        return LATE

    wait = Event()
    monkeypatch.setattr(rehearsing, "rehearse", rehearse)
    monkeypatch.setattr(rehearsing.scratch, "clear_scratch", lambda place: None)

    def once(_: int) -> Rehearsal:
        with rehearsing.rehearse_flow(
            STUDY, storage="file:///s", purpose="forecast-waiting", watermark_ms=None, conf={}
        ) as found:
            return found

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(once, range(3))) == [LATE] * 3
    assert most == [1, 1, 1]
