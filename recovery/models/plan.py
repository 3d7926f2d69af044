"""A sealed plan, and plans that are sealed together. Rows are written once; only `voided_*`, and the joint plan that a
plan has joined, may be set afterwards, once."""

from django.db import models
from django.db.models import Q

from recovery.contracts import codec
from recovery.contracts.joint import JointBody
from recovery.contracts.plan import PlanBody
from recovery.models.pipeline import Pipeline
from recovery.models.recovery import Recovery


class JointPlan(models.Model):
    """Plans of several flows of one pipeline: one hash over theirs, one approval, one start, one update."""

    pipeline = models.ForeignKey(Pipeline, on_delete=models.PROTECT, related_name="joint_plans")
    hash = models.CharField(max_length=64, unique=True)
    body = models.JSONField()
    sealed_by = models.CharField(max_length=150)
    sealed_by_id = models.BigIntegerField(null=True)
    sealed_at = models.DateTimeField(auto_now_add=True)
    voided_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        return f"J-{self.pk}"

    @property
    def contents(self) -> JointBody:
        """What it fixes, as a value; `body` is what the hash was made of."""
        return codec.read(JointBody, self.body)


class Plan(models.Model):
    recovery = models.ForeignKey(Recovery, on_delete=models.PROTECT, related_name="plans")
    hash = models.CharField(max_length=64, unique=True)
    body = models.JSONField()
    sealed_by = models.CharField(max_length=150)
    sealed_by_id = models.BigIntegerField(null=True)
    sealed_at = models.DateTimeField(auto_now_add=True)
    voided_at = models.DateTimeField(null=True)
    drift = models.JSONField(default=list)
    joint = models.ForeignKey(JointPlan, on_delete=models.PROTECT, related_name="plans", null=True)
    joint_ordinal = models.PositiveSmallIntegerField(null=True)

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["joint", "joint_ordinal"],
                condition=Q(joint__isnull=False),
                name="one_place_in_joint_plan",
            ),
            models.CheckConstraint(
                condition=Q(joint__isnull=True, joint_ordinal__isnull=True)
                | Q(joint__isnull=False, joint_ordinal__isnull=False),
                name="joined_has_place",
            ),
        ]

    def __str__(self) -> str:
        return self.hash[:8]

    @property
    def contents(self) -> PlanBody:
        """What it fixes, as a value; `body` is what the hash was made of."""
        return codec.read_plan(self.body)
