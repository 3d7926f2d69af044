"""The inventory is refreshed: by beat, each workspace by a task of its own, and at once where a recovery has ended."""

import logging

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from recovery.models import Flow, Workspace
from recovery.pipelines import looks
from recovery.pipelines.inventory import due_workspaces, refresh
from recovery.pipelines.locks import only_look, only_poll
from recovery.pipelines.workspace_asking import keep_test

log = logging.getLogger(__name__)
TEST_SECONDS = 3600
"""How often every workspace is tested by itself."""


@shared_task
def poll_workspaces() -> None:
    """Wake a poll of each workspace that is due; a slow one keeps no other waiting."""
    for workspace_id in due_workspaces(timezone.now()):
        poll_due_workspace.apply_async((workspace_id,), expires=settings.REPRISE_POLL_SECONDS * 2)


@shared_task
def poll_due_workspace(workspace_id: int) -> None:
    """Refresh a workspace, unless that is being done at this moment. What fails is kept on the workspace's row."""
    with only_poll(workspace_id) as mine:
        if mine:
            refresh(workspace_id=workspace_id)


@shared_task
def poll_workspace(workspace_id: int, tries: int = 60) -> None:
    """Refresh one workspace now: something has just happened there. A poll under way may have asked too early, so this
    one comes after it, as long as that takes no more than so many tries a second apart."""
    with only_poll(workspace_id) as mine:
        if mine:
            refresh(workspace_id=workspace_id)
        elif tries > 0:
            poll_workspace.apply_async((workspace_id, tries - 1), countdown=1)


@shared_task
def test_workspace(workspace_id: int) -> None:
    """Ask a workspace the questions of its test, and keep the answers beside it."""
    keep_test(workspace_id)


@shared_task
def test_workspaces() -> None:
    """Wake a test of each workspace that is polled, each hour; a slow one keeps no other waiting."""
    for workspace_id in Workspace.objects.active().order_by("pk").values_list("pk", flat=True):
        test_workspace.apply_async((workspace_id,), expires=TEST_SECONDS)


@shared_task
def look_at_inputs() -> None:
    """Wake a look at each workspace; one that is slow to answer keeps no other waiting."""
    for workspace_id in looks.workspaces():
        look_at_workspace.apply_async((workspace_id,), expires=settings.REPRISE_RETENTION_SECONDS)


@shared_task
def look_at_workspace(workspace_id: int) -> None:
    """Look at the unread input of some flows of a workspace, unless that is being done at this moment."""
    with only_look(workspace_id) as mine:
        if mine:
            looks.look_round(workspace_id)


@shared_task
def look_at_flow(flow_id: int) -> None:
    """Look at the unread input of one flow now: its recovery has just ended."""
    looks.look(Flow.objects.select_related("pipeline__workspace").get(pk=flow_id))
