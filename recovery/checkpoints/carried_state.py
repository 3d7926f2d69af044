"""State from elsewhere for a checkpoint that is being laid out: its files under the names that a restart asks for.

Facts (seen on Spark 4.2, HDFS, RocksDB with formats 1 and 2): a restart after batch N loads state version N + 1.
A state file may be renamed to another version; the first delta of all, which adds to nothing, reads as a snapshot;
with format 2 the ids in the file names stand in the commit file too.
"""

from collections.abc import Sequence
from typing import Any

from recovery.checkpoints import formats
from recovery.checkpoints.file_layout import CheckpointFile, Layout
from recovery.checkpoints.file_listing import MAX_SMALL_BYTES
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.inspection import inspect_checkpoint, open_checkpoint, tree_of
from recovery.checkpoints.repairing.state import at_home
from recovery.checkpoints.report import CheckpointReport
from recovery.checkpoints.seed_files import dump_json, with_header
from recovery.checkpoints.state.ids import operator_ids
from recovery.checkpoints.state.names import operators_of, parse_name
from recovery.checkpoints.state.needed import files_needed
from recovery.checkpoints.storage import Store, reaching
from recovery.errors import Refused


def state_of(scratch: str) -> CheckpointReport:
    """A primed or rebuilt checkpoint whose state may be carried over. Raises Refused: it holds none, or is damaged."""
    given = inspect_checkpoint(scratch)
    if given.last_committed is None or not given.state_operators:
        raise Refused(f"{scratch} holds no state of a committed batch. Run the new query there first.")
    if given.blockers:
        raise Refused(f"{scratch} cannot be used: {given.blockers[0].says}")
    return given


def may_carry(scratch: str, batch: int) -> None:
    """Raises Refused where the state of `scratch` cannot go into a seed that goes on after `batch`."""
    given = state_of(scratch).last_committed or 0
    with reaching(scratch):
        take_state(Layout(), open_checkpoint(scratch)[0], given, batch + 1)


def carry_over(layout: Layout, scratch: str, batch: int, target: str) -> None:
    """The newest state of `scratch` into a seed that goes on after `batch` and will lie at `target`."""
    given = state_of(scratch).last_committed or 0
    with reaching(scratch):
        source, _ = open_checkpoint(scratch)
        take_state(layout, source, given, batch + 1)
        _adopt_settings(layout, source, batch, given)
        at_home(layout, source, target)


def take_state(layout: Layout, store: Store, batch: int, wanted: int) -> None:
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
            layout.keep(
                CheckpointFile(store, name, tree.files[name]), _rename_for_version(name, wanted - version)
            )


def _may_move(operator: int, files: Sequence[str], by: int) -> None:
    """RocksDB's changelogs cannot stand for a snapshot, and with format 2 name the versions before them.

    Nor can a chain begin below version 1, as it would where the scratch run took more batches than were committed.
    """
    named = [parsed for parsed in (parse_name(name.rpartition("/")[2]) for name in files) if parsed]
    if min((number for number, _, _ in named), default=1) + by < 1:
        raise Refused(
            f"The state of operator {operator} was built in more batches than the checkpoint has committed. Rebuild it "
            "in one batch: without maxFilesPerTrigger."
        )
    if any(kind == "changelog" for _, _, kind in named):
        raise Refused(
            f"The state of operator {operator} depends on changelogs, which keep their version. Run the query with "
            "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled=false once more, then try again."
        )


def _rename_for_version(name: str, by: int) -> str:
    """The name for another version. Files without one (metadata, schemas, SSTs) keep theirs."""
    folder, _, last = name.rpartition("/")
    bare = last.removesuffix(".crc")
    parsed = parse_name(bare)
    if not by or parsed is None:
        return name
    number, unique_id, kind = parsed
    if kind == "delta" and number == 1:
        kind = "snapshot"  # the first delta adds to nothing, and no reader finds a base for it elsewhere
    return f"{folder}/{number + by}{f'_{unique_id}' if unique_id else ''}.{kind}{last[len(bare) :]}"


def _adopt_settings(layout: Layout, source: Store, batch: int, given: int) -> None:
    """The header's conf and the commit's ids of state files are those of the run that wrote the state."""
    header = _read_header(source.read(f"offsets/{given}", MAX_SMALL_BYTES))
    for number in [n for n in (batch - 1, batch) if f"offsets/{n}" in layout.files]:
        data = layout.files[f"offsets/{number}"]
        assert isinstance(data, bytes), "a seed rewrites its offset files"
        layout.write(f"offsets/{number}", with_header(data, conf=header["conf"]))
    own = layout.files[f"commits/{batch}"]
    old = formats.parse_commit(own if isinstance(own, bytes) else own.store.read(own.name, MAX_SMALL_BYTES))
    new = formats.parse_commit(source.read(f"commits/{given}", MAX_SMALL_BYTES))
    body = {**new.body, "nextBatchWatermarkMs": old.watermark_ms}
    layout.write(f"commits/{batch}", f"v{new.version}\n{dump_json(body)}".encode())


def _read_header(data: bytes) -> dict[str, Any]:
    header = formats.object_of(formats.text_of(data).split("\n")[1])
    if not isinstance(header.get("conf"), dict):
        raise Malformed("its header has no conf")
    return header
