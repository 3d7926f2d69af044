"""Settings by which a request says that its code is a plain program. Pure: both sides of a question know them."""

from collections.abc import Mapping
from typing import Final

ENGINE: Final = "reprise.engine"
PLAIN: Final = "structured-streaming"
ARGUMENTS: Final = "reprise.arguments"
CHECKPOINT: Final = "reprise.checkpoint"
RUNNER: Final = "reprise.runner"
"""Digest of what starts, stops and watches the stream."""
FUNCTION: Final = "foreachbatch"
"""The format of a sink that a function of the program writes."""


def is_plain_program(spec: Mapping[str, object]) -> bool:
    """Is this pipeline, by its settings, a plain program?"""
    configuration = spec.get("configuration")
    return isinstance(configuration, Mapping) and configuration.get(ENGINE) == PLAIN
