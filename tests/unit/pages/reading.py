"""Somebody signed in, and a page as text."""

import re
import time
from typing import Any

from django.contrib.auth.models import User
from django.test import Client


def text(client: Client, path: str) -> str:
    """A page with its tags; each stretch of white space is one space, as a browser shows it."""
    return " ".join(client.get(path).content.decode().split())


def plain(answer: Any) -> str:
    """An answer without its tags, on one line."""
    body = answer.content.decode().replace("<wbr>", "")
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body))


def signed_in(user: User, *, fresh: bool = True) -> Client:
    client = Client()
    client.force_login(user)
    if fresh:
        proved(client, user, time.time())
    return client


def proved(client: Client, user: User, at: float) -> None:
    """As a password given at that time leaves the session."""
    session = client.session
    session["account_authentication_methods"] = [{"method": "password", "at": at}]
    session["account_authentication_methods_user"] = str(user.pk)
    session.save()
