"""The Celery application: workers, beat and every process that wakes them."""

import logging.config
import os
import time
from contextlib import ExitStack
from typing import Any

from celery import Celery, signals

from console.life import Pulse
from recovery import trace
from recovery.health import SENT_AT

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

app = Celery("reprise")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(
    [
        "recovery.workflow",
        "recovery.pipelines",
        "recovery.audit",
        "recovery.notify",
        "recovery.approvals",
        "recovery.people",
        "recovery.health",
        "recovery.streams",
    ]
)
app.steps["worker"].add(Pulse)

HEADER = "request_id"
_bound: dict[str, ExitStack] = {}  # task id -> the blocks that hold its request's id and its own


@signals.setup_logging.connect
def set_up_logging(**_: Any) -> None:
    """As every other process: Celery would write in a form of its own."""
    from django.conf import settings

    logging.config.dictConfig(settings.LOGGING)


@signals.before_task_publish.connect
def send_request_id(headers: dict[str, Any], **_: Any) -> None:
    """A message carries when it was sent, and the id of the request that sends it, also from task to task; what beat
    sends has none."""
    headers[SENT_AT] = time.time()
    if trace.current():
        headers[HEADER] = trace.current()


@signals.task_prerun.connect
def bind_request_id(task_id: str, task: Any, **_: Any) -> None:
    """The task belongs to the request that sent it, else to itself; its audit entries name it."""
    from recovery.audit.origin import ActOrigin, acting_from

    blocks = ExitStack()
    blocks.enter_context(
        trace.bound(str(task.request.get(HEADER) or f"task-{task_id.replace('-', '')[:12]}"))
    )
    blocks.enter_context(acting_from(ActOrigin(task_id=task_id)))
    _bound[task_id] = blocks


@signals.task_postrun.connect
def unbind_request_id(task_id: str, **_: Any) -> None:
    if blocks := _bound.pop(task_id, None):
        blocks.close()
