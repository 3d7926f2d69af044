"""Rows as the rooms write them (docs/wiring.md), for pages and their tests: one function a situation.

The numbers are those of the demo's incident: 4 of 7 files read, 12 rows in the table, 8 rows in 3
files waiting, the state of a dropDuplicates that the code no longer has.
"""

from tests.factories.approvals import approved, asked, expired, glass, rejected, voided, vote, voted
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
from tests.factories.judged import CHECKPOINT, CRITERIA, DIAGNOSIS, amount, facts, option, options, position
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
    rolled_back,
    running,
    unknown,
    unproven,
    verified,
    void,
)
from tests.factories.wizard import (
    at_offset,
    at_patch,
    at_review,
    body,
    choices,
    hold,
    opened,
    planned,
    sealed,
    step,
    stopped,
    with_jobs,
)

__all__ = [
    "CHECKPOINT", "CODE", "CONDITION", "CRITERIA", "DIAGNOSIS", "MESSAGE", "OLD_CODE", "PASSWORD",
    "PATH", "SCHEMA_PATH", "advance", "ago", "amount", "approved", "asked", "at_offset", "at_patch",
    "at_review", "body", "cancelled", "channel", "channels", "choices", "delivery", "expired", "facts",
    "failed_flow", "failed_step", "flow", "glass", "halted", "hold", "incident", "into", "measured",
    "message", "not_proven", "opened", "option", "options", "paused", "person", "pipeline", "planned", "position",
    "rejected", "rolled_back", "running", "sealed", "source", "step", "stopped", "unknown", "unproven", "verified",
    "view", "void", "voided", "vote", "voted", "with_jobs", "workspace",
]  # fmt: skip
