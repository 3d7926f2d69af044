"""What a recovery kept before it changed anything: the pipeline's source, file by file, and the names of data files."""

from django.db import models

from recovery.models.recovery import Recovery
from recovery.models.step import Step


class KeptFile(models.Model):
    """One source file as the workspace held it when the backup step ran; `sha256` of `content`, as sealed. Of a stop
    step, a page of the data files that the table had (`workflow.noted_files`)."""

    recovery = models.ForeignKey(Recovery, on_delete=models.PROTECT, related_name="kept")
    step = models.ForeignKey(Step, on_delete=models.PROTECT, related_name="kept")
    path = models.CharField(max_length=1000)
    sha256 = models.CharField(max_length=64)
    content = models.BinaryField()

    class Meta:
        ordering = ["path"]
        constraints = [models.UniqueConstraint(fields=["step", "path"], name="one_copy_per_step_and_file")]

    def __str__(self) -> str:
        return f"{self.path} of R-{self.recovery_id}"
