"""Rows as the rooms write them (docs/wiring.md), for pages and their tests: one function a situation.

The numbers are those of the demo's incident: 4 of 7 files read, 12 rows in the table, 8 rows in 3
files waiting, the state of a dropDuplicates that the code no longer has.
"""

from tests.factories.approvals import approved, asked, expired, glass, rejected, voided, vote, voted
from tests.factories.below import BELOW, below, count_below, review_below, right_above, verified_below
from tests.factories.flows import (
    CODE,
    CONDITION,
    MESSAGE,
    OLD_CODE,
    PASSWORD,
    PATH,
    SCHEMA_PATH,
    ago,
    failed_flow,
    flow,
    incident,
    person,
    pipeline,
    source,
    view,
    workspace,
)
from tests.factories.judged import (
    CHECKPOINT,
    CRITERIA,
    DIAGNOSIS,
    REPORT,
    amount,
    counted,
    effort,
    facts,
    forecast_of,
    judged_option,
    judged_options,
    option,
    options,
    position,
)
from tests.factories.notices import channel, channels, delivery, message
from tests.factories.runs import (
    advance,
    cancelled,
    failed_step,
    halted,
    into,
    measured,
    not_proven,
    paused,
    proof,
    repeated,
    rolled_back,
    running,
    unknown,
    unproven,
    verified,
    void,
    within_limits,
)
from tests.factories.wizard import (
    STATE_ROWS,
    at_offset,
    at_patch,
    at_review,
    body,
    choices,
    hold,
    losing,
    opened,
    planned,
    sealed,
    step,
    stopped,
    to_accept,
    with_jobs,
)

__all__ = [
    "BELOW", "CHECKPOINT", "CODE", "CONDITION", "CRITERIA", "DIAGNOSIS", "MESSAGE", "OLD_CODE", "PASSWORD",
    "PATH", "REPORT", "SCHEMA_PATH", "STATE_ROWS", "advance", "ago", "amount", "approved", "asked",
    "at_offset", "at_patch", "at_review", "below", "body", "cancelled", "channel", "channels", "choices", "count_below",
    "counted", "delivery", "effort", "expired", "facts", "failed_flow", "failed_step", "flow", "forecast_of", "glass",
    "halted", "hold",
    "incident", "into", "judged_option", "judged_options", "losing", "measured", "message",
    "not_proven", "opened", "option", "options",
    "paused", "person", "pipeline", "planned", "position", "proof", "rejected", "repeated", "review_below",
    "right_above", "rolled_back", "running", "sealed", "source", "step", "stopped", "to_accept", "unknown",
    "unproven", "verified", "verified_below", "view", "void", "voided", "vote", "voted", "with_jobs",
    "within_limits", "workspace",
]  # fmt: skip
