"""The step that puts a seed into place starts every source where the sealed plan says, or changes nothing."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from recovery.checkpoints import inspect_checkpoint, list_versions
from recovery.checkpoints.report import CheckpointReport
from recovery.checkpoints.seed import SourceStart
from recovery.contracts import codec
from recovery.contracts.readers import SourceReader
from recovery.contracts.results import SeedResult
from recovery.errors import Refused
from recovery.models import Recovery, Step
from recovery.sources.replaying import ProcessedInput
from recovery.spark.api import Rehearsal, Study
from recovery.workflow.beat import Watch
from recovery.workflow.moves import claim
from recovery.workflow.steps import seed
from recovery.workflow.steps.base import Context
from tests.checkpoint_builder import Built, sink_log
from tests.factories.plans import plan_body, planned_position
from tests.refusals import refused
from tests.unit.checkpoints.test_starts import KAFKA, entry, line, uri
from tests.unit.workflow.rows import plan, recovery

pytestmark = pytest.mark.django_db


@pytest.fixture
def row(tmp_path: Path) -> Recovery:
    """A recovery whose seed is next, over a checkpoint of two file sources; its plan keeps both positions."""
    made = recovery("running")
    pipeline = made.flow.pipeline
    pipeline.spec = {"storage": str(tmp_path)}
    pipeline.save()
    place = tmp_path / "_checkpoints/spark_catalog/shop/changes" / made.flow.short
    Built(place / "0", batches=3, planned=1, sources=2).write()
    sink_log(tmp_path / "table", 2)
    sealed = plan(made, "seed", "rerun", "verify")
    report = inspect_checkpoint(str(place), sink=str(tmp_path / "table"))
    sealed.body = plan_body(
        table_place=str(tmp_path / "table"),
        checkpoint_place=str(place),
        positions=[planned_position(s.offset_json, s.index) for s in report.sources],
        preconditions={"checkpoint": {"fingerprint": report.fingerprint}},
    )
    sealed.save()
    return Recovery.objects.select_related("flow__pipeline__workspace").get(pk=made.pk)


def claimed(row: Recovery, **args: Any) -> Context:
    step: Step = row.steps.get(kind="seed")
    Step.objects.filter(pk=step.pk).update(args=args)
    mine = claim(step.pk, step.fence, worker="w", deadline=timezone.now() + timedelta(minutes=5))
    assert mine is not None
    return Context(mine, Watch(mine))


def place(row: Recovery) -> str:
    return row.plans.get().contents.checkpoint_place


CHOSEN = [
    SourceStart(1, 0, line(1), again=(uri(0, 2),)),
    SourceStart(0, None, KAFKA),
    SourceStart(2, 1, line(3), skip=(entry(1, 3, 3),)),
]


@pytest.mark.parametrize(
    ("args", "offsets"),
    [
        ({}, [line(2), line(2)]),
        ({"starts": None, "watermark_ms": None, "state": None}, [line(2), line(2)]),
        ({"starts": []}, [line(2), line(2)]),
        (
            {"starts": [codec.to_json(s.to_args()) for s in CHOSEN], "watermark_ms": 5},
            [KAFKA, line(1), line(3)],
        ),
    ],
    ids=["positions of the plan", "said to be none", "none", "chosen ones"],
)
def test_the_seed_stands_where_the_sealed_plan_says(
    row: Recovery, args: dict[str, Any], offsets: list[str]
) -> None:
    context = claimed(row, **args)
    result = seed.run(context)
    assert (result.version, result.from_version, [*result.offsets]) == (1, 0, offsets)
    found = inspect_checkpoint(place(row))
    assert [s.offset_json for s in found.sources] == offsets
    assert found.findings == () or {f.code for f in found.findings} == {"SOURCE_KEPT"}
    probed = seed.probe(context.step)
    assert probed.outcome == "done"
    assert probed.result == result
    context.step.refresh_from_db()
    said = " ".join(text for _, text in context.step.log)
    moved = bool(args.get("starts"))
    assert ("reads 1 file again" in said, "skips 1 file." in said, "watermark is set to" in said) == (
        moved,
    ) * 3


@pytest.fixture
def crashed(row: Recovery, tmp_path: Path) -> Recovery:
    """The same flow, whose very first batch was planned and finished nowhere."""
    version = Path(place(row)) / "0"
    for name in ("offsets", "commits", "sources", "state"):
        shutil.rmtree(version / name)
    Built(version, batches=0, planned=1, sources=2).write()
    sealed = row.plans.get()
    fingerprint = inspect_checkpoint(place(row)).fingerprint
    (tmp_path / "new").mkdir()
    sealed.body = plan_body(
        table_place=str(tmp_path / "new"),
        checkpoint_place=place(row),
        preconditions={"checkpoint": {"fingerprint": fingerprint}},
    )
    sealed.save()
    return row


def test_where_nothing_was_committed_the_next_version_begins_with_batch_0(crashed: Recovery) -> None:
    context = claimed(crashed, action="begin", from_version=0, sources=[0, 1])
    result = seed.run(context)
    assert result == SeedResult(version=1, from_version=0, query_id=result.query_id)
    probed = seed.probe(context.step)
    assert probed.outcome == "done"
    assert probed.result == result
    assert [p.name for p in (Path(place(crashed)) / "1").iterdir()] == ["metadata"]


def test_a_flow_that_has_committed_does_not_begin_again(row: Recovery) -> None:
    with refused("not_the_first_batch", Refused):
        seed.run(claimed(row, action="begin", from_version=0, sources=[0, 1]))
    assert list_versions(place(row)) == [0]


def test_state_from_a_rehearsal_is_carried_over(row: Recovery, tmp_path: Path) -> None:
    Built(tmp_path / "scratch", batches=1).write()
    where = [codec.to_json(SourceStart(n, n, line(2)).to_args()) for n in (0, 1)]
    seed.run(claimed(row, starts=where, state=str(tmp_path / "scratch")))
    assert [o.version for o in inspect_checkpoint(place(row)).state_operators] == [3]


class Replayed:
    """A pipelines side that replays: what it was asked, and the checkpoint that it leaves."""

    def __init__(self, patch: pytest.MonkeyPatch, found: Rehearsal) -> None:
        self.found, self.asked = found, []  # type: ignore[var-annotated]
        patch.setattr(seed, "_reviewed", lambda context: SimpleNamespace(code={}, noted={}, storage="/s"))
        patch.setattr(seed, "request_for", lambda *_: "the code")
        patch.setattr(seed, "study", lambda request: Study(sources=(SourceReader(path="/in"),)))
        patch.setattr(seed, "processed_until", self.processed)
        patch.setattr(seed, "replaying_processed", self.replay)
        self.gap: Refused | None = None

    def processed(self, report: CheckpointReport, sources: object, noted: object) -> ProcessedInput:
        if self.gap:
            raise self.gap
        self.asked.append((report.last_committed, sources))
        return ProcessedInput(files=("a",))

    @contextmanager
    def replay(self, request: object, held: ProcessedInput, *_: object, **how: object) -> Iterator[Rehearsal]:
        self.asked.append((request, held.files, how["purpose"]))
        yield self.found


def test_a_rebuild_replays_what_was_processed_and_takes_its_state(
    row: Recovery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Built(tmp_path / "scratch", batches=2).write()
    side = Replayed(monkeypatch, Rehearsal(checkpoint=str(tmp_path / "scratch")))
    before = inspect_checkpoint(place(row))
    seed.run(claimed(row, state="rebuild"))
    after = inspect_checkpoint(place(row))
    assert side.asked == [(2, (SourceReader(path="/in"),)), ("the code", ("a",), f"seed-{row.label}-1")]
    assert [o.version for o in after.state_operators] == [3]
    assert (after.closed_ms, after.watermark_ms) == (before.closed_ms, before.watermark_ms)
    assert [s.offset_json for s in after.sources] == [s.offset_json for s in before.sources]


@pytest.mark.parametrize(
    ("found", "gap", "code"),
    [
        (Rehearsal(problem="Spark is gone."), None, "replay_failed"),
        (Rehearsal(), Refused("A file is gone.", code="replay_input_gone"), "replay_input_gone"),
    ],
    ids=["it failed", "input is gone since the seal"],
)
def test_a_replay_that_cannot_be_made_leaves_the_checkpoint_alone(
    row: Recovery, monkeypatch: pytest.MonkeyPatch, found: Rehearsal, gap: Refused | None, code: str
) -> None:
    side = Replayed(monkeypatch, found)
    side.gap = gap
    with refused(code, Refused):
        seed.run(claimed(row, state="rebuild"))
    assert list_versions(place(row)) == [0]


@pytest.mark.parametrize(
    ("args", "error", "words"),
    [
        (
            {"starts": [codec.to_json(SourceStart(0, 0, line(2), again=(uri(0, 3),)).to_args())]},
            Refused,
            "is not in its log",
        ),
        ({"state": "nowhere"}, Exception, "nowhere"),
    ],
)
def test_what_does_not_fit_the_checkpoint_as_it_is_changes_nothing(
    row: Recovery, args: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        seed.run(claimed(row, **args))
    assert list_versions(place(row)) == [0]


def test_a_seed_that_reads_back_otherwise_than_sealed_is_said(row: Recovery) -> None:
    sealed = row.plans.get()
    sealed.body["positions"] = sealed.body["positions"][:1]
    type(sealed).objects.filter(pk=sealed.pk).update(body=sealed.body)
    with refused("not_as_sealed", Refused):
        seed.run(claimed(row))
