"""Marks of a checkpoint: by them a later look tells whether the stream has moved, or any file at all has changed."""

import hashlib
from typing import NamedTuple

from recovery.checkpoints import filelog
from recovery.checkpoints.file_listing import Tree
from recovery.checkpoints.state.names import is_state_data

LOGS = ("offsets/", "commits/", "sources/")


class CheckpointMarks(NamedTuple):
    """Two sha256 (hex) of one checkpoint: what `fingerprint` says, and every file's name and size as well."""

    fingerprint: str
    exact: str


def marks_of(tree: Tree) -> CheckpointMarks:
    """Reads the logs of a checkpoint not read yet; `inspection.read_fingerprint` says what counts and why."""
    names = sorted(tree.files)
    unread = superseded_files(tree)
    logs = [n for n in names if (n == "metadata" or n.startswith(LOGS)) and n not in unread]
    contents = dict(zip(logs, tree.each(tree.digest_of, logs), strict=True))
    moved, exact = hashlib.sha256(), hashlib.sha256()
    for start in range(0, len(names), 10_000):
        some = names[start : start + 10_000]
        lines = {name: f"{name}\0{tree.files[name]}\0{contents.get(name, '')}\n" for name in some}
        exact.update("".join(lines.values()).encode("utf-8", "surrogateescape"))
        kept = [line for name, line in lines.items() if not is_state_data(name)]
        moved.update("".join(kept).encode("utf-8", "surrogateescape"))
    partitions = sorted({"/".join(n.split("/")[:3]) for n in names if is_state_data(n)})
    moved.update("".join(f"{name}\n" for name in partitions).encode("utf-8", "surrogateescape"))
    return CheckpointMarks(moved.hexdigest(), exact.hexdigest())


def superseded_files(tree: Tree) -> set[str]:
    """Source log files older than the newest compacted entry: no one reads them at a restart.

    With a hundred batches kept they are ten times the log that counts; their names and sizes stand for them.
    """
    superseded = set()
    logs: dict[str, list[str]] = {}
    for file in [n for n in tree.files if n.startswith("sources/")]:
        folder, _, name = file.rpartition("/")
        logs.setdefault(folder, []).append(name)
    for folder, names in logs.items():
        newest = max(filelog.compacted_ids(filelog.index_of(names)), default=-1)
        for name in names:
            parsed = filelog.parse_name(name[1:-4] if name.endswith(".crc") else name)
            if parsed and parsed[0] < newest:
                superseded.add(f"{folder}/{name}")
    return superseded
