"""A copy of a checkpoint in another place, for a rehearsal: nothing of it is shared, and it is read back.

Order of writes: `.reprise-copy-<name>` beside the new place, all files, read back, one rename. A crash leaves
that directory, which the next copy to the same place removes first; nothing that was there before is touched.
Rewritten are the absolute schema paths of transformWithState, which would still name the original.
"""

import hashlib

from recovery.checkpoints.file_layout import CheckpointFile, Layout, lay_out, layout_of, write_layout
from recovery.checkpoints.inspection import inspect_checkpoint, judge_store, open_checkpoint
from recovery.checkpoints.planned_checkpoint import require_same_files
from recovery.checkpoints.repairing.state import at_home
from recovery.checkpoints.report import CheckpointReport
from recovery.checkpoints.seed_files import metadata_of
from recovery.checkpoints.storage import Store, reaching
from recovery.checkpoints.undo_record import Guard
from recovery.errors import Refused, RepriseError


def copy_checkpoint(location: str, to: str, *, guard: Guard, query_id: str | None = None) -> CheckpointReport:
    """Copy the checkpoint (of a flow: its newest version) to `to`, which must not exist or be empty.

    `query_id`: another one for the copy, so that a sink which knows batches by it does not take the copy's for
    the original's. Gives the copy's report. Raises Refused when `to` is taken or the copy does not read back
    equal, RepriseError when the storage fails; what was written is removed then.
    """
    store, _ = open_checkpoint(location)
    with reaching(to):
        target = Store.open(to)
        beside = target.parent()
        if target.exists() and target.entries():
            raise Refused(f"{to} is not empty. Name a new directory.")
    with reaching(location):
        layout = layout_of(store)
        if query_id is not None:
            layout.write("metadata", metadata_of(query_id))
        at_home(layout, store, target.location)
        planned = judge_store(lay_out(layout, store, target.location))
    name = f".reprise-copy-{target.name}"
    try:
        guard()
        beside.remove(name)
        write_layout(layout, beside.child(name), guard, link=False)
        require_same_files(planned, inspect_checkpoint(beside.child(name).location))
        _require_equal_state_files(layout, beside.child(name))
        guard()
        beside.remove(target.name)  # an empty directory, as was checked
        beside.rename(name, target.name)
        beside.sync()
    except OSError as error:
        _remove_quietly(beside, name)
        reason = error.strerror or str(error)
        raise RepriseError(
            f"The copy could not be written ({reason}); what was written is removed. Make room, then try again.",
            code="storage_failed",
        ) from error
    except Refused:
        _remove_quietly(beside, name)
        raise
    return inspect_checkpoint(to)


def _require_equal_state_files(layout: Layout, copied: Store) -> None:
    """Every state file holds the bytes of the original; logs are compared by the fingerprint already."""
    for name, origin in layout.files.items():
        if isinstance(origin, CheckpointFile) and _digest_file(origin.store, origin.name) != _digest_file(
            copied, name
        ):
            raise Refused(f"{name} of the copy differs from the original. The copy was removed.")


def _digest_file(store: Store, name: str) -> bytes:
    digest = hashlib.sha256()
    for piece in store.chunks(name):
        digest.update(piece)
    return digest.digest()


def _remove_quietly(beside: Store, name: str) -> None:
    try:
        beside.remove(name)
    except OSError:
        return  # the next copy to this place removes it first
