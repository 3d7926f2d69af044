"""The child process: one question as a line on stdin, one answer as JSON on stdout, logs on stderr.

Code of a pipeline runs here and nowhere else. What it prints goes to stderr, so that it cannot
spoil the answer.
"""

import json
import os
import select
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

from recovery.errors import Refused, Unreachable, WrongUse

IDLE_SECONDS = 300.0
_session: list[Any] = []  # the one session, for the thread that watches the parent


def main() -> int:
    """Exit code 0 with an answer, 1 with an error; either is one JSON object on stdout."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # from here on, print() of anybody is a log line
    _import()
    line = _first_line()
    if not line:
        return 3  # nobody asked
    message = json.loads(line)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    try:
        reply: dict[str, Any] = {"answer": _answer(message)}
    except Unreachable as error:
        reply = {"error": "unreachable", "sentence": error.sentence}
    except WrongUse as error:
        reply = {"error": "wrong_use", "sentence": error.sentence}
    except Refused as error:
        reply = {"error": "refused", "sentence": error.sentence}
    except Exception as error:  # the parent raises it again: a bug must be seen as one
        traceback.print_exc()
        reply = _failed(error)
    out.write(json.dumps(reply))
    out.flush()
    return 0 if "answer" in reply else 1


def _import() -> None:
    """The slow imports, before the question is there: a child may be started ahead of it."""
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # pyspark.sql.functions then builds Connect columns
    import pyspark.pipelines
    import pyspark.sql.connect.session  # noqa: F401

    from recovery.spark import answers  # noqa: F401


def _first_line() -> str:
    """The question; empty where the parent went away or asked nothing for a long time."""
    ready, _, _ = select.select([sys.stdin], [], [], IDLE_SECONDS)
    return sys.stdin.readline() if ready else ""


def _failed(error: Exception) -> dict[str, str]:
    from recovery.spark.session import first_line, lost_contact

    if lost_contact(error):
        return {"error": "unreachable", "sentence": f"Contact with Spark was lost: {first_line(error)}"}
    return {"error": "bug", "sentence": f"{type(error).__name__}: {first_line(error)}"}


def _answer(message: dict[str, Any]) -> dict[str, Any]:
    from recovery.spark import answers
    from recovery.spark.session import fresh

    request, question = message["request"], message["question"]
    of_code = request.get("study", request)
    spark = fresh(message["remote"], of_code.get("configuration", {}))
    _session.append(spark)
    folder = Path(message["folder"])
    try:
        if question == "study":
            return answers.study(spark, request, folder)
        if question == "measure":
            return answers.measure(spark, request, folder)
        if question == "locations":
            return {"tables": answers.locations(spark, request["tables"])}
        return {"tables": answers.tables(spark, request["catalog"], request["schema"])}
    finally:
        _session.clear()
        spark.stop()


def _leave_with_parent() -> None:
    """stdin closed: the parent is gone or gave up. Cancel what runs on Spark, then end."""
    sys.stdin.read()
    for spark in list(_session):
        threading.Thread(target=spark.interruptAll, daemon=True).start()
        threading.Event().wait(2.0)
    os._exit(3)


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # the answer is out; threads of a channel that never opened must not hold it up
