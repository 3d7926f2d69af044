"""A backup is whole or none, and stays until its recovery has ended and was signed off."""

from pathlib import Path

import pytest
from django.utils import timezone

from recovery.contracts import codec
from recovery.contracts.results import TableBackupResult
from recovery.errors import Denied, NotFound, Refused
from recovery.models import AuditEntry, Recovery, ReviewItem, SignOff, Step
from recovery.workflow import backup_actions, backups
from tests.refusals import refused
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
        (of, True, "")
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


def test_only_who_may_reset_removes_one_and_with_a_reason(tmp_path: Path) -> None:
    of, place = made(tmp_path)
    with pytest.raises(Denied):
        backup_actions.remove_backups(recovery_id=of.pk, by=VIEWER, reason="because")
    with pytest.raises(Refused):
        backup_actions.remove_backups(recovery_id=of.pk, by=RESPONDER, reason=" ")
    assert place.exists()
