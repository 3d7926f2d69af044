"""What lists show of flows and pipelines: a narrow copy, so that a list of thousands reads no error and no progress."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final, TypeVar

from django.apps import apps
from django.db import connection, models, transaction
from django.dispatch import Signal

rows_changed: Final = Signal()
"""Sent with `pipelines`, the keys of those concerned, within the transaction that changed a row which lists show."""
page_changed: Final = Signal()
"""Sent after a change to something else that the page of the list shows: a recovery, a workspace."""


class OnLists(models.Model):
    """A model of which lists show something: `on_lists` are its columns that they show, or derive something from;
    `pipeline_path` leads to the key of the pipeline whose rows are written again then, None where it has none."""

    on_lists: ClassVar[frozenset[str]] = frozenset()
    pipeline_path: ClassVar[str | None] = None

    class Meta:
        abstract = True


M = TypeVar("M", bound=OnLists)


def hold_pipelines(keys: Iterable[int]) -> None:
    """Lock the rows of these pipelines until the transaction ends; in it alone.

    Whoever changes something that lists show takes this lock before the change: two of them derive the list one after
    the other, and the second one sees what the first has written. Before the change, always in this order, so that
    they do not stand in each other's way. SQLite has one writer at a time.
    """
    if connection.features.has_select_for_update:
        rows = apps.get_model("recovery", "Pipeline")._base_manager.select_for_update(no_key=True)
        list(rows.filter(pk__in=set(keys)).order_by("pk").values_list("pk"))


@contextmanager
def _one_transaction() -> Iterator[None]:
    """The caller's, where it has one."""
    if connection.in_atomic_block:
        yield
    else:
        with transaction.atomic():
            yield


class ListedQuerySet(models.QuerySet[M]):
    """Tells of every change to a column that lists show, so that no one who writes one has to think of lists."""

    def update(self, **values: Any) -> int:
        """As Django's, and the lists with it; in the caller's transaction, where it has one."""
        path = self.model.pipeline_path
        if not values.keys() & self.model.on_lists:
            return super().update(**values)
        if path is None:
            changed = super().update(**values)
            page_changed.send(self.model)
            return changed
        with _one_transaction():
            concerned = list(self.order_by().values_list(path, flat=True).distinct())
            hold_pipelines(concerned)
            changed = super().update(**values)
            if concerned:
                rows_changed.send(self.model, pipelines=concerned)
        return changed


class Listed(models.Model):
    """One row of the list: a flow, or (`flow` None) a pipeline that no flow speaks for. Of pipelines that exist only.

    Derived from the rows of flow, pipeline and sources by `recovery/pipelines/listing.py`, which alone writes it.
    `broken`: somebody has to look at it, whatever its input does. `at_risk_from`: from when on its unread input is at
    risk, unless it moves; `readable_until`: as `retention.of` has it, None for no deadline and for what is gone.
    `doubt`: what recoveries say of the table of a flow that is ok or runs (`Flow.table_doubt`), "" of every other.
    `says`: what is wrong by its error, in a sentence. `has_flows`: False for a pipeline of which no flow is known.
    `history`: outcomes of the last updates, oldest first, joined by commas.
    `searched`: everything of it that a search looks in, in lower case.
    """

    pipeline = models.ForeignKey("recovery.Pipeline", on_delete=models.CASCADE, related_name="listed")
    flow = models.OneToOneField("recovery.Flow", on_delete=models.CASCADE, related_name="listed", null=True)
    environment = models.CharField(max_length=20)
    state = models.CharField(max_length=20)
    broken = models.BooleanField()
    since = models.DateTimeField(null=True)
    at_risk_from = models.DateTimeField(null=True)
    readable_until = models.DateTimeField(null=True)
    committed_at = models.DateTimeField(null=True)
    last_batch = models.BigIntegerField(null=True)
    streaming = models.BooleanField()
    behind_why = models.CharField(max_length=20, blank=True)
    doubt = models.CharField(max_length=20, blank=True, default="")
    condition = models.CharField(max_length=200, blank=True)
    history = models.CharField(max_length=100, blank=True)
    name = models.CharField(max_length=400)
    short = models.CharField(max_length=300)
    pipeline_name = models.CharField(max_length=300)
    has_flows = models.BooleanField(default=True)
    says = models.TextField(blank=True)
    searched = models.TextField(blank=True)

    class Meta:
        indexes = [
            # all that the counts and the most urgent rows need: they read no row
            models.Index(
                fields=[
                    "environment", "broken", "at_risk_from", "doubt", "flow", "state", "condition", "since",
                    "name",
                ],
                name="listed_counts",
            ),
            models.Index(fields=["condition"], name="listed_condition"),
            models.Index(fields=["at_risk_from"], name="listed_at_risk_from"),
            models.Index(fields=["readable_until"], name="listed_readable_until"),
        ]  # fmt: skip
        constraints = [
            models.UniqueConstraint(
                fields=["pipeline"], condition=models.Q(flow=None), name="one_listed_row_per_pipeline"
            )
        ]

    def __str__(self) -> str:
        return self.short


class ListVersion(models.Model):
    """Counts the changes of all that the list's page shows, in its only row (key 1): what an open page asks for."""

    number = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return str(self.number)
