"""A source's position, in the words of its kind: what the command line and the pages show. Pure."""

from recovery.checkpoints import batch_descriptions
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.report import LostPosition, SourceProgress
from recovery.sources import files, registry, unasked


def label_position(kind: str, offset_json: str | None) -> str:
    """An offset in people's words; as it was written, where its kind cannot read it."""
    module = registry.BY_NAME.get(kind)
    if module is None:
        return batch_descriptions.describe_line(kind, offset_json)
    try:
        return module.label_position(offset_json)
    except Malformed:
        return unasked.UNKNOWN.label_position(offset_json)


def describe_progress(progress: SourceProgress) -> str:
    """The position of a source of a checkpoint; of files also how many were read, and the newest."""
    if progress.lost is not None:
        return describe_lost(progress.kind, progress.lost)
    return (
        files.describe_progress(progress)
        if progress.kind == files.KIND
        else label_position(progress.kind, progress.offset_json)
    )


def describe_lost(kind: str, lost: LostPosition) -> str:
    """That a position is not known, and the last one that is."""
    says = f"not known: offsets/{lost.batch}, of a committed batch, is gone or cannot be read"
    if lost.known_batch is None:
        return f"{says}, and no earlier batch shows one"
    return f"{says}; batch {lost.known_batch} ended at {label_position(kind, lost.known_json)}"
