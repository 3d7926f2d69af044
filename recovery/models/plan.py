"""A sealed plan. Rows are written once; only `voided_*` may be set afterwards, once."""

from django.db import models

from recovery.contracts import codec
from recovery.contracts.plan import PlanBody
from recovery.models.recovery import Recovery


class Plan(models.Model):
    recovery = models.ForeignKey(Recovery, on_delete=models.PROTECT, related_name="plans")
    hash = models.CharField(max_length=64, unique=True)
    body = models.JSONField()
    sealed_by = models.CharField(max_length=150)
    sealed_at = models.DateTimeField(auto_now_add=True)
    voided_at = models.DateTimeField(null=True)
    drift = models.JSONField(default=list)

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return self.hash[:8]

    @property
    def contents(self) -> PlanBody:
        """What it fixes, as a value; `body` is what the hash was made of."""
        return codec.read_plan(self.body)
