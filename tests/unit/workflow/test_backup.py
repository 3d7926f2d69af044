"""What is about to be changed is kept first, as sealed; a rollback puts back what the workspace has lost."""

import base64
import hashlib
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from recovery.audit.evidence import _list_other_rows
from recovery.checkpoints import inspect_checkpoint, publishing, seed
from recovery.contracts.measured import Measured
from recovery.contracts.results import RollbackResult, VerifyResult
from recovery.errors import NotFound, OutcomeUnknown
from recovery.models import KeptFile, Recovery, Step, Workspace
from recovery.workflow import actions, broker, engine, tasks
from recovery.workflow.beat import FenceLost, Watch
from recovery.workflow.moves import claim
from recovery.workflow.steps import backup, patch, rollback
from recovery.workflow.steps.base import Context
from tests.checkpoint_builder import Built, sink_log
from tests.factories.plans import plan_body
from tests.refusals import refused
from tests.unit.pipelines.stub import Answer, Asked, serving
from tests.unit.workflow.rows import RESPONDER, plan, recovery

pytestmark = pytest.mark.django_db
OLD, NEW, HELPER = "old = 1\n", "new = 2\n", b"\xef\xbb\xbfhelp = 3\r\n"
CODE, OTHER = "/Users/a/flow.py", "/Users/a/helper.py"


