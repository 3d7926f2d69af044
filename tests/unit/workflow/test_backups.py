"""A backup is whole or none, and stays until its recovery has ended and was signed off."""

from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from recovery.contracts import codec
from recovery.contracts.results import TableBackupResult
from recovery.errors import Denied, NotFound, OutcomeUnknown, Refused, RepriseError
from recovery.models import AuditEntry, Recovery, ReviewItem, SignOff, Step
from recovery.spark.backups import BackupRefusal, RestoreAnswer
from recovery.workflow import backup_actions, backups
from tests.checkpoint_builder import Built
from tests.refusals import refused
from tests.unit.sinks.test_delta_commits import commit
from tests.unit.workflow.rows import RESPONDER, VIEWER, plan, recovery

pytestmark = pytest.mark.django_db


def kept(place: Path, rows: int = 3) -> TableBackupResult:
    return TableBackupResult(
        place=str(place), rows_folder=f"{place}/rows-1", table="c.s.t", version=4, rows=rows, digest="d",
        columns=("n",), key=("n",), files=1, bytes=9, at="2026-11-24T00:00:00+00:00",
    )  # fmt: skip


def made(tmp_path: Path, state: str = "succeeded") -> tuple[Recovery, Path]:
    """A recovery that has ended, with its backup."""
    of = recovery(state, active=state == "needs_attention")
    place = tmp_path / "_backups" / of.label
    (place / "rows-1").mkdir(parents=True)
    (place / "rows-1" / "part-0.parquet").write_bytes(b"123456789")
    backups.write_manifest(kept(place), attempt=1)
    plan(of, "table-backup")
    of.steps.update(state="done", result=codec.to_json(kept(place)))
    return of, place


@pytest.mark.parametrize(
    ("rerun", "fill", "state", "is_unfilled"),
    [
        ({"update_id": "u-1"}, "failed", "needs_attention", True),
        ({"update_id": "u-1"}, "pending", "failed", True),
        ({}, "pending", "needs_attention", False),
        ({"update_id": "u-1"}, "done", "succeeded", False),
        ({"update_id": "u-1"}, "failed", "rolled_back", False),
        ({"newest_before": None, "unnoted": True}, "pending", "needs_attention", True),
    ],
)
def test_a_table_that_was_emptied_and_not_filled_is_known(
    tmp_path: Path, rerun: dict[str, str], fill: str, state: str, is_unfilled: bool
) -> None:
    """What a further backfill would keep is then a table without these rows."""
    of, place = made(tmp_path, state)
    plan_of = of.plans.get()
    for number, (kind, as_it_is, result) in enumerate(
        (("rerun", "done", rerun), ("fill", fill, {})), start=2
    ):
        Step.objects.create(
            recovery=of, plan=plan_of, ordinal=number, kind=kind, idempotency_key=f"k-{number}", state=as_it_is,
            result=result,
        )  # fmt: skip
    assert backups.find_unfilled(of.flow) == (of.label if is_unfilled else "")
    backups.clear(str(place))
    assert backups.find_unfilled(of.flow) == ""


QUERY_ID = "5b1e0c2a-77d4-4c0f-9a53-2f6d81a0b6c7"
QUERY = {"txn": {"appId": QUERY_ID, "version": 0}}
ADDED = {"add": {"path": "a", "size": 1, "modificationTime": 1, "dataChange": True, "partitionValues": {}}}
REMOVED = {"remove": {"path": "a", "dataChange": True}}
TRUNCATE = {"commitInfo": {"operation": "TRUNCATE"}}


@pytest.mark.parametrize(
    ("commits", "first", "later"),
    [
        ((), None, None),
        (([QUERY],), None, None),
        (([ADDED],), 5, 5),
        (([QUERY, ADDED],), 5, None),  # an ordinary update before the refresh: the backup lacks its rows
        (([TRUNCATE, REMOVED], [QUERY, ADDED]), 5, None),
        (([TRUNCATE, REMOVED], [QUERY, ADDED], [ADDED, REMOVED]), 5, 7),
    ],
)
def test_no_update_starts_on_a_table_that_holds_what_its_backup_lacks(
    tmp_path: Path, commits: tuple[list[dict[str, Any]], ...], first: int | None, later: int | None
) -> None:
    """`first`, `later`: the version that is refused before any update of the plan, and after one that may have run."""
    of, _ = made(tmp_path, "needs_attention")
    sealed, table, checkpoint = of.plans.get(), tmp_path / "table", tmp_path / "checkpoint"
    table.mkdir()
    for version, actions in enumerate(
        ([{"protocol": {}}, {"metaData": {"id": "t"}}], [], [], [], [], *commits)
    ):
        commit(table, version, *actions)
    Built(checkpoint / "0", query_id=QUERY_ID).write()
    sealed.body |= {"table_place": str(table), "checkpoint_place": str(checkpoint)}
    sealed.save()
    for may_have_run, version_refused in ((False, first), (True, later)):
        if version_refused is None:
            backups.refuse_moved_table(sealed, may_have_run=may_have_run)
            continue
        with refused("written_by_others", names=(str(version_refused),)):
            backups.refuse_moved_table(sealed, may_have_run=may_have_run)


