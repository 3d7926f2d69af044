"""One guided procedure for one flow, from diagnosis to proof."""

from typing import ClassVar

from django.db import models
from django.db.models import Q

from recovery.contracts import codec
from recovery.contracts.choices import Choices, WorkProgress
from recovery.contracts.diagnosis import StoredDiagnosis
from recovery.contracts.facts import GatheredFacts
from recovery.contracts.measured import Measured
from recovery.models.listed import ListedQuerySet, OnLists
from recovery.models.pipeline import Flow

STATES = [
    "diagnosing",
    "planned",
    "awaiting_approval",
    "approved",
    "running",
    "verifying",
    "succeeded",
    "unproven",
    "failed",
    "needs_attention",
    "cancelled",
    "expired",
    "rolled_back",
]


class Recovery(OnLists):
    """`choices` is the wizard, saved step by step; `version` is compared and set on every move.

    `active` mirrors the state (the transition table says which states are open); the constraint
    makes a second open recovery of the same flow impossible, whoever asks. `owner` answers for it, by name: who opened
    it, until it is handed over; no one else is kept from acting.
    """

    flow = models.ForeignKey(Flow, on_delete=models.PROTECT, related_name="recoveries")
    state = models.CharField(max_length=20, default="diagnosing")
    active = models.BooleanField(default=True)
    version = models.PositiveIntegerField(default=0)
    strategy = models.CharField(max_length=20, blank=True)
    choices = models.JSONField(default=dict)
    diagnosis = models.JSONField(default=dict)
    facts = models.JSONField(default=dict)
    measured = models.JSONField(default=dict)
    reason = models.TextField(blank=True)
    created_by = models.CharField(max_length=150)
    owner = models.CharField(max_length=150, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True)

    on_lists = frozenset({"state", "active", "reason", "facts", "diagnosis"})
    objects: ClassVar[models.Manager["Recovery"]] = ListedQuerySet["Recovery"].as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["flow"], condition=Q(active=True), name="one_active_recovery"),
            models.CheckConstraint(condition=Q(state__in=STATES), name="known_recovery_state"),
        ]

    def __str__(self) -> str:
        return self.label

    @property
    def diagnosis_value(self) -> StoredDiagnosis:
        """Why it was opened, as a value."""
        return codec.read(StoredDiagnosis, self.diagnosis)

    @property
    def gathered(self) -> GatheredFacts:
        """What was gathered last, as a value; `facts` is how it is stored."""
        return codec.read(GatheredFacts, self.facts)

    @property
    def gathering(self) -> WorkProgress:
        """How far the newest gathering is, without what it gathered."""
        return codec.read(WorkProgress, self.facts)

    @property
    def proof(self) -> Measured | None:
        """What was measured last, as a value; None: nothing was. `measured` is how it is stored."""
        return codec.read(Measured, self.measured) if self.measured else None

    @property
    def label(self) -> str:
        return f"R-{self.pk}"

    @property
    def chosen(self) -> Choices:
        """What people have chosen, as a value; `choices` is how it is stored."""
        return codec.read(Choices, self.choices)
