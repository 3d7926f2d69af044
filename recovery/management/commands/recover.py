"""`manage.py recover PIPELINE`: stop, plan, execute and wait for proof, in one command."""

from argparse import ArgumentParser

from recovery.approvals.rules import votes_text
from recovery.approvals.selectors import rule_for as rules_of
from recovery.contracts.names import name_strategy
from recovery.errors import Refused
from recovery.management.commands import _acting, _together
from recovery.management.commands._base import CommandAnswer, Options, RepriseCommand
from recovery.models import Flow
from recovery.people.roles import Right
from recovery.planning import plan_now
from recovery.workflow import actions, by_hand, joint_actions
from recovery.workflow.selectors import open_recovery_of


def refuse_votes(flow: Flow) -> None:
    """Raises Refused, before anything is stopped or sealed, where other people must agree: `already_approved`,
    `votes_missing` where a plan waits, else `needs_approval`."""
    rule = rules_of(flow.pipeline.environment)
    if not rule.votes:
        return
    asks = f"Environment {rule.environment} asks for {votes_text(rule.votes)} by other people, so nothing was done."
    waiting = open_recovery_of(flow.pk)
    if waiting is not None and waiting.state == "approved":
        says = (
            f"The plan of {waiting.label} is approved: run it with bin/manage execute {waiting.label} --wait."
        )
        raise Refused(f"{asks} {says}", code="already_approved")
    if waiting is not None and waiting.state == "awaiting_approval":
        says = f"The plan of {waiting.label} waits for votes: bin/manage approve {waiting.label}."
        raise Refused(f"{asks} {says}", code="votes_missing")
    says = "Seal a plan with bin/manage plan, which asks for them; then run it with bin/manage execute."
    raise Refused(f"{asks} {says}", code="needs_approval")


class Command(RepriseCommand):
    """Exit 0: every criterion of the plan is measured and holds; 1: refused or not proven; 2: wrong use."""

    help = "Recovers a flow from stop to proof, if its environment needs no approval."
    right = Right.RECOVER

    def add_options(self, parser: ArgumentParser) -> None:
        _acting.plan_options(parser)
        parser.add_argument(
            "--timeout", type=float, default=_acting.WAIT_SECONDS, help="Longest wait, in seconds."
        )

    def answer(self, options: Options) -> CommandAnswer:
        if len(options["flows"]) > 1:
            return self._recover_together(options)
        options = _acting.split_flow(options)
        flow = _acting.flow_of(options, self.actor)
        refuse_votes(flow)
        patch = by_hand.read_patch(flow, code=options["code"], diff=options["patch"])
        self._stop(flow, healthy=plan_now.fits_healthy(flow, options["strategy"], options["position"]))
        _acting.say_counting(flow)
        recovery, plan = _acting.seal(flow, options, patch, by=self.actor)
        _acting.say(
            f"{recovery.label}: plan {plan.hash[:8]} sealed, {name_strategy(plan.contents.strategy)}."
        )
        actions.execute(recovery_id=recovery.pk, plan_hash=plan.hash, by=self.actor)
        return _acting.ended(by_hand.wait(recovery, say=_acting.say, timeout=options["timeout"]))

    def _recover_together(self, options: Options) -> CommandAnswer:
        flows = _together.find_flows(options, self.actor)
        refuse_votes(flows[0][0])
        for flow, strategy in flows:  # once one has stopped the pipeline, the others find it stopped
            self._stop(flow, healthy=plan_now.fits_healthy(flow, strategy))
        joint = _together.seal_plans(options, flows, by=self.actor)
        _acting.say(f"{joint.label}: {len(flows)} plans sealed together, {joint.hash[:8]}.")
        joint_actions.execute_joint(joint_id=joint.pk, by=self.actor)
        return _together.wait_for_end(joint, timeout=options["timeout"])

    def _stop(self, flow: Flow, *, healthy: bool) -> None:
        """An update may run, or may at any time: stop it before positions are read."""
        if (flow.state != "failed" and not healthy) or not by_hand.needs_stop(flow):
            return
        recovery = by_hand.open_or_go_on(flow, by=self.actor, healthy=healthy)
        by_hand.stop_first(flow=flow, recovery_id=recovery.pk, by=self.actor, say=_acting.say)
