"""Asks a workspace the six questions of its test. Reads only: what it may do is looked up, never tried.

Bounded: a part of the pipelines is tried (`TRIED`), each call has a time limit, and after `PATIENCE` no further
pipeline is tried.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final
from urllib.parse import urlsplit

from django.utils import timezone

from recovery import reach
from recovery.audit import cleansing
from recovery.checkpoints.storage import Store
from recovery.errors import NotFound, RepriseError, Unreachable
from recovery.models import Stream, Workspace
from recovery.names import shown
from recovery.pipelines.client import PipelinesClient
from recovery.pipelines.errors import ApiDenied
from recovery.pipelines.transport import LOOPBACK
from recovery.pipelines.workspace_answers import (
    AnswerResult,
    LackOf,
    Question,
    WorkspaceAnswer,
    WorkspaceLack,
    WorkspaceTest,
)
from recovery.pipelines.workspaces import connected, questions_service
from recovery.spark.api import whereabouts

TRIED: Final = 20
UPDATES: Final = 100
FAILED: Final = "FAILED"
PATIENCE: Final = 60.0
CALL_SECONDS: Final = 10.0
SPARK_SECONDS: Final = 40.0
MAY_RUN: Final = frozenset({"CAN_RUN", "CAN_MANAGE", "IS_OWNER"})
MAY_EDIT: Final = frozenset({"CAN_MANAGE", "IS_OWNER"})
"""Permission levels of a pipeline, as the permissions API of Databricks names them."""


@dataclass
class _Asking:
    """A test under way: the client once there is one, and what earlier answers showed."""

    workspace: Workspace
    until: float
    client: PipelinesClient | None = None
    account: dict[str, Any] = field(default_factory=dict)
    listed: list[dict[str, Any]] | None = None
    read: list[dict[str, Any]] = field(default_factory=list)

    @property
    def in_time(self) -> bool:
        return time.monotonic() < self.until


def keep_test(workspace_id: int) -> WorkspaceTest | None:
    """Test a workspace and keep the answers in its row; None for one that was removed meanwhile."""
    workspace = Workspace.objects.kept().filter(pk=workspace_id).first()
    if workspace is None:
        return None
    answers = answers_of(workspace)
    same = Workspace.objects.kept().filter(
        pk=workspace_id, url=workspace.url
    )  # not of another address meanwhile
    same.update(tested=answers.as_dict(), test_asked_at=None)
    return answers


def answers_of(workspace: Workspace) -> WorkspaceTest:
    """Ask everything now. What fails is an answer; raises nothing but bugs."""
    at, began = timezone.now(), time.monotonic()
    asking = _Asking(workspace, began + PATIENCE)
    answers: list[WorkspaceAnswer] = []
    try:
        with reach.reading(workspace):
            for question, ask in _OF_STREAMS if workspace.has_streams else _QUESTIONS:
                answers.append(
                    ask(asking)
                    if _may_ask(question, answers)
                    else WorkspaceAnswer(question, AnswerResult.NOT_ASKED)
                )
    finally:
        if asking.client is not None:
            asking.client.close()
    return WorkspaceTest(at.isoformat(), round(time.monotonic() - began, 1), tuple(answers))


def _may_ask(question: Question, before: Sequence[WorkspaceAnswer]) -> bool:
    """Spark is asked whatever the API says; of the API nothing after an answer that forbids it."""
    if question is Question.SPARK:
        return True
    return all(
        a.result is AnswerResult.HOLDS for a in before if a.question in (Question.ANSWERS, Question.TOKEN)
    )


def _answers(asking: _Asking) -> WorkspaceAnswer:
    ask = Question.ANSWERS
    try:
        asking.client = connected(asking.workspace, timeout=CALL_SECONDS)
    except RepriseError as error:
        return WorkspaceAnswer(
            ask, AnswerResult.UNKNOWN, (WorkspaceLack(LackOf.SECRET, detail=error.sentence),)
        )
    try:
        reached = asking.client.reach()
    except Unreachable as error:
        code = LackOf.ADDRESS if error.code in ("outbound", "no_such_host") else LackOf.ANSWER
        return WorkspaceAnswer(ask, AnswerResult.FAILS, (WorkspaceLack(code, detail=error.sentence),))
    lacks: list[WorkspaceLack] = []
    if reached.status >= 500:
        lacks.append(WorkspaceLack(LackOf.ANSWER, detail=f"HTTP {reached.status}"))
    elif not (reached.is_json and (reached.status == 200 or reached.status in (401, 403, 429))):
        lacks.append(WorkspaceLack(LackOf.API, detail=f"HTTP {reached.status}"))
    fails = bool(lacks)
    if asking.workspace.url.startswith("http:") and urlsplit(asking.workspace.url).hostname not in LOOPBACK:
        lacks.append(WorkspaceLack(LackOf.ENCRYPTION))
    until = reached.certificate_until.isoformat() if reached.certificate_until else ""
    result = AnswerResult.FAILS if fails else AnswerResult.HOLDS
    return WorkspaceAnswer(
        ask, result, tuple(lacks), milliseconds=reached.milliseconds, certificate_until=until
    )


def _token(asking: _Asking) -> WorkspaceAnswer:
    client = _client(asking)
    denied = ""
    try:
        asking.listed = client.list_pipelines()
    except RepriseError as error:
        denied = error.sentence
    try:
        asking.account = client.account()
    except ApiDenied as error:
        denied = denied and error.sentence
    except RepriseError:
        pass  # it has no such question; the list has been answered or not
    account = str(asking.account.get("userName") or "")[:200]
    if denied and not account:
        return WorkspaceAnswer(
            Question.TOKEN,
            AnswerResult.FAILS,
            (WorkspaceLack(LackOf.TOKEN, detail=cleansing.cleanse_text(denied)),),
        )
    lacks = () if account else (WorkspaceLack(LackOf.ACCOUNT),)
    return WorkspaceAnswer(Question.TOKEN, AnswerResult.HOLDS, lacks, account=account)


def _read(asking: _Asking) -> WorkspaceAnswer:
    client = _client(asking)
    if asking.listed is None:
        return WorkspaceAnswer(Question.READ, AnswerResult.FAILS, (WorkspaceLack(LackOf.LIST),))
    failed: dict[LackOf, list[str]] = {m: [] for m in (LackOf.PIPELINE, LackOf.EVENTS, LackOf.CODE)}
    details: dict[LackOf, str] = {}
    tried = held = 0
    for entry in asking.listed[:TRIED]:
        if not asking.in_time:
            break
        tried += 1
        name = shown(str(entry.get("name") or entry.get("pipeline_id")))
        lacking = _read_one(asking, client, entry)
        for code, detail in lacking.items():
            failed[code].append(name)
            details.setdefault(code, detail)
        held += not lacking
    lacks = [WorkspaceLack(code, tuple(names), details[code]) for code, names in failed.items() if names]
    jobs = _lack_of(lambda: client.some_jobs(), LackOf.JOBS)
    lacks += [jobs] if jobs else []
    result = AnswerResult.PART if lacks else AnswerResult.HOLDS if tried else AnswerResult.UNKNOWN
    if tried and len(failed[LackOf.PIPELINE]) == tried:
        result = AnswerResult.FAILS
    return WorkspaceAnswer(
        Question.READ, result, tuple(lacks), pipelines=len(asking.listed), tried=tried, held=held
    )


def _read_one(asking: _Asking, client: PipelinesClient, entry: Mapping[str, Any]) -> dict[LackOf, str]:
    """What cannot be read of one pipeline, with what the API said."""
    pipeline_id = str(entry.get("pipeline_id") or "")
    try:
        spec = client.get_pipeline(pipeline_id)
    except RepriseError as error:
        return {LackOf.PIPELINE: cleansing.cleanse_text(error.sentence)}
    asking.read.append(spec)
    lacks: dict[LackOf, str] = {}
    lack = _lack_of(lambda: next(client.events(pipeline_id, limit=1), None), LackOf.EVENTS)
    if lack:
        lacks[lack.code] = lack.detail
    path = _code_path(spec.get("spec") or {})
    lack = _lack_of(lambda: client.get_status(path), LackOf.CODE) if path else None
    if lack:
        lacks[lack.code] = lack.detail
    return lacks


def _lack_of(call: Callable[[], object], code: LackOf) -> WorkspaceLack | None:
    """None where it answers. A jobs API that is not there is none that could be denied: nothing starts by it."""
    try:
        call()
    except NotFound as error:
        return (
            None
            if code is LackOf.JOBS
            else WorkspaceLack(code, detail=cleansing.cleanse_text(error.sentence))
        )
    except RepriseError as error:
        return WorkspaceLack(code, detail=cleansing.cleanse_text(error.sentence))
    return None


def _code_path(spec: Mapping[str, Any]) -> str:
    """Where the first of a pipeline's definition files is, or the folder of a pattern; "" where it names none."""
    for library in spec.get("libraries") or []:
        for kind in ("file", "notebook", "glob"):
            entry = library.get(kind) if isinstance(library, dict) else None
            place = (entry or {}).get("path") or (entry or {}).get("include")
            if isinstance(place, str) and place:
                return place.split("*", 1)[0].rstrip("/") if "*" in place else place
    return ""


