"""Where a flow reads from, as its code was studied, and what still waits there."""

from typing import ClassVar

from django.db import models

from recovery.models.listed import ListedQuerySet, OnLists
from recovery.models.pipeline import Flow


class FlowInput(OnLists):
    """One source of a flow, in the order of Spark's offset log, and the last look at it.

    `place` is for people. `reader` is the reader in the code (recovery/contracts/readers.py) as JSON, encrypted: its
    options may be passwords (recovery/pipelines/inputs.py). `table`: where the flow's own table lies, "" where no one
    knows. `topic_ids`: ids of Kafka topics as they were when the position in them began; `other_ids`: ids that were
    seen since in their place.

    The last look was at `asked_at`, and `problem` is why it saw nothing; the last that saw something at `seen_at`.
    `position` is Spark's offset line, there since `stands_since`; `readable`, `why` and `until` are
    `sources.base.SourceRetention`; `unread` and `lost` are {rows, files, bytes: {value, exact, why}} as far as they are
    known.
    """

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="sources")
    index = models.PositiveSmallIntegerField()
    kind = models.CharField(max_length=30)
    place = models.CharField(max_length=500)
    reader = models.TextField()
    table = models.CharField(max_length=1000, blank=True)
    noted_at = models.DateTimeField()
    topic_ids = models.JSONField(default=dict)
    other_ids = models.JSONField(default=dict)
    asked_at = models.DateTimeField(null=True)
    seen_at = models.DateTimeField(null=True)
    position = models.TextField(null=True)
    label = models.CharField(max_length=500, blank=True)
    stands_since = models.DateTimeField(null=True)
    readable = models.BooleanField(null=True)
    why = models.TextField(blank=True)
    until = models.DateTimeField(null=True)
    unread = models.JSONField(default=dict)
    lost = models.JSONField(default=dict)
    problem = models.TextField(blank=True)

    on_lists = frozenset({"kind", "place", "seen_at", "stands_since", "readable", "until"})
    pipeline_path = "flow__pipeline"
    objects: ClassVar[models.Manager["FlowInput"]] = ListedQuerySet["FlowInput"].as_manager()

    class Meta:
        ordering = ["flow", "index"]
        constraints = [models.UniqueConstraint(fields=["flow", "index"], name="one_row_per_source")]

    def __str__(self) -> str:
        return f"{self.place} of {self.flow_id}"
