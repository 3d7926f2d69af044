"""What a worker found out about the sources of a recovery, for the page of start offsets alone."""

from django.db import models

from recovery.models.recovery import Recovery


class PositionsLook(models.Model):
    """The answer of the newest look that came to its end: every source as a `contracts.positions.ShownSource`.

    Of a topic with a thousand partitions that is some 350 KB, so it stands beside the recovery, which lists and guards
    read again and again; `Recovery.choices["positions_look"]` holds what was asked, and when.
    """

    recovery = models.OneToOneField(
        Recovery, on_delete=models.CASCADE, primary_key=True, related_name="positions_look"
    )
    sources = models.JSONField(default=list)

    def __str__(self) -> str:
        return f"sources of R-{self.pk}"
