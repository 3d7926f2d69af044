"""Pages are asked too: the same fixtures as theirs."""

from tests.unit.pages.conftest import own_cache, quick_passwords, static_files

__all__ = ["own_cache", "quick_passwords", "static_files"]
