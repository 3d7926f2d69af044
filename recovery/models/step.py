"""One step of a recovery. The database owns it; Celery only wakes it."""

from django.db import models
from django.db.models import Q

from recovery.contracts import codec
from recovery.contracts.step_notes import StepNotes
from recovery.models.plan import Plan
from recovery.models.recovery import Recovery

STEP_STATES = ["pending", "running", "done", "failed", "unknown", "skipped"]


class Step(models.Model):
    """`fence` rises with every attempt: a worker holding an old one can change nothing any more.

    `plan` is empty for the early stop, which needs none. `log` lines: [time ISO, text]. `evidence`
    is what a probe found (`contracts.probes.EvidenceLine`). `look_at`: when it is next looked at by itself: a running
    step without a worker, which waits for an update (`workflow.watches`); a pending one that begins again then
    (`workflow.repeating`). `problem_code`: the code of the refusal that ended it, "" for none. `repeats`: each time it
    began again by itself, `repeating.Repeat` as plain JSON.
    """

    recovery = models.ForeignKey(Recovery, on_delete=models.PROTECT, related_name="steps")
    plan = models.ForeignKey(Plan, on_delete=models.PROTECT, related_name="steps", null=True)
    ordinal = models.PositiveSmallIntegerField()
    kind = models.CharField(max_length=20)
    says = models.TextField(blank=True)
    args = models.JSONField(default=dict)
    state = models.CharField(max_length=10, default="pending")
    attempt = models.PositiveSmallIntegerField(default=0)
    fence = models.PositiveIntegerField(default=0)
    idempotency_key = models.CharField(max_length=64, unique=True)
    woken_at = models.DateTimeField(null=True)
    heartbeat_at = models.DateTimeField(null=True)
    deadline = models.DateTimeField(null=True)
    look_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    worker = models.CharField(max_length=200, blank=True)
    log = models.JSONField(default=list)
    result = models.JSONField(default=dict)
    evidence = models.JSONField(default=list)
    repeats = models.JSONField(default=list)
    problem = models.TextField(blank=True)
    problem_code = models.CharField(max_length=80, blank=True, default="")

    class Meta:
        ordering = ["recovery", "ordinal"]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=STEP_STATES), name="known_step_state"),
            models.UniqueConstraint(
                fields=["recovery"], condition=Q(state="running"), name="one_running_step_per_recovery"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of R-{self.recovery_id}"

    @property
    def notes(self) -> StepNotes:
        """What the runner and people noted beside its result."""
        return codec.read(StepNotes, self.result)
