"""A table as it was after an earlier batch, beside what it holds now. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True)
class EarlierTable:
    """What a table would be put back to."""

    #: "files" or "delta"
    kind: str
    batch: int
    #: what leaves the table, as do `removed_files`
    removed_batches: int
    removed_files: int
    #: Delta: the version that holds the batch
    version: int | None = None
    #: Delta: today's version
    now_version: int | None = None
    #: file table: decoded URIs of the data files that stay
    kept_files: tuple[str, ...] = ()
    #: of the table then; None: not counted
    kept_rows: int | None = None
    #: of the table now; None: not counted
    rows: int | None = None

    @property
    def removed_rows(self) -> int | None:
        """How many rows leave the table; None: not counted."""
        if self.kept_rows is None or self.rows is None:
            return None
        return self.rows - self.kept_rows
