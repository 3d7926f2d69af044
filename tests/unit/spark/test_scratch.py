"""A rehearsal from the asker's side: two questions, the checkpoint between them, and what is read back."""

import dataclasses
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from recovery.checkpoints.formats import parse_offsets
from recovery.errors import Refused
from recovery.spark import scratch
from recovery.spark.api import RehearsalRequest, Replay, StudyRequest, WholeInput
from recovery.spark.asking import Service
from tests.refusals import refused

STUDY = StudyRequest(Service("http://nowhere", ""), {}, "", (), {}, "c", "s", "c.s.t")
CONF = {"spark.sql.shuffle.partitions": "7"}


class Child:
    """Answers as the child does, and leaves what Spark leaves."""

    def __init__(self, place: Path, **answers: Any) -> None:
        self.place, self.answers, self.asked = place, answers, []  # type: ignore[var-annotated]

    def __call__(self, question: str, told: Mapping[str, Any], *, seconds: float) -> dict[str, Any]:
        self.asked.append((question, told, seconds))
        if question == "stage" and told["conf"] is None:
            (self.place / "settings/checkpoint/offsets").mkdir(parents=True)
            header = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": CONF})
            (self.place / "settings/checkpoint/offsets/0").write_text(f"v1\n{header}\n-")
        if question == "rehearse":
            self.laid = parse_offsets((self.place / "checkpoint/offsets/0").read_bytes())
            (self.place / "checkpoint/commits").mkdir()
            (self.place / "checkpoint/commits/0").write_text('v1\n{"nextBatchWatermarkMs":9000}')
        found: dict[str, Any] = self.answers[question]
        return found


STAGED = {"cuts": {"0": 2, "1": 0}, "sources": 2, "why": ""}
RAN = {"rows": 5, "late": 1, "batches": 3}


@pytest.mark.parametrize("given", [True, False], ids=["settings are given", "the session's"])
def test_the_query_begins_on_a_checkpoint_with_the_settings_and_the_watermark(
    tmp_path: Path, given: bool
) -> None:
    place = tmp_path / "scratch"
    child = Child(place, stage=STAGED, rehearse=RAN)
    request = RehearsalRequest(STUDY, str(place), 8000, CONF if given else None)
    found = scratch.rehearse_flow(request, timeout=60, ask=child)
    assert found == {
        **RAN,
        "later": None,
        "problem": None,
        "watermark_ms": 9000,
        "output": f"{place}/rows",
        "checkpoint": f"{place}/checkpoint",
        "why": "",
    }
    assert (dict(child.laid.conf), child.laid.watermark_ms) == (CONF, 8000)
    assert [source.offset_json for source in child.laid.sources] == [None, None]
    (_, _, whole), (_, told, rest) = child.asked
    assert whole == 60
    assert told["cuts"] == STAGED["cuts"]
    assert told["seconds"] <= 60
    assert rest == told["seconds"] + scratch.GRACE_SECONDS


@pytest.mark.parametrize(
    ("stage", "ran", "left"), [({"problem": "No."}, RAN, False), (STAGED, {"problem": "No."}, True)]
)
def test_a_failure_is_one_sentence_and_removes_nothing(
    tmp_path: Path, stage: dict[str, Any], ran: dict[str, Any], left: bool
) -> None:
    place = tmp_path / "scratch"
    child = Child(place, stage=stage, rehearse=ran)
    assert scratch.rehearse_flow(RehearsalRequest(STUDY, str(place), conf=CONF), timeout=60, ask=child) == {
        "problem": "No."
    }
    assert (place / "checkpoint/metadata").exists() == left


def test_a_folder_that_is_there_already_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    child = Child(tmp_path)
    with pytest.raises(Refused, match="is there already"):
        scratch.rehearse_flow(RehearsalRequest(STUDY, str(tmp_path), conf=CONF), timeout=60, ask=child)
    assert child.asked == []


