"""Where an adopted checkpoint stands, by the names of its files alone: cheap enough to ask every few seconds."""

from dataclasses import dataclass
from typing import Final

from recovery.checkpoints.formats import Malformed, parse_metadata
from recovery.checkpoints.storage import Store, reaching
from recovery.numbers import whole

MOST_NAMES: Final = 20_000
MOST_METADATA: Final = 65_536


@dataclass(frozen=True)
class StreamProgress:
    """`query_id` "" where it cannot be read; `is_gone`: nothing of a checkpoint is there. `planned`, `committed`: the
    newest batch of each log, None for none; `moved_ms`: when one of them was written last; `committed_ms`: when the
    newest commit was."""

    query_id: str = ""
    planned: int | None = None
    committed: int | None = None
    moved_ms: int | None = None
    committed_ms: int | None = None
    is_gone: bool = False

    @property
    def is_open(self) -> bool:
        """Is a batch planned that was not committed?"""
        return self.planned is not None and (self.committed is None or self.planned > self.committed)


def read_progress(checkpoint: str) -> StreamProgress:
    """Raises Unreachable, Refused, WrongUse."""
    with reaching(checkpoint):
        store = Store.open(checkpoint)
        try:
            query_id = parse_metadata(store.read("metadata", MOST_METADATA)) or ""
        except (FileNotFoundError, NotADirectoryError):
            return StreamProgress(is_gone=not store.is_dir("offsets"))
        except Malformed:
            return StreamProgress()
        planned, at = _newest(store, "offsets")
        committed, ended = _newest(store, "commits")
    moments = [ms for ms in (at, ended) if ms is not None]
    return StreamProgress(query_id, planned, committed, max(moments, default=None), ended)


def _newest(store: Store, folder: str) -> tuple[int | None, int | None]:
    try:
        named = {whole(entry.name): entry.mtime_ms for entry in store.entries(folder, MOST_NAMES)}
    except (FileNotFoundError, NotADirectoryError):
        return None, None
    newest = max((number for number in named if number is not None), default=None)
    return newest, None if newest is None else named[newest]
