"""Celery's wake-ups for approvals; the database says what is to be done."""

from celery import shared_task

from recovery.approvals import actions


@shared_task(name="recovery.approvals.tasks.expire")
def expire() -> None:
    """Write down that requests have expired; by time they had already."""
    actions.expire_requests()