def test_sources_with_names_are_not_rehearsed(tmp_path: Path) -> None:
    child = Child(tmp_path)
    request = RehearsalRequest(STUDY, str(tmp_path / "scratch"), conf={scratch.NAMED_SOURCES: "true"})
    assert "have names" in scratch.rehearse_flow(request, timeout=60, ask=child)["problem"]
    assert child.asked == []


def test_only_what_a_rehearsal_leaves_is_cleared(tmp_path: Path) -> None:
    place = tmp_path / "scratch"
    for name in ("input/0/000000", "checkpoint/offsets", "rows"):
        (place / name).mkdir(parents=True)
    (place / "mine").touch()
    with refused("scratch_in_use", Refused, names=("mine",)):
        scratch.clear_scratch(str(place))
    (place / "mine").unlink()
    assert (place / "rows").exists()
    scratch.clear_scratch(str(place))
    assert not place.exists()
    scratch.clear_scratch(str(place))


def test_what_was_processed_is_the_one_batch_that_the_checkpoint_has_planned(tmp_path: Path) -> None:
    """At the watermark of its header; the batch after it begins at that of the flow's own last commit."""
    place = tmp_path / "scratch"
    (place / "input/1/before").mkdir(parents=True)
    (place / "input/1/before/part 0.parquet").write_bytes(b"x")
    (place / "input/1/before/_SUCCESS").touch()
    child = Child(tmp_path / "nowhere", stage={**STAGED, "before": [1]}, replay={"batches": 1}, rehearse=RAN)
    seen: dict[str, Any] = {}

    def ask(question: str, told: Mapping[str, Any], *, seconds: float) -> dict[str, Any]:
        if question == "stage":  # the folder is there once the copy was written
            shutil.copytree(tmp_path / "copied", place / "input")
        if question == "replay":
            seen["laid"] = parse_offsets((place / "checkpoint/offsets/0").read_bytes())
            seen["log"] = (place / "checkpoint/sources/1/0").read_text().splitlines()
            (place / "checkpoint/commits").mkdir()
            (place / "checkpoint/commits/0").write_text('v1\n{"nextBatchWatermarkMs":1}')
        if question == "rehearse":
            (place / "rows/_spark_metadata").mkdir(parents=True)
            (place / "rows/_spark_metadata/1").touch()
            return dict(RAN)
        child.asked.append((question, told, seconds))
        answer: dict[str, Any] = child.answers[question]
        return answer

    shutil.move(place / "input", tmp_path / "copied")
    place.rmdir()
    study = dataclasses.replace(STUDY, sets={"new": ("file:///b",)})
    request = RehearsalRequest(
        study, str(place), 8000, CONF, Replay(WholeInput(("file:///a",)), 9000, first=True)
    )
    found = scratch.rehearse_flow(request, timeout=60, ask=ask)

    assert [question for question, *_ in child.asked] == ["stage", "replay"]
    assert [source.offset_json for source in seen["laid"].sources] == [None, '{"logOffset":0}']
    assert seen["laid"].watermark_ms == 8000
    entry = json.loads(seen["log"][1])
    assert (seen["log"][0], len(seen["log"]), entry["batchId"]) == ("v1", 2, 0)
    assert entry["path"] == f"file://{place}/input/1/before/part%200.parquet"
    assert (found["rows"], found["watermark_ms"]) == (5, 9000)
    assert not (place / "rows/_spark_metadata").exists()


def test_without_further_input_a_replay_is_all_there_is(tmp_path: Path) -> None:
    place = tmp_path / "scratch"
    asked = []

    def ask(question: str, told: Mapping[str, Any], *, seconds: float) -> dict[str, Any]:
        asked.append(question)
        if question == "replay":
            (place / "checkpoint/commits").mkdir()
            (place / "checkpoint/commits/0").write_text('v1\n{"nextBatchWatermarkMs":1}')
            return {"batches": 1}
        return {**STAGED, "before": []}

    request = RehearsalRequest(STUDY, str(place), None, CONF, Replay(WholeInput()))
    found = scratch.rehearse_flow(request, timeout=60, ask=ask)
    assert (asked, found["rows"], found["watermark_ms"]) == (["stage", "replay"], None, None)
