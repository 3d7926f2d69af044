"""The questions of a probe, besides that of its step: what they ask, whom, and for how long. Reads only.

Each is asked whatever became of the others, but no service is asked again in the same probe after it gave no answer.
What is not answered is *not known*, never a no.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Final

from recovery import reach
from recovery.blaming import first_sentence
from recovery.checkpoints import inspect_checkpoint, publishing, read_fingerprint
from recovery.checkpoints.report import CheckpointReport
from recovery.contracts import codec
from recovery.contracts.names import StepKind
from recovery.contracts.plan import PlanBody
from recovery.contracts.probes import EvidenceLine, ProbeAnswer, ProbeQuestion
from recovery.contracts.results import UpdateResult, VerifyResult
from recovery.errors import RepriseError, Unreachable
from recovery.models import Recovery, Step
from recovery.pipelines.client import PipelinesClient
from recovery.pipelines.events import ENDED, when
from recovery.pipelines.workspaces import client_for, questions_service
from recovery.sinks.live.tables import read_table
from recovery.spark.api import count, whereabouts
from recovery.workflow.flow_snapshot import find_active_update
from recovery.workflow.places import checkpoint_of
from recovery.workflow.steps.base import saw

FARTHEST: Final = 25
"""So many updates are looked through for those that someone else started."""


def started_update(step: Step) -> str:
    """The update that a step has noted as its own; "": none, or it is of a kind that starts none."""
    if step.kind == StepKind.VERIFY:
        return codec.read(VerifyResult, step.result).further or ""
    noted = read_update_result(step)
    return (noted.update_id or "") if noted else ""


def read_update_result(step: Step) -> UpdateResult | None:
    """What a rerun or a refresh has noted of its update; None: the step is of another kind."""
    if step.kind not in (StepKind.RERUN, StepKind.REFRESH):
        return None
    return codec.read(UpdateResult, step.result)


class ProbedService(StrEnum):
    """Who answers."""

    CONSOLE = "console"
    API = "api"
    STORAGE = "storage"
    SPARK = "spark"


SECONDS: Final[Mapping[ProbedService, float]] = {
    ProbedService.API: 10.0,
    ProbedService.STORAGE: 10.0,
    ProbedService.SPARK: 15.0,
}
"""How long one question may take; the console's own database has its own limits."""


class ProbedStep:
    """A step of which no one saw the end, and what several questions need of it, each read once."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.flow = step.recovery.flow
        self.pipeline = self.flow.pipeline
        self.run_noun: str = self.pipeline.workspace.run_noun

    @cached_property
    def client(self) -> PipelinesClient:
        return client_for(self.pipeline.workspace, timeout=SECONDS[ProbedService.API])

    @cached_property
    def contents(self) -> PlanBody | None:
        return self.step.plan.contents if self.step.plan is not None else None

    @cached_property
    def place(self) -> str:
        return checkpoint_of(self.flow)

    @cached_property
    def checkpoint(self) -> CheckpointReport:
        return inspect_checkpoint(self.place)

    @cached_property
    def started(self) -> tuple[str, ...]:
        """The updates that are known to be the step's, the newest one last."""
        if self.step.kind == StepKind.VERIFY:
            return tuple(filter(None, [started_update(self.step)]))
        return self._noted.started if self._noted else ()

    @property
    def may_have_started(self) -> bool:
        """Whether it may have started an update that is not noted."""
        return self._noted is not None and self._noted.has_unnoted_start

    @property
    def newest_before(self) -> str | None:
        """The newest update before its start request; None: there was none, or it is not noted."""
        return self._noted.newest_before if self._noted else None

    @cached_property
    def _noted(self) -> UpdateResult | None:
        return read_update_result(self.step)

    def name_run(self, update_id: str) -> str:
        return f"{self.run_noun.capitalize()} {update_id}"


def _ask_worker(probed: ProbedStep) -> EvidenceLine:
    step = probed.step
    if step.heartbeat_at is None:
        return saw(True, "No worker has given a sign of life.")
    return saw(
        True, f"{step.worker or 'Its worker'} gave its last sign of life at {step.heartbeat_at:%H:%M:%S} UTC."
    )


def _ask_lock(probed: ProbedStep) -> EvidenceLine:
    """One recovery at most is active for a flow, and a worker with an older fence changes nothing."""
    recovery = Recovery.objects.only("pk", "active").get(pk=probed.step.recovery_id)
    fence = Step.objects.values_list("fence", flat=True).get(pk=probed.step.pk)
    if not recovery.active:
        return saw(False, f"{recovery.label} is no longer active: another recovery of this flow may begin.")
    if fence != probed.step.fence:
        return saw(False, f"{recovery.label} holds the flow, and another worker has the step: fence {fence}.")
    return saw(
        True,
        f"{recovery.label} holds the flow: no other recovery of it begins. Fence {fence}: a worker with an older one "
        "changes nothing.",
    )


