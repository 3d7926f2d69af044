"""State for a checkpoint's own progress: primed, rebuilt, or that of an earlier batch.

The Spark runs that these need are the caller's:

- prime: `empty_checkpoint` lays a skeleton (metadata, `offsets/0` with `-` for every source). One run of the new query
  on it executes batch 0 empty and leaves empty state of the new shape. `seed.plan_seed(state=…)` carries it over.
- rebuild: the caller runs the new query once, on a fresh scratch checkpoint, over exactly the inputs that were
  processed, into a sink that keeps nothing. `seed.plan_seed(state=…)` carries the state over.
- roll back to batch K: `plan_rollback` keeps what stood after batch K. The sink is the caller's: a table that
  holds later batches skips their numbers.
"""

import uuid

from recovery.checkpoints import formats
from recovery.checkpoints.carried_state import take_state
from recovery.checkpoints.file_layout import Layout, lay_out, layout_of
from recovery.checkpoints.file_listing import MAX_SMALL_BYTES
from recovery.checkpoints.inspection import inspect_checkpoint, judge_store, open_checkpoint
from recovery.checkpoints.planned_checkpoint import LaidPlan, prepare_layout, target_of
from recovery.checkpoints.repairing.state import at_home
from recovery.checkpoints.report import CheckpointReport
from recovery.checkpoints.seed_files import cut_log, metadata_of
from recovery.checkpoints.storage import Store, reaching
from recovery.errors import Refused
from recovery.numbers import whole

__all__ = ["LaidPlan", "plan_rollback", "prepare_layout"]


def plan_rollback(location: str, batch: int, *, sink: str | None = None, state: bool = True) -> LaidPlan:
    """The next checkpoint as it stood after batch `batch`: later offsets, commits, log entries and state left out.

    The query id is a new one: a sink that knows batches by it must not take the new ones for old ones. `state`: whether
    the state of then goes along; code that keeps none needs none. Raises Refused (`batch_not_kept`) when the batch was
    never committed or is no longer kept; Refused when its state is not whole, or when the file table `sink` holds later
    batches, whose numbers it would skip.
    """
    report = inspect_checkpoint(location)
    store, version = open_checkpoint(location)
    with reaching(location):
        layout = layout_of(store)
        kept = _list_batches(layout, "commits")
        if batch not in kept or batch not in _list_batches(layout, "offsets"):
            raise Refused(
                f"Batch {batch} cannot be gone back to: its offsets and its commit are not both kept. Kept are "
                f"{', '.join(map(str, kept[-10:])) or 'none'}.",
                code="batch_not_kept",
            )
        _cut_logs(store, layout, batch)
        for name in list(layout.below("state")):
            layout.leave_out(name)
        if state:
            take_state(layout, store, batch, batch + 1)
        layout.write("metadata", metadata_of(str(uuid.uuid4())))
        at_home(layout, store, target_of(report, store, version))
    return _plan_laid_checkpoint(location, report, version, layout, store, sink)


def _plan_laid_checkpoint(
    location: str,
    report: CheckpointReport,
    version: int | None,
    layout: Layout,
    store: Store,
    sink: str | None = None,
) -> LaidPlan:
    after = judge_store(lay_out(layout, store, target_of(report, store, version)), version=version, sink=sink)
    if after.blockers:
        raise Refused(f"The new checkpoint would not be sound: {after.blockers[0].says}")
    return LaidPlan(
        from_version=version,
        batch=after.last_committed,
        offsets=tuple(s.offset_json for s in after.sources),
        fingerprint=report.fingerprint,
        location=location,
        sink_head=report.last_committed,
        after=after,
        layout=layout,
    )


def _list_batches(layout: Layout, folder: str) -> list[int]:
    return sorted(n for name in layout.names(folder) if (n := whole(name)) is not None)


def _cut_logs(store: Store, layout: Layout, batch: int) -> None:
    """Offsets, commits and source logs as they stood after `batch`; what hangs on later batches goes too."""
    data = store.read(f"offsets/{batch}", MAX_SMALL_BYTES)
    for folder in ("offsets", "commits"):
        for number in _list_batches(layout, folder):
            if number > batch:
                layout.leave_out(f"{folder}/{number}")
    if batch and batch - 1 not in _list_batches(layout, "offsets"):
        layout.write(f"offsets/{batch - 1}", data)
    for line in formats.parse_offsets(data).sources:
        folder, reached = f"sources/{line.key}", formats.log_offset(line.offset_json)
        if reached is None and line.offset_json is not None:
            continue  # not a file source: its log holds where it began, not what it read
        for name in list(layout.below(folder)):
            layout.leave_out(name)
        cut_log(store, layout, folder, reached, batch)
