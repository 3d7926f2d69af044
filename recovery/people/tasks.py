"""What a worker does about people: the mail with a link for a forgotten password, and sessions that are over."""

from celery import shared_task
from django.apps import apps
from django.core.management import call_command

from recovery.people import password_reset


@shared_task(name="recovery.people.tasks.send_link", ignore_result=True, time_limit=60)
def send_link(email: str, place: str) -> None:
    """Mail a link to whom this address belongs, if to anybody."""
    password_reset.send_link(email=email, place=place)


@shared_task(name="recovery.people.tasks.clear_sessions", ignore_result=True)
def clear_sessions() -> None:
    """Remove sessions that are over, and what was noted of them for their owner's list."""
    call_command("clearsessions", verbosity=0)
    stored = apps.get_model("sessions", "Session").objects.values("session_key")
    apps.get_model("usersessions", "UserSession").objects.exclude(session_key__in=stored).delete()
