"""A checkpoint in which nothing was read yet: the first batch of a query on it runs empty, with settings as given.

Facts (MicroBatchExecution.populateStartOffsets, run on Spark 4.2): `offsets/0` without `commits/0` is a batch that was
planned and not done. With `-` for every source it reads nothing, begins at the watermark of its header, and leaves
empty state in the shape of the query. What comes next is read from where each source begins.
"""

import json
import time
import uuid
from collections.abc import Mapping, Sequence

from recovery.checkpoints.file_layout import Layout, write_layout
from recovery.checkpoints.seed_files import metadata_of
from recovery.checkpoints.storage import Store, reaching
from recovery.checkpoints.undo_record import Guard
from recovery.errors import Refused


def header_line(conf: Mapping[str, str], watermark_ms: int) -> str:
    """The header line. `conf` is that of a header that Spark wrote: settings that are left out count as the oldest."""
    header = {
        "batchWatermarkMs": watermark_ms,
        "batchTimestampMs": time.time_ns() // 1_000_000,
        "conf": dict(conf),
    }
    return json.dumps(header, separators=(",", ":"), ensure_ascii=False)


def lay_skeleton(
    place: str, lines: Sequence[str], *, guard: Guard, logs: Mapping[int, bytes] | None = None
) -> None:
    """Write it at `place`. `lines`: all of `offsets/0`; `logs`: entry 0 of the logs of file sources that it names.
    Raises Refused where something is there already."""
    store = Store.open(place)
    with reaching(place):
        if store.exists() and store.entries():
            raise Refused(f"{place} is not empty. Name a new directory.")
        layout = Layout()
        layout.write("offsets/0", "\n".join(lines).encode())
        for number, log in (logs or {}).items():
            layout.write(f"sources/{number}/0", log)
        layout.write("metadata", metadata_of(str(uuid.uuid4())))
        write_layout(layout, store, guard)
