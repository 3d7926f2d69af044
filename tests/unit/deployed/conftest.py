"""Deployment is tested through Django's own client too, so it needs the static files that pages have."""

from tests.unit.pages.conftest import static_files

__all__ = ["static_files"]
