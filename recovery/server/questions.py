"""Questions about pipelines' code and tables: each is answered by a fork of its own, never by this process.

A fork of the parent that has paid the imports (`runner_parent`) becomes `recovery.spark.child`. It gets a folder of its
own, the address of Spark, a limit of memory and the time that is left; it is ended at the deadline, when its asker
hangs up, and when its answer is out. What it answers is other people's data: bounded here, and checked by who asked.
"""

import json
import logging
import os
import re
import select
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from recovery.bounded import TooMany, read_json
from recovery.server.confinement import Confinement, dump_grants
from recovery.server.forks import Fork, NoRunner, Runners

LOG = logging.getLogger(__name__)
QUESTIONS: Final = (
    "study",
    "measure",
    "defined",
    "stage",
    "replay",
    "rehearse",
    "count",
    "places",
    "restore",
    "keep",
    "fill",
    "top-up",
    "deduplicate",
)
MOST_SECONDS: Final = 4 * 3600
MOST_ANSWER: Final = 64 * 1024 * 1024  # bytes
AT_ONCE: Final = 8
MEMORY: Final = 4 * 1024**3  # bytes of data of one fork
BEAT_SECONDS: Final = 5.0  # so often a blank is sent while the fork works
LOOK_SECONDS: Final = 0.5  # so often it is looked whether the asker still waits
GRACE_SECONDS: Final = 5.0  # for the fork to cancel its jobs on Spark
LONGEST_SENTENCE: Final = 2000
KNOWN_ERRORS: Final = ("unreachable", "refused", "wrong_use", "bug")


class TooManyQuestions(Exception):
    """As many questions as may be asked at once are under way."""


@dataclass(frozen=True)
class AskedQuestion:
    """One question: its name, what it is about (JSON as `recovery.spark.api` writes it), and the time it has, in s.

    `remote`: the address of Spark Connect, token included.
    """

    question: str
    request: Mapping[str, Any]
    seconds: float
    remote: str


