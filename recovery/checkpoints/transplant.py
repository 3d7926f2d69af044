"""State from elsewhere for a checkpoint's own progress: prime, rebuild, and rolling back to an earlier batch.

The Spark runs that these need are the caller's:

- prime: `prime` writes a skeleton (metadata, `offsets/0` with `-` for every source). One run of the new query on
  it executes batch 0 empty and leaves empty state of the new shape. `plan_transplant` then carries that state over.
- rebuild: the caller runs the new query once, on a fresh scratch checkpoint, over exactly the inputs that were
  processed, into a sink that keeps nothing. `plan_transplant` carries the state over.
- roll back to batch K: `plan_rollback` keeps what stood after batch K. The sink is the caller's: a table that
  holds later batches skips their numbers.

Facts (seen on Spark 4.2, HDFS, RocksDB with formats 1 and 2): a restart after batch N loads state version N + 1.
A state file may be renamed to another version; the first delta of all, which adds to nothing, reads as a snapshot;
with format 2 the ids in the file names stand in the commit file too.
"""

import json
import uuid
from collections.abc import Sequence
from typing import Any

from recovery.checkpoints import formats
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.inspection import inspect, judge, opened, tree_of
from recovery.checkpoints.laying import LaidPlan, prepare, target_of
from recovery.checkpoints.layout import Kept, Layout, laid, layout_of, write_layout
from recovery.checkpoints.mending.state import at_home
from recovery.checkpoints.report import CheckpointReport
from recovery.checkpoints.seed import plan_seed
from recovery.checkpoints.seed_files import cut_log, metadata_of, seed_layout
from recovery.checkpoints.state.ids import operator_ids
from recovery.checkpoints.state.names import operators_of, parse_name
from recovery.checkpoints.state.needed import files_needed
from recovery.checkpoints.storage import Store, reaching
from recovery.checkpoints.tree import MAX_SMALL_BYTES
from recovery.checkpoints.undo_record import Guard
from recovery.errors import Refused

__all__ = ["LaidPlan", "plan_rollback", "plan_transplant", "prepare", "prime"]


def prime(location: str, scratch: str, *, guard: Guard) -> None:
    """Write a skeleton at `scratch` on which a new query's first batch runs empty and leaves empty state.

    Header and sources are those of the last committed batch of `location`. Raises Refused where that cannot be
    told, or where something is at `scratch` already.
    """
    report = inspect(location)
    if report.last_committed is None:
        raise Refused(
            "Nothing was ever committed in this checkpoint; the new query starts with no state anyway."
        )
    store, _ = opened(location)
    there = Store.open(scratch)
    with reaching(location):
        lines = formats.text_of(store.read(f"offsets/{report.last_committed}", MAX_SMALL_BYTES)).split("\n")
    with reaching(scratch):
        if there.exists() and there.entries():
            raise Refused(f"{scratch} is not empty. Name a new directory.")
        layout = Layout()
        named = lines[0] != "v1"
        body = [f"{line.partition(':')[0]}:-" if named else "-" for line in lines[2:] if line]
        layout.write("offsets/0", "\n".join([*lines[:2], *body]).encode())
        layout.write("metadata", metadata_of(str(uuid.uuid4())))
        write_layout(layout, there, guard)


def plan_transplant(location: str, scratch: str) -> LaidPlan:
    """The next checkpoint with this one's progress and the state of `scratch`, a primed or rebuilt checkpoint.

    Raises Refused when either cannot be used: damage that would be carried on, no state in `scratch`, state
    files that cannot be renamed to the version that a restart asks for.
    """
    report, given = inspect(location), inspect(scratch)
    if given.last_committed is None or not given.state_operators:
        raise Refused(f"{scratch} holds no state of a committed batch. Run the new query there first.")
    if given.blockers:
        raise Refused(f"{scratch} cannot be used: {given.blockers[0].says}")
    basis = plan_seed(report)
    (store, version), (source, _) = opened(location), opened(scratch)
    with reaching(location):
        layout = seed_layout(
            store, basis.batch, basis.log_offsets, str(uuid.uuid4()), commit_of=basis.commit_of
        )
        target = target_of(report, store, version)
    with reaching(scratch):
        _take_state(layout, source, given.last_committed, basis.batch + 1)
        _adopt_settings(layout, source, basis.batch, given.last_committed)
        at_home(layout, source, target)
    return _planned(location, report, version, layout, store)


def plan_rollback(location: str, batch: int, *, sink: str | None = None) -> LaidPlan:
    """The next checkpoint as it stood after batch `batch`: later offsets, commits, log entries and state left out.

    The query id is a new one: a sink that knows batches by it must not take the new ones for old ones. Raises
    Refused when the batch was never committed or is no longer kept, when its state is not whole, or when the
    file table `sink` holds later batches, whose numbers it would skip.
    """
    report = inspect(location)
    store, version = opened(location)
    with reaching(location):
        layout = layout_of(store)
        kept = _batches(layout, "commits")
        if batch not in kept or batch not in _batches(layout, "offsets"):
            raise Refused(
                f"Batch {batch} cannot be gone back to: its offsets and its commit are not both kept. Kept are "
                f"{', '.join(map(str, kept[-10:])) or 'none'}."
            )
        _cut_logs(store, layout, batch)
        for name in list(layout.below("state")):
            layout.leave_out(name)
        _take_state(layout, store, batch, batch + 1)
        layout.write("metadata", metadata_of(str(uuid.uuid4())))
        at_home(layout, store, target_of(report, store, version))
    return _planned(location, report, version, layout, store, sink)


