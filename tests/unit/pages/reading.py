"""A page as text."""

from django.test import Client


def text(client: Client, path: str) -> str:
    return client.get(path).content.decode()
