"""The audit log: append-only, each entry hashed over the one before it."""

from typing import Any

from django.db import models


class AuditEntry(models.Model):
    """`seq` counts from 1 without holes. Names are text, so that history outlives accounts."""

    seq = models.PositiveBigIntegerField(unique=True)
    at = models.DateTimeField()
    actor = models.CharField(max_length=150)
    role = models.CharField(max_length=20)
    via = models.CharField(max_length=20)
    request_id = models.CharField(max_length=64, blank=True)
    action = models.CharField(max_length=60)
    outcome = models.CharField(max_length=10)  # done | denied | failed | unknown
    target_kind = models.CharField(max_length=30, blank=True)
    target = models.CharField(max_length=400, blank=True)
    recovery = models.CharField(max_length=20, blank=True)
    says = models.TextField()
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    prev_hash = models.CharField(max_length=64)
    hash = models.CharField(max_length=64, unique=True)

    class Meta:
        ordering = ["-seq"]

    def __str__(self) -> str:
        return f"{self.seq} {self.action} {self.outcome}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Insert only. Raises TypeError on a change."""
        if not self._state.adding:
            raise TypeError("An audit entry is never changed.")
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        """Raises TypeError always."""
        raise TypeError("An audit entry is never deleted.")
