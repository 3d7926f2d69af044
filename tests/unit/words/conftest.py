"""Pages are rendered here as in `tests/unit/pages`."""

from tests.unit.pages.conftest import own_cache, quick_passwords, responder, static_files

__all__ = ["own_cache", "quick_passwords", "responder", "static_files"]
