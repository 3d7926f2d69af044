"""A sealed plan. Rows are written once; only `voided_*` may be set afterwards, once."""

from django.db import models

from recovery.contracts import codec
from recovery.contracts.criteria import Criterion
from recovery.contracts.forecast import Forecast
from recovery.contracts.steps import PlannedStep
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
    def planned_steps(self) -> tuple[PlannedStep, ...]:
        """Its steps, as sealed."""
        return tuple(codec.read(PlannedStep, one) for one in self.body["steps"])

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """What its proof measures, as sealed."""
        return tuple(codec.read(Criterion, one) for one in self.body["criteria"])

    @property
    def forecast(self) -> Forecast:
        """What it will do to rows, as sealed."""
        return codec.read(Forecast, self.body["forecast"])
