"""What a fork becomes in place of `recovery.spark.child`: code of a test, which answers as badly as it likes.

It has the names `report` (its pipe to the server), `order` (what the server ordered), `answer` (writes a line).
"""

import json
import os
import traceback
from pathlib import Path

from recovery.server.confinement import load_grants
from recovery.server.landlock import restrict_to


def import_ahead() -> None:
    """Nothing: these imports are cheap."""


def live(report: int, control: int) -> None:
    order = json.loads(os.fdopen(control, closefd=False).readline())
    if order["grants"] is not None:
        restrict_to(load_grants(order["grants"]))
    request = json.loads(Path(order["question"]).read_bytes())["request"]

    def answer(line: bytes) -> None:
        os.write(report, line)

    try:
        exec(request["code"], {"report": report, "order": order, "answer": answer})  # noqa: S102
    except BaseException:
        traceback.print_exc()
    os._exit(0)
