"""The usual facts of a recovery, flow or pipeline: what, where, which forecast. No text of an error, no row of data."""

from recovery.contracts.amounts import RowAmount
from recovery.contracts.forecast import Forecast
from recovery.models import Flow, Pipeline, Recovery
from recovery.notify.events import EVENTS
from recovery.notify.wording import Fact


def _flow_of_subject(recovery: Recovery | None, flow: Flow | None) -> Flow | None:
    return flow or (recovery.flow if recovery else None)


def environment_of(recovery: Recovery | None, flow: Flow | None, pipeline: Pipeline | None = None) -> str:
    subject = _flow_of_subject(recovery, flow)
    within = subject.pipeline if subject else pipeline
    return within.environment if within else ""


def page_path(
    event: str, recovery: Recovery | None, flow: Flow | None, pipeline: Pipeline | None = None
) -> str:
    """The path of the page on which one goes on."""
    if recovery:
        return f"/recoveries/{recovery.label}"
    if flow is None and pipeline is not None:
        return f"/pipelines/{pipeline.pk}"
    return f"/flows/{flow.pk}" if flow else EVENTS[event].link


def facts_of_pipeline(pipeline: Pipeline) -> dict[str, Fact]:
    """pipeline, environment, workspace."""
    return {
        "pipeline": pipeline.name,
        "environment": pipeline.environment,
        "workspace": pipeline.workspace.name,
    }


def facts_of_subject(recovery: Recovery | None, flow: Flow | None) -> dict[str, Fact]:
    """recovery, flow, pipeline, environment, workspace; of a flow that fails its error condition; of a recovery with
    a plan in force its strategy, forecast and hash."""
    subject = _flow_of_subject(recovery, flow)
    if subject is None:
        return {}
    facts: dict[str, Fact] = {"recovery": recovery.label} if recovery else {}
    facts |= {"flow": subject.short, **facts_of_pipeline(subject.pipeline)}
    if recovery is None:
        return facts | {"condition": subject.condition or "not classified"}
    plan = recovery.plans.filter(voided_at=None).order_by("-pk").first()
    if plan is None:
        return facts
    contents = plan.contents
    return facts | {
        "strategy": contents.strategy,
        "forecast": describe_forecast(contents.forecast),
        "plan": plan.hash[:12],
    }


def describe_forecast(forecast: Forecast) -> str:
    """`0 rows lost, 0 doubled, 13 read again`; a number that is a bound or an estimate carries its word."""
    return ", ".join(
        (_describe_rows(forecast.lost, " rows") + " lost", _describe_rows(forecast.doubled) + " doubled",
         _describe_rows(forecast.reread) + " read again")
    )  # fmt: skip


def _describe_rows(amount: RowAmount, noun: str = "") -> str:
    if amount.rows is None:
        return "an unknown number of rows" if noun else "an unknown number"
    return f"{amount.bound.before_number}{amount.rows:,}{noun}"
