"""People, their roles, invitations, service accounts and tokens. A secret is stored as its sha256 only."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from recovery.people.roles import ENVIRONMENTS, Right, Role

ROLES = [(r.value, r.value) for r in Role if r is not Role.SYSTEM]


class Person(models.Model):
    """`role` holds wherever no RoleIn says otherwise; `may_reset` off withholds resets from it."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="person")
    role = models.CharField(max_length=20, choices=ROLES)
    may_reset = models.BooleanField(default=True)
    service = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"{self.user} ({self.role})"


class RoleIn(models.Model):
    """A role in one environment, instead of the person's default one."""

    person = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="roles_in")
    environment = models.CharField(max_length=20, choices=[(e, e) for e in ENVIRONMENTS])
    role = models.CharField(max_length=20, choices=ROLES)
    may_reset = models.BooleanField(default=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["person", "environment"], name="one_role_per_environment"),
            models.CheckConstraint(condition=Q(environment__in=ENVIRONMENTS), name="known_environment"),
        ]

    def __str__(self) -> str:
        return f"{self.role} in {self.environment}"


class Invitation(models.Model):
    """A link by which one person sets a password, once. Ended by use, by time, or by a newer one."""

    person = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="invitations")
    sha256 = models.CharField(max_length=64, unique=True)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"invitation of {self.person}"

    @property
    def good(self) -> bool:
        return self.used_at is None and self.ended_at is None and self.expires_at > timezone.now()


class Token(models.Model):
    """`rights` (names of Right) and `environments` narrow what its owner may; None: all of it."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=80)
    sha256 = models.CharField(max_length=64, unique=True)
    rights = models.JSONField(null=True)
    environments = models.JSONField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.name} of {self.user}"

    @property
    def right_words(self) -> list[str]:
        """What it may, in words; empty: all that its owner may."""
        return [Right[name].value for name in self.rights or ()]
