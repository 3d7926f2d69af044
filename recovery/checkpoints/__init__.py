"""Read, judge and build Structured Streaming checkpoints. Pure: fsspec in, frozen values out.

What reads storage comes with the first use of `inspect`, `versions` or `fingerprint`: who only needs the shapes
(`report`) starts without.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recovery.checkpoints.inspection import fingerprint, inspect, versions

__all__ = ["fingerprint", "inspect", "versions"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("recovery.checkpoints.inspection"), name)
    raise AttributeError(f"module {__name__} has no attribute {name}")
