"""`manage.py execute RECOVERY`: run a sealed plan by the workers, or resume one that needs attention."""

from argparse import ArgumentParser

from recovery.management.commands import _acting, _together
from recovery.management.commands._base import CommandAnswer, Options, RepriseCommand
from recovery.people.roles import Right
from recovery.workflow import actions, by_hand, joint_actions
from recovery.workflow.joining import plans_of, refuse_unseen
from recovery.workflow.moves import state_label
from recovery.workflow.selectors import joint_or_404, recovery_or_404


class Command(RepriseCommand):
    """Exit 0: started (with --wait: proven); 1: refused, or ended without proof; 2: something is away."""

    help = (
        "Runs a sealed plan, or resumes it at the step that failed, has an unknown outcome, or did not begin."
    )
    right = Right.RECOVER

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("recovery", help="R-12 or 12; J-3 for plans that run together.")
        _acting.plan_hash_option(parser)
        parser.add_argument("--wait", action="store_true", help="Follow the steps to the end.")
        parser.add_argument(
            "--timeout", type=float, default=_acting.WAIT_SECONDS, help="Longest wait, in seconds."
        )

    def answer(self, options: Options) -> CommandAnswer:
        if _together.names_joint(options["recovery"]):
            return self._execute_together(options)
        recovery = recovery_or_404(options["recovery"], self.actor)
        refuse_unseen(recovery, options["plan"])
        if not (options["wait"] and recovery.state in by_hand.MOVING):
            actions.execute(recovery_id=recovery.pk, plan_hash=options["plan"], by=self.actor)
        if options["wait"]:
            return _acting.ended(by_hand.wait(recovery, say=_acting.say, timeout=options["timeout"]))
        recovery.refresh_from_db()
        data = by_hand.summary(recovery)
        return CommandAnswer(
            data, f"{recovery.label} is {state_label(recovery.state)}; workers go on without this command."
        )

    def _execute_together(self, options: Options) -> CommandAnswer:
        joint = joint_or_404(options["recovery"], self.actor)
        refuse_unseen(joint, options["plan"])
        moving = any(plan.recovery.state in by_hand.MOVING for plan in plans_of(joint))
        if not (options["wait"] and moving):
            joint_actions.execute_joint(joint_id=joint.pk, joint_hash=options["plan"], by=self.actor)
        return (
            _together.wait_for_end(joint, timeout=options["timeout"])
            if options["wait"]
            else _together.describe_state(joint)
        )
