"""The sink that a query's progress describes. Pure: no I/O, no database.

Spark describes a sink by `toString` (SinkProgress): `FileSink[file:/t]`, `DeltaSink[/t]`, `ForeachBatchSink`, and of a
table of a connector its class and Java's identity of the object, another one in each run.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from recovery.checkpoints.uris import strip_file_scheme

_PLACED: Final = re.compile(r"\[([^`]{1,1000})\]")
_OBJECT: Final = re.compile(r"@[0-9a-f]+$")
_SCHEME: Final = re.compile(r"\[file:/+")


class SinkClass(StrEnum):
    """As Spark calls it, without packages. OTHER keeps no rows, or is not known: console, memory, noop."""

    FILES = "FileSink"
    DELTA = "DeltaSink"
    FUNCTION = "ForeachBatchSink"
    KAFKA = "KafkaTable"
    OTHER = ""


@dataclass(frozen=True)
class DescribedSink:
    """`description`: as Spark wrote it; `place`: the folder that it names, "" for none."""

    kind: SinkClass
    description: str
    place: str = ""

    @property
    def identity(self) -> str:
        """The same text for the same sink, however its folder is spelled and whichever run it is of."""
        return identify_sink(self.description)


def identify_sink(description: str) -> str:
    """The same text for the same sink, however its folder is spelled and whichever run it is of."""
    return _SCHEME.sub("[/", _OBJECT.sub("", description))


def read_sink(progress: object) -> DescribedSink:
    """Of a query's progress as Spark wrote it; OTHER where it tells none."""
    sink = progress.get("sink") if isinstance(progress, Mapping) else None
    description = str(sink.get("description") or "") if isinstance(sink, Mapping) else ""
    name = description.partition("[")[0].partition("@")[0].rpartition(".")[2].rpartition("$")[2]
    kind = next((kind for kind in SinkClass if kind and kind.value == name), SinkClass.OTHER)
    placed = _PLACED.search(description) if kind in (SinkClass.FILES, SinkClass.DELTA) else None
    place = strip_file_scheme(placed[1].rstrip("/")) if placed else ""
    return DescribedSink(kind, description, place)
