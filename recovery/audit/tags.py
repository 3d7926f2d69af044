"""The registry of audited acts: a code for machines, people's words for screens and exports.

An act that is not here cannot be recorded, so that no code is misspelt and every one has its words.
"""

from typing import Final

ACTIONS: Final[dict[str, str]] = {
    "person.create": "added a person or a service account",
    "person.change": "changed someone's roles",
    "person.switch": "switched an account off or on",
    "person.invite": "made an invitation",
    "person.joined": "set a password by an invitation",
    "person.password": "set a password",
    "person.forgot": "asked for a link to set a password by mail",
    "token.create": "made an access token",
    "token.revoke": "withdrew an access token",
    "token.use": "used an access token",
    "token.refused": "tried an access token that is not good",
    "factor.add": "set up a second factor",
    "factor.remove": "removed a second factor",
    "factor.reset": "made new recovery codes",
    "session.confirm": "confirmed who they are",
    "session.end": "ended sessions",
    "session.sign_in": "signed in",
    "session.refused": "tried to sign in",
    "session.sign_out": "signed out",
    "workspace.register": "registered a workspace",
    "workspace.add": "added a workspace",
    "stream.adopt": "adopted a stream",
    "workspace.change": "changed a workspace",
    "workspace.switch": "switched a workspace off or on",
    "workspace.remove": "removed a workspace",
    "workspace.test": "asked for a workspace to be tested",
    "pipeline.retag": "saw another environment in a pipeline's tag, with weaker rules",
    "pipeline.move": "moved a pipeline to another environment",
    "flow.ask_refresh": "asked for a refresh of what is below a flow",
    "flow.ask_count": "asked for what is below a flow to be counted",
    "flow.refresh": "started a refresh of what is below a flow",
    "recovery.open": "opened a recovery",
    "recovery.stop": "asked for the pipeline to be stopped",
    "recovery.facts": "asked for the facts",
    "recovery.meant": "answered whether the change was meant",
    "recovery.strategy": "chose a strategy",
    "recovery.target": "chose what a replay goes back to",
    "recovery.below": "chose whether what is below is refreshed",
    "recovery.look": "asked what start positions would cost",
    "recovery.positions": "chose where sources start",
    "recovery.sources": "confirmed which source continues which",
    "recovery.accept": "accepted that rows are lost or repeated",
    "recovery.patch": "edited the pipeline's code",
    "recovery.keep": "kept the pipeline's code as it is",
    "recovery.validate": "asked for the code to be validated",
    "recovery.further": "began a further plan after a proof that did not hold",
    "plan.seal": "sealed a plan",
    "plan.join": "sealed plans to run together",
    "plan.void": "voided a plan",
    "plan.withdraw": "took a sealed plan back",
    "approval.request": "asked for approval of a plan",
    "approval.vote": "voted on a plan",
    "approval.reject": "rejected a plan",
    "approval.decide": "approved a plan with enough votes",
    "approval.expire": "let a request for approval expire",
    "approval.void": "voided a request for approval",
    "recovery.break_glass": "broke glass: ran a plan without enough votes",
    "environment.rule": "changed the rules of an environment",
    "recovery.execute": "started the plan",
    "recovery.halt": "stopped the run",
    "recovery.pause": "paused the run after a step",
    "recovery.resume": "resumed the plan",
    "recovery.skip": "skipped a step",
    "recovery.hand_over": "handed the recovery over",
    "recovery.take_over": "took the recovery over",
    "recovery.rollback": "rolled the recovery back",
    "recovery.cancel": "cancelled the recovery",
    "backup.remove": "removed the backup of a table",
    "step.begin": "began a step",
    "step.run": "ran a step",
    "step.unknown": "lost sight of a step",
    "step.stop": "asked for the update of an unknown step to be stopped",
    "step.statement": "recorded what they know of an unknown step",
    "step.probe": "found out what a step had done",
    "step.repeat": "began a step again by itself",
    "recovery.end": "ended the recovery",
    "pipeline.pause": "took continuous mode or retries from a pipeline",
    "pipeline.restore": "gave a pipeline its continuous mode or retries back",
    "job.pause": "paused a job that starts the pipeline",
    "job.restore": "gave a paused job back",
    "channel.create": "added a notification channel",
    "channel.change": "changed a notification channel",
    "channel.switch": "switched a notification channel on or off",
    "channel.remove": "removed a notification channel",
    "channel.test": "sent a test message",
    "message.retry": "had a message sent again",
    "message.lost": "gave a message up",
    "audit.export": "exported the audit log",
    "audit.ask": "asked for a check of the audit log",
    "audit.verify": "checked the audit log",
    "audit.pack": "took the evidence of a recovery along",
    "audit.review": "signed an act off",
    "audit.archive": "archived old entries of the audit log",
    "audit.key": "changed the key that signs the audit log",
    "setting.change": "changed a setting",
    "page.denied": "asked for a page without the right to see it",
    "command.denied": "ran a command without the right to",
    "api.denied": "asked the API without the right to",
}

OUTCOMES: Final[dict[str, str]] = {
    "done": "Done",
    "denied": "Denied",
    "failed": "Failed",
    "unknown": "Unknown",
}

ASKING: Final = frozenset(
    {
        "recovery.open", "recovery.stop", "recovery.facts", "recovery.meant", "recovery.strategy", "recovery.patch",
        "recovery.keep",
        "recovery.validate", "recovery.execute", "recovery.halt", "recovery.pause", "recovery.resume",
        "recovery.rollback", "recovery.skip", "recovery.look", "recovery.positions", "recovery.sources",
        "recovery.accept", "recovery.below", "recovery.target", "recovery.further",
    }
)  # fmt: skip
"""Acts of people that workers then carry out: a worker's entry names who took the last of them."""

ONLY: Final[dict[str, str]] = {
    "token.refused": "denied",
    "session.refused": "denied",
    "page.denied": "denied",
    "command.denied": "denied",
    "api.denied": "denied",
    "step.begin": "done",
    "step.unknown": "unknown",
}
"""Acts whose name says how they end."""


def code_of_action(action: str, outcome: str) -> str:
    """The stable code of what happened, `recovery.execute.done`: success, denial, failure and unknown each have one."""
    return f"{action}.{outcome}"


def check_action(action: str, outcome: str) -> None:
    """Raise ValueError for a code or an outcome that is not registered: a bug in the caller."""
    if action not in ACTIONS:
        raise ValueError(f"Audit action {action!r} is not registered in recovery/audit/tags.py.")
    if outcome not in OUTCOMES:
        raise ValueError(f"Audit outcome {outcome!r} is none of {', '.join(OUTCOMES)}.")
