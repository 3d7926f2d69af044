"""How a new checkpoint gets into place, whatever it holds: the one crash order of seed, repair and rollback.

Order of writes, and what a crash between two of them leaves:

1. `.reprise-<id>.undo.json`   written aside, renamed. Before: nothing. After: a note that nothing follows from.
2. `.reprise-<id>/…`           what the caller builds; files, then directories put on disk.
                               A crash leaves a directory that Spark ignores: `probe` says prepared, `clean` removes.
3. read back                   by the caller's check. A difference removes the directory and is refused.
4. into place                  the one act that anything sees; never over something that is there.
5. the directory is put on disk. A crash before it may lose the rename, never half of it.

A pipeline's flow has numbered versions (SDP sees numeric names only): step 4 is one rename to `<latest + 1>`.
A checkpoint of plain Structured Streaming has one fixed place, and all names stand in the directory above it:
step 4 renames the old one to `.reprise-<id>-before`, then the new one to the fixed name. A crash between the two
leaves no checkpoint at the fixed place: `probe` says half, and `clean` puts the old one back.

The old checkpoint's files are only ever read. On stores without an atomic rename step 4 is a copy with `metadata`
last, then a removal with `metadata` first: what has its `metadata` is whole, and counts as published whatever is left
under the other name; what has none is half a copy, which `probe` calls unclear.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from recovery.checkpoints.checkpoint_slot import (
    CheckpointSlot,
    NextVersion,
    name_slot,
    place_for,
    recorded_place,
)
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.inspection import inspect_checkpoint, list_versions, read_fingerprint, read_marks
from recovery.checkpoints.outcome import SeedOutcome, SeedState, probe_outcome
from recovery.checkpoints.report import CheckpointReport
from recovery.checkpoints.storage import Store, reaching
from recovery.checkpoints.undo_record import (
    Guard,
    read_record,
    record_name,
    safe_label,
    write_record,
)
from recovery.errors import Refused, RepriseError
from recovery.numbers import whole

__all__ = [
    "NextVersion",
    "PreparedCheckpoint",
    "SeedOutcome",
    "SeedState",
    "clean_leftovers",
    "is_undone",
    "prepare_checkpoint",
    "probe_outcome",
    "publish_checkpoint",
    "set_aside",
    "undo_publish",
    "undo_refusal",
]


@dataclass(frozen=True)
class PreparedCheckpoint:
    """A checkpoint on disk that nothing sees yet, read back and equal to its plan."""

    plan: NextVersion
    recovery: str
    fence: int
    query_id: str
    exact_fingerprint: str


def prepare_checkpoint(
    location: str,
    plan: NextVersion,
    *,
    recovery: str,
    fence: int,
    query_id: str,
    guard: Guard,
    build: Callable[[Store, Store], None],
    check: Callable[[CheckpointReport], None],
) -> PreparedCheckpoint:
    """Steps 1 to 3. `build(old, new)` writes all files below `new`; `check` raises Refused when they read back wrong.

    `guard` is called before every write and raises when the caller's fence is lost. Raises Refused when the
    checkpoint is no longer as planned, RepriseError when the storage fails (full disk): then what was made is
    removed. What `guard` raises passes through, and what was made stays.
    """
    label = safe_label(recovery)
    with reaching(location):
        place = place_for(location, plan)
        _require_unchanged(place, plan)
        _no_newer_fence(place, label, fence)
        old = place.current(plan.from_version)
    room = place.room
    try:
        guard()
        write_record(room, label, _build_undo_record(place, plan, label, fence, query_id), guard)
        guard()
        room.remove(f".reprise-{label}")
        build(old, room.child(f".reprise-{label}"))
        room.sync()
        report = inspect_checkpoint(room.child(f".reprise-{label}").location)
        check(report)
    except FileNotFoundError as error:
        # state that the plan keeps, and that Spark's maintenance has removed since
        _remove_attempt(room, label)
        raise Refused(
            f"A file of {_slot_name(place, plan)} is gone since the plan; what was written is removed and nothing else "
            "was changed. Seal a new plan.",
            code="stale",
        ) from error
    except OSError as error:
        _remove_attempt(room, label)
        reason = error.strerror or str(error)
        raise RepriseError(
            f"The new checkpoint could not be written ({reason}); what was written is removed and nothing else "
            "was changed. Make room or repair the storage, then try again.",
            code="storage_failed",
        ) from error
    except Malformed as error:
        _remove_attempt(room, label)
        raise Refused(f"A file of {_slot_name(place, plan)} has changed meanwhile: {error.why}.") from error
    except Refused:
        _remove_attempt(room, label)
        raise
    return PreparedCheckpoint(plan, label, fence, query_id, report.exact_fingerprint)


def publish_checkpoint(location: str, prepared: PreparedCheckpoint, *, guard: Guard) -> int | None:
    """Steps 4 and 5; gives the new version's number, None for a checkpoint with a fixed place.

    Raises Refused when the old checkpoint moved, a newer one appeared or the prepared directory is not this
    attempt's; nothing is changed then.
    """
    plan, label = prepared.plan, prepared.recovery
    with reaching(location):
        place = place_for(location, plan)
        room = place.room
        record = read_record(room, label)
        if record.get("fence") != prepared.fence or record.get("query_id") != prepared.query_id:
            raise Refused(
                "Another attempt has prepared this checkpoint since; this one ends here and changed nothing."
            )
        if not room.is_dir(f".reprise-{label}"):
            raise Refused(
                "The prepared checkpoint is no longer there; nothing was changed. Start the step again."
            )
        if read_marks(room.child(f".reprise-{label}").location).exact != prepared.exact_fingerprint:
            raise Refused("The prepared checkpoint was changed; nothing was published. Start the step again.")
        _require_unchanged(place, plan)
        guard()
        _into_place(place, plan, label)
        room.sync()
    return plan.to_version


def _into_place(place: CheckpointSlot, plan: NextVersion, label: str) -> None:
    room, prepared = place.room, f".reprise-{label}"
    if place.fixed is None:
        try:
            room.rename(prepared, str(plan.to_version))
        except FileExistsError as error:
            raise Refused(
                f"Version {plan.to_version} has appeared meanwhile; nothing was changed. Seal a new plan."
            ) from error
        return
    room.rename(place.fixed, f"{prepared}-before")
    try:
        room.rename(prepared, place.fixed)
    except FileExistsError as error:
        raise Refused(
            f"Something has written a new {place.fixed} at this very moment. The old checkpoint is whole in "
            f"{prepared}-before: stop what writes, then put it back by hand."
        ) from error


def clean_leftovers(location: str, *, recovery: str) -> None:
    """Remove a prepared directory that was left over; put an old checkpoint back whose new one never came.

    Never touches a version, nor a checkpoint in use.
    """
    label = safe_label(recovery)
    with reaching(location):
        place = recorded_place(location, label)
        if place.fixed is not None and probe_outcome(location, recovery=label).state is SeedState.HALF:
            place.room.rename(f".reprise-{label}-before", place.fixed)
            place.room.sync()
        place.room.remove(f".reprise-{label}")
        place.room.remove(f"{record_name(label)}.new")


def set_aside(location: str, *, recovery: str) -> str:
    """Where the old checkpoint of a fixed place is while the new one is in use."""
    return f"{location.rstrip('/').rpartition('/')[0]}/.reprise-{safe_label(recovery)}-before"


def undo_refusal(location: str, *, recovery: str, sink_head: int | None) -> str | None:
    """Why the new checkpoint can no longer be taken back, in one sentence; None when it can. Reads only."""
    label = safe_label(recovery)
    outcome = probe_outcome(location, recovery=label)
    if not outcome.in_place:
        return f"No checkpoint of {label} is in place, so there is nothing to take back."
    with reaching(location):
        place = recorded_place(location, label)
        record = read_record(place.room, label)
        batch = record["batch"]
        if place.fixed is None and (newest := list_versions(place.room.location)[-1]) != outcome.published:
            return (
                f"Version {newest} was made after version {outcome.published}, so {outcome.published} is no "
                "longer the one in use."
            )
        made = place.current(outcome.published)
        what = name_slot(place, outcome.published)
        commits = [n for e in _list_entries(made, "commits") if (n := whole(e.name)) is not None]
    if max(commits, default=batch) > batch:
        return f"Batch {max(commits)} was committed in {what} since; taking it back would double its rows."
    if sink_head is not None and sink_head > max(batch, record.get("sink_head") or batch):
        return f"The table has batch {sink_head} already; taking {what} back would lose or double rows."
    return None


def is_undone(location: str, *, recovery: str) -> bool:
    """Was the new checkpoint taken back already, whole? Reads only: a caller that died after `undo` goes on by it."""
    label = safe_label(recovery)
    if probe_outcome(location, recovery=label).in_place:
        return False
    with reaching(location):
        place = recorded_place(location, label)
        back = place.fixed is None or place.room.exists(place.fixed)
        return back and place.room.is_dir(f".reprise-{label}-undone")


def undo_publish(location: str, *, recovery: str, sink_head: int | None) -> None:
    """Rename the new checkpoint away, so that the old one is in use again. Raises Refused when too late."""
    reason = undo_refusal(location, recovery=recovery, sink_head=sink_head)
    if reason:
        raise Refused(reason, code="cannot_undo")
    label = safe_label(recovery)
    with reaching(location):
        place = recorded_place(location, label)
        target = place.fixed or str(read_record(place.room, label)["to_version"])
        try:
            place.room.rename(target, f".reprise-{label}-undone")
        except FileExistsError as error:
            raise Refused(
                f"{label} was undone once before; move .reprise-{label}-undone away first."
            ) from error
        if place.fixed is not None:
            place.room.rename(f".reprise-{label}-before", place.fixed)
        place.room.sync()


def set_newer_aside(location: str, *, recovery: str, version: int) -> tuple[int, ...]:
    """Rename the versions after `version` away, which an update has made, so that it is the one in use again; those
    that were. What an attempt before has renamed stays away."""
    label = safe_label(recovery)
    with reaching(location):
        room = Store.open(location)
        newer = tuple(v for v in list_versions(location) if v > version)
        for newer_version in reversed(
            newer
        ):  # the newest first: whenever this ends, the one in use is one that was
            room.rename(str(newer_version), f".reprise-{label}-undone-{newer_version}")
        room.sync()
    return newer


def _list_entries(store: Store, folder: str) -> list[Any]:
    try:
        return store.entries(folder)
    except FileNotFoundError:
        return []


def _slot_name(place: CheckpointSlot, plan: NextVersion) -> str:
    return name_slot(place, plan.from_version)


def _no_newer_fence(place: CheckpointSlot, label: str, fence: int) -> None:
    if not place.room.exists(record_name(label)):
        return
    record = read_record(place.room, label)
    if record.get("fence", 0) > fence:
        raise Refused("A newer attempt of this step is at work; this one ends here and changed nothing.")
    if probe_outcome(place.location, recovery=label).in_place:
        what = name_slot(place, record.get("to_version"))
        raise Refused(f"The new {what} of {label} is in place already; nothing was changed.")


def _require_unchanged(place: CheckpointSlot, plan: NextVersion) -> None:
    """The planned checkpoint is still the one in use, and nothing in it has moved."""
    if place.fixed is None:
        known = list_versions(place.room.location)
        if not known or known[-1] != plan.from_version:
            raise Refused(
                f"The newest checkpoint version is {known[-1] if known else 'gone'}, planned was "
                f"{plan.from_version}; nothing was changed. Seal a new plan.",
                code="stale",
            )
    if read_fingerprint(place.location) != plan.fingerprint:
        raise Refused(
            f"Files of {_slot_name(place, plan)} have changed since the plan; nothing was changed. Seal a new plan.",
            code="stale",
        )


def _remove_attempt(room: Store, label: str) -> None:
    """Remove what this attempt made; a storage that fails here too leaves it for `clean`."""
    for name in (f".reprise-{label}", f"{record_name(label)}.new", record_name(label)):
        try:
            room.remove(name)
        except OSError:
            continue


def _build_undo_record(
    place: CheckpointSlot, plan: NextVersion, label: str, fence: int, query_id: str
) -> dict[str, Any]:
    return {
        "recovery": label,
        "fence": fence,
        "name": place.fixed,
        "from_version": plan.from_version,
        "to_version": plan.to_version,
        "query_id": query_id,
        "batch": -1 if plan.batch is None else plan.batch,
        "offsets": list(plan.offsets),
        "sink_head": plan.sink_head,
        "fingerprint": plan.fingerprint,
        "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }
