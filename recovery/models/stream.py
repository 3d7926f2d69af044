"""A plain Structured Streaming query that was adopted, what started it, and how far event logs were read."""

from typing import Final

from django.db import models

from recovery.models.pipeline import Pipeline

COMMAND: Final = "command"
"""The runner of a stream that an admin's commands start, stop and ask."""


class Stream(models.Model):
    """What people said of an adopted stream; its pipeline's row, with one flow, stands for it everywhere else.

    `checkpoint`, `sink`, `event_log`, `program`: paths or URLs, "" where nobody said. `query_ids`: those that its
    checkpoint has had, the newest last. `runner`: `by-hand | command`; `start`, `stop`, `running`: the words of each
    command. `owner`: whom to tell and to ask. `running_answer`: what the running command answered last
    (`streams.running.RunningStatus`), when it was asked, since when it answers so, and why it is not known. `signs`:
    what is odd about it (`streams.signs.Sign`).
    """

    pipeline = models.OneToOneField(Pipeline, on_delete=models.CASCADE, related_name="stream")
    checkpoint = models.CharField(max_length=1000)
    sink = models.CharField(max_length=1000, blank=True, default="")
    event_log = models.CharField(max_length=1000, blank=True, default="")
    program = models.CharField(max_length=1000, blank=True, default="")
    arguments = models.JSONField(default=list)
    spark_python = models.CharField(max_length=1000, blank=True, default="")
    query_ids = models.JSONField(default=list)
    runner = models.CharField(max_length=20, default="by-hand")
    start = models.JSONField(default=list)
    stop = models.JSONField(default=list)
    running = models.JSONField(default=list)
    owner = models.CharField(max_length=200, blank=True, default="")
    running_answer = models.CharField(max_length=20, blank=True, default="")
    running_asked_at = models.DateTimeField(null=True)
    running_since = models.DateTimeField(null=True)
    running_says = models.CharField(max_length=1000, blank=True, default="")
    signs = models.JSONField(default=list)
    adopted_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.pipeline.name

    @property
    def has_start_command(self) -> bool:
        """Only the commands of a runner `command` start and stop: else a person does."""
        return self.runner == COMMAND and bool(self.start)

    @property
    def has_stop_command(self) -> bool:
        return self.runner == COMMAND and bool(self.stop)

    @property
    def has_running_command(self) -> bool:
        """Also where a person starts and stops the stream: it is only asked."""
        return bool(self.running)


class StreamStart(models.Model):
    """One start of an adopted stream for a recovery: by its command, or (`by_hand`) by whoever does it.

    `update_id`: by which the recovery knows it; `batch_before`: the newest committed batch then, None for none;
    `batch_after`: the newest committed batch when it ended for the recovery, None where that is not kept; `source`: the
    program's files as they were, by path. `is_look`: nothing was started, a stream that runs is watched. `ended`: how
    it ended for the recovery, "" while it is waited for; `failure`: why it failed; `failure_class`: the class of that
    cause, "" where the text tells; `run_id`: of the run that came of it, where an event log tells.
    """

    stream = models.ForeignKey(Stream, on_delete=models.CASCADE, related_name="starts")
    update_id = models.CharField(max_length=80, unique=True)
    request_id = models.CharField(max_length=64, blank=True, default="")
    asked_at = models.DateTimeField()
    by_hand = models.BooleanField(default=False)
    is_look = models.BooleanField(default=False)
    folder = models.CharField(max_length=1000, blank=True, default="")
    batch_before = models.BigIntegerField(null=True)
    batch_after = models.BigIntegerField(null=True)
    query_id = models.CharField(max_length=80, blank=True, default="")
    source = models.JSONField(default=dict)
    run_id = models.CharField(max_length=80, blank=True, default="")
    ended = models.CharField(max_length=20, blank=True, default="")
    ended_at = models.DateTimeField(null=True)
    failure = models.TextField(blank=True, default="")
    failure_class = models.CharField(max_length=80, blank=True, default="")

    def __str__(self) -> str:
        return self.update_id

    @property
    def next_batch(self) -> int:
        """The batch whose commit shows that it came."""
        return 0 if self.batch_before is None else self.batch_before + 1

    @classmethod
    def find_by_hand(cls, update_id: str) -> "StreamStart | None":
        """The start that a person does; None where a command does it, or a running stream is only watched."""
        return cls.objects.filter(update_id=update_id, by_hand=True, is_look=False).first()


class LogFolder(models.Model):
    """When a folder of event logs was last read in whole, and why it could not be (`problem`: a code; `log`: the name
    of the one log that hinders it, "" for the folder itself)."""

    folder = models.CharField(max_length=1000, unique=True)
    looked_at = models.DateTimeField(null=True)
    problem = models.CharField(max_length=60, blank=True, default="")
    says = models.CharField(max_length=1000, blank=True, default="")
    log = models.CharField(max_length=400, blank=True, default="")
    problem_since = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.folder


class EventLog(models.Model):
    """How far one event log was read (`eventlogs.folders.LogProgress`), and whose it is. `queries`: `,id,id,`, to be
    searched; "" for a log without a stream. `application`: the name of its application. `moved_at`: when it was seen to
    have grown, by our clock; `skew_ms`: how far its driver's clock is ahead of ours, 0 where that is not known;
    `is_whole`: the last look read all that it held; `is_gone`: it was cleaned up before its end was read."""

    folder = models.CharField(max_length=1000)
    name = models.CharField(max_length=400)
    mtime_ms = models.BigIntegerField(null=True)
    size = models.BigIntegerField(null=True)
    is_done = models.BooleanField(default=False)
    is_whole = models.BooleanField(default=True)
    queries = models.TextField(blank=True, default="")
    application = models.CharField(max_length=300, blank=True, default="")
    tail = models.JSONField(default=dict)
    read_at = models.DateTimeField()
    moved_at = models.DateTimeField(null=True)
    skew_ms = models.BigIntegerField(default=0)
    is_gone = models.BooleanField(default=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["folder", "name"], name="one_row_per_event_log")]

    def __str__(self) -> str:
        return self.name
