"""Changes the rule of an environment: an admin's act, audited with before and after."""

from django.db import IntegrityError, transaction
from django.utils import timezone

from recovery.approvals import rules, selectors
from recovery.approvals.moves import void_request
from recovery.approvals.rules import LIVE, ApprovalRule
from recovery.audit.actions import audited_attempt
from recovery.errors import Refused
from recovery.models import ApprovalRequest, EnvironmentRule
from recovery.people.roles import Actor, Right
from recovery.strategies.catalogue import EXECUTABLE
from recovery.workflow.moves import lock, move


def version_of(environment: str) -> int:
    """The version that a form shows and gives back; 0 while the shipped rule is in force."""
    found = EnvironmentRule.objects.filter(environment=environment).values_list("version", flat=True).first()
    return found or 0


def change_rule(*, rule: ApprovalRule, version: int, by: Actor) -> None:
    """Put this rule in force. `version` is the one that was looked at. What was asked for or approved under the old
    one is void, at once and visibly. Raises Denied, Refused (not a rule, or somebody else changed it).
    """
    with audited_attempt(
        action="environment.rule", by=by, target_kind="environment", target=rule.environment
    ) as attempted:
        by.check(Right.MANAGE)
        if says := _problem(rule):
            raise Refused(says, code="bad_rule")
        before = selectors.rule_for(rule.environment)
        if before == rule:
            raise Refused(
                f"The rules of {rule.environment} are already like that. Nothing was changed.", code="same"
            )
        live = _live(rule.environment)  # locks the recoveries first, as every act on a request does
        _write(rule, version, by)
        for request in live:
            _void(request, f"{by.name} changed the rules of {request.environment}.", by)
        attempted.done(
            f"Changed the rules of {rule.environment}; {len(live)} requests for approval are void by it.",
            before=before.as_dict(),
            after=rule.as_dict(),
        )


def _problem(rule: ApprovalRule) -> str | None:
    unknown = set(rule.strategies or ()) - set(EXECUTABLE)
    if unknown:
        return f"There is no strategy {', '.join(sorted(unknown))}."
    if rule.environment not in selectors.list_environments():
        return f"There is no environment {rule.environment}."
    return rules.problem_of_rule(rule)


def _live(environment: str) -> list[ApprovalRequest]:
    """What the change voids: requests of this environment, and of those that take production's rule for their own."""
    found = []
    for request in ApprovalRequest.objects.filter(state__in=LIVE).order_by("recovery_id"):
        if request.environment == environment or (
            environment == "production" and request.environment not in (*rules.SHIPPED, *_own_rules())
        ):
            lock(request.recovery_id)
            found.append(request)
    return found


def _own_rules() -> list[str]:
    return list(EnvironmentRule.objects.values_list("environment", flat=True))


def _write(rule: ApprovalRule, version: int, by: Actor) -> None:
    values = {k: v for k, v in rule.as_dict().items() if k != "environment"}
    values |= {"changed_by": by.name, "changed_at": timezone.now()}
    rows = EnvironmentRule.objects.filter(environment=rule.environment)
    changed = rows.filter(version=version).update(**values, version=version + 1) if version else 0
    if not changed and not rows.exists() and version == 0:
        try:
            with transaction.atomic():
                EnvironmentRule.objects.create(environment=rule.environment, **values)
                return
        except IntegrityError:
            pass  # somebody else wrote the first one at this moment
    if not changed:
        raise Refused(f"Someone else changed the rules of {rule.environment} meanwhile. Look at them again.",
                      code="lost_race")  # fmt: skip


def _void(request: ApprovalRequest, says: str, by: Actor) -> None:
    """The plan stays in force: its votes are asked for again under the new rule."""
    request.refresh_from_db()
    recovery = lock(request.recovery_id)
    if request.state not in LIVE:
        return
    void_request(request, says, by=by)
    if recovery.state in ("awaiting_approval", "approved"):
        move(recovery, "planned", reason=f"{says} Ask for approval again.")
