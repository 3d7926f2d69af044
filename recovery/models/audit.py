"""The audit log and what stands beside it: signed anchors, checks, the review queue."""

from typing import Any

from django.db import models


class Kept(models.Model):
    """A row that is written once: the model refuses changes, and so do triggers in the database."""

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Insert only. Raises TypeError on a change."""
        if not self._state.adding:
            raise TypeError(f"An {self._meta.verbose_name} is never changed.")
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        """Raises TypeError always."""
        raise TypeError(f"An {self._meta.verbose_name} is never deleted.")


class AuditEntry(Kept):
    """`seq` counts from 1 without holes. Names are text, so that history outlives accounts.

    `format` says how `hash` is made (recovery/audit/chain.py), `seal` that Reprise wrote it
    (recovery/audit/entry_hmac.py). `behalf`: the person who asked, where a task acts. `session` is a short hash of
    the session's key, `address` the client's as the deployment trusts it.
    """

    seq = models.PositiveBigIntegerField(unique=True)
    format = models.PositiveSmallIntegerField(default=1)
    at = models.DateTimeField()
    actor = models.CharField(max_length=150)
    role = models.CharField(max_length=20)
    behalf = models.CharField(max_length=150, blank=True, default="")
    via = models.CharField(max_length=20)
    request_id = models.CharField(max_length=64, blank=True)
    task_id = models.CharField(max_length=64, blank=True, default="")
    session = models.CharField(max_length=16, blank=True, default="")
    address = models.CharField(max_length=45, blank=True, default="")
    action = models.CharField(max_length=60)
    outcome = models.CharField(max_length=10)  # done | denied | failed | unknown
    target_kind = models.CharField(max_length=30, blank=True)
    target = models.CharField(max_length=400, blank=True)
    recovery = models.CharField(max_length=20, blank=True)
    environment = models.CharField(max_length=20, blank=True, default="")
    says = models.TextField()
    reason = models.TextField(blank=True, default="")
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    prev_hash = models.CharField(max_length=64)
    hash = models.CharField(max_length=64, unique=True)
    seal = models.CharField(max_length=81, null=True)  # null: SQLite adds it in place

    class Meta:
        ordering = ["-seq"]
        verbose_name = "audit entry"
        indexes = [
            models.Index(fields=["actor", "seq"], name="audit_by_actor"),
            models.Index(fields=["behalf", "seq"], name="audit_by_behalf"),
            models.Index(fields=["actor", "action", "seq"], name="audit_by_actor_and_action"),
            models.Index(fields=["behalf", "action", "seq"], name="audit_by_behalf_and_action"),
            models.Index(fields=["action", "seq"], name="audit_by_action"),
            models.Index(fields=["outcome", "seq"], name="audit_by_outcome"),
            models.Index(fields=["recovery", "seq"], name="audit_by_recovery"),
            models.Index(fields=["environment", "seq"], name="audit_by_environment"),
            models.Index(fields=["request_id", "seq"], name="audit_by_request"),
            models.Index(fields=["at", "seq"], name="audit_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.seq} {self.action} {self.outcome}"

    @property
    def code(self) -> str:
        """The stable code of what happened: one for success, others for denied, failed and unknown."""
        return f"{self.action}.{self.outcome}"


class AuditAnchor(Kept):
    """A signed statement: at this time, entry `seq` had this hash.

    kind `mark`: a checkpoint of the chain. kind `cut`: entries up to `seq` were archived and may be gone;
    `detail` = {file, sha256, first, entries}. kind `key`: signing passed to another key; `detail` = {key_id, public}.
    """

    kind = models.CharField(max_length=10)
    seq = models.PositiveBigIntegerField()
    hash = models.CharField(max_length=64)
    at = models.DateTimeField()
    detail = models.JSONField(default=dict)
    key_id = models.CharField(max_length=16)
    signature = models.CharField(max_length=128)

    class Meta:
        ordering = ["seq", "pk"]
        verbose_name = "audit anchor"
        indexes = [models.Index(fields=["kind", "seq"], name="anchor_by_kind")]

    def __str__(self) -> str:
        return f"{self.kind} {self.seq}"


class AuditCheck(models.Model):
    """One check of the whole chain and what it found. `problems` as `verify` answers them."""

    at = models.DateTimeField()
    seconds = models.FloatField()
    by = models.CharField(max_length=150)
    ok = models.BooleanField()
    entries = models.PositiveBigIntegerField()
    last = models.PositiveBigIntegerField()
    problems = models.JSONField(default=list)

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M} {'whole' if self.ok else 'broken'}"


class AskedCheck(models.Model):
    """The one check of the chain that was asked for on a page, by its number: asked, under way, or ended.

    `alive_at`: last sign of life of the worker, None before one has begun. `read` of `total` entries. `problem`:
    why it ended without a result.
    """

    slot = models.PositiveSmallIntegerField(unique=True, default=1)
    number = models.PositiveBigIntegerField(default=0)
    by = models.CharField(max_length=150, blank=True)
    at = models.DateTimeField(null=True)
    alive_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    read = models.PositiveBigIntegerField(default=0)
    total = models.PositiveBigIntegerField(default=0)
    problem = models.CharField(max_length=400, blank=True)
    result = models.ForeignKey(AuditCheck, on_delete=models.SET_NULL, null=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(slot=1), name="one_asked_check")]

    def __str__(self) -> str:
        return f"check {self.number}"


class ReviewItem(Kept):
    """An act that somebody else has to look at afterwards; made in the transaction of its entry."""

    seq = models.PositiveBigIntegerField(unique=True)
    why = models.CharField(max_length=30)  # production | break-glass | environment | audit log
    at = models.DateTimeField()

    class Meta:
        ordering = ["seq"]
        verbose_name = "item to review"

    def __str__(self) -> str:
        return f"review of entry {self.seq}"


class SignOff(Kept):
    """Who looked at an act, when, and what they noted. One for each item, never changed."""

    item = models.OneToOneField(ReviewItem, on_delete=models.PROTECT, related_name="sign_off")
    by = models.CharField(max_length=150)
    note = models.TextField()
    at = models.DateTimeField()

    class Meta:
        verbose_name = "sign-off"

    def __str__(self) -> str:
        return f"{self.item} by {self.by}"


class TokenSighting(models.Model):
    """The first use of a token from an address within an hour; later ones of that hour are not audited."""

    token_id = models.BigIntegerField()
    hour = models.DateTimeField()
    address = models.CharField(max_length=45, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["token_id", "hour", "address"], name="one_sighting_per_hour")
        ]

    def __str__(self) -> str:
        return f"token {self.token_id} at {self.hour:%Y-%m-%d %H}h"


class DeniedTry(models.Model):
    """Denials of one person, act and target that are counted, and not yet written (recovery/audit/folding.py).

    `entry`: the number of the entry that the first of them got; `fields`: what it holds; `who`: a short hash of the
    person and the address. `more` came after it, the last at `until`.
    """

    key = models.CharField(max_length=64, unique=True)
    who = models.CharField(max_length=64)
    entry = models.PositiveBigIntegerField()
    fields = models.JSONField()
    more = models.PositiveIntegerField(default=0)
    since = models.DateTimeField(db_index=True)
    until = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["who", "since"], name="denied_by_whom")]

    def __str__(self) -> str:
        return f"{self.more} more like entry {self.entry}"
