"""Who answers questions in tests: the Pipelines server of an instance, or, for a Spark without a server, its code."""

import atexit
import json
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from recovery.server.children import Children
from recovery.server.confinement import Confinement
from recovery.server.forks import Runners
from recovery.server.questions import AskedQuestion, Questions
from recovery.spark.asking import Service, answer_in
from tests.stack import Stack


@dataclass(frozen=True)
class Beside:
    """Answers as a Pipelines server does, with its code and its forks, without HTTP: about any Spark."""

    remote: str

    def ask(self, question: str, request: Mapping[str, Any], *, seconds: float) -> Mapping[str, Any]:
        with closing(
            forks().ask(AskedQuestion(question, json.loads(json.dumps(request)), seconds, self.remote))
        ) as body:
            return answer_in(b"".join(body), seconds)


@cache
def forks() -> Questions:
    """The questions of this process, with a warm parent of their own."""
    folder = Path(tempfile.mkdtemp(prefix="reprise-questions-"))
    runners = Runners(folder / "runners.log", Children(folder / "pids"), confinement=Confinement())
    atexit.register(runners.end)
    questions = Questions(folder / "questions", runners)
    questions.clear()
    return questions


def service(stack: Stack) -> Service:
    """The questions service of an instance."""
    demo = stack.demo
    return Service(url=demo["pipelines_url"], token=demo["pipelines_token"], environment="development")
