"""The inputs of a plan beside the sources of a checkpoint: which is which."""

from collections.abc import Mapping
from typing import Any

from recovery.checkpoints.report import CheckpointReport, SourceProgress


def of_files(source: Mapping[str, Any]) -> bool:
    """Whether it is a file source; plans of before the other kinds do not say."""
    return bool(source.get("kind", "files") == "files")


def is_named(source: Mapping[str, Any]) -> bool:
    """Whether the checkpoint knows it by a name, and not by its place."""
    return isinstance(source["source"], str) and not source["source"].isdigit()


def held_of(report: CheckpointReport, n: int, source: Mapping[str, Any]) -> SourceProgress | None:
    """The source of a checkpoint that is the plan's `n`th input: by its name, where the checkpoint knows names (they
    may stand there in another order), else by its place."""
    if is_named(source):
        return next((s for s in report.sources if s.name == source["source"]), None)
    return next((s for s in report.sources if s.index == n), None)
