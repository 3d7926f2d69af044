"""What people are told: channels, messages, and one delivery for each message and channel (the outbox)."""

import uuid

from django.db import models
from django.db.models import Q

CHANNEL_KINDS = ["mail", "webhook", "chat"]
DELIVERY_STATES = ["pending", "sending", "delivered", "failed"]


class Channel(models.Model):
    """One receiver. `address` is a mail address, an https URL, or a reference (`env:…`, `file:…`) to a URL.

    `secret_ref` is a reference to a webhook's signing secret, never the secret. `environments` and `events` say
    what is sent here. `failing_since`: the first failed try after the last good one; empty while it works.
    """

    name = models.CharField(max_length=80, unique=True)
    kind = models.CharField(max_length=10)
    address = models.CharField(max_length=500)
    secret_ref = models.CharField(max_length=300, blank=True)
    environments = models.JSONField(default=list)
    events = models.JSONField(default=list)
    on = models.BooleanField(default=True)
    failing_since = models.DateTimeField(null=True)
    delivered_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]
        constraints = [models.CheckConstraint(condition=Q(kind__in=CHANNEL_KINDS), name="known_channel_kind")]

    def __str__(self) -> str:
        return self.name


class Message(models.Model):
    """One thing that happened. `uid` is the id that receivers deduplicate by; `dedupe` lets it be written once.

    `body` = {title, facts: {name: text, number, bool or null}, link: path in the console, by}.
    """

    uid = models.UUIDField(default=uuid.uuid4, unique=True)
    event = models.CharField(max_length=40)
    recovery = models.CharField(max_length=20, blank=True)
    environment = models.CharField(max_length=20, blank=True)
    dedupe = models.CharField(max_length=200, unique=True)
    body = models.JSONField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"{self.event} {self.uid}"


class Delivery(models.Model):
    """A message on its way to a channel. `attempts` is the fence: a worker marks only the attempt it claimed.

    pending -> sending -> delivered, or back to pending with a later `next_at`, or failed once `give_up_at` is
    reached or the receiver refuses this very message. A claim that is older than `claimed_until` is anybody's.
    """

    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="deliveries")
    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="deliveries")
    state = models.CharField(max_length=10, default="pending")
    attempts = models.PositiveIntegerField(default=0)
    next_at = models.DateTimeField()
    give_up_at = models.DateTimeField()
    claimed_until = models.DateTimeField(null=True)
    delivered_at = models.DateTimeField(null=True)
    last_error = models.CharField(max_length=400, blank=True)

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(fields=["message", "channel"], name="one_delivery_per_channel"),
            models.CheckConstraint(condition=Q(state__in=DELIVERY_STATES), name="known_delivery_state"),
        ]
        indexes = [
            models.Index(
                fields=["next_at"], condition=Q(state__in=["pending", "sending"]), name="deliveries_that_wait"
            )
        ]

    def __str__(self) -> str:
        return f"{self.message_id} to {self.channel_id}"
