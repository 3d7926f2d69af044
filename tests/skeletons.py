"""An empty checkpoint with the header and the sources of another one, as a priming lays it out."""

from pathlib import Path

from recovery.checkpoints import empty_checkpoint, inspect_checkpoint
from recovery.checkpoints.formats import text_of
from recovery.checkpoints.inspection import open_checkpoint


def lay_skeleton_of(location: str, scratch: Path) -> None:
    """By the last committed batch of `location`, with `-` for the offset of each source."""
    store, _ = open_checkpoint(location)
    batch = inspect_checkpoint(location).last_committed
    version, header, *sources = text_of(store.read(f"offsets/{batch}", 1 << 20)).split("\n")
    body = ["-" if version == "v1" else f"{line.partition(':')[0]}:-" for line in sources if line]
    empty_checkpoint.lay_skeleton(str(scratch), [version, header, *body], guard=lambda: None)
