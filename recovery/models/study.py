"""What Spark said of a flow's code and rows, kept for the minutes in which it is asked the same again."""

from django.db import models

from recovery.models.pipeline import Flow


class KeptStudy(models.Model):
    """One answer. `key`: digest of everything that it rests on (`workflow.kept_studies`). `answer` is encrypted: the
    options of a reader may hold passwords."""

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="kept_studies")
    key = models.CharField(max_length=64)
    answer = models.TextField()
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["flow", "key"], name="one_answer_for_each_key")]

    def __str__(self) -> str:
        return f"study {self.key[:8]}"
