"""The server's own Django application: label and tables apart from the console's."""

from django.apps import AppConfig


class ServerConfig(AppConfig):
    name = "recovery.server"
    label = "pipelines_server"
    default_auto_field = "django.db.models.BigAutoField"
