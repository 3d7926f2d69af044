"""What a try was aimed at that was denied before anything was read: pipeline, recovery, environment, for the log alone.

Only the tables of this instance are read. What was named and is not there leaves its fields empty; the text itself
is in the entry's target.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import Q

from recovery.models import ApprovalRequest, Flow, Pipeline, Plan, Recovery
from recovery.numbers import read_joint_plan_number, read_recovery_number, whole

NAMES: Final = (
    "recovery",
    "recovery_id",
    "label",
    "joint",
    "pipeline",
    "pipeline_pk",
    "flow_id",
    "request_id",
)
"""What commands, addresses and the API call the thing that they act on."""


@dataclass(frozen=True)
class Aim:
    """What was aimed at; each is "" where none is known.

    `target`: what was named, in the log's words. `recovery`: the label of it, or of the only open one of it.
    `environment`: the pipeline's. `pipeline`: as `name_pipeline` has it.
    """

    target: str = ""
    recovery: str = ""
    environment: str = ""
    pipeline: str = ""


def name_pipeline(pipeline: Pipeline) -> str:
    """One pipeline, distinguished from every other one of its name."""
    return f"{pipeline.name} ({pipeline.pipeline_id})"


def find_aim(named: Mapping[str, Any]) -> Aim:
    """By the options of a command, or by the parts of an address."""
    given = {name: str(named[name]) for name in NAMES if named.get(name)}
    if text := given.get("recovery") or given.get("recovery_id") or given.get("label"):
        return _of_recovery(text)
    if "joint" in given:
        lead = Plan.objects.filter(joint=read_joint_plan_number(given["joint"]), joint_ordinal=0).first()
        return _of_recovery(lead.recovery.label) if lead else Aim(target=f"joint plan {given['joint']}")
    if "request_id" in given:
        asked = ApprovalRequest.objects.filter(pk=whole(given["request_id"]) or 0).first()
        return _of_recovery(asked.recovery.label) if asked else Aim()
    if "flow_id" in given:
        flow = Flow.objects.filter(pk=whole(given["flow_id"]) or 0).select_related("pipeline").first()
        return _of_pipeline(flow.pipeline, flow) if flow else Aim()
    return _of_pipeline_text(given, str(named.get("flow") or ""))


def _of_pipeline_text(given: Mapping[str, str], flow_name: str) -> Aim:
    if "pipeline_pk" in given:
        pipelines = list(Pipeline.objects.filter(pk=whole(given["pipeline_pk"]) or 0))
        return _of_pipeline(pipelines[0], None) if pipelines else Aim()
    text = given.get("pipeline", "").strip()
    if not text:
        return Aim()
    if text.upper().startswith("R-") and read_recovery_number(text) is not None:
        return _of_recovery(text)
    known = Pipeline.objects.filter(gone=False)
    pipelines = list(known.filter(pipeline_id=text)) or list(known.filter(name=text)[:2])
    if len(pipelines) != 1:
        return Aim(target=f"pipeline {text}")
    last = flow_name.strip().replace("`", "")
    named = Q(name=last) | Q(short=last) | Q(dataset=last)
    flows = list(Flow.objects.filter(named, pipeline=pipelines[0])[:2]) if last else []
    return _of_pipeline(pipelines[0], flows[0] if len(flows) == 1 else None)


def _of_recovery(text: str) -> Aim:
    number = read_recovery_number(text)
    recovery = Recovery.objects.filter(pk=number or 0).select_related("flow__pipeline").first()
    if recovery is None:
        return Aim(target=f"recovery {text}")
    flow = recovery.flow
    pipeline = flow.pipeline
    target = f"{flow.name} of pipeline {pipeline.name}"
    return Aim(target, recovery.label, pipeline.environment, name_pipeline(pipeline))


def _of_pipeline(pipeline: Pipeline, flow: Flow | None) -> Aim:
    open_ones = Recovery.objects.filter(flow__pipeline=pipeline, active=True)
    if flow is not None:
        open_ones = open_ones.filter(flow=flow)
    labels = [recovery.label for recovery in open_ones[:2]]
    target = f"{flow.name} of pipeline {pipeline.name}" if flow else f"pipeline {pipeline.name}"
    return Aim(target, labels[0] if len(labels) == 1 else "", pipeline.environment, name_pipeline(pipeline))
