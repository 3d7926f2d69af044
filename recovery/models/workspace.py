"""A workspace: one Pipelines API endpoint, or plain streams. Secrets are references (`file:…`), or encrypted values."""

from django.db import models

from recovery.models.listed import ListedQuerySet, OnLists


class WorkspaceQuerySet(ListedQuerySet["Workspace"]):
    """Lists of workspaces by whether anybody may still speak to them."""

    def kept(self) -> "WorkspaceQuerySet":
        """Those that were not removed, switched off ones too."""
        return self.filter(removed_at=None)

    def active(self) -> "WorkspaceQuerySet":
        """Those that are polled: neither switched off nor removed."""
        return self.filter(removed_at=None, on=True)


class Workspace(OnLists):
    """`kind`: `pipelines`, or `streams`: plain streams, which people adopt, with the event logs in the folders
    `event_logs`; it has neither address nor token.

    `token_ref` or `token_kept` (encrypted, `recovery/encryption.py`) holds the token.

    `questions_url`: the Pipelines API server of Reprise that runs its code for studies and counts, "" for none; with a
    token of its own (`questions_token_ref`, `questions_token_kept`; both empty: the workspace's, where it is the same
    server), and the name by which that server knows the workspace's Spark (`questions_spark`, "": its own driver).

    A switched off workspace is not polled and its flows are not listed. A removed one (`removed_at`) has no secret any
    more and keeps its recoveries. `tested` is the last test (`pipelines.workspace_answers.WorkspaceTest`), {} before
    the first; `test_asked_at`: a worker is at it since then. `next_poll_at`: it rests until then, None for no longer
    than usual. `roots`: places below which checkpoints and tables of its pipelines are read, as
    `checkpoints.access.check_root` keeps them; [] for all that the instance may read.
    `real_roots`: where those on this machine led when they were named, by root: pipelines' code may put a link in the
    place of a folder, so no reading follows it.
    """

    name = models.CharField(max_length=80, unique=True)
    kind = models.CharField(max_length=20, default="pipelines")
    url = models.URLField(max_length=300, blank=True)
    event_logs = models.JSONField(default=list)
    token_ref = models.CharField(max_length=300, blank=True)
    token_kept = models.TextField(blank=True, default="")
    questions_url = models.URLField(max_length=300, blank=True, default="")
    questions_token_ref = models.CharField(max_length=300, blank=True, default="")
    questions_token_kept = models.TextField(blank=True, default="")
    questions_spark = models.CharField(max_length=80, blank=True, default="")
    environment = models.CharField(max_length=20, default="production")
    on = models.BooleanField(default=True)
    removed_at = models.DateTimeField(null=True)
    polled_at = models.DateTimeField(null=True)
    poll_error = models.TextField(blank=True)
    next_poll_at = models.DateTimeField(null=True)
    tested = models.JSONField(default=dict)
    test_asked_at = models.DateTimeField(null=True)
    roots = models.JSONField(default=list)
    real_roots = models.JSONField(default=dict)

    on_lists = frozenset({"name", "on", "removed_at", "poll_error"})
    objects = WorkspaceQuerySet.as_manager()

    def __str__(self) -> str:
        return self.name

    @property
    def has_streams(self) -> bool:
        """Are its flows plain streams?"""
        return self.kind == "streams"

    @property
    def what_runs(self) -> str:
        """What is started and stopped: `stream` or `pipeline`."""
        return "stream" if self.has_streams else "pipeline"

    @property
    def run_noun(self) -> str:
        """What people call one run of what it holds: `run` of a plain stream, `update` of a pipeline."""
        return "run" if self.has_streams else "update"

    @property
    def active(self) -> bool:
        """May anybody speak to it?"""
        return self.on and self.removed_at is None
