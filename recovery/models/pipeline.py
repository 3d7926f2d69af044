"""Inventory: what the poller last saw of pipelines and their flows."""

from typing import ClassVar

from django.db import models

from recovery.contracts.diagnosis import ChainedError, read_chain
from recovery.models.listed import ListedQuerySet, OnLists
from recovery.models.workspace import Workspace


class Pipeline(OnLists):
    """`spec` is the API's own; `state` the API's pipeline state; `updates` newest first (API shape).

    `heads`: ids and states of `updates` as JSON, "" while something of them is still to be read; `seen_at`: when it was
    last asked for itself.

    `environment` is the one that holds; `wanted_environment` what the tag says since `wanted_since`, where a move to
    weaker rules waits (recovery/pipelines/retagging.py), else "".

    `judged`: how it is by its newest updates, `ok | failed | running | unknown`, "" before the first look; since
    `judged_since`; `failure`: the UpdateFailure of recovery/pipelines/failures.py until an update completes, else {};
    `failing_since`: when that row of failures began, through updates that run or are cancelled.
    """

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="pipelines")
    pipeline_id = models.CharField(max_length=80)
    name = models.CharField(max_length=300)
    environment = models.CharField(max_length=20)
    wanted_environment = models.CharField(max_length=20, blank=True, default="")
    wanted_since = models.DateTimeField(null=True)
    state = models.CharField(max_length=20)
    spec = models.JSONField(default=dict)
    updates = models.JSONField(default=list)
    seen_at = models.DateTimeField()
    heads = models.TextField(blank=True, default="")
    gone = models.BooleanField(default=False)
    judged = models.CharField(max_length=20, blank=True, default="")
    judged_since = models.DateTimeField(null=True)
    failure = models.JSONField(default=dict)
    failing_since = models.DateTimeField(null=True)

    on_lists = frozenset({"name", "environment", "gone", "judged", "judged_since", "failure"})
    pipeline_path = "pk"
    objects: ClassVar[models.Manager["Pipeline"]] = ListedQuerySet["Pipeline"].as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "pipeline_id"], name="one_row_per_pipeline")
        ]

    def __str__(self) -> str:
        return self.name


class Flow(OnLists):
    """One flow. `name` is `origin.flow_name`, verbatim; `short` its last part.

    state: ok | failed | running | stopped | stale | empty | unknown. `error` is the failing event's cause chain,
    outermost first: [{class_name, message}], of people's code with `file` and `line` too.
    `behind_since`: since when its dataset does not show what it is computed from, `behind_why` how that came
    (`downstream.BehindReason`, "" where it does), `behind_update` the update that left it so. `good_at` and
    `renewed_at`, `rewritten_at`: as `downstream.DatasetFreshness` has them; readers in other pipelines are judged by
    them.
    `table_doubt`: what its recoveries say of its table, a `contracts.names.DoubtCode`, "" for nothing;
    `differs_since`: since when it is known that its table differs, until that is settled; people were notified then.
    `fed_again_at`: when the recovery `fed_again_by` (its number) last brought rows a second time, or may have, into a
    table that it reads as a stream.
    `below_refresh`: the last refresh below it that was asked for outside of a recovery (`refreshing.BelowRefresh`), {}
    for none; `below_count`: the last count there (`counting_below.BelowCount`), {} for none. `sink_memory`:
    `contracts.updates.SinkMemory` of its file table, {} where there is nothing to remember. `failure_memory`:
    `failing.FailureMemory`, {} where it does not fail. `query_id`: that of its newest progress, "" before the first
    one and once the code has the flow no more.

    What its code says of where it reads from is in its `sources`. `code_digest`: of the code that was studied for that
    last, "" where no one noted it; `code_seen_at`: when Reprise last looked at the code; `code_problem`: why it could
    not be studied then, "" where it could; `code_due_at`: when it looks again (recovery/workflow/learning.py).
    """

    pipeline = models.ForeignKey(Pipeline, on_delete=models.CASCADE, related_name="flows")
    name = models.CharField(max_length=400)
    short = models.CharField(max_length=200)
    dataset = models.CharField(max_length=400, blank=True)
    flow_type = models.CharField(max_length=30, blank=True)
    streaming = models.BooleanField(default=True)
    inputs = models.JSONField(default=list)
    state = models.CharField(max_length=20, default="unknown")
    failing_since = models.DateTimeField(null=True)
    behind_since = models.DateTimeField(null=True)
    behind_why = models.CharField(max_length=20, blank=True, default="")
    behind_update = models.CharField(max_length=80, blank=True, default="")
    good_at = models.DateTimeField(null=True)
    renewed_at = models.DateTimeField(null=True)
    rewritten_at = models.DateTimeField(null=True)
    table_doubt = models.CharField(max_length=20, blank=True, default="")
    fed_again_at = models.DateTimeField(null=True)
    fed_again_by = models.BigIntegerField(null=True)
    differs_since = models.DateTimeField(null=True)
    sink_memory = models.JSONField(default=dict)
    failure_memory = models.JSONField(default=dict)
    below_refresh = models.JSONField(default=dict)
    below_count = models.JSONField(default=dict)
    failed_update = models.CharField(max_length=80, blank=True)
    condition = models.CharField(max_length=200, blank=True)
    error = models.JSONField(default=list)
    last_batch = models.BigIntegerField(null=True)
    last_progress = models.JSONField(default=dict)
    query_id = models.CharField(max_length=80, blank=True, default="", db_index=True)
    history = models.JSONField(default=list)  # last five outcomes, oldest first: ok|failed|stopped|none
    updated_at = models.DateTimeField()
    code_digest = models.CharField(max_length=64, blank=True, default="")
    code_seen_at = models.DateTimeField(null=True)
    code_problem = models.TextField(blank=True, default="")
    code_due_at = models.DateTimeField(null=True)

    on_lists = frozenset(
        {
            "name", "short", "dataset", "streaming", "state", "failing_since", "behind_since", "behind_why",
            "condition", "error", "last_batch", "last_progress", "history", "code_problem",
            "table_doubt",
        }
    )  # fmt: skip
    pipeline_path = "pipeline"
    objects: ClassVar[models.Manager["Flow"]] = ListedQuerySet["Flow"].as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["pipeline", "name"], name="one_row_per_flow")]

    def __str__(self) -> str:
        return self.name

    @property
    def causes(self) -> tuple[ChainedError, ...]:
        """Why it fails, outermost first; `error` is how it is stored."""
        return read_chain(self.error)
