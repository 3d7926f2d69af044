"""What Spark said of a flow is used again while everything that it rests on stands still.

Planning asks the same again and again: when facts are gathered, when the plan is sealed, after each edit. An answer is
found by a digest of all that it rests on: the request (code, configuration, libraries, names, what is counted, the
key), the run of Spark, size and time of every file that it names, and of every file of the flow's table where rows are
compared with it. What cannot be named so is asked each time: code that reaches beyond its streams
(`Study.rests_on`), slices of topics and tables, a file or a table whose marks are not known, an answer with a problem.
Time and chance cannot be seen, so no answer is older than `AGE`: no more than if the plan had been sealed then.
"""

import contextlib
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import timedelta
from typing import Final

from django.db import DatabaseError, transaction
from django.utils import timezone

from recovery import encryption
from recovery.errors import Refused, Unreachable
from recovery.models import Flow, KeptStudy
from recovery.spark.api import Study, StudyRequest, as_study
from recovery.spark.asking import sent

AGE: Final = timedelta(minutes=15)
EACH: Final = 12  # answers of one flow: old and new code, learned and counted, for a few edits
BYTES: Final = 512 * 1024  # of one answer
FORM: Final = 2  # of what is kept: raise it when `Study`, or how it is made, changes
PURPOSE: Final = "kept study"

Mark = tuple[int, int]  # size, mtime in ms
Ask = Callable[[StudyRequest], Study]


@dataclass(frozen=True)
class StudyBasis:
    """What an answer rests on beside its request.

    `driver`: the run of Spark that answers, "" where it is not known. `table`: tells the flow's table from what it was
    before, "" where nothing can. `files`: marks of the input files, by path; one that is not there is not known.
    """

    driver: str = ""
    table: str = ""
    files: Mapping[str, Mark] = field(default_factory=dict)


def key_of(request: StudyRequest, ground: StudyBasis) -> str | None:
    """The digest by which an answer is found again; None: it cannot be named, so Spark is asked."""
    if not ground.driver or request.write or any(request.slices.values()):
        return None
    if request.table and not ground.table:
        return None
    named = sorted({path for paths in request.sets.values() for path in paths})
    marks = [(path, ground.files.get(path)) for path in named]
    if any(mark is None or not mark[1] for _, mark in marks):
        return None
    asked = sent(request)  # without who is asked: which Spark answers is the ground's `driver`
    rests_on = {
        "form": [FORM, *sorted(each.name for each in fields(Study))],
        "asked": asked,
        "driver": ground.driver,
        "table": ground.table if request.table else "",
        "files": marks,
    }
    return hashlib.sha256(json.dumps(rests_on, sort_keys=True).encode()).hexdigest()


def may_be_kept(answer: Study, ground: StudyBasis) -> bool:
    """Whether the same question would be answered the same: nothing went wrong, nothing beside the request counts."""
    settled = answer.problem is None and not answer.bounded  # Spark may be quicker next time
    return settled and answer.rests_on == () and answer.driver == ground.driver


class KeptStudies:
    """Answers of one flow. `ask` is called for those that are not kept."""

    def __init__(self, flow: Flow, ask: Ask) -> None:
        self._flow = flow
        self._ask = ask

    def __call__(self, request: StudyRequest, ground: StudyBasis) -> Study:
        """The kept answer, else Spark's. Raises as `ask`."""
        key = key_of(request, ground)
        if key is None:
            return self._ask(request)
        if (kept := self._find(key)) is not None and may_be_kept(kept, ground):
            return kept
        answer = self._ask(request)
        if may_be_kept(answer, ground):
            self._keep(key, answer)
        return answer

    def _find(self, key: str) -> Study | None:
        row = KeptStudy.objects.filter(flow=self._flow, key=key, at__gt=timezone.now() - AGE).first()
        if row is None:
            return None
        try:
            return as_study(json.loads(encryption.decrypted(row.answer, PURPOSE)))
        except (Refused, Unreachable):
            return None  # it was written under another secret key, or by another version

    def _keep(self, key: str, answer: Study) -> None:
        text, now = json.dumps(asdict(answer)), timezone.now()
        if len(text) > BYTES:
            return
        values = {"answer": encryption.encrypted(text, PURPOSE), "at": now}
        mine = KeptStudy.objects.filter(flow=self._flow)
        # The answer is in hand: a database that is locked at this moment costs a question later, and nothing now.
        with contextlib.suppress(DatabaseError), transaction.atomic():
            KeptStudy.objects.update_or_create(flow=self._flow, key=key, defaults=values)
            newest = mine.order_by("-at", "-pk").values_list("pk", flat=True)[:EACH]
            mine.exclude(pk__in=list(newest)).delete()
            KeptStudy.objects.filter(at__lte=now - AGE).delete()
