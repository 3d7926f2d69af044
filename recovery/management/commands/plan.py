"""`manage.py plan PIPELINE`: a sealed plan with its forecast; with `--strategy all` every way out next to each other,
and nothing is sealed. Changes nothing in the pipeline.

Where the environment asks for votes, they are asked for at once, in the name of who seals.
"""

from argparse import ArgumentParser
from collections.abc import Sequence

from recovery.approvals import selectors
from recovery.approvals.actions import request_approval
from recovery.approvals.joint_actions import request_joint_approval
from recovery.contracts.choices import ChoicesChange
from recovery.management.commands import _acting, _positions, _together, _ways
from recovery.management.commands._base import CommandAnswer, Options, RepriseCommand
from recovery.models import Flow, Recovery
from recovery.people.roles import Right
from recovery.workflow import by_hand
from recovery.workflow.joining import plans_of
from recovery.workflow.selectors import open_recovery_of
from recovery.workflow.ways import look_at_ways


class Command(RepriseCommand):
    """Exit 0: sealed (`approvals.awaits` says what it waits for); 1: refused (blocked strategy, code that does not
    validate, healthy flow); 2: wrong use.
    """

    help = "Seals a plan with forecast, steps and criteria. Changes nothing in the pipeline."
    examples = """examples:
  plan customers --flow customers_incremental_flow --strategy continue
  plan customers --strategy all
  plan customers --flow orders --flow returns=prime --strategy continue
  plan customers --positions
  plan R-12 --positions --position all=time=2026-11-22T03:00:00Z
  plan R-12 --again --position 0=time=2026-11-22T03:00:00Z --position 1=version=12 --accept-repeats
  plan R-12 --again --position 0/orders-3=1200 --position 0/orders-4=time=2026-11-22T03:00:00Z --accept-repeats
  plan R-12 --again --position 0='json={"orders":{"0":1200,"1":-2}}' --accept-loss
"""
    right = Right.RECOVER

    def add_options(self, parser: ArgumentParser) -> None:
        _acting.plan_options(parser)
        parser.add_argument(
            "--again",
            action="store_true",
            help="Void a sealed plan that has not run, and seal this one in its place.",
        )
        parser.add_argument(
            "--positions",
            action="store_true",
            help="Print each source's position, where it would start and what that costs. Changes nothing.",
        )
        parser.add_argument("--reason", default="", help="What approvers should know.")

    def answer(self, options: Options) -> CommandAnswer:
        if len(options["flows"]) > 1:
            return self._plan_together(options)
        options = _acting.split_flow(options)
        if options["strategy"] == _ways.ALL:
            _ways.refuse_choices(options)
        flow = _acting.flow_of(options, self.actor)
        if options["positions"]:
            return self._look(flow, options)
        patch = by_hand.read_patch(flow, code=options["code"], diff=options["patch"])
        _acting.say_counting(flow)
        if options["strategy"] == _ways.ALL:
            opened = _acting.recovery_of(options, self.actor) or open_recovery_of(flow.pk)
            change = _acting.read_change({**options, "strategy": None}, patch)
            return self._compare(flow, opened, change, options["position"])
        recovery, plan = _acting.seal(flow, options, patch, by=self.actor, again=options["again"])
        if selectors.rule_for(flow.pipeline.environment).votes:
            request_approval(recovery_id=recovery.pk, reason=options["reason"], by=self.actor)
            recovery.refresh_from_db()
        data = {**by_hand.planned(recovery, plan), "approvals": selectors.read_approvals(recovery, plan)}
        return CommandAnswer(data, _acting.plan_text(data, plan, _acting.awaited(recovery, plan)))

    def _plan_together(self, options: Options) -> CommandAnswer:
        flows = _together.find_flows(options, self.actor)
        joint = _together.seal_plans(options, flows, by=self.actor, again=options["again"])
        if _together.needs_votes(joint):
            request_joint_approval(joint_id=joint.pk, reason=options["reason"], by=self.actor)
        data = by_hand.describe_joint(
            joint,
            lambda r, plan: {**by_hand.planned(r, plan), "approvals": selectors.read_approvals(r, plan)},
        )
        texts = [
            _acting.plan_text(planned, plan, _together.describe_wait(joint))
            for planned, plan in zip(data["recoveries"], plans_of(joint), strict=True)
        ]
        head = f"{joint.label} {joint.hash[:8]}: {len(texts)} plans that are approved, started and rolled back together"
        return CommandAnswer(data, "\n\n".join((head, *texts)))

    def _compare(
        self, flow: Flow, recovery: Recovery | None, change: ChoicesChange, positions: Sequence[str]
    ) -> CommandAnswer:
        found = look_at_ways(flow=flow, recovery=recovery, change=change, positions=positions, by=self.actor)
        return _ways.answer(found)

    def _look(self, flow: Flow, options: Options) -> CommandAnswer:
        recovery = _acting.recovery_of(options, self.actor) or open_recovery_of(flow.pk)
        wanted, sources = by_hand.look(
            flow=flow, recovery=recovery, given=options["position"], code=options["code"],
            diff=options["patch"], keep_code=options["keep_code"], by=self.actor,
        )  # fmt: skip
        return _positions.answer(flow, recovery, wanted, sources)
