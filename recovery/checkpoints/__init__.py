"""Read, judge and build Structured Streaming checkpoints. Pure: fsspec in, frozen values out."""

from recovery.checkpoints.inspection import fingerprint, inspect, versions

__all__ = ["fingerprint", "inspect", "versions"]
