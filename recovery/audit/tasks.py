"""Beat's wake-ups for the audit log."""

from celery import shared_task

from recovery.audit import keeping


@shared_task(name="recovery.audit.tasks.sign")
def sign() -> None:
    """An anchor for what was written since the last one."""
    keeping.sign_or_report()


@shared_task(name="recovery.audit.tasks.verify_daily")
def verify_daily() -> None:
    """The whole chain, once a day."""
    keeping.verify_daily()
