"""What an environment asks for, and whether that is fulfilled: decisions on values alone. Pure.

Everything here is asked twice: to show a button or say why not, and to let the act through.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from recovery.approvals.freezes import UnreadableFreeze, Window, freeze_covering, read_stored_freeze
from recovery.contracts.amounts import Amount, Bound
from recovery.contracts.names import name_strategy

LENIENT: Final = frozenset({"development", "staging"})
"""Environments whose rule may do without other people. Every other one, known or not, is held as production."""
LONGEST_HOURS: Final = 30 * 24
ASKED: Final = "Approval was already requested."
VOTED: Final = "You have already voted on this plan. Each person has one vote per plan."
LIVE: Final = frozenset({"open", "approved"})
"""States of a request on which something still hangs."""


@dataclass(frozen=True)
class VoterGroup:
    """So many of the votes must be of these people."""

    name: str
    members: tuple[str, ...]
    votes: int


@dataclass(frozen=True)
class ApprovalRule:
    """Times in hours and minutes; `strategies` None: every one; no `groups`: whoever has the right to vote."""

    environment: str
    votes: int
    groups: tuple[VoterGroup, ...] = ()
    requester_may_vote: bool = False
    expiry_hours: int = 24
    waiting_minutes: int = 0
    freezes: tuple[Window, ...] = ()
    strategies: tuple[str, ...] | None = None
    break_glass: bool = False
    break_glass_minutes: int = 60

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON, as it is kept with a request and in the audit log."""
        return {
            "environment": self.environment,
            "votes": self.votes,
            "groups": [{"name": g.name, "members": list(g.members), "votes": g.votes} for g in self.groups],
            "requester_may_vote": self.requester_may_vote,
            "expiry_hours": self.expiry_hours,
            "waiting_minutes": self.waiting_minutes,
            "freezes": [str(w) for w in self.freezes],
            "strategies": None if self.strategies is None else list(self.strategies),
            "break_glass": self.break_glass,
            "break_glass_minutes": self.break_glass_minutes,
        }


def from_dict(given: Mapping[str, Any]) -> ApprovalRule:
    """The rule that `as_dict` wrote. Raises ValueError, KeyError for anything else."""
    groups = tuple(VoterGroup(g["name"], tuple(g["members"]), int(g["votes"])) for g in given["groups"])
    named = given["strategies"]
    values = {k: v for k, v in given.items() if k not in ("groups", "freezes", "strategies")}
    return ApprovalRule(
        **values,
        groups=groups,
        freezes=tuple(read_stored_freeze(line) for line in given["freezes"]),
        strategies=None if named is None else tuple(named),
    )


SHIPPED: Final[dict[str, ApprovalRule]] = {
    "development": ApprovalRule("development", 0),
    "staging": ApprovalRule("staging", 1, break_glass=True),
    "production": ApprovalRule("production", 2, expiry_hours=8),
}


def shipped_rule(environment: str) -> ApprovalRule:
    """The rule before anybody changed it; production's for an environment that no one has described."""
    return SHIPPED.get(environment) or replace(SHIPPED["production"], environment=environment)


def asks_less(new: ApprovalRule, old: ApprovalRule) -> bool:
    """Might a plan run under `new` that may not under `old`? Of every change that is not plainly stricter: up from
    development to staging to production, with as many votes; or between two of one kind whose rules are the same."""
    if _rank(new) == _rank(old):
        return new != replace(old, environment=new.environment)
    return _rank(new) < _rank(old) or new.votes < old.votes


def _rank(rule: ApprovalRule) -> int:
    return {"development": 0, "staging": 1}.get(rule.environment, 2)


def problem_of_rule(rule: ApprovalRule) -> str | None:
    """Why this rule cannot be taken, in one sentence; None when it can."""
    strict = rule.environment not in LENIENT
    named = [m for g in rule.groups for m in g.members]
    checks = (
        (strict and rule.requester_may_vote, f"In {rule.environment} you cannot approve what you asked for yourself."),
        (strict and rule.votes < 1, f"In {rule.environment} at least 1 other person must agree."),
        (not 0 <= rule.votes <= 20, "Between 0 and 20 votes can be asked for."),
        (not 1 <= rule.expiry_hours <= LONGEST_HOURS, "A request lasts between 1 hour and 720 hours."),
        (rule.waiting_minutes < 0, "The waiting time cannot be negative."),
        (
            rule.waiting_minutes >= rule.expiry_hours * 60,
            "The waiting time is as long as the request lasts, so no plan could ever run.",
        ),
        (not 1 <= rule.break_glass_minutes <= 24 * 60, "Broken glass lasts between 1 minute and 24 hours."),
        (any(not (g.name and g.members and g.votes > 0) for g in rule.groups), "A group needs a name, members, votes."),
        (any(g.votes > len(set(g.members)) for g in rule.groups), "A group has fewer members than votes it must give."),
        (sum(g.votes for g in rule.groups) > rule.votes and len(set(named)) == len(named),
         "The groups must give more votes than are needed in all."),
        (bool(rule.groups) and len(set(named)) < rule.votes, "The groups have fewer members than votes are needed."),
        (rule.strategies is not None and not rule.strategies, "At least one strategy must be allowed."),
    )  # fmt: skip
    return next((says for wrong, says in checks if wrong), None)


