"""Adopted streams are asked by a worker whether they run."""

from celery import shared_task
from django.utils import timezone

from recovery.pipelines.locks import only_asking
from recovery.streams.running import ask_due


@shared_task
def ask_running() -> None:
    """Ask the running commands that are due, unless that is being done at this moment."""
    with only_asking() as mine:
        if mine:
            ask_due(timezone.now())
