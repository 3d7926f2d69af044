"""The Celery application: workers, beat and every process that wakes them."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

app = Celery("reprise")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["recovery.workflow", "recovery.pipelines", "recovery.approvals"])
