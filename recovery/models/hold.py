"""What a recovery paused outside of itself, so that it is given back at the end whatever happens to workers."""

from django.db import models
from django.db.models import Q

from recovery.models.pipeline import Pipeline
from recovery.models.recovery import Recovery

HOLD_STATES = ["noted", "paused", "restored", "left"]


class Hold(models.Model):
    """One job's `schedule`, `trigger` or `continuous` setting (`way`), or, with `job_id` 0, the pipeline's own
    continuous `mode` or its `retries`; `was` is the setting as it was found.

    noted: about to be paused, and no one saw whether it was; paused: read back as paused; restored: given back;
    left: somebody changed it meanwhile, so it was not touched again (`problem` says what was found).
    """

    pipeline = models.ForeignKey(Pipeline, on_delete=models.PROTECT, related_name="holds")
    recovery = models.ForeignKey(Recovery, on_delete=models.PROTECT, related_name="holds")
    job_id = models.BigIntegerField()
    name = models.CharField(max_length=300)
    way = models.CharField(max_length=12)
    was = models.JSONField()
    state = models.CharField(max_length=10, default="noted")
    problem = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(state__in=HOLD_STATES), name="known_hold_state"),
            models.UniqueConstraint(
                fields=["pipeline", "job_id", "way"],
                condition=Q(state__in=["noted", "paused"]),
                name="one_hold_per_job",
            ),
        ]

    def __str__(self) -> str:
        if self.job_id == 0:
            what = {"mode": "continuous mode"}.get(self.way, "automatic retries")
            return f"{what} of pipeline {self.name}"
        return f"{self.way} of job {self.name}"
