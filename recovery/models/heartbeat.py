"""When a worker or beat last said that it lives: one row a process, written by that process alone."""

from django.db import models


class Heartbeat(models.Model):
    """`part` is worker or beat, `process` its `host:pid`."""

    part = models.CharField(max_length=20)
    process = models.CharField(max_length=200, unique=True)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.part} {self.process}"
