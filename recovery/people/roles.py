"""Roles and rights, in code: reviewable in a pull request, checked on every page, route and command."""

from dataclasses import dataclass
from enum import StrEnum

from recovery.errors import Denied


class Role(StrEnum):
    VIEWER = "viewer"
    RESPONDER = "responder"
    APPROVER = "approver"
    AUDITOR = "auditor"
    ADMIN = "admin"
    SYSTEM = "system"  # beat, poller, reaper: never a person


class Right(StrEnum):
    """The label is how a refusal names it: "may not <label>"."""

    VIEW = "see flows and recoveries"
    RECOVER = "open, plan and run recoveries"
    APPROVE = "vote on plans"
    BREAK_GLASS = "run a plan without enough votes, where the rules allow it"
    READ_AUDIT = "read the audit log"
    EXPORT_AUDIT = "export the audit log"
    REVIEW_AUDIT = "sign off acts in the review queue"
    MANAGE = "change settings, people and service tokens"
    PROVISION = "set up a new instance"


RIGHTS: dict[Role, frozenset[Right]] = {
    Role.VIEWER: frozenset({Right.VIEW}),
    Role.RESPONDER: frozenset({Right.VIEW, Right.RECOVER, Right.BREAK_GLASS, Right.READ_AUDIT}),
    Role.APPROVER: frozenset({Right.VIEW, Right.APPROVE, Right.READ_AUDIT, Right.REVIEW_AUDIT}),
    Role.AUDITOR: frozenset({Right.VIEW, Right.READ_AUDIT, Right.EXPORT_AUDIT, Right.REVIEW_AUDIT}),
    Role.ADMIN: frozenset(
        {
            Right.VIEW,
            Right.RECOVER,
            Right.BREAK_GLASS,
            Right.READ_AUDIT,
            Right.EXPORT_AUDIT,
            Right.REVIEW_AUDIT,
            Right.MANAGE,
        }
    ),
    Role.SYSTEM: frozenset({Right.VIEW, Right.PROVISION}),
}


@dataclass(frozen=True)
class Actor:
    """Who acts. The name is kept as text in the audit log, so history outlives the account."""

    name: str
    role: Role
    user_id: int | None = None
    via: str = "system"  # page | command | task | system
    request_id: str = ""

    def may(self, right: Right) -> bool:
        return right in RIGHTS[self.role]

    def check(self, right: Right) -> None:
        """Raise Denied unless this actor has the right."""
        if not self.may(right):
            raise Denied(
                f"{self.name} has role {self.role.value}, which may not {right.value}. "
                "Ask a responder or an admin, or sign in as one."
            )

    def check_setup(self) -> None:
        """Raise Denied unless this actor manages people and workspaces, or is setting up a new instance."""
        if not self.may(Right.PROVISION):
            self.check(Right.MANAGE)


@dataclass(frozen=True)
class Stranger:
    """Somebody whom neither a password nor a token has proved: may do nothing, and is audited as such."""

    name: str = "(not signed in)"
    via: str = "system"
    request_id: str = ""


SYSTEM = Actor(name="reprise", role=Role.SYSTEM)
