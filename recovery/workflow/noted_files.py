"""The data files that a file table had before a rerun: kept in pages beside the step that noted them.

The step's row holds how many there were and a digest; a table may have a million of them.
"""

import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from recovery.contracts import codec
from recovery.contracts.results import DataFilesResult, NotedFiles
from recovery.errors import Refused
from recovery.models import KeptFile, Step
from recovery.workflow.whole import below

PAGE: Final = 20_000  # files
NAME: Final = "data-files/"

Marks = Mapping[str, Sequence[int | None]]  # name of a data file below its table -> bytes, mtime in ms


@dataclass(frozen=True)
class EarlierDataFiles:
    """Decoded URIs of the data files that the table's log named before, and their marks; None: they were not marked."""

    files: tuple[str, ...]
    marks: Marks | None


def keep(step: Step, files: Sequence[str], marks: Marks | None, *, place: str) -> NotedFiles:
    """Write the pages of a step, in place of those of an earlier try. `place`: of the table."""
    digest, pages = hashlib.sha256(), 0
    for page in _pages(files):
        lines = b"".join(_line(path, (marks or {}).get(below(place, path))) for path in page)
        digest.update(lines)
        KeptFile.objects.update_or_create(
            step=step,
            path=f"{NAME}{pages:06}",
            defaults={
                "recovery": step.recovery,
                "sha256": hashlib.sha256(lines).hexdigest(),
                "content": zlib.compress(lines),
            },
        )
        pages += 1
    _kept(step).filter(path__gte=f"{NAME}{pages:06}").delete()
    return NotedFiles(files=len(files), sha256=digest.hexdigest(), marked=marks is not None)


def _pages(files: Sequence[str]) -> Iterator[Sequence[str]]:
    return (files[start : start + PAGE] for start in range(0, len(files), PAGE))


def _line(path: str, mark: Sequence[int | None] | None) -> bytes:
    return json.dumps([path, *(mark or ())]).encode() + b"\n"


def _kept(step: Step) -> Any:
    return KeptFile.objects.filter(step=step, path__startswith=NAME)


def read_noted_files(step: Step, *, place: str) -> EarlierDataFiles:
    """What a step noted; of one that ran before there were pages, what its row holds.

    Raises Refused where the pages are not those that were written.
    """
    result = codec.read(DataFilesResult, step.result)
    noted = result.noted_files
    if noted is None:
        marks_of_row = result.sink_marks
        marked = None if marks_of_row is None else {name: list(mark) for name, mark in marks_of_row.items()}
        return EarlierDataFiles(result.sink_files, marked)
    digest, files, marks = hashlib.sha256(), [], {}
    for content in _kept(step).order_by("path").values_list("content", flat=True).iterator(chunk_size=1):
        lines = zlib.decompress(bytes(content))
        digest.update(lines)
        for path, *mark in map(json.loads, lines.splitlines()):
            files.append(path)
            if mark:
                marks[below(place, path)] = mark
    if digest.hexdigest() != noted.sha256 or len(files) != noted.files:
        raise Refused(
            "The list of the table's data files from before the rerun is damaged, so nothing is known of the "
            "earlier rows. Check the database of the console.",
            code="noted_files_damaged",
        )
    return EarlierDataFiles(tuple(files), marks if noted.marked else None)