def _planned(
    location: str,
    report: CheckpointReport,
    version: int | None,
    layout: Layout,
    store: Store,
    sink: str | None = None,
) -> LaidPlan:
    after = judge(laid(layout, store, target_of(report, store, version)), version=version, sink=sink)
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


def _batches(layout: Layout, folder: str) -> list[int]:
    return sorted(int(n) for n in layout.names(folder) if n.isascii() and n.isdigit() and len(n) < 19)


def _cut_logs(store: Store, layout: Layout, batch: int) -> None:
    """Offsets, commits and source logs as they stood after `batch`; what hangs on later batches goes too."""
    data = store.read(f"offsets/{batch}", MAX_SMALL_BYTES)
    for folder in ("offsets", "commits"):
        for number in _batches(layout, folder):
            if number > batch:
                layout.leave_out(f"{folder}/{number}")
    if batch and batch - 1 not in _batches(layout, "offsets"):
        layout.write(f"offsets/{batch - 1}", data)
    for line in formats.parse_offsets(data).sources:
        folder, reached = f"sources/{line.key}", formats.log_offset(line.offset_json)
        if reached is None and line.offset_json is not None:
            continue  # not a file source: its log holds where it began, not what it read
        for name in list(layout.below(folder)):
            layout.leave_out(name)
        cut_log(store, layout, folder, reached, batch)


def _take_state(layout: Layout, store: Store, batch: int, wanted: int) -> None:
    """What a restart after `batch` loads from `store`, under the names of state version `wanted`."""
    tree, version = tree_of(store), batch + 1
    commit = formats.parse_commit(tree.bytes_of(f"commits/{batch}"))
    for operator in sorted(operators_of(tree)):
        needed = files_needed(tree, operator, version, operator_ids(commit, operator))
        for name, why in (*((n, "it is missing") for n in needed.missing), *needed.unreadable):
            raise Refused(
                f"State version {version} of operator {operator} cannot be loaded from {name}: {why}."
            )
        if wanted != version:
            _may_move(operator, needed.files, wanted - version)
        for name in needed.files:
            layout.keep(Kept(store, name, tree.files[name]), _renamed(name, wanted - version))


def _may_move(operator: int, files: Sequence[str], by: int) -> None:
    """RocksDB's changelogs cannot stand for a snapshot, and with format 2 name the versions before them.

    Nor can a chain begin below version 1, as it would where the scratch run took more batches than were committed.
    """
    named = [found for found in (parse_name(name.rpartition("/")[2]) for name in files) if found]
    if min((number for number, _, _ in named), default=1) + by < 1:
        raise Refused(
            f"The state of operator {operator} was built in more batches than the checkpoint has committed. Build it "
            "anew in one batch: without maxFilesPerTrigger."
        )
    if any(kind == "changelog" for _, _, kind in named):
        raise Refused(
            f"The state of operator {operator} stands on changelogs, which keep their version. Run the query with "
            "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled=false once more, then try again."
        )


def _renamed(name: str, by: int) -> str:
    """The name for another version. Files without one (metadata, schemas, SSTs) keep theirs."""
    folder, _, last = name.rpartition("/")
    bare = last.removesuffix(".crc")
    found = parse_name(bare)
    if not by or found is None:
        return name
    number, unique_id, kind = found
    if kind == "delta" and number == 1:
        kind = "snapshot"  # the first delta adds to nothing, and no reader finds a base for it elsewhere
    return f"{folder}/{number + by}{f'_{unique_id}' if unique_id else ''}.{kind}{last[len(bare) :]}"


def _adopt_settings(layout: Layout, source: Store, batch: int, given: int) -> None:
    """The header's conf and the commit's ids of state files are those of the run that wrote the state."""
    header = _header(source.read(f"offsets/{given}", MAX_SMALL_BYTES))
    for number in [n for n in (batch - 1, batch) if f"offsets/{n}" in layout.files]:
        data = layout.files[f"offsets/{number}"]
        assert isinstance(data, bytes), "a seed writes its offset files anew"
        lines = formats.text_of(data).split("\n")
        lines[1] = _dumps({**formats.object_of(lines[1]), "conf": header["conf"]})
        layout.write(f"offsets/{number}", "\n".join(lines).encode())
    own = layout.files[f"commits/{batch}"]
    old = formats.parse_commit(own if isinstance(own, bytes) else own.store.read(own.name, MAX_SMALL_BYTES))
    new = formats.parse_commit(source.read(f"commits/{given}", MAX_SMALL_BYTES))
    body = {**new.body, "nextBatchWatermarkMs": old.watermark_ms}
    layout.write(f"commits/{batch}", f"v{new.version}\n{_dumps(body)}".encode())


def _header(data: bytes) -> dict[str, Any]:
    header = formats.object_of(formats.text_of(data).split("\n")[1])
    if not isinstance(header.get("conf"), dict):
        raise Malformed("its header has no conf")
    return header


def _dumps(body: dict[str, Any]) -> str:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False)
