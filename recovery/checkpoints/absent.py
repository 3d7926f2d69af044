"""A checkpoint without state: whether its query keeps any, as far as the files tell. Pure.

A query without a stateful step makes no `state/` (seen on 3.5 to 4.3). One that lost all of it leaves the same files
where commits are in format 1, and Spark then refuses to start. What tells them apart: commits of state format 2 name
each operator's files; asynchronous progress tracking is refused to a stateful query. A watermark is only a hint: it
moves too where no step uses it.
"""

from collections.abc import Collection
from enum import StrEnum

from recovery.checkpoints.file_listing import Tree
from recovery.checkpoints.findings import finding
from recovery.checkpoints.formats import CommitFile, OffsetFile
from recovery.checkpoints.headers import tracks_asynchronously
from recovery.checkpoints.report import Finding
from recovery.checkpoints.state.names import operators_of

IDS = "stateUniqueIds"


class KeepsState(StrEnum):
    """Whether the query's code has a stateful step."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


UNTOLD = ("STATE_UNTOLD", "STATE_UNTOLD_WATERMARK")


def judge_absence(
    tree: Tree,
    read: Collection[OffsetFile],
    batches: tuple[Collection[int], Collection[int]],
    commit: CommitFile | None,
    *,
    version: int,
    keeps_state: KeepsState | None,
) -> list[Finding]:
    """Findings of a checkpoint without any operator's state, of which a restart would load `version` (0: none).

    `batches`: numbers with an offset file, and with a commit. `keeps_state`: None where the caller compares the
    operators of code and checkpoint by itself.
    """
    if operators_of(tree) or not version or keeps_state is KeepsState.NO or (commit and commit.operators):
        return []
    if keeps_state is KeepsState.YES or "state" in tree.directories:
        return [finding("STATE_MISSING", "state/0", operator=0)]
    if keeps_state is None or (commit and IDS in commit.body) or tracks_asynchronously(*batches):
        return []
    reached = max((*(o.watermark_ms for o in read), commit.watermark_ms if commit else 0), default=0)
    if reached > 0:
        return [finding("STATE_UNTOLD_WATERMARK", "state", watermark=reached)]
    return [finding("STATE_UNTOLD", "state")]
