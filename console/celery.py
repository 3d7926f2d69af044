"""The Celery application: workers, beat and every process that wakes them."""

import os
from contextlib import AbstractContextManager
from typing import Any

from celery import Celery
from celery.signals import before_task_publish, task_postrun, task_prerun

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

app = Celery("reprise")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["recovery.workflow", "recovery.pipelines", "recovery.audit", "recovery.notify"])

REQUEST_HEADER = "reprise_request_id"
_open: dict[str, AbstractContextManager[None]] = {}


@before_task_publish.connect
def hand_on_request(headers: dict[str, Any], **_: Any) -> None:
    """The id of the request or command that woke the task goes along, also from task to task."""
    from recovery.audit.origin import current

    headers[REQUEST_HEADER] = current().request_id


@task_prerun.connect
def enter_task(task_id: str, task: Any, **_: Any) -> None:
    from recovery.audit.origin import Origin, acting_from

    request_id = str(getattr(task.request, REQUEST_HEADER, None) or "")[:64]
    entered = acting_from(Origin(request_id=request_id, task_id=task_id))
    entered.__enter__()
    _open[task_id] = entered


@task_postrun.connect
def leave_task(task_id: str, **_: Any) -> None:
    if entered := _open.pop(task_id, None):
        entered.__exit__(None, None, None)
