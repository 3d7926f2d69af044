"""The records: tables and constraints. No behaviour beyond validity."""

from recovery.models.approval import ApprovalRequest, BreakGlass, EnvironmentRule, Vote
from recovery.models.audit import (
    AskedCheck,
    AuditAnchor,
    AuditCheck,
    AuditEntry,
    DeniedTry,
    ReviewItem,
    SignOff,
    TokenSighting,
)
from recovery.models.heartbeat import Heartbeat
from recovery.models.hold import Hold
from recovery.models.kept import KeptFile
from recovery.models.listed import Listed, ListVersion
from recovery.models.look import PositionsLook
from recovery.models.notice import Channel, Delivery, Message
from recovery.models.person import Invitation, Person, RoleIn, Token
from recovery.models.pipeline import Flow, Pipeline
from recovery.models.plan import JointPlan, Plan
from recovery.models.recovery import Recovery
from recovery.models.step import Step
from recovery.models.stream import EventLog, LogFolder, Stream, StreamStart
from recovery.models.study import KeptStudy
from recovery.models.unread import FlowInput
from recovery.models.workspace import Workspace

__all__ = [
    "ApprovalRequest",
    "AskedCheck",
    "AuditAnchor",
    "AuditCheck",
    "AuditEntry",
    "BreakGlass",
    "Channel",
    "Delivery",
    "DeniedTry",
    "EnvironmentRule",
    "EventLog",
    "Flow",
    "FlowInput",
    "Heartbeat",
    "Hold",
    "Invitation",
    "JointPlan",
    "KeptFile",
    "KeptStudy",
    "ListVersion",
    "Listed",
    "LogFolder",
    "Message",
    "Person",
    "Pipeline",
    "Plan",
    "PositionsLook",
    "Recovery",
    "ReviewItem",
    "RoleIn",
    "SignOff",
    "Step",
    "Stream",
    "StreamStart",
    "Token",
    "TokenSighting",
    "Vote",
    "Workspace",
]
