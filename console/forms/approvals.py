"""What approvers and admins type: a vote with its reason, and the rules of an environment."""

from collections.abc import Mapping
from typing import Any, Final

from django import forms

from recovery.approvals.freezes import parse_all
from recovery.approvals.rules import ApprovalRule, VoterGroup
from recovery.numbers import whole

REASON: Final = 10
"""Characters of a reason on the page, where a person thinks it over; a command takes any."""


def reason_problem(text: str) -> str:
    """Why this reason is not taken; empty when it is."""
    if len(text.strip()) >= REASON:
        return ""
    return f"Give a reason of at least {REASON} characters: it is kept in the audit log."


class RuleForm(forms.Form):
    """One environment's rule; lines of text where there may be several of a thing."""

    version = forms.IntegerField(min_value=0)
    votes = forms.IntegerField(label="Votes needed", min_value=0, max_value=20)
    expiry_hours = forms.IntegerField(label="A request lasts (hours)", min_value=1, max_value=720)
    waiting_minutes = forms.IntegerField(label="Waiting time after approval (minutes)", min_value=0)
    requester_may_vote = forms.BooleanField(required=False)
    groups = forms.CharField(required=False, label="Groups", max_length=4000)
    freezes = forms.CharField(required=False, label="Freeze windows", max_length=4000)
    break_glass = forms.BooleanField(required=False)
    break_glass_minutes = forms.IntegerField(
        label="Broken glass lasts (minutes)", min_value=1, max_value=1440
    )

    def clean_groups(self) -> tuple[VoterGroup, ...]:
        return tuple(
            _parse_group(line) for line in str(self.cleaned_data["groups"]).splitlines() if line.strip()
        )

    def clean_freezes(self) -> Any:
        try:
            return parse_all(str(self.cleaned_data["freezes"]))
        except ValueError as error:
            raise forms.ValidationError(str(error)) from error

    def rule(self, environment: str, strategies: list[str], every: list[str]) -> ApprovalRule:
        """The rule that was typed; all strategies ticked means every one, those to come too."""
        values = {k: v for k, v in self.cleaned_data.items() if k != "version"}
        named = None if set(strategies) >= set(every) else tuple(s for s in every if s in strategies)
        return ApprovalRule(environment, strategies=named, **values)


def _parse_group(line: str) -> VoterGroup:
    """`data 1: ann, bob`: one of the votes must be ann's or bob's."""
    head, colon, tail = line.partition(":")
    name, _, given = head.strip().rpartition(" ")
    votes = whole(given)
    members = tuple(m.strip() for m in tail.split(",") if m.strip())
    if not (colon and name and votes is not None and members):
        raise forms.ValidationError(f"{line.strip()!r} is no group. Write `data-owners 1: ann, bob`.")
    return VoterGroup(name.strip(), members, votes)


def form_values(rule: ApprovalRule, version: int) -> Mapping[str, Any]:
    """The rule as the form shows it."""
    groups = [f"{g.name} {g.votes}: {', '.join(g.members)}" for g in rule.groups]
    return {
        **rule.as_dict(),
        "version": version,
        "groups": "\n".join(groups),
        "freezes": "\n".join(str(w) for w in rule.freezes),
    }