GONE = RestoreAnswer(problem="FILE_NOT_FOUND")
MOVED = RestoreAnswer(refused=BackupRefusal.ELSEWHERE)
OTHER = RestoreAnswer(refused=BackupRefusal.DIFFERS)


@pytest.mark.parametrize(
    ("answer", "compared", "code", "outcome"),
    [
        (GONE, False, "files_gone", Refused),
        (GONE, True, "files_gone", Refused),
        (MOVED, False, "elsewhere", Refused),
        (MOVED, True, "elsewhere", Refused),  # Spark looked before it wrote: the outcome is known
        (OTHER, True, "not_as_kept", OutcomeUnknown),
    ],
)
def test_a_table_that_spark_did_not_put_back_is_no_unknown_outcome(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: RestoreAnswer,
    compared: bool,
    code: str,
    outcome: type[RepriseError],
) -> None:
    of, place = made(tmp_path)
    monkeypatch.setattr(backups, "questions_service", lambda *which: None)
    monkeypatch.setattr(backups, "restore", lambda request: answer)
    with refused(code, outcome, names=(place,) if compared and answer is not MOVED else ()):
        backups.ask_restore(of.flow, of.plans.get().contents, 4, kept=kept(place) if compared else None)


def test_a_folder_without_a_manifest_is_no_backup(tmp_path: Path) -> None:
    (tmp_path / "rows-1").mkdir()
    assert backups.read_manifest(str(tmp_path)) is None
    backups.write_manifest(kept(tmp_path), attempt=2)
    assert backups.read_manifest(str(tmp_path)) == kept(tmp_path)
    backups.write_manifest(kept(tmp_path, rows=5), attempt=3)
    assert backups.read_manifest(str(tmp_path)) == kept(tmp_path, rows=5)


def test_a_manifest_that_something_else_wrote_is_refused(tmp_path: Path) -> None:
    (tmp_path / backups.MANIFEST).write_text("{}")
    with refused("not_as_kept"):
        backups.read_manifest(str(tmp_path))


def test_a_backup_is_listed_and_removed_once_its_recovery_has_ended(tmp_path: Path) -> None:
    of, place = made(tmp_path)
    assert [(b.recovery, b.is_there, b.stays) for b in backup_actions.list_backups(RESPONDER)] == [
        (of.label, True, "")
    ]
    removed = backup_actions.remove_backups(recovery_id=of.pk, by=RESPONDER, reason="signed off")
    assert removed == [str(place)]
    assert not place.exists()
    assert backup_actions.list_backups(RESPONDER) == []
    assert AuditEntry.objects.filter(action="backup.remove", outcome="done", recovery=of.label).exists()
    with pytest.raises(NotFound):
        backup_actions.remove_backups(recovery_id=of.pk, by=RESPONDER, reason="again")


def test_a_backup_stays_while_its_recovery_is_open_or_waits_to_be_signed_off(tmp_path: Path) -> None:
    of, place = made(tmp_path, "needs_attention")
    with refused("backup_stays"):
        backup_actions.remove_backups(recovery_id=of.pk, by=RESPONDER, reason="too early")
    Recovery.objects.filter(pk=of.pk).update(state="succeeded", active=False)
    entry = AuditEntry.objects.filter(recovery=of.label).latest("seq")
    item = ReviewItem(seq=entry.seq, why="production", at=timezone.now())
    item.save(force_insert=True)
    with refused("backup_stays"):
        backup_actions.remove_backups(recovery_id=of.pk, by=RESPONDER, reason="not signed")
    SignOff(item=item, by="eve", note="seen", at=timezone.now()).save(force_insert=True)
    assert backup_actions.remove_backups(recovery_id=of.pk, by=RESPONDER, reason="signed") == [str(place)]


@pytest.mark.parametrize("state", ["pending", "running", "unknown", "failed"])
def test_a_backup_stays_while_a_rollback_may_need_it(tmp_path: Path, state: str) -> None:
    of, _ = made(tmp_path)
    Step.objects.create(recovery=of, ordinal=2, kind="rollback", idempotency_key="k", state=state)
    with refused("backup_stays"):
        backup_actions.remove_backups(recovery_id=of.pk, by=RESPONDER, reason="done")


def test_the_only_copy_of_rows_stays(tmp_path: Path) -> None:
    """The table was emptied, nothing was filled back, and the recovery has ended all the same."""
    of, _ = made(tmp_path, "failed")
    Step.objects.create(
        recovery=of, plan=of.plans.get(), ordinal=2, kind="rerun", idempotency_key="k", state="failed",
        result={"update_id": "u-1"},
    )  # fmt: skip
    with refused("backup_stays"):
        backup_actions.remove_backups(recovery_id=of.pk, by=RESPONDER, reason="done")


def test_only_who_may_reset_removes_one_and_with_a_reason(tmp_path: Path) -> None:
    of, place = made(tmp_path)
    with pytest.raises(Denied):
        backup_actions.remove_backups(recovery_id=of.pk, by=VIEWER, reason="because")
    with pytest.raises(Refused):
        backup_actions.remove_backups(recovery_id=of.pk, by=RESPONDER, reason=" ")
    assert place.exists()