def _act(asking: _Asking) -> WorkspaceAnswer:
    """By the rights list of each pipeline; nothing is started, stopped or edited to find out."""
    client = _client(asking)
    account = str(asking.account.get("userName") or "")
    if not account:
        return WorkspaceAnswer(Question.ACT, AnswerResult.UNKNOWN, (WorkspaceLack(LackOf.ACCOUNT),))
    groups = {str(g.get("display")) for g in asking.account.get("groups") or [] if isinstance(g, dict)}
    names: dict[LackOf, list[str]] = {m: [] for m in (LackOf.RUN, LackOf.EDIT, LackOf.RIGHTS)}
    tried = held = 0
    for told in asking.read:
        if not asking.in_time:
            break
        tried += 1
        name = shown(str(told.get("name") or told.get("pipeline_id")))
        try:
            levels = _levels(client.rights_list(str(told.get("pipeline_id"))), account, groups)
        except RepriseError:
            names[LackOf.RIGHTS].append(name)
            continue
        lacking = [m for m, may in ((LackOf.RUN, MAY_RUN), (LackOf.EDIT, MAY_EDIT)) if not levels & may]
        for code in lacking:
            names[code].append(name)
        held += not lacking
    lacks = tuple(WorkspaceLack(code, tuple(found)) for code, found in names.items() if found)
    unknown = len(names[LackOf.RIGHTS]) == tried
    result = AnswerResult.UNKNOWN if unknown else AnswerResult.HOLDS if held == tried else AnswerResult.PART
    if tried and len(names[LackOf.RUN]) == tried:
        result = AnswerResult.FAILS
    return WorkspaceAnswer(Question.ACT, result, lacks, account=account, tried=tried, held=held)


