"""Ready words for the incident channel about an open recovery: what is so, how far it is, the address. Pure."""

from datetime import datetime

from console.presenters import status, words
from recovery.contracts.names import name_strategy
from recovery.models import Plan, Recovery


def handover_text(recovery: Recovery, plan: Plan | None, public_url: str, now: datetime) -> str:
    """Three lines, ready to paste. An ended recovery has its closing words (`reporting.closing_text`)."""
    flow = recovery.flow
    lines = [
        f"{recovery.label}: {flow.short} of pipeline {flow.pipeline.name} ({flow.pipeline.environment}, "
        f"workspace {flow.pipeline.workspace.name}). {recovery.diagnosis_value.title}".rstrip(),
        f"State at {words.format_clock(now, now)}: {status.state_badge(status.RECOVERY, recovery.state).word.lower()}. "
        f"Owner: {recovery.owner}.{_plan_text(plan)}",
        f"{public_url.rstrip('/')}/recoveries/{recovery.label}",
    ]
    return "\n".join(lines)


def _plan_text(plan: Plan | None) -> str:
    if plan is None:
        return ""
    rows = plan.contents.forecast
    amounts = ((rows.lost, "lost"), (rows.doubled, "doubled"), (rows.reread, "read again"))
    numbers = ", ".join(
        f"{name} {words.format_bounded(amount.rows, amount.bound)}" for amount, name in amounts
    )
    return f" Plan {plan.hash[:8]}, {name_strategy(plan.contents.strategy)}: {numbers}."
