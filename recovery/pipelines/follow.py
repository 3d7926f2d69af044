"""Lists follow the rows that they show. What derives them is imported with the first change, not at every start."""

from collections.abc import Iterable
from typing import Any

from django.db import connection
from django.db.models.signals import post_delete, post_migrate, post_save, pre_save

from recovery.models import Flow, FlowInput, Pipeline, Recovery, Workspace
from recovery.models.listed import hold_pipelines, page_changed, rows_changed


def follow() -> None:
    """Begin to follow every model that lists show something of."""
    rows_changed.connect(_on_rows, dispatch_uid="lists")
    page_changed.connect(_on_page, dispatch_uid="lists")
    for model in (Flow, Pipeline, FlowInput):
        pre_save.connect(_before_save, model, dispatch_uid="lists")
        post_save.connect(_on_save, model, dispatch_uid="lists")
        post_delete.connect(_on_delete, model, dispatch_uid="lists")
    for page_model in (Recovery, Workspace):
        post_save.connect(_on_page, page_model, dispatch_uid="lists")
    post_migrate.connect(_on_migrate, dispatch_uid="lists")


def _on_rows(sender: object, pipelines: Iterable[int], **_: Any) -> None:
    from recovery.pipelines import listing

    listing.derive_again(pipelines)


def _on_page(sender: object, **_: Any) -> None:
    from recovery.pipelines import listing

    listing.count_change()


def _before_save(sender: object, instance: Flow | Pipeline | FlowInput, raw: bool = False, **_: Any) -> None:
    if not raw and connection.in_atomic_block and (key := _pipeline_of(instance)) is not None:
        hold_pipelines([key])


def _on_save(sender: object, instance: Flow | Pipeline | FlowInput, raw: bool = False, **_: Any) -> None:
    if not raw:
        _on_rows(sender, [_pipeline_of(instance)])


def _on_delete(sender: object, instance: Flow | Pipeline | FlowInput, **_: Any) -> None:
    from recovery.pipelines import listing

    if not isinstance(instance, Pipeline):
        listing.derive_later(_pipeline_of(instance))


def _on_migrate(sender: Any, using: str = "default", **_: Any) -> None:
    """After each upgrade doubts and lists are derived by the rules and in the words of this version."""
    from recovery.pipelines import listing
    from recovery.workflow import doubting

    if using == "default" and sender.label == "recovery":
        doubting.keep_all_table_doubts()
        listing.keep_all_lists()


def _pipeline_of(row: Flow | Pipeline | FlowInput) -> int:
    if isinstance(row, FlowInput):
        return row.flow.pipeline_id
    return row.pk if isinstance(row, Pipeline) else row.pipeline_id