def _levels(entries: Sequence[Mapping[str, Any]], account: str, groups: set[str]) -> set[str]:
    """The permission levels that a rights list gives to this account, itself or by a group."""
    mine = [
        entry
        for entry in entries
        if account in (entry.get("user_name"), entry.get("service_principal_name"))
        or entry.get("group_name") in groups
    ]
    given = [p for entry in mine for p in entry.get("all_permissions") or [] if isinstance(p, dict)]
    return {str(p.get("permission_level")) for p in given}


def _checkpoints(asking: _Asking) -> WorkspaceAnswer:
    unnamed: list[str] = []
    denied: list[str] = []
    detail = ""
    tried = held = new = 0
    for told in asking.read:
        if not asking.in_time:
            break
        tried += 1
        name = shown(str(told.get("name") or told.get("pipeline_id")))
        root = str((told.get("spec") or {}).get("storage") or "").rstrip("/")
        if not root:
            unnamed.append(name)
            continue
        at_root = _look_at_storage(root)
        if at_root is _Storage.NO_ROOT and _may_have_run(_client(asking), told):
            at_root = "no such folder"
        if isinstance(at_root, str):
            denied.append(name)
            detail = detail or at_root
        else:
            held += 1
            new += at_root is not _Storage.CHECKPOINTS
    found = (
        WorkspaceLack(LackOf.STORAGE, tuple(unnamed)),
        WorkspaceLack(LackOf.CHECKPOINTS, tuple(denied), detail),
    )
    lacks = tuple(lack for lack in found if lack.pipelines)
    result = AnswerResult.UNKNOWN if not tried else AnswerResult.HOLDS if held == tried else AnswerResult.PART
    if tried and not held:
        result = AnswerResult.FAILS
    return WorkspaceAnswer(Question.CHECKPOINTS, result, lacks, tried=tried, held=held, new=new)


class _Storage(Enum):
    """What is at a storage root, where nothing hinders the look."""

    CHECKPOINTS = auto()
    NONE_YET = auto()
    NO_ROOT = auto()


def _look_at_storage(root: str) -> _Storage | str:
    """What is at a storage root, or why it cannot be listed.

    A root without checkpoints is seen, and Spark makes the folder with the first stream that runs. A root that is not
    there is one that cannot be seen from here, or one where nothing ever ran (`_may_have_run`).
    """
    try:
        for place, there in ((f"{root}/_checkpoints", _Storage.CHECKPOINTS), (root, _Storage.NONE_YET)):
            with suppress(FileNotFoundError):
                Store.open(place).entries(limit=1)
                return there
    except RepriseError as error:
        return cleansing.cleanse_text(error.sentence)
    except OSError as error:
        return str(error.strerror or type(error).__name__)
    return _Storage.NO_ROOT


