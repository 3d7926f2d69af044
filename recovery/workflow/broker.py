"""Speaks to the broker: is it there before anything is changed, and wake a worker afterwards.

Celery comes with the first message: a command that only reads starts without it.
"""

import logging
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import transaction

from recovery.errors import Unreachable

if TYPE_CHECKING:
    from celery import Task

log = logging.getLogger(__name__)


def check() -> None:
    """Raise Unreachable unless the broker answers within 2 s. Call before a change that needs a worker.

    A broker may also hang: it takes the connection, and then says nothing.
    """
    from kombu.exceptions import OperationalError

    patience = {"socket_connect_timeout": 2, "socket_timeout": 2}
    try:
        with _app().connection_for_write(transport_options=patience) as connection:
            connection.ensure_connection(max_retries=0, timeout=2)
    except (OperationalError, OSError) as error:
        raise Unreachable(
            "The broker does not answer, so no worker could be woken. Nothing was changed. "
            "Start it (bin/demo does), then try again.",
            code="broker_down",
        ) from error


def _app() -> Any:
    """The instance's Celery application, set up."""
    return import_module(settings.REPRISE_CELERY).app


def send_on_commit(task: "Task[Any, Any]", *args: Any) -> None:
    """Wake a worker once the transaction is committed.

    When the broker dies in between, the row stays as it is and the reaper gives the wake-up again.
    """

    def send() -> None:
        from kombu.exceptions import OperationalError

        _app()
        try:
            task.delay(*args)
        except (OperationalError, OSError):
            log.exception("The wake-up %s%s was lost; the reaper gives it again.", task.name, args)

    transaction.on_commit(send)


def send_later(task: "Task[Any, Any]", pause: timedelta, *args: Any) -> None:
    """The same, after a pause. The row says the time too: beat wakes what is overdue (`watches.wake_overdue`)."""

    def send() -> None:
        from kombu.exceptions import OperationalError

        _app()
        try:
            task.apply_async(args, countdown=pause.total_seconds())
        except (OperationalError, OSError):
            log.exception("The wake-up %s%s was lost; beat gives it again.", task.name, args)

    transaction.on_commit(send)