def _ask_active(probed: ProbedStep) -> EvidenceLine:
    active = find_active_update(probed.client.get_pipeline(probed.pipeline.pipeline_id))
    if active is None:
        return saw(True, f"No {probed.run_noun} is active.")
    return saw(True, f"{probed.name_run(active)} is active.")


def _ask_query(probed: ProbedStep) -> EvidenceLine:
    """No API lists the queries that run: only the end of what runs them proves that none does."""
    if probed.may_have_started:
        return saw(
            None, f"Whether this step has started a {probed.run_noun} is not known, so neither is its query."
        )
    if not probed.started:
        return saw(True, f"This step has started no {probed.run_noun}, so no query of it runs.")
    newest = probed.started[-1]
    state = str(probed.client.get_update(probed.pipeline.pipeline_id, newest).get("state"))
    if state in ENDED:
        return saw(True, f"{probed.name_run(newest)} is {state}: its query has ended.")
    return saw(
        None,
        f"{probed.name_run(newest)} is {state}, as last reported. Which queries it runs cannot be asked from here.",
    )


def _ask_last_event(probed: ProbedStep) -> EvidenceLine | None:
    if not probed.started:
        return None
    newest = probed.started[-1]
    last = next(
        iter(probed.client.events(probed.pipeline.pipeline_id, filter=f"update_id = '{newest}'", limit=1)),
        None,
    )
    if last is None:
        return saw(True, f"{probed.name_run(newest)} has no event.")
    at = when(last.get("timestamp"))
    words = first_sentence(str(last.get("message") or ""))
    moment = f"at {at:%H:%M:%S} UTC" if at else "at a time that is not known"
    return saw(True, f"{last.get('event_type') or 'An event'} {moment}{f': {words}' if words else ''}.")


@dataclass(frozen=True)
class ListedUpdate:
    """One update in the API's list. `is_dry`: it only validates, and writes nothing."""

    update_id: str
    began: datetime | None
    is_dry: bool


def _ask_others(probed: ProbedStep) -> EvidenceLine:
    """Updates since this one was asked for, less its own."""
    since, seen_all = _since_start(probed)
    others = [u.update_id for u in since if not u.is_dry and u.update_id not in probed.started]
    named = ", ".join(others)
    if others and probed.may_have_started:
        return saw(
            None, f"Whether this step or someone else started {named} is neither proven nor ruled out."
        )
    if others:
        return saw(False, f"Someone else has started {named} since.")
    if not seen_all:
        return saw(None, f"More than {FARTHEST} {probed.run_noun}s began since; not all were looked through.")
    return saw(True, f"No other {probed.run_noun} was started since.")


def _since_start(probed: ProbedStep) -> tuple[list[ListedUpdate], bool]:
    """Of the newest updates those that began after the step did; and whether those are all of them."""
    listed = [
        ListedUpdate(str(u.get("update_id")), when(u.get("creation_time")), bool(u.get("validate_only")))
        for u in probed.client.list_updates(probed.pipeline.pipeline_id, limit=FARTHEST)
    ]
    ids = [update.update_id for update in listed]
    if probed.newest_before in ids:
        return listed[: ids.index(probed.newest_before)], True
    began = probed.step.started_at
    newer = [u for u in listed if began is None or u.began is None or u.began >= began]
    return newer, len(newer) < len(listed) or len(listed) < FARTHEST


def _ask_checkpoint(probed: ProbedStep) -> EvidenceLine:
    report = probed.checkpoint
    version = "" if report.version is None else f"Version {report.version}: "
    committed = "no batch" if report.last_committed is None else f"batch {report.last_committed}"
    ahead = report.last_planned is not None and report.last_planned != report.last_committed
    planned = f", batch {report.last_planned} planned and not committed" if ahead else ""
    return saw(True, f"{version}{committed} committed last{planned}.")


def _ask_old_version(probed: ProbedStep) -> EvidenceLine | None:
    """Of a recovery that has put another version into place: is the sealed one as it was?"""
    if probed.contents is None:
        return None
    sealed = probed.contents.preconditions.checkpoint
    if sealed.version is None:
        if not probed.step.recovery.steps.filter(kind="seed", plan=probed.step.plan, state="done").exists():
            return None
        place, name = (
            publishing.set_aside(probed.place, recovery=probed.step.recovery.label),
            "The old checkpoint",
        )
    elif probed.checkpoint.version == sealed.version:
        return None
    else:
        place, name = f"{probed.place}/{sealed.version}", f"Version {sealed.version}"
    now = read_fingerprint(place)
    if now == sealed.fingerprint:
        return saw(True, f"{name} is as the plan sealed it: {now[:8]}.")
    return saw(False, f"{name} is not as the plan sealed it: {sealed.fingerprint[:8]} then, {now[:8]} now.")


