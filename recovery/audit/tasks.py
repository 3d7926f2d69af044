"""Beat's wake-ups for the audit log."""

from celery import shared_task

from recovery.audit import actions, checking, log_operations


@shared_task(name="recovery.audit.tasks.sign")
def sign() -> None:
    """Denials that were counted, an anchor for what was written since the last one, a check that was asked for."""
    actions.write_folded()
    log_operations.sign_or_report()
    checking.tend_check_requests()


@shared_task(name="recovery.audit.tasks.check_asked")
def check_asked(number: int) -> None:
    """The whole chain, because someone asked for it on a page."""
    checking.run_check(number)


@shared_task(name="recovery.audit.tasks.verify_daily")
def verify_daily() -> None:
    """The whole chain, once a day: the check itself looks whether a day has passed."""
    checking.check_daily()
