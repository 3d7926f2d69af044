"""The server's own records: pipelines, updates, events, tokens. They live in database `pipelines`."""

import uuid
from typing import ClassVar

from django.db import models
from django.db.models import Q

ACTIVE_STATES = ("QUEUED", "INITIALIZING", "RESETTING", "SETTING_UP_TABLES", "RUNNING", "STOPPING")
FINAL_STATES = ("COMPLETED", "FAILED", "CANCELED")


def new_id() -> str:
    """A fresh UUID as text: the form that the API speaks."""
    return str(uuid.uuid4())


class ApiToken(models.Model):
    """A bearer token; only its SHA-256 is kept."""

    name = models.CharField(max_length=100, unique=True)
    sha256 = models.CharField(max_length=64, unique=True)
    user_name = models.CharField(max_length=200, default="reprise")
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


class Pipeline(models.Model):
    """A pipeline and its settings (`spec`, in the API's own shape)."""

    id = models.CharField(primary_key=True, max_length=36, default=new_id)
    name = models.CharField(max_length=255, db_index=True)
    spec = models.JSONField()
    creator = models.CharField(max_length=200)
    last_modified_ms = models.BigIntegerField()
    healthy = models.BooleanField(null=True, help_text="How the last update ended; null: none ended yet.")

    def __str__(self) -> str:
        return self.name


class Update(models.Model):
    """One run of a pipeline. At most one update of a pipeline is active: the database says no to a second."""

    seq = models.BigAutoField(primary_key=True)
    id = models.CharField(max_length=36, unique=True, default=new_id)
    pipeline = models.ForeignKey(Pipeline, on_delete=models.CASCADE, related_name="updates")
    state = models.CharField(max_length=24, default="QUEUED")
    cause = models.CharField(max_length=32, default="API_CALL")
    created_ms = models.BigIntegerField()
    ended_ms = models.BigIntegerField(null=True)
    options = models.JSONField(default=dict)
    spec = models.JSONField(help_text="The pipeline's settings as this update found them.")
    stop_requested = models.BooleanField(default=False)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["pipeline"],
                condition=Q(state__in=ACTIVE_STATES),
                name="one_active_update_per_pipeline",
            ),
            models.CheckConstraint(
                condition=Q(state__in=ACTIVE_STATES + FINAL_STATES), name="update_state_is_known"
            ),
        ]
        indexes: ClassVar = [models.Index(fields=["pipeline", "-seq"])]

    def __str__(self) -> str:
        return f"{self.pipeline_id}/{self.id} {self.state}"

    @property
    def active(self) -> bool:
        """Whether the update still may change data."""
        return self.state in ACTIVE_STATES


class Event(models.Model):
    """One line of a pipeline's event log; `body` is the event in the API's own shape."""

    seq = models.BigAutoField(primary_key=True)
    id = models.CharField(max_length=36, unique=True, default=new_id)
    pipeline = models.ForeignKey(Pipeline, on_delete=models.CASCADE, related_name="events")
    update_id = models.CharField(max_length=36, blank=True, default="")
    timestamp_ms = models.BigIntegerField()
    level = models.CharField(max_length=8)
    event_type = models.CharField(max_length=40)
    body = models.JSONField()

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["pipeline", "-timestamp_ms", "-seq"]),
            models.Index(fields=["update_id"]),
        ]

    def __str__(self) -> str:
        return f"{self.event_type} {self.seq}"
