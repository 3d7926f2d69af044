"""A workspace: one Pipelines API endpoint. Secrets are references (`file:…`, `env:…`), never values."""

from django.db import models


class Workspace(models.Model):
    name = models.CharField(max_length=80, unique=True)
    url = models.URLField(max_length=300)
    token_ref = models.CharField(max_length=300)
    spark_remote_ref = models.CharField(max_length=300, blank=True)
    environment = models.CharField(max_length=20, default="development")
    polled_at = models.DateTimeField(null=True)
    poll_error = models.TextField(blank=True)

    def __str__(self) -> str:
        return self.name