class Questions:
    """The questions that are under way. Any thread may call."""

    def __init__(
        self,
        folder: Path,
        runners: Runners,
        *,
        confine: Callable[[Path], Confinement | None] = lambda _: None,
    ) -> None:
        """`confine`: what the fork of a question with this folder may open; None: all that its parent may."""
        self.folder = folder
        self.runners = runners
        self.confine = confine
        self.turns = threading.BoundedSemaphore(AT_ONCE)

    def clear(self) -> None:
        """Remove what a former server left behind, and have a place for what comes."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(mode=0o700, parents=True)

    def ask(self, asked: AskedQuestion, *, gone: Callable[[], bool] = lambda: False) -> "Answering":
        """Begin to answer. `gone`: whether the asker has hung up. Raises TooManyQuestions, NoRunner."""
        if not self.turns.acquire(blocking=False):
            raise TooManyQuestions
        try:
            return Answering(self, asked, gone)
        except BaseException:
            self.turns.release()
            raise


class Answering:
    """The bytes of one answer: blanks while the fork works, then one JSON object.

    `{"answer": …}` as the fork wrote it, or `{"error": code, "sentence"}` with the fork's own code (`KNOWN_ERRORS`),
    or `late` (the time ran out), `ended` (no answer came), `too_large`, `unreadable` (no JSON of this kind). Blanks go
    before it so that both ends notice a line that is lost. `close` ends the fork, whatever it is doing.
    """

    def __init__(self, questions: Questions, asked: AskedQuestion, gone: Callable[[], bool]) -> None:
        """Raises NoRunner."""
        self.questions = questions
        self.asked = asked
        self.gone = gone
        self.until = time.monotonic() + asked.seconds
        self.folder = Path(tempfile.mkdtemp(prefix="q-", dir=questions.folder))
        self.log = self.folder / ".said"
        self.read = bytearray()
        self.over = self.closed = False
        try:
            self.fork = self._fork_worker()
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def _fork_worker(self) -> Fork:
        file, home = self.folder / ".question", self.folder / "home"
        file.write_text(json.dumps({"question": self.asked.question, "request": self.asked.request}))
        home.mkdir(mode=0o700)
        confinement = self.questions.confine(self.folder)
        grants = None if confinement is None else dump_grants(confinement.grants())
        fork = self.questions.runners.fork("question")
        order = {
            "question": str(file), "folder": str(home), "log": str(self.log), "remote": self.asked.remote,
            "memory": MEMORY, "grants": grants,
        }  # fmt: skip
        fork.send(json.dumps(order).encode() + b"\n")
        return fork

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        """A blank after `BEAT_SECONDS`, or the answer; nothing more after that, or where the asker has gone."""
        if self.over:
            raise StopIteration
        beat = time.monotonic() + BEAT_SECONDS
        while (now := time.monotonic()) < beat:
            if self.gone():
                self.over = True
                raise StopIteration
            if (answer := self._wait_for_answer(min(LOOK_SECONDS, beat - now))) is not None:
                self.over = True
                return answer
        return b"\n"

    def _wait_for_answer(self, seconds: float) -> bytes | None:
        """The answer, where it is there within this time, or none will come any more."""
        left = self.until - time.monotonic()
        if left <= 0:
            return self._error_answer("late")
        poll = select.poll()
        poll.register(self.fork.report, select.POLLIN)
        poll.register(self.fork.handle, select.POLLIN)
        ready = [number for number, _ in poll.poll(max(1, round(min(seconds, left) * 1000)))]
        if self.fork.report in ready:  # before its end: what it wrote last may be an answer
            piece = os.read(self.fork.report, 1 << 20)
            self.read += piece
            if len(self.read) > MOST_ANSWER:
                return self._error_answer("too_large")
            if self.read.endswith(b"\n"):
                return self._check_answer(bytes(self.read))
            if not piece:
                return self._error_answer("ended")
        elif self.fork.handle in ready:
            return self._error_answer("ended")
        return None

    def _check_answer(self, line: bytes) -> bytes:
        """The answer as it came, where it is one; what is odd is an error of its own kind."""
        try:
            reply = read_json(line)
        except TooMany:
            return self._error_answer("too_large")
        except ValueError:
            return self._error_answer("unreadable")
        if isinstance(reply, dict) and isinstance(reply.get("answer"), dict) and len(reply) == 1:
            return line
        if isinstance(reply, dict) and reply.get("error") in KNOWN_ERRORS:
            return self._error_answer(reply["error"], str(reply.get("sentence", "")))
        return self._error_answer("unreadable")

    def _error_answer(self, code: str, sentence: str = "") -> bytes:
        said = redact_tokens(last_words(self.log), self.asked.remote)
        if code not in ("unreachable", "refused", "wrong_use"):
            LOG.warning("The question %s ended: %s. %s", self.asked.question, code, said)
        sentence = redact_tokens(sentence, self.asked.remote)[:LONGEST_SENTENCE]
        return json.dumps({"error": code, "sentence": sentence}).encode() + b"\n"

    def close(self) -> None:
        """End the fork and what it had started, and let the next question have its turn. Again it does nothing."""
        if self.closed:
            return
        self.closed = True
        try:
            self.fork.close_control()
            if not self.read.endswith(b"\n"):  # it still works: it cancels its jobs on Spark first
                select.select([self.fork.handle], [], [], GRACE_SECONDS)
            self.fork.kill()
            self.fork.bury()
            self.questions.runners.children.remove(self.fork.pid)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.questions.turns.release()


def last_words(log: Path) -> str:
    """The end of what was printed while a question was answered; "" where nothing was."""
    try:  # the code may have put a link or a pipe there instead
        handle = os.open(log, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    with os.fdopen(handle, "rb") as file:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode):
            return ""
        file.seek(max(0, facts.st_size - LONGEST_SENTENCE))
        return file.read(LONGEST_SENTENCE).decode(errors="replace").strip()


def redact_tokens(text: str, remote: str) -> str:
    """Without any token of Spark Connect."""
    token = re.search(r"token=([^;&\s]+)", remote)
    if token:
        text = text.replace(token.group(1), "***")
    return re.sub(r"(token=)[^;&\s'\"]+", r"\1***", text)


__all__ = [
    "AT_ONCE",
    "QUESTIONS",
    "Answering",
    "AskedQuestion",
    "NoRunner",
    "Questions",
    "TooManyQuestions",
    "redact_tokens",
]
