"""The recovery rooms as one Django application."""

from django.apps import AppConfig


class RecoveryConfig(AppConfig):
    name = "recovery"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Lists follow the rows that they show."""
        from recovery.pipelines.follow import follow

        follow()
