"""Read, judge and build Structured Streaming checkpoints. Pure: fsspec in, frozen values out.

What reads storage comes with the first use of one of the functions below: who only needs the shapes (`report`) starts
without.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recovery.checkpoints.inspection import inspect_checkpoint, list_versions, read_fingerprint

__all__ = ["inspect_checkpoint", "list_versions", "read_fingerprint"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("recovery.checkpoints.inspection"), name)
    raise AttributeError(f"module {__name__} has no attribute {name}")
