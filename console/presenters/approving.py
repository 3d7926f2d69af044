"""Requests for approval as people read them: where they stand, who voted, who may, what a press will do. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from console.presenters import status, words
from recovery.approvals.rules import (
    LIVE,
    ApprovalRule,
    CastVote,
    RequestFacts,
    Voter,
    ready_at,
    tally_votes,
    votes_text,
)
from recovery.contracts.joint import JointBody
from recovery.contracts.names import name_strategy
from recovery.contracts.plan import PlanBody
from recovery.models import ApprovalRequest, Vote

STATES: Final = {
    "open": status.Badge("pending", "Open"),
    "approved": status.Badge("ok", "Approved, not run"),
    "used": status.Badge("ok", "Approved, run"),
    "rejected": status.Badge("failed", "Rejected"),
    "expired": status.Badge("stopped", "Expired"),
    "voided": status.Badge("stopped", "Void"),
}
ORDINALS: Final = ("first", "second", "third", "fourth", "fifth")


@dataclass(frozen=True)
class VoteLine:
    """One line of a list of votes."""

    kind: str
    says: str
    small: str = ""


def state_by_clock(request: ApprovalRequest, now: datetime) -> str:
    """The state by the clock: what is late has expired, whether anybody has written it down or not."""
    return "expired" if request.state in LIVE and request.expires_at <= now else str(request.state)


def request_badge(request: ApprovalRequest, given: int, now: datetime) -> status.Badge:
    state = state_by_clock(request, now)
    if state != "open":
        return STATES[state]
    return status.Badge("pending", f"{given} of {words.format_count(request.rule['votes'], 'vote')}")


def ask_for_vote(contents: PlanBody, joint: JointBody | None = None) -> str:
    """The title: a verb, a count, the place. `joint`: of the plans that run together with this one."""
    place = contents.environment
    if joint is not None:
        return f"Recover {words.format_count(len(joint.plans), 'flow')} in {place} together?"
    if contents.strategy == "full-refresh" and contents.sink.is_declared:
        return f"Reset 1 flow in {place} and send everything again?"
    return {
        "continue": f"Reset 1 flow in {place}?",
        "empty": f"Give 1 flow in {place} an empty checkpoint and read everything again?",
        "repair": f"Repair the checkpoint of 1 flow in {place}?",
        "revert": f"Put back the code of 1 flow in {place}?",
        "replay": f"Put 1 table in {place} back to an earlier batch and read again from there?",
        "full-refresh": f"Empty 1 table in {place} and read everything again?",
        "top-up": f"Add the rows that 1 table in {place} lacks, once?",
        "deduplicate": f"Delete the rows that 1 table in {place} has too often, once?",
        "backfill": f"Back up and empty 1 table in {place}, read everything again and fill back the rest?",
    }.get(contents.strategy, f"Run {name_strategy(contents.strategy)} for 1 flow in {place}?")


def vote_rows(
    given: Sequence[Vote], asked: RequestFacts, able: Sequence[Voter], who: Voter, now: datetime
) -> list[VoteLine]:
    """Votes as they were given, the places that are open with who may take them, and who never counts."""
    lines = [_vote_line(v, now) for v in given]
    count = tally_votes(
        asked.rule, [CastVote(Voter(v.voter, v.voter_id), v.choice) for v in given if v.voided_at is None]
    )
    if asked.state == "open" and not asked.late(now):
        left = name_voters_left(able, given, who)
        open_ = [f"{ORDINALS[n]} vote".capitalize() if n < len(ORDINALS) else f"Vote {n + 1}"
                 for n in range(count.given, count.given + count.missing)]  # fmt: skip
        lines += [VoteLine("pending", f"{name}: open", _join_with_or(left)) for name in open_]
    if not asked.rule.requester_may_vote:
        lines += [
            VoteLine("info", f"{name} cannot vote", why) for name, why in _who_never_counts(asked).items()
        ]
    return lines


def name_voters_left(able: Sequence[Voter], given: Sequence[Vote], who: Voter) -> list[str]:
    """Of those who may vote, who has not; `who` reads "you"."""
    voted = [Voter(v.voter, v.voter_id) for v in given if v.voided_at is None]
    left = [voter for voter in able if not any(voter.same(other) for other in voted)]
    return ["you" if voter.same(who) else voter.name for voter in left]


def _who_never_counts(asked: RequestFacts) -> dict[str, str]:
    """Who never counts on it, and why."""
    did: dict[str, list[str]] = {}
    for name in dict.fromkeys(e.name for e in asked.editors):
        did.setdefault(name, []).append("edited its code")
    did.setdefault(asked.author.name, []).append("sealed the plan")
    did.setdefault(asked.requester.name, []).append("asked for it")
    return {name: " and ".join(acts) for name, acts in did.items()}


def _vote_line(v: Vote, now: datetime) -> VoteLine:
    verb = "approved" if v.choice == "approve" else "rejected"
    said = f"{words.format_clock(v.at, now)}: “{v.reason}”"
    if v.voided_at is not None:
        return VoteLine(
            "stopped",
            f"{v.voter} {verb}; counts no more",
            f"{said}, void since {words.format_clock(v.voided_at, now)}",
        )
    return VoteLine("ok" if v.choice == "approve" else "failed", f"{v.voter} {verb}", said)


def _join_with_or(names: Sequence[str]) -> str:
    if not names:
        return "no one is left who may vote: an admin can add someone"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def describe_effects(asked: RequestFacts, given: int, now: datetime) -> tuple[str, str]:
    """What pressing Approve or Reject will do."""
    number = ORDINALS[given] if given < len(ORDINALS) else f"number {given + 1}"
    last = given + 1 >= asked.rule.votes
    lets = f"lets {asked.requester.name} run the plan until {words.format_clock(asked.expires_at, now)}; it "
    more = f"Approving {lets if last else ''}does not start it. Rejecting ends this request."
    return f"Your vote is the {number} of {asked.rule.votes}.", more


def rule_lines(rule: ApprovalRule) -> list[tuple[str, str]]:
    """A rule in people's words, for the list of environments and beside a plan."""
    glass = f"{rule.break_glass_minutes} min, reviewed afterwards" if rule.break_glass else "not possible"
    groups = "; ".join(f"{g.votes} of {', '.join(g.members)} ({g.name})" for g in rule.groups)
    lines = [
        ("Votes", f"{votes_text(rule.votes)} by other people" if rule.votes else "none needed"),
        ("Groups", groups or "anyone who may vote"),
        ("Lasts", words.format_count(rule.expiry_hours, "hour")),
        ("Waiting time", words.format_duration(rule.waiting_minutes * 60) if rule.waiting_minutes else "none"),
        ("Freeze windows", "; ".join(str(w) for w in rule.freezes) or "none"),
        ("Strategies", "every one" if rule.strategies is None else ", ".join(map(name_strategy, rule.strategies))),
        ("Break-glass", glass),
    ]  # fmt: skip
    if rule.requester_may_vote:
        lines.insert(2, ("Own requests", "who asks may vote"))
    return (
        lines
        if rule.votes
        else [line for line in lines if line[0] not in ("Groups", "Lasts", "Waiting time")]
    )


@dataclass(frozen=True)
class RequestRow:
    """One request in a list."""

    request: ApprovalRequest
    badge: status.Badge
    given: int
    #: this person's vote would count
    mine: bool
    says: str


def request_row(request: ApprovalRequest, count: int, mine: bool, now: datetime) -> RequestRow:
    """`count`: votes for it that are in force."""
    return RequestRow(request, request_badge(request, count, now), count, mine, _describe_state(request, now))


def _describe_state(request: ApprovalRequest, now: datetime) -> str:
    state = state_by_clock(request, now)
    if state == "expired":
        return str(request.says) or "Its time is over. Expired is not approved."
    return str(request.says) if state not in LIVE else str(request.reason)


def when_ready(asked: RequestFacts, now: datetime) -> datetime | None:
    """When an approved plan may begin, while that is still to come."""
    at = ready_at(asked)
    return at if asked.state == "approved" and at > now else None