def _ask_table(probed: ProbedStep) -> EvidenceLine | None:
    """A table's own log tells which batches its readers see; of a topic that is not read here."""
    contents = probed.contents
    if contents is None or contents.sink.is_declared or not contents.table_place:
        return None
    table = read_table(contents.table_place, query_id=probed.checkpoint.query_id)
    head = "no batch of this query" if table.head is None else f"batch {table.head}"
    version = "" if table.version is None else f", at version {table.version}"
    return saw(True, f"The table's log ends at {head}{version}.")


def _ask_rows(probed: ProbedStep) -> EvidenceLine | None:
    contents = probed.contents
    if contents is None or contents.sink.is_declared or contents.dataset.count(".") != 2:
        return None
    answers = questions_service(probed.pipeline.workspace, probed.pipeline.environment)
    settings = probed.pipeline.spec.get("configuration") or {}
    rows = count(answers, contents.dataset, settings, timeout=SECONDS[ProbedService.SPARK])
    if rows is None:
        return saw(None, f"Spark knows no table {contents.dataset}.")
    before = "" if contents.table_rows is None else f"; {contents.table_rows:,} when the plan was sealed"
    return saw(True, f"{rows:,} row{'' if rows == 1 else 's'}{before}.")


def _ask_spark(probed: ProbedStep) -> EvidenceLine:
    answers = questions_service(probed.pipeline.workspace, probed.pipeline.environment)
    whereabouts(answers, [], timeout=SECONDS[ProbedService.SPARK])
    return saw(True, "It answers.")


@dataclass(frozen=True)
class ProbeRead:
    """One question. `ask` answers None where there is nothing to ask of this step."""

    asked: ProbeQuestion
    service: ProbedService
    ask: Callable[[ProbedStep], EvidenceLine | None]


QUESTIONS: Final = (
    ProbeRead(ProbeQuestion.WORKER, ProbedService.CONSOLE, _ask_worker),
    ProbeRead(ProbeQuestion.LOCK, ProbedService.CONSOLE, _ask_lock),
    ProbeRead(ProbeQuestion.ACTIVE, ProbedService.API, _ask_active),
    ProbeRead(ProbeQuestion.QUERY, ProbedService.API, _ask_query),
    ProbeRead(ProbeQuestion.LAST_EVENT, ProbedService.API, _ask_last_event),
    ProbeRead(ProbeQuestion.OTHERS, ProbedService.API, _ask_others),
    ProbeRead(ProbeQuestion.CHECKPOINT, ProbedService.STORAGE, _ask_checkpoint),
    ProbeRead(ProbeQuestion.OLD_VERSION, ProbedService.STORAGE, _ask_old_version),
    ProbeRead(ProbeQuestion.TABLE, ProbedService.STORAGE, _ask_table),
    ProbeRead(ProbeQuestion.SPARK, ProbedService.SPARK, _ask_spark),
    ProbeRead(ProbeQuestion.ROWS, ProbedService.SPARK, _ask_rows),
)


def ask_all(step: Step, now: Callable[[], datetime]) -> tuple[ProbeAnswer, ...]:
    """What every question that fits this step answers, in their order."""
    probed, silent = ProbedStep(step), dict[ProbedService, str]()
    answers = []
    for question in QUESTIONS:
        line = _ask_guarded(question, probed, silent)
        if line is not None:
            answers.append(
                ProbeAnswer(asked=question.asked, proven=line.proven, says=line.says, at=now().isoformat())
            )
    return tuple(answers)


def _ask_guarded(
    question: ProbeRead, probed: ProbedStep, silent: dict[ProbedService, str]
) -> EvidenceLine | None:
    """One answer within its time. `silent`: what services said, or failed to, that are not asked again."""
    if question.service in silent:
        return saw(None, f"Not asked: {silent[question.service]}")
    try:
        with _reading(probed, SECONDS.get(question.service)):
            return question.ask(probed)
    except RepriseError as problem:
        if _is_silence(question.service, problem):
            silent[question.service] = problem.sentence
        return saw(None, problem.sentence)


def _reading(probed: ProbedStep, seconds: float | None) -> AbstractContextManager[None]:
    workspace = probed.pipeline.workspace
    return reach.reading(workspace) if seconds is None else reach.reading_within(workspace, seconds)


def _is_silence(service: ProbedService, problem: RepriseError) -> bool:
    """Storage that answered with a no is asked on; an API or a Spark that could not be reached is not."""
    if not isinstance(problem, Unreachable):
        return False
    return service is not ProbedService.STORAGE or problem.code in (
        "store_silent",
        "store_slow",
        "store_busy",
    )
