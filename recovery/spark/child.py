"""Answers one question in a fork of `recovery.server.runner_parent`, on the side of the pipelines.

The pipeline's code runs in this process and nowhere else, so what it did to the process is gone with it. The server
hands over two pipes: the first line of one is the order (`live`), and its end means that no one waits any more; into
the other goes one line of JSON, the answer. What the code prints goes to a log in the question's folder, so that it
cannot spoil the answer. The server bounds time and size once more: this process is not trusted with either.
"""

import json
import os
import resource
import select
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from recovery.errors import Refused, Unreachable, WrongUse
from recovery.server.confinement import load_grants
from recovery.server.landlock import restrict_to

CANCEL_SECONDS: Final = 2.0  # what Spark gets to cancel a question's jobs when nobody waits for it any more
KEPT: Final = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH")
"""Variables of the server that the code of a pipeline may see while it is studied."""
MOST_FILE: Final = 256 * 1024 * 1024  # bytes of each file that the code writes itself, its log among them
_session: list[Any] = []  # the one session, for the thread that watches the server


def import_ahead() -> None:
    """The slow imports, once for all questions. None of them may start a thread: a fork has only one."""
    import pyspark.pipelines
    import pyspark.sql.connect.session  # noqa: F401

    from recovery.spark import answers, catalog, defined, filling, rehearsing, session  # noqa: F401


def live(report: int, control: int) -> NoReturn:
    """Answer the order that comes on `control`: {question: a file of {question, request}, folder, log, remote, memory,
    grants}.

    `remote` opens Spark Connect, token included; `memory` is the limit of this process's data, in bytes; `grants` are
    what Landlock lets it open (`confinement.dump_grants`), None for all that its parent may.
    """
    code = 1
    try:
        order = json.loads(_line(control))
        if order["grants"] is not None:  # before there is a second thread, which Landlock would not hold
            restrict_to(load_grants(order["grants"]))
        _settle(order)
        asked = json.loads(Path(order["question"]).read_bytes())
        threading.Thread(target=_leave_when_nobody_waits, args=[control], daemon=True).start()
        reply = json.dumps(_replied({**asked, **order, "question": asked["question"]})).encode() + b"\n"
        while reply:
            reply = reply[os.write(report, reply) :]
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # the answer is out; threads of a channel that never opened must not hold it up


def _line(control: int) -> bytes:
    """The order, up to its end; nothing of what follows it."""
    read = bytearray()
    while not read.endswith(b"\n"):
        piece = os.read(control, 1)
        if not piece:
            os._exit(0)  # the server has gone, or needs no answer any more
        read += piece
    return bytes(read)


def _settle(order: dict[str, Any]) -> None:
    """In the question's folder, with its log, its limits and the few variables that the code may see."""
    for name in set(os.environ) - set(KEPT):
        del os.environ[name]
    os.environ |= {"HOME": order["folder"], "PYTHONDONTWRITEBYTECODE": "1"}
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # pyspark.sql.functions then builds Connect columns
    sys.dont_write_bytecode = True
    sys.path.pop(0)  # this project's own folder
    os.chdir(order["folder"])
    said = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number in (1, 2):
        os.dup2(said, number)
    os.close(said)
    for limit, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, MOST_FILE),
        (resource.RLIMIT_DATA, int(order["memory"])),
    ):
        resource.setrlimit(limit, (most, most))


def _replied(message: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"answer": _answer(message)}
    except Unreachable as error:
        return {"error": "unreachable", "sentence": error.sentence}
    except WrongUse as error:
        return {"error": "wrong_use", "sentence": error.sentence}
    except Refused as error:
        return {"error": "refused", "sentence": error.sentence}
    except MemoryError:
        return {
            "error": "refused",
            "sentence": "The pipeline's code needs more memory than a question may take.",
        }
    except Exception as error:  # the asker raises it again: a bug must be seen as one
        traceback.print_exc()
        return _failed(error)


def _failed(error: Exception) -> dict[str, str]:
    from recovery.spark.session import first_line, lost_contact

    if lost_contact(error):
        return {"error": "unreachable", "sentence": f"Contact with Spark was lost: {first_line(error)}"}
    return {"error": "bug", "sentence": f"{type(error).__name__}: {first_line(error)}"}


def _answer(message: dict[str, Any]) -> dict[str, Any]:
    from recovery.spark import answers, catalog, deduplicating, defined, filling, rehearsing, topping
    from recovery.spark.session import driver_of, fresh, release_session

    answering: dict[str, Callable[[Any, dict[str, Any], Path], Any]] = {
        "study": answers.study_code,
        "measure": answers.measure_table,
        "defined": defined.compare_dataset,
        "stage": rehearsing.stage,
        "replay": rehearsing.replay,
        "rehearse": rehearsing.run,
        "keep": filling.keep,
        "fill": filling.fill,
        "restore": filling.restore,
        "top-up": topping.top_up,
        "deduplicate": deduplicating.delete_repeats,
    }
    request, question = message["request"], message["question"]
    of_code = request.get("study", request)
    # What a definition file asks of `SparkSession.builder` is the session below; where it is, without its token.
    os.environ["SPARK_REMOTE"] = message["remote"].partition(";")[0]
    os.environ.update(of_code.get("variables", {}))
    spark = fresh(message["remote"], of_code.get("configuration", {}))
    _session.append(spark)
    folder = Path(message["folder"])
    try:
        if question == "count":
            return _json_of(answers.count_table(spark, request["table"], request.get("files")))
        if question == "places":
            return {"tables": catalog.places(spark, request["tables"]), "driver": driver_of(spark)}
        return _json_of(answering[question](spark, request, folder))
    finally:
        _session.clear()
        release_session(spark)


def _json_of(answer: Any) -> dict[str, Any]:
    """The fields of an answer: of a value, or as they are."""
    return asdict(answer) if is_dataclass(answer) and not isinstance(answer, type) else answer


def _leave_when_nobody_waits(control: int) -> None:
    """The server is gone or gave up: cancel what runs on Spark, then end."""
    poll = select.poll()
    poll.register(control, 0)
    poll.poll()
    for spark in list(_session):
        threading.Thread(target=_end_streams, args=[spark], daemon=True).start()
        threading.Thread(target=spark.interruptAll, daemon=True).start()
        threading.Event().wait(CANCEL_SECONDS)
    os._exit(3)


def _end_streams(spark: Any) -> None:
    """An interrupt ends what runs at this moment; a streaming query between two of its jobs would go on."""
    for query in spark.streams.active:
        query.stop()
