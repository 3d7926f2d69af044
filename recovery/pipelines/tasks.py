"""Beat wakes this: the inventory is refreshed, workspace by workspace."""

import logging

from celery import shared_task

from recovery.models import Workspace
from recovery.pipelines.inventory import refresh
from recovery.pipelines.locks import only_poll

log = logging.getLogger(__name__)


@shared_task
def poll_workspaces() -> None:
    """Refresh every workspace that nobody polls at this moment. What fails is kept on the workspace's row."""
    for workspace_id in Workspace.objects.order_by("pk").values_list("pk", flat=True):
        with only_poll(workspace_id) as mine:
            if mine:
                refresh(workspace_id=workspace_id)
