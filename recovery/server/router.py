"""Keeps the Pipelines API server's tables in a database of their own."""

from typing import Any

LABEL = "pipelines_server"


class ServerRouter:
    """Routes app `pipelines_server` to alias `pipelines`, everything else to `default`."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "pipelines" if model._meta.app_label == LABEL else None

    db_for_write = db_for_read

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        return (db == "pipelines") == (app_label == LABEL)
