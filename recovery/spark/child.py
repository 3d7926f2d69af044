"""The child process: each question a line on stdin, its answer a line of JSON on stdout.

A question is answered in a fork: the pipeline's code runs there and nowhere else, and what it did to the
process is gone with it. What it prints goes to a log in the question's folder, so that it cannot spoil the
answer.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import IO, Any

from recovery.errors import Refused, Unreachable, WrongUse

IDLE_SECONDS = 30.0
CANCEL_SECONDS = 2.0  # what Spark gets to cancel a question's jobs when nobody waits for it any more
PR_SET_PDEATHSIG = 1  # <sys/prctl.h>
_session: list[Any] = []  # the one session, for the thread that watches the parent


def main() -> int:
    """Exit code 0: nobody asked for a while, or the parent has gone."""
    import_slow()
    serve()
    return 0


def serve() -> None:
    """Answer each line of stdin until nobody asks for a while, or the parent has gone."""
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # from here on, print() of anybody is a log line
    with contextlib.suppress(BrokenPipeError):
        while (line := _next_line()) and (reply := _in_a_fork(line, out.fileno())):
            out.write(reply)


def import_slow() -> None:
    """The slow imports, once for all questions. None of them may start a thread: a fork has only one."""
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # pyspark.sql.functions then builds Connect columns
    import pyspark.pipelines
    import pyspark.sql.connect.session  # noqa: F401

    from recovery.spark import rehearsing  # noqa: F401


def _next_line() -> bytes:
    """A question; empty where the parent went away or asked nothing for a while."""
    read = bytearray()
    while not read.endswith(b"\n"):
        ready, _, _ = select.select([0], [], [], IDLE_SECONDS)
        piece = os.read(0, 1 << 16) if ready else b""
        if not piece:
            return b""
        read += piece
    return bytes(read)


def _in_a_fork(line: bytes, out: int) -> bytes | None:
    """The line that a fork answers, or None where the parent went away meanwhile.

    The fork leads a process group, which is ended with everything that the code had started. What has left the group
    may live on: so a fork has neither the pipe of the questions nor that of the answers (`out`), only one that it
    answers into and one whose end means that nobody waits any more.
    """
    read, write = os.pipe()
    given_up, waiting = os.pipe()
    fork = os.fork()
    if fork == 0:
        for number in (read, waiting, out):
            os.close(number)
        _be_the_fork(line, write, given_up)
    for number in (write, given_up):
        os.close(number)
    try:
        with os.fdopen(waiting, "wb", buffering=0) as pipe:
            return _reply(read, pipe)
    finally:
        try:
            os.killpg(fork, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            os.kill(fork, signal.SIGKILL)  # it has not become the leader of a group yet, and is not reaped
        os.waitpid(fork, 0)
        os.close(read)


def _reply(read: int, waiting: IO[bytes]) -> bytes | None:
    """One line from the fork; an empty one where it died; None after stdin was closed and it had its time.

    `waiting` is closed as soon as nobody waits for the answer.

    Not read up to the end of the pipe: a process that the code left behind may hold the other end.
    """
    poll = select.poll()
    poll.register(read, select.POLLIN)
    poll.register(0, 0)  # no data is due: only that the parent closes it counts
    found = bytearray()
    until = float("inf")
    while time.monotonic() < until:
        for number, event in poll.poll(1000):
            if number == read and event:
                piece = os.read(read, 1 << 16)
                found += piece
                if found.endswith(b"\n"):
                    return bytes(found)
                if not piece:
                    return b"\n" if until == float("inf") else None
            elif event & (select.POLLHUP | select.POLLERR):
                poll.unregister(0)
                waiting.close()
                until = time.monotonic() + CANCEL_SECONDS + 1
    return None


def _be_the_fork(line: bytes, write: int, given_up: int) -> None:
    """Answer and end, whatever happens: the loop of the process that forked must not go on in here."""
    code = 1
    try:
        os.setpgid(0, 0)
        _die_with(os.getppid())
        message = json.loads(line)
        os.environ["HOME"] = message["folder"]
        os.chdir(message["folder"])
        said = os.open(message["log"], os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(said, 1)
        os.dup2(said, 2)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)  # the next line is the next question
        threading.Thread(target=_leave_with_parent, args=[given_up], daemon=True).start()
        reply = json.dumps(_replied(message)).encode() + b"\n"
        while reply:
            reply = reply[os.write(write, reply) :]
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)  # the answer is out; threads of a channel that never opened must not hold it up


def _die_with(parent: int) -> None:
    """Linux ends the fork when its parent dies, however it dies."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(3)


def _replied(message: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"answer": _answer(message)}
    except Unreachable as error:
        return {"error": "unreachable", "sentence": error.sentence}
    except WrongUse as error:
        return {"error": "wrong_use", "sentence": error.sentence}
    except Refused as error:
        return {"error": "refused", "sentence": error.sentence}
    except Exception as error:  # the parent raises it again: a bug must be seen as one
        traceback.print_exc()
        return _failed(error)


def _failed(error: Exception) -> dict[str, str]:
    from recovery.spark.session import first_line, lost_contact

    if lost_contact(error):
        return {"error": "unreachable", "sentence": f"Contact with Spark was lost: {first_line(error)}"}
    return {"error": "bug", "sentence": f"{type(error).__name__}: {first_line(error)}"}


def _answer(message: dict[str, Any]) -> dict[str, Any]:
    from recovery.spark import answers, catalog, defined, rehearsing
    from recovery.spark.session import driver_of, fresh

    request, question = message["request"], message["question"]
    of_code = request.get("study", request)
    # What a definition file asks of `SparkSession.builder` is the session below; where it is, without its token.
    os.environ["SPARK_REMOTE"] = message["remote"].partition(";")[0]
    os.environ.update(of_code.get("variables", {}))
    spark = fresh(message["remote"], of_code.get("configuration", {}))
    _session.append(spark)
    folder = Path(message["folder"])
    try:
        if question == "study":
            return answers.study(spark, request, folder)
        if question == "measure":
            return answers.measure(spark, request, folder)
        if question == "defined":
            return defined.compare(spark, request, folder)
        if question == "stage":
            return rehearsing.stage(spark, request, folder)
        if question == "rehearse":
            return rehearsing.run(spark, request, folder)
        if question == "count":
            table = catalog.table(spark, request["table"])
            return {"rows": None if table is None else table.count()}
        return {"tables": catalog.places(spark, request["tables"]), "driver": driver_of(spark)}
    finally:
        _session.clear()
        spark.stop()


def _leave_with_parent(given_up: int) -> None:
    """The asker is gone or gave up: cancel what runs on Spark, then end."""
    poll = select.poll()
    poll.register(given_up, 0)
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


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)
