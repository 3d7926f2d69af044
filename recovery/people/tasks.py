"""What a worker does about people: the mail with a link for somebody who forgot their password."""

from celery import shared_task

from recovery.people import forgotten


@shared_task(name="recovery.people.tasks.send_link", ignore_result=True, time_limit=60)
def send_link(email: str, place: str) -> None:
    """Mail a link to whom this address belongs, if to anybody."""
    forgotten.send_link(email=email, place=place)
