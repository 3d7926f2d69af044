"""Settings of commands that read and ask no Spark: the records alone, without pages, sign-in and workers.

`manage.py` chooses them; a command that comes to send something all the same finds Celery through REPRISE_CELERY.
"""

from console.settings import *  # noqa: F403

INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "recovery"]
MIDDLEWARE = []
