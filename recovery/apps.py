"""The recovery rooms as one Django application."""

import resource

from django.apps import AppConfig


class RecoveryConfig(AppConfig):
    name = "recovery"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Lists follow the rows that they show; whatever is opened passes the instance's rules."""
        from recovery import reach
        from recovery.checkpoints import access
        from recovery.pipelines.follow import follow

        # A process of the same user could ask for a dump of this one's memory, secrets included.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        follow()
        access.install_access(reach.default)