@dataclass(frozen=True)
class Voter:
    """A person as votes are compared: by account, or by name where only that was kept."""

    name: str
    user_id: int | None = None

    def same(self, other: "Voter") -> bool:
        if self.user_id is None or other.user_id is None:
            return self.name == other.name
        return self.user_id == other.user_id


@dataclass(frozen=True)
class CastVote:
    """A vote in force."""

    voter: Voter
    choice: str  # approve | reject


@dataclass(frozen=True)
class RequestFacts:
    """A request for votes. `state` as stored; whether it still counts is a matter of the time as well."""

    state: str
    hash: str
    rule: ApprovalRule
    requester: Voter
    author: Voter
    expires_at: datetime
    decided_at: datetime | None = None
    editors: tuple[Voter, ...] = ()  # of the code that the plan changes
    joiner: Voter | None = None  # who sealed it together with others

    def late(self, now: datetime) -> bool:
        return now >= self.expires_at


@dataclass(frozen=True)
class ApprovalRefusal:
    """A refusal: a stable code and the sentence."""

    code: str
    says: str


def may_vote(
    asked: RequestFacts, who: Voter, voted: Iterable[CastVote], choice: str, hash_: str, now: datetime
) -> ApprovalRefusal | None:
    """Why this person's vote does not count now; None when it does."""
    states = LIVE if choice == "reject" else {"open"}
    if asked.late(now):
        return ApprovalRefusal(
            "expired", "The request has expired, which is no approval. It can no longer be voted on."
        )
    if asked.state not in states:
        return ApprovalRefusal("not_open", f"This request is {asked.state}, so it can no longer be voted on.")
    if hash_ != asked.hash:
        return ApprovalRefusal(
            "stale_plan", "The plan changed while you were reading. Your vote was not counted."
        )
    if no := never_counts(asked, who):
        return no
    if any(v.voter.same(who) for v in voted):
        return ApprovalRefusal("voted", VOTED)
    return None


def never_counts(asked: RequestFacts, who: Voter) -> ApprovalRefusal | None:
    """Who may not vote on this request whenever they try; None for who may."""
    if not asked.rule.requester_may_vote:
        if asked.requester.same(who):
            return ApprovalRefusal(
                "own_request", f"{who.name} asked for this approval, so {who.name} cannot vote on it."
            )
        if asked.author.same(who) or (asked.joiner is not None and asked.joiner.same(who)):
            return ApprovalRefusal(
                "own_plan", f"{who.name} sealed this plan, so {who.name} cannot vote on it."
            )
        if any(editor.same(who) for editor in asked.editors):
            return ApprovalRefusal(
                "own_code", f"{who.name} edited the code of this plan, so {who.name} cannot vote on it."
            )
    if asked.rule.groups and not any(who.name in g.members for g in asked.rule.groups):
        names = ", ".join(g.name for g in asked.rule.groups)
        return ApprovalRefusal(
            "no_group", f"Only votes of {names} count here, and {who.name} is in none of these groups."
        )
    return None


@dataclass(frozen=True)
class VoteTally:
    needed: int
    given: int
    groups: tuple[tuple[VoterGroup, int], ...]  # votes of each group's members

    @property
    def enough(self) -> bool:
        return self.given >= self.needed and all(count >= g.votes for g, count in self.groups)

    @property
    def missing(self) -> int:
        """How many more votes it takes at least, each group's own among them."""
        return max(self.needed - self.given, max((g.votes - n for g, n in self.groups), default=0), 0)


def tally_votes(rule: ApprovalRule, votes: Iterable[CastVote]) -> VoteTally:
    """Votes for it, each person once."""
    agreed = {v.voter.user_id or v.voter.name: v.voter.name for v in votes if v.choice == "approve"}
    groups = tuple((g, len(set(agreed.values()) & set(g.members))) for g in rule.groups)
    return VoteTally(rule.votes, len(agreed), groups)


@dataclass(frozen=True)
class ApprovalStanding:
    """All that decides whether a plan may run. `resuming`: it began and was interrupted."""

    rule: ApprovalRule
    hash: str
    strategy: str
    sealed_in: str = ""  # the environment that the plan names
    asked: RequestFacts | None = None
    votes: Sequence[CastVote] = ()
    glass_until: datetime | None = None
    resuming: bool = False


def may_run(of: ApprovalStanding, now: datetime) -> ApprovalRefusal | None:
    """Why the plan may not run now; None when it may. Break-glass stands above votes, waiting time and freeze
    windows, never above the strategies that are allowed."""
    if no := _fits(of):
        return no
    if of.glass_until is not None and now < of.glass_until:
        return None
    return (_agreed(of, now) if of.rule.votes else None) or _frozen(of.rule, now)


