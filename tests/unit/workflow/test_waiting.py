"""What waits is counted on disk where that can be done, and else said to be unknown, with the reason."""

import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recovery.checkpoints import inspect_checkpoint
from recovery.contracts.readers import SourceReader
from recovery.models import Flow
from recovery.pipelines.inputs import note_sources
from recovery.workflow import waiting as room
from recovery.workflow.waiting import read_waiting_files
from tests import factories as f
from tests.checkpoint_builder import STARTED_MS, Built

pytestmark = pytest.mark.django_db


def flow_at(root: Path, number: int = 1, **progress: Any) -> Flow:
    """Three committed files a source; the folders hold them and `late` ones."""
    owner = f.pipeline(spec={"storage": (root / "storage").as_uri()})
    described = [{"description": f"FileStreamSource[file:{root}/in{n}]"} for n in range(number)]
    flow = f.failed_flow(owner, last_progress={"sources": described, **progress})
    place = root / "storage/_checkpoints" / flow.dataset.replace(".", "/") / flow.short / "0"
    Built(place, sources=number, folder=f"{root}/in").write()
    for n in range(number):
        (root / f"in{n}").mkdir()
        for part in range(3):
            file = root / f"in{n}" / f"part {part:06d}.json"
            file.write_text("{}")
            seconds = STARTED_MS // 1000 + part  # as the log says: it was not written again
            os.utime(file, (seconds, seconds))
    return flow


@pytest.mark.parametrize("sources", [1, 2])
def test_files_that_no_committed_batch_holds_wait(tmp_path: Path, sources: int) -> None:
    flow = flow_at(tmp_path, sources)
    for number in range(4):
        (tmp_path / "in0" / f"late{number}.json").write_text("12345")
    (tmp_path / "in0" / "_not_input").write_text("12345")
    found = read_waiting_files(flow)
    assert (found.files, found.size, found.read, found.gone, found.why) == (4, 20, 3 * sources, 0, "")


@pytest.mark.parametrize(
    ("options", "problem", "files", "filtered"),
    [
        ({"pathGlobFilter": "*.json"}, "", 1, True),
        ({}, "", 2, True),
        ({"pathGlobFilter": "*.json"}, "It cannot be parsed.", 2, False),
    ],
)
def test_the_filters_of_the_code_are_applied_where_it_was_studied(
    tmp_path: Path, options: dict[str, str], problem: str, files: int, *, filtered: bool
) -> None:
    flow = flow_at(tmp_path)
    for name in ("late.json", "late.tmp"):
        (tmp_path / "in0" / name).write_text("12345")
    note_sources(flow, [SourceReader("json", str(tmp_path / "in0"), options=options)])
    flow.code_problem = problem
    found = read_waiting_files(flow)
    assert (found.files, found.filtered) == (files, filtered)


def test_without_studied_code_no_filter_is_applied(tmp_path: Path) -> None:
    assert read_waiting_files(flow_at(tmp_path)).filtered is False


def test_nothing_waits_is_a_number_too_and_what_is_gone_is_counted(tmp_path: Path) -> None:
    flow = flow_at(tmp_path)
    (tmp_path / "in0" / "part 000001.json").unlink()
    found = read_waiting_files(flow)
    assert (found.files, found.read, found.gone) == (0, 2, 1)


@pytest.mark.parametrize(
    ("progress", "why"),
    [
        ({"sources": []}, "No recorded batch shows"),
        ({"sources": "?"}, "No recorded batch shows"),
        ({"sources": [{"description": "KafkaV2[Subscribe[orders]]"}]}, "No recorded batch shows"),
        ({"sources": [{"description": "FileStreamSource[file:/no/such/place]"}]}, "does not exist"),
    ],
)
def test_what_cannot_be_known_is_no_number_and_says_why(
    tmp_path: Path, progress: dict[str, Any], why: str
) -> None:
    found = read_waiting_files(flow_at(tmp_path, **progress))
    assert found.files is None
    assert why in found.why


def test_what_is_no_file_is_not_listed_and_it_is_said_where_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = flow_at(tmp_path)
    report = inspect_checkpoint(
        str(tmp_path / "storage/_checkpoints" / flow.dataset.replace(".", "/") / flow.short / "0")
    )
    topic = replace(report, sources=(replace(report.sources[0], kind="kafka"),))
    monkeypatch.setattr("recovery.workflow.waiting.inspect_checkpoint", lambda place: topic)

    assert (
        read_waiting_files(flow).why == "Only files are listed here. For any other source, see Unread input."
    )


def test_a_storage_that_nobody_names_is_said(tmp_path: Path) -> None:
    assert "names no storage root" in read_waiting_files(f.failed_flow(f.pipeline(spec={}))).why


def test_a_checkpoint_that_is_away_is_said(tmp_path: Path) -> None:
    assert (
        read_waiting_files(f.failed_flow(f.pipeline(spec={"storage": f"file:{tmp_path}/away"}))).files is None
    )


def test_a_slow_listing_does_not_hold_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    monkeypatch.setattr(room, "list_files", lambda path, options: (answered.wait(10), ())[1])
    found = read_waiting_files(flow_at(tmp_path), seconds=0.05)
    answered.set()
    assert found.files is None
    assert "longer than" in found.why
