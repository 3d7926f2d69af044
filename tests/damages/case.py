"""One damage of the table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.damages.bases import Place


@dataclass(frozen=True)
class Case:
    """`name` says what is damaged, `base` which good checkpoint, `hurt` how.

    `max_files`: maxFilesPerTrigger of the run that follows. Without it all that waits is one batch, which shows
    what a replayed batch number costs; with 1 the replayed batches may be equal to the old ones by luck.
    `conf`: settings of that run below `spark.sql.streaming.`, where they are not the base's.
    `deep`: inspect reads state files wholly and lists the table.
    `untold`: why this damage cannot be predicted; the page lists it apart.
    """

    name: str
    base: str
    hurt: Callable[[Place], object]
    max_files: int | None = 1
    conf: Mapping[str, str] | None = None
    deep: bool = False
    untold: str = ""