def may_break_glass(of: ApprovalStanding, now: datetime) -> ApprovalRefusal | None:
    """Why no one may run this plan without enough votes; None where it is possible, and needed."""
    if no := _fits(of):
        return no
    if not of.rule.break_glass:
        return ApprovalRefusal("no_glass", f"The rules of {of.rule.environment} have no break-glass.")
    if may_run(of, now) is None:
        return ApprovalRefusal("not_needed", "The plan may run as it is, so break-glass is not needed.")
    return None


def may_ask(of: ApprovalStanding, now: datetime) -> ApprovalRefusal | None:
    """Why no votes can be asked for; None when they can."""
    if no := _fits(of):
        return no
    if not of.rule.votes:
        return ApprovalRefusal("not_needed", f"In {of.rule.environment} no approval is needed: run the plan.")
    if of.asked is not None and of.asked.state in LIVE:
        late = of.asked.late(now)
        return (
            ApprovalRefusal("expired", "The request has expired and is being ended.")
            if late
            else ApprovalRefusal("asked", ASKED)
        )
    if _agreed(of, now) is None:
        return ApprovalRefusal("not_needed", "The approval of this plan is still in force: run it.")
    return None


def _fits(of: ApprovalStanding) -> ApprovalRefusal | None:
    """What no vote and no broken glass can replace."""
    if of.sealed_in and of.sealed_in != of.rule.environment:
        return ApprovalRefusal(
            "environment_changed",
            f"The plan was sealed for {of.sealed_in}, and the pipeline is now in "
            f"{of.rule.environment}. Seal again.",
        )
    return strategy_allowed(of.rule, of.strategy)


def strategy_allowed(rule: ApprovalRule, strategy: str) -> ApprovalRefusal | None:
    """Why this strategy may not be taken there; None when it may."""
    if rule.strategies is None or strategy in rule.strategies:
        return None
    allowed = ", ".join(map(name_strategy, rule.strategies))
    return ApprovalRefusal(
        "strategy_not_allowed",
        f"The rules of {rule.environment} do not allow {name_strategy(strategy)}. Choose {allowed}.",
    )


def count_people(rule: ApprovalRule) -> Amount:
    """How many people it takes until a plan may run: who seals it, and others who vote."""
    if rule.votes and rule.requester_may_vote:
        return Amount(value=rule.votes, bound=Bound.AT_LEAST, why="Who asks may vote too.")
    return Amount(value=1 + rule.votes)


def _agreed(of: ApprovalStanding, now: datetime) -> ApprovalRefusal | None:
    environment, needed = of.rule.environment, votes_text(of.rule.votes)
    if of.asked is None or of.asked.state in ("voided", "rejected") or of.asked.hash != of.hash:
        return ApprovalRefusal(
            "needs_approval",
            f"Environment {environment} asks for {needed} by other people, and they have not been asked about this "
            "plan yet. Ask for approval first.",
        )
    if of.asked.late(now):
        return ApprovalRefusal(
            "expired",
            f"The approval expired at {at_text(of.asked.expires_at)}. Request it again.",
        )
    if of.asked.rule != of.rule:
        return ApprovalRefusal(
            "rules_changed",
            f"The rules of {environment} changed after approval was requested. Request it again.",
        )
    count = tally_votes(of.rule, of.votes)
    began = of.resuming and of.asked.state == "used"
    if of.asked.state != "approved" and not began:
        return ApprovalRefusal(
            "needs_approval",
            f"{votes_text(count.missing, 'more ')} of {count.needed} needed in {environment}. "
            f"The request ends at {at_text(of.asked.expires_at)}.",
        )
    if not count.enough:
        return ApprovalRefusal(
            "needs_approval",
            f"{count.given} of {count.needed} votes are in force in {environment}. Ask again.",
        )
    ready = ready_at(of.asked)
    if now < ready:
        return ApprovalRefusal(
            "waiting_time", f"Approved; the waiting time of {environment} ends at {at_text(ready)}."
        )
    return None


def ready_at(asked: RequestFacts) -> datetime:
    """When an approved plan may begin: the decision, and the waiting time after it."""
    return (asked.decided_at or asked.expires_at) + timedelta(minutes=asked.rule.waiting_minutes)


def _frozen(rule: ApprovalRule, now: datetime) -> ApprovalRefusal | None:
    window = freeze_covering(rule.freezes, now)
    if window is None:
        return None
    if isinstance(window, UnreadableFreeze):
        return ApprovalRefusal("frozen", f"{rule.environment.capitalize()} is frozen: its window cannot be read: "
                  f"{str(window)!r}. Ask an admin to rewrite it in the settings of {rule.environment}.")  # fmt: skip
    return ApprovalRefusal(
        "frozen", f"{rule.environment.capitalize()} is frozen until {at_text(window.ends(now))} ({window})."
    )


def votes_text(count: int, more: str = "") -> str:
    return f"{count} {more}{'approval' if count == 1 else 'approvals'}"


def at_text(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


def voters_that_count(rule: ApprovalRule, people: Iterable[Voter], never: Collection[Voter]) -> list[Voter]:
    """Of the people with the right to vote, those whose vote would count."""
    members = {m for g in rule.groups for m in g.members}
    able = (p for p in people if not any(p.same(other) for other in never))
    return [p for p in able if not members or p.name in members]
