"""Roles and rights, in code: reviewable in a pull request, checked on every page, route and command."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from recovery.errors import Denied

ENVIRONMENTS: Final = ("development", "staging", "production")
"""The environments with rules of their own; a pipeline tagged with another word counts as production."""


class Role(StrEnum):
    VIEWER = "viewer"
    RESPONDER = "responder"
    APPROVER = "approver"
    AUDITOR = "auditor"
    ADMIN = "admin"
    NONE = "none"  # may sign in and sees nothing: the default role of who works in one environment only
    SYSTEM = "system"  # beat, poller, reaper: never a person


class Right(StrEnum):
    """The label is how a refusal names it: "may not <label>"."""

    VIEW = "see flows and recoveries"
    RECOVER = "open, plan and run recoveries"
    RESET = "run a plan that resets a flow"
    APPROVE = "vote on plans"
    BREAK_GLASS = "run a plan without enough votes, where the rules allow it"
    READ_AUDIT = "read the audit log"
    EXPORT_AUDIT = "export the audit log"
    REVIEW_AUDIT = "sign off acts in the review queue"
    MANAGE = "change settings, people and service tokens"
    PROVISION = "set up a new instance"


MOST_TO_ASK: Final = 3
"""Of so many roles a refusal still names each."""

IN_ENVIRONMENT: Final = frozenset({Right.VIEW, Right.RECOVER, Right.RESET, Right.APPROVE, Right.BREAK_GLASS})
"""Rights over flows: held by environment. All others are over the whole instance and go by the default role."""

RIGHTS: dict[Role, frozenset[Right]] = {
    Role.VIEWER: frozenset({Right.VIEW}),
    Role.RESPONDER: frozenset({Right.VIEW, Right.RECOVER, Right.RESET, Right.BREAK_GLASS, Right.READ_AUDIT}),
    Role.APPROVER: frozenset({Right.VIEW, Right.APPROVE, Right.READ_AUDIT, Right.REVIEW_AUDIT}),
    Role.AUDITOR: frozenset({Right.VIEW, Right.READ_AUDIT, Right.EXPORT_AUDIT, Right.REVIEW_AUDIT}),
    Role.ADMIN: frozenset(
        {
            Right.VIEW,
            Right.RECOVER,
            Right.RESET,
            Right.BREAK_GLASS,
            Right.READ_AUDIT,
            Right.EXPORT_AUDIT,
            Right.REVIEW_AUDIT,
            Right.MANAGE,
        }
    ),
    Role.NONE: frozenset(),
    Role.SYSTEM: frozenset({Right.VIEW, Right.PROVISION}),
}


def who_may(right: Right) -> str:
    """Whom to ask for what one's own role may not: the roles that hold the right, "a responder or an admin".

    Where nearly every role holds it, one's own is to be changed, which an admin does.
    """
    holders = [r.value for r in Role if r not in (Role.NONE, Role.SYSTEM) and right in RIGHTS[r]]
    if not holders or len(holders) > MOST_TO_ASK:
        return "an admin for a role that may"
    named = [f"{'an' if name[0] in 'aeiou' else 'a'} {name}" for name in holders]
    return " or ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)


@dataclass(frozen=True)
class Grant:
    """One role, by default or in one environment. `reset` off withholds the right to reset from it."""

    role: Role
    reset: bool = True

    def holds(self, right: Right) -> bool:
        return right in RIGHTS[self.role] and (self.reset or right is not Right.RESET)


class LacksRight(Denied):
    """Denied for want of a right.

    `right`: what was asked for; `environment`: where (None: anywhere); `grant`: what the actor has there.
    """

    def __init__(self, sentence: str, *, right: Right, grant: Grant, environment: str | None) -> None:
        super().__init__(sentence)
        self.right = right
        self.grant = grant
        self.environment = environment


@dataclass(frozen=True)
class Scope:
    """What a token may do of what its owner may: these rights, in these environments (None: all of them).

    A token bound to environments has no right over the whole instance.
    """

    rights: frozenset[Right] | None = None
    environments: frozenset[str] | None = None

    def holds(self, right: Right, environment: str | None) -> bool:
        if self.rights is not None and right not in self.rights:
            return False
        if self.environments is None:
            return True
        return right in IN_ENVIRONMENT and (environment is None or rules_of(environment) in self.environments)


def rules_of(environment: str) -> str:
    """The environment whose rules hold there: an unknown one is treated as production."""
    return environment if environment in ENVIRONMENTS else "production"


@dataclass(frozen=True)
class Actor:
    """Who acts. The name is kept as text in the audit log, so history outlives the account.

    `role` (and `reset`) is the default; `elsewhere` the roles in single environments, which replace it there.
    """

    name: str
    role: Role
    user_id: int | None = None
    #: page | command | api | task | system
    via: str = "system"
    request_id: str = ""
    reset: bool = True
    elsewhere: Mapping[str, Grant] = field(default_factory=dict, hash=False)
    scope: Scope | None = None

    def grant(self, environment: str | None) -> Grant:
        """What holds in an environment; without one, what holds by default."""
        default = Grant(self.role, self.reset)
        return default if environment is None else self.elsewhere.get(rules_of(environment), default)

    def may(self, right: Right, environment: str | None = None) -> bool:
        """Has this actor the right: over a flow there, or, without an environment, anywhere at all?"""
        if right not in IN_ENVIRONMENT:
            return self.grant(None).holds(right) and (self.scope is None or self.scope.holds(right, None))
        places: Collection[str] = ENVIRONMENTS if environment is None else (environment,)
        return any(
            self.grant(place).holds(right) and (self.scope is None or self.scope.holds(right, place))
            for place in places
        )

    def check(self, right: Right, environment: str | None = None) -> None:
        """Raise Denied unless this actor has the right: over a flow there, or, without one, anywhere."""
        if not self.may(right, environment):
            raise LacksRight(
                self._why_not(right, environment),
                right=right,
                grant=self.grant(environment),
                environment=environment,
            )

    def _why_not(self, right: Right, environment: str | None) -> str:
        grant = self.grant(environment)
        where = f" in {environment}" if environment and self.elsewhere else ""
        if grant.holds(right):
            return f"This access token of {self.name} may not {right.value}{where}. Make one that may."
        withheld = right is Right.RESET and right in RIGHTS[grant.role]
        role = f"role {grant.role.value}{' without resets' if withheld else ''}{where}"
        return (
            f"{self.name} has {role}, which may not {right.value}. "
            f"Ask {who_may(right)}{' with resets' if withheld else ''}."
        )

    def check_setup(self) -> None:
        """Raise Denied unless this actor manages people and workspaces, or is setting up a new instance."""
        if not self.may(Right.PROVISION):
            self.check(Right.MANAGE)


@dataclass(frozen=True)
class AnonymousActor:
    """Someone whom neither a password nor a token has proved: may do nothing, and is audited as such."""

    name: str = "(not signed in)"
    via: str = "system"
    request_id: str = ""


SYSTEM = Actor(name="reprise", role=Role.SYSTEM)
