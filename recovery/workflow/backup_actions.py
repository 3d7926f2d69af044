"""The door by which a backup of a table is removed, and the list of those that are there."""

from typing import Final

from django.db.models import Exists, OuterRef

from recovery.contracts.results import ListedBackup, TableBackupResult
from recovery.errors import NotFound, Refused, RepriseError
from recovery.models import AuditEntry, Recovery, ReviewItem, Step
from recovery.people import visible
from recovery.people.roles import Actor, Right
from recovery.workflow import backups
from recovery.workflow.journal import trying
from recovery.workflow.moves import lock

SHOWN: Final = ("table", "place", "version", "rows", "bytes", "at")
"""What the list shows of a backup itself."""


def list_backups(by: Actor) -> list[ListedBackup]:
    """Every backup of recoveries that `by` may see and that was not removed, newest first."""
    steps = Step.objects.filter(visible.filter_visible(by, "recovery__flow__pipeline__"), kind="table-backup")
    rows = steps.filter(state="done").select_related("recovery__flow__pipeline__workspace").order_by("-pk")
    found = []
    for step in rows:
        kept = backups.kept_by(step)
        there = None if kept is None else _is_there(kept)
        if kept is not None and there is not False:
            found.append(
                ListedBackup(
                    recovery=step.recovery.label,
                    **{name: getattr(kept, name) for name in SHOWN},
                    is_there=there,
                    stays=why_it_stays(step.recovery),
                )
            )
    return found


def _is_there(kept: TableBackupResult) -> bool | None:
    try:
        return backups.read_manifest(kept.place) is not None
    except RepriseError:
        return None


def why_it_stays(recovery: Recovery) -> str:
    """Why the backups of a recovery are not removed yet; "" where they may be."""
    if recovery.active:
        return f"{recovery.label} has not ended."
    mine = AuditEntry.objects.filter(seq=OuterRef("seq"), recovery=recovery.label)
    if ReviewItem.objects.filter(Exists(mine), sign_off=None).exists():
        return f"Acts of {recovery.label} wait to be signed off (audit review)."
    if backups.find_unfilled(recovery.flow) == recovery.label:
        return (
            f"{recovery.label} has emptied the table and filled nothing back: only the backup has those rows."
        )
    if recovery.steps.filter(kind="rollback", state__in=("pending", "running", "unknown", "failed")).exists():
        return f"A rollback of {recovery.label} has not ended."
    return ""


def remove_backups(*, recovery_id: int, by: Actor, reason: str) -> list[str]:
    """Remove the backups of a recovery that has ended and was signed off; the places. Raises Denied, NotFound,
    Refused, Unreachable."""
    recovery = Recovery.objects.select_related("flow__pipeline__workspace").get(pk=recovery_id)
    with trying("backup.remove", recovery, by, Right.RESET, reason=reason) as attempted:
        recovery = lock(recovery_id)
        if why := why_it_stays(recovery):
            raise Refused(f"The backup stays: {why}", code="backup_stays")
        if not reason.strip():
            raise Refused("Give a reason for removing the backup: others review it later.", code="no_reason")
        steps = recovery.steps.filter(kind="table-backup", state="done")
        kept = [k for k in map(backups.kept_by, steps) if k is not None and _is_there(k) is not False]
        if not kept:
            raise NotFound(f"There is no backup of {recovery.label}.")
        for one in kept:
            backups.clear(one.place)
        places = [one.place for one in kept]
        attempted.done(f"Backup removed: {', '.join(places)}.", after={"places": places})
    return places
