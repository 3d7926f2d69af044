"""A table as it was after an earlier batch, beside what it holds now. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True)
class EarlierTable:
    """What a table would be put back to.

    `kind`: "files" or "delta". `version` and `now_version`: of a Delta table, that which holds the batch, and today's.
    `removed_batches`, `removed_files`: what leaves it. `kept_files`: decoded URIs of the data files that stay, of a
    file table. `kept_rows` and `rows`: of the table then, and now; None: not counted.
    """

    kind: str
    batch: int
    removed_batches: int
    removed_files: int
    version: int | None = None
    now_version: int | None = None
    kept_files: tuple[str, ...] = ()
    kept_rows: int | None = None
    rows: int | None = None

    @property
    def removed_rows(self) -> int | None:
        """How many rows leave the table; None: not counted."""
        if self.kept_rows is None or self.rows is None:
            return None
        return self.rows - self.kept_rows
