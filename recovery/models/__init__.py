"""The records: tables and constraints. No behaviour beyond validity."""

from recovery.models.approval import ApprovalRequest, BreakGlass, EnvironmentRule, Vote
from recovery.models.audit import AuditEntry
from recovery.models.hold import Hold
from recovery.models.person import Person, Token
from recovery.models.pipeline import Flow, Pipeline
from recovery.models.plan import Plan
from recovery.models.recovery import Recovery
from recovery.models.step import Step
from recovery.models.workspace import Workspace

__all__ = [
    "ApprovalRequest",
    "AuditEntry",
    "BreakGlass",
    "EnvironmentRule",
    "Flow",
    "Hold",
    "Person",
    "Pipeline",
    "Plan",
    "Recovery",
    "Step",
    "Token",
    "Vote",
    "Workspace",
]