class Files:
    """The workspace API of an idle pipeline; `files` is what it holds."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {CODE: OLD.encode(), OTHER: HELPER}
        self.written: list[str] = []

    def __call__(self, asked: Asked) -> Answer:
        what = asked.path.removeprefix("/api/2.0/")
        path = (asked.body or asked.query).get("path", "")
        if what.startswith("pipelines/"):
            return Answer(body={"pipeline_id": "p-0", "latest_updates": [], "spec": {}})
        if what == "workspace/import":
            self.files[path] = base64.b64decode(asked.body["content"])
            self.written.append(path)
        elif what != "workspace/mkdirs" and path not in self.files:
            return Answer(404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": f"No {path}."})
        content = base64.b64encode(self.files.get(path, b"")).decode()
        return Answer(body={"content": content, "object_type": "FILE", "path": path})


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Iterator[Files]:
    monkeypatch.setenv("NOTHING", "t")
    monkeypatch.setattr(broker, "check", lambda: None)
    for task in (tasks.run_step, tasks.probe_step):
        monkeypatch.setattr(task, "delay", lambda *args: None)
    held = Files()
    with serving(held) as stub:
        held.url = stub.url  # type: ignore[attr-defined]
        yield held


@pytest.fixture
def row(files: Any, tmp_path: Path) -> Recovery:
    """A recovery whose plan patches one file and seeds a real checkpoint; its backup is next."""
    made = recovery("running")
    Workspace.objects.update(url=files.url)
    pipeline = made.flow.pipeline
    pipeline.spec = {"storage": str(tmp_path)}
    pipeline.save()
    place = Path(tmp_path / "_checkpoints/spark_catalog/shop/changes" / made.flow.short)
    Built(place / "0", batches=3, planned=1).write()
    sink_log(tmp_path / "table", 2)
    sealed = plan(made, "backup", "patch", "seed", "rerun", "verify")
    sealed.body |= body(str(place), str(tmp_path / "table"))
    sealed.save()
    return Recovery.objects.select_related("flow__pipeline__workspace").get(pk=made.pk)


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def body(place: str, table: str) -> dict[str, Any]:
    change = {
        "path": CODE,
        "diff": "",
        "before": OLD,
        "after": NEW,
        "before_sha256": sha(OLD.encode()),
        "after_sha256": sha(NEW.encode()),
    }
    fingerprint = inspect_checkpoint(place, sink=table).fingerprint
    return plan_body(
        patch=[change],
        table_place=table,
        checkpoint_place=place,
        preconditions={
            "code": {CODE: sha(OLD.encode()), OTHER: sha(HELPER)},
            "checkpoint": {"fingerprint": fingerprint},
        },
    )


def claimed(step: Step) -> Context:
    mine = claim(step.pk, step.fence, worker="w", deadline=timezone.now() + timedelta(minutes=5))
    assert mine is not None
    return Context(mine, Watch(mine))


def run(row: Recovery) -> Step:
    """The backup, by the engine."""
    step = row.steps.get(kind="backup")
    engine.run_step(step.pk, step.fence)
    step.refresh_from_db()
    return step


def changed(row: Recovery, files: Files) -> str:
    """What patch and seed do after the backup; the place of the checkpoint."""
    made = row.plans.get().body
    files.files[CODE] = NEW.encode()
    ready = seed.prepare_seed(
        made["checkpoint_place"], seed.plan_seed(inspect_checkpoint(made["checkpoint_place"])),
        recovery=row.label, fence=1, guard=lambda: None,
    )  # fmt: skip
    version = publishing.publish_checkpoint(made["checkpoint_place"], ready, guard=lambda: None)
    row.steps.filter(kind__in=("patch", "seed")).update(state="done", result={"version": version})
    row.steps.filter(kind="rerun").update(state="failed")
    Recovery.objects.filter(pk=row.pk).update(state="needs_attention")
    row.refresh_from_db()
    return str(made["checkpoint_place"])


def roll_back(row: Recovery) -> Context:
    return claimed(actions.roll_back(recovery_id=row.pk, by=RESPONDER, reason="wrong code"))


def test_the_source_and_what_the_checkpoint_goes_back_to_are_kept_and_read_back(
    row: Recovery, files: Files
) -> None:
    step = run(row)
    assert step.state == "done"
    assert backup.kept(step) == {CODE: OLD.encode(), OTHER: HELPER}
    point = step.result["checkpoint"]
    assert (point["version"], point["last_committed"]) == (0, 2)
    assert point["fingerprint"] == row.plans.get().body["preconditions"]["checkpoint"]["fingerprint"]
    assert files.written == []
    assert re.findall(r"\d+ [a-z]+", step.log[-1][1])[:2] == ["2 source", "21 bytes"]
    assert row.steps.get(kind="patch").woken_at is not None


@pytest.mark.parametrize(
    ("change", "code", "named"),
    [
        (lambda row, files: files.files.update({OTHER: b"edited"}), "refused", OTHER),
        (lambda row, files: files.files.pop(CODE), "not_found", CODE),
        (
            lambda row, files: (Path(row.plans.get().body["checkpoint_place"]) / "0/offsets/4").write_text(
                "v1\n{}\n"
            ),
            "stale",
            "batch",
        ),
    ],
)
def test_what_is_not_as_sealed_is_not_kept_and_nothing_goes_on(
    row: Recovery, files: Files, change: Callable[[Recovery, Files], object], code: str, named: str
) -> None:
    change(row, files)
    step = run(row)
    assert (step.state, step.problem_code, named in step.problem) == ("failed", code, True), step.problem
    row.refresh_from_db()
    assert (row.state, row.steps.get(kind="patch").woken_at) == ("needs_attention", None)


def test_a_copy_that_reads_back_otherwise_is_not_called_kept(
    row: Recovery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup, "kept", lambda step: {CODE: b"torn"})
    step = run(row)
    assert (step.state, "not read back" in step.problem) == ("failed", True)


def test_source_that_is_too_large_can_be_skipped_with_where_it_is_kept(
    row: Recovery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup, "LARGEST", 10)
    step = run(row)
    assert step.problem_code == "too_large"

    actions.skip_step(recovery_id=row.pk, reason="It is in git, tag v7.", by=RESPONDER)

    row.refresh_from_db()
    assert (row.state, row.steps.get(kind="backup").state) == ("running", "skipped")
    assert row.steps.get(kind="patch").woken_at is not None


def test_a_skipped_backup_stands_in_the_words_of_a_proven_end(row: Recovery) -> None:
    skipped = {"skipped": {"by": "ada", "reason": "It is in git.", "at": "2026-11-21T00:00:00+00:00"}}
    row.steps.filter(kind="backup").update(state="skipped", result=skipped)
    step = row.steps.get(kind="verify")
    Recovery.objects.filter(pk=row.pk).update(state="verifying")
    mine = claim(step.pk, step.fence, worker="w", deadline=timezone.now())
    assert mine is not None
    engine.finish(mine, VerifyResult(measured=Measured(verified=True, criteria=())))
    row.refresh_from_db()
    assert row.state == "succeeded"
    proven, *_ = row.reason.split(". ")
    assert "criterion" in proven
    assert ("skipped by ada" in row.reason, skipped["skipped"]["reason"] in row.reason) == (True, True)


def test_an_attempt_that_died_is_repeated_without_a_second_copy(row: Recovery, files: Files) -> None:
    step = row.steps.get(kind="backup")
    context = claimed(step)
    backup.run(context)
    KeptFile.objects.filter(path=CODE).update(content=b"torn")
    backup.run(context)
    assert KeptFile.objects.count() == 2
    assert backup.kept(context.step)[CODE] == OLD.encode()
    assert backup.probe(step).outcome == "again"


def test_a_worker_whose_step_was_taken_away_keeps_nothing_more(row: Recovery) -> None:
    context = claimed(row.steps.get(kind="backup"))
    Step.objects.filter(pk=context.step.pk).update(fence=9)
    with pytest.raises(FenceLost):
        backup.run(context)
    assert not KeptFile.objects.exists()


def test_a_recovery_that_only_kept_something_has_changed_nothing(row: Recovery) -> None:
    run(row)
    Recovery.objects.filter(pk=row.pk).update(state="needs_attention")
    actions.cancel(recovery_id=row.pk, reason="Not needed.", by=RESPONDER)
    row.refresh_from_db()
    assert row.state == "cancelled"


def test_a_rollback_reads_the_checkpoint_back_as_it_was_kept(row: Recovery, files: Files) -> None:
    run(row)
    place = changed(row, files)
    context = roll_back(row)
    assert rollback.run(context) == RollbackResult(checkpoint=True, files=(CODE,))
    context.step.refresh_from_db()
    said = [text for _, text in context.step.log]
    assert any("version 0, batch 2," in line for line in said)
    assert files.files == {CODE: OLD.encode(), OTHER: HELPER}
    assert inspect_checkpoint(place).version == 0


@pytest.mark.parametrize("state", ["failed", "unknown"])
def test_a_seed_that_ended_badly_after_its_rename_is_undone_as_well(
    row: Recovery, files: Files, state: str
) -> None:
    run(row)
    place = changed(row, files)
    row.steps.filter(kind="seed").update(state=state, result={})
    assert rollback.run(roll_back(row)).checkpoint is True
    assert inspect_checkpoint(place).version == 0


def test_a_seed_of_which_the_disk_shows_nothing_is_no_change(row: Recovery, files: Files) -> None:
    run(row)
    row.steps.filter(kind="seed").update(state="failed", result={})
    Recovery.objects.filter(pk=row.pk).update(state="needs_attention")
    with refused("not_undoable"):
        roll_back(row)


def test_a_rollback_puts_back_what_the_workspace_has_lost(row: Recovery, files: Files) -> None:
    run(row)
    changed(row, files)
    files.files.clear()
    assert rollback.run(roll_back(row)).files == (CODE, OTHER)
    assert files.files == {CODE: OLD.encode(), OTHER: HELPER}


def test_a_rollback_leaves_a_file_alone_that_somebody_has_edited(row: Recovery, files: Files) -> None:
    run(row)
    changed(row, files)
    files.files[OTHER] = b"somebody's work\n"
    rollback.run(roll_back(row))
    assert files.files[OTHER] == b"somebody's work\n"
    files.files[CODE] = b"edited too\n"
    with refused("edited"):
        rollback._write_back(roll_back_context(row), row.plans.get().contents.patch[0], {})


def test_a_file_that_the_workspace_has_lost_is_not_patched(row: Recovery, files: Files) -> None:
    del files.files[CODE]
    step = row.steps.get(kind="patch")
    with refused("not_found", NotFound):
        patch.run(claimed(step))
    assert files.written == []
    probed = patch.probe(step)
    assert (probed.outcome, [line.proven for line in probed.evidence]) == ("unclear", [False])


def roll_back_context(row: Recovery) -> Context:
    step = row.steps.filter(kind="rollback").last()
    assert step is not None
    return Context(step, Watch(step))


def test_a_plan_that_was_sealed_before_there_were_backups_is_rolled_back_from_its_own_text(
    row: Recovery, files: Files
) -> None:
    row.steps.filter(kind="backup").delete()
    changed(row, files)
    del files.files[CODE]
    rollback.run(roll_back(row))
    assert files.files[CODE] == OLD.encode()


def test_a_checkpoint_that_does_not_read_back_as_kept_is_unknown(row: Recovery, files: Files) -> None:
    run(row)
    place = changed(row, files)
    (Path(place) / "0/offsets/4").write_text("v1\n{}\n")
    with refused("not_as_kept", OutcomeUnknown):
        rollback.run(roll_back(row))


def test_a_rollback_that_died_after_the_checkpoint_was_back_finishes_the_source(
    row: Recovery, files: Files
) -> None:
    run(row)
    place = changed(row, files)
    publishing.undo_publish(place, recovery=row.label, sink_head=2)  # and the worker died here
    assert rollback.find_refusal(row) is None
    assert rollback.run(roll_back(row)).files == (CODE,)
    assert files.files[CODE] == OLD.encode()
    assert inspect_checkpoint(place).version == 0


def test_the_evidence_names_the_kept_files_by_their_hash_and_never_holds_their_text(row: Recovery) -> None:
    run(row)
    rows = _list_other_rows(row)["keptfile"]
    assert {r["path"]: r["sha256"] for r in rows} == {CODE: sha(OLD.encode()), OTHER: sha(HELPER)}
    assert all("content" not in r for r in rows)
