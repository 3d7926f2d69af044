"""Requests for votes, votes, broken glass, and the rules of environments. Names are text: history outlives accounts."""

from django.db import models
from django.db.models import Q

from recovery.models.plan import Plan
from recovery.models.recovery import Recovery

APPROVAL_STATES = ["open", "approved", "used", "rejected", "expired", "voided"]
LENIENT = ["development", "staging"]


class ApprovalRequest(models.Model):
    """One request for the votes that a plan needs. `rule` is the environment's as it was then, `says` how it ended."""

    recovery = models.ForeignKey(Recovery, on_delete=models.PROTECT, related_name="requests")
    plan = models.ForeignKey(Plan, on_delete=models.PROTECT, related_name="requests")
    state = models.CharField(max_length=10, default="open")
    version = models.PositiveIntegerField(default=0)
    environment = models.CharField(max_length=20)
    rule = models.JSONField()
    reason = models.TextField(blank=True)
    requested_by = models.CharField(max_length=150)
    requested_by_id = models.BigIntegerField(null=True)
    requested_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    says = models.TextField(blank=True)

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["recovery"], condition=Q(state__in=["open", "approved"]), name="one_live_request"
            ),
            models.CheckConstraint(condition=Q(state__in=APPROVAL_STATES), name="known_approval_state"),
            models.CheckConstraint(
                condition=~Q(state__in=["approved", "used"]) | Q(decided_at__isnull=False),
                name="approved_is_decided",
            ),
        ]

    def __str__(self) -> str:
        return f"request {self.pk} of R-{self.recovery_id}"


class Vote(models.Model):
    """`hash` is what was signed. A void vote stays: it was given, and counts no more."""

    request = models.ForeignKey(ApprovalRequest, on_delete=models.PROTECT, related_name="votes")
    plan = models.ForeignKey(Plan, on_delete=models.PROTECT, related_name="votes")
    voter = models.CharField(max_length=150)
    voter_id = models.BigIntegerField()
    role = models.CharField(max_length=20)
    choice = models.CharField(max_length=10)
    reason = models.TextField()
    hash = models.CharField(max_length=64)
    via = models.CharField(max_length=20)
    at = models.DateTimeField()
    voided_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["plan", "voter_id"], condition=Q(voided_at=None), name="one_vote_per_person_and_plan"
            ),
            models.CheckConstraint(condition=Q(choice__in=["approve", "reject"]), name="known_choice"),
            models.CheckConstraint(condition=~Q(reason=""), name="vote_has_reason"),
        ]

    def __str__(self) -> str:
        return f"{self.voter}: {self.choice}"


class BreakGlass(models.Model):
    """Somebody ran a plan without enough votes. In force until `until`; reviewed in the audit log."""

    recovery = models.ForeignKey(Recovery, on_delete=models.PROTECT, related_name="glasses")
    plan = models.ForeignKey(Plan, on_delete=models.PROTECT, related_name="glasses")
    by = models.CharField(max_length=150)
    by_id = models.BigIntegerField(null=True)
    reason = models.TextField()
    missing = models.TextField()  # what stood against it
    at = models.DateTimeField()
    until = models.DateTimeField()

    class Meta:
        ordering = ["-pk"]
        constraints = [models.CheckConstraint(condition=~Q(reason=""), name="glass_has_reason")]

    def __str__(self) -> str:
        return f"R-{self.recovery_id} by {self.by}"


class EnvironmentRule(models.Model):
    """The rule of an environment that an admin changed; the others are in code. Held by `recovery.approvals.rules`."""

    environment = models.CharField(max_length=20, unique=True)
    version = models.PositiveIntegerField(default=1)
    votes = models.PositiveSmallIntegerField()
    requester_may_vote = models.BooleanField(default=False)
    expiry_hours = models.PositiveSmallIntegerField()
    waiting_minutes = models.PositiveIntegerField(default=0)
    break_glass = models.BooleanField(default=False)
    break_glass_minutes = models.PositiveSmallIntegerField(default=60)
    groups = models.JSONField(default=list)
    freezes = models.JSONField(default=list)
    strategies = models.JSONField(null=True)
    changed_by = models.CharField(max_length=150)
    changed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(environment__in=LENIENT) | Q(requester_may_vote=False, votes__gte=1),
                name="nobody_approves_their_own",
            )
        ]

    def __str__(self) -> str:
        return self.environment
