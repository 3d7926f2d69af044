"""The records: tables and constraints. No behaviour beyond validity."""

from recovery.models.audit import AuditEntry
from recovery.models.hold import Hold
from recovery.models.person import Invitation, Person, RoleIn, Token
from recovery.models.pipeline import Flow, Pipeline
from recovery.models.plan import Plan
from recovery.models.recovery import Recovery
from recovery.models.step import Step
from recovery.models.workspace import Workspace

__all__ = [
    "AuditEntry",
    "Flow",
    "Hold",
    "Invitation",
    "Person",
    "Pipeline",
    "Plan",
    "Recovery",
    "RoleIn",
    "Step",
    "Token",
    "Workspace",
]
