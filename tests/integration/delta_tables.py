"""Delta tables by Spark, and checkpoints over them: what the tests of positions and of incidents share."""

import json
import shutil
import uuid
from pathlib import Path
from typing import Any

from recovery.sources.delta_facts import DeltaFacts
from recovery.sources.live import delta as live
from tests.delta_room import DeltaRoom

ONE = {"maxFilesPerTrigger": 1}


def committed(checkpoint: Path) -> tuple[int, str]:
    """(newest committed batch, its line)."""
    batch = max(int(p.name) for p in (checkpoint / "commits").iterdir() if p.name.isdigit())
    return batch, (checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1]


def caught_up(lake: DeltaRoom, source: Path, folder: Path) -> tuple[Path, Path, str]:
    """A stream that has read all of `source`: its table, its checkpoint, and the line it is committed at."""
    table, checkpoint = folder / "table", folder / "ck"
    assert lake.stream(source, table, checkpoint) == ""
    return table, checkpoint, committed(checkpoint)[1]


def uncommitted(checkpoint: Path) -> None:
    """As a crash leaves it that comes between the table's commit and the checkpoint's: nothing after is planned."""
    batch, _ = committed(checkpoint)
    for folder, number in (("commits", batch), ("offsets", batch + 1)):
        (checkpoint / folder / str(number)).unlink()
        (checkpoint / folder / f".{number}.crc").unlink()


def standing_at(checkpoint: Path, model: Path, line: str) -> Path:
    """A checkpoint by hand that has committed up to `line`, with the header of one that Spark wrote.

    Its query has an id of its own: Spark stops a query without an error when another of the same id starts, in
    whichever session of the application, and all tests share one.
    """
    head = (model / "offsets" / "0").read_text().splitlines()[:2]
    for name in ("offsets", "commits"):
        (checkpoint / name).mkdir(parents=True)
    for batch in ("0", "1"):
        (checkpoint / "offsets" / batch).write_text("\n".join([*head, line]))
    shutil.copy(model / "commits" / "0", checkpoint / "commits" / "1")
    (checkpoint / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    return checkpoint


def rows(amount: Any) -> int:
    assert amount is not None
    assert amount.exact, amount
    return int(amount.value)


def look(source: Path, *lines: str | None, **options: Any) -> DeltaFacts:
    return live.read_table(str(source), offsets=lines, options=options)
