"""Learns where flows read from though no one recovers them: code that is new or has changed is studied on Spark.

One flow at a time, and none whose pipeline has an update or a recovery under way: then Spark is wanted for that, and a
recovery studies the code itself. What is studied is the code that wrote the checkpoint, as a recovery takes it: that of
the last good update, else today's. Nothing is written but what is known of the flow's sources, and why it is not.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from recovery.audit import cleansing
from recovery.errors import RepriseError
from recovery.models import Flow, Pipeline, Recovery
from recovery.pipelines.inputs import fault, note_sources
from recovery.pipelines.workspaces import client_for, questions_service
from recovery.spark.api import Study, study
from recovery.workflow.deployed import last_good_source, read_code
from recovery.workflow.fingerprints import digest_of_code
from recovery.workflow.flow_snapshot import FlowSnapshot, find_active_update, known_tables
from recovery.workflow.readers import Readers
from recovery.workflow.studied import code_request

log = logging.getLogger(__name__)

AT_ONCE: Final = 20  # flows whose code is looked at in one round; one of them is studied
SECONDS: Final = 60.0  # for one question to Spark
SOONER: Final = 10  # a failed look is made good after this part of REPRISE_STUDY_SECONDS
BUSY: Final = ("DEPLOYING", "STARTING", "RUNNING", "STOPPING", "RECOVERING", "RESETTING")
NO_SOURCE: Final = "The code names no source of a stream."


@dataclass(frozen=True)
class DeployedCode:
    """The code of a pipeline: `versions` to be studied, the one that wrote the checkpoints first; `digest` is of that.

    `problem`: why the code could not be read. `busy`: an update runs.
    """

    spec: Mapping[str, Any]
    libraries: tuple[str, ...] = ()
    versions: tuple[Mapping[str, str], ...] = ()
    digest: str = ""
    problem: str = ""
    busy: bool = False


def due(now: datetime) -> QuerySet[Flow]:
    """Streaming flows whose code is to be looked at, longest overdue first; of no pipeline that is busy or recovered.

    A flow that never ran has no checkpoint, and so nothing that could wait.
    """
    late = Q(code_due_at=None) | Q(code_due_at__lte=now)
    recovered = Recovery.objects.filter(active=True).values("flow__pipeline")
    flows = Flow.objects.filter(late, streaming=True, pipeline__gone=False)
    flows = flows.exclude(state="unknown", condition="")  # with a condition it has run, whatever came of it
    flows = flows.exclude(pipeline__state__in=BUSY).exclude(pipeline__in=recovered)
    return flows.select_related("pipeline__workspace").order_by(F("code_due_at").asc(nulls_first=True), "pk")


def learn_round() -> None:
    """Look at the code of flows that are due, until one was studied. Nothing where `REPRISE_STUDY_SECONDS` is 0."""
    if not settings.REPRISE_STUDY_SECONDS:
        return
    codes: dict[int, DeployedCode] = {}
    for flow in due(timezone.now())[:AT_ONCE]:
        if flow.pipeline_id not in codes:
            codes[flow.pipeline_id] = _deployed(flow.pipeline)
        if _learn(flow, codes[flow.pipeline_id]):
            return


def _deployed(pipeline: Pipeline) -> DeployedCode:
    try:
        client = client_for(pipeline.workspace)
        answer = client.get_pipeline(pipeline.pipeline_id)
        spec = answer.get("spec") or {}
        if find_active_update(answer) is not None:
            return DeployedCode(spec, busy=True)
        libraries, today = read_code(client, spec)
        good = {**today, **(last_good_source(client, pipeline.pipeline_id) or {})}
    except RepriseError as problem:
        return DeployedCode({}, problem=cleansing.cleanse_text(problem.sentence))
    except Exception as bug:
        return DeployedCode({}, problem=fault(bug, "studied"))
    versions = (good,) if good == today else (good, today)
    return DeployedCode(spec, libraries, versions, digest_of_code(good))


def _learn(flow: Flow, code: DeployedCode) -> bool:
    """Whether Spark was asked."""
    if code.busy or code.problem:
        # a code that cannot be read now has not changed by that: what was studied still counts
        _seen(flow, code.problem if not flow.code_digest else flow.code_problem, sooner=True)
        return False
    if code.digest == flow.code_digest and not flow.code_problem:
        _seen(flow, "")
        return False
    problem = _studied(flow, code)
    _seen(flow, problem, sooner=bool(problem))
    return True


def _studied(flow: Flow, code: DeployedCode) -> str:
    """Why the code could not be studied; "" where its sources are noted."""
    problem = NO_SOURCE
    try:
        for files in code.versions:
            answer = _ask(flow, code, files)
            if answer.sources:
                note_sources(flow, answer.sources, table=_table(flow), code=code.digest)
                return ""
            problem = answer.problem or problem
    except RepriseError as refusal:
        problem = refusal.sentence
    except Exception as bug:
        return fault(bug, "studied")
    return cleansing.cleanse_text(problem)


def _ask(flow: Flow, code: DeployedCode, files: Mapping[str, str]) -> Study:
    asked = questions_service(flow.pipeline.workspace, flow.pipeline.environment)
    return study(code_request(asked, flow.name, code.spec, code.libraries, files), timeout=SECONDS)


def _table(flow: Flow) -> str:
    """Where the flow's table lies; without it its position is at most one batch behind."""
    try:
        return known_tables(flow).get(flow.dataset, "")
    except RepriseError:
        return ""


def _seen(flow: Flow, problem: str, *, sooner: bool = False) -> None:
    now, every = timezone.now(), settings.REPRISE_STUDY_SECONDS
    after = timedelta(seconds=every / SOONER if sooner else every)
    Flow.objects.filter(pk=flow.pk).update(code_seen_at=now, code_problem=problem, code_due_at=now + after)


def note_proven(snapshot: FlowSnapshot, readers: Readers) -> None:
    """After a verification that succeeded: the checkpoint is the code's of now, so its sources are noted at once.

    `readers`: of the snapshot's code. A proof never fails for it: what cannot be asked now is learned in the
    background.
    """
    try:
        digest = digest_of_code(snapshot.code)
        note_sources(snapshot.flow, readers.in_plan_order, table=snapshot.table_place, code=digest)
    except RepriseError as problem:
        log.warning("The sources of %s are learned later: %s", snapshot.flow.name, problem.sentence)
    except Exception as bug:
        fault(bug, "studied")
