"""Every rule as a table: who may vote, when it is enough, when a plan may run."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from recovery.approvals import rules
from recovery.approvals.freezes import parse_freeze
from recovery.approvals.rules import ApprovalRule, ApprovalStanding, CastVote, RequestFacts, Voter, VoterGroup

NOW = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)  # a Wednesday
RULE = ApprovalRule("production", 2, expiry_hours=8)
ANN, BOB, CAT = Voter("ann", 1), Voter("bob", 2), Voter("cat", 3)
RES = Voter("res", 9)
YES = (CastVote(ANN, "approve"), CastVote(BOB, "approve"))


def asked(**values: Any) -> RequestFacts:
    given: dict[str, Any] = {
        "state": "open", "hash": "h1", "rule": RULE, "requester": RES, "author": Voter("eve"),
        "expires_at": NOW + timedelta(hours=8), **values,
    }  # fmt: skip
    return RequestFacts(**given)


def approved(**values: Any) -> RequestFacts:
    return asked(**{"state": "approved", "decided_at": NOW - timedelta(minutes=30), **values})


def standing(**values: Any) -> ApprovalStanding:
    given: dict[str, Any] = {
        "rule": RULE, "hash": "h1", "strategy": "continue", "asked": approved(), "votes": YES, **values,
    }  # fmt: skip
    return ApprovalStanding(**given)


@pytest.mark.parametrize(
    ("environment", "votes", "glass"),
    [
        ("development", 0, False),
        ("staging", 1, True),
        ("production", 2, False),
        ("prod-eu", 2, False),
        ("", 2, False),
    ],
)
def test_the_shipped_rules(environment: str, votes: int, glass: bool) -> None:
    rule = rules.shipped_rule(environment)
    assert (rule.environment, rule.votes, rule.break_glass) == (environment, votes, glass)
    assert not rule.requester_may_vote
    assert rules.problem_of_rule(rule) is None


GROUPS = (VoterGroup("data", ("ann", "bob"), 1), VoterGroup("risk", ("cat",), 1))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"requester_may_vote": True}, "cannot approve what you asked for"),
        ({"votes": 0}, "at least 1 other person"),
        ({"votes": 21}, "Between 0 and 20"),
        ({"expiry_hours": 0}, "between 1 hour"),
        ({"expiry_hours": 721}, "between 1 hour"),
        ({"waiting_minutes": -1}, "negative"),
        ({"waiting_minutes": 480}, "no plan could ever run"),
        ({"break_glass_minutes": 0}, "between 1 minute"),
        ({"break_glass_minutes": 1441}, "between 1 minute"),
        ({"groups": (VoterGroup("", ("ann",), 1),)}, "needs a name"),
        ({"groups": (VoterGroup("data", (), 1),)}, "needs a name"),
        ({"groups": (VoterGroup("data", ("ann",), 2),)}, "fewer members"),
        ({"groups": (*GROUPS, VoterGroup("ops", ("dan",), 1))}, "more votes than are needed"),
        ({"groups": (VoterGroup("data", ("ann",), 1),)}, "fewer members than votes are needed"),
        ({"strategies": ()}, "At least one strategy"),
        ({"groups": GROUPS}, None),
        ({"strategies": ("continue",), "waiting_minutes": 479, "break_glass": True}, None),
    ],
)
def test_a_rule_that_cannot_hold_is_refused(change: dict[str, Any], says: str | None) -> None:
    found = rules.problem_of_rule(replace(RULE, **change))
    assert (found is None) if says is None else (says in (found or "")), found


@pytest.mark.parametrize("environment", ["production", "prod-eu", "Production"])
def test_no_environment_but_development_and_staging_lets_people_approve_their_own(environment: str) -> None:
    assert rules.problem_of_rule(ApprovalRule(environment, 2, requester_may_vote=True)) is not None
    assert rules.problem_of_rule(ApprovalRule("staging", 1, requester_may_vote=True)) is None


def test_a_rule_is_the_same_after_it_was_kept() -> None:
    rule = replace(
        RULE,
        groups=GROUPS,
        freezes=(parse_freeze("Fri 18:00 - Mon 08:00 UTC why"),),
        strategies=("continue",),
    )
    assert rules.from_dict(rule.as_dict()) == rule
    assert rules.from_dict(RULE.as_dict()) == RULE


def test_a_kept_freeze_window_that_nobody_can_read_holds_the_place_frozen_and_says_what_to_do() -> None:
    kept = rules.from_dict(
        {**DEVELOPMENT.as_dict(), "freezes": ["26-12-20 00:00 - 27-01-04 06:00 UTC holidays"]}
    )
    no = rules.may_run(standing(rule=kept, asked=None), NOW)
    assert no is not None
    assert no.code == "frozen"
    assert "26-12-20 00:00 - 27-01-04 06:00 UTC holidays" in no.says
    assert "rewrite it" in no.says


@pytest.mark.parametrize(
    ("what", "who", "voted", "choice", "hash_", "code"),
    [
        (asked(), ANN, (), "approve", "h1", None),
        (asked(), ANN, (), "reject", "h1", None),
        (asked(), ANN, (), "approve", "h2", "stale_plan"),
        (asked(), RES, (), "approve", "h1", "own_request"),
        (asked(), Voter("renamed", 9), (), "approve", "h1", "own_request"),
        (asked(), Voter(RES.name, 8), (), "approve", "h1", None),
        (asked(), Voter(RES.name), (), "approve", "h1", "own_request"),
        (asked(), Voter("eve", 4), (), "reject", "h1", "own_plan"),
        (asked(editors=(CAT, ANN)), ANN, (), "approve", "h1", "own_code"),
        (asked(editors=(CAT, ANN)), Voter("renamed", 1), (), "reject", "h1", "own_code"),
        (asked(editors=(CAT,)), ANN, (), "approve", "h1", None),
        (asked(), ANN, (CastVote(ANN, "approve"),), "approve", "h1", "voted"),
        (asked(), ANN, (CastVote(ANN, "approve"),), "reject", "h1", "voted"),
        (asked(), Voter("renamed", 1), (CastVote(ANN, "approve"),), "approve", "h1", "voted"),
        (asked(), BOB, (CastVote(ANN, "approve"),), "approve", "h1", None),
        (asked(expires_at=NOW), ANN, (), "approve", "h1", "expired"),
        (asked(expires_at=NOW + timedelta(seconds=1)), ANN, (), "approve", "h1", None),
        (approved(), CAT, YES, "approve", "h1", "not_open"),
        (approved(), CAT, YES, "reject", "h1", None),
        (asked(state="rejected"), CAT, (), "reject", "h1", "not_open"),
        (asked(state="expired"), CAT, (), "approve", "h1", "not_open"),
        (asked(state="voided"), CAT, (), "approve", "h1", "not_open"),
        (asked(state="used"), CAT, (), "reject", "h1", "not_open"),
        (asked(rule=replace(RULE, groups=GROUPS)), CAT, (), "approve", "h1", None),
        (asked(rule=replace(RULE, groups=GROUPS)), Voter("dan", 5), (), "approve", "h1", "no_group"),
        (asked(rule=ApprovalRule("staging", 1, requester_may_vote=True)), RES, (), "approve", "h1", None),
    ],
)  # fmt: skip
def test_who_may_vote(
    what: RequestFacts, who: Voter, voted: tuple[CastVote, ...], choice: str, hash_: str, code: str | None
) -> None:
    found = rules.may_vote(what, who, voted, choice, hash_, NOW)
    assert (found.code if found else None) == code


@pytest.mark.parametrize(
    ("rule", "voters", "enough", "missing"),
    [
        (RULE, [], False, 2),
        (RULE, ["ann"], False, 1),
        (RULE, ["ann", "bob"], True, 0),
        (RULE, ["ann", "ann"], False, 1),
        (replace(RULE, groups=GROUPS), ["ann", "bob"], False, 1),
        (replace(RULE, groups=GROUPS), ["ann", "cat"], True, 0),
        (replace(RULE, votes=3, groups=GROUPS), ["ann", "cat"], False, 1),
        (ApprovalRule("development", 0), [], True, 0),
    ],
)
def test_when_it_is_enough(rule: ApprovalRule, voters: list[str], enough: bool, missing: int) -> None:
    count = rules.tally_votes(rule, [CastVote(Voter(v), "approve") for v in voters])
    assert (count.enough, count.missing) == (enough, missing)


def test_a_vote_against_it_is_no_vote_for_it() -> None:
    assert rules.tally_votes(RULE, [CastVote(ANN, "approve"), CastVote(BOB, "reject")]).given == 1


DEVELOPMENT = ApprovalRule("development", 0)
FROZEN = (parse_freeze("Wed 08:00 - Wed 18:00 UTC release day"),)


@pytest.mark.parametrize(
    ("what", "code"),
    [
        (standing(), None),
        (standing(rule=DEVELOPMENT, asked=None, votes=()), None),
        (standing(asked=None, votes=()), "needs_approval"),
        (standing(asked=asked(), votes=YES[:1]), "needs_approval"),
        (standing(asked=asked(state="rejected")), "needs_approval"),
        (standing(asked=asked(state="voided")), "needs_approval"),
        (standing(asked=approved(hash="h0")), "needs_approval"),
        (standing(votes=YES[:1]), "needs_approval"),
        (standing(asked=approved(expires_at=NOW)), "expired"),
        (standing(asked=asked(expires_at=NOW), votes=()), "expired"),
        (standing(asked=approved(rule=replace(RULE, votes=1))), "rules_changed"),
        (standing(asked=asked(state="used", decided_at=NOW)), "needs_approval"),
        (standing(asked=asked(state="used", decided_at=NOW), resuming=True), None),
        (standing(asked=asked(state="used", decided_at=NOW, expires_at=NOW), resuming=True), "expired"),
        (standing(sealed_in="production"), None),
        (standing(sealed_in="development"), "environment_changed"),
        (standing(rule=DEVELOPMENT, asked=None, votes=(), sealed_in="production"), "environment_changed"),
        (standing(rule=replace(RULE, strategies=("revert",))), "strategy_not_allowed"),
        (standing(rule=replace(RULE, freezes=FROZEN), asked=approved(rule=replace(RULE, freezes=FROZEN))), "frozen"),
        (standing(rule=replace(DEVELOPMENT, freezes=FROZEN), asked=None), "frozen"),
    ],
)  # fmt: skip
def test_when_a_plan_may_run(what: ApprovalStanding, code: str | None) -> None:
    found = rules.may_run(what, NOW)
    assert (found.code if found else None) == code


@pytest.mark.parametrize(("minutes", "code"), [(29, None), (30, None), (31, "waiting_time")])
def test_the_waiting_time_counts_from_the_decision(minutes: int, code: str | None) -> None:
    rule = replace(RULE, waiting_minutes=minutes)
    found = rules.may_run(standing(rule=rule, asked=approved(rule=rule)), NOW)
    assert (found.code if found else None) == code


GLASS = replace(RULE, break_glass=True)
LATER = NOW + timedelta(minutes=1)


@pytest.mark.parametrize(
    ("what", "run", "glass"),
    [
        (standing(rule=GLASS, asked=None), "needs_approval", None),
        (standing(rule=GLASS, asked=asked(rule=GLASS), votes=()), "needs_approval", None),
        (standing(rule=GLASS, asked=None, glass_until=LATER), None, "not_needed"),
        (standing(rule=GLASS, asked=None, glass_until=NOW), "needs_approval", None),
        (standing(asked=None), "needs_approval", "no_glass"),
        (standing(rule=GLASS, asked=approved(rule=GLASS)), None, "not_needed"),
        (standing(rule=replace(GLASS, freezes=FROZEN), glass_until=LATER), None, "not_needed"),
        (standing(rule=replace(GLASS, freezes=FROZEN), asked=None), "needs_approval", None),
        (standing(rule=replace(GLASS, strategies=("revert",)), glass_until=LATER), "strategy_not_allowed",
         "strategy_not_allowed"),
        (standing(rule=GLASS, sealed_in="staging", glass_until=LATER), "environment_changed", "environment_changed"),
    ],
)  # fmt: skip
def test_broken_glass_stands_above_votes_and_freezes_and_below_the_rest(
    what: ApprovalStanding, run: str | None, glass: str | None
) -> None:
    may, broke = rules.may_run(what, NOW), rules.may_break_glass(what, NOW)
    assert ((may.code if may else None), (broke.code if broke else None)) == (run, glass)


@pytest.mark.parametrize(
    ("what", "code"),
    [
        (standing(asked=None, votes=()), None),
        (standing(asked=asked(), votes=()), "asked"),
        (standing(asked=asked(expires_at=NOW), votes=()), "expired"),
        (standing(), "asked"),
        (standing(asked=asked(state="voided")), None),
        (standing(asked=asked(state="rejected")), None),
        (standing(asked=asked(state="used", decided_at=NOW), resuming=True), "not_needed"),
        (standing(asked=asked(state="used", decided_at=NOW, expires_at=NOW), resuming=True), None),
        (standing(rule=DEVELOPMENT, asked=None), "not_needed"),
    ],
)
def test_when_votes_can_be_asked_for(what: ApprovalStanding, code: str | None) -> None:
    found = rules.may_ask(what, NOW)
    assert (found.code if found else None) == code


def test_whose_votes_would_count_leaves_out_the_requester_and_who_is_in_no_group() -> None:
    dan = Voter("dan", 44)
    assert rules.voters_that_count(RULE, [ANN, BOB, CAT], [Voter("robert", BOB.user_id)]) == [ANN, CAT]
    assert rules.voters_that_count(replace(RULE, groups=GROUPS), [ANN, CAT, dan], [Voter("")]) == [
        ANN,
        CAT,
    ]


def test_two_votes_of_one_renamed_person_count_once() -> None:
    cast = [CastVote(ANN, "approve"), CastVote(Voter("renamed", ANN.user_id), "approve")]
    assert rules.tally_votes(RULE, cast).given == 1
