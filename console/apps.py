"""The console as a Django application: loads Celery with it, so that shared tasks find their broker."""

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    name = "console"

    def ready(self) -> None:
        from console import celery  # noqa: F401  (sets the current Celery app)
        from console.signing import trail

        trail.connect_signals()
