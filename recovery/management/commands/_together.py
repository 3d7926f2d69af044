"""What commands do with plans that run together: several `--flow`, and J-n in place of R-n.

`{joint_plan: J-n, plan_hash, recoveries: […]}`, each recovery as the command prints it for one flow.
"""

import re
from collections.abc import Sequence
from typing import Final

from recovery.approvals.selectors import rule_for
from recovery.errors import WrongUse
from recovery.management.commands import _acting
from recovery.management.commands._base import CommandAnswer, Options
from recovery.models import Flow, JointPlan
from recovery.people.roles import Actor
from recovery.pipelines.find import find_flow, find_fresh
from recovery.planning import plan_now
from recovery.plans.accepted import effects_of
from recovery.workflow import by_hand, joining
from recovery.workflow.moves import state_label

JOINT: Final = re.compile(r"[Jj]-[0-9]+")
OF_ONE_FLOW: Final = ("position", "confirm", "key", "to", "positions")
"""Options that say something of one flow."""


def names_joint(text: str) -> bool:
    """Is it J-n?"""
    return JOINT.fullmatch(text) is not None


def find_flows(options: Options, by: Actor) -> list[tuple[Flow, str | None]]:
    """The flows of `--flow A --flow B`, each with the strategy of `--flow A=S`, else of `--strategy`.

    Raises WrongUse for what is of one flow alone, NotFound, Unreachable.
    """
    if named := [f"--{name}" for name in OF_ONE_FLOW if options.get(name)]:
        raise WrongUse(
            f"{', '.join(named)} applies to a single flow. Plan each flow on its own, or leave it out."
        )
    if _acting.RECOVERY.fullmatch(options["pipeline"]):
        raise WrongUse("To plan several flows, name their pipeline: R-n is the recovery of a single flow.")
    if options["strategy"] == "all":
        raise WrongUse("--strategy all compares the ways of one flow. Name one flow.")
    pipeline = find_fresh(options["pipeline"], by)
    chosen = []
    for text in options["flows"]:
        name, _, strategy = text.partition("=")
        chosen.append((find_flow(pipeline, name), strategy or options["strategy"]))
    return chosen


def seal_plans(
    options: Options, flows: Sequence[tuple[Flow, str | None]], *, by: Actor, again: bool = False
) -> JointPlan:
    """Seal a plan of each flow, with the same code, and all of them together."""
    patch = by_hand.read_patch(flows[0][0], code=options["code"], diff=options["patch"])
    changes = [(flow, _acting.read_change({**options, "strategy": way}, patch)) for flow, way in flows]
    accept = effects_of(loss=options["accept_loss"], repeats=options["accept_repeats"])
    return plan_now.make_joint_plan(changes=changes, accept=accept, again=again, by=by)


def needs_votes(joint: JointPlan) -> bool:
    """Do the rules of its environment ask for votes?"""
    return bool(rule_for(joint.pipeline.environment).votes)


def describe_wait(joint: JointPlan) -> str:
    """What it waits for, and the command that goes on, for people."""
    lead = joining.plans_of(joint)[0]
    return _acting.describe_wait(joint.label, "waits", lead.recovery, lead)


def wait_for_end(joint: JointPlan, *, timeout: float) -> CommandAnswer:
    """Wait for all of them, and say how each has ended: exit 0 only when every one is proven."""
    answers = []
    for plan in joining.plans_of(joint):
        answers.append(_acting.ended(by_hand.wait(plan.recovery, say=_acting.say, timeout=timeout)))
    data = by_hand.describe_joint(joint, lambda recovery, plan: by_hand.summary(recovery))
    text = "\n\n".join(answer.text for answer in answers)
    return CommandAnswer(data, text, exit_code=max(answer.exit_code for answer in answers))


def describe_state(joint: JointPlan, *, exit_code: int = 0) -> CommandAnswer:
    """The state of each of them now."""
    plans = joining.plans_of(joint)
    lines = [
        f"{p.recovery.label} is {state_label(p.recovery.state)}. {p.recovery.reason}".rstrip() for p in plans
    ]
    data = by_hand.describe_joint(joint, lambda recovery, plan: by_hand.summary(recovery))
    return CommandAnswer(data, "\n".join(lines), exit_code=exit_code)
