"""Pages are asked through Django's own client: middleware, rights, templates and static manifest are real."""

import fcntl
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.cache import cache
from django.core.management import call_command
from django.test import Client

from tests import factories


@pytest.fixture(scope="session", autouse=True)
def static_files() -> None:
    """The hashed files that `{% static %}` names, as a running instance has them.

    Workers of one run share a home (Django is set up in them before their conftest), so they take turns.
    """
    root = Path(settings.STATIC_ROOT)
    root.parent.mkdir(parents=True, exist_ok=True)
    with root.with_suffix(".turn").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not (root / "staticfiles.json").exists():
            call_command("collectstatic", interactive=False, verbosity=0)


@pytest.fixture(autouse=True)
def quick_passwords(settings: Any) -> None:
    """Passwords are hashed slowly on purpose; a test that makes people need not wait for it."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture(autouse=True)
def own_cache() -> None:
    """Limits are counted in the process's memory: no test may use up another's tries."""
    cache.clear()


@pytest.fixture
def responder(client: Client) -> Client:
    client.force_login(factories.person("responder"))
    return client