def _may_have_run(client: PipelinesClient, told: Mapping[str, Any]) -> bool:
    """Did an update of this pipeline get as far as a checkpoint? Of those that failed it is taken that none did.

    The pipeline itself names the newest updates only; where all of those failed, `UPDATES` of them are asked for.
    """
    updates = told.get("latest_updates") or []
    if updates and all(update.get("state") == FAILED for update in updates):
        try:
            updates = client.list_updates(str(told.get("pipeline_id")), limit=UPDATES)
        except RepriseError:
            return True
    return any(update.get("state") != FAILED for update in updates)


def _logs(asking: _Asking) -> WorkspaceAnswer:
    """Each folder of event logs, the workspace's own and those that its streams name, is listed."""
    streams = Stream.objects.filter(pipeline__workspace=asking.workspace, pipeline__gone=False)
    named = {s.event_log for s in streams if s.event_log} | set(asking.workspace.event_logs)
    failed = [(place, why) for place in sorted(named) if (why := _listed(place))]
    if not named:
        return WorkspaceAnswer(Question.LOGS, AnswerResult.UNKNOWN, (WorkspaceLack(LackOf.NO_LOGS),))
    lacks = (WorkspaceLack(LackOf.LOGS, tuple(place for place, _ in failed), failed[0][1]),) if failed else ()
    result = (
        AnswerResult.HOLDS
        if not failed
        else AnswerResult.PART
        if len(failed) < len(named)
        else AnswerResult.FAILS
    )
    return WorkspaceAnswer(Question.LOGS, result, lacks)


def _stream_checkpoints(asking: _Asking) -> WorkspaceAnswer:
    rows = Stream.objects.filter(pipeline__workspace=asking.workspace, pipeline__gone=False)
    denied: list[tuple[str, str]] = []
    tried = 0
    for stream in rows.select_related("pipeline").order_by("pk")[:TRIED]:
        if not asking.in_time:
            break
        tried += 1
        if why := _listed(stream.checkpoint):
            denied.append((shown(stream.pipeline.name), why))
    names = tuple(name for name, _ in denied)
    lacks = (WorkspaceLack(LackOf.CHECKPOINTS, names, denied[0][1]),) if denied else ()
    held = tried - len(denied)
    result = (
        AnswerResult.UNKNOWN
        if not tried
        else AnswerResult.HOLDS
        if not denied
        else AnswerResult.PART
        if held
        else AnswerResult.FAILS
    )
    return WorkspaceAnswer(Question.CHECKPOINTS, result, lacks, tried=tried, held=held)


def _listed(place: str) -> str:
    """Why a folder cannot be listed; "" where it can."""
    try:
        Store.open(place).entries(limit=1)
    except RepriseError as error:
        return cleansing.cleanse_text(error.sentence)
    except OSError as error:
        return str(error.strerror or type(error).__name__)
    return ""


def _spark(asking: _Asking) -> WorkspaceAnswer:
    try:
        answers = questions_service(asking.workspace, asking.workspace.environment)
    except RepriseError as error:
        code = LackOf.QUESTIONS if error.code == "no_questions" else LackOf.SPARK
        detail = "" if error.code == "no_questions" else error.sentence
        return WorkspaceAnswer(Question.SPARK, AnswerResult.FAILS, (WorkspaceLack(code, detail=detail),))
    began = time.monotonic()
    try:
        driver = whereabouts(answers, [], timeout=SPARK_SECONDS).driver
    except RepriseError as error:
        return WorkspaceAnswer(
            Question.SPARK,
            AnswerResult.FAILS,
            (WorkspaceLack(LackOf.SPARK, detail=cleansing.cleanse_text(error.sentence)),),
        )
    took = round((time.monotonic() - began) * 1000)
    version = driver.rsplit(" ", 1)[-1]
    return WorkspaceAnswer(Question.SPARK, AnswerResult.HOLDS, milliseconds=took, version=version)


def _client(asking: _Asking) -> PipelinesClient:
    assert asking.client is not None, "the first question makes it"
    return asking.client


_QUESTIONS: Final[tuple[tuple[Question, Callable[[_Asking], WorkspaceAnswer]], ...]] = (
    (Question.ANSWERS, _answers),
    (Question.TOKEN, _token),
    (Question.READ, _read),
    (Question.ACT, _act),
    (Question.CHECKPOINTS, _checkpoints),
    (Question.SPARK, _spark),
)
_OF_STREAMS: Final[tuple[tuple[Question, Callable[[_Asking], WorkspaceAnswer]], ...]] = (
    (Question.LOGS, _logs),
    (Question.CHECKPOINTS, _stream_checkpoints),
    (Question.SPARK, _spark),
)
"""Of plain streams, which have no API."""
